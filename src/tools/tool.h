/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the commands share: starting up, options, opening a target. */
#ifndef DORMOUSE_TOOLS_TOOL_H
#define DORMOUSE_TOOLS_TOOL_H

#include "base/disk.h"
#include "image/codec.h"
#include "tools/config.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes sure that descriptors 0 to 2 exist (a device opened as 2 would get our
 * messages), ignores SIGPIPE, names the tool in messages.
 */
void tool_start(const char *name);

/* Prints "NAME VERSION" with the codecs built in; E_OK. */
int tool_version(const char *name);

/* Prints the configuration's notes. */
void tool_notes(const struct config *c);

/* Threads to use: as configured, else every core the process may run on. */
unsigned tool_threads(const struct config *c);

/* The codec and level as configured; E_CONF when it was not built in. */
int tool_codec(const struct config *c, const struct codec **codec, int *level);

/* A whole decimal number; false for anything else. */
bool tool_number(const char *text, uint64_t *out);

/* A descriptor that is open, from its number; E_USAGE. */
int tool_descriptor(const char *text, int *fd);

/* Prints @s to stdout as a JSON string. */
void tool_json_string(const char *s);

/* How much the kernel writes to the console, for the time of a save or load. */
struct loglevel {
	char before[64]; /* of /proc/sys/kernel/printk; "" when it was not read */
	bool changed;
};

/* Notes what it is, and sets it to @level unless that is below 0. */
void loglevel_set(struct loglevel *l, int level);

/* Sets it to @level, or back to what was noted when that is below 0; nothing before loglevel_set(). */
void loglevel_reset(struct loglevel *l, int level);

/* A device or file to read or write images on. */
struct target {
	struct disk_file file;
	const char *path;
	int fd;
	bool block; /* a block device, not a plain file */
};

enum { TARGET_CONTENT = 32 };

/*
 * What libblkid sees on @path: a file system's or other type, "a partition
 * table", "more than one kind of data", or "" when nothing known is there.
 */
int target_content(const char *path, char type[TARGET_CONTENT]);

enum target_mode {
	TARGET_LOOK,  /* read only */
	TARGET_CLAIM, /* read and write, O_EXCL on a device: nobody else uses it */
	TARGET_SAVE,  /* read and write beside the swap that holds it */
};

/*
 * Opens @path past the page cache.  A block device that refuses O_DIRECT, or
 * whose sectors are larger than 4096 bytes, is E_DEVICE with the cure; a plain
 * file falls back to the page cache.  E_BUSY when it is claimed.
 */
int target_open(struct target *t, const char *path, enum target_mode mode);
void target_close(struct target *t);

/*
 * Closes @t; but when its disk is stuck, ends the process with @code.  What the
 * disk still owes may arrive in this process's memory, and on pages that
 * /dev/snapshot holds, so both are kept until then by a process that nobody
 * waits for.
 */
void target_leave(struct target *t, int code);

#endif
