/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table for people and the file for programs. */
#include "base/error.h"
#include "tools/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- medians ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
	/* cppcheck-suppress uninitvar; there is one repeat at least */
	qsort(v, n, sizeof *v, compare);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* The median of the double at @offset in each sample. */
static double median_of(const struct result *r, unsigned n, size_t offset)
{
	double v[1000];

	for (unsigned i = 0; i < n; i++)
		memcpy(&v[i], (const char *)&r->sample[i] + offset, sizeof v[i]);
	return median(v, n);
}

void result_finish(struct result *r, unsigned repeats)
{
	double stored[1000], raw[1000];

	for (unsigned i = 0; i < repeats; i++) {
		struct sample *s = &r->sample[i];
		stored[i] = (double)s->stored;
		raw[i] = (double)s->raw;
		s->rate = (double)s->raw / 1e6 / s->seconds;
		r->rate_min = !i || s->rate < r->rate_min ? s->rate : r->rate_min;
		r->rate_max = !i || s->rate > r->rate_max ? s->rate : r->rate_max;
	}
	r->seconds = median_of(r, repeats, offsetof(struct sample, seconds));
	r->cpu = median_of(r, repeats, offsetof(struct sample, cpu));
	r->fill = median_of(r, repeats, offsetof(struct sample, fill));
	r->wait = median_of(r, repeats, offsetof(struct sample, wait));
	r->stored = median(stored, repeats);
	r->raw = median(raw, repeats);
	r->rate = median_of(r, repeats, offsetof(struct sample, rate));
}

/* ---- the table ---- */

/* Names with a cipher's need more room. */
static int name_width(const struct report *r)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->result[i].run.cipher)
			return 28;
	return 10;
}

bool result_beside(const struct result *a, const struct result *b)
{
	const struct run *x = &a->run, *y = &b->run;

	if (x->direction != y->direction || x->threads != y->threads)
		return false;
	return x->direction == DIRECTION_SAVE ? x->write_rate == y->write_rate : x->read_rate == y->read_rate;
}

static const struct result *best_fixed(const struct report *r, const struct result *beside)
{
	const struct result *best = NULL;

	for (unsigned i = 0; i < r->count; i++) {
		const struct result *f = &r->result[i];
		if (f->run.cipher == beside->run.cipher && f->run.choice->codec &&
		    f->run.choice->codec->id != CODEC_SLEEP && result_beside(f, beside) &&
		    (!best || f->rate > best->rate))
			best = f;
	}
	return best;
}

static void head_codecs(const struct bound *b)
{
	printf("Each codec alone in one thread (processor time):\n");
	printf("  %-10s %8s %12s %14s\n", "codec", "ratio", "pack MB/s", "unpack MB/s");
	for (unsigned i = 0; i < b->count; i++) {
		const struct alone *a = &b->alone[i];
		printf("  %-10s %8.2f %12.0f ", a->choice.name, a->ratio, 1 / a->pack / 1e6);
		if (a->unpack > 0)
			printf("%14.0f\n", 1 / a->unpack / 1e6);
		else
			printf("%14s\n", "-");
	}
	printf("  memcpy on one core: %.0f MB/s\n\n", 1 / b->copy / 1e6);
}

static void head_ciphers(const struct bound *b)
{
	printf("Each cipher alone in one thread, a stored byte's cost:\n");
	printf("  %-18s %12s %14s\n", "cipher", "seal MB/s", "open MB/s");
	for (unsigned i = 0; i < b->ciphers; i++)
		printf("  %-18s %12.0f %14.0f\n", b->cipher[i].cipher->name, 1 / b->cipher[i].seal / 1e6,
		       1 / b->cipher[i].open / 1e6);
	putchar('\n');
}

void report_head(const struct report *r)
{
	const struct input *in = r->input;

	printf("%s: %llu bytes, %llu pages; store: %s; %u cores\n\n", in->name, (unsigned long long)in->bytes,
	       (unsigned long long)(in->bytes / in->page_size), r->store, r->bound->cores);
	if (r->bound->count)
		head_codecs(r->bound);
	if (r->bound->ciphers)
		head_ciphers(r->bound);
	fflush(stdout);
}

static const char *rate_text(unsigned rate, char *out, size_t n)
{
	if (rate)
		snprintf(out, n, "%u MB/s", rate);
	else
		snprintf(out, n, "no limit");
	return out;
}

static void table_head(const struct result *r, int width)
{
	char rate[32];
	bool save = r->run.direction == DIRECTION_SAVE;

	printf("%s, %s %s, %u threads%s", save ? "Save" : "Load", save ? "writing" : "reading",
	       rate_text(save ? r->run.write_rate : r->run.read_rate, rate, sizeof rate), r->run.threads,
	       r->sample[0].threads < r->run.threads ? " (fewer: memory)" : "");
	if (save && r->bound > 0 && !r->run.cipher)
		printf("; bound %.0f MB/s", r->bound);
	printf("\n  %-*s %8s %17s %10s %6s %12s %7s %7s %7s %7s\n", width, "codec", "MB/s", "min - max", "pages/s",
	       "ratio", "stored", "CPU s", save ? "fill s" : "sink s", "wait s", "bound");
}

static void table_name(const struct run *r, char *out, size_t n)
{
	if (r->direction == DIRECTION_SAVE || !r->choice->adapt)
		snprintf(out, n, "%s", r->choice->name);
	else if (r->write_rate)
		snprintf(out, n, "auto@%u", r->write_rate);
	else
		snprintf(out, n, "auto@max");
}

/* With the cipher's name behind it. */
static void table_label(const struct run *r, char *out, size_t n)
{
	table_name(r, out, n);
	if (r->cipher)
		snprintf(out + strlen(out), n - strlen(out), " %s", r->cipher->name);
}

static void table_row(const struct report *r, const struct result *x)
{
	double raw = x->raw;
	char name[64], span[32], bound[16] = "-";

	table_label(&x->run, name, sizeof name);
	snprintf(span, sizeof span, "%.0f - %.0f", x->rate_min, x->rate_max);
	if (x->bound > 0)
		snprintf(bound, sizeof bound, "%.1f%%", 100 * x->rate / x->bound);
	printf("  %-*s %8.0f %17s %10.0f %6.2f %12.0f %7.3f %7.3f %7.3f %7s\n", name_width(r), name, x->rate, span,
	       raw / r->input->page_size / x->seconds, raw / x->stored, x->stored, x->cpu, x->fill, x->wait, bound);
}

static void table_auto(const struct report *r, const struct result *x)
{
	const struct result *best = best_fixed(r, x);
	char name[64];

	if (!x->run.choice->adapt || (!best && x->bound <= 0))
		return;
	table_label(&x->run, name, sizeof name);
	printf("  %s:", name);
	if (x->bound > 0)
		printf(" %.1f %% of the bound%s", 100 * x->rate / x->bound, best ? "," : "");
	if (best)
		printf(" %.1f %% of the best fixed codec (%s)", 100 * x->rate / best->rate, best->run.choice->name);
	putchar('\n');
}

/* What sealing costs at this codec. */
static void table_seal(const struct report *r, const struct result *x)
{
	char name[32];

	if (!x->run.cipher)
		return;
	for (unsigned i = 0; i < r->count; i++) {
		const struct result *plain = &r->result[i];
		if (plain->run.cipher || plain->run.choice != x->run.choice || !result_beside(plain, x) ||
		    plain->run.write_rate != x->run.write_rate)
			continue;
		table_name(&x->run, name, sizeof name);
		printf("  %s: with %s at %.1f %% of the rate without\n", name, x->run.cipher->name,
		       100 * x->rate / plain->rate);
	}
}

void report_table(const struct report *r)
{
	for (unsigned i = 0; i < r->count; i++) {
		bool first = true;
		for (unsigned k = 0; k < i && first; k++)
			first = !result_beside(&r->result[k], &r->result[i]);
		if (!first)
			continue;
		table_head(&r->result[i], name_width(r));
		for (unsigned k = i; k < r->count; k++)
			if (result_beside(&r->result[i], &r->result[k]))
				table_row(r, &r->result[k]);
		for (unsigned k = i; k < r->count; k++)
			if (result_beside(&r->result[i], &r->result[k]))
				table_auto(r, &r->result[k]);
		for (unsigned k = i; k < r->count; k++)
			if (result_beside(&r->result[i], &r->result[k]))
				table_seal(r, &r->result[k]);
		putchar('\n');
	}
}

/* ---- JSON ---- */

static void json_text(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 32)
			fprintf(f, "\\u%04x", c);
		else
			putc(c, f);
	}
	putc('"', f);
}

static void json_rate(FILE *f, const char *name, unsigned rate)
{
	if (rate)
		fprintf(f, ", \"%s\": %u", name, rate);
	else
		fprintf(f, ", \"%s\": null", name);
}

static void json_run(FILE *f, const struct report *r, const struct result *x)
{
	fprintf(f, "    {\"pages_file\": ");
	json_text(f, r->input->name);
	fprintf(f, ", \"compressor\": \"%s\", \"cipher\": \"%s\", \"threads\": %u", x->run.choice->name,
		x->run.cipher ? x->run.cipher->name : "none", x->sample[0].threads);
	json_rate(f, "write_rate_MBps", x->run.write_rate);
	json_rate(f, "read_rate_MBps", x->run.read_rate);
	fprintf(f, ", \"direction\": \"%s\", \"raw_bytes\": %.0f, \"stored_bytes\": %.0f, \"seconds_median\": %.6f",
		x->run.direction == DIRECTION_SAVE ? "save" : "load", x->raw, x->stored, x->seconds);
	fprintf(f, ", \"MBps_median\": %.3f, \"MBps_min\": %.3f, \"MBps_max\": %.3f, \"pages_per_second\": %.1f",
		x->rate, x->rate_min, x->rate_max, x->raw / r->input->page_size / x->seconds);
	if (x->bound > 0)
		fprintf(f, ", \"bound_MBps\": %.3f", x->bound);
	else
		fprintf(f, ", \"bound_MBps\": null");
	fprintf(f, ", \"cpu_seconds\": %.6f, \"%s_seconds\": %.6f, \"wait_seconds\": %.6f}", x->cpu,
		x->run.direction == DIRECTION_SAVE ? "fill" : "sink", x->fill, x->wait);
}

static void json_alone(FILE *f, const struct bound *b)
{
	for (unsigned i = 0; i < b->count; i++) {
		const struct alone *a = &b->alone[i];
		fprintf(f, "%s\n    {\"compressor\": \"%s\", \"ratio\": %.4f, \"pack_MBps\": %.3f, \"unpack_MBps\": ",
			i ? "," : "", a->choice.name, a->ratio, 1 / a->pack / 1e6);
		if (a->unpack > 0)
			fprintf(f, "%.3f}", 1 / a->unpack / 1e6);
		else
			fprintf(f, "null}");
	}
}

static void json_ciphers(FILE *f, const struct bound *b)
{
	for (unsigned i = 0; i < b->ciphers; i++)
		fprintf(f, "%s\n    {\"cipher\": \"%s\", \"seal_MBps\": %.3f, \"open_MBps\": %.3f}", i ? "," : "",
			b->cipher[i].cipher->name, 1 / b->cipher[i].seal / 1e6, 1 / b->cipher[i].open / 1e6);
}

int report_json(const struct report *r, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return fault(E_IO, errno, "%s cannot be written", path);
	fprintf(f, "{\n  \"store\": ");
	json_text(f, r->store);
	if (r->bound->copy > 0)
		fprintf(f, ",\n  \"memcpy_MBps\": %.3f", 1 / r->bound->copy / 1e6);
	fprintf(f, ",\n  \"cores\": %u,\n  \"repeats\": %u,\n  \"codecs\": [", r->bound->cores, r->repeats);
	json_alone(f, r->bound);
	fprintf(f, "\n  ],\n  \"ciphers\": [");
	json_ciphers(f, r->bound);
	fprintf(f, "\n  ],\n  \"runs\": [");
	for (unsigned i = 0; i < r->count; i++) {
		fputs(i ? ",\n" : "\n", f);
		json_run(f, r, &r->result[i]);
	}
	fprintf(f, "\n  ]\n}\n");
	bool bad = ferror(f);
	return fclose(f) || bad ? fault(E_IO, errno, "%s cannot be written", path) : E_OK;
}
