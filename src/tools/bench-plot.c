/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pictures of the rates, by gnuplot. */
#include "base/error.h"
#include "tools/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLOT_PATH = 4096 };

/* ---- can it be done ---- */

static const char *terminal_for(const char *path)
{
	size_t n = strlen(path);

	if (n > 4 && !strcmp(path + n - 4, ".svg"))
		return "svg size 900,600 dynamic background 'white'";
	if (n > 4 && !strcmp(path + n - 4, ".png"))
		return "png size 900,600";
	return NULL;
}

static bool have_gnuplot(void)
{
	const char *dirs = getenv("PATH");
	char path[PLOT_PATH];

	while (dirs && *dirs) {
		int n = (int)strcspn(dirs, ":");
		snprintf(path, sizeof path, "%.*s/gnuplot", n, dirs);
		if (access(path, X_OK) == 0)
			return true;
		dirs += n + (dirs[n] == ':');
	}
	return false;
}

int plot_check(const char *path)
{
	if (!terminal_for(path) || strlen(path) > PLOT_PATH - 32)
		return fault(E_USAGE, 0, "--plot: `%.80s' ends in neither .svg nor .png", path);
	if (strpbrk(path, "\n\r"))
		return fault(E_USAGE, 0, "--plot: no line breaks in the name, please");
	return have_gnuplot() ? E_OK : fault(E_USAGE, 0, "--plot needs gnuplot, which is not installed");
}

/* ---- what both pictures share ---- */

/* In gnuplot's single quotes. */
static void quote(FILE *f, const char *s)
{
	putc('\'', f);
	for (; *s; s++)
		fputs(*s == '\'' ? "''" : (char[]){*s, 0}, f);
	putc('\'', f);
}

static FILE *begin(const char *path, const char *title, const char *x)
{
	FILE *f = popen("gnuplot", "we"); /* NOLINT(cert-env33-c): a name of ours, in a tool of measuring */

	if (!f)
		return NULL;
	fprintf(f, "set terminal %s\nset output ", terminal_for(path));
	quote(f, path);
	fprintf(f, "\nset title ");
	quote(f, title);
	fprintf(f, " noenhanced\nset xlabel '%s'\nset ylabel 'pages, MB/s'\nset grid\nset key left top noenhanced\n",
		x);
	return f;
}

static int end(FILE *f, const char *path)
{
	if (f && pclose(f) == 0)
		return E_OK;
	return fault(E_IO, f ? 0 : errno, "gnuplot could not make %s", path);
}

static double limit_of(const struct run *r)
{
	return r->direction == DIRECTION_SAVE ? r->write_rate : r->read_rate;
}

/* Saves when there are any, else loads. */
static enum direction shown_direction(const struct report *r)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->result[i].run.direction == DIRECTION_SAVE)
			return DIRECTION_SAVE;
	return DIRECTION_LOAD;
}

static unsigned most_threads(const struct report *r)
{
	unsigned most = 0;

	for (unsigned i = 0; i < r->count; i++)
		if (r->result[i].run.threads > most)
			most = r->result[i].run.threads;
	return most;
}

static unsigned thread_counts(const struct report *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->count; i++) {
		bool seen = false;
		for (unsigned k = 0; k < i && !seen; k++)
			seen = r->result[k].run.threads == r->result[i].run.threads;
		n += !seen;
	}
	return n;
}

/* The first result of a curve: same choice, and for loads the disk it was saved to. */
static bool same_curve(const struct run *a, const struct run *b)
{
	return a->choice == b->choice && a->cipher == b->cipher && a->direction == b->direction &&
	       (a->direction == DIRECTION_SAVE || a->write_rate == b->write_rate);
}

/* ---- over the disk's speed ---- */

/* No limit is drawn at the right edge. */
static double right_edge(const struct report *r)
{
	double most = 250;

	for (unsigned i = 0; i < r->count; i++)
		if (limit_of(&r->result[i].run) > most)
			most = limit_of(&r->result[i].run);
	return 4 * most;
}

static double place_of(const struct run *r, double edge)
{
	return limit_of(r) > 0 ? limit_of(r) : edge;
}

struct curve {
	const struct report *report;
	enum direction direction;
	unsigned threads;
	double edge;
};

static bool on_curve(const struct curve *c, const struct result *x, const struct run *of)
{
	return x->run.threads == c->threads && x->run.direction == c->direction && (!of || same_curve(of, &x->run));
}

static bool first_on_curve(const struct curve *c, unsigned i)
{
	const struct result *x = c->report->result;

	if (!on_curve(c, &x[i], NULL))
		return false;
	for (unsigned k = 0; k < i; k++)
		if (on_curve(c, &x[k], &x[i].run))
			return false;
	return true;
}

static void curve_data(FILE *f, const struct curve *c, unsigned name, const struct run *of, bool bound)
{
	fprintf(f, "$d%u << EOD\n", name);
	for (unsigned i = 0; i < c->report->count; i++) {
		const struct result *x = &c->report->result[i];
		if (on_curve(c, x, of))
			fprintf(f, "%g %g\n", place_of(&x->run, c->edge), bound ? x->bound : x->rate);
	}
	fprintf(f, "EOD\n");
}

static void curve_name(FILE *f, const struct run *r)
{
	char name[64];

	snprintf(name, sizeof name, "%s", r->choice->name);
	if (r->direction == DIRECTION_LOAD && r->write_rate)
		snprintf(name, sizeof name, "%s saved at %u MB/s", r->choice->name, r->write_rate);
	if (r->cipher)
		snprintf(name + strlen(name), sizeof name - strlen(name), ", %s", r->cipher->name);
	quote(f, name);
}

static void curves(FILE *f, const struct curve *c)
{
	const struct result *x = c->report->result;
	unsigned first = c->report->count;

	for (unsigned i = 0; i < c->report->count; i++)
		if (first_on_curve(c, i)) {
			curve_data(f, c, i, &x[i].run, false);
			first = first == c->report->count ? i : first;
		}
	curve_data(f, c, c->report->count, &x[first].run, true);
	fprintf(f, "plot NaN notitle");
	for (unsigned i = 0; i < c->report->count; i++)
		if (first_on_curve(c, i)) {
			fprintf(f, ", $d%u using 1:2 smooth unique with linespoints linewidth %d title ", i,
				x[i].run.choice->adapt ? 3 : 1);
			curve_name(f, &x[i].run);
		}
	if (c->report->bound->count)
		fprintf(f, ", $d%u using 1:2 smooth unique with lines dashtype 2 linecolor 'black' title 'bound'",
			c->report->count);
	putc('\n', f);
}

static double left_edge(const struct curve *c)
{
	double least = c->edge;

	for (unsigned i = 0; i < c->report->count; i++) {
		const struct result *x = &c->report->result[i];
		if (on_curve(c, x, NULL) && place_of(&x->run, c->edge) < least)
			least = place_of(&x->run, c->edge);
	}
	return least;
}

static void rate_axis(FILE *f, const struct curve *c)
{
	fprintf(f, "set logscale xy\nset format y '%%.0f'\nset xrange [%g:%g]\nset xtics (", left_edge(c) / 1.5,
		c->edge * 1.5);
	for (unsigned i = 0; i < c->report->count; i++) {
		const struct result *x = &c->report->result[i];
		if (on_curve(c, x, NULL) && limit_of(&x->run) > 0)
			fprintf(f, "%g, ", limit_of(&x->run));
	}
	fprintf(f, "'no limit' %g)\n", c->edge);
}

static int plot_rates(const struct report *r, const char *path)
{
	struct curve c = {r, shown_direction(r), most_threads(r), right_edge(r)};
	char title[PLOT_PATH];
	bool save = c.direction == DIRECTION_SAVE;

	snprintf(title, sizeof title, "%s %s, %u threads", save ? "Saving" : "Loading", r->input->name, c.threads);
	FILE *f = begin(path, title, save ? "disk writes, MB/s" : "disk reads, MB/s");
	if (f) {
		rate_axis(f, &c);
		curves(f, &c);
	}
	return end(f, path);
}

/* ---- over the threads ---- */

/* The fastest disk measured: there threads count most. */
static double fastest(const struct report *r, enum direction d, double edge)
{
	double most = 0;

	for (unsigned i = 0; i < r->count; i++)
		if (r->result[i].run.direction == d && place_of(&r->result[i].run, edge) > most)
			most = place_of(&r->result[i].run, edge);
	return most;
}

static bool scales(const struct report *r, unsigned i, enum direction d, double edge)
{
	const struct run *x = &r->result[i].run;

	return x->direction == d && place_of(x, edge) == fastest(r, d, edge);
}

static void thread_data(FILE *f, const struct report *r, unsigned i, double edge)
{
	const struct run *of = &r->result[i].run;

	fprintf(f, "$d%u << EOD\n", i);
	for (unsigned k = 0; k < r->count; k++)
		if (scales(r, k, of->direction, edge) && same_curve(of, &r->result[k].run))
			fprintf(f, "%u %g %g\n", r->result[k].sample[0].threads, r->result[k].rate, r->result[k].bound);
	fprintf(f, "EOD\n");
}

static bool first_that_scales(const struct report *r, unsigned i, enum direction d, double edge)
{
	if (!scales(r, i, d, edge))
		return false;
	for (unsigned k = 0; k < i; k++)
		if (scales(r, k, d, edge) && same_curve(&r->result[k].run, &r->result[i].run))
			return false;
	return true;
}

static void thread_curve(FILE *f, const struct report *r, unsigned i)
{
	const struct choice *c = r->result[i].run.choice;

	fprintf(f, ", $d%u using 1:2 with linespoints title ", i);
	curve_name(f, &r->result[i].run);
	if (!r->bound->count)
		return;
	fprintf(f, ", $d%u using 1:3 with lines dashtype 2 title ", i);
	quote(f, c->codec && c->codec->id == CODEC_SLEEP ? "bound of sleep" : "bound");
}

static int plot_threads(const struct report *r, const char *path)
{
	enum direction d = shown_direction(r);
	double edge = right_edge(r);
	char title[PLOT_PATH];

	snprintf(title, sizeof title, "%s %s, %u cores", d == DIRECTION_SAVE ? "Saving" : "Loading", r->input->name,
		 r->bound->cores);
	FILE *f = begin(path, title, "threads");
	if (!f)
		return end(f, path);
	for (unsigned i = 0; i < r->count; i++)
		if (first_that_scales(r, i, d, edge))
			thread_data(f, r, i, edge);
	fprintf(f, "set logscale xy 2\nset format y '%%.0f'\nplot NaN notitle");
	for (unsigned i = 0; i < r->count; i++)
		if (first_that_scales(r, i, d, edge))
			thread_curve(f, r, i);
	putc('\n', f);
	return end(f, path);
}

int plot_report(const struct report *r, const char *path)
{
	char second[PLOT_PATH];
	int stem = (int)strlen(path) - 4;
	int e = plot_rates(r, path);

	if (e != E_OK || thread_counts(r) < 2)
		return e;
	snprintf(second, sizeof second, "%.*s-threads%s", stem, path, path + stem);
	return plot_threads(r, second);
}
