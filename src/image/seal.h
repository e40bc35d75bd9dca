/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One sealed image's contexts: blocks, closing record and trailer under the
 * image's key (doc/image-format.md, "Sealed images").
 *
 * Saving: key.h.  Opening, by resume and by s2image, never while frozen:
 *
 *	image_open(&im, ...);            E_OK, and header.features says FEATURE_SEALED
 *	seal_open_passphrase(&seal, &im.header, text, n);   E_KEY: ask again.  Or: seal_open_key_file()
 *	image_unseal(&im, &seal);        reads and authenticates the trailer, in place of image_read_trailer()
 *	... attempts ... load_run(...)   as ever: it finds the seal in the image; refuses one that is not unsealed
 *	seal_close(&seal); pool_close(); then arena_wipe(), before ATOMIC_RESTORE
 *
 * im.header.slot.mode says before that what to ask for.  The trailer may be
 * read with image_read_trailer() earlier, for a look: nothing in it is to be
 * believed then.
 */
#ifndef DORMOUSE_IMAGE_SEAL_H
#define DORMOUSE_IMAGE_SEAL_H

#include "image/key.h"
#include "image/pipeline.h"

enum { SEAL_CONTEXTS = PIPELINE_THREADS_MAX + 1 };

struct seal {
	const struct cipher *cipher;
	struct recipient to;		     /* saving */
	uint8_t key[CRYPT_KEY];		     /* opening; zeros when saving */
	uint8_t header[CRYPT_HASH];	     /* BLAKE2b over the fixed header's pages */
	unsigned contexts;		     /* opened */
	struct aead *context[SEAL_CONTEXTS]; /* one a worker, the last for the records */
	struct hash *extents;		     /* over the extent pages, by who reads or writes them */
};

/* Takes all memory for sealing with @threads workers, before FREEZE.  @s may hold anything. */
int seal_prepare(struct seal *s, const struct recipient *to, unsigned threads);

/*
 * Opens the image's seal: finds and checks its key.  @s may hold anything; on
 * failure it holds nothing.  E_KEY; E_MEMORY; E_UNSUPPORTED.
 */
int seal_open_passphrase(struct seal *s, const struct header *h, const char *text, size_t n);
int seal_open_key_bytes(struct seal *s, const struct header *h, struct bytes key);

/* Wipes keys and gives all memory back; a struct of zeros is fine. */
void seal_close(struct seal *s);

/* ---- for save and load ---- */

/* A new image's key, into h->slot and the contexts; wiped from them by seal_forget(). */
int seal_new_key(struct seal *s, struct header *h);
void seal_forget(struct seal *s);
/* Contexts for @threads workers, keyed; seal_prepare() has done so. */
int seal_workers(struct seal *s, unsigned threads);

/* From now on all belongs to the header that these record pages hold. */
void seal_header(struct seal *s, const uint8_t *pages, uint32_t n);

/* Context of the records that are no worker's. */
unsigned seal_records(const struct seal *s);

/*
 * Seals @b's payload from @in to @out (may be the same), and writes its record
 * with the tag.  seal_unblock(): E_CORRUPT when it is not what was sealed
 * there; @payload is opened in place.
 */
int seal_block(struct seal *s, unsigned context, const struct block_record *b, const uint8_t *in, uint8_t *out,
	       uint8_t record[BLOCK_RECORD]);
int seal_unblock(struct seal *s, unsigned context, const struct block_record *b, const uint8_t record[BLOCK_RECORD],
		 uint8_t *payload);

/* The tag of the trailer that @page holds; @page as trailer_put() makes it, the tag still zeros. */
int seal_trailer(struct seal *s, const uint8_t page[RECORD_PAGE], uint8_t tag[CRYPT_TAG]);
/* E_CORRUPT when a trailer that was read is not the one that was sealed. */
int seal_untrailer(struct seal *s, const uint8_t page[RECORD_PAGE]);

#endif
