/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plymouth and systemd-ask-password: run without a shell, by absolute path,
 * with a fixed environment; the answer comes through a pipe.
 */
#include "system/ask-ways.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PING_MS = 5000, SLACK_MS = 5000, WAIT_STEP_NS = 10000000, WAIT_STEPS = 200 };

struct run {
	pid_t pid;
	int out; /* the pipe's end */
	uint64_t deadline;
};

const char *ask_program_find(const char *const *paths)
{
	for (; *paths; paths++)
		if (!access(*paths, X_OK))
			return *paths;
	return NULL;
}

/* No secret of ours is in the child: it shares our memory until it runs the program, and has none after. */
static int spawn(struct run *r, char *const argv[], int out)
{
	static char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_init(&how);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setsigdefault(&how, &all);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int e = posix_spawn(&r->pid, argv[0], &files, &how, argv, environment);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	return e ? fault(E_NOASK, e, "%s cannot be run", argv[0]) : E_OK;
}

static int start(struct run *r, char *const argv[], int ms)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return fault(E_INTERNAL, errno, "no pipe for an answer");
	r->out = ends[0];
	r->deadline = clock_ns() + (uint64_t)ms * 1000000;
	/* Whoever started us may have left it ignored, and there would be nothing to wait for. */
	signal(SIGCHLD, SIG_DFL);
	int code = spawn(r, argv, ends[1]);
	close(ends[1]);
	if (code != E_OK)
		close(ends[0]);
	return code;
}

/* Its exit code, 128 and the signal, or -1 when it had to be killed. */
static int finish(struct run *r)
{
	int status = 0;
	pid_t done = 0;

	close(r->out);
	for (int i = 0; i < WAIT_STEPS && (done = waitpid(r->pid, &status, WNOHANG)) == 0; i++)
		nanosleep(&(struct timespec){.tv_nsec = WAIT_STEP_NS}, NULL);
	if (done != r->pid) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, &status, 0);
		return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void stop(struct run *r)
{
	kill(r->pid, SIGTERM);
	finish(r);
}

/* Milliseconds left, at least 0. */
static int left(const struct run *r)
{
	uint64_t now = clock_ns();

	return now >= r->deadline ? 0 : (int)((r->deadline - now) / 1000000) + 1;
}

/* Reads to the end of its output; what does not fit is an error, not cut. */
static int read_output(struct ask *a, struct run *r, int signals)
{
	for (;;) {
		struct pollfd f[] = {{.fd = r->out, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
		int n = a->wait(a->ctx, f, 2, left(r));
		if (n == 0)
			return fault(E_NOANSWER, 0, "nobody answered %s", ask_way_name(a));
		if (n > 0 && f[1].revents)
			return fault(E_ABORTED, 0, "by a signal");
		ssize_t got = n < 0 ? n : read(r->out, a->answer + a->length, ASK_MAX - a->length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fault(E_NOASK, errno, "the answer cannot be read");
		if (got == 0)
			return E_OK;
		a->length += (size_t)got;
		if (a->length >= ASK_MAX)
			return fault(E_NOASK, 0, "the answer is longer than %d bytes", ASK_MAX - 2);
	}
}

/* Runs @argv and takes what it prints as the answer. */
static int run(struct ask *a, char *const argv[], int ms, int *status)
{
	struct ask_signals signals;
	struct run r = {0};
	int code = ask_signals_hold(&signals);

	if (code != E_OK)
		return code;
	code = start(&r, argv, ms);
	if (code == E_OK) {
		ask_forget(a);
		code = read_output(a, &r, signals.fd);
		if (code == E_OK)
			*status = finish(&r);
		else
			stop(&r);
	}
	ask_signals_release(&signals);
	return code;
}

bool ask_plymouth_runs(struct ask *a, const char *program)
{
	char *const argv[] = {(char *)program, "--ping", NULL};
	int status = -1;
	bool runs = run(a, argv, PING_MS, &status) == E_OK && status == 0;

	fault_clear();
	return runs;
}

static int run_plymouth(struct ask *a, const char *prompt, bool shown, int ms, int *status)
{
	char text[600];
	char *const argv[] = {(char *)a->program, shown ? "ask-question" : "ask-for-password", text, NULL};

	snprintf(text, sizeof text, "--prompt=%s", prompt);
	return run(a, argv, ms, status);
}

/* --no-tty: the terminal is ours to ask on, and was not there. */
static int run_agent(struct ask *a, const char *prompt, bool shown, int ms, int *status)
{
	char limit[32];
	char *const with_echo[] = {(char *)a->program, "--no-tty", "--id=dormouse", limit, "--echo",
				   (char *)prompt,     NULL};
	char *const without[] = {(char *)a->program, "--no-tty", "--id=dormouse", limit, (char *)prompt, NULL};

	snprintf(limit, sizeof limit, "--timeout=%d", ms / 1000 ? ms / 1000 : 1);
	return run(a, shown ? with_echo : without, ms + SLACK_MS, status);
}

static void cut_line_end(struct ask *a)
{
	if (a->length && a->answer[a->length - 1] == '\n')
		a->answer[--a->length] = 0;
}

int ask_program_line(struct ask *a, const char *prompt, bool shown)
{
	int ms = a->idle_ms * a->places->patience, status = -1;
	uint64_t begun = clock_ns();
	int code = a->way == ASK_PLYMOUTH ? run_plymouth(a, prompt, shown, ms, &status)
					  : run_agent(a, prompt, shown, ms, &status);

	if (code != E_OK)
		return code;
	if (status == 0) {
		cut_line_end(a);
		return E_OK;
	}
	/* systemd-ask-password ends by itself when its time is up. */
	if (a->way == ASK_AGENT && clock_ns() - begun >= (uint64_t)ms * 1000000)
		return fault(E_NOANSWER, 0, "nobody answered %s", ask_way_name(a));
	return fault(E_NOASK, 0, "%s gave no answer (exit code %d)", a->program, status);
}
