/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For whom an image is sealed, and what opens it (doc/security.md has the
 * construction).  Key files and key pair files are in system/key-file.h.
 *
 * Saving: a recipient is made before FREEZE; it cannot open anything.  The
 * passphrase is the caller's, who wipes it right after.  The image's key is
 * made by save_run(), so after CREATE_IMAGE, by key_make().
 *
 *	struct recipient to;
 *	recipient_from_passphrase(&to, cipher, text, n, NULL);    or by system/key-file.h: recipient_from_key_file(),
 *	                                                          recipient_from_key_pair()
 *	save_plan(&options, ...);
 *	seal_prepare(&seal, &to, options.threads);                all memory the sealing takes
 *	FREEZE ... save_input.seal = &seal ... save_run()         key made, used, wiped; again for a second try
 *	seal_close(&seal);                                        when tasks run again
 *
 * Opening: seal.h.
 */
#ifndef DORMOUSE_IMAGE_KEY_H
#define DORMOUSE_IMAGE_KEY_H

#include "base/crypt.h"
#include "image/format.h"

enum { KEY_TEXT = 128 /* bytes that key_describe() takes at most */ };

/* A key pair as it lies in its file: all but the passphrase. */
struct key_pair {
	uint8_t public_key[CRYPT_POINT];
	uint8_t authenticator[CRYPT_KEY];
	uint8_t salt[16];
	struct argon2_cost cost;
	uint8_t wrapped[KEY_WRAPPED];
};

/* Whom an image is sealed for.  Holds no secret that opens it. */
struct recipient {
	struct key_slot slot; /* complete but for what is each image's own */
	uint8_t public_key[CRYPT_POINT];
	uint8_t authenticator[CRYPT_KEY];
};

/*
 * @cipher: an enum cipher_id, 0 for what this processor does best.  Each starts
 * the library.  E_OK, E_CONF (a cipher unknown or not built in), E_MEMORY,
 * E_UNSUPPORTED (built without encryption).
 *
 * @cost: NULL for what key_calibrate() finds, about a second.  The text is the
 * caller's, to be wiped.
 */
int recipient_from_passphrase(struct recipient *to, unsigned cipher, const char *text, size_t n,
			      const struct argon2_cost *cost);
int recipient_from_key_bytes(struct recipient *to, unsigned cipher, struct bytes key);
int recipient_from_pair(struct recipient *to, unsigned cipher, const struct key_pair *pair);

/* A new pair under a passphrase; the same pair under another one (E_KEY: the old one is wrong). */
int key_pair_make(struct key_pair *pair, struct bytes passphrase, const struct argon2_cost *cost);
int key_pair_change(struct key_pair *pair, struct bytes old, struct bytes passphrase, const struct argon2_cost *cost);

/* First bytes of BLAKE2b of the public key: how people tell pairs apart. */
void key_pair_id(const struct key_pair *pair, uint8_t id[KEY_ID]);

/* What takes about a second here, in at most min(256 MiB, MemTotal / 8). */
int key_calibrate(struct argon2_cost *cost);

/*
 * The key of a new image for @to: fills h->slot, whose image id must be set,
 * and sets FEATURE_SEALED.  Allocates from the pool only.
 */
int key_make(const struct recipient *to, struct header *h, uint8_t key[CRYPT_KEY]);

/*
 * The key of the image that @h belongs to.  E_KEY: wrong, or of another mode;
 * E_MEMORY: the header asks for more than may be taken, nothing was allocated.
 */
int key_from_passphrase(const struct header *h, struct bytes passphrase, uint8_t key[CRYPT_KEY]);
int key_from_key_bytes(const struct header *h, struct bytes file, uint8_t key[CRYPT_KEY]);

/* How and for whom, for people: "for the key pair 0123456789abcdef, aes-256-ocb".  @id as hex. */
const char *key_describe(const struct key_slot *slot, char out[KEY_TEXT]);
void key_id_text(const uint8_t id[KEY_ID], char out[2 * KEY_ID + 1]);

#endif
