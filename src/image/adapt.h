/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which codec and level the next block gets, so that neither cores nor disk
 * wait: the write queue's backlog, measured against a set point, picks a rung
 * of a ladder at the moment a worker takes the block.  Nothing is learned, so
 * it follows a disk or data that changes at once, and hovering at a threshold
 * mixes the two rungs beside it by itself.
 */
#ifndef DORMOUSE_IMAGE_ADAPT_H
#define DORMOUSE_IMAGE_ADAPT_H

#include "image/codec.h"

#include <stdbool.h>
#include <stdint.h>

enum { ADAPT_RUNGS_MAX = 8 };

struct rung {
	const struct codec *codec;
	int level;
	double below; /* taken while the pressure is below this */
};

/* From the fastest to the strongest; the last takes all pressures. */
struct ladder {
	unsigned count;
	struct rung rung[ADAPT_RUNGS_MAX];
};

/* One codec for all blocks. */
void ladder_fixed(struct ladder *l, const struct codec *codec, int level);
/* All the rungs built in. */
void ladder_adapt(struct ladder *l);

/* Working memory a worker needs for any rung. */
size_t ladder_memory(const struct ladder *l, size_t block);

/* The rung for @pressure (backlog / set point); the first blocks are never packed weaker than lz4. */
unsigned ladder_pick(const struct ladder *l, double pressure, uint64_t block);

/*
 * The least pressure at which @raw bytes still to come fit in @room bytes, as
 * far as a codec can see to it: a fast disk must not fill a small area with
 * blocks stored raw.
 */
double room_pressure(uint64_t raw, uint64_t room);

/* How fast the disk takes what it is given; the draining thread's, read under its lock. */
struct write_meter {
	uint64_t handed, written; /* bytes of full buffers */
	double bytes, seconds;	  /* fading sums over finished writes */
	uint64_t since;		  /* ns: when the write now under way began, or its predecessor ended */
};

void meter_reset(struct write_meter *m);
void meter_handed(struct write_meter *m, uint64_t bytes, uint64_t now);
/* @sent: when it was handed over. */
void meter_written(struct write_meter *m, uint64_t bytes, uint64_t sent, uint64_t now);
/*
 * How long the next request should be: 1 ms of writing, 256 KiB to @most.  A
 * slow disk's queue must be told in small steps, a fast disk wants large ones.
 */
uint32_t meter_request(const struct write_meter *m, uint32_t most);
/* Backlog over set point.  @room: bytes the queue can hold. */
double meter_pressure(const struct write_meter *m, uint64_t room, uint64_t now);

#endif
