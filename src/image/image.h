/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An image that stands on an area: found, described, given up. */
#ifndef DORMOUSE_IMAGE_IMAGE_H
#define DORMOUSE_IMAGE_IMAGE_H

#include "image/format.h"
#include "image/mark.h"

enum { IMAGE_SCRATCH = HEADER_PAGES_MAX * RECORD_PAGE };

struct seal;

struct image {
	struct disk *disk;
	uint64_t area_start; /* bytes */
	uint8_t *scratch;    /* IMAGE_SCRATCH bytes aligned to DISK_UNIT, the caller's */
	struct mark mark;
	bool header_whole; /* header and fingerprints hold and name this area */
	struct header header;
	struct state state;
	struct trailer trailer; /* after image_read_trailer() */
	struct seal *seal;	/* after image_unseal(), the caller's */
	bool key_left;		/* image_discard() could not overwrite the wrapped key */
	struct fingerprint fingerprint[FINGERPRINTS_MAX];
};

/*
 * Looks at the area.  E_OK: mark, header, fingerprints and state are read.
 * E_NOIMAGE: swap or nothing; E_FOREIGN: another program's image; E_CORRUPT,
 * E_UNSUPPORTED, E_IO.  im->mark says what was seen in every case but E_IO.
 * @im and @scratch are the caller's and stay in use.
 */
int image_open(struct image *im, struct disk *disk, uint64_t area_start, uint8_t *scratch);

/* For a look: what a sealed image's trailer says is not to be believed before image_unseal(). */
int image_read_trailer(struct image *im);

/* Reads the trailer of a sealed image and authenticates it; load_run() will use @s, which stays the caller's. */
int image_unseal(struct image *im, struct seal *s);

/* Writes the mutable sector and syncs. */
int image_write_state(struct image *im);

/* True when the swap signature may be put back: the mark holds, or the header proves whose area this is. */
bool image_is_ours(const struct image *im);

/*
 * Puts the swap signature back; if that fails, marks the image passed over.
 * The first failure's code.  The wrapped key of a sealed image is overwritten
 * once the signature is back; if only that fails it is E_OK and key_left.
 */
int image_discard(struct image *im);

/*
 * Overwrites page 0 of a sealed image's fixed header, the wrapped key in it, and
 * syncs: once the mark is gone, while the page is nobody else's yet.
 */
int image_drop_key(struct disk *disk, uint64_t place, uint8_t *scratch);

#endif
