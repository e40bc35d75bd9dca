/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/image.h"

#include "base/error.h"
#include "image/seal.h"

#include <string.h>

/* What the mark alone tells. */
static int judge_mark(const struct mark *m)
{
	switch (m->kind) {
	case MARK_NONE:
	case MARK_SWAP:
	case MARK_OLD_SWAP:
		return E_NOIMAGE;
	case MARK_USWSUSP:
		return fault(E_FOREIGN, 0, "it holds an image of the old uswsusp");
	case MARK_KERNEL:
		return fault(E_FOREIGN, 0, "it holds an image of the kernel's own hibernation");
	case MARK_OTHER_SUSPEND:
		return fault(E_FOREIGN, 0, "it holds an image of another suspend program");
	case MARK_OURS:
	case MARK_DAMAGED:
		break;
	}
	return E_OK;
}

static bool place_on_disk(const struct image *im, uint64_t place)
{
	return place % RECORD_PAGE == 0 && place <= im->disk->size && im->disk->size - place >= RECORD_PAGE;
}

static int read_header(struct image *im)
{
	struct header *h = &im->header;

	if (!place_on_disk(im, im->mark.place))
		return fault(E_CORRUPT, 0, "mark: the fixed header's place lies outside the device");
	int r = disk_read(im->disk, im->scratch, RECORD_PAGE, im->mark.place);
	if (r == E_OK)
		r = header_get_root(h, im->scratch, im->disk->size);
	for (uint32_t i = 1; r == E_OK && i < h->pages; i++)
		r = disk_read(im->disk, im->scratch + (size_t)i * RECORD_PAGE, RECORD_PAGE, h->more[i - 1]);
	if (r == E_OK)
		r = header_get_rest(h, im->scratch, im->fingerprint);
	if (r != E_OK || !(h->features & FEATURE_SEALED))
		return r;
	/* Of the very bytes that were taken in: what is on the disk later may be something else. */
	r = crypt_start();
	if (r == E_OK)
		hash_all(im->scratch, (size_t)h->pages * RECORD_PAGE, h->hash);
	return r;
}

/* The header must be that of this mark on this area, not of an earlier image or a copied disk's. */
static int match_header(struct image *im)
{
	if (!id_equal(im->header.swap_uuid, im->mark.swap_uuid) || im->header.area_start != im->area_start)
		return fault(E_CORRUPT, 0, "fixed header: it belongs to another swap area");
	if (!id_equal(im->header.image_id, im->mark.image))
		return fault(E_CORRUPT, 0, "fixed header: it belongs to another image");
	if (im->header.page_size != im->mark.page_size)
		return fault(E_CORRUPT, 0, "fixed header: pages of %u bytes on an area of %u", im->header.page_size,
			     im->mark.page_size);
	return E_OK;
}

static int read_state(struct image *im)
{
	int r = disk_read(im->disk, im->scratch, RECORD_PAGE, im->header.state_place);

	if (r == E_OK)
		state_get(&im->state, im->scratch, im->header.image_id);
	return r;
}

int image_open(struct image *im, struct disk *disk, uint64_t area_start, uint8_t *scratch)
{
	memset(im, 0, sizeof *im);
	im->disk = disk;
	im->area_start = area_start;
	im->scratch = scratch;
	int r = mark_read(disk, area_start, scratch, &im->mark);
	if (r == E_OK)
		r = judge_mark(&im->mark);
	if (r == E_OK)
		r = read_header(im);
	if (r == E_OK)
		r = match_header(im);
	im->header_whole = r == E_OK;
	if (r == E_OK && im->mark.kind == MARK_DAMAGED)
		r = fault(E_CORRUPT, 0, "mark: its check does not hold");
	return r == E_OK ? read_state(im) : r;
}

int image_read_trailer(struct image *im)
{
	int r = disk_read(im->disk, im->scratch, RECORD_PAGE, im->header.trailer_place);

	return r == E_OK ? trailer_get(&im->trailer, im->scratch, im->header.image_id, im->disk->size) : r;
}

int image_unseal(struct image *im, struct seal *s)
{
	int r = image_read_trailer(im);

	if (r == E_OK)
		r = seal_untrailer(s, im->scratch);
	im->seal = r == E_OK ? s : NULL;
	return r;
}

int image_write_state(struct image *im)
{
	state_put(im->scratch, &im->state, im->header.image_id);
	int r = disk_write(im->disk, im->scratch, RECORD_PAGE, im->header.state_place);
	return r == E_OK ? disk_sync(im->disk) : r;
}

bool image_is_ours(const struct image *im)
{
	return im->mark.kind == MARK_OURS || (im->mark.kind == MARK_DAMAGED && im->header_whole);
}

int image_drop_key(struct disk *disk, uint64_t place, uint8_t *scratch)
{
	memset(scratch, 0, RECORD_PAGE);
	int r = disk_write(disk, scratch, RECORD_PAGE, place);
	return r == E_OK ? disk_sync(disk) : r;
}

int image_discard(struct image *im)
{
	int r = mark_clear(im->disk, im->area_start, im->scratch, im->mark.image, im->header_whole);

	if (r == E_OK && im->header_whole && im->header.features & FEATURE_SEALED)
		im->key_left = image_drop_key(im->disk, im->mark.place, im->scratch) != E_OK;
	if (r == E_OK || !im->header_whole)
		return r;
	im->state.flags |= STATE_PASSED_OVER;
	image_write_state(im);
	return r;
}
