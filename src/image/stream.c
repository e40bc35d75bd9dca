/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Buffers of the stream, the same in both directions. */
#include "image/stream.h"

#include "base/bytes.h"
#include "base/error.h"

enum { SUBMIT_BATCH = 64 };

void stream_buffer_carve(struct stream_buffer *b, struct arena *a, uint32_t page_size, uint32_t size)
{
	b->data = arena_take(a, size, DISK_UNIT);
	b->io = arena_take(a, size / page_size * sizeof *b->io, 16);
}

int stream_buffer_submit(struct stream_buffer *b, struct disk *disk)
{
	struct disk_io *some[SUBMIT_BATCH];

	for (uint32_t at = 0; at < b->ios;) {
		uint32_t n = (uint32_t)min_u64(SUBMIT_BATCH, b->ios - at);
		for (uint32_t i = 0; i < n; i++)
			some[i] = &b->io[at + i];
		int r = disk->ops->submit(disk, some, n);
		if (r != E_OK)
			return r;
		at += n;
	}
	return E_OK;
}

static int io_result(const struct disk_io *io)
{
	if (!io->error)
		return E_OK;
	return fault(E_IO, io->error, "cannot %s %u bytes at byte %llu", io->write ? "write" : "read", io->length,
		     (unsigned long long)io->offset);
}

int stream_buffer_wait(struct stream_buffer *b, struct disk *disk)
{
	for (uint32_t i = 0; i < b->ios; i++) {
		int r = E_OK;

		while (b->io[i].busy && r == E_OK)
			r = disk->ops->reap(disk, true);
		if (r == E_OK)
			r = io_result(&b->io[i]);
		if (r != E_OK)
			return r;
	}
	b->ios = 0;
	return E_OK;
}

void stream_buffers_settle(struct stream_buffer *b, unsigned n, struct disk *disk)
{
	for (unsigned i = 0; i < n; i++)
		for (uint32_t k = 0; k < b[i].ios; k++)
			while (b[i].io[k].busy)
				if (disk->ops->reap(disk, true) != E_OK)
					return;
}
