/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one clock of this program: CLOCK_MONOTONIC in nanoseconds. */
#ifndef DORMOUSE_BASE_CLOCK_H
#define DORMOUSE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SECOND 1000000000ull

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
