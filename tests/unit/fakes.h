/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What unit tests run on in place of a device, a kernel and a machine full of pages. */
#ifndef DORMOUSE_TESTS_FAKES_H
#define DORMOUSE_TESTS_FAKES_H

#include "base/arena.h"
#include "base/disk.h"
#include "image/image.h"
#include "image/load.h"
#include "image/save.h"
#include "image/seal.h"
#include "system/kernel.h"

#include <check.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* An assertion for loops: those of libcheck write to a file each time. */
#define must(e) ((e) ? (void)0 : ck_abort_msg("'%s' does not hold", #e))

/* Pseudo-random numbers, the same on every machine; @state is never zero afterwards. */
uint64_t fake_random(uint64_t *state);
/* One clock for all that is logged, so that a disk's and a kernel's logs can be told in order. */
unsigned fake_now(void);
/* @n bytes aligned to 4096, zero; given back with free(). */
void *fake_memory(size_t n);

/* ---- memory disk ---- */

/* FAKE_ANY: reads, writes and syncs counted together.  A request counts when it finishes. */
enum fake_op { FAKE_READ, FAKE_WRITE, FAKE_SYNC, FAKE_SUBMIT, FAKE_OPS, FAKE_ANY = FAKE_OPS };

enum { FAKE_FOR_GOOD = 1 << 30, FAKE_FAULTS = 4 };

/* From the @nth matching operation on (from 1), @times operations fail. */
struct fake_fault {
	enum fake_op op;
	unsigned nth, times; /* nth 0: no fault */
	int error;	     /* errno value */
	uint32_t moved;	     /* bytes moved in spite of it; of submits: requests started, but never all */
	uint64_t from, to;   /* only requests that touch these bytes; to 0: all */
	unsigned seen;
};

struct fake_entry {
	unsigned at; /* fake_now() */
	bool write;  /* else a sync */
	bool failed; /* an error was reported */
	uint64_t offset;
	uint32_t length, moved; /* moved: bytes that arrived */
	uint8_t *bytes;		/* when fake_disk.keep is set */
};

struct fake_disk {
	struct disk disk;
	uint8_t *bytes;
	uint64_t mapped;
	uint64_t async; /* random state; 0: requests finish in submit */
	struct disk_io **pending;
	unsigned pending_count, pending_room, pending_most;
	struct fake_fault fault[FAKE_FAULTS];
	unsigned count[FAKE_OPS + 1]; /* operations so far */
	struct fake_entry *log;	      /* writes and syncs */
	unsigned log_count, log_room;
	bool keep;	      /* writes' bytes in the log */
	unsigned answers;     /* after so many operations it never answers again; 0: always */
	unsigned owed;	      /* requests that it will never answer */
	unsigned early_syncs; /* syncs while writes were under way */
	uint64_t read_bytes, written_bytes;
	atomic_int inside, raced; /* two threads at once */
};

void fake_disk_open(struct fake_disk *d, uint64_t size);
void fake_disk_close(struct fake_disk *d);
/* Requests finish in reap only, out of order. */
void fake_disk_make_async(struct fake_disk *d, uint64_t seed);
void fake_disk_fail(struct fake_disk *d, struct fake_fault f);
/* No faults, no log, counters zero; it answers. */
void fake_disk_forget(struct fake_disk *d);
/* Log entries before @end that may not be durable begin here: behind the last good sync. */
unsigned fake_disk_durable(const struct fake_disk *d, unsigned end);

/* What mkswap writes, with rubbish where it writes nothing, to see that it stays. */
void fake_mkswap(uint8_t *page, uint32_t page_size, id128 uuid, uint32_t last_page);

/* ---- swap pages ---- */

enum fake_layout {
	LAYOUT_RUN,	/* ascending, one run */
	LAYOUT_SPREAD,	/* as on a non-rotational disk: 512 pages, each 16384 pages after the last, wrapping */
	LAYOUT_SINGLES, /* every second page, shuffled */
	LAYOUT_COUNT,
};

struct fake_swap {
	struct swap_pages pages;
	enum fake_layout layout;
	uint32_t page_size;
	uint64_t start; /* bytes: the area; its first page is never given */
	uint64_t area;	/* pages in the area */
	uint64_t count; /* pages given at most */
	uint64_t given;
	uint32_t *order;	   /* LAYOUT_SINGLES */
	unsigned takes, fail_take; /* the take that gives E_SNAPSHOT; 0: none */
};

void fake_swap_open(struct fake_swap *s, enum fake_layout layout, uint32_t page_size, uint64_t start, uint64_t area);
void fake_swap_close(struct fake_swap *s);
/* The next place; false when the area is full. */
bool fake_swap_next(struct fake_swap *s, uint64_t *place);
/* The @n-th place that was or will be given. */
uint64_t fake_swap_place(const struct fake_swap *s, uint64_t n);

/* ---- pages ---- */

enum fake_content { CONTENT_ZERO, CONTENT_TEXT, CONTENT_RANDOM, CONTENT_MIXED, CONTENT_FILE, CONTENT_COUNT };

/* Page @number of an image: always the same for the same arguments.  CONTENT_FILE repeats this program's own file. */
void fake_page(uint8_t *out, uint32_t page_size, enum fake_content c, uint64_t seed, uint64_t number);

struct fake_source {
	struct page_source source;
	uint32_t page_size;
	enum fake_content content;
	uint64_t seed, at; /* at: pages given */
	uint64_t fail_at;  /* page where it gives E_SNAPSHOT; 0: never */
};

struct fake_sink {
	struct page_sink sink;
	uint32_t page_size;
	enum fake_content content;
	uint64_t seed, at;
	uint64_t wrong; /* pages that are not what they should be */
	uint64_t hash;	/* over all pages */
	uint8_t *page;
	uint64_t fail_at; /* page where it gives E_RESTORE */
};

void fake_source_open(struct fake_source *s, uint32_t page_size, enum fake_content c, uint64_t seed);
void fake_sink_open(struct fake_sink *s, uint32_t page_size, enum fake_content c, uint64_t seed);
void fake_sink_close(struct fake_sink *s);

/* ---- kernel ---- */

enum { FAKE_READV = KERNEL_CALLS, FAKE_WRITEV, FAKE_CALLS, FAKE_EVERY = FAKE_CALLS };

struct fake_call {
	unsigned at; /* fake_now() */
	int call;    /* enum kernel_call, FAKE_READV or FAKE_WRITEV */
	uint64_t in;
	int result; /* errno value */
};

/* From the @nth call of @call on, counted from 1, @times calls give @error. */
struct fake_refusal {
	int call; /* FAKE_EVERY: all together */
	unsigned nth, times;
	int error;
	unsigned seen;
};

struct fake_kernel {
	struct kernel kernel;
	/* Its image: */
	uint32_t page_size;
	enum fake_content content;
	uint64_t seed;
	uint64_t most, least;  /* pages of an image of any size, and of the smallest */
	uint64_t memory;       /* pages above which CREATE_IMAGE gives ENOMEM */
	bool restored;	       /* CREATE_IMAGE says 0 */
	bool power_lost;       /* while suspended to RAM */
	uint32_t read_at_most; /* pages a readv; 0: all asked for */
	bool interrupted;      /* every second readv and writev gives EINTR first */
	struct fake_swap *swap;
	/* Its state: */
	bool frozen, image, area_set, platform, loading;
	pthread_t freezer;
	uint64_t pages, at; /* of the image there is; at: handed over or taken */
	uint64_t wrong;	    /* pages taken by writev that are not the image's */
	uint64_t pref_size; /* image_size; put to what it was before at the start */
	uint64_t swap_pages;
	unsigned thaws; /* UNFREEZE that thawed */
	unsigned pauses, hours, hours_most;
	/* What happened: */
	struct fake_call *log;
	unsigned log_count, log_room, count[FAKE_CALLS + 1];
	struct fake_refusal refusal[FAKE_FAULTS];
	atomic_int raced;   /* calls that found another thread inside */
	const char *broken; /* a rule of the kernel that was not kept */
	/* Called first in every call. */
	void (*watch)(void *ctx, int call);
	void *watch_ctx;
	/* Power off, reboot and a restore that works end here: longjmp with the call. */
	jmp_buf off;
	bool armed;
	uint64_t off_in;
	pthread_mutex_t lock;
};

void fake_kernel_open(struct fake_kernel *k, uint32_t page_size, struct fake_swap *swap);
void fake_kernel_close(struct fake_kernel *k);
void fake_kernel_refuse(struct fake_kernel *k, struct fake_refusal f);
/* The index in the log of the @nth such call (from 1), or -1. */
int fake_kernel_find(const struct fake_kernel *k, int call, unsigned nth);
const char *fake_call_name(int call);

/* ---- an area, a save and a load on it ---- */

struct rig_options {
	uint32_t page_size, block_size; /* 0: 4096, 256 KiB */
	unsigned threads, load_threads;
	const struct codec *codec; /* NULL: none */
	bool adapt;
	int level;
	enum fake_layout layout;
	enum fake_content content;
	uint64_t seed, pages;
	uint64_t area_start, area_pages; /* area_pages 0: 2 GiB, 256 MiB of singles */
	uint64_t async;
	bool timed; /* not reproducible */
	uint32_t fingerprints;
	uint8_t id;		    /* first byte of the image's id; 0: 0x11 */
	const struct recipient *to; /* sealed for it, or NULL */
	struct bytes key;	    /* what opens it: a key file's bytes, or: */
	const char *passphrase;
};

struct rig {
	struct rig_options o;
	struct fake_disk disk;
	struct fake_swap swap;
	struct fake_source source;
	struct fake_sink sink;
	struct arena save_arena, load_arena;
	struct save *save;
	struct load *load;
	struct header header;
	struct fingerprint *fingerprint;
	struct image image;
	uint8_t *scratch, *original; /* original: the area's first page */
	uint64_t raw;		     /* bytes */
	int (*tick)(void *ctx, const struct save_progress *p);
	struct seal seal, opened; /* opened: as long as the header is the same */
};

void rig_open(struct rig *r, const struct rig_options *o);
void rig_close(struct rig *r);
/* save_run with fresh source, swap pages and header. */
int rig_save_run(struct rig *r);
int rig_mark(struct rig *r);
/* Both. */
int rig_save(struct rig *r);
/* image_open, the seal if there is one, image_read_trailer, load_run into a fresh sink. */
int rig_load(struct rig *r);
/* The sink got the exact image. */
bool rig_same(const struct rig *r);
/* mark_read: what the area's first page says. */
enum mark_kind rig_kind(struct rig *r);

#endif
