/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of s2bench: pages in, a store out, the run between them, what it could have been at best, the report. */
#ifndef DORMOUSE_TOOLS_BENCH_H
#define DORMOUSE_TOOLS_BENCH_H

#include "base/arena.h"
#include "image/image.h"
#include "image/load.h"
#include "image/save.h"
#include "image/seal.h"
#include "tools/tool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIST_MAX = 32, RATE_MAX = 1000000 /* MB/s */, CODEC_SLEEP = CODECS_MAX - 1 };

/* ---- pages (bench-input.c) ---- */

enum synthetic_kind { SYNTHETIC_MIX, SYNTHETIC_ZERO };

struct input {
	const char *name;
	uint64_t bytes;
	uint32_t page_size;
	uint8_t *memory; /* all of the pages, or the pool that made-up ones are drawn from */
	uint64_t size;	 /* of it */
	bool synthetic;
	uint64_t seed;
};

/* Reads the whole file at @path into memory. */
int input_open_file(struct input *in, const char *path);
/* @bytes of made-up pages, the same for the same @seed; takes constant memory. */
int input_open_synthetic(struct input *in, uint64_t bytes, uint64_t seed, enum synthetic_kind kind);
void input_close(struct input *in);

struct input_source {
	struct page_source source;
	const struct input *input;
	uint64_t at; /* bytes */
	uint64_t ns; /* time taken so far */
};

void input_source_open(struct input_source *s, const struct input *in);

/* Where a load's pages go: into memory that is written over and over, larger than any cache. */
struct copy_sink {
	struct page_sink sink;
	uint8_t *memory;
	uint64_t size, at, ns;
};

int copy_sink_open(struct copy_sink *s);
void copy_sink_close(struct copy_sink *s);

/* ---- where the image goes (bench-store.c) ---- */

/*
 * A disk that is no faster than its rates: a request is done max(now, last
 * done) + bytes / rate after it was made, if the disk below is done with it
 * too, and requests are done in order.
 */
struct paced_io {
	struct disk_io *outer, inner;
	uint64_t done; /* ns */
};

struct paced_disk {
	struct disk disk;
	struct disk *below;
	unsigned rate[2]; /* MB/s of reads and writes, 0 = no limit */
	uint64_t last;	  /* ns: when the last request made will be done */
	uint64_t waited;  /* ns spent waiting for requests */
	struct paced_io *queue;
	unsigned first, count;
};

int paced_open(struct paced_disk *p);
void paced_close(struct paced_disk *p);
void paced_start(struct paced_disk *p, struct disk *below, unsigned read_rate, unsigned write_rate);

struct store {
	struct disk null;   /* forgets what it is given */
	struct disk memory; /* keeps it */
	uint8_t *kept;
	struct target target;
	uint64_t start, end;	  /* pages an image may lie on */
	struct disk *save, *load; /* where measured saves go, where images to load lie */
	struct paced_disk paced;
};

/*
 * The null store when @path is NULL, then with memory for a whole image if @keep; else a device, which must be a swap
 * area that nobody uses, or a new file.  Nothing is ever marked: swap stays swap.
 */
int store_open(struct store *s, const char *path, uint64_t raw, uint32_t page_size, bool keep);
void store_close(struct store *s);

/* The store's pages in order. */
struct store_pages {
	struct swap_pages pages;
	uint64_t next, end;
	uint32_t page_size;
};

void store_pages_open(struct store_pages *p, const struct store *s, uint32_t page_size);

/* ---- codecs (bench-codec.c) ---- */

/* One entry of --compressor. */
struct choice {
	char name[24];
	bool adapt;
	const struct codec *codec; /* NULL when adapt */
	int level;
};

int choice_parse(struct choice *c, const char *text);
/* Work of a given length that needs no core: every block takes @ns and shrinks to a quarter. */
int choice_sleep(struct choice *c, uint64_t ns);

/* ---- one run (bench-run.c) ---- */

enum direction { DIRECTION_SAVE, DIRECTION_LOAD };

struct run {
	enum direction direction;
	const struct choice *choice;
	const struct cipher *cipher; /* NULL: not sealed */
	unsigned threads;
	unsigned write_rate, read_rate; /* MB/s, 0 = no limit */
};

struct sample {
	double seconds, cpu, fill, wait; /* fill: taking pages in (save) or giving them out (load) */
	double rate;			 /* MB/s; set by result_finish() */
	uint64_t raw, stored;
	uint64_t codec_raw[CODECS_MAX];
	unsigned threads; /* that there was memory for */
};

struct live;

struct bench {
	struct input input;
	struct live *live; /* a snapshot of this machine is taken for every save, instead of input; else NULL */
	struct store store;
	struct copy_sink sink;
	struct arena arena;
	/* The image that lies in store.load: */
	struct image image;
	struct run loadable;
	struct seal seal, opened;
	int (*tick)(void *ctx, const struct save_progress *p);
};

int run_once(struct bench *b, const struct run *r, struct sample *out);
/* What one run makes of its options: a save with memory from b->arena, @extra bytes more in it. */
int run_ready_save(struct bench *b, const struct run *r, uint32_t page_size, size_t extra, struct save_options *o,
		   struct save **s);
/* Processor seconds of this process so far. */
double run_cpu_now(void);

/* ---- the running machine (bench-live.c) ---- */

/*
 * Opens /dev/snapshot and, unless @area is NULL, the swap area to save to: a
 * device or swap file that is in use.  The first snapshot is taken at once and
 * blocks spread over it become b->input, to measure the codecs on.  Root.
 * Nothing is ever marked, and the machine goes on after every snapshot.
 * b->store must be open, with room for all of RAM.
 */
int live_open(struct bench *b, const char *area);
void live_close(struct bench *b);
/* One snapshot, saved as @r says. */
int live_once(struct bench *b, const struct run *r, struct sample *out);

/* ---- ciphers (bench-seal.c) ---- */

/* NULL for "none". */
int cipher_parse(const struct cipher **c, const char *text);
/* A seal for a key that is no secret, and what opens the image that @h belongs to. */
int bench_seal(struct seal *s, const struct cipher *c, unsigned threads);
int bench_unseal(struct seal *s, const struct header *h);

/* ---- the best there could be (bench-bound.c) ---- */

enum { ALONE_MAX = ADAPT_RUNGS_MAX + LIST_MAX + 2 };

/* A codec by itself: processor seconds a raw byte for reading and packing, for checking and expanding; raw/stored. */
struct alone {
	struct choice choice;
	double pack, unpack, ratio;
	double spent; /* seconds measured so far */
};

/* A cipher by itself, in processor seconds a stored byte; and the check that stands there without one. */
struct cipher_alone {
	const struct cipher *cipher;
	double seal, open, check;
};

struct bound {
	unsigned ciphers;
	struct cipher_alone cipher[CIPHER_COUNT];
	unsigned count, cores;
	struct alone alone[ALONE_MAX];
	double copy; /* seconds a byte for memcpy from the pages, past the caches, on one core; a load's sink */
};

/* The cores this process may run on. */
unsigned bound_cores(void);
/* Measures each rung of auto, lzo and @choices; called again, it keeps what was fastest. */
int bound_measure(struct bound *bound, struct bench *b, const struct choice *choices, unsigned n);
/* Measures those of @list that are none NULL; again keeps what was fastest. */
int cipher_measure(struct bound *bound, const struct cipher *const *list, unsigned n);
/* Processor seconds a stored byte that @c adds; 0 for NULL. */
double cipher_cost(const struct bound *b, const struct cipher *c, enum direction d);
/* The most MB/s that any mix of those codecs gives on so many threads and such a disk. */
double bound_save(const struct bound *b, const struct run *r);
/* The same for loading what @s says was stored. */
double bound_load(const struct bound *b, const struct run *r, const struct sample *s);

/* ---- what is said (bench-report.c, bench-plot.c) ---- */

struct result {
	struct run run;
	struct sample *sample; /* one a repetition */
	double bound;	       /* MB/s */
	/* Set by result_finish(): */
	double seconds, rate, rate_min, rate_max, cpu, fill, wait, raw, stored;
};

struct report {
	const struct input *input;
	const struct bound *bound;
	const char *store;
	unsigned repeats, count;
	struct result *result;
};

void result_finish(struct result *r, unsigned repeats);
/* True when the two were measured under the same conditions. */
bool result_beside(const struct result *a, const struct result *b);
void report_head(const struct report *r);
void report_table(const struct report *r);
int report_json(const struct report *r, const char *path);

/* E_USAGE when @path is no .svg or .png, or gnuplot is missing. */
int plot_check(const char *path);
/* Rates over the disk's speed, and beside it NAME-threads over the threads when there are several. */
int plot_report(const struct report *r, const char *path);

#endif
