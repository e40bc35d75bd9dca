/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What s2disk's own sources share: the one save that it makes, and how it is told. */
#ifndef DORMOUSE_TOOLS_S2DISK_H
#define DORMOUSE_TOOLS_S2DISK_H

#include "base/arena.h"
#include "system/area.h"
#include "system/fingerprint.h"
#include "system/hibernate.h"
#include "system/machine.h"
#include "tools/check.h"
#include "tools/config.h"
#include "tools/progress.h"
#include "tools/recipient.h"
#include "tools/tool.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Everything a save needs; static, so that it is in memory and locked like the rest. */
struct s2disk {
	struct config conf;
	struct area area;
	struct target target;
	struct mark mark;
	struct snapshot snapshot;
	struct save_options save;
	struct recipient recipient;
	struct seal seal;
	struct arena arena;
	struct fs_list *mounted;
	struct fingerprint fingerprint[FINGERPRINTS_MAX];
	struct image image;
	struct hibernate h;
	uint8_t *fingerprint_scratch;
	sigset_t signals;
	struct loglevel loglevel;
	int kmsg;		/* where a failed freeze names its task, -1 = not to be had */
	bool swapped_on;	/* by us */
	bool to_ram;		/* called s2both */
	const char *measure;	/* compressors to try instead of hibernating, NULL = hibernate */
	uint64_t began, imaged; /* ns */
	char mem_sleep[MEM_SLEEP_TEXT];
	struct progress progress;
	bool check, json, force, print_target;
	struct checker checker;
};
extern struct s2disk job;

/* A struct hibernate_event's teller, while tasks are frozen: neither allocates nor opens anything. */
void report_event(void *ctx, enum hibernate_event e, uint64_t a, uint64_t b);

/* Tells how a save and its load went, and keeps it for the next --check. */
void report_result(void);

/* Tells that there is no image, why, and what helps. */
void report_failure(int code);

/* One line of --measure's table. */
void report_measured(const char *compressor);

#endif
