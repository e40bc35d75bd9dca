/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the user sees and types at while tasks are frozen: a virtual terminal of
 * our own, the serial line that /dev/console leads to, both, or nothing.
 *
 * Opened before FREEZE, closed after UNFREEZE; in between only written and read.
 * Nothing here can fail or block: a line that is full or stopped loses output.
 */
#ifndef DORMOUSE_SYSTEM_CONSOLE_H
#define DORMOUSE_SYSTEM_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

enum { CONSOLE_LINES = 2, CONSOLE_COLUMNS = 80 };
enum { KEY_NONE = 0, KEY_BACKSPACE = 8, KEY_ESCAPE = 27, KEY_DELETE = 127 };

enum console_mode {
	CONSOLE_SWITCH, /* to a free virtual terminal, and back when closed */
	CONSOLE_STAY,	/* the one in front, as it is */
};

struct console_line {
	int fd;
	struct termios before;
	unsigned columns; /* CONSOLE_COLUMNS when the terminal does not say */
	unsigned escape;  /* how far into an escape sequence its input is */
};

struct console {
	struct console_line line[CONSOLE_LINES];
	unsigned count;	 /* of lines; 0: there is nobody to show anything to */
	int control;	 /* /dev/tty0, -1 */
	int old_vt, vt;	 /* switched from and to; 0: was not */
	unsigned narrow; /* columns of the narrowest */
};

/* Sets *c to nothing; console_close() on it does nothing. */
void console_none(struct console *c);
void console_open(struct console *c, enum console_mode mode);
/* A terminal more, in raw mode until it is closed.  False when @path is none or cannot be opened. */
bool console_add(struct console *c, const char *path);
void console_close(struct console *c);

/*
 * For the restore.  Before it the kernel goes to a terminal of its own and waits
 * without limit for whoever holds the one in front to let go, which a frozen
 * splash screen or display server never does.  Called before FREEZE: then the
 * kernel stays where it is.  Nothing happens where nobody holds the screen.
 */
void console_keep_in_front(void);
/* Undoes it, when the restore failed. */
void console_let_switch(void);

void console_write(struct console *c, const char *text, size_t n);

/*
 * The next key, KEY_NONE when none was pressed.  Arrow and function keys are
 * skipped; an Escape is told from their beginning by nothing following it, so
 * it comes out at the second call after it was pressed.
 */
int console_key(struct console *c);

#endif
