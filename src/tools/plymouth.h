/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The boot's splash screen, when plymouthd shows one: told through its own
 * client, started without a shell, seldom, and never waited for while loading.
 * Only before FREEZE.
 */
#ifndef DORMOUSE_TOOLS_PLYMOUTH_H
#define DORMOUSE_TOOLS_PLYMOUTH_H

#include <stdbool.h>
#include <sys/types.h>

struct plymouth {
	const char *client; /* NULL: nobody to tell */
	pid_t running;	    /* the last client, 0 when it was seen to end */
	unsigned told;	    /* per cent */
};

/* Asks once, for at most a second, whether plymouthd answers. */
void plymouth_open(struct plymouth *p);
/* The bar's line at @cent per cent; dropped while the last one is still being told or nothing moved. */
void plymouth_show(struct plymouth *p, unsigned cent, const char *text);
/* The last words; waits at most a second for whoever tells them. */
void plymouth_close(struct plymouth *p, const char *text);

#endif
