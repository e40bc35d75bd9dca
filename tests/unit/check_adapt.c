/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The choice of the codec: ladder, meter, and both with a made-up disk. */
#include "config.h"

#include "image/adapt.h"

#include <check.h>
#include <stdlib.h>

enum { MIB = 1 << 20, BLOCK = 256 << 10, QUEUE = 16 };
#define MS 1000000ull

START_TEST(ladder_goes_from_fast_to_strong)
{
	struct ladder l;

	ladder_adapt(&l);
	ck_assert_uint_ge(l.count, 2);
	ck_assert_uint_le(l.count, ADAPT_RUNGS_MAX);
	for (unsigned i = 0; i + 1 < l.count; i++) {
		ck_assert(codec_built_in(l.rung[i].codec));
		if (i)
			ck_assert(l.rung[i].below > l.rung[i - 1].below);
	}
	ck_assert_ptr_eq(l.rung[0].codec, &codec_none);
}
END_TEST

START_TEST(pressure_picks_the_rung)
{
	struct ladder l;

	ladder_adapt(&l);
	ck_assert_uint_eq(ladder_pick(&l, 0, 100), 0);
	for (unsigned i = 0; i + 1 < l.count; i++) {
		ck_assert_uint_eq(ladder_pick(&l, l.rung[i].below - 1e-6, 100), i);
		ck_assert_uint_eq(ladder_pick(&l, l.rung[i].below, 100), i + 1);
	}
	ck_assert_uint_eq(ladder_pick(&l, 1e9, 100), l.count - 1);
}
END_TEST

START_TEST(first_blocks_are_packed)
{
	struct ladder l;

	ladder_adapt(&l);
	for (unsigned b = 0; b < 4; b++)
		ck_assert_ptr_ne(l.rung[ladder_pick(&l, 0, b)].codec, &codec_none);
	ck_assert_uint_eq(ladder_pick(&l, 1e9, 0), l.count - 1);
}
END_TEST

START_TEST(fixed_is_fixed)
{
	struct ladder l;

	ladder_fixed(&l, &codec_none, 0);
	ck_assert_uint_eq(ladder_pick(&l, 0, 0), 0);
	ck_assert_uint_eq(ladder_pick(&l, 1e9, 50), 0);
}
END_TEST

START_TEST(memory_covers_every_rung)
{
	struct ladder l;

	ladder_adapt(&l);
	size_t most = ladder_memory(&l, BLOCK);
	uint8_t *memory = aligned_alloc(64, (most + 63) / 64 * 64);
	uint8_t *src = calloc(1, BLOCK), *dst = malloc(codec_room(BLOCK));
	for (unsigned i = 0; i < l.count; i++) {
		const struct rung *r = &l.rung[i];
		ck_assert_int_eq(r->codec->pack_open(memory, most, r->level, BLOCK), 0);
		size_t n = r->codec->pack(memory, r->level, src, BLOCK, dst, BLOCK - 1);
		if (r->codec != &codec_none)
			ck_assert(n > 0 && n < BLOCK / 50);
	}
	free(dst);
	free(src);
	free(memory);
}
END_TEST

START_TEST(idle_disk_has_no_backlog)
{
	struct write_meter m;

	meter_reset(&m);
	ck_assert(meter_pressure(&m, 12 * MIB, 0) == 0);
	meter_handed(&m, MIB, 5 * MS);
	meter_written(&m, MIB, 5 * MS, 15 * MS);
	ck_assert(meter_pressure(&m, 12 * MIB, 500 * MS) == 0);
}
END_TEST

START_TEST(write_in_no_time_is_a_fast_disk)
{
	struct write_meter m;

	meter_reset(&m);
	for (int i = 0; i < 20; i++) {
		meter_handed(&m, MIB, 7 * MS);
		meter_written(&m, MIB, 7 * MS, 7 * MS);
	}
	meter_handed(&m, 4 * MIB, 7 * MS);
	/* 4 MiB of the 9 that may be waiting before the strongest rung, not of 6. */
	ck_assert(meter_pressure(&m, 12 * MIB, 7 * MS) < 0.45);
}
END_TEST

START_TEST(write_under_way_counts_down)
{
	struct write_meter m;

	meter_reset(&m);
	for (int i = 0; i < 20; i++) {
		meter_handed(&m, MIB, i * 10 * MS);
		meter_written(&m, MIB, i * 10 * MS, (i + 1) * 10 * MS);
	}
	meter_handed(&m, 6 * MIB, 200 * MS);
	double at_once = meter_pressure(&m, 12 * MIB, 200 * MS), later = meter_pressure(&m, 12 * MIB, 205 * MS);
	ck_assert(at_once > later);
	/* But no more than one write is taken as done before it is. */
	ck_assert(meter_pressure(&m, 12 * MIB, 100000 * MS) >= at_once * 4.99 / 6);
}
END_TEST

/* A disk of @rate bytes/s with a queue of so many requests. */
struct made_up_disk {
	struct write_meter m;
	double rate, free;
	double sent[QUEUE], done[QUEUE], bytes[QUEUE];
	unsigned head, tail;
};

static void disk_finish_one(struct made_up_disk *d)
{
	unsigned i = d->tail++ % QUEUE;

	meter_written(&d->m, (uint64_t)d->bytes[i], (uint64_t)d->sent[i], (uint64_t)d->done[i]);
}

/* Starts a request at @now; when the queue is full, at the time when there is room. */
static double disk_start(struct made_up_disk *d, double bytes, double now)
{
	if (d->head - d->tail == QUEUE) {
		if (now < d->done[d->tail % QUEUE])
			now = d->done[d->tail % QUEUE];
		disk_finish_one(d);
	}
	unsigned i = d->head++ % QUEUE;
	meter_handed(&d->m, (uint64_t)bytes, (uint64_t)now);
	d->free = (d->free > now ? d->free : now) + bytes / d->rate * 1e9;
	d->sent[i] = now;
	d->done[i] = d->free;
	d->bytes[i] = bytes;
	return now;
}

/* Cores that pack rung i at @speed[i] to @share[i], and a disk of @rate: raw bytes a second. */
static double steady_rate(double rate, const double *speed, const double *share, unsigned rungs)
{
	struct made_up_disk d = {.rate = rate};
	struct ladder l;
	double now = 0, raw = 0, fill = 0;

	ladder_adapt(&l);
	ck_assert_uint_eq(l.count, rungs);
	meter_reset(&d.m);
	for (unsigned b = 0; b < 4000; b++) {
		uint32_t request = meter_request(&d.m, MIB);

		while (d.tail < d.head && d.done[d.tail % QUEUE] <= now)
			disk_finish_one(&d);
		unsigned i = ladder_pick(&l, meter_pressure(&d.m, (uint64_t)QUEUE * request, (uint64_t)now), b);
		now += BLOCK / speed[i] * 1e9;
		raw += BLOCK;
		for (fill += BLOCK * share[i]; fill >= request; fill -= request)
			now = disk_start(&d, request, now);
	}
	return raw / ((now > d.free ? now : d.free) / 1e9);
}

START_TEST(no_disk_is_far_from_its_bound)
{
	/* None, lz4 32, 8, 1, zstd 1, 3, 7, 9 on two cores, about what browser pages gave. */
	static const double speed[] = {12e9, 2.6e9, 1.75e9, 1.39e9, .88e9, .58e9, .2e9, .12e9};
	static const double share[] = {1, .48, .385, .323, .222, .213, .2, .197};
	static const double rates[] = {30e6, 94e6, 200e6, 550e6, 1e9, 2e9, 4e9};
	enum { RUNGS = 8 };

	for (unsigned k = 0; k < sizeof rates / sizeof rates[0]; k++) {
		double best = 0, got = steady_rate(rates[k], speed, share, RUNGS);
		for (int i = 0; i < RUNGS; i++) {
			double disk = rates[k] / share[i], one = disk < speed[i] ? disk : speed[i];
			best = one > best ? one : best;
		}
		/* At least nearly the best fixed rung; mixing passes it where two straddle the disk's speed. */
		ck_assert_msg(got > best * 0.96, "%.0f MB/s disk: %.0f MB/s, the best fixed gives %.0f", rates[k] / 1e6,
			      got / 1e6, best / 1e6);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("check_adapt");
	TCase *t = tcase_create("adapt");

	tcase_add_test(t, ladder_goes_from_fast_to_strong);
	tcase_add_test(t, pressure_picks_the_rung);
	tcase_add_test(t, first_blocks_are_packed);
	tcase_add_test(t, fixed_is_fixed);
	tcase_add_test(t, memory_covers_every_rung);
	tcase_add_test(t, idle_disk_has_no_backlog);
	tcase_add_test(t, write_in_no_time_is_a_fast_disk);
	tcase_add_test(t, write_under_way_counts_down);
#if HAVE_LZ4 && HAVE_ZSTD
	tcase_add_test(t, no_disk_is_far_from_its_bound);
#endif
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(suite());

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
