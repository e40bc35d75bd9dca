/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/disk.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64 };

static int disk_move(struct disk *d, bool write, void *buf, uint32_t length, uint64_t offset)
{
	struct disk_io *io = &d->single;

	if (io->busy)
		return fault(E_IO, 0, "an earlier request never ended");
	*io = (struct disk_io){.buf = buf, .length = length, .offset = offset, .write = write};
	int r = d->ops->submit(d, &io, 1);
	while (r == E_OK && io->busy)
		r = d->ops->reap(d, true);
	if (r != E_OK)
		return r;
	if (io->error)
		return fault(E_IO, io->error, "cannot %s %u bytes at byte %llu", io->write ? "write" : "read",
			     io->length, (unsigned long long)io->offset);
	return E_OK;
}

int disk_read(struct disk *d, void *buf, uint32_t length, uint64_t offset)
{
	return disk_move(d, false, buf, length, offset);
}

int disk_write(struct disk *d, const void *buf, uint32_t length, uint64_t offset)
{
	return disk_move(d, true, (void *)buf, length, offset);
}

int disk_sync(struct disk *d)
{
	return d->ops->sync(d);
}

static struct disk_file *file_of(struct disk *d)
{
	return (struct disk_file *)d;
}

/* Moves what is left of @io with pread and pwrite. */
static void move_now(int fd, struct disk_io *io)
{
	while (io->moved < io->length) {
		char *p = (char *)io->buf + io->moved;
		size_t left = io->length - io->moved;
		off_t at = (off_t)(io->offset + io->moved);
		ssize_t n = io->write ? pwrite(fd, p, left, at) : pread(fd, p, left, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			io->error = n < 0 ? errno : io->write ? ENOSPC : ENODATA;
			break;
		}
		io->moved += (uint32_t)n;
	}
	io->busy = false;
}

static void prepare(struct disk_io *io)
{
	io->busy = true;
	io->error = 0;
	io->moved = 0;
}

static void fill_iocb(struct iocb *cb, int fd, struct disk_io *io)
{
	memset(cb, 0, sizeof *cb);
	cb->aio_fildes = (uint32_t)fd;
	cb->aio_lio_opcode = io->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	cb->aio_data = (uintptr_t)io;
	cb->aio_buf = (uintptr_t)io->buf;
	cb->aio_nbytes = io->length;
	cb->aio_offset = (int64_t)io->offset;
}

static int given_up(void)
{
	return fault(E_IO, 0, "the disk stopped answering");
}

/* The next answers, waited for as long as there is patience; none: there came none. */
static long collect(struct disk_file *d, struct io_event *ev, bool wait)
{
	bool bounded = !wait || d->patience;
	uint64_t end = clock_ns() + d->patience;

	for (;;) {
		uint64_t now = clock_ns(), left = wait && now < end ? end - now : 0;
		struct timespec t = {(time_t)(left / SECOND), (long)(left % SECOND)};
		long n = syscall(SYS_io_getevents, d->aio, wait ? 1L : 0L, (long)BATCH, ev, bounded ? &t : NULL);

		if (n >= 0 || errno != EINTR)
			return n;
	}
}

static int file_reap(struct disk *disk, bool wait)
{
	struct disk_file *d = file_of(disk);
	struct io_event ev[BATCH];

	if (disk->stuck)
		return given_up();
	if (!d->under_way)
		return E_OK;
	long n = collect(d, ev, wait);
	if (n < 0)
		return fault(E_IO, errno, "cannot collect finished requests");
	if (!n && wait) {
		disk->stuck = true;
		return fault(E_IO, 0, "the disk has answered nothing for %llu seconds (`disk timeout')",
			     (unsigned long long)(d->patience / SECOND));
	}
	for (long i = 0; i < n; i++) {
		struct disk_io *io = (struct disk_io *)(uintptr_t)ev[i].data;
		long long res = (long long)ev[i].res;

		d->under_way--;
		if (res < 0) {
			io->error = (int)-res;
			io->busy = false;
		} else {
			io->moved = (uint32_t)res;
			move_now(d->fd, io); /* a short one is finished by hand */
		}
	}
	return E_OK;
}

/* Starts up to BATCH requests; what the kernel does not take now is tried again after a reap. */
static int submit_some(struct disk_file *d, struct disk_io **io, unsigned n)
{
	struct iocb cb[BATCH], *pp[BATCH];
	unsigned done = 0;

	for (unsigned i = 0; i < n; i++) {
		fill_iocb(&cb[i], d->fd, io[i]);
		pp[i] = &cb[i];
	}
	while (done < n) {
		long r = syscall(SYS_io_submit, d->aio, (long)(n - done), pp + done);

		if (r > 0) {
			done += (unsigned)r;
			d->under_way += (unsigned)r;
		} else if (r < 0 && errno == EAGAIN && d->under_way) {
			int e = file_reap(&d->disk, true);
			if (e != E_OK)
				return e;
		} else if (r < 0 && errno != EINTR) {
			move_now(d->fd, io[done++]); /* its own result says what is wrong */
		}
	}
	return E_OK;
}

static int file_submit(struct disk *disk, struct disk_io **io, unsigned n)
{
	struct disk_file *d = file_of(disk);

	if (disk->stuck)
		return given_up();
	for (unsigned i = 0; i < n; i++)
		prepare(io[i]);
	if (!d->aio) {
		for (unsigned i = 0; i < n; i++)
			move_now(d->fd, io[i]);
		return E_OK;
	}
	for (unsigned at = 0; at < n;) {
		unsigned some = n - at < BATCH ? n - at : BATCH;

		while (d->under_way + some > d->depth && d->under_way) {
			int r = file_reap(disk, true);
			if (r != E_OK)
				return r;
		}
		if (some > d->depth)
			some = d->depth;
		int r = submit_some(d, io + at, some);
		if (r != E_OK)
			return r;
		at += some;
	}
	return E_OK;
}

/* A sync that can be given up; false when the kernel offers none. */
static bool start_flush(struct disk_file *d)
{
	struct iocb cb, *p = &cb;

	if (!d->aio || !d->patience)
		return false;
	d->flush = (struct disk_io){.write = true};
	fill_iocb(&cb, d->fd, &d->flush);
	cb.aio_lio_opcode = IOCB_CMD_FSYNC;
	cb.aio_nbytes = 0;
	cb.aio_buf = 0;
	if (syscall(SYS_io_submit, d->aio, 1L, &p) != 1)
		return false;
	d->flush.busy = true;
	d->under_way++;
	return true;
}

static int file_sync(struct disk *disk)
{
	struct disk_file *d = file_of(disk);
	int e = 0;

	if (disk->stuck)
		return given_up();
	if (start_flush(d)) {
		while (d->flush.busy) {
			int r = file_reap(disk, true);
			if (r != E_OK)
				return r;
		}
		e = d->flush.error;
	} else if (fsync(d->fd)) {
		e = errno;
	}
	return e ? fault(E_IO, e, "cannot sync") : E_OK;
}

static const struct disk_ops file_ops = {file_submit, file_reap, file_sync};

int disk_file_open(struct disk_file *d, int fd, uint64_t size, unsigned depth)
{
	memset(d, 0, sizeof *d);
	d->disk.ops = &file_ops;
	d->disk.size = size;
	d->fd = fd;
	d->depth = depth;
	/* No AIO in this kernel, or none left: the same requests are made one by one. */
	if (syscall(SYS_io_setup, depth, &d->aio) < 0)
		d->aio = 0;
	d->disk.queues = d->aio;
	return E_OK;
}

void disk_file_close(struct disk_file *d)
{
	while (d->under_way && file_reap(&d->disk, true) == E_OK)
		;
	if (!d->disk.stuck)
		disk_file_settle(d);
}

void disk_file_settle(struct disk_file *d)
{
	if (d->aio)
		syscall(SYS_io_destroy, d->aio);
	d->aio = 0;
}
