/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The area's first page: swap header and mark (doc/image-format.md, section 1).
 * The pure half works on the page's first and last 4096 bytes; the other half
 * reads and writes them on a disk, past the page cache.
 */
#ifndef DORMOUSE_IMAGE_MARK_H
#define DORMOUSE_IMAGE_MARK_H

#include "base/disk.h"
#include "image/format.h"

enum mark_kind {
	MARK_NONE,	    /* neither swap nor image: not a swap area */
	MARK_SWAP,	    /* plain swap, SWAPSPACE2 */
	MARK_OLD_SWAP,	    /* SWAP-SPACE, which nothing today writes */
	MARK_OURS,	    /* an image of ours, the mark's check holds */
	MARK_DAMAGED,	    /* says DORMOUSE, but the check does not hold */
	MARK_USWSUSP,	    /* a genuine uswsusp image */
	MARK_KERNEL,	    /* the kernel's own image, S1SUSPEND */
	MARK_OTHER_SUSPEND, /* another program's suspend signature (S2SUSPEND, LINHIB0001, TuxOnIce) */
};

struct mark {
	enum mark_kind kind;
	uint32_t page_size; /* where the signature was found */
	bool swap_header;   /* version 1, sane, so that UUID, label and last page count */
	bool room;	    /* no bad page entry reaches into the mark */
	id128 swap_uuid;
	char label[17];
	uint32_t last_page;
	/* for MARK_OURS and MARK_DAMAGED: */
	id128 image, installation;
	uint64_t place;
	bool saved_swap_signature;
};

/* Reads the first page at @area_start.  @scratch: 2 * 4096 bytes, aligned.  E_OK or E_IO. */
int mark_read(struct disk *d, uint64_t area_start, void *scratch, struct mark *m);

/*
 * Marks the area, which must be MARK_SWAP of @page_size with room, else
 * E_FOREIGN and nothing written.  Syncs.  When writing or syncing fails the
 * old bytes are written again and synced: E_IO means that they are back,
 * E_POWER that nobody knows what stands there.
 */
int mark_set(struct disk *d, uint64_t area_start, uint32_t page_size, void *scratch, id128 image, id128 installation,
	     uint64_t place);

/*
 * Puts the swap signature back and syncs.  Only for MARK_OURS with that image
 * id, or MARK_DAMAGED when @header_proves (the fixed header at its place is
 * whole and names the area's UUID); else E_FOREIGN and nothing written.  An
 * area that is plain swap already is E_OK.
 */
int mark_clear(struct disk *d, uint64_t area_start, void *scratch, id128 image, bool header_proves);

#endif
