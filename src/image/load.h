/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loading an image: the mirror of save.h. */
#ifndef DORMOUSE_IMAGE_LOAD_H
#define DORMOUSE_IMAGE_LOAD_H

#include "base/arena.h"
#include "image/image.h"
#include "image/save.h"
#include "image/stream.h"

struct load_options {
	uint32_t page_size, block_size; /* bytes, the image's */
	unsigned threads;
};

struct load;

/* As save_carve() and save_plan(). */
struct load *load_carve(struct arena *a, const struct load_options *o);
int load_plan(struct load_options *o, size_t limit, size_t *size);

struct load_input {
	const struct image *image; /* opened; a sealed one unsealed, see seal.h */
	struct page_sink *sink;
	/* As save_input's; at the end too, when all is loaded and verified. */
	int (*tick)(void *ctx, const struct save_progress *p);
	void *tick_ctx;
};

/*
 * Reads, checks and expands the whole image into the sink, in order.  The
 * trailer must have been read.  Only E_OK means that what the sink got is
 * verified: what it got before may not be used otherwise.
 */
int load_run(struct load *l, const struct load_input *in);

#endif
