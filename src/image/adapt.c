/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/adapt.h"

#include "base/bytes.h"

/*
 * Set point: what the disk writes in 8 ms, but at least QUEUE_MIN, so that a
 * slow disk's queue is not counted in single buffers, and no more than the
 * queue can hold with room above for the strongest rung.  A fraction of the
 * whole queue would fill it with weakly packed blocks first.
 */
enum { QUEUE_MIN = 2 << 20, WRITE_MIN = 256 << 10, FIRST_BLOCKS = 4 };
/* Seconds of writing: the set point, a request, what may pass unseen. */
static const double horizon = 0.008, request = 0.001, look = 0.001;
static const double headroom = 1.33, fading = 0.85, first_pressure = 0.33;

static const struct rung rungs[ADAPT_RUNGS_MAX] = {
	{&codec_none, 0, 0.10}, {&codec_lz4, 32, 0.22}, {&codec_lz4, 8, 0.30},	{&codec_lz4, 1, 0.40},
	{&codec_zstd, 1, 0.65}, {&codec_zstd, 3, 0.80}, {&codec_zstd, 7, 1.20}, {&codec_zstd, 9, 0},
};
static const struct rung without_lz4 = {&codec_lzo, 0, 0.40};

void ladder_fixed(struct ladder *l, const struct codec *codec, int level)
{
	l->count = 1;
	l->rung[0] = (struct rung){codec, level, 0};
}

void ladder_adapt(struct ladder *l)
{
	l->count = 0;
	for (unsigned i = 0; i < ADAPT_RUNGS_MAX; i++) {
		if (codec_built_in(rungs[i].codec))
			l->rung[l->count++] = rungs[i];
		else if (rungs[i].codec == &codec_lz4 && rungs[i].level == 1 && codec_built_in(&codec_lzo))
			l->rung[l->count++] = without_lz4;
	}
}

size_t ladder_memory(const struct ladder *l, size_t block)
{
	size_t most = 0;

	for (unsigned i = 0; i < l->count; i++) {
		size_t n = l->rung[i].codec->pack_memory(l->rung[i].level, block);
		if (n > most)
			most = n;
	}
	return most;
}

unsigned ladder_pick(const struct ladder *l, double pressure, uint64_t block)
{
	unsigned i = 0;

	if (block < FIRST_BLOCKS && pressure < first_pressure)
		pressure = first_pressure;
	while (i + 1 < l->count && pressure >= l->rung[i].below)
		i++;
	return i;
}

double room_pressure(uint64_t raw, uint64_t room)
{
	/* Ratio needed -> rungs that reach it on common memory, with some to spare. */
	static const struct {
		double ratio, pressure;
	} rows[] = {{2.8, 1.2}, {2.2, 0.8}, {1.6, 0.4}, {0.9, 0.33}};
	double ratio = (double)raw / ((double)room + 1);

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (ratio > rows[i].ratio)
			return rows[i].pressure;
	return 0;
}

void meter_reset(struct write_meter *m)
{
	*m = (struct write_meter){0};
}

void meter_handed(struct write_meter *m, uint64_t bytes, uint64_t now)
{
	if (m->handed == m->written)
		m->since = now;
	m->handed += bytes;
}

void meter_written(struct write_meter *m, uint64_t bytes, uint64_t sent, uint64_t now)
{
	uint64_t begin = sent > m->since ? sent : m->since;

	m->written += bytes;
	m->bytes = fading * m->bytes + (double)bytes;
	m->seconds = fading * m->seconds + (double)(now > begin ? now - begin : 0) / 1e9;
	m->since = now;
}

/* A write that took no time at all means a fast disk, not none. */
static double rate_of(const struct write_meter *m)
{
	return m->bytes / (m->seconds + 1e-9);
}

uint32_t meter_request(const struct write_meter *m, uint32_t most)
{
	double want = m->written ? rate_of(m) * request : 0;

	if (want < WRITE_MIN)
		return WRITE_MIN < most ? WRITE_MIN : most;
	return want < most ? (uint32_t)want / WRITE_MIN * WRITE_MIN : most;
}

double meter_pressure(const struct write_meter *m, uint64_t room, uint64_t now)
{
	double rate = rate_of(m), set = QUEUE_MIN, most = (double)room / headroom;
	double backlog = (double)(m->handed - m->written);
	double gone = rate * (double)(now > m->since ? now - m->since : 0) / 1e9;
	/* What has begun may be nearly done: one write, or what a fast disk takes between two looks. */
	double begun = rate * look > WRITE_MIN ? rate * look : WRITE_MIN;

	backlog -= gone < begun ? gone : begun;
	if (backlog < 0)
		backlog = 0;
	if (m->written && horizon * rate > set)
		set = horizon * rate;
	if (set > most)
		set = most;
	return backlog / set;
}
