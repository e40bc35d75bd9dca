/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/ask-ways.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The page: the answer, and the one that it is compared with. */
enum { ROOM = 4096, FIRST_AT = 2048, PROMPT_MAX = 512 };

#define PROGRAMS                                                                                                       \
	.plymouth = {"/usr/bin/plymouth", "/bin/plymouth"},                                                            \
	.agent = {"/usr/bin/systemd-ask-password", "/bin/systemd-ask-password"},                                       \
	.agent_folder = "/run/systemd/ask-password"

/* Where plymouth draws, a terminal's prompt is not seen; where agents watch, they read the console. */
const struct ask_places ask_at_boot = {
	.order = {ASK_PLYMOUTH, ASK_AGENT, ASK_TERMINAL},
	.terminals = {"/dev/tty", "/proc/self/fd/0", "/dev/console"},
	.patience = 3,
	PROGRAMS,
};

/* Whoever started the program at a terminal sits there. */
const struct ask_places ask_at_save = {
	.order = {ASK_TERMINAL, ASK_PLYMOUTH, ASK_AGENT},
	.terminals = {"/dev/tty", "/proc/self/fd/0"},
	.patience = 1,
	PROGRAMS,
};

/* ---- signals ---- */

int ask_signals_hold(struct ask_signals *s)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGHUP);
	sigaddset(&stop, SIGQUIT);
	s->fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0)
		return fault(E_INTERNAL, errno, "signals cannot be watched");
	sigaddset(&stop, SIGTSTP);
	sigaddset(&stop, SIGTTIN);
	sigaddset(&stop, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stop, &s->before);
	return E_OK;
}

void ask_signals_release(struct ask_signals *s)
{
	close(s->fd);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
}

/* ---- ways ---- */

static int wait_poll(void *ctx, struct pollfd *f, nfds_t n, int ms)
{
	(void)ctx;
	return poll(f, n, ms);
}

static bool has_way(struct ask *a, enum ask_way way)
{
	switch (way) {
	case ASK_TERMINAL:
		a->fd = ask_terminal_open(a->places->terminals);
		return a->fd >= 0;
	case ASK_PLYMOUTH:
		a->program = ask_program_find(a->places->plymouth);
		return a->program && ask_plymouth_runs(a, a->program);
	case ASK_AGENT:
		a->program = ask_program_find(a->places->agent);
		return a->program && !access(a->places->agent_folder, F_OK);
	default:
		return false;
	}
}

static void leave_way(struct ask *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	a->program = NULL;
	a->way = ASK_NOBODY;
}

/* When there is none, what the last one said when it broke down stays noted. */
static int next_way(struct ask *a)
{
	leave_way(a);
	while (a->next < ASK_WAYS && a->places->order[a->next] != ASK_NOBODY) {
		enum ask_way way = a->places->order[a->next++];
		if (!has_way(a, way))
			continue;
		fault_clear();
		a->way = way;
		return E_OK;
	}
	return fault(E_NOASK, 0, "no terminal, no plymouth and no password agent");
}

int ask_open(struct ask *a, const struct ask_places *places, int idle_ms)
{
	memset(a, 0, sizeof *a);
	a->places = places;
	a->fd = -1;
	a->idle_ms = idle_ms;
	a->wait = wait_poll;
	char *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return fault(E_MEMORY, errno, "no memory for a passphrase");
	a->answer = room;
	if (mlock(room, ROOM))
		return fault(E_MEMORY, errno, "the memory for a passphrase cannot be locked");
	madvise(room, ROOM, MADV_DONTDUMP);
	return next_way(a);
}

void ask_close(struct ask *a)
{
	if (!a->answer)
		return;
	leave_way(a);
	ask_forget(a);
	munmap(a->answer, ROOM);
	a->answer = NULL;
}

void ask_forget(struct ask *a)
{
	explicit_bzero(a->answer, ROOM);
	a->length = 0;
}

const char *ask_way_name(const struct ask *a)
{
	static const char *const names[] = {
		[ASK_NOBODY] = "not at all",
		[ASK_TERMINAL] = "on the terminal",
		[ASK_PLYMOUTH] = "by plymouth",
		[ASK_AGENT] = "by systemd's password agents",
	};

	return names[a->way];
}

/* ---- questions ---- */

static int ask_line(struct ask *a, const char *prompt, bool shown)
{
	return a->way == ASK_TERMINAL ? ask_terminal_line(a, prompt) : ask_program_line(a, prompt, shown);
}

int ask_secret(struct ask *a, const char *prompt)
{
	int r = E_NOASK;

	while (a->way != ASK_NOBODY && (r = ask_line(a, prompt, false)) == E_NOASK)
		next_way(a);
	if (r == E_OK)
		return r;
	ask_forget(a);
	return r == E_NOASK ? fault(r, 0, "no way to ask") : r;
}

/* In the same time whatever differs. */
static bool same_answer(const struct ask *a, size_t first_length)
{
	unsigned char differ = a->length != first_length;

	for (size_t i = 0; i < ASK_MAX; i++)
		differ |= (unsigned char)(a->answer[i] ^ a->answer[FIRST_AT + i]);
	return !differ;
}

/* Keeps the answer aside for the comparison. */
static size_t put_aside(struct ask *a)
{
	size_t length = a->length;

	memcpy(a->answer + FIRST_AT, a->answer, ASK_MAX);
	explicit_bzero(a->answer, ASK_MAX);
	a->length = 0;
	return length;
}

int ask_new_secret(struct ask *a, const char *prompt, const char *again)
{
	const char *before = "";
	char text[PROMPT_MAX];

	for (int i = 0; i < ASK_TRIES; i++) {
		snprintf(text, sizeof text, "%s%s", before, prompt);
		int r = ask_secret(a, text);
		if (r == E_OK && !a->length) {
			before = "An empty passphrase protects nothing. ";
			continue;
		}
		size_t first = put_aside(a);
		if (r == E_OK)
			r = ask_secret(a, again);
		if (r != E_OK)
			return r;
		if (same_answer(a, first)) {
			explicit_bzero(a->answer + FIRST_AT, ASK_MAX);
			return E_OK;
		}
		ask_forget(a);
		before = "They were not the same. ";
	}
	return fault(E_ABORTED, 0, "no passphrase was given twice alike in %d tries", ASK_TRIES);
}

/* A whole line where no single key can be had; its first letter counts, anything else is asked again. */
static int choose_by_line(struct ask *a, const char *prompt, const char *keys, char *out)
{
	int r = E_OK;

	for (int i = 0; r == E_OK && i < ASK_TRIES; i++) {
		r = ask_line(a, prompt, true);
		*out = (char)(r == E_OK ? tolower((unsigned char)a->answer[0]) : 0);
		ask_forget(a);
		if (*out && strchr(keys, *out))
			return E_OK;
	}
	return r == E_OK ? fault(E_NOANSWER, 0, "none of the choices was taken") : r;
}

int ask_choice(struct ask *a, const char *prompt, const char *keys, char *out)
{
	int r = E_NOASK;

	while (a->way != ASK_NOBODY && r == E_NOASK) {
		r = a->way == ASK_TERMINAL ? ask_terminal_key(a, prompt, keys, out)
					   : choose_by_line(a, prompt, keys, out);
		if (r == E_NOASK)
			next_way(a);
	}
	return r == E_NOASK ? fault(r, 0, "no way to ask") : r;
}
