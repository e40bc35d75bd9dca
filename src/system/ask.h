/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asking a person, always while tasks run: for a passphrase, or which of a few
 * things to do.  By the first way that there is: a terminal, plymouth, or
 * systemd's password agents.  A way that breaks down gives its place to the
 * next one.
 *
 * Answers lie in one locked page that is in no core dump.  A terminal's echo is
 * off while it is read, and its settings are put back whatever happens but
 * SIGKILL: signals wait until then.
 */
#ifndef DORMOUSE_SYSTEM_ASK_H
#define DORMOUSE_SYSTEM_ASK_H

#include <poll.h>
#include <stddef.h>

enum { ASK_MAX = 1024 /* bytes of an answer */, ASK_SAVE_MS = 90000, ASK_TRIES = 3 };

enum ask_way { ASK_NOBODY, ASK_TERMINAL, ASK_PLYMOUTH, ASK_AGENT, ASK_WAYS };

/* Where to look.  Every list ends with NULL, the order with ASK_NOBODY. */
struct ask_places {
	enum ask_way order[ASK_WAYS];
	const char *terminals[4]; /* the first that is a terminal where this process is not in the background */
	const char *plymouth[3];  /* its client */
	const char *agent[3];	  /* systemd-ask-password */
	const char *agent_folder; /* where agents watch for questions: absent when there are none */
	int patience;		  /* plymouth and agents do not tell of keys: they get so many times idle_ms, in all */
};

extern const struct ask_places ask_at_boot, ask_at_save;

struct ask {
	const struct ask_places *places;
	unsigned next; /* in the order */
	enum ask_way way;
	const char *program; /* plymouth or the agent */
	int fd;		     /* the terminal */
	int idle_ms;
	char *answer;						    /* zero-terminated; it may hold any byte but zero */
	size_t length;						    /* bytes of it */
	int (*wait)(void *ctx, struct pollfd *f, nfds_t n, int ms); /* poll(2); ask_open() sets it */
	void *ctx;
};

/*
 * Finds a way.  @idle_ms: a question ends when no key was pressed for so long.
 * E_OK; E_NOASK; E_MEMORY.  ask_close() is due after each.
 */
int ask_open(struct ask *a, const struct ask_places *places, int idle_ms);

/* Wipes the answers too. */
void ask_close(struct ask *a);

/* "on the terminal", "by plymouth", ... for messages. */
const char *ask_way_name(const struct ask *a);

/*
 * Each of these: E_OK; E_NOANSWER when nobody answered in time; E_ABORTED by
 * Control-C, by Control-D on an empty line or by a signal, which stays pending;
 * E_NOASK when no way is left.
 */

/* One answer, kept in a->answer; an empty one counts. */
int ask_secret(struct ask *a, const char *prompt);

/* A new passphrase, asked twice until both agree and it is not empty, ASK_TRIES times; else E_ABORTED. */
int ask_new_secret(struct ask *a, const char *prompt, const char *again);

/* One of the letters in @keys, in lower case; no other key ends the question. */
int ask_choice(struct ask *a, const char *prompt, const char *keys, char *out);

/* Wipes the answers. */
void ask_forget(struct ask *a);

#endif
