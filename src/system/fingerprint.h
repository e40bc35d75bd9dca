/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fingerprints of mounted file systems: what on their disks changes with any mount that writes.
 * (doc/image-format.md, section 2, has what is hashed for each type.)
 */
#ifndef DORMOUSE_SYSTEM_FINGERPRINT_H
#define DORMOUSE_SYSTEM_FINGERPRINT_H

#include "image/format.h"

#include <stdbool.h>
#include <stdint.h>

enum { FINGERPRINT_SCRATCH = 256 << 10 };

/*
 * Identifies the file system on @fd (open O_RDONLY | O_DIRECT, or without O_DIRECT on a plain file) and hashes it.
 * Sets type, uuid, hash and flags.  @want: hash as this type ("ext4", "xfs", "btrfs", "f2fs", "vfat", or any other
 * name = the first 64 KiB with UUID zero), or NULL to find the type out.  @scratch: FINGERPRINT_SCRATCH bytes aligned
 * to 4096.  E_OK; E_NOIMAGE when @want is a known type and not there; E_IO.  Allocates nothing; may run while frozen.
 */
int fingerprint_take(int fd, const char *want, void *scratch, struct fingerprint *out);

/* The mounted file systems on block devices, their devices held open. */
struct fs_list;

/* Before FREEZE.  @mountinfo "/proc/self/mountinfo".  Each device once; for btrfs and the like every device that /sys
 * names.  E_OK or a code; *out NULL on failure. */
int fs_list_open(const char *mountinfo, struct fs_list **out);
unsigned fs_list_count(const struct fs_list *l);
/* While frozen: one fingerprint each, at most fs_list_count().  A device that cannot be read: E_IO. */
int fs_list_take(struct fs_list *l, void *scratch, struct fingerprint *out);
void fs_list_close(struct fs_list *l);

/*
 * At resume: looks each of @n file systems up among the block devices of /sys/class/block (@sys_block, and /dev nodes
 * made by devtmpfs at @dev_dir) by type and UUID, the hinted device first, and compares.  A file system whose every
 * device found has another hash is stale: E_STALE with its name in fault_text().  Absent is no objection.  Those that
 * only warn are appended to @warning (cut to its size).  A wrong type hint never reads past a device's end.
 */
int fingerprints_compare(const struct fingerprint *want, unsigned n, const char *sys_block, const char *dev_dir,
			 char *warning, unsigned warning_size);

#endif
