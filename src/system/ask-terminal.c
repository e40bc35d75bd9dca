/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A terminal, read key by key.  Not by leaving canonical mode: the kernel keeps
 * what was typed in a ring of 4 KiB and zeroes what is read from it only in
 * canonical mode without echo.  That ring may lie in memory that a restored
 * image does not overwrite.  With EXTPROC added, canonical mode hands over every
 * key at once and edits nothing; editing is done here.
 */
#include "system/ask-ways.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { WRITE_MS = 1000 };
enum { CTRL_C = 3, CTRL_D = 4, CTRL_H = 8, CTRL_U = 21, ESCAPE = 27, CTRL_BACKSLASH = 28, DELETE = 127 };

/* A terminal that is being read. */
struct session {
	struct ask *ask;
	struct ask_signals signals;
	struct termios before;
	int escape;    /* within a sequence that a key sends */
	bool too_long; /* more was typed than there is room for */
};

/* In the background a terminal must not be read; one that controls nothing of ours always may. */
static bool may_read(int fd)
{
	pid_t group = tcgetpgrp(fd);

	return isatty(fd) && (group < 0 || group == getpgrp());
}

int ask_terminal_open(const char *const *paths)
{
	for (; *paths; paths++) {
		int fd = open(*paths, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0 && may_read(fd))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

/* A stopped terminal loses the words, it does not stop us. */
static void show(int fd, const char *text)
{
	size_t n = strlen(text);

	while (n) {
		ssize_t done = write(fd, text, n);
		struct pollfd f = {.fd = fd, .events = POLLOUT};
		if (done < 0 && (errno != EAGAIN || poll(&f, 1, WRITE_MS) <= 0))
			return;
		text += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
}

/* Reads away, which zeroes it in the kernel, what was typed before the question or after the answer. */
static void drop_input(int fd)
{
	char rest[256];

	while (read(fd, rest, sizeof rest) > 0)
		;
	explicit_bzero(rest, sizeof rest);
}

static int begin(struct session *s, struct ask *a)
{
	struct termios t;

	s->ask = a;
	if (tcgetattr(a->fd, &s->before))
		return fault(E_NOASK, errno, "the terminal cannot be set");
	int r = ask_signals_hold(&s->signals);
	if (r != E_OK)
		return r;
	t = s->before;
	t.c_iflag &= ~(tcflag_t)(ISTRIP | IUCLC);
	t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ISIG | IEXTEN);
	t.c_lflag |= ICANON | EXTPROC;
	t.c_cc[VEOF] = _POSIX_VDISABLE;
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	if (tcsetattr(a->fd, TCSANOW, &t)) {
		ask_signals_release(&s->signals);
		return fault(E_NOASK, errno, "the terminal cannot be set");
	}
	drop_input(a->fd);
	return E_OK;
}

static void end(struct session *s)
{
	drop_input(s->ask->fd);
	tcsetattr(s->ask->fd, TCSANOW, &s->before);
	show(s->ask->fd, "\r\n");
	ask_signals_release(&s->signals);
}

/* Nobody is there any more, which is not the same as nobody having been there. */
static int hung_up(void)
{
	return fault(E_NOANSWER, 0, "the terminal was closed");
}

static int read_key(struct session *s, char *key)
{
	struct ask *a = s->ask;

	for (;;) {
		struct pollfd f[] = {{.fd = a->fd, .events = POLLIN}, {.fd = s->signals.fd, .events = POLLIN}};
		int n = a->wait(a->ctx, f, 2, a->idle_ms);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return fault(E_NOANSWER, 0, "no key was pressed for %d seconds", a->idle_ms / 1000);
		if (n < 0)
			return fault(E_NOASK, errno, "the terminal cannot be watched");
		if (f[1].revents)
			return fault(E_ABORTED, 0, "by a signal");
		ssize_t got = read(a->fd, key, 1);
		if (got == 1)
			return E_OK;
		if (got < 0 && errno == EIO)
			return hung_up();
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return fault(E_NOASK, errno, "the terminal cannot be read");
		if (got == 0 && (f[0].revents & POLLHUP))
			return hung_up();
	}
}

/* Bytes of the last character: more than one when it is well-formed UTF-8. */
static size_t last_character(const char *text, size_t length)
{
	size_t tail = 0;

	while (tail < 3 && tail + 1 < length && ((unsigned char)text[length - 1 - tail] & 0xc0) == 0x80)
		tail++;
	unsigned char lead = length ? (unsigned char)text[length - 1 - tail] : 0;
	size_t wanted = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
	return tail == wanted ? tail + 1 : 1;
}

static void erase(struct ask *a, size_t n)
{
	a->length -= n;
	explicit_bzero(a->answer + a->length, n);
}

static bool is_end(char key)
{
	return key == '\r' || key == '\n';
}

static bool is_stop(const struct ask *a, char key)
{
	return key == CTRL_C || key == CTRL_BACKSLASH || (key == CTRL_D && !a->length);
}

/* False when there is no room for it. */
static bool take(struct ask *a, char key)
{
	if ((key == CTRL_H || key == DELETE) && a->length)
		erase(a, last_character(a->answer, a->length));
	else if (key == CTRL_U)
		erase(a, a->length);
	else if (iscntrl((unsigned char)key))
		return true;
	else if (a->length + 1 < ASK_MAX)
		a->answer[a->length++] = key;
	else
		return false;
	return true;
}

/* Arrows and the like send ESC [ ... letter: no part of a passphrase. */
static bool in_sequence(struct session *s, char key)
{
	bool inside = s->escape != 0;

	if (key == ESCAPE)
		s->escape = 1;
	else if (s->escape == 1)
		s->escape = key == '[' || key == 'O' ? 2 : 0;
	else if (s->escape == 2 && key >= '@')
		s->escape = 0;
	return inside && !is_end(key);
}

static void start_line(struct session *s, const char *before, const char *prompt)
{
	erase(s->ask, s->ask->length);
	s->too_long = false;
	s->escape = 0;
	show(s->ask->fd, before);
	show(s->ask->fd, prompt);
}

static int read_line(struct session *s, const char *prompt)
{
	struct ask *a = s->ask;

	start_line(s, "", prompt);
	for (;;) {
		char key;
		int r = read_key(s, &key);
		if (r != E_OK)
			return r;
		if (is_stop(a, key))
			return fault(E_ABORTED, 0, "by a key");
		if (is_end(key) && !s->too_long)
			return E_OK;
		if (is_end(key))
			start_line(s, "\r\nThat is longer than a passphrase may be.\r\n", prompt);
		else if (!in_sequence(s, key) && !take(a, key))
			s->too_long = true;
	}
}

int ask_terminal_line(struct ask *a, const char *prompt)
{
	struct session s;
	int r = begin(&s, a);

	if (r != E_OK)
		return r;
	r = read_line(&s, prompt);
	end(&s);
	return r;
}

static int choose(struct session *s, const char *keys, char *out)
{
	for (;;) {
		int r = read_key(s, out);
		if (r != E_OK)
			return r;
		*out = (char)tolower((unsigned char)*out);
		if (*out && strchr(keys, *out)) {
			show(s->ask->fd, (char[]){*out, 0});
			return E_OK;
		}
	}
}

int ask_terminal_key(struct ask *a, const char *prompt, const char *keys, char *out)
{
	struct session s;
	int r = begin(&s, a);

	if (r != E_OK)
		return r;
	show(a->fd, prompt);
	r = choose(&s, keys, out);
	end(&s);
	return r;
}
