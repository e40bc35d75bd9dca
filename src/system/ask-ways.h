/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ways of asking, for ask.c.  Each returns what ask_secret() does; E_NOASK when it broke down. */
#ifndef DORMOUSE_SYSTEM_ASK_WAYS_H
#define DORMOUSE_SYSTEM_ASK_WAYS_H

#include "system/ask.h"

#include <signal.h>
#include <stdbool.h>

/* The signals that end a question: held back while one is asked, and to be polled for. */
struct ask_signals {
	int fd; /* readable while one is pending; it is left pending */
	sigset_t before;
};
int ask_signals_hold(struct ask_signals *s);
void ask_signals_release(struct ask_signals *s);

/* The first of @paths that is a terminal and may be read now, or -1. */
int ask_terminal_open(const char *const *paths);
/* A line into a->answer. */
int ask_terminal_line(struct ask *a, const char *prompt);
/* One key of @keys. */
int ask_terminal_key(struct ask *a, const char *prompt, const char *keys, char *out);

/* The first of @paths that may be run, or NULL. */
const char *ask_program_find(const char *const *paths);
/* Does plymouth's daemon answer? */
bool ask_plymouth_runs(struct ask *a, const char *program);
/* Asks by a->program into a->answer; @shown: the answer is no secret. */
int ask_program_line(struct ask *a, const char *prompt, bool shown);

#endif
