/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Block devices as /sys and /dev show them; what area.c, mounts.c and
 * fingerprint.c share.  Where a root is an argument, tests give a false one.
 */
#ifndef DORMOUSE_SYSTEM_DEVICE_H
#define DORMOUSE_SYSTEM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEVICE_NAME = 64, DEVICE_PATH = 256 };

struct block_device {
	char name[DEVICE_NAME];	   /* in /sys: "sda2", "dm-0", "cciss!c0d0" */
	char devname[DEVICE_NAME]; /* below /dev */
	unsigned major, minor;
	uint64_t size; /* bytes */
	bool divided;  /* has partitions */
	bool held;     /* something is stacked on it */
};

/*
 * Calls @visit for each device of @sys_block ("/sys/class/block") that can hold a file system or swap: no floppy,
 * optical drive or RAM disk, and none without a medium.  Ends early when @visit returns true.
 */
void block_devices_each(const char *sys_block, bool (*visit)(void *ctx, const struct block_device *d), void *ctx);

/* A node for the device number below /dev, by its name in /sys, else by looking through /dev. */
bool device_node(dev_t device, char path[DEVICE_PATH]);

/* The first line of @dir/@file without its end.  False, and "" in @out, when there is none or it does not fit. */
bool read_line_at(const char *dir, const char *file, char *out, size_t size);

/* The value of "@key=..." in a uevent file.  False when absent. */
bool uevent_value(const char *dir, const char *key, char *out, size_t size);

/*
 * Calls @visit with the directory in /sys of @device, of the disk it is a partition of, and of all it is stacked on,
 * until one returns true; whether one did.  @sys_dev: "/sys/dev/block".
 */
bool stack_each(const char *sys_dev, dev_t device, bool (*visit)(void *ctx, const char *real), void *ctx);

/*
 * Why a device of @device's stack hangs or vanishes while tasks are frozen, or NULL.  @name gets that device's name.
 * @sys_dev: "/sys/dev/block".
 */
const char *stack_objection(const char *sys_dev, dev_t device, char name[DEVICE_NAME]);

/* Kernel tables write blanks and the like as \040; decodes in place. */
void unescape_octal(char *s);

/* A memory-backed, loop or network block device by its name in /sys, which is no place for an image, or NULL. */
const char *device_objection(const char *name);

#endif
