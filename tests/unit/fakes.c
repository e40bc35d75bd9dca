/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fakes.h"

#include "base/bytes.h"
#include "base/error.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

uint64_t fake_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	if (!*state)
		*state = 1;
	return z ^ z >> 31;
}

unsigned fake_now(void)
{
	static atomic_uint now;

	return ++now;
}

void *fake_memory(size_t n)
{
	void *p = aligned_alloc(4096, round_up(n, 4096));

	must(p);
	memset(p, 0, round_up(n, 4096));
	return p;
}

/* Makes room for one more element of @size bytes. */
static void *grown(void *list, unsigned count, unsigned *room, size_t size)
{
	if (count < *room)
		return list;
	*room = *room ? 2 * *room : 64;
	list = realloc(list, *room * size);
	if (!list)
		abort();
	return list;
}

/* ---- memory disk ---- */

static struct fake_disk *disk_of(struct disk *d)
{
	return (struct fake_disk *)d;
}

/* All calls on one disk come from one thread at a time. */
static void enter(struct fake_disk *d)
{
	if (atomic_fetch_add(&d->inside, 1))
		atomic_fetch_add(&d->raced, 1);
}

static void leave(struct fake_disk *d)
{
	atomic_fetch_sub(&d->inside, 1);
}

static bool touches(const struct fake_fault *f, const struct disk_io *io)
{
	return !f->to || (io && io->offset < f->to && io->offset + io->length > f->from);
}

/* Counts an operation and says which fault it meets, if any. */
static struct fake_fault *meet(struct fake_disk *d, enum fake_op op, const struct disk_io *io)
{
	struct fake_fault *met = NULL;

	d->count[op]++;
	if (op <= FAKE_SYNC)
		d->count[FAKE_ANY]++;
	for (int i = 0; i < FAKE_FAULTS; i++) {
		struct fake_fault *f = &d->fault[i];
		bool mine = f->op == op || (f->op == FAKE_ANY && op <= FAKE_SYNC);

		if (!f->nth || !mine || !touches(f, io))
			continue;
		f->seen++;
		if (f->seen >= f->nth && f->seen - f->nth < f->times && !met)
			met = f;
	}
	return met;
}

static struct fake_entry *log_disk(struct fake_disk *d)
{
	d->log = grown(d->log, d->log_count, &d->log_room, sizeof *d->log);
	struct fake_entry *e = &d->log[d->log_count++];
	*e = (struct fake_entry){.at = fake_now()};
	return e;
}

static void log_write(struct fake_disk *d, const struct disk_io *io)
{
	struct fake_entry *e = log_disk(d);

	e->write = true;
	e->failed = io->error != 0;
	e->offset = io->offset;
	e->length = io->length;
	e->moved = io->moved;
	if (!d->keep)
		return;
	e->bytes = malloc(io->length);
	if (!e->bytes)
		abort();
	memcpy(e->bytes, io->buf, io->length);
}

static void move(struct fake_disk *d, struct disk_io *io)
{
	uint8_t *at = d->bytes + io->offset;

	if (io->write) {
		memcpy(at, io->buf, io->moved);
		d->written_bytes += io->moved;
	} else {
		memcpy(io->buf, at, io->moved);
		d->read_bytes += io->moved;
	}
}

static void finish(struct fake_disk *d, struct disk_io *io)
{
	struct fake_fault *f = meet(d, io->write ? FAKE_WRITE : FAKE_READ, io);

	if (io->offset > d->disk.size || io->length > d->disk.size - io->offset)
		io->error = io->write ? ENOSPC : ENODATA;
	else if (f)
		io->error = f->error, io->moved = f->moved < io->length ? f->moved : io->length;
	else
		io->moved = io->length;
	move(d, io);
	if (io->write)
		log_write(d, io);
	io->busy = false;
}

static bool aligned(const struct disk_io *io)
{
	return io->length && io->length % DISK_UNIT == 0 && io->offset % DISK_UNIT == 0 &&
	       (uintptr_t)io->buf % DISK_UNIT == 0;
}

static bool silent(const struct fake_disk *d)
{
	return d->answers && d->count[FAKE_ANY] >= d->answers;
}

/* Never finished; a write may be on the disk all the same. */
static void owe(struct fake_disk *d, struct disk_io *io)
{
	d->owed++;
	if (io->write) {
		io->moved = io->length;
		log_write(d, io);
	}
}

static int given_up(struct disk *disk)
{
	disk->stuck = true;
	return fault(E_IO, 0, "the disk stopped answering");
}

static void start(struct fake_disk *d, struct disk_io *io)
{
	must(aligned(io));
	for (unsigned i = 0; i < d->pending_count; i++)
		must(d->pending[i] != io); /* submitted while under way */
	io->busy = true;
	io->error = 0;
	io->moved = 0;
	if (silent(d)) {
		owe(d, io);
		return;
	}
	if (!d->async) {
		finish(d, io);
		return;
	}
	if (!io->write)
		memset(io->buf, 0xee, io->length); /* whoever looks too early sees this */
	d->pending = grown(d->pending, d->pending_count, &d->pending_room, sizeof(struct disk_io *));
	d->pending[d->pending_count++] = io;
	if (d->pending_count > d->pending_most)
		d->pending_most = d->pending_count;
}

static int fake_submit(struct disk *disk, struct disk_io **io, unsigned n)
{
	struct fake_disk *d = disk_of(disk);
	int r = E_OK;

	if (disk->stuck)
		return given_up(disk);
	enter(d);
	struct fake_fault *f = meet(d, FAKE_SUBMIT, NULL);
	if (f) {
		n = f->moved < n ? f->moved : n - 1;
		r = fault(E_IO, f->error, "submit");
	}
	for (unsigned i = 0; i < n; i++)
		start(d, io[i]);
	leave(d);
	return r;
}

static int fake_reap(struct disk *disk, bool wait)
{
	struct fake_disk *d = disk_of(disk);

	if (disk->stuck || (wait && d->owed && !d->pending_count))
		return given_up(disk);
	enter(d);
	unsigned n = d->pending_count ? (unsigned)(fake_random(&d->async) % d->pending_count) + wait : 0;
	if (n > 3)
		n = 3;
	while (n-- && d->pending_count) {
		unsigned i = (unsigned)(fake_random(&d->async) % d->pending_count);
		struct disk_io *io = d->pending[i];

		d->pending[i] = d->pending[--d->pending_count];
		finish(d, io);
	}
	leave(d);
	return E_OK;
}

static int fake_sync(struct disk *disk)
{
	struct fake_disk *d = disk_of(disk);
	int r = E_OK;

	if (disk->stuck || silent(d))
		return given_up(disk);
	enter(d);
	for (unsigned i = 0; i < d->pending_count; i++)
		d->early_syncs += d->pending[i]->write;
	struct fake_fault *f = meet(d, FAKE_SYNC, NULL);
	struct fake_entry *e = log_disk(d);
	if (f) {
		e->failed = true;
		r = fault(E_IO, f->error, "cannot sync");
	}
	leave(d);
	return r;
}

static const struct disk_ops fake_disk_ops = {fake_submit, fake_reap, fake_sync};

void fake_disk_open(struct fake_disk *d, uint64_t size)
{
	memset(d, 0, sizeof *d);
	d->disk.ops = &fake_disk_ops;
	d->disk.size = d->mapped = size;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert(p != MAP_FAILED);
	d->bytes = p;
}

static void drop_log(struct fake_disk *d)
{
	for (unsigned i = 0; i < d->log_count; i++)
		free(d->log[i].bytes);
	d->log_count = 0;
}

void fake_disk_close(struct fake_disk *d)
{
	drop_log(d);
	free(d->log);
	free(d->pending);
	munmap(d->bytes, d->mapped);
	memset(d, 0, sizeof *d);
}

void fake_disk_make_async(struct fake_disk *d, uint64_t seed)
{
	d->async = seed ? seed : 1;
	d->disk.queues = true;
}

void fake_disk_fail(struct fake_disk *d, struct fake_fault f)
{
	int i = 0;

	while (i < FAKE_FAULTS - 1 && d->fault[i].nth)
		i++;
	d->fault[i] = f;
	d->fault[i].seen = 0;
}

void fake_disk_forget(struct fake_disk *d)
{
	drop_log(d);
	memset(d->fault, 0, sizeof d->fault);
	memset(d->count, 0, sizeof d->count);
	d->pending_most = d->early_syncs = 0;
	d->answers = d->owed = d->pending_count = 0;
	d->disk.stuck = false;
	d->read_bytes = d->written_bytes = 0;
}

unsigned fake_disk_durable(const struct fake_disk *d, unsigned end)
{
	while (end && (d->log[end - 1].write || d->log[end - 1].failed))
		end--;
	return end;
}

void fake_mkswap(uint8_t *page, uint32_t page_size, id128 uuid, uint32_t last_page)
{
	for (uint32_t i = 0; i < page_size; i++)
		page[i] = (uint8_t)(i * 7 + 3) | 1;
	put_le32(page + 1024, 1);
	put_le32(page + 1028, last_page);
	put_le32(page + 1032, 0);
	memcpy(page + 1036, uuid.b, 16);
	memcpy(page + 1052, "a label\0\0\0\0\0\0\0\0\0", 16);
	memcpy(page + page_size - 10, "SWAPSPACE2", 10);
}

/* ---- swap pages ---- */

static int take(struct swap_pages *p, uint64_t *places, uint32_t want, uint32_t *got)
{
	struct fake_swap *s = (struct fake_swap *)p;

	if (++s->takes == s->fail_take)
		return fault(E_SNAPSHOT, EIO, "take");
	for (*got = 0; *got < want && fake_swap_next(s, &places[*got]);)
		++*got;
	return E_OK;
}

static void shuffle(struct fake_swap *s)
{
	uint64_t state = 77;

	s->order = malloc(s->count * sizeof *s->order);
	ck_assert_ptr_nonnull(s->order);
	for (uint64_t i = 0; i < s->count; i++)
		s->order[i] = (uint32_t)(1 + 2 * i);
	for (uint64_t i = s->count; i-- > 1;) {
		uint64_t k = fake_random(&state) % (i + 1);
		uint32_t t = s->order[i];

		s->order[i] = s->order[k];
		s->order[k] = t;
	}
}

void fake_swap_open(struct fake_swap *s, enum fake_layout layout, uint32_t page_size, uint64_t start, uint64_t area)
{
	*s = (struct fake_swap){
		.pages = {take}, .layout = layout, .page_size = page_size, .start = start, .area = area};
	s->count = area - 1;
	if (layout == LAYOUT_SPREAD)
		s->count = area / 16384 * 16384 - 1;
	if (layout != LAYOUT_SINGLES)
		return;
	s->count = area / 2;
	shuffle(s);
}

void fake_swap_close(struct fake_swap *s)
{
	free(s->order);
	s->order = NULL;
}

uint64_t fake_swap_place(const struct fake_swap *s, uint64_t n)
{
	uint64_t page = n + 1;

	if (s->layout == LAYOUT_SINGLES) {
		page = s->order[n];
	} else if (s->layout == LAYOUT_SPREAD) {
		uint64_t cluster = page / 512, laps = s->area / 16384;

		page = (cluster % laps * 32 + cluster / laps) * 512 + page % 512;
	}
	return s->start + page * s->page_size;
}

bool fake_swap_next(struct fake_swap *s, uint64_t *place)
{
	if (s->given >= s->count)
		return false;
	*place = fake_swap_place(s, s->given++);
	return true;
}

/* ---- pages ---- */

static uint8_t *file_bytes;
static size_t file_length;

static void read_file(void)
{
	enum { MOST = 8 << 20 };
	FILE *f = fopen("/proc/self/exe", "rb");

	file_bytes = malloc(MOST);
	if (!f || !file_bytes)
		abort();
	file_length = fread(file_bytes, 1, MOST, f);
	fclose(f);
}

static void random_page(uint8_t *out, uint32_t n, uint64_t state)
{
	for (uint32_t i = 0; i < n; i += 8)
		put_le64(out + i, fake_random(&state));
}

static void text_page(uint8_t *out, uint32_t n, uint64_t state)
{
	static const char *const words[16] = {"the ", "of ",	"swap ",   "memory ", "a ",	 "sleep ",
					      "\n",   "and ",	"winter ", "page ",   "kernel ", "in ",
					      "it ",  "wakes ", "which ",  "is "};

	for (uint32_t at = 0; at < n;) {
		uint64_t v = fake_random(&state);

		for (int i = 0; i < 16 && at < n; i++, v >>= 4)
			for (const char *w = words[v & 15]; *w && at < n; w++)
				out[at++] = (uint8_t)*w;
	}
}

static void file_page(uint8_t *out, uint32_t n, uint64_t number)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_file);
	size_t at = (size_t)(number * n % file_length);
	for (uint32_t done = 0; done < n;) {
		uint32_t some = (uint32_t)min_u64(n - done, file_length - at);

		memcpy(out + done, file_bytes + at, some);
		done += some;
		at = 0;
	}
}

void fake_page(uint8_t *out, uint32_t page_size, enum fake_content c, uint64_t seed, uint64_t number)
{
	static const enum fake_content mixture[8] = {CONTENT_ZERO,   CONTENT_TEXT, CONTENT_RANDOM, CONTENT_FILE,
						     CONTENT_RANDOM, CONTENT_TEXT, CONTENT_ZERO,   CONTENT_RANDOM};
	uint64_t state = seed * 0x10001 + number * 0x9e3779b1u + 1;

	if (c == CONTENT_MIXED) /* in stretches, so that some blocks do not shrink */
		c = mixture[number / 50 % 8];
	if (c == CONTENT_ZERO)
		memset(out, 0, page_size);
	else if (c == CONTENT_TEXT)
		text_page(out, page_size, state);
	else if (c == CONTENT_RANDOM)
		random_page(out, page_size, state);
	else
		file_page(out, page_size, number + seed);
}

static int source_read(struct page_source *src, uint8_t *buf, uint32_t n)
{
	struct fake_source *s = (struct fake_source *)src;

	must(n % s->page_size == 0);
	for (; n; n -= s->page_size, buf += s->page_size, s->at++) {
		if (s->fail_at && s->at >= s->fail_at)
			return fault(E_SNAPSHOT, EIO, "source");
		fake_page(buf, s->page_size, s->content, s->seed, s->at);
	}
	return E_OK;
}

void fake_source_open(struct fake_source *s, uint32_t page_size, enum fake_content c, uint64_t seed)
{
	*s = (struct fake_source){.source = {source_read}, .page_size = page_size, .content = c, .seed = seed};
}

static int sink_write(struct page_sink *sink, const uint8_t *buf, uint32_t n)
{
	struct fake_sink *s = (struct fake_sink *)sink;

	must(n % s->page_size == 0);
	for (; n; n -= s->page_size, buf += s->page_size, s->at++) {
		if (s->fail_at && s->at >= s->fail_at)
			return fault(E_RESTORE, EIO, "sink");
		fake_page(s->page, s->page_size, s->content, s->seed, s->at);
		s->wrong += memcmp(s->page, buf, s->page_size) != 0;
		s->hash = XXH3_64bits_withSeed(buf, s->page_size, s->hash);
	}
	return E_OK;
}

void fake_sink_open(struct fake_sink *s, uint32_t page_size, enum fake_content c, uint64_t seed)
{
	*s = (struct fake_sink){.sink = {sink_write}, .page_size = page_size, .content = c, .seed = seed};
	s->page = fake_memory(page_size);
}

void fake_sink_close(struct fake_sink *s)
{
	free(s->page);
	s->page = NULL;
}

/* ---- kernel ---- */

static struct fake_kernel *kernel_of(struct kernel *k)
{
	return (struct fake_kernel *)k;
}

static void broken(struct fake_kernel *k, const char *rule)
{
	if (!k->broken)
		k->broken = rule;
}

const char *fake_call_name(int call)
{
	if (call < KERNEL_CALLS)
		return kernel_call_name((enum kernel_call)call);
	return call == FAKE_READV ? "readv" : "writev";
}

static int refused(struct fake_kernel *k, int call)
{
	int error = 0;

	k->count[call]++;
	k->count[FAKE_EVERY]++;
	for (int i = 0; i < FAKE_FAULTS; i++) {
		struct fake_refusal *f = &k->refusal[i];

		if (!f->nth || (f->call != call && f->call != FAKE_EVERY))
			continue;
		f->seen++;
		if (f->seen >= f->nth && f->seen - f->nth < f->times && !error)
			error = f->error;
	}
	return error;
}

/* The entry's index: the log may move. */
static unsigned log_call(struct fake_kernel *k, int call, uint64_t in)
{
	k->log = grown(k->log, k->log_count, &k->log_room, sizeof *k->log);
	k->log[k->log_count] = (struct fake_call){.at = fake_now(), .call = call, .in = in};
	return k->log_count++;
}

/* The machine is off, or another one runs. */
static int end(struct fake_kernel *k, int call, uint64_t in)
{
	if (!k->armed)
		return ECANCELED;
	k->armed = false;
	k->off_in = in;
	pthread_mutex_unlock(&k->lock);
	longjmp(k->off, call + 1);
}

static uint64_t pages_for_size(const struct fake_kernel *k)
{
	uint64_t want = k->pref_size / k->page_size;

	if (want < k->least)
		return k->least;
	return want < k->most ? want : k->most;
}

static int create(struct fake_kernel *k, uint64_t *out)
{
	if (!k->frozen || k->image)
		return EPERM;
	if (k->swap_pages && !k->count[KERNEL_FREE_SWAP_PAGES])
		broken(k, "swap pages were taken before CREATE_IMAGE");
	if (k->memory && pages_for_size(k) > k->memory)
		return ENOMEM;
	k->image = true;
	k->pages = pages_for_size(k);
	k->at = 0;
	*out = !k->restored;
	return 0;
}

static int set_area(struct fake_kernel *k, uint64_t device)
{
	if (k->swap_pages)
		return EPERM;
	if (!device)
		return EINVAL;
	k->area_set = true;
	return 0;
}

static int alloc(struct fake_kernel *k, uint64_t *out)
{
	if (!k->area_set)
		return ENODEV;
	if (!fake_swap_next(k->swap, out))
		return ENOSPC;
	k->swap_pages++;
	return 0;
}

static int free_swap(struct fake_kernel *k)
{
	if (!k->area_set)
		return ENODEV;
	k->swap_pages = k->swap->given = 0;
	return 0;
}

static void freeze(struct fake_kernel *k)
{
	k->frozen = true;
	k->freezer = pthread_self();
}

static void unfreeze(struct fake_kernel *k)
{
	if (!k->frozen || (k->image && !k->loading))
		return;
	if (!pthread_equal(k->freezer, pthread_self()))
		broken(k, "UNFREEZE from another thread than FREEZE");
	k->frozen = false;
	k->thaws++;
}

static int pause_for(struct fake_kernel *k, uint64_t ns)
{
	k->pauses++;
	if (ns < 3600ull * 1000000000)
		return 0;
	return ++k->hours > k->hours_most ? ECANCELED : k->hours % 2 ? EINTR : 0;
}

static int free_image(struct fake_kernel *k)
{
	k->image = false;
	k->pages = k->at = 0;
	return 0;
}

static int atomic_restore(struct fake_kernel *k)
{
	if (!k->loading || !k->frozen || k->at != k->pages || !k->pages || k->wrong)
		return EPERM;
	return end(k, KERNEL_ATOMIC_RESTORE, 0);
}

/* Power may be lost at the deepest point; else somebody wakes it. */
static int suspend(struct fake_kernel *k)
{
	if (!k->frozen)
		return EPERM;
	return k->power_lost ? end(k, KERNEL_S2RAM, 0) : 0;
}

static int act(struct fake_kernel *k, enum kernel_call c, uint64_t in, uint64_t *out)
{
	switch (c) {
	case KERNEL_FREEZE:
		return freeze(k), 0;
	case KERNEL_UNFREEZE:
		return unfreeze(k), 0;
	case KERNEL_CREATE_IMAGE:
		return create(k, out);
	case KERNEL_ATOMIC_RESTORE:
		return atomic_restore(k);
	case KERNEL_FREE_IMAGE:
		return free_image(k);
	case KERNEL_FREE_SWAP_PAGES:
		return free_swap(k);
	case KERNEL_SET_SWAP_AREA:
		return set_area(k, in);
	case KERNEL_IMAGE_SIZE:
		return k->image ? (*out = k->pages * k->page_size, 0) : ENODATA;
	case KERNEL_PREF_SIZE:
		return k->pref_size = in, 0;
	case KERNEL_PLATFORM:
		return k->platform = in, 0;
	case KERNEL_POWER_OFF:
		return k->platform ? end(k, KERNEL_POWER_OFF, 0) : 0;
	case KERNEL_S2RAM:
		return suspend(k);
	case KERNEL_ALLOC_PAGE:
		return alloc(k, out);
	case KERNEL_AVAIL_SWAP:
		return *out = (k->swap->count - k->swap->given) * k->page_size, 0;
	case KERNEL_REBOOT:
		return end(k, KERNEL_REBOOT, in);
	case KERNEL_PAUSE:
		return pause_for(k, in);
	case KERNEL_CALLS:
		break;
	}
	return ENOTTY;
}

static int fake_call(struct kernel *kernel, enum kernel_call c, uint64_t in, uint64_t *out)
{
	struct fake_kernel *k = kernel_of(kernel);

	if (pthread_mutex_trylock(&k->lock)) {
		atomic_fetch_add(&k->raced, 1);
		return EBUSY;
	}
	if (k->watch)
		k->watch(k->watch_ctx, (int)c);
	unsigned i = log_call(k, (int)c, in);
	int e = refused(k, (int)c);
	if (!e)
		e = act(k, c, in, out);
	k->log[i].result = e;
	pthread_mutex_unlock(&k->lock);
	return e;
}

static int move_pages(struct fake_kernel *k, const struct iovec *v, int n, bool in)
{
	uint8_t page[65536];
	int done = 0;

	for (; done < n && (in || k->at < k->pages) && (!k->read_at_most || done < (int)k->read_at_most); done++) {
		if (v[done].iov_len != k->page_size)
			broken(k, "a transfer that is not one page");
		if (in) {
			fake_page(page, k->page_size, k->content, k->seed, k->at);
			k->wrong += memcmp(page, v[done].iov_base, k->page_size) != 0;
		} else {
			fake_page(v[done].iov_base, k->page_size, k->content, k->seed, k->at);
		}
		k->at++;
	}
	return done;
}

static ssize_t vector_call(struct fake_kernel *k, const struct iovec *v, int n, bool in)
{
	int call = in ? FAKE_WRITEV : FAKE_READV;
	ssize_t r = -1;

	if (pthread_mutex_trylock(&k->lock)) {
		atomic_fetch_add(&k->raced, 1);
		pthread_mutex_lock(&k->lock);
	}
	if (k->watch)
		k->watch(k->watch_ctx, call);
	unsigned i = log_call(k, call, (uint64_t)n);
	int e = refused(k, call);
	if (!e && in != k->loading)
		e = EBADF;
	if (!e && !in && !k->image)
		e = ENODATA;
	if (!e && k->interrupted && k->count[call] % 2)
		e = EINTR;
	if (!e) {
		sched_yield(); /* so that another thread's call falls into it */
		r = (ssize_t)move_pages(k, v, n, in) * k->page_size;
	}
	k->log[i].result = e;
	pthread_mutex_unlock(&k->lock);
	errno = e;
	return r;
}

static ssize_t fake_readv(struct kernel *k, const struct iovec *v, int n)
{
	return vector_call(kernel_of(k), v, n, false);
}

static ssize_t fake_writev(struct kernel *k, const struct iovec *v, int n)
{
	return vector_call(kernel_of(k), v, n, true);
}

static const struct kernel_ops fake_kernel_ops = {fake_call, fake_readv, fake_writev};

void fake_kernel_open(struct fake_kernel *k, uint32_t page_size, struct fake_swap *swap)
{
	memset(k, 0, sizeof *k);
	k->kernel.ops = &fake_kernel_ops;
	k->page_size = page_size;
	k->swap = swap;
	k->content = CONTENT_MIXED;
	k->most = 256;
	k->least = 16;
	k->pref_size = 1 << 30;
	k->hours_most = 3;
	pthread_mutex_init(&k->lock, NULL);
}

void fake_kernel_close(struct fake_kernel *k)
{
	free(k->log);
	pthread_mutex_destroy(&k->lock);
	memset(k, 0, sizeof *k);
}

void fake_kernel_refuse(struct fake_kernel *k, struct fake_refusal f)
{
	int i = 0;

	while (i < FAKE_FAULTS - 1 && k->refusal[i].nth)
		i++;
	k->refusal[i] = f;
	k->refusal[i].seen = 0;
}

int fake_kernel_find(const struct fake_kernel *k, int call, unsigned nth)
{
	for (unsigned i = 0; i < k->log_count; i++)
		if (k->log[i].call == call && !--nth)
			return (int)i;
	return -1;
}

/* ---- an area, a save and a load on it ---- */

static void rig_defaults(struct rig_options *o)
{
	if (!o->page_size)
		o->page_size = 4096;
	if (!o->block_size)
		o->block_size = BLOCK_SIZE_DEFAULT;
	if (!o->codec)
		o->codec = &codec_none;
	if (!o->area_pages)
		o->area_pages = (o->layout == LAYOUT_SINGLES ? 256ull << 20 : 4ull << 30) / o->page_size;
	if (!o->id)
		o->id = 0x11;
}

static id128 some_id(uint8_t first)
{
	id128 id;

	for (int i = 0; i < 16; i++)
		id.b[i] = (uint8_t)(first + i * 13);
	return id;
}

static void rig_header(struct rig *r)
{
	r->header = (struct header){
		.image_id = some_id(r->o.id),
		.swap_uuid = some_id(0xa0),
		.installation = some_id(0x50),
		.created = 1700000000,
		.memory_map = 0x1234567890abcdefu,
		.image_bytes = r->raw,
		.area_start = r->o.area_start,
		.shutdown = SHUTDOWN_POWEROFF,
		.fingerprint_count = r->o.fingerprints,
		.release = "6.1.0-fake",
		.machine = "x86_64",
	};
}

static void rig_fingerprints(struct rig *r)
{
	r->fingerprint = calloc(r->o.fingerprints + 1, sizeof *r->fingerprint);
	ck_assert_ptr_nonnull(r->fingerprint);
	for (uint32_t i = 0; i < r->o.fingerprints; i++) {
		struct fingerprint *f = &r->fingerprint[i];

		*f = (struct fingerprint){.uuid = some_id((uint8_t)i), .hash = i * 0x9e3779b97f4a7c15u, .major = 8};
		strcpy(f->type, i % 2 ? "ext4" : "vfat");
		snprintf(f->name, sizeof f->name, "sda%u", i % 1000);
	}
}

static void rig_carve(struct rig *r)
{
	struct save_options so = {
		.page_size = r->o.page_size,
		.block_size = r->o.block_size,
		.threads = r->o.threads,
		.adapt = r->o.adapt,
		.codec = r->o.codec,
		.level = r->o.level,
		.reproducible = !r->o.timed,
	};
	struct load_options lo = {
		.page_size = r->o.page_size,
		.block_size = r->o.block_size,
		.threads = r->o.load_threads,
	};
	size_t size;

	ck_assert_int_eq(save_plan(&so, SIZE_MAX, &size), E_OK);
	ck_assert_int_eq(arena_open(&r->save_arena, size, 0), E_OK);
	r->save = save_carve(&r->save_arena, &so);
	ck_assert_ptr_nonnull(r->save);
	ck_assert_int_eq(load_plan(&lo, SIZE_MAX, &size), E_OK);
	ck_assert_int_eq(arena_open(&r->load_arena, size, 0), E_OK);
	r->load = load_carve(&r->load_arena, &lo);
	ck_assert_ptr_nonnull(r->load);
}

void rig_open(struct rig *r, const struct rig_options *o)
{
	memset(r, 0, sizeof *r);
	r->o = *o;
	rig_defaults(&r->o);
	r->raw = r->o.pages * r->o.page_size;
	fake_disk_open(&r->disk, r->o.area_start + r->o.area_pages * r->o.page_size);
	if (r->o.async)
		fake_disk_make_async(&r->disk, r->o.async);
	fake_swap_open(&r->swap, r->o.layout, r->o.page_size, r->o.area_start, r->o.area_pages);
	fake_sink_open(&r->sink, r->o.page_size, r->o.content, r->o.seed);
	r->scratch = fake_memory(IMAGE_SCRATCH);
	r->original = fake_memory(r->o.page_size);
	fake_mkswap(r->original, r->o.page_size, some_id(0xa0), (uint32_t)r->o.area_pages - 1);
	memcpy(r->disk.bytes + r->o.area_start, r->original, r->o.page_size);
	rig_fingerprints(r);
	rig_header(r);
	rig_carve(r);
	if (r->o.to)
		ck_assert_int_eq(seal_prepare(&r->seal, r->o.to, r->o.threads), E_OK);
}

void rig_close(struct rig *r)
{
	seal_close(&r->seal);
	seal_close(&r->opened);
	fake_disk_close(&r->disk);
	fake_swap_close(&r->swap);
	fake_sink_close(&r->sink);
	arena_close(&r->save_arena);
	arena_close(&r->load_arena);
	free(r->scratch);
	free(r->original);
	free(r->fingerprint);
}

int rig_save_run(struct rig *r)
{
	struct save_input in = {
		.disk = &r->disk.disk,
		.source = &r->source.source,
		.swap = &r->swap.pages,
		.header = &r->header,
		.fingerprints = r->fingerprint,
		.seal = r->o.to ? &r->seal : NULL,
		.tick = r->tick,
		.tick_ctx = r,
	};
	uint64_t fail_at = r->source.fail_at;

	fault_clear();
	rig_header(r);
	fake_source_open(&r->source, r->o.page_size, r->o.content, r->o.seed);
	r->source.fail_at = fail_at;
	r->swap.given = 0;
	r->swap.takes = 0;
	return save_run(r->save, &in);
}

int rig_mark(struct rig *r)
{
	return mark_set(&r->disk.disk, r->o.area_start, r->o.page_size, r->scratch, r->header.image_id,
			r->header.installation, save_header_place(r->save));
}

int rig_save(struct rig *r)
{
	int e = rig_save_run(r);

	return e == E_OK ? rig_mark(r) : e;
}

static int rig_trailer(struct rig *r)
{
	const struct header *h = &r->image.header;
	int e = E_OK;

	if (!(h->features & FEATURE_SEALED))
		return image_read_trailer(&r->image);
	if (!r->opened.cipher || memcmp(r->opened.header, h->hash, sizeof h->hash)) {
		seal_close(&r->opened);
		e = r->o.passphrase ? seal_open_passphrase(&r->opened, h, r->o.passphrase, strlen(r->o.passphrase))
				    : seal_open_key_bytes(&r->opened, h, r->o.key);
	}
	return e == E_OK ? image_unseal(&r->image, &r->opened) : e;
}

int rig_load(struct rig *r)
{
	struct load_input in = {.image = &r->image, .sink = &r->sink.sink, .tick = r->tick, .tick_ctx = r};
	uint64_t fail_at = r->sink.fail_at;

	fault_clear();
	fake_sink_close(&r->sink);
	fake_sink_open(&r->sink, r->o.page_size, r->o.content, r->o.seed);
	r->sink.fail_at = fail_at;
	int e = image_open(&r->image, &r->disk.disk, r->o.area_start, r->scratch);
	if (e == E_OK)
		e = rig_trailer(r);
	if (e != E_OK)
		return e;
	ck_assert_uint_eq(r->image.header.block_size, r->o.block_size);
	ck_assert_uint_eq(r->image.header.page_size, r->o.page_size);
	return load_run(r->load, &in);
}

bool rig_same(const struct rig *r)
{
	return r->sink.at == r->o.pages && !r->sink.wrong;
}

enum mark_kind rig_kind(struct rig *r)
{
	struct mark m;

	ck_assert_int_eq(mark_read(&r->disk.disk, r->o.area_start, r->scratch, &m), E_OK);
	return m.kind;
}
