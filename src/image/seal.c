/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/seal.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/pool.h"

#include <string.h>

enum {
	DOMAIN_BLOCK = 0, /* and closing record */
	DOMAIN_TRAILER = 1,
	RECORD_HEAD = 16,	 /* bytes of a block's record before its tag */
	WORKING_ROOM = 64 << 10, /* bytes: what making a key takes for a moment */
};

/* ---- opening and closing ---- */

static int open_contexts(struct seal *s, unsigned n)
{
	int r = pool_reserve(n * (aead_room() + 64) + WORKING_ROOM);

	for (; r == E_OK && s->contexts < n; s->contexts += r == E_OK)
		r = aead_open(&s->context[s->contexts], s->cipher);
	return r;
}

static int begin(struct seal *s, unsigned cipher)
{
	memset(s, 0, sizeof *s);
	int r = crypt_start();
	if (r != E_OK)
		return r;
	s->cipher = cipher_by_id(cipher);
	if (!s->cipher)
		return fault(E_UNSUPPORTED, 0, "cipher %u is unknown to this program", cipher);
	return hash_open(&s->extents);
}

static int end(struct seal *s, int r)
{
	if (r != E_OK)
		seal_close(s);
	return r;
}

int seal_prepare(struct seal *s, const struct recipient *to, unsigned threads)
{
	int r = begin(s, to->slot.cipher);

	if (r == E_OK)
		r = open_contexts(s, threads + 1);
	if (r == E_OK)
		r = pool_reserve(WORKING_ROOM);
	s->to = *to;
	return end(s, r);
}

static int opened(struct seal *s, const struct header *h, int r)
{
	memcpy(s->header, h->hash, sizeof s->header);
	if (r == E_OK)
		r = seal_workers(s, 0);
	return end(s, r);
}

int seal_open_passphrase(struct seal *s, const struct header *h, const char *text, size_t n)
{
	int r = begin(s, h->slot.cipher);

	if (r == E_OK)
		r = key_from_passphrase(h, (struct bytes){text, n}, s->key);
	return opened(s, h, r);
}

int seal_open_key_bytes(struct seal *s, const struct header *h, struct bytes key)
{
	int r = begin(s, h->slot.cipher);

	if (r == E_OK)
		r = key_from_key_bytes(h, key, s->key);
	return opened(s, h, r);
}

void seal_close(struct seal *s)
{
	for (unsigned i = 0; i < s->contexts; i++)
		aead_close(s->context[i]);
	if (s->extents)
		hash_close(s->extents);
	explicit_bzero(s, sizeof *s);
	crypt_burn_stack();
}

/* ---- keys ---- */

static int key_contexts(struct seal *s, const uint8_t key[CRYPT_KEY])
{
	int r = E_OK;

	for (unsigned i = 0; i < s->contexts && r == E_OK; i++)
		r = aead_key(s->context[i], key);
	return r;
}

int seal_new_key(struct seal *s, struct header *h)
{
	uint8_t key[CRYPT_KEY];
	int r = key_make(&s->to, h, key);

	if (r == E_OK)
		r = key_contexts(s, key);
	explicit_bzero(key, sizeof key);
	crypt_burn_stack();
	return r;
}

void seal_forget(struct seal *s)
{
	for (unsigned i = 0; i < s->contexts; i++)
		aead_forget(s->context[i]);
	crypt_burn_stack();
}

int seal_workers(struct seal *s, unsigned threads)
{
	int r = open_contexts(s, threads + 1);

	return r == E_OK ? key_contexts(s, s->key) : r;
}

unsigned seal_records(const struct seal *s)
{
	return s->contexts - 1;
}

void seal_header(struct seal *s, const uint8_t *pages, uint32_t n)
{
	hash_all(pages, (size_t)n * RECORD_PAGE, s->header);
	hash_reset(s->extents);
}

/* ---- blocks and records ---- */

static void nonce(uint8_t out[CRYPT_NONCE], uint64_t number, bool last, uint8_t domain)
{
	memset(out, 0, CRYPT_NONCE);
	put_le64(out, number);
	out[8] = last;
	out[9] = domain;
}

/* The header's hash in front of what stands in the clear beside the payload. */
struct beside {
	uint8_t bytes[CRYPT_HASH + RECORD_HEAD];
};

static struct aead_with beside_block(struct beside *b, const struct seal *s, const uint8_t record[BLOCK_RECORD],
				     const struct block_record *r)
{
	struct aead_with w = {.data = b->bytes, .n = sizeof b->bytes};

	memcpy(b->bytes, s->header, CRYPT_HASH);
	memcpy(b->bytes + CRYPT_HASH, record, RECORD_HEAD);
	nonce(w.nonce, r->number, r->flags & BLOCK_LAST, DOMAIN_BLOCK);
	return w;
}

int seal_block(struct seal *s, unsigned context, const struct block_record *b, const uint8_t *in, uint8_t *out,
	       uint8_t record[BLOCK_RECORD])
{
	struct beside beside;

	block_record_head(record, b);
	struct aead_with w = beside_block(&beside, s, record, b);
	return aead_seal(s->context[context], &w, out, in, b->stored, record + RECORD_HEAD);
}

int seal_unblock(struct seal *s, unsigned context, const struct block_record *b, const uint8_t record[BLOCK_RECORD],
		 uint8_t *payload)
{
	struct beside beside;
	struct aead_with w = beside_block(&beside, s, record, b);

	if (!aead_unseal(s->context[context], &w, payload, payload, b->stored, record + RECORD_HEAD))
		return fault(E_CORRUPT, 0, "block %llu: it is not what was sealed there",
			     (unsigned long long)b->number);
	return E_OK;
}

/* ---- the trailer ---- */

struct beside_trailer {
	uint8_t bytes[CRYPT_HASH + TRAILER_SEALED];
};

static struct aead_with beside_trailer(struct beside_trailer *b, const struct seal *s, const uint8_t *page)
{
	struct aead_with w = {.data = b->bytes, .n = sizeof b->bytes};

	memcpy(b->bytes, s->header, CRYPT_HASH);
	memcpy(b->bytes + CRYPT_HASH, page, TRAILER_SEALED);
	nonce(w.nonce, UINT64_MAX, true, DOMAIN_TRAILER);
	return w;
}

int seal_trailer(struct seal *s, const uint8_t page[RECORD_PAGE], uint8_t tag[CRYPT_TAG])
{
	struct beside_trailer beside;
	struct aead_with w = beside_trailer(&beside, s, page);

	return aead_seal(s->context[seal_records(s)], &w, NULL, NULL, 0, tag);
}

/* What lies behind the tag is under none: nothing may lie there. */
static bool rest_is_zero(const uint8_t page[RECORD_PAGE])
{
	uint8_t any = 0;

	for (int i = TRAILER_SEALED + CRYPT_TAG; i < RECORD_PAGE - 8; i++)
		any |= page[i];
	return !any;
}

int seal_untrailer(struct seal *s, const uint8_t page[RECORD_PAGE])
{
	struct beside_trailer beside;
	struct aead_with w = beside_trailer(&beside, s, page);

	if (!rest_is_zero(page) || !aead_unseal(s->context[seal_records(s)], &w, NULL, NULL, 0, page + TRAILER_SEALED))
		return fault(E_CORRUPT, 0, "trailer: it and the fixed header are not what was sealed");
	return E_OK;
}
