/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream on its way in: all buffers are always being filled ahead, in the
 * order of the extents; a buffer that has been used is sent off again at once.
 */
#include "image/stream.h"

#include "base/bytes.h"
#include "base/error.h"

#include <string.h>

void stream_in_carve(struct stream_in *s, struct arena *a, uint32_t page_size)
{
	s->page_size = page_size;
	for (int i = 0; i < STREAM_BUFFERS; i++)
		stream_buffer_carve(&s->buffer[i], a, page_size, STREAM_BUFFER);
	s->map = arena_take(a, sizeof *s->map, 16);
	s->record = arena_take(a, RECORD_PAGE, DISK_UNIT);
}

/* Reads the extent page at @place, the next in turn. */
static int read_map(struct stream_in *s, uint64_t place)
{
	uint8_t check[8];
	int r = E_OK;

	if (s->map_pages >= s->trailer->extent_pages)
		r = fault(E_CORRUPT, 0, "extents: more pages than the trailer says");
	if (r == E_OK)
		r = disk_read(s->disk, s->record, RECORD_PAGE, place);
	if (r == E_OK)
		r = extent_page_get(s->map, s->record, s->image, s->map_pages, s->page_size, s->disk->size);
	if (r != E_OK)
		return r;
	put_le64(check, s->map->check);
	s->map_check = chain_next(s->map_check, check, sizeof check);
	if (s->hash)
		hash_add(s->hash, s->record, RECORD_PAGE);
	s->map_pages++;
	s->map_at = s->map_done = 0;
	return E_OK;
}

/* The run the stream goes on with. */
static int current_run(struct stream_in *s, struct extent *e)
{
	if (s->map_at == s->map->count) {
		if (!s->map->next)
			return fault(E_CORRUPT, 0, "extents: they end before the stream does");
		int r = read_map(s, s->map->next);
		if (r != E_OK)
			return r;
	}
	*e = s->map->e[s->map_at];
	e->start += s->map_done;
	e->pages -= s->map_done;
	return E_OK;
}

static void use_run(struct stream_in *s, uint32_t pages)
{
	s->map_done += pages;
	if (s->map_done == s->map->e[s->map_at].pages) {
		s->map_at++;
		s->map_done = 0;
	}
}

/* Adds one request to @b, as long as run, room and stream allow. */
static int add_request(struct stream_in *s, struct stream_buffer *b, uint64_t left, bool *run_ends)
{
	struct extent e = {0};
	int r = current_run(s, &e);

	if (r != E_OK)
		return r;
	uint64_t want = min_u64(round_up(left, s->page_size), STREAM_BUFFER) / s->page_size - b->limit / s->page_size;
	uint32_t pages = (uint32_t)min_u64(e.pages, want);
	b->io[b->ios++] = (struct disk_io){
		.buf = b->data + b->limit, .offset = e.start * s->page_size, .length = pages * s->page_size};
	b->limit += pages * s->page_size;
	*run_ends = pages == e.pages && (uint64_t)pages * s->page_size >= LONG_RUN;
	use_run(s, pages);
	return E_OK;
}

/* Begins to fill @b with what comes next; limit 0 when the stream has been asked for whole. */
static int send_for(struct stream_in *s, struct stream_buffer *b)
{
	uint64_t left = s->trailer->stream_bytes - s->asked;
	bool run_ends = false;

	b->ios = b->limit = b->fill = 0;
	while (b->limit < left && b->limit < STREAM_BUFFER && !run_ends) {
		int r = add_request(s, b, left, &run_ends);
		if (r != E_OK)
			return r;
	}
	b->limit = (uint32_t)min_u64(b->limit, left);
	s->asked += b->limit;
	return stream_buffer_submit(b, s->disk);
}

int stream_in_start(struct stream_in *s, struct disk *disk, id128 image, const struct trailer *t, struct hash *hash)
{
	s->disk = disk;
	s->image = image;
	s->trailer = t;
	s->hash = hash;
	s->current = s->at = 0;
	s->asked = 0;
	s->map_pages = 0;
	s->map_check = id64(image);
	for (int i = 0; i < STREAM_BUFFERS; i++)
		s->buffer[i].ios = s->buffer[i].limit = 0;
	int r = read_map(s, t->extents_place);
	for (int i = 0; i < STREAM_BUFFERS && r == E_OK; i++)
		r = send_for(s, &s->buffer[i]);
	return r;
}

int stream_in_read(struct stream_in *s, uint8_t *out, uint32_t n)
{
	while (n) {
		struct stream_buffer *b = &s->buffer[s->current];
		int r = stream_buffer_wait(b, s->disk);
		if (r != E_OK)
			return r;
		if (!b->limit)
			return fault(E_CORRUPT, 0, "stream: it ends too early");
		uint32_t some = (uint32_t)min_u64(n, b->limit - s->at);
		memcpy(out, b->data + s->at, some);
		s->at += some;
		out += some;
		n -= some;
		if (s->at < b->limit)
			continue;
		s->at = 0;
		s->current = (s->current + 1) % STREAM_BUFFERS;
		r = send_for(s, b);
		if (r != E_OK)
			return r;
	}
	return E_OK;
}

static bool hash_holds(struct stream_in *s)
{
	uint8_t hash[CRYPT_HASH];

	if (!s->hash)
		return true;
	hash_end(s->hash, hash);
	return crypt_equal(hash, s->trailer->extents_hash, sizeof hash);
}

int stream_in_finish(struct stream_in *s)
{
	if (s->asked != s->trailer->stream_bytes || s->buffer[s->current].limit)
		return fault(E_CORRUPT, 0, "stream: bytes follow the closing record");
	if (s->map_at != s->map->count || s->map_done || s->map->next)
		return fault(E_CORRUPT, 0, "extents: they go on behind the stream");
	bool same = CHECKS_HOLD || s->map_check == s->trailer->extents_check;
	if (s->map_pages != s->trailer->extent_pages || !same || !hash_holds(s))
		return fault(E_CORRUPT, 0, "extents: they are not those the trailer names");
	return E_OK;
}

void stream_in_settle(struct stream_in *s)
{
	stream_buffers_settle(s->buffer, STREAM_BUFFERS, s->disk);
}
