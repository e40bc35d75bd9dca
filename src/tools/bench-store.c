/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where images go: nowhere, memory, a file or a device, each as fast as it is or no faster than told. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	QUEUE = 16384, /* requests: all buffers full of single pages, and more */
	BATCH = 64,
};

/* ---- nowhere, and memory ---- */

static void finish(struct disk_io *io)
{
	io->moved = io->length;
	io->error = 0;
	io->busy = false;
}

static int null_submit(struct disk *d, struct disk_io **io, unsigned n)
{
	(void)d;
	for (unsigned i = 0; i < n; i++)
		finish(io[i]);
	return E_OK;
}

static int no_reap(struct disk *d, bool wait)
{
	(void)d;
	(void)wait;
	return E_OK;
}

static int no_sync(struct disk *d)
{
	(void)d;
	return E_OK;
}

static int memory_submit(struct disk *d, struct disk_io **io, unsigned n)
{
	uint8_t *kept = ((struct store *)((char *)d - offsetof(struct store, memory)))->kept;

	for (unsigned i = 0; i < n; i++) {
		if (io[i]->write)
			memcpy(kept + io[i]->offset, io[i]->buf, io[i]->length);
		else
			memcpy(io[i]->buf, kept + io[i]->offset, io[i]->length);
		finish(io[i]);
	}
	return E_OK;
}

static const struct disk_ops null_ops = {null_submit, no_reap, no_sync};
static const struct disk_ops memory_ops = {memory_submit, no_reap, no_sync};

/* ---- a disk of a given speed ---- */

static struct paced_disk *paced_of(struct disk *d)
{
	return (struct paced_disk *)d;
}

/* Ends the requests whose time has come. */
static unsigned end_due(struct paced_disk *p)
{
	uint64_t now = clock_ns();
	unsigned ended = 0;

	for (; p->count; ended++) {
		struct paced_io *q = &p->queue[p->first];

		if (q->inner.busy || q->done > now)
			break;
		q->outer->moved = q->inner.moved;
		q->outer->error = q->inner.error;
		q->outer->busy = false;
		p->first = (p->first + 1) % QUEUE;
		p->count--;
	}
	return ended;
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static int wait_for_first(struct paced_disk *p)
{
	uint64_t begin = clock_ns();
	int r = E_OK;

	while (r == E_OK && !end_due(p)) {
		if (p->queue[p->first].inner.busy)
			r = p->below->ops->reap(p->below, true);
		else
			sleep_until(p->queue[p->first].done);
	}
	p->waited += clock_ns() - begin;
	return r;
}

static int paced_reap(struct disk *d, bool wait)
{
	struct paced_disk *p = paced_of(d);
	int r = p->below->ops->reap(p->below, false);

	if (r != E_OK || end_due(p) || !wait || !p->count)
		return r;
	return wait_for_first(p);
}

static void enqueue(struct paced_disk *p, struct disk_io *io)
{
	unsigned rate = p->rate[io->write];
	uint64_t now = clock_ns();
	struct paced_io *q = &p->queue[(p->first + p->count++) % QUEUE];

	if (p->last < now)
		p->last = now;
	if (rate)
		p->last += (uint64_t)io->length * 1000 / rate;
	io->busy = true;
	*q = (struct paced_io){io, *io, p->last};
}

static int submit_some(struct paced_disk *p, struct disk_io **io, unsigned n)
{
	struct disk_io *below[BATCH];

	while (p->count + n > QUEUE) {
		int r = paced_reap(&p->disk, true);
		if (r != E_OK)
			return r;
	}
	for (unsigned i = 0; i < n; i++) {
		below[i] = &p->queue[(p->first + p->count) % QUEUE].inner;
		enqueue(p, io[i]);
	}
	return p->below->ops->submit(p->below, below, n);
}

static int paced_submit(struct disk *d, struct disk_io **io, unsigned n)
{
	struct paced_disk *p = paced_of(d);
	int r = E_OK;

	for (unsigned at = 0; at < n && r == E_OK; at += BATCH)
		r = submit_some(p, io + at, (unsigned)min_u64(BATCH, n - at));
	end_due(p);
	return r;
}

static int paced_sync(struct disk *d)
{
	struct paced_disk *p = paced_of(d);
	int r = E_OK;

	while (p->count && r == E_OK)
		r = paced_reap(d, true);
	return r == E_OK ? p->below->ops->sync(p->below) : r;
}

static const struct disk_ops paced_ops = {paced_submit, paced_reap, paced_sync};

int paced_open(struct paced_disk *p)
{
	p->queue = calloc(QUEUE, sizeof *p->queue);
	return p->queue ? E_OK : fault(E_MEMORY, 0, "cannot hold %d requests", QUEUE);
}

void paced_close(struct paced_disk *p)
{
	free(p->queue);
	p->queue = NULL;
}

void paced_start(struct paced_disk *p, struct disk *below, unsigned read_rate, unsigned write_rate)
{
	p->disk = (struct disk){.ops = &paced_ops, .size = below->size, .queues = true};
	p->below = below;
	p->rate[false] = read_rate;
	p->rate[true] = write_rate;
	p->last = p->waited = 0;
	p->first = p->count = 0;
}

/* ---- which it is ---- */

static int open_memory(struct store *s, uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return fault(E_MEMORY, errno, "cannot keep an image of up to %llu MiB",
			     (unsigned long long)(size >> 20));
	s->kept = p;
	return E_OK;
}

/* The image would be kept beside the pages: refused before it drives the machine into the OOM killer. */
static int check_memory(uint64_t size)
{
	uint64_t free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	if (size <= free_bytes)
		return E_OK;
	return fault(E_MEMORY, 0,
		     "to load, an image of up to %llu MiB is kept in memory, %llu MiB are free; use --store",
		     (unsigned long long)(size >> 20), (unsigned long long)(free_bytes >> 20));
}

/* Gone from the directory as soon as it is open, so that nothing stays behind however this ends. */
static int open_new_file(struct store *s, const char *path, uint64_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == EEXIST ? fault(E_FOREIGN, 0, "there is such a file already; name a new one")
				       : fault(E_IO, errno, "cannot be created");
	int e = posix_fallocate(fd, 0, (off_t)size);
	int r = e ? fault(e == ENOSPC ? E_NOSPACE : E_IO, e, "cannot take %llu MiB", (unsigned long long)(size >> 20))
		  : target_open(&s->target, path, TARGET_CLAIM);
	unlink(path);
	close(fd);
	return r;
}

/* Something beside the swap signature is somebody's. */
static int check_foreign(const char *path)
{
	char type[TARGET_CONTENT];
	int r = target_content(path, type);

	if (r == E_OK && strcmp(type, "swap"))
		r = fault(E_FOREIGN, 0, "it holds %s, not a swap area", type[0] ? type : "nothing known");
	return r;
}

static int check_mark(struct store *s, uint32_t page_size)
{
	struct mark mark = {0};
	void *scratch = aligned_alloc(DISK_UNIT, 2 * DISK_UNIT);
	int r = scratch ? mark_read(&s->target.file.disk, 0, scratch, &mark) : E_MEMORY;

	free(scratch);
	if (r != E_OK)
		return r;
	if (mark.kind == MARK_OURS || mark.kind == MARK_DAMAGED)
		return fault(E_FOREIGN, 0, "it holds an image; `s2image discard' gives it up");
	if (mark.kind != MARK_SWAP || !mark.room || mark.page_size != page_size)
		return fault(E_FOREIGN, 0, "it is no swap area for this machine's pages");
	s->end = min_u64(mark.last_page + 1ull, s->target.file.disk.size / page_size);
	return E_OK;
}

static int open_path(struct store *s, const char *path, uint64_t raw, uint32_t page_size)
{
	struct stat st;
	int r;

	if (stat(path, &st) == 0 && S_ISBLK(st.st_mode)) {
		r = check_foreign(path);
		if (r == E_OK)
			r = target_open(&s->target, path, TARGET_CLAIM);
		if (r == E_OK)
			r = check_mark(s, page_size);
	} else {
		r = open_new_file(s, path, save_room(raw, page_size));
		s->end = s->target.file.disk.size / page_size;
	}
	s->save = s->load = &s->target.file.disk;
	return r;
}

int store_open(struct store *s, const char *path, uint64_t raw, uint32_t page_size, bool keep)
{
	uint64_t room = save_room(raw, page_size);
	int r = paced_open(&s->paced);

	s->target.fd = -1;
	s->start = 1;
	s->end = room / page_size;
	s->null = (struct disk){.ops = &null_ops, .size = room, .queues = true};
	s->memory = (struct disk){.ops = &memory_ops, .size = room, .queues = true};
	s->save = &s->null;
	s->load = &s->memory;
	if (r == E_OK && path)
		return open_path(s, path, raw, page_size);
	if (r == E_OK && keep) {
		r = check_memory(room);
		return r == E_OK ? open_memory(s, room) : r;
	}
	return r;
}

void store_close(struct store *s)
{
	if (s->kept)
		munmap(s->kept, s->memory.size);
	s->kept = NULL;
	target_close(&s->target);
	paced_close(&s->paced);
}

/* ---- its pages ---- */

static int pages_take(struct swap_pages *pages, uint64_t *places, uint32_t want, uint32_t *got)
{
	struct store_pages *p = (struct store_pages *)pages;

	for (*got = 0; *got < want && p->next < p->end; ++*got)
		places[*got] = p->next++ * p->page_size;
	return E_OK;
}

void store_pages_open(struct store_pages *p, const struct store *s, uint32_t page_size)
{
	*p = (struct store_pages){{pages_take}, s->start, s->end, page_size};
}
