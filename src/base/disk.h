/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A device that takes many reads and writes at once.
 *
 * Offsets, lengths and buffers are multiples of DISK_UNIT.  A request is owned
 * by the caller and must stay in place until disk_reap() has cleared its busy
 * flag.  All calls on one disk come from one thread at a time.
 */
#ifndef DORMOUSE_BASE_DISK_H
#define DORMOUSE_BASE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISK_UNIT = 4096 };

struct disk_io {
	void *buf;
	uint64_t offset; /* bytes from the start of the device */
	uint32_t length;
	bool write;
	bool busy;	/* set by submit, cleared by reap */
	int error;	/* errno value once finished, 0 = all of it was moved */
	uint32_t moved; /* bytes moved so far, for requests that come back short */
};

struct disk;

struct disk_ops {
	/* Starts @n requests.  A code, with none of those not started left busy. */
	int (*submit)(struct disk *d, struct disk_io **io, unsigned n);
	/* Collects what has finished; with @wait at least one, when any is under way. */
	int (*reap)(struct disk *d, bool wait);
	/* Everything written so far is durable when this returns E_OK. */
	int (*sync)(struct disk *d);
};

struct disk {
	const struct disk_ops *ops;
	uint64_t size;	       /* bytes */
	struct disk_io single; /* of disk_read() and disk_write(): it outlives them when the kernel fails to answer */
	bool queues;	       /* requests go on after submit; false: submit does not return before they are done */
	bool stuck;	       /* it has not answered in time; every further call fails at once */
};

/*
 * False once a request was given up without its answer.  It may still move
 * data at any time: its memory has to stay, and its place on the device may not
 * become anybody else's.
 */
static inline bool disk_answers(const struct disk *d)
{
	return !d->stuck;
}

/* Moves @length bytes and waits.  E_IO with a fault noted. */
int disk_read(struct disk *d, void *buf, uint32_t length, uint64_t offset);
int disk_write(struct disk *d, const void *buf, uint32_t length, uint64_t offset);
int disk_sync(struct disk *d);

/*
 * A file or block device by Linux AIO, or by pread and pwrite where the kernel
 * has none.  @fd stays the caller's.  @depth bounds the requests under way.
 * Takes all memory here, none later.
 *
 * @patience: with AIO, a wait in which nothing at all is answered for so long
 * makes the disk stuck.  A driver that blocks a request while it is handed over
 * is waited for in any case.
 */
struct disk_file {
	struct disk disk;
	int fd;
	unsigned depth, under_way;
	unsigned long aio;    /* 0: synchronous */
	uint64_t patience;    /* ns, set by the caller after the opening; 0: for ever */
	struct disk_io flush; /* of a sync */
};

int disk_file_open(struct disk_file *d, int fd, uint64_t size, unsigned depth);

/* Leaves a stuck disk as it is. */
void disk_file_close(struct disk_file *d);

/* Waits, without bound, until a stuck disk has answered all.  Makes no other call than the kernel's. */
void disk_file_settle(struct disk_file *d);

#endif
