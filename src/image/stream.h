/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What save and load are given from outside (one method each), and the byte
 * stream over extents between them and the disk.
 */
#ifndef DORMOUSE_IMAGE_STREAM_H
#define DORMOUSE_IMAGE_STREAM_H

#include "base/arena.h"
#include "base/crypt.h"
#include "base/disk.h"
#include "image/adapt.h"
#include "image/format.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Whole pages in the snapshot's order. */
struct page_source {
	/* Fills exactly @n bytes, or a code. */
	int (*read)(struct page_source *s, uint8_t *buf, uint32_t n);
};

struct page_sink {
	int (*write)(struct page_sink *s, const uint8_t *buf, uint32_t n);
};

/* Swap pages to write on. */
struct swap_pages {
	/*
	 * Takes up to @want; @got fewer means that the area is full.  @places:
	 * byte offsets on the device.  Called by the thread that reads the
	 * source, so that one thread at a time owns /dev/snapshot.
	 */
	int (*take)(struct swap_pages *p, uint64_t *places, uint32_t want, uint32_t *got);
};

enum {
	STREAM_BUFFER = 1 << 20, /* bytes of one device request at most */
	STREAM_BUFFER_MIN = 256 << 10,
	STREAM_BUFFERS = 8,	 /* in flight */
	STREAM_BUFFERS_MAX = 16, /* when the codec is chosen by how full they are */
	LONG_RUN = 128 << 10,	 /* bytes from which a buffer is cut to the run's end */
	TAKE_BATCH = 16 << 20,	 /* bytes of swap pages taken and sorted at once */
};

/* A ring of extents, oldest first. */
struct run_ring {
	struct extent *run;
	uint32_t room, first, count;
	uint64_t pages; /* in all runs */
};

/* Takes memory for @room runs. */
void run_ring_carve(struct run_ring *r, struct arena *a, uint32_t room);
void run_ring_reset(struct run_ring *r);
/* Adds @n places (bytes), sorted in place and merged into runs.  The caller has made sure of the room. */
void run_ring_add(struct run_ring *r, uint64_t *places, uint32_t n, uint32_t page_size);
/* Takes up to @pages from the oldest run; false when there is none. */
bool run_ring_take(struct run_ring *r, uint32_t pages, struct extent *out);

/* One device request's worth of stream: a buffer and the requests that move it. */
struct stream_buffer {
	uint8_t *data;
	uint32_t fill, limit; /* bytes; limit: where it is cut so that it ends with a run */
	struct disk_io *io;   /* room for one a page */
	uint32_t ios;
	uint64_t sent;	/* ns, when it was handed to the disk */
	uint32_t bytes; /* of it, while under way; 0 = not */
};

void stream_buffer_carve(struct stream_buffer *b, struct arena *a, uint32_t page_size, uint32_t size);
/* Waits until all its requests are done; E_IO when one failed. */
int stream_buffer_wait(struct stream_buffer *b, struct disk *disk);
int stream_buffer_submit(struct stream_buffer *b, struct disk *disk);
/* Waits whatever the results were. */
void stream_buffers_settle(struct stream_buffer *b, unsigned n, struct disk *disk);

/*
 * Writing.  stream_out_reserve() belongs to the thread that fills,
 * everything else to the one that drains; the ring and the promises between
 * them are under @lock.
 */
struct stream_out {
	struct disk *disk;
	struct swap_pages *swap;
	id128 image;
	uint32_t page_size;
	struct stream_buffer buffer[STREAM_BUFFERS_MAX];
	uint32_t buffer_size;
	unsigned buffers;		       /* of them in use */
	struct stream_buffer *current;	       /* being filled, NULL = none yet */
	uint8_t under_way[STREAM_BUFFERS_MAX]; /* ring of buffers the disk has, oldest first */
	uint8_t idle[STREAM_BUFFERS_MAX];      /* stack: what was used last is used first, it is still in the cache */
	unsigned first, under_ways, idles;
	uint64_t position;	 /* stream bytes appended */
	uint64_t *places;	 /* one batch, the filling thread's */
	struct extent_page *map; /* the extent page being filled */
	uint64_t map_place, first_place, map_pages, map_check;
	struct hash *hash; /* over the extent pages; NULL in an image that is not sealed */
	uint8_t *record;   /* RECORD_PAGE bytes to write metadata from */
	pthread_mutex_t lock;
	/* Under lock: */
	struct run_ring ring;
	uint64_t promised; /* bytes filled but not yet appended, at their worst */
	bool full;	   /* the area has no more pages */
	struct write_meter meter;
};

/* @in_flight: the most bytes ever promised at once.  @buffers: 2 to STREAM_BUFFERS_MAX, of @size bytes each. */
void stream_out_carve(struct stream_out *s, struct arena *a, uint32_t page_size, uint64_t in_flight, unsigned buffers,
		      uint32_t size);
/* @hash: reset, for a sealed image; or NULL. */
void stream_out_start(struct stream_out *s, struct disk *disk, struct swap_pages *swap, id128 image, struct hash *hash);
void stream_out_stop(struct stream_out *s);

/* Takes swap pages so that @bytes more can be appended; when the area is full it goes on with what there is. */
int stream_out_reserve(struct stream_out *s, uint64_t bytes);
/* One page for metadata, from the reserve.  E_NOSPACE. */
int stream_out_page(struct stream_out *s, uint64_t *place);
/* Appends bytes, E_NOSPACE when the area is full.  @promise: what was reserved for them. */
int stream_out_append(struct stream_out *s, const uint8_t *data, uint32_t n);
/* Takes note of what the disk has finished, without waiting; for the pressure to be of now. */
int stream_out_collect(struct stream_out *s);
void stream_out_keep_promise(struct stream_out *s, uint64_t promise);
/* How far the disk is behind (adapt.h); any thread. */
double stream_out_pressure(struct stream_out *s);
/* Writes what is buffered and the last extent page, waits for all; fills the extents' fields and stream_bytes. */
int stream_out_finish(struct stream_out *s, struct trailer *t);
/* Waits for whatever is under way, after an error too. */
void stream_out_settle(struct stream_out *s);

/* Reading, by one thread. */
struct stream_in {
	struct disk *disk;
	id128 image;
	uint32_t page_size;
	const struct trailer *trailer;
	struct stream_buffer buffer[STREAM_BUFFERS];
	unsigned current;
	uint32_t at;	/* in the current buffer */
	uint64_t asked; /* stream bytes requested so far */
	struct extent_page *map;
	uint32_t map_at;   /* entry in it */
	uint32_t map_done; /* pages of that entry used */
	uint64_t map_pages, map_check;
	struct hash *hash; /* over the extent pages, held against the trailer's; or NULL */
	uint8_t *record;
};

void stream_in_carve(struct stream_in *s, struct arena *a, uint32_t page_size);
/* Reads the first extent page and begins to read ahead. */
int stream_in_start(struct stream_in *s, struct disk *disk, id128 image, const struct trailer *t, struct hash *hash);
/* The next @n bytes; E_CORRUPT past the stream's end. */
int stream_in_read(struct stream_in *s, uint8_t *out, uint32_t n);
/* All was read and the extents agree with the trailer, else E_CORRUPT. */
int stream_in_finish(struct stream_in *s);
void stream_in_settle(struct stream_in *s);

#endif
