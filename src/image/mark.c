/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/mark.h"

#include "base/bytes.h"
#include "base/error.h"

#include <string.h>
#include <xxhash.h>

/*
 * Offsets in the mark's 80 bytes and in the swap header, whose own fields are
 * in the byte order of the machine that made it: version 1 read little-endian
 * also tells that the order is ours.
 */
enum {
	MARK_BYTES = 80,
	M_IMAGE = 8,
	M_INSTALLATION = 24,
	M_CHECK = 40,
	M_PLACE = 52,
	M_SAVED = 60,
	M_SIGNATURE = 70,
	SIGNATURE = 10,
	SWAP_VERSION = 1024,
	SWAP_LAST_PAGE = 1028,
	SWAP_BAD_COUNT = 1032,
	SWAP_UUID = 1036,
	SWAP_LABEL = 1052,
	SWAP_BAD = 1536,
};

static const char our_magic[8] = "DORMOUSE";
static const char swap_signature[SIGNATURE] = "SWAPSPACE2", old_signature[SIGNATURE] = "SWAP-SPACE",
		  suspend_signature[SIGNATURE] = "ULSUSPEND";

/* The two ends of the area's first page; the same buffer when pages have 4096 bytes. */
struct ends {
	uint8_t *first, *last;
	uint64_t first_at, last_at;
};

static struct ends ends_of(void *scratch, uint64_t area_start, uint32_t page_size)
{
	uint8_t *b = scratch;
	struct ends e = {b, b, area_start, area_start + page_size - DISK_UNIT};

	if (page_size > DISK_UNIT)
		e.last = b + DISK_UNIT;
	return e;
}

static uint8_t *mark_bytes(struct ends *e)
{
	return e->last + DISK_UNIT - MARK_BYTES;
}

static uint64_t mark_check(const uint8_t *uuid, const uint8_t *m)
{
	uint8_t b[16 + 32 + 8 + SIGNATURE];

	memcpy(b, uuid, 16);
	memcpy(b + 16, m + M_IMAGE, 32);
	memcpy(b + 48, m + M_PLACE, 8 + SIGNATURE);
	return XXH3_64bits(b, sizeof b);
}

static enum mark_kind kind_of(const uint8_t *m)
{
	static const char others[][SIGNATURE] = {"S2SUSPEND", "LINHIB0001", "\xed\xc3\x02\xe9\x98\x56\xe5\x0c"};
	const uint8_t *s = m + M_SIGNATURE;

	if (!memcmp(s, swap_signature, SIGNATURE))
		return MARK_SWAP;
	if (!memcmp(s, old_signature, SIGNATURE))
		return MARK_OLD_SWAP;
	if (!memcmp(s, suspend_signature, 9))
		return memcmp(m, our_magic, 8) ? MARK_USWSUSP : MARK_DAMAGED;
	if (!memcmp(s, "S1SUSPEND", 9))
		return MARK_KERNEL;
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (!memcmp(s, others[i], i == 2 ? 8 : 9))
			return MARK_OTHER_SUSPEND;
	return MARK_NONE;
}

static void read_swap_header(struct ends *e, uint32_t page_size, struct mark *m)
{
	const uint8_t *p = e->first;
	uint32_t bad = get_le32(p + SWAP_BAD_COUNT);
	uint64_t bad_end = SWAP_BAD + 4ull * bad;

	m->last_page = get_le32(p + SWAP_LAST_PAGE);
	m->swap_header = get_le32(p + SWAP_VERSION) == 1 && m->last_page && bad_end <= page_size - SIGNATURE;
	m->room = m->swap_header && bad_end <= page_size - MARK_BYTES;
	memcpy(m->swap_uuid.b, p + SWAP_UUID, 16);
	memcpy(m->label, p + SWAP_LABEL, 16);
	m->label[16] = 0;
}

static void read_mark(struct ends *e, struct mark *m)
{
	const uint8_t *b = mark_bytes(e);

	memcpy(m->image.b, b + M_IMAGE, 16);
	memcpy(m->installation.b, b + M_INSTALLATION, 16);
	m->place = get_le64(b + M_PLACE);
	m->saved_swap_signature = !memcmp(b + M_SAVED, swap_signature, SIGNATURE);
	if (CHECKS_HOLD || get_le64(b + M_CHECK) == mark_check(e->first + SWAP_UUID, b))
		m->kind = MARK_OURS;
}

/* Reads the page's ends as if pages had @page_size bytes and says what they show. */
static int look(struct disk *d, uint64_t area_start, uint32_t page_size, void *scratch, struct mark *m)
{
	struct ends e = ends_of(scratch, area_start, page_size);
	int r;

	memset(m, 0, sizeof *m);
	if (area_start > d->size || d->size - area_start < page_size)
		return E_OK;
	r = disk_read(d, e.first, DISK_UNIT, e.first_at);
	if (r == E_OK && e.last != e.first)
		r = disk_read(d, e.last, DISK_UNIT, e.last_at);
	if (r != E_OK)
		return r;
	m->kind = kind_of(mark_bytes(&e));
	if (m->kind == MARK_NONE)
		return E_OK;
	m->page_size = page_size;
	read_swap_header(&e, page_size, m);
	if (m->kind == MARK_DAMAGED)
		read_mark(&e, m);
	return E_OK;
}

int mark_read(struct disk *d, uint64_t area_start, void *scratch, struct mark *m)
{
	static const uint32_t sizes[] = {4096, 16384, 65536};

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		int r = look(d, area_start, sizes[i], scratch, m);
		if (r != E_OK || m->kind != MARK_NONE)
			return r;
	}
	return E_OK;
}

static int write_last(struct disk *d, struct ends *e)
{
	int r = disk_write(d, e->last, DISK_UNIT, e->last_at);

	return r == E_OK ? disk_sync(d) : r;
}

static void put_mark(uint8_t *b, const uint8_t *uuid, id128 image, id128 installation, uint64_t place)
{
	memset(b, 0, MARK_BYTES);
	memcpy(b, our_magic, 8);
	memcpy(b + M_IMAGE, image.b, 16);
	memcpy(b + M_INSTALLATION, installation.b, 16);
	put_le64(b + M_PLACE, place);
	memcpy(b + M_SAVED, swap_signature, SIGNATURE);
	memcpy(b + M_SIGNATURE, suspend_signature, SIGNATURE);
	put_le64(b + M_CHECK, mark_check(uuid, b));
}

int mark_set(struct disk *d, uint64_t area_start, uint32_t page_size, void *scratch, id128 image, id128 installation,
	     uint64_t place)
{
	struct ends e = ends_of(scratch, area_start, page_size);
	uint8_t old[MARK_BYTES];
	struct mark m;
	int r = look(d, area_start, page_size, scratch, &m);

	if (r != E_OK)
		return r;
	if (m.kind != MARK_SWAP || !m.room)
		return fault(E_FOREIGN, 0, "the area's first page is no longer a plain swap header");
	memcpy(old, mark_bytes(&e), MARK_BYTES);
	put_mark(mark_bytes(&e), e.first + SWAP_UUID, image, installation, place);
	r = write_last(d, &e);
	if (r == E_OK)
		return E_OK;
	memcpy(mark_bytes(&e), old, MARK_BYTES);
	return write_last(d, &e) == E_OK ? r : E_POWER;
}

int mark_clear(struct disk *d, uint64_t area_start, void *scratch, id128 image, bool header_proves)
{
	struct mark m;
	int r = mark_read(d, area_start, scratch, &m);

	if (r != E_OK)
		return r;
	if (m.kind == MARK_SWAP)
		return disk_sync(d); /* an earlier try may have written it and not come to its sync */
	bool ours = m.kind == MARK_OURS && id_equal(m.image, image);
	bool proven = m.kind == MARK_DAMAGED && header_proves;
	if (!m.swap_header || !m.saved_swap_signature || (!ours && !proven))
		return fault(E_FOREIGN, 0, "the area's first page does not carry this image's mark");
	struct ends e = ends_of(scratch, area_start, m.page_size);
	uint8_t *b = mark_bytes(&e);
	memset(b, 0, MARK_BYTES);
	memcpy(b + M_SIGNATURE, swap_signature, SIGNATURE);
	return write_last(d, &e);
}
