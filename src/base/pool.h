/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory for a library that allocates: first fit inside memory that was mapped,
 * touched and, where it may be, locked beforehand.  What is freed is wiped.
 *
 * There is one pool, since a library takes its allocator once and for all.  Any
 * thread may use it.
 */
#ifndef DORMOUSE_BASE_POOL_H
#define DORMOUSE_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

enum {
	POOL_ALIGN = 16,
	POOL_OWN_MAPPING = 256 << 10, /* bytes from which a request gets a mapping of its own, never while frozen */
};

/* Sees to it that @n bytes are free in one piece.  Maps memory: not while tasks are frozen.  E_OK or E_MEMORY. */
int pool_reserve(size_t n);

/* Like malloc() and its kin; NULL when nothing fits. */
void *pool_alloc(size_t n);
void *pool_resize(void *p, size_t n);
void pool_free(void *p);

/* Bytes handed out at this moment, for tests. */
size_t pool_used(void);

/*
 * Zeroes and gives back everything, whoever may still hold pieces of it: the
 * library may not be used after this.
 */
void pool_close(void);

#endif
