/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A whole image, as resume and s2image take it: found, its trailer read, loaded, given up.  The input: the disk. */
#include "fuzz.h"

#include "base/arena.h"
#include "base/error.h"
#include "image/image.h"
#include "image/load.h"
#include "image/seal.h"

#include <string.h>

enum { MEMORY = 64 << 20 };
#define RAW_MOST (16ull << 20) /* more takes a fuzzer's time, and nothing else happens */

static struct arena arena;
static uint8_t scratch[IMAGE_SCRATCH] __attribute__((aligned(DISK_UNIT)));
static struct image image;

struct counting {
	struct page_sink sink;
	uint64_t bytes;
};

static int take(struct page_sink *s, const uint8_t *in, uint32_t n)
{
	(void)in;
	((struct counting *)s)->bytes += n;
	return E_OK;
}

static int load(void)
{
	struct counting to = {.sink = {take}};
	struct load_options o = {image.header.page_size, image.header.block_size, 0};
	size_t size;

	int r = load_plan(&o, MEMORY, &size);
	if (r != E_OK)
		return r;
	fuzz_must(size <= MEMORY);
	arena.used = 0;
	struct load *l = load_carve(&arena, &o);
	fuzz_must(l != NULL);
	struct load_input in = {.image = &image, .sink = &to.sink};
	r = load_run(l, &in);
	fuzz_must(to.bytes <= image.header.image_bytes);
	fuzz_must(r != E_OK || to.bytes == image.header.image_bytes);
	return r;
}

/* With the key file of tests/images; a passphrase costs a fuzzer too much time. */
static int unseal(struct seal *seal)
{
	static const struct bytes key = {"the key file of the images", 26};

	if (image.header.slot.mode != KEY_MODE_FILE)
		return E_KEY;
	int r = seal_open_key_bytes(seal, &image.header, key);
	return r == E_OK ? image_unseal(&image, seal) : r;
}

FUZZ_TARGET(image)
{
	struct fuzz_disk d;
	struct seal seal = {0};

	if (!arena.base)
		fuzz_must(arena_open(&arena, MEMORY, 0) == E_OK);
	fuzz_disk_open(&d, data, size);
	int r = image_open(&image, &d.disk, 0, scratch);
	if (r == E_OK)
		r = image.header.features & FEATURE_SEALED ? unseal(&seal) : image_read_trailer(&image);
	if (r == E_OK && image.header.image_bytes <= RAW_MOST)
		load();
	seal_close(&seal);
	fault_clear();
	if (image_is_ours(&image)) {
		image_discard(&image);
		fault_clear();
		fuzz_must(image_open(&image, &d.disk, 0, scratch) != E_OK || image.state.flags & STATE_PASSED_OVER);
	}
	fault_clear();
	fuzz_disk_close(&d);
	return 0;
}
