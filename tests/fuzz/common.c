/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fuzz.h"

#include "base/bytes.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void fuzz_must(int holds)
{
	if (!holds)
		abort();
}

static int submit(struct disk *disk, struct disk_io **io, unsigned n)
{
	struct fuzz_disk *d = (struct fuzz_disk *)disk;

	for (unsigned i = 0; i < n; i++) {
		struct disk_io *one = io[i];

		/* The program promises whole units, whatever the image says. */
		fuzz_must(one->offset % DISK_UNIT == 0 && one->length % DISK_UNIT == 0 && one->length);
		one->busy = false;
		one->error = 0;
		one->moved = one->length;
		if (one->offset > disk->size || disk->size - one->offset < one->length)
			one->error = EIO;
		else if (one->write)
			memcpy(d->bytes + one->offset, one->buf, one->length);
		else
			memcpy(one->buf, d->bytes + one->offset, one->length);
	}
	return E_OK;
}

static int reap(struct disk *disk, bool wait)
{
	(void)disk;
	(void)wait;
	return E_OK;
}

static int sync_disk(struct disk *disk)
{
	(void)disk;
	return E_OK;
}

static const struct disk_ops ops = {submit, reap, sync_disk};

void fuzz_disk_open(struct fuzz_disk *d, const uint8_t *data, size_t size)
{
	size_t whole = round_up(size + 1, DISK_UNIT);

	memset(d, 0, sizeof *d);
	d->disk.ops = &ops;
	d->disk.size = whole;
	d->bytes = aligned_alloc(DISK_UNIT, whole);
	fuzz_must(d->bytes != NULL);
	memset(d->bytes, 0, whole);
	if (size)
		memcpy(d->bytes, data, size);
}

void fuzz_disk_close(struct fuzz_disk *d)
{
	free(d->bytes);
}

int fuzz_file(const uint8_t *data, size_t size, char path[32])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	fuzz_must(fd >= 0 && fchmod(fd, 0600) == 0);
	fuzz_must(write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}
