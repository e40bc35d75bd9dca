/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the checks share: findings, files below the root, and the checks themselves for the table. */
#ifndef DORMOUSE_SYSTEM_CHECK_PARTS_H
#define DORMOUSE_SYSTEM_CHECK_PARTS_H

#include "system/check.h"

#include <limits.h>
#include <time.h>

/* Findings.  The worst counts: an "ok" after a warning changes nothing. */
void found_ok(struct finding *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void found_warning(struct finding *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void found_fail(struct finding *out, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void found_cure(struct finding *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Files below the root. */

/* "@root@path"; false, and "" in @out, when it does not fit. */
bool root_path(const struct check_facts *f, char out[PATH_MAX], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool root_has(const struct check_facts *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text of a small file without its last newline, cut at @size; its length, -1 when it cannot be read. */
int root_text(const struct check_facts *f, char *out, int size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A whole number in a small file. */
bool root_number(const struct check_facts *f, uint64_t *out, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Active swap areas; how many. */
unsigned root_swaps(const struct check_facts *f, struct swap_line out[SWAPS_MAX]);
/* Whether a resume device is the path of a plain file. */
bool names_file(const char *spec);
/* The running kernel's configuration: 1 = "@key=y", 0 = "@key is not set", -1 = not mentioned or not to be found. */
int kernel_config(const struct check_facts *f, const char *key);
/* "KEY:  NUMBER kB" of /proc/meminfo in bytes, 0 when it is not there. */
uint64_t meminfo(const struct check_facts *f, const char *key);

/* Programs. */

/*
 * Starts @argv[0], a path, with @in (or -1: nothing) as its input; its output can be read from the descriptor that
 * is returned.  -1 with errno when it cannot be started.
 */
int program_start(char *const argv[], int in, pid_t *child);
/* Collects @child, which has closed its output; ends it @at_once, or when it goes on.  True when it ended with 0. */
bool program_end(pid_t child, bool at_once);
/* Looks for @name in the usual folders below @root. */
bool program_find(const char *root, const char *name, char out[PATH_MAX]);
/* Waits until @fd can be read or @end (CLOCK_MONOTONIC, ns) has come; false then. */
bool wait_readable(int fd, uint64_t end);

/* The next boot. */

enum { BOOT_INITRDS = 4, BOOT_OPTIONS = 2048 };

struct boot_entry {
	char source[AREA_PATH]; /* the boot loader's file without the root; "" when only guessed from the release */
	char kernel[AREA_PATH]; /* without the root; "" when unknown */
	char initrd[BOOT_INITRDS][AREA_PATH];
	unsigned initrds;
	char options[BOOT_OPTIONS]; /* of the kernel */
};

/* The entry that the boot loader takes next, or the initramfs named after the release.  False when nothing is found. */
bool boot_entry_find(const struct check_facts *f, struct boot_entry *e);
/* "default=..." and the like in GRUB's environment block @text; false when it is not there. */
bool grubenv_value(const char *text, const char *key, char *out, size_t size);
/* The entry of GRUB's menu @text that @wanted names: a place ("1>0"), a title or an id; false when there is none. */
bool grub_entry(char *text, const char *wanted, struct boot_entry *e);
/* The release inside a kernel image (x86), else what follows the first dash of its name; false when neither tells. */
bool kernel_release(const char *path, char *out, size_t size);

/* The initramfs. */

struct archive_file {
	const char *name; /* "usr/bin/x", no slash in front */
	uint32_t mode;
	uint64_t size;
	const uint8_t *data; /* all of it, or the target of a link */
};

/*
 * Reads a cpio archive, or several in one file, the last of them compressed.  @wants tells by name and size which
 * files are given to @visit; the others are skipped.  E_OK; E_UNSUPPORTED: no such archive, or its compressor is not
 * installed; E_CORRUPT: it ends too early; E_IO.
 */
struct archive_reader {
	bool (*wants)(void *ctx, const struct archive_file *a);
	void (*visit)(void *ctx, const struct archive_file *a);
	void *ctx;
	const char *root; /* of the folders with programs */
	uint64_t end;	  /* CLOCK_MONOTONIC, ns: E_IO when it has come */
};
int archive_read(const struct archive_reader *r, const char *path);

/* Calls @visit for each library that a 64-bit ELF program asks for.  False: it is no such program, or damaged. */
bool elf_needed(const uint8_t *data, size_t size, void (*visit)(void *ctx, const char *library), void *ctx);

/* The table's. */
void check_snapshot(const struct check_facts *f, struct finding *out);
void check_pm_test(const struct check_facts *f, struct finding *out);
void check_kernel(const struct check_facts *f, struct finding *out);
void check_watchdog(const struct check_facts *f, struct finding *out);
void check_gpu(const struct check_facts *f, struct finding *out);
void check_mounted_writes(const struct check_facts *f, struct finding *out);
void check_to_ram(const struct check_facts *f, struct finding *out);
void check_target(const struct check_facts *f, struct finding *out);
void check_stack(const struct check_facts *f, struct finding *out);
void check_random_key(const struct check_facts *f, struct finding *out);
void check_space(const struct check_facts *f, struct finding *out);
void check_zram(const struct check_facts *f, struct finding *out);
void check_zswap(const struct check_facts *f, struct finding *out);
void check_initramfs(const struct check_facts *f, struct finding *out);
void check_resume_line(const struct check_facts *f, struct finding *out);
void check_network(const struct check_facts *f, struct finding *out);
void check_systemd(const struct check_facts *f, struct finding *out);
void check_sealing(const struct check_facts *f, struct finding *out);
void check_guess(const struct check_facts *f, struct finding *out);

#endif
