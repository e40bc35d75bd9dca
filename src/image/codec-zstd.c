/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <config.h>
#include "image/codec.h"

#if HAVE_ZSTD

#include "base/error.h"

/* For contexts in memory of ours: zstd's own allocate when first used. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

/*
 * Tables of more entries than half a block has bytes find next to nothing more
 * (0.1 % on real pages), and memory taken for them goes into the image.
 */
static ZSTD_compressionParameters parameters(int level, size_t block)
{
	ZSTD_compressionParameters p = ZSTD_getCParams(level, block, 0);

	if (p.hashLog >= p.windowLog)
		p.hashLog = p.windowLog - 1;
	if (p.chainLog >= p.windowLog)
		p.chainLog = p.windowLog - 1;
	return p;
}

/* They are fixed for the block size, so that a shorter last block needs no other tables. */
static int set_parameters(ZSTD_CCtx *cctx, int level, size_t block)
{
	ZSTD_compressionParameters p = parameters(level, block);
	const struct {
		ZSTD_cParameter key;
		int value;
	} rows[] = {
		{ZSTD_c_compressionLevel, level},	    {ZSTD_c_windowLog, (int)p.windowLog},
		{ZSTD_c_hashLog, (int)p.hashLog},	    {ZSTD_c_chainLog, (int)p.chainLog},
		{ZSTD_c_searchLog, (int)p.searchLog},	    {ZSTD_c_minMatch, (int)p.minMatch},
		{ZSTD_c_targetLength, (int)p.targetLength}, {ZSTD_c_strategy, (int)p.strategy},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (ZSTD_isError(ZSTD_CCtx_setParameter(cctx, rows[i].key, rows[i].value)))
			return E_INTERNAL;
	return E_OK;
}

static size_t zstd_memory(int level, size_t block)
{
	/* The estimate leaves out what a first use rounds up to. */
	return ZSTD_estimateCCtxSize_usingCParams(parameters(level, block)) + (64 << 10);
}

static int zstd_open(void *memory, size_t size, int level, size_t block)
{
	ZSTD_CCtx *cctx = ZSTD_initStaticCCtx(memory, size);

	if (!cctx)
		return fault(E_INTERNAL, 0, "zstd:%d wants more than %zu bytes of memory", level, size);
	return set_parameters(cctx, level, block);
}

static size_t zstd_pack(void *memory, int level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	/* A static context begins at the memory's start. */
	size_t out = ZSTD_compress2((ZSTD_CCtx *)memory, dst, room, src, n);

	(void)level;
	return ZSTD_isError(out) ? 0 : out;
}

static size_t zstd_unpack_memory(void)
{
	return (size_t)ZSTD_estimateDCtxSize();
}

static bool zstd_unpack(void *memory, size_t size, const uint8_t *src, size_t n, uint8_t *dst, size_t raw)
{
	ZSTD_DCtx *dctx = ZSTD_initStaticDCtx(memory, size);

	return dctx && ZSTD_decompressDCtx(dctx, dst, raw, src, n) == raw;
}

const struct codec codec_zstd = {
	.name = "zstd",
	.id = CODEC_ZSTD,
	.level_min = -7,
	.level_default = 1,
	.level_max = 22,
	.pack_memory = zstd_memory,
	.pack_open = zstd_open,
	.pack = zstd_pack,
	.unpack_memory = zstd_unpack_memory,
	.unpack = zstd_unpack,
};

#else

const struct codec codec_zstd = {.name = "zstd", .id = CODEC_ZSTD};

#endif
