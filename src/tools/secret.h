/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A passphrase for commands that run by hand or in scripts: from a descriptor, or asked for on the terminal. */
#ifndef DORMOUSE_TOOLS_SECRET_H
#define DORMOUSE_TOOLS_SECRET_H

#include "system/ask.h"

#include <stdbool.h>

struct secret {
	char *text; /* in locked memory where that is allowed; not terminated */
	size_t n;
	struct ask ask; /* when it was asked for */
	char *mapped;
};

/* Keeps this process out of core dumps and away from debuggers of the same user. */
void secret_guard(void);

/*
 * The next line from @fd, without its end, or, when @fd is negative, what a
 * person types; with @new twice alike.  At most ASK_MAX - 1 bytes.  E_OK;
 * E_USAGE: the descriptor gives none; E_NOASK; E_ABORTED.  secret_drop() is due
 * after each and wipes it.
 */
int secret_get(struct secret *s, int fd, const char *prompt, bool new);
void secret_drop(struct secret *s);

#endif
