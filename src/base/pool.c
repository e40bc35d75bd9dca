/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A region is one mapping; chunks lie in it back to back, each behind its own
 * head, and fill it.  There are some hundred of them at most, so looking
 * through all costs less than keeping lists.
 */
#include "base/pool.h"

#include "base/bytes.h"
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

struct chunk {
	size_t size; /* with this head */
	size_t used;
} __attribute__((aligned(POOL_ALIGN)));

struct region {
	struct region *next;
	size_t size; /* of the mapping */
	bool own;    /* for one request alone */
	struct chunk chunk[];
} __attribute__((aligned(POOL_ALIGN)));

enum { REGION_UNIT = 64 << 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under lock: */
static struct region *regions;
static size_t used;

static struct chunk *chunk_after(struct chunk *c)
{
	return (struct chunk *)((uint8_t *)c + c->size);
}

static bool in_region(const struct region *r, const struct chunk *c)
{
	return (const uint8_t *)c < (const uint8_t *)r + r->size;
}

static size_t chunk_size(size_t n)
{
	return sizeof(struct chunk) + (n ? round_up(n, POOL_ALIGN) : POOL_ALIGN);
}

/* Locked where that is allowed: an ordinary user's s2image has to do without. */
static struct region *map_region(size_t n)
{
	size_t size = round_up(sizeof(struct region) + chunk_size(n), REGION_UNIT);
	struct region *r = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r == MAP_FAILED)
		return NULL;
	madvise(r, size, MADV_DONTDUMP);
	madvise(r, size, MADV_HUGEPAGE);
	if (mlock(r, size))
		memset(r, 0, size); /* touched, at least */
	r->size = size;
	r->own = false;
	r->chunk[0] = (struct chunk){size - sizeof *r, 0};
	r->next = regions;
	regions = r;
	return r;
}

static struct chunk *first_fit(size_t size)
{
	for (struct region *r = regions; r; r = r->next)
		for (struct chunk *c = r->chunk; in_region(r, c); c = chunk_after(c))
			if (!c->used && c->size >= size)
				return c;
	return NULL;
}

int pool_reserve(size_t n)
{
	pthread_mutex_lock(&lock);
	bool there = first_fit(chunk_size(n)) || map_region(n);
	pthread_mutex_unlock(&lock);
	return there ? E_OK : fault(E_MEMORY, errno, "cannot take %zu KiB for sealing", n >> 10);
}

static void *take(struct chunk *c, size_t size)
{
	if (c->size - size > sizeof *c) {
		struct chunk *rest = (struct chunk *)((uint8_t *)c + size);

		*rest = (struct chunk){c->size - size, 0};
		c->size = size;
	}
	c->used = 1;
	used += c->size;
	return c + 1;
}

static void *take_own(size_t n)
{
	struct region *r = map_region(n);

	if (!r)
		return NULL;
	r->own = true;
	return take(r->chunk, r->chunk[0].size);
}

void *pool_alloc(size_t n)
{
	void *p = NULL;

	if (n > SIZE_MAX / 2)
		return NULL;
	pthread_mutex_lock(&lock);
	if (n >= POOL_OWN_MAPPING) {
		p = take_own(n);
	} else {
		struct chunk *c = first_fit(chunk_size(n));
		if (c)
			p = take(c, chunk_size(n));
	}
	pthread_mutex_unlock(&lock);
	if (!p)
		errno = ENOMEM;
	return p;
}

static struct region **region_of(const struct chunk *c)
{
	struct region **r = &regions;

	while ((const uint8_t *)c < (const uint8_t *)*r || !in_region(*r, c))
		r = &(*r)->next;
	return r;
}

static void unmap(struct region **at)
{
	struct region *r = *at;

	*at = r->next;
	munmap(r, r->size);
}

/* Makes one of neighbours that are free. */
static void merge(struct region *r)
{
	for (struct chunk *c = r->chunk; in_region(r, c);) {
		struct chunk *next = chunk_after(c);

		if (in_region(r, next) && !c->used && !next->used)
			c->size += next->size;
		else
			c = next;
	}
}

void pool_free(void *p)
{
	if (!p)
		return;
	struct chunk *c = (struct chunk *)p - 1;
	explicit_bzero(p, c->size - sizeof *c);
	pthread_mutex_lock(&lock);
	struct region **r = region_of(c);
	c->used = 0;
	used -= c->size;
	if ((*r)->own)
		unmap(r);
	else
		merge(*r);
	pthread_mutex_unlock(&lock);
}

void *pool_resize(void *p, size_t n)
{
	if (!p)
		return pool_alloc(n);
	size_t room = ((struct chunk *)p - 1)->size - sizeof(struct chunk);
	if (n <= room)
		return p;
	void *more = pool_alloc(n);
	if (!more)
		return NULL;
	memcpy(more, p, room);
	pool_free(p);
	return more;
}

size_t pool_used(void)
{
	pthread_mutex_lock(&lock);
	size_t n = used;
	pthread_mutex_unlock(&lock);
	return n;
}

void pool_close(void)
{
	pthread_mutex_lock(&lock);
	while (regions) {
		explicit_bzero(regions->chunk, regions->size - sizeof *regions);
		unmap(&regions);
	}
	used = 0;
	pthread_mutex_unlock(&lock);
}
