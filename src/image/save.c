/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/save.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "image/block.h"
#include "image/pipeline.h"

#include <stdatomic.h>
#include <string.h>

enum {
	QUEUE_SHARE = 16,  /* of the memory a save may take, the write queue's part */
	OWN_PAGES = 2048,  /* room for an image's own pages */
	RECORD_SHARE = 64, /* of the pages, at least what their records take */
};

struct save {
	struct save_options o;
	struct ladder ladder;
	const struct save_input *in;
	struct stream_out out;
	struct block_job *job;
	struct block_worker *worker;
	uint8_t *stacks;
	uint8_t *head; /* HEADER_PAGES_MAX record pages */
	uint64_t header_place, started;
	/* The filling thread: */
	uint64_t left, next_number;
	/* The draining thread: */
	struct trailer trailer;
	/* Drain writes, tick reads. */
	_Atomic uint64_t raw_done, stored_done;
	_Atomic unsigned last_codec;
};

/* ---- memory ---- */

static uint64_t worst_block(const struct save_options *o)
{
	return BLOCK_RECORD + o->block_size;
}

static unsigned queue_buffers(const struct save_options *o)
{
	return o->adapt ? STREAM_BUFFERS_MAX : STREAM_BUFFERS;
}

static void carve_workers(struct save *s, struct arena *a, const struct save_options *o)
{
	unsigned slots = pipeline_slots(o->threads), workers = o->threads ? o->threads : 1;
	size_t memory = ladder_memory(&s->ladder, o->block_size);
	size_t probe_memory = o->adapt ? block_probe_memory(o->block_size) : 0;
	struct block_job *job = arena_take(a, slots * sizeof *job, 64);
	struct block_worker *worker = arena_take(a, workers * sizeof *worker, 64);
	struct block_job scratch_job;

	for (unsigned i = 0; i < slots; i++)
		block_job_carve(job ? &job[i] : &scratch_job, a, o->block_size);
	for (unsigned i = 0; i < workers; i++) {
		uint8_t *p = arena_take(a, memory, 64);
		uint8_t *probe = arena_take(a, probe_memory, 64);
		if (worker)
			worker[i] = (struct block_worker){
				.memory = p, .size = memory, .probe = probe_memory ? probe : NULL};
	}
	s->job = job;
	s->worker = worker;
	s->stacks = arena_take(a, (size_t)o->threads * PIPELINE_STACK, 4096);
}

struct save *save_carve(struct arena *a, const struct save_options *o)
{
	/* cppcheck-suppress uninitvar; only its address is taken */
	struct save counting, *real = arena_take(a, sizeof *real, 64), *s = real ? real : &counting;

	s->o = *o;
	if (o->adapt)
		ladder_adapt(&s->ladder);
	else
		ladder_fixed(&s->ladder, o->codec, o->level);
	carve_workers(s, a, o);
	stream_out_carve(&s->out, a, o->page_size, pipeline_slots(o->threads) * worst_block(o), queue_buffers(o),
			 o->buffer ? o->buffer : STREAM_BUFFER);
	s->head = arena_take(a, HEADER_PAGES_MAX * RECORD_PAGE, DISK_UNIT);
	return real && real->head ? real : NULL;
}

int save_plan(struct save_options *o, size_t limit, size_t *size)
{
	struct arena a;

	/* What is taken for the queue is in the image: a small machine has a slow disk, more often than not. */
	size_t fair = limit / QUEUE_SHARE / queue_buffers(o);
	o->buffer = STREAM_BUFFER;
	while (o->buffer > STREAM_BUFFER_MIN && o->buffer > fair)
		o->buffer /= 2;
	if (o->threads > PIPELINE_THREADS_MAX)
		o->threads = PIPELINE_THREADS_MAX;
	for (;;) {
		arena_count(&a);
		save_carve(&a, o);
		*size = a.used;
		if (a.used <= limit)
			return E_OK;
		if (o->buffer > STREAM_BUFFER_MIN)
			o->buffer /= 2;
		else if (o->threads)
			o->threads--;
		else
			return fault(E_MEMORY, 0, "saving needs %zu KiB, %zu KiB may be taken", a.used >> 10,
				     limit >> 10);
	}
}

uint64_t save_room(uint64_t raw, uint32_t page_size)
{
	return round_up(raw + raw / RECORD_SHARE + (uint64_t)OWN_PAGES * page_size, page_size);
}

/* ---- the three stages ---- */

static int fill(void *ctx, unsigned slot)
{
	struct save *s = ctx;
	struct block_job *j = &s->job[slot];

	if (!s->left)
		return PIPELINE_END;
	uint32_t n = (uint32_t)min_u64(s->left, s->o.block_size);
	int r = stream_out_reserve(&s->out, BLOCK_RECORD + n);
	if (r == E_OK)
		r = s->in->source->read(s->in->source, j->raw, n);
	if (r != E_OK)
		return r;
	j->record = (struct block_record){.raw = n, .number = s->next_number++};
	s->left -= n;
	return E_OK;
}

static const struct rung *choose_rung(struct save *s, uint64_t block)
{
	uint64_t raw = s->in->header->image_bytes - block * s->o.block_size;
	uint64_t stored = atomic_load_explicit(&s->stored_done, memory_order_relaxed);

	if (s->ladder.count == 1)
		return &s->ladder.rung[0];
	double need = room_pressure(raw, s->in->room > stored ? s->in->room - stored : 0);
	/* A disk without a queue shows no backlog however slow it is: the first blocks' rung for all. */
	double pressure = s->in->disk->queues ? stream_out_pressure(&s->out) : 0;
	return &s->ladder.rung[ladder_pick(&s->ladder, need > pressure ? need : pressure,
					   s->in->disk->queues ? block : 0)];
}

static int work(void *ctx, unsigned slot, unsigned worker)
{
	struct save *s = ctx;
	struct block_job *j = &s->job[slot];
	const struct rung *rung = choose_rung(s, j->record.number);

	if (s->ladder.count > 1 && rung->codec == &codec_zstd && block_dense(j, &s->worker[worker]))
		rung = &s->ladder.rung[0];
	return block_pack(j, &s->worker[worker], rung, s->o.block_size, s->in->header->image_id);
}

static void count(struct save *s, const struct block_record *b)
{
	struct codec_count *c = &s->trailer.codec[b->codec];

	c->blocks++;
	c->raw += b->raw;
	c->stored += b->stored;
	s->trailer.blocks++;
	s->trailer.raw_bytes += b->raw;
	atomic_store_explicit(&s->raw_done, s->trailer.raw_bytes, memory_order_relaxed);
	atomic_store_explicit(&s->stored_done, s->out.position, memory_order_relaxed);
	atomic_store_explicit(&s->last_codec, b->codec, memory_order_relaxed);
}

static int drain(void *ctx, unsigned slot)
{
	struct save *s = ctx;
	struct block_job *j = &s->job[slot];
	const struct block_record *b = &j->record;
	int r = stream_out_append(&s->out, j->bytes, BLOCK_RECORD);

	if (r == E_OK)
		r = stream_out_append(&s->out, j->payload, b->stored);
	if (r == E_OK)
		r = stream_out_collect(&s->out);
	if (r != E_OK)
		return r;
	stream_out_keep_promise(&s->out, BLOCK_RECORD + b->raw);
	s->trailer.image_check = chain_next(s->trailer.image_check, j->bytes, BLOCK_RECORD);
	count(s, b);
	return E_OK;
}

static int tick(void *ctx)
{
	struct save *s = ctx;
	struct save_progress p = {
		.raw = atomic_load_explicit(&s->raw_done, memory_order_relaxed),
		.stored = atomic_load_explicit(&s->stored_done, memory_order_relaxed),
		.total = s->in->header->image_bytes,
		.ns = clock_ns() - s->started,
		.codec = atomic_load_explicit(&s->last_codec, memory_order_relaxed),
	};

	return s->in->tick ? s->in->tick(s->in->tick_ctx, &p) : E_OK;
}

static const struct pipeline_ops ops = {fill, work, drain, tick};

/* ---- the records round it ---- */

/* Whatever was opened before, memory may have been wiped since. */
static int open_workers(struct save *s)
{
	unsigned n = s->o.threads ? s->o.threads : 1;
	int r = E_OK;

	for (unsigned i = 0; i < n && r == E_OK; i++) {
		s->worker[i].seal = s->in->seal;
		s->worker[i].context = i;
		r = block_worker_open(&s->worker[i], &s->ladder.rung[s->ladder.count - 1], s->o.block_size);
	}
	return r;
}

/* Pages for all that is not stream, so that the header can name them. */
static int take_places(struct save *s, struct header *h)
{
	int r = stream_out_reserve(&s->out, 0);

	h->pages = header_pages(h->fingerprint_count, h->features & FEATURE_SEALED);
	if (r == E_OK)
		r = stream_out_page(&s->out, &s->header_place);
	for (uint32_t i = 1; i < h->pages && r == E_OK; i++)
		r = stream_out_page(&s->out, &h->more[i - 1]);
	if (r == E_OK)
		r = stream_out_page(&s->out, &h->state_place);
	if (r == E_OK)
		r = stream_out_page(&s->out, &h->trailer_place);
	return r;
}

/*
 * Blocks are bound to the fixed header, so all of it is known from here on:
 * also the codecs, which are those that may be used.
 */
static void bind_header(struct save *s)
{
	struct header *h = s->in->header;

	h->codecs = 1u << CODEC_NONE;
	for (unsigned i = 0; i < s->ladder.count; i++)
		h->codecs |= 1u << s->ladder.rung[i].codec->id;
	header_put(s->head, h, s->in->fingerprints);
	seal_header(s->in->seal, s->head, h->pages);
}

static int put_closing(struct save *s, const struct block_record *b, uint8_t *payload, uint8_t bytes[BLOCK_RECORD])
{
	struct seal *seal = s->in->seal;

	if (seal)
		return seal_block(seal, seal_records(seal), b, payload, payload, bytes);
	block_record_put(bytes, b, payload, s->in->header->image_id);
	return E_OK;
}

static int append_closing(struct save *s)
{
	struct trailer *t = &s->trailer;
	struct closing c = {t->blocks, t->raw_bytes, s->out.position, t->image_check};
	struct block_record b = {.stored = CLOSING_PAYLOAD,
				 .raw = CLOSING_PAYLOAD,
				 .codec = CODEC_CLOSING,
				 .flags = BLOCK_LAST,
				 .number = t->blocks};
	uint8_t payload[CLOSING_PAYLOAD], bytes[BLOCK_RECORD];

	closing_put(payload, &c);
	int r = put_closing(s, &b, payload, bytes);
	if (r == E_OK)
		r = stream_out_append(&s->out, bytes, sizeof bytes);
	return r == E_OK ? stream_out_append(&s->out, payload, sizeof payload) : r;
}

static int put_trailer(struct save *s, uint8_t *page)
{
	id128 image = s->in->header->image_id;
	int r = E_OK;

	trailer_put(page, &s->trailer, image);
	if (s->in->seal) {
		r = seal_trailer(s->in->seal, page, s->trailer.tag);
		trailer_put(page, &s->trailer, image);
	}
	return r;
}

static int write_trailer_and_state(struct save *s)
{
	const struct header *h = s->in->header;
	struct state fresh = {0};
	uint8_t *page = s->head;

	int r = put_trailer(s, page);
	if (r == E_OK)
		r = disk_write(s->in->disk, page, RECORD_PAGE, h->trailer_place);
	if (r != E_OK)
		return r;
	state_put(page, &fresh, h->image_id);
	r = disk_write(s->in->disk, page, RECORD_PAGE, h->state_place);
	return r == E_OK ? disk_sync(s->in->disk) : r;
}

static int write_header(struct save *s)
{
	struct header *h = s->in->header;
	int r = E_OK;

	for (unsigned i = 0; i < CODEC_COUNT && !s->in->seal; i++)
		if (s->trailer.codec[i].blocks)
			h->codecs |= 1u << i;
	header_put(s->head, h, s->in->fingerprints);
	for (uint32_t i = 0; i < h->pages && r == E_OK; i++)
		r = disk_write(s->in->disk, s->head + (size_t)i * RECORD_PAGE, RECORD_PAGE,
			       i ? h->more[i - 1] : s->header_place);
	return r == E_OK ? disk_sync(s->in->disk) : r;
}

static void begin(struct save *s, const struct save_input *in)
{
	s->in = in;
	s->started = clock_ns();
	s->left = in->header->image_bytes;
	s->next_number = 0;
	s->header_place = 0;
	in->header->page_size = s->o.page_size;
	in->header->block_size = s->o.block_size;
	in->header->codecs = 0;
	memset(in->header->more, 0, sizeof in->header->more);
	memset(&s->trailer, 0, sizeof s->trailer);
	s->trailer.image_check = id64(in->header->image_id);
	s->raw_done = s->stored_done = 0;
	stream_out_start(&s->out, in->disk, in->swap, in->header->image_id, in->seal ? in->seal->extents : NULL);
	s->last_codec = CODEC_NONE;
}

static int write_all(struct save *s)
{
	int r = open_workers(s);

	if (r == E_OK && s->in->seal)
		r = seal_new_key(s->in->seal, s->in->header);
	if (r == E_OK)
		r = take_places(s, s->in->header);
	if (r == E_OK && s->in->seal)
		bind_header(s);
	if (r == E_OK)
		r = pipeline_run(&ops, s, s->o.threads, s->stacks);
	if (r == E_OK)
		r = append_closing(s);
	if (r == E_OK)
		r = stream_out_finish(&s->out, &s->trailer);
	if (!s->o.reproducible) {
		s->trailer.save_ns = clock_ns() - s->started;
		s->trailer.threads = s->o.threads;
	}
	if (r == E_OK)
		r = write_trailer_and_state(s);
	if (r == E_OK)
		r = write_header(s);
	return r == E_OK ? tick(s) : r; /* however short the save was, it asks once */
}

int save_run(struct save *s, const struct save_input *in)
{
	begin(s, in);
	int r = write_all(s);
	if (in->seal)
		seal_forget(in->seal);
	if (r != E_OK)
		stream_out_settle(&s->out);
	if (r == E_NOSPACE)
		fault(r, 0, "%llu of %llu KiB were saved in %llu KiB of swap before it was full",
		      (unsigned long long)(s->trailer.raw_bytes >> 10),
		      (unsigned long long)(in->header->image_bytes >> 10), (unsigned long long)(s->out.position >> 10));
	stream_out_stop(&s->out);
	return r;
}

uint64_t save_header_place(const struct save *s)
{
	return s->header_place;
}

const struct trailer *save_trailer(const struct save *s)
{
	return &s->trailer;
}
