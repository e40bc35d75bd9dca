/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One block of locked memory that everything needed while tasks are frozen is
 * carved from.  Nothing is given back singly.
 *
 * The budget comes from the same code that carves: run it on an arena that
 * only counts, then on a real one of that size.
 */
#ifndef DORMOUSE_BASE_ARENA_H
#define DORMOUSE_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena {
	uint8_t *base; /* NULL: only counts */
	size_t size, used;
};

/* An arena that only counts; every arena_take() gives NULL and used grows. */
void arena_count(struct arena *a);

/* Mapped, touched (zero) and, with @lock, locked.  E_OK or E_MEMORY. */
int arena_open(struct arena *a, size_t size, int lock);
void arena_close(struct arena *a);

/* @n bytes aligned to @align (a power of two); NULL when counting or when the arena is too small. */
void *arena_take(struct arena *a, size_t n, size_t align);

/* Zeroes all of it, so that it adds little to an image made now. */
void arena_wipe(struct arena *a);

/* The most that may be taken: RAM / 16, but at least 12 MiB and at most 512 MiB. */
size_t arena_limit(void);

#endif
