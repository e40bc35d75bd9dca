/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/ahead.h"

#include "base/bytes.h"
#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PIECE = 1 << 20, WORTH_IT = 8 << 20, RUNS_MAX = 1 << 16, BATCH = 64 };

/* What was read from one place on. */
struct held {
	uint64_t start, bytes; /* on the device */
	uint64_t at;	       /* in memory */
};

struct ahead {
	struct disk disk; /* what the load is given */
	struct disk *below;
	const struct image *image;
	pthread_t thread;
	bool running;
	_Atomic bool stop;
	uint8_t *memory;
	uint64_t room;
	_Atomic uint64_t used;
	struct held *held;
	uint32_t count;
	uint8_t *record; /* an extent page as it lies on the disk */
	struct extent_page map;
};

/* ---- the thread; a failure ends it, and the load meets the same one where it is reported ---- */

static bool read_piece(struct ahead *a, uint64_t start, uint32_t bytes)
{
	struct held *last = a->count ? &a->held[a->count - 1] : NULL;

	if (disk_read(a->below, a->memory + a->used, bytes, start) != E_OK)
		return false;
	if (last && last->start + last->bytes == start)
		last->bytes += bytes;
	else
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is memory for it, as ahead_open() saw */
		a->held[a->count++] = (struct held){start, bytes, a->used};
	a->used += bytes;
	return true;
}

static bool read_run(struct ahead *a, const struct extent *e)
{
	uint32_t page = a->image->header.page_size;
	uint64_t start = e->start * page, left = (uint64_t)e->pages * page;

	while (left) {
		uint32_t some = (uint32_t)min_u64(min_u64(left, PIECE), a->room - a->used);
		if (!some || a->count == RUNS_MAX || a->stop || !read_piece(a, start, some))
			return false;
		start += some;
		left -= some;
	}
	return true;
}

static bool read_map(struct ahead *a, uint64_t place, uint64_t index)
{
	const struct header *h = &a->image->header;

	return disk_read(a->below, a->record, RECORD_PAGE, place) == E_OK &&
	       extent_page_get(&a->map, a->record, h->image_id, index, h->page_size, a->below->size) == E_OK;
}

static void *read_all(void *ctx)
{
	struct ahead *a = ctx;
	const struct trailer *t = &a->image->trailer;
	uint64_t place = t->extents_place;

	for (uint64_t i = 0; i < t->extent_pages && place; i++) {
		if (!read_map(a, place, i))
			return NULL;
		for (uint32_t n = 0; n < a->map.count; n++)
			if (!read_run(a, &a->map.e[n]))
				return NULL;
		place = a->map.next;
	}
	return NULL;
}

/* ---- the disk in front; requests come in the stream's order, so the last find is where the next begins ---- */

static int by_start(const void *x, const void *y)
{
	const struct held *a = x, *b = y;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Where the whole of a request lies in memory, or NULL. */
static const uint8_t *find(const struct ahead *a, const struct disk_io *io)
{
	uint32_t low = 0, high = a->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (a->held[middle].start <= io->offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	const struct held *h = &a->held[low - 1];
	uint64_t into = io->offset - h->start;
	return into <= h->bytes && io->length <= h->bytes - into ? a->memory + h->at + into : NULL;
}

static bool serve(const struct ahead *a, struct disk_io *io)
{
	const uint8_t *from = io->write ? NULL : find(a, io);

	if (!from)
		return false;
	memcpy(io->buf, from, io->length);
	io->error = 0;
	io->moved = io->length;
	io->busy = false;
	return true;
}

static struct ahead *ahead_of(struct disk *d)
{
	return (struct ahead *)d;
}

static int front_submit(struct disk *d, struct disk_io **io, unsigned n)
{
	struct ahead *a = ahead_of(d);
	struct disk_io *rest[BATCH];
	unsigned count = 0;
	int r = E_OK;

	for (unsigned i = 0; i < n && r == E_OK; i++) {
		if (!serve(a, io[i]))
			rest[count++] = io[i];
		if (count == BATCH || (count && i + 1 == n)) {
			r = a->below->ops->submit(a->below, rest, count);
			count = 0;
		}
	}
	return r;
}

static int front_reap(struct disk *d, bool wait)
{
	struct disk *below = ahead_of(d)->below;

	return below->ops->reap(below, wait);
}

static int front_sync(struct disk *d)
{
	struct disk *below = ahead_of(d)->below;

	return below->ops->sync(below);
}

static const struct disk_ops front_ops = {front_submit, front_reap, front_sync};

/* ---- its life ---- */

/* Signals are the asking thread's. */
static bool run(struct ahead *a)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	a->running = pthread_create(&a->thread, NULL, read_all, a) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return a->running;
}

static bool take_memory(struct ahead *a, uint64_t budget)
{
	void *memory = mmap(NULL, budget, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	a->memory = memory == MAP_FAILED ? NULL : memory;
	a->room = budget;
	a->held = malloc(RUNS_MAX * sizeof *a->held);
	a->record = aligned_alloc(DISK_UNIT, RECORD_PAGE);
	return a->memory && a->held && a->record;
}

struct ahead *ahead_start(const struct image *im, uint64_t budget)
{
	budget = min_u64(budget, round_up(im->trailer.stream_bytes, PIECE)) / PIECE * PIECE;
	struct ahead *a = budget >= WORTH_IT ? calloc(1, sizeof *a) : NULL;

	if (!a)
		return NULL;
	a->image = im;
	a->below = im->disk;
	a->disk = (struct disk){.ops = &front_ops, .size = im->disk->size, .queues = im->disk->queues};
	if (take_memory(a, budget) && run(a))
		return a;
	ahead_close(a);
	return NULL;
}

void ahead_stop(struct ahead *a)
{
	if (!a->running)
		return;
	a->stop = true;
	pthread_join(a->thread, NULL);
	a->running = false;
	qsort(a->held, a->count, sizeof *a->held, by_start);
}

struct disk *ahead_disk(struct ahead *a)
{
	return &a->disk;
}

uint64_t ahead_bytes(const struct ahead *a)
{
	return a->used;
}

void ahead_close(struct ahead *a)
{
	if (!a)
		return;
	ahead_stop(a);
	if (!disk_answers(a->below))
		return; /* a read that is still owed goes to this memory */
	if (a->memory)
		munmap(a->memory, a->room);
	free(a->held);
	free(a->record);
	free(a);
}
