/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saving an image: pages in, a whole image on the area out.  Knows neither the
 * kernel nor what the disk is.
 */
#ifndef DORMOUSE_IMAGE_SAVE_H
#define DORMOUSE_IMAGE_SAVE_H

#include "base/arena.h"
#include "base/disk.h"
#include "image/codec.h"
#include "image/format.h"
#include "image/stream.h"

struct save_options {
	uint32_t page_size, block_size; /* bytes */
	unsigned threads;		/* 0 = inline */
	bool adapt;			/* choose codec and level block by block; else: */
	const struct codec *codec;
	int level;
	bool reproducible; /* no times or thread counts in the image */
	uint32_t buffer;   /* bytes of each of the write queue's; set by save_plan() */
};

struct save_progress {
	uint64_t raw, stored; /* bytes so far */
	uint64_t total;	      /* raw bytes of the whole */
	uint64_t ns;	      /* since the start */
	unsigned codec;	      /* of the last block */
};

struct save;

/*
 * Takes everything a save needs from @a, or only counts when @a counts (then
 * NULL).  The only place that knows how much memory a save takes.
 */
struct save *save_carve(struct arena *a, const struct save_options *o);

/*
 * Sets o->buffer and the most threads, at most o->threads, whose memory fits
 * in @limit bytes: first the queue shrinks, then threads go.  Its size goes to
 * @size.  E_MEMORY when not even 0 threads fit.
 */
int save_plan(struct save_options *o, size_t limit, size_t *size);

/* Bytes of an area that is large enough for @raw bytes of pages, even when they do not shrink at all. */
uint64_t save_room(uint64_t raw, uint32_t page_size);

/* What a save is made from and to. */
struct save_input {
	struct disk *disk;
	struct page_source *source;
	struct swap_pages *swap;
	uint64_t room; /* bytes that swap has, about */
	/* All fields set but pages, places, codecs and sizes of page and block; those are filled in. */
	struct header *header;
	const struct fingerprint *fingerprints;
	struct seal *seal; /* prepared (key.h) for at least as many threads; NULL: not sealed.  Its key is
			    * made, used and wiped within save_run() */
	/* Called now and then; a code stops the save.  May be NULL. */
	int (*tick)(void *ctx, const struct save_progress *p);
	void *tick_ctx;
};

/*
 * Writes stream, extents, trailer, mutable sector, sync, fixed header, sync.
 * Not the mark: what was written is nothing until mark_set() names
 * h->place (save_header_place()).  Nothing of the area's first page is touched.
 * E_NOSPACE notes how far it came.  Can be run again after a failure.
 */
int save_run(struct save *s, const struct save_input *in);
uint64_t save_header_place(const struct save *s);
const struct trailer *save_trailer(const struct save *s);

#endif
