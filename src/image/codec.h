/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Codecs: one file and one table row each.  A codec that was not built in is a
 * row without functions, so that its name is known and can be refused by name.
 *
 * No codec allocates: its working memory is the caller's, aligned to 64, of
 * pack_memory() bytes for packing and unpack_memory() for unpacking, and used
 * by one thread at a time.
 */
#ifndef DORMOUSE_IMAGE_CODEC_H
#define DORMOUSE_IMAGE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum codec_id { CODEC_NONE, CODEC_LZO, CODEC_LZ4, CODEC_ZSTD, CODEC_COUNT };

struct codec {
	const char *name;
	uint8_t id;
	int level_min, level_default, level_max; /* lz4: acceleration, zstd: level */
	/* Bytes of working memory to pack blocks of @block bytes at @level. */
	size_t (*pack_memory)(int level, size_t block);
	/* Readies working memory; E_OK or E_INTERNAL. */
	int (*pack_open)(void *memory, size_t size, int level, size_t block);
	/* Packs @n bytes into @room bytes; the length, or 0 when it does not fit. @dst has codec_room(@n) bytes. */
	size_t (*pack)(void *memory, int level, const uint8_t *src, size_t n, uint8_t *dst, size_t room);
	size_t (*unpack_memory)(void);
	/* Never writes past @raw bytes; true when exactly @raw came out. */
	bool (*unpack)(void *memory, size_t size, const uint8_t *src, size_t n, uint8_t *dst, size_t raw);
};

extern const struct codec codec_none, codec_lzo, codec_lz4, codec_zstd;

/* The row for an id or name; NULL when there is none.  Its functions are NULL when it was not built in. */
const struct codec *codec_by_id(unsigned id);
const struct codec *codec_by_name(const char *name);
bool codec_built_in(const struct codec *c);
/* The first of lz4, lzo that is built in. */
const struct codec *codec_default(void);

/* Room that pack() may need for @n bytes, whatever the codec. */
size_t codec_room(size_t n);
/* The largest unpack_memory() of those built in. */
size_t codec_unpack_memory(void);

#endif
