/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <config.h>
#include "base/crypt.h"

#if HAVE_GCRYPT

#include "base/error.h"
#include "base/pool.h"

#include <gcrypt.h>
#include <string.h>

enum {
	POOL_BASE = 128 << 10, /* bytes: all that but many contexts take at once */
	SHA256_BYTES = 32,
	STACK_BURNT = 16 << 10,
};

/* libgcrypt's numbers, by ours. */
static const struct {
	int algorithm, mode;
} ways[CIPHER_COUNT] = {
	[CIPHER_OCB] = {GCRY_CIPHER_AES256, GCRY_CIPHER_MODE_OCB},
	[CIPHER_GCM] = {GCRY_CIPHER_AES256, GCRY_CIPHER_MODE_GCM},
	[CIPHER_CHACHA20] = {GCRY_CIPHER_CHACHA20, GCRY_CIPHER_MODE_POLY1305},
};

bool crypt_built_in(void)
{
	return true;
}

/* ---- starting ---- */

static bool started;
static size_t largest_context;

static int none_is_secure(const void *p)
{
	(void)p;
	return 0;
}

static int broken(gcry_error_t e, const char *what)
{
	if (gcry_err_code(e) == GPG_ERR_ENOMEM)
		return fault(E_MEMORY, 0, "%s: no memory", what);
	return fault(E_INTERNAL, 0, "%s: %s", what, gcry_strerror(e));
}

/* Each cipher once: the library tests itself at a first use, and how much a context takes is known then. */
static int try_ciphers(void)
{
	for (unsigned i = 1; i < CIPHER_COUNT; i++) {
		size_t before = pool_used();
		struct aead *a;
		int r = aead_open(&a, cipher_by_id(i));

		if (r != E_OK)
			return r;
		size_t n = pool_used() - before;
		largest_context = n > largest_context ? n : largest_context;
		aead_close(a);
	}
	return E_OK;
}

int crypt_start(void)
{
	if (started)
		return E_OK;
	int r = pool_reserve(POOL_BASE);
	if (r != E_OK)
		return r;
	/* Its own allocations are locked and wiped by the pool; FIPS mode would refuse half of the primitives. */
	gcry_control(GCRYCTL_NO_FIPS_MODE);
	gcry_set_allocation_handler(pool_alloc, pool_alloc, none_is_secure, pool_resize, pool_free);
	if (!gcry_check_version("1.10.0"))
		return fault(E_UNSUPPORTED, 0, "libgcrypt %s is too old, 1.10.0 is needed", gcry_check_version(NULL));
	gcry_control(GCRYCTL_DISABLE_SECMEM, 0);
	gcry_control(GCRYCTL_INITIALIZATION_FINISHED, 0);
	r = try_ciphers();
	started = r == E_OK;
	return r;
}

/* ---- ciphers ---- */

static bool has_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_cpu_supports("aes");
#else
	char *list = gcry_get_config(0, "hwflist");
	bool has = list && strstr(list, "-aes");
	gcry_free(list);
	return has;
#endif
}

const struct cipher *cipher_default(void)
{
	return cipher_by_id(has_aes() ? CIPHER_OCB : CIPHER_CHACHA20);
}

static gcry_cipher_hd_t handle(struct aead *a)
{
	return (gcry_cipher_hd_t)a;
}

size_t aead_room(void)
{
	return largest_context;
}

int aead_open(struct aead **a, const struct cipher *c)
{
	static const uint8_t zeros[CRYPT_KEY];
	gcry_cipher_hd_t h;
	gcry_error_t e = gcry_cipher_open(&h, ways[c->id].algorithm, ways[c->id].mode, 0);

	*a = NULL;
	if (e)
		return broken(e, c->name);
	*a = (struct aead *)h;
	int r = aead_key(*a, zeros);
	if (r != E_OK) {
		aead_close(*a);
		*a = NULL;
	}
	return r;
}

int aead_key(struct aead *a, const uint8_t key[CRYPT_KEY])
{
	gcry_error_t e = gcry_cipher_setkey(handle(a), key, CRYPT_KEY);

	return e ? broken(e, "cipher key") : E_OK;
}

/* A message under the new key takes the place of what the last nonce left behind. */
void aead_forget(struct aead *a)
{
	static const uint8_t zeros[CRYPT_KEY];
	struct aead_with w = {.n = 0};
	uint8_t tag[CRYPT_TAG];

	if (!a)
		return;
	aead_key(a, zeros);
	aead_seal(a, &w, NULL, NULL, 0, tag);
}

void aead_close(struct aead *a)
{
	if (a)
		gcry_cipher_close(handle(a));
}

static gcry_error_t begin(struct aead *a, const struct aead_with *w)
{
	gcry_error_t e = gcry_cipher_setiv(handle(a), w->nonce, sizeof w->nonce);

	if (!e && w->n)
		e = gcry_cipher_authenticate(handle(a), w->data, w->n);
	if (!e)
		e = gcry_cipher_final(handle(a));
	return e;
}

int aead_seal(struct aead *a, const struct aead_with *w, uint8_t *out, const uint8_t *in, size_t n,
	      uint8_t tag[CRYPT_TAG])
{
	gcry_error_t e = begin(a, w);

	if (!e)
		e = gcry_cipher_encrypt(handle(a), out, n, in == out ? NULL : in, in == out ? 0 : n);
	if (!e)
		e = gcry_cipher_gettag(handle(a), tag, CRYPT_TAG);
	return e ? broken(e, "sealing") : E_OK;
}

bool aead_unseal(struct aead *a, const struct aead_with *w, uint8_t *out, const uint8_t *in, size_t n,
		 const uint8_t tag[CRYPT_TAG])
{
	gcry_error_t e = begin(a, w);

	if (!e)
		e = gcry_cipher_decrypt(handle(a), out, n, in == out ? NULL : in, in == out ? 0 : n);
	return !e && !gcry_cipher_checktag(handle(a), tag, CRYPT_TAG);
}

/* ---- hashes ---- */

static gcry_md_hd_t hash_handle(struct hash *h)
{
	return (gcry_md_hd_t)h;
}

void hash_all(const uint8_t *data, size_t n, uint8_t out[CRYPT_HASH])
{
	gcry_md_hash_buffer(GCRY_MD_BLAKE2B_256, out, data, n);
}

int hash_open(struct hash **h)
{
	gcry_md_hd_t md = NULL;
	gcry_error_t e = gcry_md_open(&md, GCRY_MD_BLAKE2B_256, 0);

	*h = (struct hash *)md;
	return e ? broken(e, "BLAKE2b") : E_OK;
}

void hash_reset(struct hash *h)
{
	gcry_md_reset(hash_handle(h));
}

void hash_add(struct hash *h, const uint8_t *data, size_t n)
{
	gcry_md_write(hash_handle(h), data, n);
}

void hash_end(struct hash *h, uint8_t out[CRYPT_HASH])
{
	memcpy(out, gcry_md_read(hash_handle(h), 0), CRYPT_HASH);
}

void hash_close(struct hash *h)
{
	gcry_md_close(hash_handle(h));
}

/* ---- keys from keys ---- */

/* HMAC-SHA-256 over up to three pieces. */
static gcry_error_t hmac(struct bytes key, const struct bytes *piece, int n, uint8_t out[SHA256_BYTES])
{
	gcry_buffer_t v[4] = {{.data = (void *)(uintptr_t)key.at, .len = key.n}};

	for (int i = 0; i < n; i++)
		v[1 + i] = (gcry_buffer_t){.data = (void *)(uintptr_t)piece[i].at, .len = piece[i].n};
	return gcry_md_hash_buffers(GCRY_MD_SHA256, GCRY_MD_FLAG_HMAC, out, v, 1 + n);
}

int hkdf(struct bytes secret, struct bytes salt, struct bytes info, uint8_t *out, size_t out_n)
{
	static const uint8_t zeros[SHA256_BYTES];
	uint8_t prk[SHA256_BYTES], t[SHA256_BYTES], number = 0;
	gcry_error_t e = hmac(salt.n ? salt : (struct bytes){zeros, sizeof zeros}, &secret, 1, prk);

	for (size_t at = 0; at < out_n && !e; at += SHA256_BYTES) {
		struct bytes piece[] = {{t, number ? sizeof t : 0}, info, {&number, 1}};
		size_t some = out_n - at < sizeof t ? out_n - at : sizeof t;

		number++;
		e = hmac((struct bytes){prk, sizeof prk}, piece, 3, t);
		memcpy(out + at, t, some);
	}
	explicit_bzero(prk, sizeof prk);
	explicit_bzero(t, sizeof t);
	return e ? broken(e, "HKDF") : E_OK;
}

int x25519(uint8_t out[CRYPT_POINT], const uint8_t scalar[CRYPT_POINT], const uint8_t *point)
{
	static const uint8_t zeros[CRYPT_POINT];
	gcry_error_t e = gcry_ecc_mul_point(GCRY_ECC_CURVE25519, out, scalar, point);

	if (e)
		return broken(e, "X25519");
	return crypt_equal(out, zeros, sizeof zeros) ? fault(E_CORRUPT, 0, "X25519: a point of small order") : E_OK;
}

int argon2id(const struct argon2_input *in, const struct argon2_cost *c, uint8_t *out, size_t out_n)
{
	unsigned long cost[] = {out_n, c->passes, c->memory, c->lanes};
	gcry_kdf_hd_t h = NULL;
	gcry_error_t e =
		gcry_kdf_open(&h, GCRY_KDF_ARGON2, GCRY_KDF_ARGON2ID, cost, 4, in->passphrase.at, in->passphrase.n,
			      in->salt.at, in->salt.n, in->secret.at, in->secret.n, in->data.at, in->data.n);

	if (!e) {
		e = gcry_kdf_compute(h, NULL); /* lanes one after the other */
		if (!e)
			e = gcry_kdf_final(h, out_n, out);
		gcry_kdf_close(h);
	}
	if (gcry_err_code(e) == GPG_ERR_ENOMEM)
		return fault(E_MEMORY, 0, "no %u KiB for Argon2id", c->memory);
	return e ? broken(e, "Argon2id") : E_OK;
}

__attribute__((noinline)) void crypt_burn_stack(void)
{
	uint8_t below[STACK_BURNT];

	explicit_bzero(below, sizeof below);
}

#endif
