/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs of swap pages waiting to be written on. */
#include "image/stream.h"

#include "base/bytes.h"

void run_ring_carve(struct run_ring *r, struct arena *a, uint32_t room)
{
	r->run = arena_take(a, room * sizeof *r->run, 16);
	r->room = room;
	run_ring_reset(r);
}

void run_ring_reset(struct run_ring *r)
{
	r->first = r->count = 0;
	r->pages = 0;
}

static void sift_down(uint64_t *v, uint32_t at, uint32_t n)
{
	for (;;) {
		uint32_t kid = 2 * at + 1;

		if (kid >= n)
			return;
		if (kid + 1 < n && v[kid + 1] > v[kid])
			kid++;
		if (v[at] >= v[kid])
			return;
		uint64_t t = v[at];
		v[at] = v[kid];
		v[kid] = t;
		at = kid;
	}
}

/* In place and without recursion: glibc's qsort may allocate, and tasks are frozen. */
static void sort_places(uint64_t *v, uint32_t n)
{
	bool sorted = true;

	for (uint32_t i = 1; i < n && sorted; i++)
		sorted = v[i - 1] <= v[i];
	if (sorted)
		return;
	for (uint32_t i = n / 2; i-- > 0;)
		sift_down(v, i, n);
	for (uint32_t end = n; end-- > 1;) {
		uint64_t t = v[0];
		v[0] = v[end];
		v[end] = t;
		sift_down(v, 0, end);
	}
}

static void add_run(struct run_ring *r, uint64_t start)
{
	struct extent *last = r->count ? &r->run[(r->first + r->count - 1) % r->room] : NULL;

	r->pages++;
	if (last && last->start + last->pages == start && last->pages < UINT32_MAX) {
		last->pages++;
		return;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): run is there when places were given */
	r->run[(r->first + r->count) % r->room] = (struct extent){start, 1};
	r->count++;
}

void run_ring_add(struct run_ring *r, uint64_t *places, uint32_t n, uint32_t page_size)
{
	sort_places(places, n);
	for (uint32_t i = 0; i < n; i++)
		add_run(r, places[i] / page_size);
}

bool run_ring_take(struct run_ring *r, uint32_t pages, struct extent *out)
{
	if (!r->count)
		return false;
	struct extent *e = &r->run[r->first];
	out->start = e->start;
	out->pages = (uint32_t)min_u64(pages, e->pages);
	e->start += out->pages;
	e->pages -= out->pages;
	r->pages -= out->pages;
	if (!e->pages) {
		r->first = (r->first + 1) % r->room;
		r->count--;
	}
	return true;
}
