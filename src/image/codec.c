/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/codec.h"

#include <string.h>

static const struct codec *const table[CODEC_COUNT] = {
	[CODEC_NONE] = &codec_none,
	[CODEC_LZO] = &codec_lzo,
	[CODEC_LZ4] = &codec_lz4,
	[CODEC_ZSTD] = &codec_zstd,
};

const struct codec *codec_by_id(unsigned id)
{
	return id < CODEC_COUNT ? table[id] : NULL;
}

const struct codec *codec_by_name(const char *name)
{
	for (unsigned i = 0; i < CODEC_COUNT; i++)
		if (!strcmp(table[i]->name, name))
			return table[i];
	return NULL;
}

bool codec_built_in(const struct codec *c)
{
	return c->pack;
}

const struct codec *codec_default(void)
{
	return codec_built_in(&codec_lz4) ? &codec_lz4 : &codec_lzo;
}

size_t codec_room(size_t n)
{
	/* LZO has the largest bound and, alone, does not take a limit. */
	return n + n / 16 + 64 + 3;
}

size_t codec_unpack_memory(void)
{
	size_t most = 0;

	for (unsigned i = 0; i < CODEC_COUNT; i++) {
		size_t n = codec_built_in(table[i]) ? table[i]->unpack_memory() : 0;
		if (n > most)
			most = n;
	}
	return most;
}
