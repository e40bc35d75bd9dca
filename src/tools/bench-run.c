/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One save or load, by the very code that hibernates, and what it took. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "system/machine.h"
#include "tools/bench.h"

#include <string.h>
#include <sys/resource.h>

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

double run_cpu_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return seconds_of(u.ru_utime) + seconds_of(u.ru_stime);
}

/* Just taken and zero; touched from here too, since a virtual machine's first touch can cost more than the run. */
static int ready_memory(struct arena *a, size_t size)
{
	arena_close(a);
	int r = arena_open(a, size, 0);
	if (r == E_OK)
		arena_wipe(a);
	return r;
}

int run_ready_save(struct bench *b, const struct run *r, uint32_t page_size, size_t extra, struct save_options *o,
		   struct save **s)
{
	size_t size = 0;

	*o = (struct save_options){
		.page_size = page_size,
		.block_size = BLOCK_SIZE_DEFAULT,
		.threads = r->threads,
		.adapt = r->choice->adapt,
		.codec = r->choice->codec,
		.level = r->choice->level,
	};
	int e = save_plan(o, arena_limit(), &size);
	if (e == E_OK)
		e = ready_memory(&b->arena, size + extra);
	if (e != E_OK)
		return e;
	*s = save_carve(&b->arena, o);
	return *s ? E_OK : E_INTERNAL;
}

static void describe(struct header *h, uint64_t raw)
{
	memset(h, 0, sizeof *h);
	machine_describe(h);
	memset(h->image_id.b, 'b', sizeof h->image_id.b);
	h->image_bytes = raw;
	h->shutdown = SHUTDOWN_POWEROFF;
}

static void note(struct sample *out, const struct trailer *t, uint64_t begin, double cpu, uint64_t fill, uint64_t wait)
{
	out->seconds = (double)(clock_ns() - begin) / 1e9;
	out->cpu = run_cpu_now() - cpu;
	out->fill = (double)fill / 1e9;
	out->wait = (double)wait / 1e9;
	out->raw = t->raw_bytes;
	out->stored = t->stream_bytes;
	for (int i = 0; i < CODECS_MAX; i++)
		out->codec_raw[i] = t->codec[i].raw;
}

/* Saves to @disk; @t gets the trailer. */
static int save_to(struct bench *b, const struct run *r, struct disk *disk, struct header *h, struct trailer *t,
		   struct sample *out)
{
	struct input_source source;
	struct store_pages pages;
	struct save_options o;
	struct save_input in = {
		.source = &source.source, .swap = &pages.pages, .room = UINT64_MAX, .header = h, .tick = b->tick};
	struct save *s = NULL;
	int e = run_ready_save(b, r, b->input.page_size, 0, &o, &s);

	if (e != E_OK)
		return e;
	describe(h, b->input.bytes);
	if (r->cipher)
		e = bench_seal(&b->seal, r->cipher, o.threads);
	if (e != E_OK)
		return e;
	in.seal = r->cipher ? &b->seal : NULL;
	input_source_open(&source, &b->input);
	store_pages_open(&pages, &b->store, b->input.page_size);
	paced_start(&b->store.paced, disk, 0, r->write_rate);
	in.disk = &b->store.paced.disk;
	double cpu = run_cpu_now();
	uint64_t begin = clock_ns();
	e = save_run(s, &in);
	*t = *save_trailer(s);
	note(out, t, begin, cpu, source.ns, b->store.paced.waited);
	out->threads = o.threads;
	memcpy(h->hash, b->seal.header, sizeof h->hash);
	seal_close(&b->seal);
	return e;
}

/* ---- loads ---- */

/* True when what lies in the store is what @r wants to load; the disk's speed shapes only what auto stores. */
static bool same_image(const struct run *a, const struct run *r)
{
	return a->choice == r->choice && a->cipher == r->cipher &&
	       (!r->choice->adapt || (a->threads == r->threads && a->write_rate == r->write_rate));
}

static int ready_image(struct bench *b, const struct run *r)
{
	struct run save = *r;
	struct sample ignored;

	if (same_image(&b->loadable, r))
		return E_OK;
	b->loadable = (struct run){0};
	seal_close(&b->opened);
	b->image.seal = NULL;
	int e = save_to(b, &save, b->store.load, &b->image.header, &b->image.trailer, &ignored);
	if (e == E_OK && r->cipher) {
		e = bench_unseal(&b->opened, &b->image.header);
		b->image.seal = &b->opened;
	}
	if (e == E_OK)
		b->loadable = *r;
	return e;
}

static int load_from(struct bench *b, const struct run *r, struct sample *out)
{
	struct load_options o = {b->input.page_size, BLOCK_SIZE_DEFAULT, r->threads};
	struct load_input in = {.image = &b->image, .sink = &b->sink.sink, .tick = b->tick};
	size_t size = 0;
	int e = load_plan(&o, arena_limit(), &size);

	if (e == E_OK)
		e = ready_memory(&b->arena, size);
	if (e != E_OK)
		return e;
	struct load *l = load_carve(&b->arena, &o);
	if (!l)
		return E_INTERNAL;
	paced_start(&b->store.paced, b->store.load, r->read_rate, 0);
	b->image.disk = &b->store.paced.disk;
	b->sink.ns = 0;
	double cpu = run_cpu_now();
	uint64_t begin = clock_ns();
	e = load_run(l, &in);
	note(out, &b->image.trailer, begin, cpu, b->sink.ns, b->store.paced.waited);
	out->threads = o.threads;
	return e;
}

int run_once(struct bench *b, const struct run *r, struct sample *out)
{
	struct header h;
	struct trailer t;

	if (b->live)
		return live_once(b, r, out);
	if (r->direction == DIRECTION_LOAD) {
		int e = ready_image(b, r);
		return e == E_OK ? load_from(b, r, out) : e;
	}
	if (b->store.save == b->store.load)
		b->loadable = (struct run){0};
	return save_to(b, r, b->store.save, &h, &t, out);
}
