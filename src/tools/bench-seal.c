/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sealing: for a key that is no secret, and what each cipher costs by itself. */
#include "base/error.h"
#include "tools/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 64, BLOCK = BLOCK_SIZE_DEFAULT };

static const struct bytes no_secret = {"s2bench seals for this", 22};

int cipher_parse(const struct cipher **c, const char *text)
{
	*c = cipher_by_name(text);
	if (!*c && strcmp(text, "none"))
		return fault(E_USAGE, 0,
			     "--cipher: `%.40s' is none of none, aes-256-ocb, aes-256-gcm, chacha20-poly1305", text);
	return *c ? crypt_start() : E_OK;
}

int bench_seal(struct seal *s, const struct cipher *c, unsigned threads)
{
	struct recipient to;
	int r = recipient_from_key_bytes(&to, c->id, no_secret);

	return r == E_OK ? seal_prepare(s, &to, threads) : r;
}

int bench_unseal(struct seal *s, const struct header *h)
{
	return seal_open_key_bytes(s, h, no_secret);
}

/* ---- alone ---- */

struct cost {
	struct seal seal;
	struct block_record record;
	uint8_t *payload, bytes[BLOCK_RECORD];
};

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int check_block(struct cost *c)
{
	static const id128 image = {"bench"};

	block_record_put(c->bytes, &c->record, c->payload, image);
	return E_OK;
}

static int seal_one(struct cost *c)
{
	return seal_block(&c->seal, 0, &c->record, c->payload, c->payload, c->bytes);
}

/* Whether the tag holds takes the same time; what it opened last is no block any more. */
static int open_one(struct cost *c)
{
	seal_unblock(&c->seal, 0, &c->record, c->bytes, c->payload);
	return E_OK;
}

/* Seconds a byte. */
static int time_of(int (*what)(struct cost *c), struct cost *c, double *least)
{
	double begin = cpu_seconds();
	int r = E_OK;

	for (int i = 0; i < BLOCKS && r == E_OK; i++) {
		c->record.number = (uint64_t)i;
		r = what(c);
	}
	double took = (cpu_seconds() - begin) / ((double)BLOCKS * BLOCK);
	if (*least == 0 || took < *least)
		*least = took;
	return r;
}

static int measure_one(struct cipher_alone *a, struct cost *c)
{
	struct header h = {.features = FEATURE_SEALED};
	int r = bench_seal(&c->seal, a->cipher, 0);

	if (r != E_OK)
		return r;
	r = seal_new_key(&c->seal, &h);
	if (r == E_OK)
		r = time_of(check_block, c, &a->check);
	if (r == E_OK)
		r = time_of(seal_one, c, &a->seal);
	if (r == E_OK)
		r = time_of(open_one, c, &a->open);
	seal_close(&c->seal);
	fault_clear();
	return r;
}

int cipher_measure(struct bound *b, const struct cipher *const *list, unsigned n)
{
	struct cost c = {.record = {.stored = BLOCK, .raw = BLOCK}, .payload = malloc(BLOCK)};
	int r = c.payload ? E_OK : E_MEMORY;

	if (c.payload)
		memset(c.payload, 0x5a, BLOCK);
	b->ciphers = 0;
	for (unsigned i = 0; i < n && r == E_OK; i++) {
		if (!list[i])
			continue;
		b->cipher[b->ciphers].cipher = list[i];
		r = measure_one(&b->cipher[b->ciphers++], &c);
	}
	free(c.payload);
	return r;
}

/* A seal stands where a check would. */
static double beyond_check(double cost, const struct cipher_alone *a)
{
	return cost > a->check ? cost - a->check : 0;
}

double cipher_cost(const struct bound *b, const struct cipher *c, enum direction d)
{
	for (unsigned i = 0; i < b->ciphers; i++)
		if (b->cipher[i].cipher == c)
			return beyond_check(d == DIRECTION_SAVE ? b->cipher[i].seal : b->cipher[i].open, &b->cipher[i]);
	return 0;
}
