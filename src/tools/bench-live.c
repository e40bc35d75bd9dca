/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The running machine as input: hibernate() up to the mark, which is left out.
 * A snapshot can be read only once, so every save has one of its own.
 *
 * The kernel it is given is the real one behind a tap, which takes the time of
 * every read and, once, keeps blocks spread over the image, so that the codecs
 * can be measured on what the machine really holds.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "system/area.h"
#include "system/hibernate.h"
#include "system/machine.h"
#include "tools/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SAMPLE_BYTES = 32 << 20, SAMPLE_RUN = BLOCK_SIZE_DEFAULT };

struct tap {
	struct kernel kernel;
	struct kernel *real;
	uint64_t at, ns; /* bytes read of this snapshot, time it took */
	/* While blocks are kept: */
	uint8_t *keep;
	uint64_t kept, stride; /* bytes; a run of SAMPLE_RUN out of every stride */
};

struct live {
	struct tap tap;
	struct snapshot snapshot;
	struct area area;
	struct target target;
	struct hibernate h;
	struct image image;
	uint8_t *sample;
	/* Of the snapshot just saved: */
	uint64_t begin, end;
	double cpu_begin, cpu_end;
};

/* ---- the tap ---- */

static struct tap *tap_of(struct kernel *k)
{
	return (struct tap *)k;
}

static int tap_call(struct kernel *k, enum kernel_call c, uint64_t in, uint64_t *out)
{
	struct tap *t = tap_of(k);
	int e = t->real->ops->call(t->real, c, in, out);

	if (c == KERNEL_IMAGE_SIZE && !e) {
		t->at = t->ns = 0;
		t->stride = round_up(*out / (SAMPLE_BYTES / SAMPLE_RUN) + 1, SAMPLE_RUN);
	}
	return e;
}

static void tap_keep(struct tap *t, const struct iovec *v, uint64_t bytes)
{
	for (uint64_t at = t->at; bytes; v++) {
		uint64_t n = min_u64(bytes, v->iov_len);

		if (at % t->stride < SAMPLE_RUN && n <= SAMPLE_BYTES - t->kept) {
			memcpy(t->keep + t->kept, v->iov_base, n);
			t->kept += n;
		}
		at += n;
		bytes -= n;
	}
}

static ssize_t tap_readv(struct kernel *k, const struct iovec *v, int n)
{
	struct tap *t = tap_of(k);
	uint64_t begin = clock_ns();
	ssize_t got = t->real->ops->readv(t->real, v, n);

	t->ns += clock_ns() - begin;
	if (got > 0 && t->keep)
		tap_keep(t, v, (uint64_t)got);
	if (got > 0)
		t->at += (uint64_t)got;
	return got;
}

static const struct kernel_ops tap_ops = {tap_call, tap_readv, NULL};

/* ---- one snapshot ---- */

static int no_fingerprints(void *ctx, struct fingerprint *out, uint32_t *n)
{
	(void)ctx;
	(void)out;
	*n = 0;
	return E_OK;
}

static void any_id(void *ctx, id128 *out)
{
	(void)ctx;
	memset(out->b, 'l', sizeof out->b);
}

static uint64_t no_time(void *ctx)
{
	(void)ctx;
	return 0;
}

static void take_time(void *ctx, enum hibernate_event e, uint64_t a, uint64_t b)
{
	struct live *l = ctx;

	(void)a;
	(void)b;
	if (e == EVENT_IMAGE) {
		l->cpu_begin = run_cpu_now();
		l->begin = clock_ns();
	} else if (e == EVENT_SAVED) {
		l->end = clock_ns();
		l->cpu_end = run_cpu_now();
	}
}

static void fill_hibernate(struct live *l, struct bench *b)
{
	l->h = (struct hibernate){
		.kernel = &l->tap.kernel,
		.disk = &b->store.paced.disk,
		.image = &l->image,
		.device = l->area.device,
		.area_start = l->area.start,
		.old_image_size = IMAGE_SIZE_UNKNOWN,
		.fingerprints = no_fingerprints,
		.event = take_time,
		.random = any_id,
		.now = no_time,
		.ctx = l,
		.measure = true,
	};
	machine_describe(&l->h.header);
	l->h.header.shutdown = SHUTDOWN_POWEROFF;
	l->h.header.area_start = l->area.start;
}

static void note(const struct live *l, const struct bench *b, const struct save *s, struct sample *out)
{
	const struct trailer *t = save_trailer(s);

	out->seconds = (double)(l->end - l->begin) / 1e9;
	out->cpu = l->cpu_end - l->cpu_begin;
	out->fill = (double)l->tap.ns / 1e9;
	out->wait = (double)b->store.paced.waited / 1e9;
	out->raw = t->raw_bytes;
	out->stored = t->stream_bytes;
	for (int i = 0; i < CODECS_MAX; i++)
		out->codec_raw[i] = t->codec[i].raw;
}

int live_once(struct bench *b, const struct run *r, struct sample *out)
{
	uint32_t page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	struct live *l = b->live;
	struct store_pages pages;
	struct save_options o;
	int e;

	fill_hibernate(l, b);
	e = run_ready_save(b, r, page_size, 0, &o, &l->h.save);
	if (e == E_OK && r->cipher)
		e = bench_seal(&b->seal, r->cipher, o.threads);
	if (e != E_OK)
		return e;
	l->h.seal = r->cipher ? &b->seal : NULL;
	paced_start(&b->store.paced, l->area.device ? &l->target.file.disk : &b->store.null, 0, r->write_rate);
	store_pages_open(&pages, &b->store, page_size);
	/* The kernel hangs for ever when memory runs out while tasks are frozen. */
	if (mlockall(MCL_CURRENT))
		return fault(E_MEMORY, errno, "cannot lock the program into memory");
	if (!l->area.device)
		l->h.swap = &pages.pages;
	log_hold();
	e = hibernate(&l->h);
	log_release();
	munlockall();
	l->h.swap = NULL;
	seal_close(&b->seal);
	if (e == E_OK)
		note(l, b, l->h.save, out);
	out->threads = o.threads;
	return e;
}

/* ---- opening ---- */

static int open_area(struct live *l, const char *spec)
{
	int r = area_find(spec, false, 0, (uint32_t)sysconf(_SC_PAGESIZE), &l->area);

	if (r == E_OK && !l->area.active)
		r = fault(E_DEVICE, 0, "it is not switched on as swap; without --live s2bench writes to it directly");
	if (r == E_OK)
		r = area_check_stack(l->area.device);
	return r == E_OK ? target_open(&l->target, l->area.path, TARGET_SAVE) : r;
}

/* The first snapshot: read once, thrown away but for a sample. */
static int take_sample(struct bench *b)
{
	static const struct choice none = {.name = "none", .codec = &codec_none};
	struct run r = {.direction = DIRECTION_SAVE, .choice = &none};
	struct live *l = b->live;
	struct area area = l->area;
	struct sample s = {0};

	l->area = (struct area){0};
	l->tap.keep = l->sample;
	int e = live_once(b, &r, &s);
	l->tap.keep = NULL;
	l->area = area;
	b->input.bytes = b->input.size = l->tap.kept / b->input.page_size * b->input.page_size;
	return e == E_OK && !b->input.bytes ? fault(E_SNAPSHOT, 0, "the kernel's image is empty") : e;
}

int live_open(struct bench *b, const char *area)
{
	static struct live live; /* locked and in memory like the rest */
	struct live *l = &live;
	int r = E_OK;

	b->live = l;
	l->target.fd = l->snapshot.fd = -1;
	b->input = (struct input){.name = "live", .page_size = (uint32_t)sysconf(_SC_PAGESIZE)};
	if (geteuid())
		return fault(E_PRIVILEGE, 0, "a snapshot of the machine needs root");
	if (area)
		r = open_area(l, area);
	if (r == E_OK)
		r = snapshot_open(&l->snapshot, "/dev/snapshot", false);
	if (r != E_OK)
		return r;
	l->tap = (struct tap){.kernel = {&tap_ops}, .real = &l->snapshot.kernel};
	l->sample = malloc(SAMPLE_BYTES);
	if (!l->sample)
		return fault(E_MEMORY, 0, "cannot hold %d MiB", SAMPLE_BYTES >> 20);
	memset(l->sample, 0, SAMPLE_BYTES);
	b->input.memory = l->sample;
	return take_sample(b);
}

void live_close(struct bench *b)
{
	struct live *l = b->live;

	if (!l)
		return;
	b->input.memory = NULL; /* it is the sample */
	free(l->sample);
	snapshot_close(&l->snapshot);
	target_close(&l->target);
}
