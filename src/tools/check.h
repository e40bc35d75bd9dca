/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `s2disk --check', and the checks that s2disk makes before it freezes anything. */
#ifndef DORMOUSE_TOOLS_CHECK_H
#define DORMOUSE_TOOLS_CHECK_H

#include "system/check.h"
#include "tools/config.h"

struct checker {
	struct check_facts facts;
	char release[65], area_text[512];
	char conf_file[CONFIG_PATH], conf_device[CONFIG_PATH];
};

/* What the initramfs' copy of the configuration says too: call it before options override @c. */
void checker_file(struct checker *k, const struct config *c);

/* How the image will be made; @image_size as for check_facts. */
void checker_plan(struct checker *k, const struct config *c, uint64_t image_size, bool both);

/* The target, or NULL, and the code of finding and opening it; takes over the fault that was noted. */
void checker_target(struct checker *k, const struct area *a, int code);

/* The fatal checks: prints what fails, returns the first one's code.  With @force only those count that must. */
int checker_before(const struct checker *k, bool force);

/* All of them, as lines or as JSON.  The code of the first that fails. */
int checker_show(struct checker *k, bool json);

#endif
