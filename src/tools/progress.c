/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tools/progress.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "image/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bar of this many characters at least is worth its place. */
enum { BAR_LEAST = 10, BAR_MOST = 50, REDRAWS_A_SECOND = 10, STEP = 10 };

typedef unsigned long long number;

/* ---- what is said ---- */

static unsigned per_cent(const struct save_progress *s)
{
	uint64_t total = s->total ? s->total : 1;

	return s->raw >= total ? 100 : (unsigned)((double)s->raw * 100 / (double)total);
}

static uint64_t per_second(const struct save_progress *s)
{
	return s->ns ? (uint64_t)((double)s->raw * 1e9 / (double)s->ns) : 0;
}

/* "1:05 left"; nothing before there is anything to go by. */
static void put_left(char out[16], const struct save_progress *s)
{
	out[0] = 0;
	if (!s->raw || s->ns < SECOND / 2 || s->raw >= s->total)
		return;
	number left = (number)((double)s->ns / 1e9 * (double)(s->total - s->raw) / (double)s->raw + 0.5);
	if (left < 100 * 60)
		snprintf(out, 16, "%llu:%02llu left", left / 60, left % 60);
	else
		snprintf(out, 16, "%llu h left", (number)min_u64(left / 3600, 9999));
}

/* "2.3:1" */
static void put_ratio(char out[16], const struct save_progress *s)
{
	number tenths = s->stored ? (number)((double)s->raw * 10 / (double)s->stored) : 0;

	out[0] = 0;
	if (tenths)
		snprintf(out, 16, "%llu.%llu:1", (number)min_u64(tenths / 10, 9999), tenths % 10);
}

static void put_figures(char *out, size_t size, const struct save_progress *s)
{
	const struct codec *c = codec_by_id(s->codec);
	char left[16], ratio[16];

	put_left(left, s);
	put_ratio(ratio, s);
	snprintf(out, size, " %5llu/%llu MB %4llu MB/s %6s %-4s %10s", (number)(s->raw / 1000000),
		 (number)(s->total / 1000000), (number)(per_second(s) / 1000000), ratio, c && s->raw ? c->name : "",
		 left);
}

static size_t put_bar(char *out, const struct progress *p, unsigned width, unsigned cent)
{
	unsigned full = width * cent / 100;
	size_t n = 0;

	n += (size_t)sprintf(out + n, " [%s", p->colours ? "\033[32m" : "");
	memset(out + n, '#', full);
	n += full;
	n += (size_t)sprintf(out + n, "%s", p->colours ? "\033[0m" : "");
	memset(out + n, '.', width - full);
	n += width - full;
	out[n++] = ']';
	out[n] = 0;
	return n;
}

size_t progress_format(char *out, size_t size, const struct progress *p, unsigned columns,
		       const struct save_progress *s)
{
	char figures[128];
	unsigned cent = per_cent(s);
	size_t n = (size_t)snprintf(out, size, "%s %3u %%", p->verb, cent);

	put_figures(figures, sizeof figures, s);
	/* The last column stays free: some terminals would begin a new line. */
	size_t taken = n + strlen(figures) + 1, room = columns > taken ? columns - taken : 0;
	if (room >= BAR_LEAST + 3)
		n += put_bar(out + n, p, (unsigned)min_u64(room - 3, BAR_MOST), cent);
	if (columns > taken)
		n += (size_t)snprintf(out + n, size - n, "%s", figures);
	return n;
}

void progress_words(char *out, size_t size, const char *verb, const struct save_progress *s)
{
	char left[16];

	put_left(left, s);
	snprintf(out, size, "%s %u %%, %llu MB/s%s%s", verb, per_cent(s), (number)(per_second(s) / 1000000),
		 left[0] ? ", " : "", left);
}

/* ---- where ---- */

static bool is_set(const char *name, const char *value)
{
	const char *v = getenv(name);

	return v && (value ? !strcmp(v, value) : *v != 0);
}

void progress_open(struct progress *p, enum console_mode mode, const char *verb)
{
	memset(p, 0, sizeof *p);
	p->verb = verb;
	p->plain = is_set("TERM", "dumb");
	p->colours = !p->plain && !is_set("NO_COLOR", NULL);
	console_none(&p->console);
	if (log_get_level() > LOG_LEVEL_ERROR)
		console_open(&p->console, mode);
	if (p->console.vt)
		console_write(&p->console, "\033[?25l", 6); /* no cursor on a terminal of our own */
}

void progress_close(struct progress *p)
{
	if (p->drawn)
		console_write(&p->console, "\r\n", 2);
	if (p->console.vt)
		console_write(&p->console, "\033[?25h", 6);
	console_close(&p->console);
	p->drawn = false;
}

static void draw(struct progress *p, const struct save_progress *s)
{
	char line[PROGRESS_LINE + 8] = "\r";
	size_t n = 1 + progress_format(line + 1, PROGRESS_LINE, p, p->console.narrow, s);

	memcpy(line + n, "\033[K", 3);
	console_write(&p->console, line, n + 3);
	p->drawn = true;
}

/* Without a console for those who asked to hear everything. */
static void tell_step(struct progress *p, const struct save_progress *s)
{
	char line[PROGRESS_LINE];
	unsigned cent = per_cent(s) / STEP * STEP;

	if (cent <= p->told)
		return;
	p->told = cent;
	size_t n = (size_t)snprintf(line, sizeof line, "%s: %u %%, %llu MB/s", p->verb, cent,
				    (number)(per_second(s) / 1000000));
	if (p->console.count) {
		memcpy(line + n, "\r\n", 2);
		console_write(&p->console, line, n + 2);
	} else {
		log_verbose("%s", line);
	}
}

void progress_show(struct progress *p, const struct save_progress *s)
{
	uint64_t now = clock_ns();

	if (p->plain || !p->console.count) {
		tell_step(p, s);
	} else if (now >= p->due || s->raw >= s->total) {
		p->due = now + SECOND / REDRAWS_A_SECOND;
		draw(p, s);
	}
}

void progress_mirror(void *ctx, const char *line, size_t len)
{
	struct progress *p = ctx;

	if (!p->console.count)
		return;
	console_write(&p->console, p->plain ? "" : "\r\033[K", p->plain ? 0 : 4);
	console_write(&p->console, line, len);
	if (len && line[len - 1] == '\n')
		console_write(&p->console, "\r", 1);
	p->drawn = false;
}

void progress_say(struct progress *p, const char *text)
{
	char line[PROGRESS_LINE];

	snprintf(line, sizeof line, "%.*s\n", (int)sizeof line - 2, text);
	progress_mirror(p, line, strlen(line));
}

bool progress_stop_wanted(struct progress *p)
{
	int key;

	while ((key = console_key(&p->console)) != KEY_NONE)
		if (key == KEY_BACKSPACE || key == KEY_ESCAPE || key == KEY_DELETE)
			return true;
	return false;
}
