/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is hashed of each type of file system.  Nothing here knows what it reads
 * from: tests give files, memory and faults.
 */
#ifndef DORMOUSE_SYSTEM_FINGERPRINT_FS_H
#define DORMOUSE_SYSTEM_FINGERPRINT_FS_H

#include "image/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Halves of the scratch memory: what was read last, and what is to be hashed.  The first holds the largest piece
 * (64 KiB) with a unit at each end.
 */
enum { FS_UNIT = 4096, FS_WINDOW = 128 << 10, FS_GATHER = 128 << 10, FS_PIECE = 64 << 10 };

struct fs_reader {
	/* Reads @len bytes at @at, both multiples of FS_UNIT, only up to the size in the last unit.  E_OK or E_IO. */
	int (*read)(const struct fs_reader *r, void *buf, size_t len, uint64_t at);
	const void *ctx; /* for read */
	uint64_t size;	 /* bytes that there are */
	uint8_t *window, *gathered;
	size_t gathered_len;
};

/*
 * @len bytes at @at, at most FS_PIECE, anywhere; valid until the next call.  E_OK; E_NOIMAGE when they do not lie
 * within the size: what a wrong guess of the type asks for is never read.
 */
int fs_read(struct fs_reader *r, uint64_t at, size_t len, const uint8_t **out);

/* Appends bytes for the hash; E_NOIMAGE when they do not lie within the size, E_INTERNAL when FS_GATHER is full. */
int fs_gather(struct fs_reader *r, uint64_t at, size_t len);

/* Sets type, uuid, hash and flags as fingerprint_take() does. */
int fs_fingerprint(struct fs_reader *r, const char *want, struct fingerprint *out);

/* XFS: superblock and the log round its head.  E_NOIMAGE when it is no XFS. */
int fs_gather_xfs(struct fs_reader *r, id128 *uuid);

/* Block of the log, of @blocks with 512 bytes at @start, where the oldest cycle begins; @blocks when all are of one. */
int xfs_log_head(struct fs_reader *r, uint64_t start, uint32_t blocks, uint32_t *head);

#endif
