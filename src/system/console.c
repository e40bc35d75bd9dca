/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/console.h"

#include "base/clock.h"
#include "system/machine.h"

#include <fcntl.h>
#include <linux/kd.h>
#include <linux/vt.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
/* For a switch the process that shows the other terminal must let go of it; and for output to leave. */
enum { SWITCH_MS = 3000, DRAIN_MS = 300, STEP_MS = 20 };
enum { NO_ESCAPE, ESCAPE_NEW, ESCAPE_OLD, IN_SEQUENCE };

static void pause_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000 * MS)};

	nanosleep(&t, NULL);
}

/* ---- lines ---- */

static unsigned columns_of(int fd)
{
	struct winsize w;

	return ioctl(fd, TIOCGWINSZ, &w) || !w.ws_col ? CONSOLE_COLUMNS : w.ws_col;
}

static bool make_raw(struct console_line *l)
{
	struct termios t;

	if (tcgetattr(l->fd, &l->before))
		return false;
	t = l->before;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL | IEXTEN);
	t.c_cc[VMIN] = 0;
	t.c_cc[VTIME] = 0;
	/* Now: draining would wait for a line that was stopped. */
	if (tcsetattr(l->fd, TCSANOW, &t))
		return false;
	tcflush(l->fd, TCIFLUSH); /* keys from before mean something else */
	return true;
}

bool console_add(struct console *c, const char *path)
{
	struct console_line *l = &c->line[c->count];

	if (c->count == CONSOLE_LINES)
		return false;
	l->fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (l->fd < 0)
		return false;
	if (!make_raw(l)) {
		close(l->fd);
		return false;
	}
	l->columns = columns_of(l->fd);
	l->escape = NO_ESCAPE;
	if (!c->count || l->columns < c->narrow)
		c->narrow = l->columns;
	c->count++;
	return true;
}

/* The last close of a stopped serial line would wait for half a minute with what is left in it. */
static void drain(int fd)
{
	int left = 0;

	for (int i = 0; i < DRAIN_MS / STEP_MS && !ioctl(fd, TIOCOUTQ, &left) && left; i++)
		pause_ms(STEP_MS);
	if (left)
		tcflush(fd, TCOFLUSH);
}

static void close_line(struct console_line *l)
{
	drain(l->fd);
	tcflush(l->fd, TCIFLUSH);
	tcsetattr(l->fd, TCSANOW, &l->before);
	close(l->fd);
}

void console_write(struct console *c, const char *text, size_t n)
{
	for (unsigned i = 0; i < c->count; i++) {
		ssize_t lost = write(c->line[i].fd, text, n);
		(void)lost;
	}
}

/* ---- keys ---- */

static int take_byte(struct console_line *l, int b)
{
	switch (l->escape) {
	case NO_ESCAPE:
		l->escape = b == KEY_ESCAPE ? ESCAPE_NEW : NO_ESCAPE;
		return b == KEY_ESCAPE ? KEY_NONE : b;
	case IN_SEQUENCE: /* the console's function keys send a second bracket */
		if (b >= 0x40 && b <= 0x7e && b != '[')
			l->escape = NO_ESCAPE;
		return KEY_NONE;
	default:
		if (b == KEY_ESCAPE)
			return b;
		l->escape = b == '[' || b == 'O' ? IN_SEQUENCE : NO_ESCAPE;
		return KEY_NONE;
	}
}

static int line_key(struct console_line *l)
{
	unsigned char b;

	while (read(l->fd, &b, 1) == 1) {
		int key = take_byte(l, b);
		if (key != KEY_NONE)
			return key;
	}
	if (l->escape == ESCAPE_NEW) {
		l->escape = ESCAPE_OLD;
	} else if (l->escape == ESCAPE_OLD) {
		l->escape = NO_ESCAPE;
		return KEY_ESCAPE;
	}
	return KEY_NONE;
}

int console_key(struct console *c)
{
	int key = KEY_NONE;

	for (unsigned i = 0; i < c->count && key == KEY_NONE; i++)
		key = line_key(&c->line[i]);
	return key;
}

/* ---- virtual terminals ---- */

/* Kernels have virtual terminals where there is no screen too; a dummy driver then swallows what is drawn. */
static bool has_screen(void)
{
	char path[64], text[64];

	for (int i = 0;; i++) {
		snprintf(path, sizeof path, "/sys/class/vtconsole/vtcon%d/bind", i);
		if (file_read_text(path, text, sizeof text) < 0)
			return false;
		if (text[0] != '1')
			continue;
		snprintf(path, sizeof path, "/sys/class/vtconsole/vtcon%d/name", i);
		if (file_read_text(path, text, sizeof text) > 0 && !strstr(text, "dummy"))
			return true;
	}
}

static int vt_in_front(int fd)
{
	struct vt_stat s;

	return ioctl(fd, VT_GETSTATE, &s) ? 0 : s.v_active;
}

/* VT_WAITACTIVE has no time limit; whoever holds the terminal in front may be dead or hang. */
static bool bring_to_front(int fd, int vt)
{
	uint64_t until = clock_ns() + SWITCH_MS * MS;

	if (ioctl(fd, VT_ACTIVATE, vt))
		return false;
	while (vt_in_front(fd) != vt) {
		if (clock_ns() > until)
			return false;
		pause_ms(STEP_MS);
	}
	return true;
}

static void drop_line(struct console *c)
{
	close_line(&c->line[--c->count]);
}

static bool switch_vt(struct console *c)
{
	char path[32];
	int vt = 0, old = vt_in_front(c->control);

	if (!old || ioctl(c->control, VT_OPENQRY, &vt) || vt <= 0)
		return false;
	snprintf(path, sizeof path, "/dev/tty%d", vt);
	if (!console_add(c, path))
		return false;
	if (bring_to_front(c->control, vt)) {
		c->old_vt = old;
		c->vt = vt;
		return true;
	}
	bring_to_front(c->control, old); /* takes back a switch that nobody allowed */
	drop_line(c);
	ioctl(c->control, VT_DISALLOCATE, vt);
	return false;
}

static bool shows_graphics(int fd)
{
	int mode = KD_TEXT;

	return ioctl(fd, KDGETMODE, &mode) || mode != KD_TEXT;
}

static void open_vt(struct console *c, enum console_mode mode)
{
	if (!has_screen())
		return;
	c->control = open("/dev/tty0", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (c->control < 0 || (mode == CONSOLE_SWITCH && switch_vt(c)))
		return;
	if (!shows_graphics(c->control))
		console_add(c, "/dev/tty0");
}

static void switch_back(struct console *c)
{
	if (!c->vt)
		return;
	/* Whoever went elsewhere meanwhile stays there. */
	if (vt_in_front(c->control) == c->vt)
		bring_to_front(c->control, c->old_vt);
	ioctl(c->control, VT_DISALLOCATE, c->vt);
}

static int screen = -1;

void console_keep_in_front(void)
{
	struct vt_mode m;

	screen = open("/dev/tty0", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (screen < 0)
		return;
	if (ioctl(screen, VT_GETMODE, &m) == 0 && m.mode == VT_PROCESS && ioctl(screen, VT_LOCKSWITCH, 1) == 0)
		return;
	close(screen);
	screen = -1;
}

void console_let_switch(void)
{
	if (screen < 0)
		return;
	ioctl(screen, VT_UNLOCKSWITCH, 1);
	close(screen);
	screen = -1;
}

/* ---- all of it ---- */

void console_none(struct console *c)
{
	memset(c, 0, sizeof *c);
	c->control = -1;
}

/* /dev/console, when it is a terminal but no virtual one: those were dealt with. */
static void open_serial(struct console *c)
{
	int mode;

	if (!console_add(c, "/dev/console"))
		return;
	if (ioctl(c->line[c->count - 1].fd, KDGETMODE, &mode) == 0)
		drop_line(c);
}

void console_open(struct console *c, enum console_mode mode)
{
	console_none(c);
	open_vt(c, mode);
	open_serial(c);
}

void console_close(struct console *c)
{
	while (c->count)
		drop_line(c);
	switch_back(c);
	if (c->control >= 0)
		close(c->control);
	console_none(c);
}
