/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All record pages that stand alone: fixed header, trailer, mutable sector; the mark.  The input: those pages in turn.
 */
#include "fuzz.h"

#include "base/error.h"
#include "image/format.h"
#include "image/mark.h"

#include <string.h>

static uint8_t page[HEADER_PAGES_MAX * RECORD_PAGE] __attribute__((aligned(DISK_UNIT)));
static struct fingerprint fp[FINGERPRINTS_MAX];

/* What was taken for good lies within what a caller makes room for. */
static void check_header(const struct header *h, uint64_t size)
{
	fuzz_must(h->pages >= 1 && h->pages <= HEADER_PAGES_MAX);
	fuzz_must(h->fingerprint_count <= FINGERPRINTS_MAX);
	fuzz_must(h->block_size && h->block_size <= BLOCK_SIZE_MAX && h->block_size % h->page_size == 0);
	fuzz_must(h->state_place < size && h->trailer_place < size);
	fuzz_must(memchr(h->release, 0, sizeof h->release) && memchr(h->machine, 0, sizeof h->machine));
}

static void try_mark(const uint8_t *data, size_t size)
{
	static uint8_t scratch[2 * DISK_UNIT] __attribute__((aligned(DISK_UNIT)));
	struct fuzz_disk d;
	struct mark m;

	fuzz_disk_open(&d, data, size);
	fuzz_must(mark_read(&d.disk, 0, scratch, &m) == E_OK);
	fuzz_must(memchr(m.label, 0, sizeof m.label) != NULL);
	if (m.kind == MARK_OURS && m.swap_header && m.saved_swap_signature) {
		fuzz_must(mark_clear(&d.disk, 0, scratch, m.image, false) == E_OK);
		fuzz_must(mark_read(&d.disk, 0, scratch, &m) == E_OK && m.kind == MARK_SWAP);
	}
	fault_clear();
	fuzz_disk_close(&d);
}

FUZZ_TARGET(header)
{
	uint64_t device = 1ull << 40;
	struct header h;
	struct trailer t;
	struct state s;

	memset(page, 0, sizeof page);
	memcpy(page, data, size < sizeof page ? size : sizeof page);
	if (header_get_root(&h, page, device) == E_OK) {
		check_header(&h, device);
		if (header_get_rest(&h, page, fp) == E_OK && h.features & FEATURE_SEALED)
			fuzz_must(key_cost_ok(&h.slot.cost) || h.slot.mode == KEY_MODE_FILE);
	}
	if (trailer_get(&t, page, h.image_id, device) == E_OK)
		fuzz_must(t.stream_bytes <= device && t.extents_place < device);
	state_get(&s, page, h.image_id);
	try_mark(data, size);
	fault_clear();
	return 0;
}
