/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <config.h>
#include "image/codec.h"

#if HAVE_LZ4

#include "base/error.h"

#include <lz4.h>

static size_t lz4_memory(int level, size_t block)
{
	(void)level;
	(void)block;
	return (size_t)LZ4_sizeofState();
}

static int lz4_open(void *memory, size_t size, int level, size_t block)
{
	(void)memory;
	(void)level;
	(void)block;
	return size >= (size_t)LZ4_sizeofState() ? E_OK : E_INTERNAL;
}

static size_t lz4_pack(void *memory, int level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	int out = LZ4_compress_fast_extState(memory, (const char *)src, (char *)dst, (int)n, (int)room, level);

	return out > 0 ? (size_t)out : 0;
}

static size_t lz4_unpack_memory(void)
{
	return 0;
}

static bool lz4_unpack(void *memory, size_t size, const uint8_t *src, size_t n, uint8_t *dst, size_t raw)
{
	(void)memory;
	(void)size;
	return LZ4_decompress_safe((const char *)src, (char *)dst, (int)n, (int)raw) == (int)raw;
}

const struct codec codec_lz4 = {
	.name = "lz4",
	.id = CODEC_LZ4,
	.level_min = 1,
	.level_default = 1,
	.level_max = 64,
	.pack_memory = lz4_memory,
	.pack_open = lz4_open,
	.pack = lz4_pack,
	.unpack_memory = lz4_unpack_memory,
	.unpack = lz4_unpack,
};

#else

const struct codec codec_lz4 = {.name = "lz4", .id = CODEC_LZ4};

#endif
