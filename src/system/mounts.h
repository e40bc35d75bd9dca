/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines of /proc/self/mountinfo. */
#ifndef DORMOUSE_SYSTEM_MOUNTS_H
#define DORMOUSE_SYSTEM_MOUNTS_H

#include <stdbool.h>

enum { MOUNT_TEXT = 256 };

/* Texts are unescaped, and cut when longer: the source of a block device never is. */
struct mount_line {
	unsigned major, minor; /* 0, n for file systems without a single block device, btrfs too */
	char point[MOUNT_TEXT], type[32], source[MOUNT_TEXT];
};

/* Takes one line apart, which it changes.  False when it is no mountinfo line. */
bool mount_parse(char *line, struct mount_line *out);

/* Is this file system on a block device (by its number, or by its source)? */
bool mount_on_block(const struct mount_line *m);

/*
 * Calls @visit for each line until it returns a code other than E_OK, which is returned.  E_INTERNAL with a fault
 * noted when @mountinfo cannot be read.
 */
int mounts_each(const char *mountinfo, int (*visit)(void *ctx, const struct mount_line *m), void *ctx);

#endif
