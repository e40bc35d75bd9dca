/* SPDX-License-Identifier: GPL-2.0-or-later */
/* s2bench: how fast images are saved and loaded, by the very code that does it, and how fast they could be at best. */
#include <config.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { REPEATS_MAX = 1000, RUNS_MAX = 4096, TEXT_MAX = 512 };
#define SYNTHETIC_MAX (64ull << 30)

struct list {
	unsigned count;
	unsigned value[LIST_MAX];
};

static struct job {
	const char *pages, *synthetic, *store, *json, *plot;
	enum synthetic_kind kind;
	bool live, save, load, no_bound, terminal;
	unsigned choices, ciphers, repeats;
	const struct cipher *cipher[CIPHER_COUNT]; /* NULL: not sealed */
	struct choice choice[LIST_MAX + 1];
	struct list threads, write_rates, read_rates;
	struct bench bench;
	struct bound bound;
	struct report report;
	struct result result[RUNS_MAX];
	struct sample *samples;
	char doing[96]; /* what progress says */
} job;

static void usage(FILE *to)
{
	fputs("Usage: s2bench [OPTION]... {--pages FILE | --synthetic BYTES[:SEED] | --live}\n"
	      "Measure how fast memory pages are saved and loaded, and how fast it could be.\n\n"
	      "      --pages FILE           pages of a file, read into memory first\n"
	      "      --synthetic BYTES[:SEED]  made-up pages, up to 64 GiB\n"
	      "      --synthetic-kind KIND  mix (default) or zero\n"
	      "      --live                 a snapshot of this machine for every run, taken and dropped again (root)\n"
	      "      --store PATH           an unused swap area, or a new file that is removed again;\n"
	      "                             (--live: swap in use); default: what is saved is thrown away\n"
	      "      --write-rate LIST      disk speeds in MB/s, 0 or unlimited = no limit (default)\n"
	      "      --read-rate LIST       the same for loading\n"
	      "  -c, --compressor LIST      auto, none, lzo, lz4[:N], zstd[:N]\n"
	      "      --cipher LIST          none (default), aes-256-ocb, aes-256-gcm, chacha20-poly1305\n"
	      "  -t, --threads LIST         threads, 0 = none beside the main one (default: the cores)\n"
	      "      --direction LIST       save (default), load\n"
	      "      --repeats N            runs of each, one after the other (default 5)\n"
	      "      --no-bound             do not measure the codecs alone first; no bound then\n"
	      "      --sleep-codec NS       also a codec that only sleeps so long a block\n"
	      "      --json FILE            the results for programs\n"
	      "      --plot FILE.svg|.png   a picture by gnuplot\n"
	      "  -h, --help  -V, --version\n\n"
	      "Lists are separated by commas.  Exit codes: s2bench(8).\n",
	      to);
}

/* ---- options ---- */

enum {
	O_PAGES = 256,
	O_SYNTHETIC,
	O_LIVE,
	O_KIND,
	O_STORE,
	O_WRITE_RATE,
	O_READ_RATE,
	O_DIRECTION,
	O_REPEATS,
	O_SLEEP,
	O_NO_BOUND,
	O_JSON,
	O_PLOT,
	O_CIPHER,
};

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"pages", required_argument, NULL, O_PAGES},
	{"synthetic", required_argument, NULL, O_SYNTHETIC},
	{"live", no_argument, NULL, O_LIVE},
	{"synthetic-kind", required_argument, NULL, O_KIND},
	{"store", required_argument, NULL, O_STORE},
	{"write-rate", required_argument, NULL, O_WRITE_RATE},
	{"read-rate", required_argument, NULL, O_READ_RATE},
	{"compressor", required_argument, NULL, 'c'},
	{"cipher", required_argument, NULL, O_CIPHER},
	{"threads", required_argument, NULL, 't'},
	{"direction", required_argument, NULL, O_DIRECTION},
	{"repeats", required_argument, NULL, O_REPEATS},
	{"sleep-codec", required_argument, NULL, O_SLEEP},
	{"no-bound", no_argument, NULL, O_NO_BOUND},
	{"json", required_argument, NULL, O_JSON},
	{"plot", required_argument, NULL, O_PLOT},
	{NULL, 0, NULL, 0},
};

/* Calls @take for every part of a comma-separated list. */
static int each(const char *option, const char *text, int (*take)(const char *option, const char *part, void *to),
		void *to)
{
	char copy[TEXT_MAX];

	if (strlen(text) >= sizeof copy)
		return fault(E_USAGE, 0, "%s: the list is too long", option);
	strcpy(copy, text);
	for (char *rest = copy, *part; (part = strsep(&rest, ","));) {
		int r = take(option, part, to);
		if (r != E_OK)
			return r;
	}
	return E_OK;
}

static int add(struct list *l, const char *option, uint64_t v)
{
	if (l->count == LIST_MAX)
		return fault(E_USAGE, 0, "%s: at most %d", option, LIST_MAX);
	for (unsigned i = 0; i < l->count; i++)
		if (l->value[i] == v)
			return E_OK;
	l->value[l->count++] = (unsigned)v;
	return E_OK;
}

static int take_rate(const char *option, const char *part, void *to)
{
	uint64_t v = 0;

	if (strcmp(part, "unlimited") && (!tool_number(part, &v) || v > RATE_MAX))
		return fault(E_USAGE, 0, "%s: `%.40s' is no whole number of MB/s up to %d", option, part, RATE_MAX);
	return add(to, option, v);
}

static int take_threads(const char *option, const char *part, void *to)
{
	uint64_t v;

	if (!tool_number(part, &v) || v > 256)
		return fault(E_USAGE, 0, "%s: `%.40s' is no number of threads up to 256", option, part);
	return add(to, option, v);
}

static int take_choice(const char *option, const char *part, void *to)
{
	struct choice c;
	int r = choice_parse(&c, part);

	(void)to;
	if (r != E_OK)
		return r;
	for (unsigned i = 0; i < job.choices; i++)
		if (job.choice[i].adapt == c.adapt && job.choice[i].codec == c.codec && job.choice[i].level == c.level)
			return E_OK;
	if (job.choices == LIST_MAX)
		return fault(E_USAGE, 0, "%s: at most %d", option, LIST_MAX);
	job.choice[job.choices++] = c;
	return E_OK;
}

static int take_cipher(const char *option, const char *part, void *to)
{
	const struct cipher *c;
	int r = cipher_parse(&c, part);

	(void)option;
	(void)to;
	for (unsigned i = 0; i < job.ciphers && r == E_OK; i++)
		if (job.cipher[i] == c)
			return E_OK;
	if (r == E_OK)
		job.cipher[job.ciphers++] = c;
	return r;
}

static int take_direction(const char *option, const char *part, void *to)
{
	(void)to;
	if (!strcmp(part, "save"))
		job.save = true;
	else if (!strcmp(part, "load"))
		job.load = true;
	else
		return fault(E_USAGE, 0, "%s: `%.40s' is neither save nor load", option, part);
	return E_OK;
}

static int take_repeats(const char *text)
{
	uint64_t v;

	if (!tool_number(text, &v) || !v || v > REPEATS_MAX)
		return fault(E_USAGE, 0, "--repeats: `%.40s' is no number from 1 to %d", text, REPEATS_MAX);
	job.repeats = (unsigned)v;
	return E_OK;
}

static int take_kind(const char *text)
{
	if (strcmp(text, "mix") && strcmp(text, "zero"))
		return fault(E_USAGE, 0, "--synthetic-kind: `%.40s' is neither mix nor zero", text);
	job.kind = strcmp(text, "zero") ? SYNTHETIC_MIX : SYNTHETIC_ZERO;
	return E_OK;
}

static int take_sleep(const char *text)
{
	uint64_t ns;

	if (!tool_number(text, &ns))
		return fault(E_USAGE, 0, "--sleep-codec: `%.40s' is no number of nanoseconds", text);
	/* Last in the list, after whatever --compressor names. */
	return choice_sleep(&job.choice[LIST_MAX], ns);
}

static int take_option(int o)
{
	switch (o) {
	case O_PAGES:
		job.pages = optarg;
		return E_OK;
	case O_SYNTHETIC:
		job.synthetic = optarg;
		return E_OK;
	case O_LIVE:
		job.live = true;
		return E_OK;
	case O_STORE:
		job.store = optarg;
		return E_OK;
	case O_JSON:
		job.json = optarg;
		return E_OK;
	case O_PLOT:
		job.plot = optarg;
		return plot_check(optarg);
	case O_NO_BOUND:
		job.no_bound = true;
		return E_OK;
	case O_KIND:
		return take_kind(optarg);
	case O_WRITE_RATE:
		return each("--write-rate", optarg, take_rate, &job.write_rates);
	case O_READ_RATE:
		return each("--read-rate", optarg, take_rate, &job.read_rates);
	case O_DIRECTION:
		return each("--direction", optarg, take_direction, NULL);
	case O_REPEATS:
		return take_repeats(optarg);
	case O_SLEEP:
		return take_sleep(optarg);
	case 'c':
		return each("--compressor", optarg, take_choice, NULL);
	case O_CIPHER:
		return each("--cipher", optarg, take_cipher, NULL);
	case 't':
		return each("--threads", optarg, take_threads, &job.threads);
	default:
		return E_USAGE;
	}
}

static int default_choices(void)
{
	static const char *const names[] = {"auto", "none", "lz4", "lzo", "zstd"};
	int r = E_OK;

	for (size_t i = 0; i < sizeof names / sizeof names[0] && r == E_OK; i++)
		if (!i || codec_built_in(codec_by_name(names[i])))
			r = take_choice("--compressor", names[i], NULL);
	return r;
}

static int complete(void)
{
	struct config defaults;
	bool sleeps = job.choice[LIST_MAX].codec;
	int r = E_OK;

	if (!!job.pages + !!job.synthetic + job.live != 1)
		return fault(E_USAGE, 0, "one of --pages, --synthetic and --live is wanted");
	if (job.live && job.load)
		return fault(E_USAGE, 0, "--live only saves: what it would load is the running machine");
	if (sleeps && job.load)
		return fault(E_USAGE, 0, "--sleep-codec cannot be loaded from");
	config_default(&defaults);
	job.save |= !job.load;
	if (!job.repeats)
		job.repeats = 5;
	if (!job.choices && !sleeps)
		r = default_choices();
	if (sleeps)
		job.choice[job.choices++] = job.choice[LIST_MAX];
	if (!job.ciphers)
		job.ciphers = 1; /* none */
	if (!job.threads.count)
		add(&job.threads, "--threads", tool_threads(&defaults));
	if (!job.write_rates.count)
		add(&job.write_rates, "--write-rate", 0);
	if (!job.read_rates.count)
		add(&job.read_rates, "--read-rate", 0);
	return r;
}

/* ---- what to run ---- */

/* One with each cipher. */
static int add_run(enum direction d, const struct choice *c, unsigned threads, unsigned write_rate, unsigned read_rate)
{
	for (unsigned i = 0; i < job.ciphers; i++) {
		if (job.report.count == RUNS_MAX)
			return fault(E_USAGE, 0, "these lists make more than %d different runs", RUNS_MAX);
		job.result[job.report.count++].run = (struct run){d, c, job.cipher[i], threads, write_rate, read_rate};
	}
	return E_OK;
}

/* How fast the disk was at saving shapes only what auto stores. */
static int add_loads(const struct choice *c, unsigned threads)
{
	unsigned images = c->adapt ? job.write_rates.count : 1;
	int r = E_OK;

	for (unsigned w = 0; w < images; w++)
		for (unsigned i = 0; i < job.read_rates.count && r == E_OK; i++)
			r = add_run(DIRECTION_LOAD, c, threads, c->adapt ? job.write_rates.value[w] : 0,
				    job.read_rates.value[i]);
	return r;
}

static int plan(void)
{
	int r = E_OK;

	for (unsigned t = 0; t < job.threads.count; t++)
		for (unsigned w = 0; w < job.write_rates.count; w++)
			for (unsigned c = 0; c < job.choices && job.save && r == E_OK; c++)
				r = add_run(DIRECTION_SAVE, &job.choice[c], job.threads.value[t],
					    job.write_rates.value[w], 0);
	for (unsigned c = 0; c < job.choices; c++)
		for (unsigned t = 0; t < job.threads.count && job.load && r == E_OK; t++)
			r = add_loads(&job.choice[c], job.threads.value[t]);
	job.samples = calloc((size_t)job.report.count * job.repeats, sizeof *job.samples);
	if (r == E_OK && !job.samples)
		r = E_MEMORY;
	for (unsigned i = 0; i < job.report.count && r == E_OK; i++)
		job.result[i].sample = &job.samples[(size_t)i * job.repeats];
	return r;
}

/* ---- pages and store ---- */

static int open_synthetic(void)
{
	char text[64];
	uint64_t bytes, seed = 1;

	snprintf(text, sizeof text, "%s", job.synthetic);
	char *colon = strchr(text, ':');
	if (colon)
		*colon = 0;
	if (!tool_number(text, &bytes) || (colon && !tool_number(colon + 1, &seed)) ||
	    strlen(job.synthetic) >= sizeof text)
		return fault(E_USAGE, 0, "--synthetic: `%.40s' is no number of bytes, or that and a seed",
			     job.synthetic);
	if (bytes > SYNTHETIC_MAX)
		return fault(E_USAGE, 0, "--synthetic: at most %llu bytes", SYNTHETIC_MAX);
	return input_open_synthetic(&job.bench.input, bytes, seed, job.kind);
}

static int open_live(void)
{
	struct bench *b = &job.bench;
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	int r = store_open(&b->store, NULL, ram, (uint32_t)sysconf(_SC_PAGESIZE), false);

	if (r == E_OK)
		r = copy_sink_open(&b->sink);
	if (r == E_OK)
		r = live_open(b, job.store);
	return r == E_OK ? E_OK : log_fault(r, job.store ? job.store : "snapshot");
}

static int open_ends(void)
{
	struct bench *b = &job.bench;

	if (job.live)
		return open_live();
	int r = job.pages ? input_open_file(&b->input, job.pages) : open_synthetic();
	if (r != E_OK)
		return log_fault(r, job.pages ? job.pages : "pages");
	r = store_open(&b->store, job.store, b->input.bytes, b->input.page_size, job.load);
	if (r != E_OK)
		return log_fault(r, job.store ? job.store : "store");
	r = copy_sink_open(&b->sink);
	return r == E_OK ? E_OK : log_fault(r, "memory");
}

static void close_ends(void)
{
	struct bench *b = &job.bench;

	live_close(b);
	seal_close(&b->opened);
	copy_sink_close(&b->sink);
	store_close(&b->store);
	input_close(&b->input);
	arena_close(&b->arena);
	free(job.samples);
}

/* ---- running ---- */

static int show_progress(void *ctx, const struct save_progress *p)
{
	(void)ctx;
	if (job.terminal)
		fprintf(stderr, "\r%s %3.0f %%\033[K", job.doing,
			p->total ? 100. * (double)p->raw / (double)p->total : 100);
	return E_OK;
}

static void end_progress(void)
{
	if (job.terminal)
		fputs("\r\033[K", stderr);
}

static int run_one(unsigned round, unsigned i)
{
	const struct run *run = &job.result[i].run;
	unsigned rate = run->direction == DIRECTION_SAVE ? run->write_rate : run->read_rate;

	snprintf(job.doing, sizeof job.doing, "run %u of %u: %s %s%s%s, %u threads, %u MB/s",
		 round * job.report.count + i + 1, job.repeats * job.report.count,
		 run->direction == DIRECTION_SAVE ? "save" : "load", run->choice->name, run->cipher ? " " : "",
		 run->cipher ? run->cipher->name : "", run->threads, rate);
	if (job.live && job.terminal)
		fprintf(stderr, "\r%s\033[K", job.doing); /* its reader stands still as soon as the run begins */
	return run_once(&job.bench, run, &job.result[i].sample[round]);
}

/* All of them once, then again: what else the machine does meets all alike. */
static int run_all(void)
{
	struct sample ignored;
	int r;

	snprintf(job.doing, sizeof job.doing, "warming up");
	r = job.live ? E_OK : run_once(&job.bench, &job.result[0].run, &ignored);
	for (unsigned round = 0; round < job.repeats; round++)
		for (unsigned i = 0; i < job.report.count && r == E_OK; i++)
			r = run_one(round, i);
	end_progress();
	return r == E_OK ? E_OK : log_fault(r, "run");
}

static void finish_results(void)
{
	for (unsigned i = 0; i < job.report.count; i++) {
		struct result *x = &job.result[i];
		result_finish(x, job.repeats);
		if (job.no_bound)
			continue;
		x->bound = x->run.direction == DIRECTION_SAVE ? bound_save(&job.bound, &x->run)
							      : bound_load(&job.bound, &x->run, &x->sample[0]);
	}
}

static int report(void)
{
	int r = E_OK;

	finish_results();
	report_head(&job.report);
	report_table(&job.report);
	if (job.json)
		r = report_json(&job.report, job.json);
	if (r == E_OK && job.plot)
		r = plot_report(&job.report, job.plot);
	if (r != E_OK)
		return log_fault(r, "results");
	return fflush(stdout) || ferror(stdout) ? log_fault(E_IO, "standard output") : E_OK;
}

static int measure_bound(void)
{
	if (job.no_bound)
		return E_OK;
	if (job.terminal)
		fputs("measuring each codec alone\033[K", stderr);
	int r = bound_measure(&job.bound, &job.bench, job.choice, job.choices);
	if (r == E_OK)
		r = cipher_measure(&job.bound, job.cipher, job.ciphers);
	end_progress();
	return r == E_OK ? E_OK : log_fault(r, "codecs");
}

static int measure(void)
{
	int r = open_ends();

	if (r != E_OK)
		return r;
	job.report.input = &job.bench.input;
	job.report.bound = &job.bound;
	job.bound.cores = bound_cores();
	job.report.repeats = job.repeats;
	job.report.result = job.result;
	job.report.store = job.store ? job.store : "none";
	job.terminal = isatty(STDERR_FILENO);
	job.bench.tick = show_progress;
	/* Before and after: what is a bound should not hang on one bad moment. */
	r = measure_bound();
	if (r == E_OK)
		r = run_all();
	if (r == E_OK)
		r = measure_bound();
	return r == E_OK ? report() : r;
}

int main(int argc, char **argv)
{
	int o, r = E_OK;

	tool_start("s2bench");
	job.bench.store.target.fd = -1;
	while (r == E_OK && (o = getopt_long(argc, argv, "hVc:t:", options, NULL)) != -1) {
		if (o == 'h')
			return usage(stdout), fflush(stdout) ? E_IO : E_OK;
		if (o == 'V')
			return tool_version("s2bench");
		r = take_option(o);
	}
	if (r == E_OK && optind < argc)
		r = fault(E_USAGE, 0, "`%s': s2bench takes options only", argv[optind]);
	if (r == E_OK)
		r = complete();
	if (r == E_OK)
		r = plan();
	if (r != E_OK)
		return fault_text()[0] ? log_fault(r, "command line") : r;
	/* A paced disk and a sleeping codec are to wake when they say. */
	prctl(PR_SET_TIMERSLACK, 1ul);
	r = measure();
	close_ends();
	return r;
}
