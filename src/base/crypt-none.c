/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Without libgcrypt: ciphers have names to be refused by, nothing else. */
#include <config.h>
#include "base/crypt.h"

#if !HAVE_GCRYPT

#include "base/error.h"

#include <string.h>

static int missing(void)
{
	return fault(E_UNSUPPORTED, 0, "this program was built without encryption (libgcrypt)");
}

bool crypt_built_in(void)
{
	return false;
}

int crypt_start(void)
{
	return missing();
}

const struct cipher *cipher_default(void)
{
	return cipher_by_id(CIPHER_CHACHA20);
}

size_t aead_room(void)
{
	return 0;
}

int aead_open(struct aead **a, const struct cipher *c)
{
	(void)c;
	*a = NULL;
	return missing();
}

int aead_key(struct aead *a, const uint8_t key[CRYPT_KEY])
{
	(void)a;
	(void)key;
	return missing();
}

void aead_forget(struct aead *a)
{
	(void)a;
}

void aead_close(struct aead *a)
{
	(void)a;
}

int aead_seal(struct aead *a, const struct aead_with *w, uint8_t *out, const uint8_t *in, size_t n,
	      uint8_t tag[CRYPT_TAG])
{
	(void)a;
	(void)w;
	(void)out;
	(void)in;
	(void)n;
	(void)tag;
	return missing();
}

bool aead_unseal(struct aead *a, const struct aead_with *w, uint8_t *out, const uint8_t *in, size_t n,
		 const uint8_t tag[CRYPT_TAG])
{
	(void)a;
	(void)w;
	(void)out;
	(void)in;
	(void)n;
	(void)tag;
	return false;
}

void hash_all(const uint8_t *data, size_t n, uint8_t out[CRYPT_HASH])
{
	(void)data;
	(void)n;
	memset(out, 0, CRYPT_HASH);
}

int hash_open(struct hash **h)
{
	*h = NULL;
	return missing();
}

void hash_reset(struct hash *h)
{
	(void)h;
}

void hash_add(struct hash *h, const uint8_t *data, size_t n)
{
	(void)h;
	(void)data;
	(void)n;
}

void hash_end(struct hash *h, uint8_t out[CRYPT_HASH])
{
	(void)h;
	memset(out, 0, CRYPT_HASH);
}

void hash_close(struct hash *h)
{
	(void)h;
}

int hkdf(struct bytes secret, struct bytes salt, struct bytes info, uint8_t *out, size_t out_n)
{
	(void)secret;
	(void)salt;
	(void)info;
	(void)out;
	(void)out_n;
	return missing();
}

int x25519(uint8_t out[CRYPT_POINT], const uint8_t scalar[CRYPT_POINT], const uint8_t *point)
{
	(void)out;
	(void)scalar;
	(void)point;
	return missing();
}

int argon2id(const struct argon2_input *in, const struct argon2_cost *c, uint8_t *out, size_t out_n)
{
	(void)in;
	(void)c;
	(void)out;
	(void)out_n;
	return missing();
}

void crypt_burn_stack(void)
{
}

#endif
