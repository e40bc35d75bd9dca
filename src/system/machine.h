/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which machine, kernel and installation this is. */
#ifndef DORMOUSE_SYSTEM_MACHINE_H
#define DORMOUSE_SYSTEM_MACHINE_H

#include "image/format.h"

#include <stdbool.h>
#include <stdint.h>

/* Sets release, machine, page_size, memory_map and installation. */
void machine_describe(struct header *h);

/*
 * The installation: /etc/dormouse.id (32 hex digits, as an initramfs hook stores
 * it), else /etc/machine-id where this is no initramfs; zeros when unknown.
 */
id128 machine_installation(void);

/* The image's kernel and machine against these: E_OK or E_OTHERKERNEL naming both. */
int machine_matches(const struct header *image, const struct header *here);

/* Of another installation than @here, as far as both are known. */
bool machine_foreign(id128 image, id128 here);

/* What the kernel command line says about resuming. */
struct boot_line {
	char resume[256]; /* "" when not given */
	bool resume_offset_set;
	uint64_t resume_offset; /* pages */
	unsigned delay;		/* seconds */
	bool noresume;		/* noresume, nohibernate, hibernate=no, hibernate=noresume */
};

/* A value that is empty or no number is E_CONF, never a default. */
int boot_line_parse(const char *line, struct boot_line *b);
/* The same with what stands in @path ("/proc/cmdline"). */
int boot_line_read(const char *path, struct boot_line *b);

/* Reads a small file; its length, NUL-terminated, newline cut; -1 with errno. */
int file_read_text(const char *path, char *out, int size);
/* Writes a small file that is there, in one write. */
bool file_write_text(const char *path, const char *text);

/* True when the firmware offers S4 ("platform" in /sys/power/disk). */
bool machine_has_platform(void);

enum { MEM_SLEEP_TEXT = 32 };
/*
 * What @path (/sys/power/mem_sleep) offers: @now gets what is selected.  E_KERNEL
 * with the reason when memory cannot be kept alone ("deep").
 */
int machine_deep(const char *path, char now[MEM_SLEEP_TEXT]);

/* Does not return but when that fails: E_POWER. */
int machine_power_off(void);

/* /sys/power/image_size, or UINT64_MAX when it cannot be read. */
uint64_t machine_image_size(void);

#endif
