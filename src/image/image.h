/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An image that stands on an area: found, described, given up. */
#ifndef DORMOUSE_IMAGE_IMAGE_H
#define DORMOUSE_IMAGE_IMAGE_H

#include "image/format.h"
#include "image/mark.h"

enum { IMAGE_SCRATCH = HEADER_PAGES_MAX * RECORD_PAGE };

struct image {
	struct disk *disk;
	uint64_t area_start; /* bytes */
	uint8_t *scratch;    /* IMAGE_SCRATCH bytes aligned to DISK_UNIT, the caller's */
	struct mark mark;
	bool header_whole; /* header and fingerprints hold and name this area */
	struct header header;
	struct state state;
	struct trailer trailer; /* after image_read_trailer() */
	struct fingerprint fingerprint[FINGERPRINTS_MAX];
};

/*
 * Looks at the area.  E_OK: mark, header, fingerprints and state are read.
 * E_NOIMAGE: swap or nothing; E_FOREIGN: another program's image; E_CORRUPT,
 * E_UNSUPPORTED, E_IO.  im->mark says what was seen in every case but E_IO.
 * @im and @scratch are the caller's and stay in use.
 */
int image_open(struct image *im, struct disk *disk, uint64_t area_start, uint8_t *scratch);

int image_read_trailer(struct image *im);

/* Writes the mutable sector and syncs. */
int image_write_state(struct image *im);

/* True when the swap signature may be put back: the mark holds, or the header proves whose area this is. */
bool image_is_ours(const struct image *im);

/* Puts the swap signature back; if that fails, marks the image passed over.  The first failure's code. */
int image_discard(struct image *im);

#endif
