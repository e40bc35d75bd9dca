/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream on its way out: bytes go into buffers of up to 1 MiB; a full
 * buffer is laid over the next runs of swap pages, a request a run, and
 * written while the next one fills.
 *
 * Swap pages come in runs: one long one, many of 2 MiB scattered over the
 * device, or single pages.  A buffer that begins on a run of some length is
 * cut where the run ends, so that later buffers are whole requests; only on
 * short runs is a buffer made of many.
 */
#include "image/stream.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

#include <string.h>

enum {
	META_PAGES = 64 + 16, /* extent, header and other pages a reserve leaves room for */
};

/* Pages to hold @bytes and a buffer begun, with an extent page for every so many single pages. */
static uint64_t pages_for(uint64_t bytes, uint32_t page_size)
{
	uint64_t pages = div_up(bytes + STREAM_BUFFER, page_size);

	return pages + pages / EXTENTS_PER_PAGE + META_PAGES;
}

void stream_out_carve(struct stream_out *s, struct arena *a, uint32_t page_size, uint64_t in_flight, unsigned buffers,
		      uint32_t size)
{
	s->page_size = page_size;
	s->buffer_size = size;
	s->buffers = buffers;
	for (unsigned i = 0; i < buffers; i++)
		stream_buffer_carve(&s->buffer[i], a, page_size, size);
	s->places = arena_take(a, TAKE_BATCH / page_size * sizeof *s->places, 16);
	s->map = arena_take(a, sizeof *s->map, 16);
	s->record = arena_take(a, RECORD_PAGE, DISK_UNIT);
	run_ring_carve(&s->ring, a, (uint32_t)(pages_for(in_flight, page_size) + TAKE_BATCH / page_size));
}

void stream_out_start(struct stream_out *s, struct disk *disk, struct swap_pages *swap, id128 image, struct hash *hash)
{
	s->disk = disk;
	s->swap = swap;
	s->image = image;
	s->current = NULL;
	s->first = s->under_ways = 0;
	s->idles = s->buffers;
	s->hash = hash;
	s->position = 0;
	meter_reset(&s->meter);
	s->promised = 0;
	s->full = false;
	s->map_place = s->first_place = s->map_pages = 0;
	s->map_check = id64(image);
	memset(s->map, 0, sizeof *s->map);
	for (unsigned i = 0; i < s->buffers; i++) {
		s->buffer[i].fill = s->buffer[i].limit = s->buffer[i].ios = s->buffer[i].bytes = 0;
		s->idle[i] = (uint8_t)i;
	}
	run_ring_reset(&s->ring);
	pthread_mutex_init(&s->lock, NULL);
}

void stream_out_stop(struct stream_out *s)
{
	pthread_mutex_destroy(&s->lock);
}

/* Bytes that could be appended with the pages held, less what is promised; the lock is held. */
static bool enough(const struct stream_out *s, uint64_t bytes)
{
	return s->full || s->ring.pages >= pages_for(s->promised + bytes, s->page_size);
}

static int take_batch(struct stream_out *s)
{
	uint32_t got = 0;
	int r = s->swap->take(s->swap, s->places, TAKE_BATCH / s->page_size, &got);

	if (r != E_OK)
		return r;
	pthread_mutex_lock(&s->lock);
	run_ring_add(&s->ring, s->places, got, s->page_size);
	if (got < TAKE_BATCH / s->page_size)
		s->full = true;
	pthread_mutex_unlock(&s->lock);
	return E_OK;
}

int stream_out_reserve(struct stream_out *s, uint64_t bytes)
{
	for (;;) {
		pthread_mutex_lock(&s->lock);
		bool done = enough(s, bytes);
		if (done)
			s->promised += bytes;
		pthread_mutex_unlock(&s->lock);
		if (done)
			return E_OK;
		int r = take_batch(s);
		if (r != E_OK)
			return r;
	}
}

void stream_out_keep_promise(struct stream_out *s, uint64_t promise)
{
	pthread_mutex_lock(&s->lock);
	s->promised -= promise;
	pthread_mutex_unlock(&s->lock);
}

static int take_run(struct stream_out *s, uint32_t pages, struct extent *e)
{
	pthread_mutex_lock(&s->lock);
	bool got = run_ring_take(&s->ring, pages, e);
	pthread_mutex_unlock(&s->lock);
	return got ? E_OK : E_NOSPACE;
}

int stream_out_page(struct stream_out *s, uint64_t *place)
{
	struct extent e;
	int r = take_run(s, 1, &e);

	if (r == E_OK)
		*place = e.start * s->page_size;
	return r;
}

static int write_map(struct stream_out *s)
{
	uint8_t check[8];

	extent_page_put(s->record, s->map, s->image);
	put_le64(check, s->map->check);
	s->map_check = chain_next(s->map_check, check, sizeof check);
	s->map_pages++;
	if (s->hash)
		hash_add(s->hash, s->record, RECORD_PAGE);
	return disk_write(s->disk, s->record, RECORD_PAGE, s->map_place);
}

/* Makes sure that the extent page has room for one more entry. */
static int map_room(struct stream_out *s)
{
	uint64_t place;
	int r;

	if (s->map_place && s->map->count < EXTENTS_PER_PAGE)
		return E_OK;
	r = stream_out_page(s, &place);
	if (r != E_OK)
		return r;
	if (!s->map_place) {
		s->first_place = place;
	} else {
		s->map->next = place;
		r = write_map(s);
		uint64_t index = s->map->index + 1;
		memset(s->map, 0, sizeof *s->map);
		s->map->index = index;
	}
	s->map_place = place;
	return r;
}

static int map_add(struct stream_out *s, struct extent e)
{
	struct extent *last = s->map->count ? &s->map->e[s->map->count - 1] : NULL;

	if (last && last->start + last->pages == e.start && last->pages <= UINT32_MAX - e.pages) {
		last->pages += e.pages;
		return E_OK;
	}
	int r = map_room(s);
	if (r == E_OK)
		s->map->e[s->map->count++] = e;
	return r;
}

/* Lays the buffer over the next runs and starts writing it. */
static int send_off(struct stream_out *s, struct stream_buffer *b)
{
	uint32_t bytes = (uint32_t)round_up(b->fill, s->page_size);

	memset(b->data + b->fill, 0, bytes - b->fill);
	b->ios = 0;
	for (uint32_t at = 0; at < bytes;) {
		struct extent e;
		int r = take_run(s, (bytes - at) / s->page_size, &e);
		if (r != E_OK)
			return r;
		r = map_add(s, e);
		if (r != E_OK)
			return r;
		b->io[b->ios++] = (struct disk_io){.buf = b->data + at,
						   .offset = e.start * s->page_size,
						   .length = e.pages * s->page_size,
						   .write = true};
		at += e.pages * s->page_size;
	}
	b->fill = 0;
	b->limit = 0;
	b->sent = clock_ns();
	b->bytes = bytes;
	pthread_mutex_lock(&s->lock);
	meter_handed(&s->meter, bytes, b->sent);
	pthread_mutex_unlock(&s->lock);
	return stream_buffer_submit(b, s->disk);
}

static bool finished(const struct stream_buffer *b)
{
	for (uint32_t i = 0; i < b->ios; i++)
		if (b->io[i].busy)
			return false;
	return true;
}

static struct stream_buffer *oldest(struct stream_out *s)
{
	return &s->buffer[s->under_way[s->first]];
}

/* Takes back what the disk has finished, oldest first; the code of a request that failed. */
static int take_back(struct stream_out *s)
{
	uint64_t now = clock_ns();

	while (s->under_ways && finished(oldest(s))) {
		struct stream_buffer *b = oldest(s);
		int r = stream_buffer_wait(b, s->disk);

		if (r != E_OK)
			return r;
		pthread_mutex_lock(&s->lock);
		meter_written(&s->meter, b->bytes, b->sent, now);
		pthread_mutex_unlock(&s->lock);
		b->bytes = 0;
		s->idle[s->idles++] = s->under_way[s->first];
		s->first = (s->first + 1) % STREAM_BUFFERS_MAX;
		s->under_ways--;
	}
	return E_OK;
}

/* The same, after waiting for the oldest. */
static int wait_for_oldest(struct stream_out *s)
{
	int r = stream_buffer_wait(oldest(s), s->disk);

	return r == E_OK ? take_back(s) : r;
}

double stream_out_pressure(struct stream_out *s)
{
	pthread_mutex_lock(&s->lock);
	uint64_t room = (uint64_t)s->buffers * meter_request(&s->meter, s->buffer_size);
	double p = meter_pressure(&s->meter, room, clock_ns());
	pthread_mutex_unlock(&s->lock);
	return p;
}

/* Where a new buffer ends: with the run it begins on, if that is long enough. */
static uint32_t cut(struct stream_out *s)
{
	pthread_mutex_lock(&s->lock);
	uint64_t run = s->ring.count ? (uint64_t)s->ring.run[s->ring.first].pages * s->page_size : 0;
	uint32_t size = meter_request(&s->meter, s->buffer_size);
	pthread_mutex_unlock(&s->lock);
	return run >= LONG_RUN && run < size ? (uint32_t)run : size;
}

/* Hands the current buffer to the disk. */
static int pass_buffer(struct stream_out *s)
{
	struct stream_buffer *b = s->current;

	s->under_way[(s->first + s->under_ways++) % STREAM_BUFFERS_MAX] = (uint8_t)(b - s->buffer);
	s->current = NULL;
	return send_off(s, b);
}

/* Takes an idle buffer, waiting for the disk when there is none. */
static int take_buffer(struct stream_out *s)
{
	int r = s->idles ? take_back(s) : wait_for_oldest(s);

	if (r != E_OK)
		return r;
	s->current = &s->buffer[s->idle[--s->idles]];
	s->current->limit = cut(s);
	return E_OK;
}

int stream_out_collect(struct stream_out *s)
{
	int r = s->disk->ops->reap(s->disk, false);

	return r == E_OK ? take_back(s) : r;
}

int stream_out_append(struct stream_out *s, const uint8_t *data, uint32_t n)
{
	while (n) {
		int r = s->current ? E_OK : take_buffer(s);
		if (r != E_OK)
			return r;
		struct stream_buffer *b = s->current;
		uint32_t some = (uint32_t)min_u64(n, b->limit - b->fill);
		memcpy(b->data + b->fill, data, some);
		b->fill += some;
		s->position += some;
		data += some;
		n -= some;
		if (b->fill == b->limit && (r = pass_buffer(s)) != E_OK)
			return r;
	}
	return E_OK;
}

int stream_out_finish(struct stream_out *s, struct trailer *t)
{
	int r = s->current ? pass_buffer(s) : E_OK;

	if (r == E_OK)
		r = write_map(s); /* there is one: the closing record has been appended */
	while (s->under_ways && r == E_OK)
		r = wait_for_oldest(s);
	t->extents_place = s->first_place;
	t->extent_pages = s->map_pages;
	t->extents_check = s->map_check;
	if (s->hash)
		hash_end(s->hash, t->extents_hash);
	t->stream_bytes = s->position;
	return r;
}

void stream_out_settle(struct stream_out *s)
{
	stream_buffers_settle(s->buffer, s->buffers, s->disk);
}
