/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tools/plymouth.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Bars move by this many per cent, so that a load starts few processes. */
enum { STEP = 4, WAIT_MS = 1000, LOOK_MS = 10 };

static pid_t start(const char *client, const char *command, char *option)
{
	static char *const nothing[] = {NULL};
	char *argv[] = {(char *)client, (char *)command, option, NULL};
	pid_t pid = 0;

	return posix_spawn(&pid, client, NULL, NULL, argv, nothing) ? 0 : pid;
}

/* -1: it still runs; else its exit code, 255 when it was killed. */
static int ended(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WNOHANG) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int wait_for(pid_t pid)
{
	struct timespec t = {0, LOOK_MS * 1000000L};
	int code = ended(pid);

	for (int i = 0; code < 0 && i < WAIT_MS / LOOK_MS; i++) {
		nanosleep(&t, NULL);
		code = ended(pid);
	}
	if (code < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return code;
}

void plymouth_open(struct plymouth *p)
{
	static const char *const clients[] = {"/bin/plymouth", "/usr/bin/plymouth"};

	memset(p, 0, sizeof *p);
	for (size_t i = 0; i < sizeof clients / sizeof clients[0] && !p->client; i++)
		if (!access(clients[i], X_OK))
			p->client = clients[i];
	if (!p->client)
		return;
	pid_t pid = start(p->client, "--ping", NULL);
	if (!pid || wait_for(pid))
		p->client = NULL;
}

static bool idle(struct plymouth *p)
{
	if (p->running && ended(p->running) < 0)
		return false;
	p->running = 0;
	return true;
}

static void tell(struct plymouth *p, const char *command, const char *option, const char *value)
{
	char argument[256];

	snprintf(argument, sizeof argument, "--%s=%s", option, value);
	p->running = start(p->client, command, argument);
}

void plymouth_show(struct plymouth *p, unsigned cent, const char *text)
{
	char number[16];

	if (!p->client || cent < p->told + STEP || !idle(p))
		return;
	p->told = cent;
	/* In turn: the bar of those themes that have one, and the words for the others. */
	snprintf(number, sizeof number, "%u", cent);
	if (cent / STEP % 2)
		tell(p, "system-update", "progress", number);
	else
		tell(p, "display-message", "text", text);
}

void plymouth_close(struct plymouth *p, const char *text)
{
	if (!p->client)
		return;
	if (p->running)
		wait_for(p->running);
	tell(p, "display-message", "text", text);
	if (p->running)
		wait_for(p->running);
	memset(p, 0, sizeof *p);
}
