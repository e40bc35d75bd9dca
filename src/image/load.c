/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/load.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "image/block.h"
#include "image/pipeline.h"

#include <stdatomic.h>
#include <string.h>

struct load {
	struct load_options o;
	const struct load_input *in;
	struct stream_in stream;
	struct block_job *job;
	struct block_worker *worker;
	uint64_t started;
	/* The filling thread: */
	uint64_t left, number, position, image_check;
	bool closed; /* the closing record was read and holds */
	/* Drain and fill write, tick reads. */
	_Atomic uint64_t raw_done, stored_done;
	_Atomic unsigned last_codec;
};

struct load *load_carve(struct arena *a, const struct load_options *o)
{
	/* cppcheck-suppress uninitvar; only its address is taken */
	struct load counting, *real = arena_take(a, sizeof *real, 64), *l = real ? real : &counting;
	unsigned slots = pipeline_slots(o->threads), workers = o->threads ? o->threads : 1;
	size_t memory = codec_unpack_memory();
	struct block_job *job = arena_take(a, slots * sizeof *job, 64), scratch_job;
	struct block_worker *worker = arena_take(a, workers * sizeof *worker, 64);

	l->o = *o;
	l->job = job;
	l->worker = worker;
	for (unsigned i = 0; i < slots; i++)
		block_job_carve(job ? &job[i] : &scratch_job, a, o->block_size);
	for (unsigned i = 0; i < workers; i++) {
		uint8_t *p = arena_take(a, memory, 64);
		if (worker)
			worker[i] = (struct block_worker){.memory = p, .size = memory};
	}
	stream_in_carve(&l->stream, a, o->page_size);
	return real && real->stream.record ? real : NULL;
}

int load_plan(struct load_options *o, size_t limit, size_t *size)
{
	struct arena a;

	if (o->threads > PIPELINE_THREADS_MAX)
		o->threads = PIPELINE_THREADS_MAX;
	for (;; o->threads--) {
		arena_count(&a);
		load_carve(&a, o);
		*size = a.used;
		if (a.used <= limit)
			return E_OK;
		if (!o->threads)
			return fault(E_MEMORY, 0, "loading needs %zu KiB, %zu KiB may be taken", a.used >> 10,
				     limit >> 10);
	}
}

static int read_stream(struct load *l, uint8_t *out, uint32_t n)
{
	int r = stream_in_read(&l->stream, out, n);

	l->position += n;
	return r;
}

static const struct header *header_of(const struct load *l)
{
	return &l->in->image->header;
}

static int check_closing(struct load *l, const struct block_record *b, const uint8_t *bytes, uint8_t *payload)
{
	struct seal *seal = l->in->image->seal;

	if (seal)
		return seal_unblock(seal, seal_records(seal), b, bytes, payload);
	return block_payload_check(bytes, payload, b->stored, b->number, header_of(l)->image_id);
}

/* The record that follows the last block: all that was counted on the way must agree. */
static int take_closing(struct load *l, const struct block_record *b, const uint8_t *bytes)
{
	const struct trailer *t = &l->in->image->trailer;
	uint8_t payload[CLOSING_PAYLOAD];
	struct closing c;
	uint64_t before = l->position - BLOCK_RECORD;
	int r = read_stream(l, payload, sizeof payload);

	if (r == E_OK)
		r = check_closing(l, b, bytes, payload);
	if (r != E_OK)
		return r;
	closing_get(&c, payload);
	if (l->left || c.blocks != l->number || c.raw_bytes != header_of(l)->image_bytes || c.stream_bytes != before ||
	    (!CHECKS_HOLD && c.image_check != l->image_check))
		return fault(E_CORRUPT, 0, "closing record: it does not fit the blocks before it");
	if (t->blocks != c.blocks || t->raw_bytes != c.raw_bytes || t->image_check != c.image_check ||
	    t->stream_bytes != l->position)
		return fault(E_CORRUPT, 0, "trailer: it does not fit the closing record");
	l->closed = true;
	return PIPELINE_END;
}

static int fill(void *ctx, unsigned slot)
{
	struct load *l = ctx;
	struct block_job *j = &l->job[slot];
	struct block_record *b = &j->record;
	uint32_t raw = (uint32_t)min_u64(l->left, header_of(l)->block_size);
	int r = read_stream(l, j->bytes, BLOCK_RECORD);

	if (r == E_OK)
		r = block_record_get(b, j->bytes, l->number, raw);
	if (r != E_OK)
		return r;
	if (b->codec == CODEC_CLOSING)
		return take_closing(l, b, j->bytes);
	r = read_stream(l, j->packed, b->stored);
	l->left -= b->raw;
	l->number++;
	l->image_check = chain_next(l->image_check, j->bytes, BLOCK_RECORD);
	atomic_store_explicit(&l->stored_done, l->position, memory_order_relaxed);
	return r;
}

static int work(void *ctx, unsigned slot, unsigned worker)
{
	struct load *l = ctx;

	return block_unpack(&l->job[slot], &l->worker[worker], header_of(l)->image_id);
}

static int drain(void *ctx, unsigned slot)
{
	struct load *l = ctx;
	struct block_job *j = &l->job[slot];

	atomic_fetch_add_explicit(&l->raw_done, j->record.raw, memory_order_relaxed);
	atomic_store_explicit(&l->last_codec, j->record.codec, memory_order_relaxed);
	return l->in->sink->write(l->in->sink, j->raw, j->record.raw);
}

static int tick(void *ctx)
{
	struct load *l = ctx;
	struct save_progress p = {
		.raw = atomic_load_explicit(&l->raw_done, memory_order_relaxed),
		.stored = atomic_load_explicit(&l->stored_done, memory_order_relaxed),
		.total = header_of(l)->image_bytes,
		.ns = clock_ns() - l->started,
		.codec = atomic_load_explicit(&l->last_codec, memory_order_relaxed),
	};

	return l->in->tick ? l->in->tick(l->in->tick_ctx, &p) : E_OK;
}

static const struct pipeline_ops ops = {fill, work, drain, tick};

/* Contexts for the workers, when the image is sealed. */
static int ready_seal(struct load *l)
{
	const struct image *im = l->in->image;
	unsigned workers = l->o.threads ? l->o.threads : 1;

	if (im->header.features & FEATURE_SEALED && !im->seal)
		return fault(E_KEY, 0, "the image is sealed and was not opened");
	for (unsigned i = 0; i < workers; i++) {
		l->worker[i].seal = im->seal;
		l->worker[i].context = i;
	}
	if (!im->seal)
		return E_OK;
	hash_reset(im->seal->extents);
	return seal_workers(im->seal, workers);
}

int load_run(struct load *l, const struct load_input *in)
{
	const struct image *im = in->image;

	l->in = in;
	l->started = clock_ns();
	l->left = im->header.image_bytes;
	l->number = l->position = 0;
	l->image_check = id64(im->header.image_id);
	l->closed = false;
	l->raw_done = l->stored_done = 0;
	l->last_codec = CODEC_NONE;
	int r = ready_seal(l);
	if (r != E_OK)
		return r;
	r = stream_in_start(&l->stream, im->disk, im->header.image_id, &im->trailer,
			    im->seal ? im->seal->extents : NULL);
	if (r == E_OK)
		r = pipeline_run(&ops, l, l->o.threads, NULL);
	if (r == E_OK)
		r = stream_in_finish(&l->stream);
	if (r == E_OK && !l->closed)
		r = fault(E_CORRUPT, 0, "stream: it has no closing record");
	stream_in_settle(&l->stream);
	return r == E_OK ? tick(l) : r; /* however short the load was, it asks once */
}
