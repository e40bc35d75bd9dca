/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The chain of extent pages and the stream laid over it.  The input: 24 bytes that a trailer would say, then a disk. */
#include "fuzz.h"

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "image/stream.h"

#include <string.h>

enum { SAID = 24, ROUNDS = 64, PIECE = 65536 };

static struct arena arena;
static struct stream_in in;

static void start(void)
{
	arena_count(&arena);
	stream_in_carve(&in, &arena, 4096);
	size_t size = arena.used;
	fuzz_must(arena_open(&arena, size, 0) == E_OK);
	stream_in_carve(&in, &arena, 4096);
}

FUZZ_TARGET(extents)
{
	static uint8_t out[PIECE];
	static const id128 image;
	struct trailer t = {0};
	struct fuzz_disk d;

	if (!arena.base)
		start();
	if (size < SAID)
		return 0;
	fuzz_disk_open(&d, data + SAID, size - SAID);
	t.extents_place = (uint64_t)data[0] * 4096 % d.disk.size;
	t.extent_pages = data[1];
	t.stream_bytes = get_le64(data + 8) % (2 * d.disk.size);
	t.extents_check = get_le64(data + 16);
	int r = stream_in_start(&in, &d.disk, image, &t, NULL);
	uint64_t left = t.stream_bytes;
	for (int i = 0; i < ROUNDS && r == E_OK && left; i++) {
		uint32_t n = (uint32_t)min_u64(left, 1 + (data[2] << 8));
		r = stream_in_read(&in, out, n);
		left -= n;
	}
	if (r == E_OK)
		stream_in_finish(&in);
	stream_in_settle(&in);
	fault_clear();
	fuzz_disk_close(&d);
	return 0;
}
