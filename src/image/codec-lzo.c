/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <config.h>
#include "image/codec.h"

#if HAVE_LZO

#include "base/error.h"

#include <lzo/lzo1x.h>

static size_t lzo_memory(int level, size_t block)
{
	(void)level;
	(void)block;
	return LZO1X_1_MEM_COMPRESS;
}

static int lzo_open(void *memory, size_t size, int level, size_t block)
{
	(void)memory;
	(void)level;
	(void)block;
	return size >= LZO1X_1_MEM_COMPRESS && lzo_init() == LZO_E_OK ? E_OK : E_INTERNAL;
}

static size_t lzo_pack(void *memory, int level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	lzo_uint out = 0;

	(void)level;
	if (lzo1x_1_compress(src, n, dst, &out, memory) != LZO_E_OK || out > room)
		return 0;
	return out;
}

static size_t lzo_unpack_memory(void)
{
	return 0;
}

static bool lzo_unpack(void *memory, size_t size, const uint8_t *src, size_t n, uint8_t *dst, size_t raw)
{
	lzo_uint out = raw;

	(void)memory;
	(void)size;
	return lzo1x_decompress_safe(src, n, dst, &out, NULL) == LZO_E_OK && out == raw;
}

const struct codec codec_lzo = {
	.name = "lzo",
	.id = CODEC_LZO,
	.pack_memory = lzo_memory,
	.pack_open = lzo_open,
	.pack = lzo_pack,
	.unpack_memory = lzo_unpack_memory,
	.unpack = lzo_unpack,
};

#else

const struct codec codec_lzo = {.name = "lzo", .id = CODEC_LZO};

#endif
