/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How far a save or a load is, on the console: a bar that is redrawn, or a line
 * every ten per cent where nothing can be redrawn.  No allocation, no locale;
 * works while tasks are frozen.
 */
#ifndef DORMOUSE_TOOLS_PROGRESS_H
#define DORMOUSE_TOOLS_PROGRESS_H

#include "image/save.h"
#include "system/console.h"

enum { PROGRESS_LINE = 512 };

struct progress {
	struct console console;
	const char *verb; /* "saving" */
	bool plain;	  /* nothing is redrawn: TERM=dumb */
	bool colours;	  /* NO_COLOR is not set */
	bool drawn;	  /* a bar stands in the console's last line */
	uint64_t due;	  /* ns, of the next redraw */
	unsigned told;	  /* per cent, in the last line of those every ten */
};

/* "loading 48 %, 93 MB/s, 0:05 left", for those who draw a bar of their own. */
void progress_words(char *out, size_t size, const char *verb, const struct save_progress *s);

/*
 * One line without its end: bar, per cent, MB done and in all, MB/s, ratio,
 * codec, time left; narrower than @columns, down to the per cent alone.
 * Returns its length; @size PROGRESS_LINE is enough.
 */
size_t progress_format(char *out, size_t size, const struct progress *p, unsigned columns,
		       const struct save_progress *s);

/* Opens the console, unless only errors are to be said. */
void progress_open(struct progress *p, enum console_mode mode, const char *verb);
void progress_close(struct progress *p);

/* Draws, at most ten times a second. */
void progress_show(struct progress *p, const struct save_progress *s);
/* A line of its own above the bar. */
void progress_say(struct progress *p, const char *text);
/* For log_mirror(): @ctx is the progress, @line has its newline. */
void progress_mirror(void *ctx, const char *line, size_t len);
/* Backspace or Escape was pressed. */
bool progress_stop_wanted(struct progress *p);

#endif
