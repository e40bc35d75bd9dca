/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sequence of a save, from FREEZE to the power switch, and of a restore,
 * over whatever kernel and disk it is given.  doc/image-format.md, "Order of a
 * save" and "Outcomes", is what it follows.
 */
#ifndef DORMOUSE_SYSTEM_HIBERNATE_H
#define DORMOUSE_SYSTEM_HIBERNATE_H

#include "image/image.h"
#include "image/load.h"
#include "image/save.h"
#include "system/kernel.h"

/* What it tells while it works.  The receiver may not block: tasks are frozen. */
enum hibernate_event {
	EVENT_FROZEN,
	EVENT_SMALLER,	  /* the kernel had no memory for the image; a: size tried next, bytes */
	EVENT_SMALLEST,	  /* swap was too small; once more with the smallest image */
	EVENT_IMAGE,	  /* a: raw bytes */
	EVENT_SAVED,	  /* a: raw bytes, b: stored bytes */
	EVENT_MARKED,	  /* from here there is an image */
	EVENT_AWAKE,	  /* suspended to RAM and woken */
	EVENT_RAM_FAIL,	  /* a: errno of the suspend to RAM; the machine is powered off instead */
	EVENT_WOKEN,	  /* power-off was refused by a wake-up event */
	EVENT_POWER_FAIL, /* a: errno of the power-off */
	EVENT_STUCK,	  /* switch off by hand */
	EVENT_RESTORED,
	EVENT_KEY_LEFT, /* the wrapped key of a sealed image could not be overwritten */
};

#define IMAGE_SIZE_UNKNOWN UINT64_MAX

struct hibernate {
	/* Set by the caller, all of it in memory that stays and was touched. */
	struct kernel *kernel;
	struct disk *disk;
	struct save *save;
	struct seal *seal;		     /* prepared before (key.h), or NULL: not sealed */
	struct image *image;		     /* room for what is read back after the restore */
	uint64_t device;		     /* number of the target's device; 0 with @swap: no area at all */
	uint64_t area_start;		     /* bytes */
	uint8_t *scratch;		     /* IMAGE_SCRATCH, aligned */
	struct header header;		     /* release, machine, sizes, UUID, installation, shutdown ... */
	bool to_ram;			     /* suspend to RAM when saved, instead of powering off */
	bool set_size;			     /* ask for image_size, else leave the kernel's */
	uint64_t image_size, old_image_size; /* bytes; old: /sys/power/image_size before,
					      * IMAGE_SIZE_UNKNOWN leaves it alone after */
	/* Fills at most FINGERPRINTS_MAX and the count, after CREATE_IMAGE. */
	int (*fingerprints)(void *ctx, struct fingerprint *out, uint32_t *n);
	struct fingerprint *fingerprint;
	/* E_ABORTED when the save is to be given up; asked until the mark is set. */
	int (*tick)(void *ctx, const struct save_progress *p);
	void (*event)(void *ctx, enum hibernate_event e, uint64_t a, uint64_t b);
	void (*random)(void *ctx, id128 *out);
	uint64_t (*now)(void *ctx); /* seconds since 1970 */
	void *ctx;
	/*
	 * To measure: save, but set no mark and let the machine go on.  With
	 * @swap it says where to save on @disk, else the area's pages are used.
	 */
	bool measure;
	struct swap_pages *swap;
	/* Results: */
	bool restored;	    /* this is the restored system */
	bool awake;	    /* suspended to RAM and woken: the image was not needed */
	bool statistics;    /* image->trailer and image->state were read back */
	uint64_t key_place; /* bytes on the disk: where the wrapped key of a sealed image may lie; 0: nowhere */
	uint64_t largest;   /* raw bytes of the largest image tried */
};

/*
 * Freezes, saves, powers off or suspends to RAM.  Returns E_OK in the restored
 * or woken system (or, when measuring, after the save), or the code of what went
 * wrong; in all cases everything was given back and tasks run.  It does not
 * return while a signature may stand on the disk.
 */
int hibernate(struct hibernate *h);

/*
 * The last step of a load, after load_run() was E_OK: platform support, FREEZE,
 * ATOMIC_RESTORE.  Returns only when that failed, tasks thawed only after
 * @give_up() has run: E_FREEZE or E_RESTORE.
 */
int restore(struct kernel *k, const struct header *h, void (*give_up)(void *ctx), void *ctx);

/* /dev/snapshot's end of the stream: pages by readv and writev in batches. */
struct kernel_source {
	struct page_source source;
	struct kernel *kernel;
	uint32_t page_size;
};
struct kernel_sink {
	struct page_sink sink;
	struct kernel *kernel;
	uint32_t page_size;
};
struct kernel_swap {
	struct swap_pages pages;
	struct kernel *kernel;
};
void kernel_source_open(struct kernel_source *s, struct kernel *k, uint32_t page_size);
void kernel_sink_open(struct kernel_sink *s, struct kernel *k, uint32_t page_size);
void kernel_swap_open(struct kernel_swap *s, struct kernel *k);

#endif
