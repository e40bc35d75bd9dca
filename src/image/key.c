/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doc/security.md says why each key is made the way it is; doc/image-format.md, section 7, how. */
#include "image/key.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CALIBRATE_PASSES = 3, CALIBRATE_LEAST = 8 << 10 /* KiB */ };

/* A secret half and the authenticator that goes with it, side by side as they are derived and wrapped. */
struct halves {
	uint8_t scalar[CRYPT_POINT], authenticator[CRYPT_KEY];
};

static struct bytes text(const char *s)
{
	return (struct bytes){s, strlen(s)};
}

/* ---- Argon2id and what it may cost ---- */

static uint64_t memory_total(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 10;
}

/* Before anything is allocated for it: a header may say anything. */
static int stretch(struct bytes passphrase, const uint8_t salt[16], const struct argon2_cost *c, uint8_t *out, size_t n)
{
	if (!key_cost_ok(c))
		return fault(E_CORRUPT, 0, "key slot: Argon2id with %u KiB, %u passes, %u lanes", c->memory, c->passes,
			     c->lanes);
	if (c->memory > memory_total() / 4)
		return fault(E_MEMORY, 0, "the passphrase needs %u KiB, a quarter of memory is %llu KiB", c->memory,
			     (unsigned long long)(memory_total() / 4));
	const struct argon2_input in = {.passphrase = passphrase, .salt = {salt, 16}};
	return argon2id(&in, c, out, n);
}

int key_calibrate(struct argon2_cost *cost)
{
	static const uint8_t salt[16];
	uint64_t most = min_u64(KEY_MEMORY_MAX, memory_total() / 8);
	const struct argon2_input in = {.passphrase = text("calibration"), .salt = {salt, sizeof salt}};
	uint8_t out[CRYPT_KEY];

	*cost = (struct argon2_cost){(uint32_t)min_u64(64 << 10, most), 1, 1};
	uint64_t from = clock_ns();
	int r = argon2id(&in, cost, out, sizeof out);
	uint64_t took = clock_ns() - from + 1;
	if (r != E_OK)
		return r;
	/* KiB passed over in a second; the more of them at once, the dearer for who guesses. */
	uint64_t speed = cost->memory * 1000000000ull / took, memory = min_u64(most, speed / CALIBRATE_PASSES);
	cost->memory = (uint32_t)(memory > CALIBRATE_LEAST ? memory : CALIBRATE_LEAST);
	uint64_t passes = min_u64(speed / cost->memory, KEY_PASSES_MAX);
	cost->passes = (uint32_t)(passes ? passes : 1);
	return E_OK;
}

static int choose_cost(const struct argon2_cost *asked, struct argon2_cost *cost)
{
	if (!asked)
		return key_calibrate(cost);
	*cost = *asked;
	return E_OK;
}

/* ---- recipients ---- */

static int begin(struct recipient *to, unsigned cipher, enum key_mode mode)
{
	memset(to, 0, sizeof *to);
	int r = crypt_start();
	if (r != E_OK)
		return r;
	const struct cipher *c = cipher ? cipher_by_id(cipher) : cipher_default();
	if (!c)
		return fault(E_CONF, 0, "cipher %u is not known", cipher);
	to->slot.mode = (uint8_t)mode;
	to->slot.cipher = c->id;
	return E_OK;
}

/* From the halves to what saving needs; the halves are wiped whatever comes of it. */
static int take_halves(struct recipient *to, struct halves *h)
{
	int r = x25519(to->public_key, h->scalar, NULL);

	memcpy(to->authenticator, h->authenticator, sizeof to->authenticator);
	explicit_bzero(h, sizeof *h);
	crypt_burn_stack();
	return r;
}

static int halves_from_passphrase(struct halves *h, const struct key_slot *slot, struct bytes passphrase)
{
	return stretch(passphrase, slot->salt, &slot->cost, (uint8_t *)h, sizeof *h);
}

int recipient_from_passphrase(struct recipient *to, unsigned cipher, const char *passphrase, size_t n,
			      const struct argon2_cost *asked)
{
	struct argon2_cost cost = {0};
	struct halves h;
	int r = begin(to, cipher, KEY_MODE_PASSPHRASE);

	if (r == E_OK && !n)
		r = fault(E_KEY, 0, "the passphrase is empty");
	if (r == E_OK)
		r = crypt_random(to->slot.salt, sizeof to->slot.salt);
	if (r == E_OK)
		r = choose_cost(asked, &cost);
	if (r != E_OK)
		return r;
	to->slot.cost = cost;
	r = halves_from_passphrase(&h, &to->slot, (struct bytes){passphrase, n});
	return r == E_OK ? take_halves(to, &h) : r;
}

static int halves_from_key_bytes(struct halves *h, const struct key_slot *slot, struct bytes key)
{
	return hkdf(key, (struct bytes){slot->salt, sizeof slot->salt}, text("dormouse key file 1"), (uint8_t *)h,
		    sizeof *h);
}

static int key_bytes_id(struct bytes key, uint8_t id[KEY_ID])
{
	return hkdf(key, (struct bytes){NULL, 0}, text("dormouse key file id 1"), id, KEY_ID);
}

int recipient_from_key_bytes(struct recipient *to, unsigned cipher, struct bytes key)
{
	struct halves h;
	int r = begin(to, cipher, KEY_MODE_FILE);

	if (r == E_OK)
		r = crypt_random(to->slot.salt, sizeof to->slot.salt);
	if (r == E_OK)
		r = key_bytes_id(key, to->slot.id);
	if (r == E_OK)
		r = halves_from_key_bytes(&h, &to->slot, key);
	return r == E_OK ? take_halves(to, &h) : r;
}

int recipient_from_pair(struct recipient *to, unsigned cipher, const struct key_pair *pair)
{
	struct key_slot *s = &to->slot;
	int r = begin(to, cipher, KEY_MODE_PAIR);

	if (r != E_OK)
		return r;
	s->cost = pair->cost;
	memcpy(s->salt, pair->salt, sizeof s->salt);
	memcpy(s->wrapped, pair->wrapped, sizeof s->wrapped);
	key_pair_id(pair, s->id);
	memcpy(to->public_key, pair->public_key, sizeof to->public_key);
	memcpy(to->authenticator, pair->authenticator, sizeof to->authenticator);
	return E_OK;
}

/* ---- key pairs ---- */

void key_pair_id(const struct key_pair *pair, uint8_t id[KEY_ID])
{
	uint8_t hash[CRYPT_HASH];

	hash_all(pair->public_key, sizeof pair->public_key, hash);
	memcpy(id, hash, KEY_ID);
}

/* What is wrapped holds only for these costs, this salt and this key id. */
enum { WRAP_DATA = 32 + KEY_ID };

static void wrap_data(const struct key_slot *slot, uint8_t data[WRAP_DATA])
{
	struct key_slot fixed = *slot;
	uint8_t bytes[KEY_SLOT];

	fixed.mode = KEY_MODE_PAIR;
	fixed.cipher = CIPHER_NONE; /* the pair is older than any image */
	key_slot_put(bytes, &fixed);
	memcpy(data, bytes, 32);
	memcpy(data + 32, slot->id, KEY_ID);
}

static int open_wrap(struct aead **a, const struct key_slot *slot, struct bytes passphrase)
{
	uint8_t key[CRYPT_KEY];
	int r = stretch(passphrase, slot->salt, &slot->cost, key, sizeof key);

	*a = NULL;
	if (r == E_OK)
		r = aead_open(a, cipher_by_id(CIPHER_CHACHA20));
	if (r == E_OK)
		r = aead_key(*a, key);
	explicit_bzero(key, sizeof key);
	return r;
}

static int wrap(struct key_slot *slot, const struct halves *h, struct bytes passphrase)
{
	uint8_t data[WRAP_DATA];
	struct aead_with w = {.data = data, .n = sizeof data};
	struct aead *a;
	int r = open_wrap(&a, slot, passphrase);

	wrap_data(slot, data);
	if (r == E_OK)
		r = aead_seal(a, &w, slot->wrapped, (const uint8_t *)h, sizeof *h, slot->wrapped + sizeof *h);
	aead_close(a);
	return r;
}

static int unwrap(const struct key_slot *slot, struct halves *h, struct bytes passphrase)
{
	uint8_t data[WRAP_DATA];
	struct aead_with w = {.data = data, .n = sizeof data};
	struct aead *a;
	int r = open_wrap(&a, slot, passphrase);

	wrap_data(slot, data);
	if (r == E_OK && !aead_unseal(a, &w, (uint8_t *)h, slot->wrapped, sizeof *h, slot->wrapped + sizeof *h))
		r = fault(E_KEY, 0, "the passphrase is wrong");
	aead_close(a);
	return r;
}

static void slot_of_pair(struct key_slot *s, const struct key_pair *pair)
{
	struct recipient to;

	recipient_from_pair(&to, CIPHER_CHACHA20, pair);
	*s = to.slot;
	explicit_bzero(&to, sizeof to);
}

static int wrap_pair(struct key_pair *pair, const struct halves *h, struct bytes passphrase,
		     const struct argon2_cost *cost)
{
	struct key_slot slot;
	int r = passphrase.n ? E_OK : fault(E_KEY, 0, "the passphrase is empty");

	if (r == E_OK)
		r = choose_cost(cost, &pair->cost);
	if (r == E_OK)
		r = crypt_random(pair->salt, sizeof pair->salt);
	if (r != E_OK)
		return r;
	slot_of_pair(&slot, pair);
	r = wrap(&slot, h, passphrase);
	memcpy(pair->wrapped, slot.wrapped, sizeof pair->wrapped);
	return r;
}

int key_pair_make(struct key_pair *pair, struct bytes passphrase, const struct argon2_cost *cost)
{
	struct halves h;
	int r = crypt_start();

	memset(pair, 0, sizeof *pair);
	if (r == E_OK)
		r = crypt_random(&h, sizeof h);
	if (r == E_OK)
		r = x25519(pair->public_key, h.scalar, NULL);
	if (r == E_OK) {
		memcpy(pair->authenticator, h.authenticator, sizeof pair->authenticator);
		r = wrap_pair(pair, &h, passphrase, cost);
	}
	explicit_bzero(&h, sizeof h);
	crypt_burn_stack();
	return r;
}

int key_pair_change(struct key_pair *pair, struct bytes old, struct bytes passphrase, const struct argon2_cost *cost)
{
	struct halves h;
	struct key_slot slot;
	int r = crypt_start();

	if (r == E_OK) {
		slot_of_pair(&slot, pair);
		r = unwrap(&slot, &h, old);
	}
	if (r == E_OK)
		r = wrap_pair(pair, &h, passphrase, cost);
	explicit_bzero(&h, sizeof h);
	crypt_burn_stack();
	return r;
}

/* ---- an image's key ---- */

/* HKDF over the shared point and the authenticator; @point is wiped. */
static int image_key(const struct header *h, const uint8_t public_key[CRYPT_POINT], uint8_t point[CRYPT_POINT],
		     const uint8_t authenticator[CRYPT_KEY], uint8_t key[CRYPT_KEY])
{
	uint8_t secret[CRYPT_POINT + CRYPT_KEY], salt[16 + 2 * CRYPT_POINT];

	memcpy(secret, point, CRYPT_POINT);
	memcpy(secret + CRYPT_POINT, authenticator, CRYPT_KEY);
	memcpy(salt, h->image_id.b, 16);
	memcpy(salt + 16, h->slot.ephemeral, CRYPT_POINT);
	memcpy(salt + 16 + CRYPT_POINT, public_key, CRYPT_POINT);
	int r = hkdf((struct bytes){secret, sizeof secret}, (struct bytes){salt, sizeof salt},
		     text("dormouse image key 1"), key, CRYPT_KEY);
	explicit_bzero(secret, sizeof secret);
	explicit_bzero(point, CRYPT_POINT);
	return r;
}

static int key_check(const struct header *h, const uint8_t key[CRYPT_KEY], uint8_t check[16])
{
	return hkdf((struct bytes){key, CRYPT_KEY}, (struct bytes){h->image_id.b, 16}, text("dormouse key check 1"),
		    check, 16);
}

int key_make(const struct recipient *to, struct header *h, uint8_t key[CRYPT_KEY])
{
	uint8_t secret[CRYPT_POINT], shared[CRYPT_POINT];
	int r = crypt_random_fresh(secret);

	h->features |= FEATURE_SEALED;
	h->slot = to->slot;
	if (r == E_OK)
		r = x25519(h->slot.ephemeral, secret, NULL);
	if (r == E_OK)
		r = x25519(shared, secret, to->public_key);
	explicit_bzero(secret, sizeof secret);
	if (r == E_OK)
		r = image_key(h, to->public_key, shared, to->authenticator, key);
	if (r == E_OK)
		r = key_check(h, key, h->slot.check);
	crypt_burn_stack();
	return r;
}

/* The other way to the same key; @s is wiped. */
static int open_with(const struct header *h, struct halves *s, uint8_t key[CRYPT_KEY])
{
	uint8_t public_key[CRYPT_POINT], shared[CRYPT_POINT], check[16];
	int r = x25519(public_key, s->scalar, NULL);

	if (r == E_OK)
		r = x25519(shared, s->scalar, h->slot.ephemeral);
	if (r == E_OK)
		r = image_key(h, public_key, shared, s->authenticator, key);
	if (r == E_OK)
		r = key_check(h, key, check);
	if (r == E_OK && !crypt_equal(check, h->slot.check, sizeof check))
		r = fault(E_KEY, 0, "the %s is wrong", h->slot.mode == KEY_MODE_FILE ? "key file" : "passphrase");
	explicit_bzero(s, sizeof *s);
	if (r != E_OK)
		explicit_bzero(key, CRYPT_KEY);
	crypt_burn_stack();
	return r;
}

int key_from_passphrase(const struct header *h, struct bytes passphrase, uint8_t key[CRYPT_KEY])
{
	struct halves s;
	int r = crypt_start();

	if (r != E_OK)
		return r;
	if (h->slot.mode == KEY_MODE_FILE)
		return fault(E_KEY, 0, "the image is sealed with a key file, not with a passphrase");
	if (!passphrase.n)
		return fault(E_KEY, 0, "the passphrase is empty");
	r = h->slot.mode == KEY_MODE_PAIR ? unwrap(&h->slot, &s, passphrase)
					  : halves_from_passphrase(&s, &h->slot, passphrase);
	if (r == E_OK)
		return open_with(h, &s, key);
	explicit_bzero(&s, sizeof s);
	crypt_burn_stack();
	return r;
}

int key_from_key_bytes(const struct header *h, struct bytes file, uint8_t key[CRYPT_KEY])
{
	struct halves s;
	uint8_t id[KEY_ID];
	int r = crypt_start();

	if (r == E_OK && h->slot.mode != KEY_MODE_FILE)
		r = fault(E_KEY, 0, "the image is sealed with a passphrase, not with a key file");
	if (r == E_OK)
		r = key_bytes_id(file, id);
	if (r == E_OK && memcmp(id, h->slot.id, sizeof id))
		r = fault(E_KEY, 0, "it is another key file than the one the image is sealed with");
	if (r == E_OK)
		r = halves_from_key_bytes(&s, &h->slot, file);
	return r == E_OK ? open_with(h, &s, key) : r;
}

/* ---- for people ---- */

void key_id_text(const uint8_t id[KEY_ID], char out[2 * KEY_ID + 1])
{
	for (int i = 0; i < KEY_ID; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
}

const char *key_describe(const struct key_slot *slot, char out[KEY_TEXT])
{
	char id[2 * KEY_ID + 1];
	const struct cipher *c = cipher_by_id(slot->cipher);
	const char *cipher = c ? c->name : "unknown cipher";

	key_id_text(slot->id, id);
	if (slot->mode == KEY_MODE_PASSPHRASE)
		snprintf(out, KEY_TEXT, "with a passphrase, %s", cipher);
	else
		snprintf(out, KEY_TEXT, "for the key %s %s, %s", slot->mode == KEY_MODE_PAIR ? "pair" : "file", id,
			 cipher);
	return out;
}
