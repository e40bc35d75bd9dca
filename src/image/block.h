/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One block between pages and stream: pack and unpack.  Pure; touches its job and the worker's context only. */
#ifndef DORMOUSE_IMAGE_BLOCK_H
#define DORMOUSE_IMAGE_BLOCK_H

#include "base/arena.h"
#include "image/adapt.h"
#include "image/format.h"
#include "image/seal.h"

/* A slot of the pipeline. */
struct block_job {
	uint8_t *raw;		/* block size: the pages */
	uint8_t *packed;	/* codec_room(block size): the payload when it is not raw */
	const uint8_t *payload; /* what is stored, after block_pack() */
	struct block_record record;
	uint8_t bytes[BLOCK_RECORD];
};

/* What one worker has for itself. */
struct block_worker {
	uint8_t *memory;
	size_t size;
	const struct rung *ready; /* what the memory was opened for */
	uint8_t *probe;		  /* memory to look at a block with before a slow codec does, or NULL */
	bool dense;		  /* the last block did not shrink */
	struct seal *seal;	  /* NULL: not sealed */
	unsigned context;	  /* of the seal */
};

void block_job_carve(struct block_job *j, struct arena *a, uint32_t block_size);

/* Readies a worker's memory for @rung; E_INTERNAL when it does not suffice. */
int block_worker_open(struct block_worker *w, const struct rung *rung, uint32_t block_size);

/*
 * Packs record.raw bytes: fills in payload, record and bytes.  A block that
 * does not shrink keeps codec none and is stored as it is, without a copy;
 * unless it is sealed, which puts every payload in packed.
 */
int block_pack(struct block_job *j, struct block_worker *w, const struct rung *rung, uint32_t block_size, id128 image);

/* Memory for worker.probe: 0 when no codec is fast enough to look with. */
size_t block_probe_memory(uint32_t block_size);

/*
 * True when the worker's last block did not shrink and this one hardly would
 * either, so that a slow codec should not be tried: incompressible pages come
 * in long runs, and lz4 passes over them twenty times faster than zstd.
 */
bool block_dense(struct block_job *j, struct block_worker *w);

/*
 * Checks, or opens the seal, and expands packed (record.stored bytes) to raw.
 * E_CORRUPT, E_UNSUPPORTED for a codec not built in.
 */
int block_unpack(struct block_job *j, struct block_worker *w, id128 image);

#endif
