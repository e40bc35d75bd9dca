/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/codec.h"

#include "base/error.h"

#include <string.h>

static size_t no_memory(int level, size_t block)
{
	(void)level;
	(void)block;
	return 0;
}

static int no_open(void *memory, size_t size, int level, size_t block)
{
	(void)memory;
	(void)size;
	(void)level;
	(void)block;
	return E_OK;
}

/* Never shrinks: the block is stored as it is. */
static size_t no_pack(void *memory, int level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	(void)memory;
	(void)level;
	(void)src;
	(void)n;
	(void)dst;
	(void)room;
	return 0;
}

static size_t no_unpack_memory(void)
{
	return 0;
}

static bool copy(void *memory, size_t size, const uint8_t *src, size_t n, uint8_t *dst, size_t raw)
{
	(void)memory;
	(void)size;
	if (n != raw)
		return false;
	memcpy(dst, src, n);
	return true;
}

const struct codec codec_none = {
	.name = "none",
	.id = CODEC_NONE,
	.pack_memory = no_memory,
	.pack_open = no_open,
	.pack = no_pack,
	.unpack_memory = no_unpack_memory,
	.unpack = copy,
};
