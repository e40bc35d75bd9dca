/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/arena.h"

#include "base/bytes.h"
#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void arena_count(struct arena *a)
{
	a->base = NULL;
	a->size = a->used = 0;
}

int arena_open(struct arena *a, size_t size, int lock)
{
	size = round_up(size, 4096);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	arena_count(a);
	if (p == MAP_FAILED)
		return fault(E_MEMORY, errno, "cannot take %zu KiB", size >> 10);
	/* Out of cores and off the image's bulk: one page of zeros is what a huge page would hide. */
	madvise(p, size, MADV_DONTDUMP);
	if (lock && mlock(p, size)) {
		int e = errno;
		munmap(p, size);
		return fault(E_MEMORY, e, "cannot lock %zu KiB", size >> 10);
	}
	a->base = p;
	a->size = size;
	return E_OK;
}

void arena_close(struct arena *a)
{
	if (a->base)
		munmap(a->base, a->size);
	arena_count(a);
}

void *arena_take(struct arena *a, size_t n, size_t align)
{
	size_t at = round_up(a->used, align);

	if (!a->base) {
		a->used = at + n;
		return NULL;
	}
	if (at > a->size || n > a->size - at)
		return NULL;
	a->used = at + n;
	return a->base + at;
}

void arena_wipe(struct arena *a)
{
	if (a->base)
		explicit_bzero(a->base, a->size);
}

size_t arena_limit(void)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return (size_t)min_u64(ram / 16 > 12 << 20 ? ram / 16 : 12 << 20, 512ull << 20);
}
