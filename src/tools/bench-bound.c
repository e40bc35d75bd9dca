/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What could be reached at best.  Every codec is measured by itself in one
 * thread: a_i processor seconds a raw byte for reading and packing, b_i bytes
 * stored for it.  When a share x_i of the pages goes to codec i, N cores and a
 * disk of W bytes a second need at least
 *
 *	max(sum x_i a_i / N, sum x_i b_i / W)
 *
 * a raw byte, and the bound is the least of that over all shares.  It is a
 * linear program with two constraints beside sum x_i = 1, so that at most two
 * codecs take part: all single ones and all pairs are tried.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "image/block.h"
#include "tools/bench.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLE_BLOCKS = 512, PASSES = 3 };
static const double enough_seconds = 1;

/* ---- which codecs ---- */

static bool listed(const struct bound *bound, const struct codec *codec, int level)
{
	for (unsigned i = 0; i < bound->count; i++)
		if (bound->alone[i].choice.codec == codec && bound->alone[i].choice.level == level)
			return true;
	return false;
}

static void add(struct bound *bound, const struct codec *codec, int level)
{
	if (!codec_built_in(codec) || listed(bound, codec, level))
		return;
	struct choice *c = &bound->alone[bound->count++].choice;
	*c = (struct choice){.codec = codec, .level = level};
	if (codec->level_max)
		snprintf(c->name, sizeof c->name, "%s:%d", codec->name, level);
	else
		snprintf(c->name, sizeof c->name, "%s", codec->name);
}

static void list_codecs(struct bound *bound, const struct choice *choices, unsigned n)
{
	struct ladder auto_ladder;

	ladder_adapt(&auto_ladder);
	for (unsigned i = 0; i < auto_ladder.count; i++)
		add(bound, auto_ladder.rung[i].codec, auto_ladder.rung[i].level);
	add(bound, &codec_lzo, codec_lzo.level_default);
	for (unsigned i = 0; i < n; i++)
		if (!choices[i].adapt)
			add(bound, choices[i].codec, choices[i].level);
}

/* ---- one codec alone ---- */

/* What is needed to pack and unpack block after block. */
struct bench_block {
	struct arena arena;
	struct block_job job;
	struct block_worker worker;
	struct input_source source;
	struct rung rung;
	uint64_t pack_ns, unpack_ns, raw, stored;
};

static uint64_t thread_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void carve_block(struct bench_block *k)
{
	size_t pack = k->rung.codec->pack_memory(k->rung.level, BLOCK_SIZE_DEFAULT), unpack = codec_unpack_memory();

	block_job_carve(&k->job, &k->arena, BLOCK_SIZE_DEFAULT);
	k->worker.size = pack > unpack ? pack : unpack;
	k->worker.memory = arena_take(&k->arena, k->worker.size, 64);
}

static int open_block(struct bench_block *k, const struct input *in)
{
	arena_count(&k->arena);
	carve_block(k);
	int r = arena_open(&k->arena, k->arena.used, 0);
	if (r == E_OK)
		carve_block(k);
	input_source_open(&k->source, in);
	return r;
}

/* Work that needs no core is measured by the clock on the wall. */
static clockid_t clock_for(const struct codec *c)
{
	return c->id == CODEC_SLEEP ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
}

static int unpack_block(struct bench_block *k, id128 image)
{
	struct block_job *j = &k->job;

	if (k->rung.codec->id == CODEC_SLEEP)
		return E_OK;
	if (j->record.codec == CODEC_NONE)
		memcpy(j->packed, j->raw, j->record.stored);
	k->worker.ready = NULL;
	uint64_t begin = thread_ns(CLOCK_THREAD_CPUTIME_ID);
	int r = block_unpack(j, &k->worker, image);
	k->unpack_ns += thread_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	return r;
}

static int one_block(struct bench_block *k, uint64_t at, uint64_t number)
{
	static const id128 image = {"bench"};
	const struct input *in = k->source.input;
	uint32_t n = (uint32_t)min_u64(in->bytes - at, BLOCK_SIZE_DEFAULT);
	clockid_t clock = clock_for(k->rung.codec);

	/* A worker opens its memory once, not for every block; unpacking used the same. */
	int r = block_worker_open(&k->worker, &k->rung, BLOCK_SIZE_DEFAULT);
	if (r != E_OK)
		return r;
	k->source.at = at;
	k->job.record = (struct block_record){.raw = n, .number = number};
	uint64_t begin = thread_ns(clock);
	r = k->source.source.read(&k->source.source, k->job.raw, n);
	if (r == E_OK)
		r = block_pack(&k->job, &k->worker, &k->rung, BLOCK_SIZE_DEFAULT, image);
	k->pack_ns += thread_ns(clock) - begin;
	k->raw += n;
	k->stored += k->job.record.stored + BLOCK_RECORD;
	return r == E_OK ? unpack_block(k, image) : r;
}

/* Blocks spread evenly over all pages. */
static int one_pass(struct bench_block *k)
{
	const struct input *in = k->source.input;
	uint64_t blocks = div_up(in->bytes, BLOCK_SIZE_DEFAULT), n = min_u64(blocks, SAMPLE_BLOCKS);
	int r = E_OK;

	k->pack_ns = k->unpack_ns = k->raw = k->stored = 0;
	for (uint64_t i = 0; i < n && r == E_OK; i++)
		r = one_block(k, i * blocks / n * BLOCK_SIZE_DEFAULT, i);
	return r;
}

/* The lesser of two; 0 stands for not measured. */
static double least(double a, double b)
{
	return a == 0 || b < a ? b : a;
}

/* The least of all passes counts: whatever disturbs one makes it slower. */
static int measure(struct alone *a, const struct input *in)
{
	struct bench_block k = {.rung = {a->choice.codec, a->choice.level, 0}};
	int r = open_block(&k, in);

	if (r == E_OK)
		r = one_pass(&k);
	if (r == E_OK) {
		a->pack = least(a->pack, (double)k.pack_ns / 1e9 / (double)k.raw);
		a->unpack = least(a->unpack, (double)k.unpack_ns / 1e9 / (double)k.raw);
		a->ratio = (double)k.raw / (double)k.stored;
		a->spent += (double)(k.pack_ns + k.unpack_ns) / 1e9;
	}
	arena_close(&k.arena);
	return r;
}

static double measure_copy(struct copy_sink *sink, const struct input *in)
{
	uint32_t n = (uint32_t)min_u64(in->size, BLOCK_SIZE_DEFAULT);
	double best = 0;

	for (int i = 0; i < PASSES; i++) {
		uint64_t begin = thread_ns(CLOCK_THREAD_CPUTIME_ID), bytes = 0;
		for (; bytes < sink->size; bytes += n)
			sink->sink.write(&sink->sink, in->memory + bytes % (in->size - n + 1), n);
		best = least(best, (double)(thread_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e9 / (double)bytes);
	}
	return best;
}

unsigned bound_cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

int bound_measure(struct bound *bound, struct bench *b, const struct choice *choices, unsigned n)
{
	int r = E_OK;

	if (!bound->count)
		list_codecs(bound, choices, n);
	for (int pass = 0; pass < PASSES; pass++)
		for (unsigned i = 0; i < bound->count && r == E_OK; i++)
			if (!pass || bound->alone[i].spent < enough_seconds)
				r = measure(&bound->alone[i], &b->input);
	if (r == E_OK)
		bound->copy = least(bound->copy, measure_copy(&b->sink, &b->input));
	return r;
}

/* ---- the bound ---- */

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* Seconds a raw byte for the best mix of two: at one end, or where processor and disk take the same time. */
static double best_mix(double cpu1, double disk1, double cpu2, double disk2)
{
	double best = least(larger(cpu1, disk1), larger(cpu2, disk2));
	double slope = (cpu1 - cpu2) - (disk1 - disk2);
	double x = slope != 0 ? (disk2 - cpu2) / slope : -1;

	return x > 0 && x < 1 ? least(best, x * cpu1 + (1 - x) * cpu2) : best;
}

static unsigned cores_for(const struct bound *b, const struct run *r, bool sleeps)
{
	unsigned threads = r->threads ? r->threads : 1;

	return sleeps || threads < b->cores ? threads : b->cores;
}

static bool is_sleep(const struct choice *c)
{
	return c->codec && c->codec->id == CODEC_SLEEP;
}

double bound_save(const struct bound *b, const struct run *r)
{
	bool sleeps = is_sleep(r->choice);
	double seal = cipher_cost(b, r->cipher, DIRECTION_SAVE);
	double n = cores_for(b, r, sleeps), disk = r->write_rate ? 1 / (r->write_rate * 1e6) : 0, best = 0;

	for (unsigned i = 0; i < b->count; i++)
		for (unsigned k = i; k < b->count; k++) {
			const struct alone *p = &b->alone[i], *q = &b->alone[k];
			if (is_sleep(&p->choice) == sleeps && is_sleep(&q->choice) == sleeps)
				best = least(best, best_mix((p->pack + seal / p->ratio) / n, disk / p->ratio,
							    (q->pack + seal / q->ratio) / n, disk / q->ratio));
		}
	return best > 0 ? 1 / best / 1e6 : 0;
}

/* The fastest decoder of that format: blocks say which level packed them, the totals do not. */
static double unpack_of(const struct bound *b, unsigned id)
{
	double best = 0;

	for (unsigned i = 0; i < b->count; i++)
		if (b->alone[i].choice.codec->id == id)
			best = least(best, b->alone[i].unpack);
	return best;
}

double bound_load(const struct bound *b, const struct run *r, const struct sample *s)
{
	double cpu = b->copy * (double)s->raw, sink = cpu;

	for (unsigned i = 0; i < CODECS_MAX; i++)
		if (s->codec_raw[i])
			cpu += unpack_of(b, i) * (double)s->codec_raw[i];
	cpu += cipher_cost(b, r->cipher, DIRECTION_LOAD) * (double)s->stored;
	double best = larger(cpu / cores_for(b, r, false), sink);
	if (r->read_rate)
		best = larger(best, (double)s->stored / (r->read_rate * 1e6));
	return best > 0 ? (double)s->raw / best / 1e6 : 0;
}
