/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An ordered pipeline: fill -> work -> drain, over a ring of slots.  It knows
 * no pages, codecs or devices.  pipeline.c begins with who holds what when.
 */
#ifndef DORMOUSE_IMAGE_PIPELINE_H
#define DORMOUSE_IMAGE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __SANITIZE_THREAD__
#define PIPELINE_STACK (2 << 20) /* the thread sanitizer keeps its own data there */
#else
#define PIPELINE_STACK (256 << 10) /* bytes a worker */
#endif

enum {
	PIPELINE_THREADS_MAX = 256,
	PIPELINE_SLOTS_MAX = 2 * PIPELINE_THREADS_MAX + 2,
	PIPELINE_END = -1, /* what fill returns when nothing is left */
};

/* Each returns E_OK, or a code that ends the run; the first such code is pipeline_run()'s. */
struct pipeline_ops {
	/* In order, one at a time. */
	int (*fill)(void *ctx, unsigned slot);
	/* In parallel; @worker is below the number of threads, or 0. */
	int (*work)(void *ctx, unsigned slot, unsigned worker);
	/* In order, one at a time, at the same time as a fill. */
	int (*drain)(void *ctx, unsigned slot);
	/* Now and then from the calling thread: progress, and the way to stop from outside.  May be NULL. */
	int (*tick)(void *ctx);
};

/* Slots for @threads workers. */
unsigned pipeline_slots(unsigned threads);

/*
 * Runs until fill says PIPELINE_END and all is drained, or something fails;
 * every thread it made is joined by then.  @threads 0 runs the stages inline.
 * @stacks: @threads * PIPELINE_STACK bytes, page aligned and touched, or NULL
 * for ordinary ones.  When fewer threads can be made than asked for, it goes on
 * with those there are.
 */
int pipeline_run(const struct pipeline_ops *ops, void *ctx, unsigned threads, uint8_t *stacks);

#endif
