/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Will this machine come back?  A table of checks, each of which looks at one thing that decides it, and says what it
 * found and what to do about it.
 *
 * All of it runs before FREEZE.  Every file is read below @root, so that tests give a false one; what no file tells
 * (the target, what opening the snapshot device gave) the caller puts in.
 */
#ifndef DORMOUSE_SYSTEM_CHECK_H
#define DORMOUSE_SYSTEM_CHECK_H

#include "system/area.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct check_facts {
	const char *root;	     /* "" on a real machine */
	const char *release;	     /* of the kernel that runs */
	const char *snapshot_device; /* "/dev/snapshot" */
	int snapshot_errno;	     /* of opening it; 0: it opens, or was not tried */
	const struct area *area;     /* NULL when there is none */
	int area_code;		     /* of finding and opening it, and why that failed: "what; cure" */
	const char *area_text;
	uint32_t page_size;
	uint64_t image_size;	 /* as configured, bytes; UINT64_MAX: the kernel's */
	bool compress;		 /* the image is written compressed */
	const char *conf_file;	 /* configuration read, "" when there is none */
	const char *conf_device; /* `resume device' in that file, "" when not set */
	uint64_t conf_offset;	 /* `resume offset' in that file, pages */
	const char *program;	 /* where the installed resume lies */
	bool both;		 /* suspends to RAM besides */
	int seal_code;		 /* E_OK, or why images cannot be sealed as configured */
	const char *seal_text;	 /* how they are, or what is wrong; NULL: nobody has looked */
	/* A device's number from a name as resume= has it: E_OK or a code. */
	int (*resolve)(const char *spec, dev_t *device);
};

enum check_level { CHECK_OK, CHECK_WARNING, CHECK_FAIL };

struct finding {
	enum check_level level;
	int code;	/* of a fail: the exit code that goes with it */
	char text[512]; /* what was found */
	char cure[256]; /* what to do about it; "" where nothing needs to be done */
};

struct check {
	const char *name; /* for scripts: never changes */
	void (*look)(const struct check_facts *f, struct finding *out);
	bool fatal; /* its failure keeps s2disk from freezing anything */
	bool force; /* unless --force is given */
};

extern const struct check checks[];
extern const unsigned check_count;

/* Runs one check. */
void check_run(const struct check *c, const struct check_facts *f, struct finding *out);

/* What the next image will take, as far as it can be told. */
struct estimate {
	uint64_t raw;	 /* bytes of the image, 0 = unknown */
	uint64_t stored; /* bytes on disk; @raw when no earlier image tells the ratio */
	bool ratio_known;
	double seconds; /* to save it; 0 when no earlier image tells the rate */
};
void check_estimate(const struct check_facts *f, struct estimate *e);

/* What the last image took: kept below @root in /var/lib/dormouse/last-image. */
struct past_image {
	uint64_t raw, stored;	   /* bytes */
	uint64_t save_ns, load_ns; /* load_ns 0: unknown */
};
/* False when none is known, or what is there makes no sense. */
bool past_read(const char *root, struct past_image *p);
/* Best effort: an estimate is not worth a failure. */
void past_write(const char *root, const struct past_image *p);

#endif
