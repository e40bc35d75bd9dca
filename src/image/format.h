/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The image's records and their bytes (doc/image-format.md).  Pure: no I/O, no
 * allocation.  Every get function checks the record's check first, then bounds
 * every field, and returns E_OK, E_CORRUPT or E_UNSUPPORTED with a fault noted.
 */
#ifndef DORMOUSE_IMAGE_FORMAT_H
#define DORMOUSE_IMAGE_FORMAT_H

#include "base/crypt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RECORD_PAGE = 4096,
	HEADER_PAGES_MAX = 16,
	FINGERPRINT_BYTES = 64,
	FINGERPRINTS_MAX = 1000,
	EXTENTS_PER_PAGE = 338,
	BLOCK_RECORD = 32,
	CLOSING_PAYLOAD = 32,
	BLOCK_SIZE_DEFAULT = 256 << 10,
	BLOCK_SIZE_MAX = 16 << 20,
	ATTEMPTS_MAX = 3,
	CODEC_CLOSING = 255,
	CODECS_MAX = 8,
	KEY_SLOT = 176,		    /* bytes in the header of a sealed image */
	KEY_ID = 8,		    /* bytes by which people tell keys apart */
	KEY_WRAPPED = 80,	    /* secret half and authenticator with their tag */
	TRAILER_SEALED = 320,	    /* bytes of the trailer that its tag covers; the tag follows */
	KEY_MEMORY_MAX = 256 << 10, /* KiB */
	KEY_PASSES_MAX = 64,
	KEY_LANES_MAX = 16,
};

enum image_features { FEATURE_SEALED = 1 };

enum key_mode { KEY_MODE_NONE, KEY_MODE_PASSPHRASE, KEY_MODE_PAIR, KEY_MODE_FILE };

enum shutdown_method { SHUTDOWN_PLATFORM, SHUTDOWN_POWEROFF, SHUTDOWN_REBOOT };

typedef struct {
	uint8_t b[16];
} id128;

uint64_t id64(id128 id);
bool id_is_zero(id128 id);
bool id_equal(id128 a, id128 b);
/* "8-4-4-4-12" hex, 37 bytes with the end. */
void id_text(id128 id, char out[37]);

enum fingerprint_flags { FINGERPRINT_WARN = 1 };

/*
 * A build for fuzzers, which is of no other use, takes every integrity check
 * for right: no fuzzer would get behind a hash.
 */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { CHECKS_HOLD = 1 };
#else
enum { CHECKS_HOLD = 0 };
#endif

/* One mounted file system as it lay on disk when the image was made. */
struct fingerprint {
	char type[17]; /* as libblkid names it */
	id128 uuid;
	uint64_t hash;
	uint32_t major, minor; /* where it was: a hint only */
	uint32_t flags;
	char name[13]; /* the device's name then, for messages */
};

/* How the image's key is found again; all zeros in an image that is not sealed. */
struct key_slot {
	uint8_t mode, cipher;		 /* enum key_mode, enum cipher_id */
	struct argon2_cost cost;	 /* not in KEY_MODE_FILE */
	uint8_t salt[16], ephemeral[32]; /* ephemeral: the image's own public key */
	uint8_t check[16], id[KEY_ID];
	uint8_t wrapped[KEY_WRAPPED]; /* KEY_MODE_PAIR, else zeros */
};

struct header {
	uint32_t version;
	uint32_t pages; /* record pages it takes, set by header_pages() */
	uint32_t features, optional_features;
	uint32_t page_size, block_size; /* bytes */
	id128 image_id, swap_uuid, installation;
	uint64_t created;				 /* seconds since 1970 */
	uint64_t memory_map;				 /* 0 = unknown */
	uint64_t image_bytes;				 /* raw */
	uint64_t state_place, trailer_place, area_start; /* bytes on the device */
	uint32_t shutdown;				 /* enum shutdown_method */
	uint32_t resume_pause;				 /* seconds */
	uint32_t codecs;				 /* bit mask */
	uint32_t fingerprint_count;
	char release[80], machine[32];
	uint64_t more[HEADER_PAGES_MAX - 1]; /* places of record pages 1.. */
	struct key_slot slot;		     /* with FEATURE_SEALED */
	uint8_t hash[CRYPT_HASH];	     /* over the pages as they were read; with FEATURE_SEALED, when reading */
};

/* A slot out of bounds is E_CORRUPT, one of an unknown kind E_UNSUPPORTED. */
void key_slot_put(uint8_t out[KEY_SLOT], const struct key_slot *s);
int key_slot_get(struct key_slot *s, const uint8_t in[KEY_SLOT]);
/* What an image of this version may ask for, whatever the machine. */
bool key_cost_ok(const struct argon2_cost *c);

/* Record pages needed for @fingerprints, in a sealed image or not. */
uint32_t header_pages(uint32_t fingerprints, bool sealed);

/* Writes h->pages record pages at @out. */
void header_put(uint8_t *out, const struct header *h, const struct fingerprint *fp);

/*
 * header_get_root reads page 0 alone: check, version, page count, places.
 * @device_size bounds the places.  header_get_rest wants all h->pages pages in
 * @in and fills @fp, room for h->fingerprint_count.
 */
int header_get_root(struct header *h, const uint8_t *page0, uint64_t device_size);
int header_get_rest(struct header *h, const uint8_t *in, struct fingerprint *fp);

struct extent {
	uint64_t start; /* in pages of the image's page size, on the device */
	uint32_t pages;
};

struct extent_page {
	uint64_t index, next; /* next: place, 0 in the last */
	uint32_t count;
	struct extent e[EXTENTS_PER_PAGE];
	uint64_t check; /* set by both put and get */
};

void extent_page_put(uint8_t out[RECORD_PAGE], struct extent_page *p, id128 image);
int extent_page_get(struct extent_page *p, const uint8_t in[RECORD_PAGE], id128 image, uint64_t index,
		    uint32_t page_size, uint64_t device_size);

struct block_record {
	uint32_t stored, raw; /* bytes of payload and of pages */
	uint8_t codec, flags;
	uint16_t level;
	uint64_t number;
};

enum block_flags { BLOCK_LAST = 1 };

/* Writes the record's first half, zeros behind it: what a seal goes on from (seal.h). */
void block_record_head(uint8_t out[BLOCK_RECORD], const struct block_record *b);
/* Writes the 32-byte record for @payload, b->stored bytes long. */
void block_record_put(uint8_t out[BLOCK_RECORD], const struct block_record *b, const uint8_t *payload, id128 image);
/*
 * Reads and bounds a record; @number is the one expected, @raw the raw length
 * expected there.  A closing record is let through whatever @raw is.  The
 * payload is checked apart, by block_payload_check(), since it is read later
 * and in parallel.
 */
int block_record_get(struct block_record *b, const uint8_t in[BLOCK_RECORD], uint64_t number, uint32_t raw);
int block_payload_check(const uint8_t record[BLOCK_RECORD], const uint8_t *payload, uint32_t stored, uint64_t number,
			id128 image);

/* Whole-image and extents chain: c' = chain(c, bytes). */
uint64_t chain_next(uint64_t chain, const uint8_t *bytes, size_t n);

struct closing {
	uint64_t blocks, raw_bytes, stream_bytes, image_check;
};

void closing_put(uint8_t out[CLOSING_PAYLOAD], const struct closing *c);
void closing_get(struct closing *c, const uint8_t in[CLOSING_PAYLOAD]);

struct codec_count {
	uint64_t blocks, raw, stored;
};

struct trailer {
	uint64_t extents_place, extent_pages, extents_check;
	uint64_t stream_bytes, blocks, raw_bytes, image_check;
	uint64_t save_ns;
	uint32_t threads;
	struct codec_count codec[CODECS_MAX];
	/* In a sealed image: */
	uint8_t extents_hash[CRYPT_HASH], tag[CRYPT_TAG];
};

void trailer_put(uint8_t out[RECORD_PAGE], const struct trailer *t, id128 image);
int trailer_get(struct trailer *t, const uint8_t in[RECORD_PAGE], id128 image, uint64_t device_size);

enum state_flags { STATE_PASSED_OVER = 1 };

struct state {
	uint32_t flags, attempts;
	uint64_t load_ns, load_threads;
};

/* The mutable sector, in a whole record page (zeros behind it). */
void state_put(uint8_t out[RECORD_PAGE], const struct state *s, id128 image);
/* Unreadable gives the state in which one attempt is left; never fails. */
void state_get(struct state *s, const uint8_t in[RECORD_PAGE], id128 image);

#endif
