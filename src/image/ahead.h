/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading ahead: the first part of an image's stream is read into memory while
 * its passphrase is typed, and the load finds it there.  What is read is not
 * trusted here and not looked at: the load checks it as it does the disk's.
 */
#ifndef DORMOUSE_IMAGE_AHEAD_H
#define DORMOUSE_IMAGE_AHEAD_H

#include "image/image.h"

struct ahead;

/*
 * Begins in a thread of its own, up to @budget bytes; @im's trailer was read.
 * Nobody else may use im->disk until ahead_stop().  NULL when it cannot or when
 * there is too little memory to be worth it: the load is slower then, no more.
 */
struct ahead *ahead_start(const struct image *im, uint64_t budget);

/* Ends the thread, which takes no longer than one request. */
void ahead_stop(struct ahead *a);

/* After ahead_stop(): the image's disk, with what was read ahead in front of it. */
struct disk *ahead_disk(struct ahead *a);

/* How much was read, at any time. */
uint64_t ahead_bytes(const struct ahead *a);

/* Gives the memory back, unless the disk is stuck and still owes reads to it; NULL is fine. */
void ahead_close(struct ahead *a);

#endif
