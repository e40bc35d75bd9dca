/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The primitives of sealed images, by libgcrypt, which gets its memory from the
 * pool (base/pool.h).  Built without libgcrypt, crypt_start() is E_UNSUPPORTED,
 * no cipher is built in, and nothing else here may be called.
 *
 * All sizes are bytes.  Codes are E_OK, E_MEMORY or E_INTERNAL unless said.
 */
#ifndef DORMOUSE_BASE_CRYPT_H
#define DORMOUSE_BASE_CRYPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CRYPT_KEY = 32, CRYPT_NONCE = 12, CRYPT_TAG = 16, CRYPT_HASH = 32, CRYPT_POINT = 32 };

/* The numbers are the format's. */
enum cipher_id { CIPHER_NONE, CIPHER_OCB, CIPHER_GCM, CIPHER_CHACHA20, CIPHER_COUNT };

struct cipher {
	const char *name; /* as in `cipher =' */
	uint8_t id;
};

/* NULL for what is no cipher.  cipher_default(): what this processor does best. */
const struct cipher *cipher_by_id(unsigned id);
const struct cipher *cipher_by_name(const char *name);
const struct cipher *cipher_default(void);

bool crypt_built_in(void);

/* Readies the library; again is nothing.  Opens files and maps memory: once before anything is frozen. */
int crypt_start(void);

/* A context of one cipher, for one thread at a time.  Opened with a key of zeros. */
struct aead;
size_t aead_room(void); /* of one in the pool, at most */
int aead_open(struct aead **a, const struct cipher *c);
int aead_key(struct aead *a, const uint8_t key[CRYPT_KEY]);
/* Wipes the key from it; NULL is fine for both. */
void aead_forget(struct aead *a);
void aead_close(struct aead *a);

/* What goes with a message beside it. */
struct aead_with {
	uint8_t nonce[CRYPT_NONCE];
	const uint8_t *data; /* authenticated, not encrypted */
	size_t n;
};

/* @n bytes from @in to @out, which may be the same; 0 is fine.  aead_unseal(): false when the tag does not hold. */
int aead_seal(struct aead *a, const struct aead_with *w, uint8_t *out, const uint8_t *in, size_t n,
	      uint8_t tag[CRYPT_TAG]);
bool aead_unseal(struct aead *a, const struct aead_with *w, uint8_t *out, const uint8_t *in, size_t n,
		 const uint8_t tag[CRYPT_TAG]);

/* BLAKE2b-256, at once or piece by piece. */
struct hash;
void hash_all(const uint8_t *data, size_t n, uint8_t out[CRYPT_HASH]);
int hash_open(struct hash **h);
void hash_reset(struct hash *h);
void hash_add(struct hash *h, const uint8_t *data, size_t n);
void hash_end(struct hash *h, uint8_t out[CRYPT_HASH]);
void hash_close(struct hash *h);

/* HKDF-SHA-256 (RFC 5869); @out_n at most 8160. */
struct bytes {
	const void *at;
	size_t n;
};
int hkdf(struct bytes secret, struct bytes salt, struct bytes info, uint8_t *out, size_t out_n);

/* X25519 (RFC 7748); @point NULL: the base point.  E_CORRUPT when nothing but zeros comes out. */
int x25519(uint8_t out[CRYPT_POINT], const uint8_t scalar[CRYPT_POINT], const uint8_t *point);

/* Argon2id (RFC 9106), version 0x13; @out_n at most 64.  Not while frozen.  E_MEMORY when memory is short. */
struct argon2_cost {
	uint32_t memory; /* KiB, at least 8 a lane */
	uint32_t passes, lanes;
};
struct argon2_input {
	struct bytes passphrase, salt;
	struct bytes secret, data; /* mostly empty */
};
int argon2id(const struct argon2_input *in, const struct argon2_cost *c, uint8_t *out, size_t out_n);

/* From the kernel, by getrandom(2). */
int crypt_random(void *out, size_t n);

/*
 * As crypt_random(), stirred with what this moment alone gives, clock and the
 * processor's own generator: in an image made before lies the state of the
 * kernel's, from which its next bytes follow.
 */
int crypt_random_fresh(uint8_t out[CRYPT_KEY]);

/* In a time that does not depend on the bytes. */
bool crypt_equal(const void *a, const void *b, size_t n);

/* Wipes what lies below on this thread's stack: after work with keys. */
void crypt_burn_stack(void);

#endif
