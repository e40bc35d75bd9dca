/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doc/image-format.md says what stands where; this file only moves bytes. */
#include "image/format.h"

#include "base/bytes.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum {
	CHECK_AT = RECORD_PAGE - 8,
	HEAD_BODY = 512, /* page 0's body starts here */
	HEAD_BODY_BYTES = CHECK_AT - HEAD_BODY,
	FORMAT_VERSION = 1,
};

static const char head_magic[8] = "DORMHEAD", extents_magic[8] = "DORMEXTS", trailer_magic[8] = "DORMTRLR",
		  state_magic[8] = "DORMSTAT";

uint64_t id64(id128 id)
{
	return get_le64(id.b);
}

bool id_is_zero(id128 id)
{
	static const id128 zero;

	return id_equal(id, zero);
}

bool id_equal(id128 a, id128 b)
{
	return memcmp(a.b, b.b, sizeof a.b) == 0;
}

void id_text(id128 id, char out[37])
{
	const uint8_t *b = id.b;

	snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
		 b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void put_check(uint8_t *page, uint64_t seed)
{
	put_le64(page + CHECK_AT, XXH3_64bits_withSeed(page, CHECK_AT, seed));
}

static bool check_holds(const uint8_t *page, uint64_t seed)
{
	return CHECKS_HOLD || get_le64(page + CHECK_AT) == XXH3_64bits_withSeed(page, CHECK_AT, seed);
}

/* A place: whole record page within the device, aligned for direct I/O. */
static bool place_ok(uint64_t place, uint64_t device_size)
{
	return place % RECORD_PAGE == 0 && place <= device_size && device_size - place >= RECORD_PAGE;
}

static bool page_size_ok(uint32_t v)
{
	return v == 4096 || v == 16384 || v == 65536;
}

/* ---- fixed header ---- */

static uint32_t slot_bytes(const struct header *h)
{
	return h->features & FEATURE_SEALED ? KEY_SLOT : 0;
}

uint32_t header_pages(uint32_t fingerprints, bool sealed)
{
	uint64_t body = (uint64_t)fingerprints * FINGERPRINT_BYTES + (sealed ? KEY_SLOT : 0);

	if (body <= HEAD_BODY_BYTES)
		return 1;
	return 1 + (uint32_t)div_up(body - HEAD_BODY_BYTES, CHECK_AT);
}

/* The body runs on over the pages' ends: byte @at of it, and how many follow in that page. */
static size_t body_at(size_t at, size_t *left)
{
	if (at < HEAD_BODY_BYTES) {
		*left = HEAD_BODY_BYTES - at;
		return HEAD_BODY + at;
	}
	at -= HEAD_BODY_BYTES;
	*left = CHECK_AT - at % CHECK_AT;
	return (1 + at / CHECK_AT) * RECORD_PAGE + at % CHECK_AT;
}

static void body_put(uint8_t *pages, size_t at, const uint8_t *src, size_t n)
{
	while (n) {
		size_t left, to = body_at(at, &left), some = n < left ? n : left;

		memcpy(pages + to, src, some);
		at += some;
		src += some;
		n -= some;
	}
}

static void body_get(const uint8_t *pages, size_t at, uint8_t *dst, size_t n)
{
	while (n) {
		size_t left, from = body_at(at, &left), some = n < left ? n : left;

		memcpy(dst, pages + from, some);
		at += some;
		dst += some;
		n -= some;
	}
}

static void fingerprint_put(uint8_t *out, const struct fingerprint *f)
{
	memset(out, 0, FINGERPRINT_BYTES);
	memcpy(out, f->type, strnlen(f->type, 16));
	memcpy(out + 16, f->uuid.b, 16);
	put_le64(out + 32, f->hash);
	put_le32(out + 40, f->major);
	put_le32(out + 44, f->minor);
	put_le32(out + 48, f->flags);
	memcpy(out + 52, f->name, strnlen(f->name, 12));
}

static void fingerprint_get(struct fingerprint *f, const uint8_t *in)
{
	memset(f, 0, sizeof *f);
	memcpy(f->type, in, 16);
	memcpy(f->uuid.b, in + 16, 16);
	f->hash = get_le64(in + 32);
	f->major = get_le32(in + 40);
	f->minor = get_le32(in + 44);
	f->flags = get_le32(in + 48);
	memcpy(f->name, in + 52, 12);
}

static void header_put_root(uint8_t *p, const struct header *h)
{
	memcpy(p, head_magic, 8);
	put_le32(p + 8, FORMAT_VERSION);
	put_le32(p + 12, h->pages);
	put_le32(p + 16, h->features);
	put_le32(p + 20, h->optional_features);
	put_le32(p + 24, h->page_size);
	put_le32(p + 28, h->block_size);
	memcpy(p + 32, h->image_id.b, 16);
	memcpy(p + 48, h->swap_uuid.b, 16);
	memcpy(p + 64, h->installation.b, 16);
	put_le64(p + 80, h->created);
	put_le64(p + 88, h->memory_map);
	put_le64(p + 96, h->image_bytes);
	put_le64(p + 104, h->state_place);
	put_le64(p + 112, h->trailer_place);
	put_le64(p + 120, h->area_start);
	put_le32(p + 128, h->shutdown);
	put_le32(p + 132, h->resume_pause);
	put_le32(p + 136, h->codecs);
	put_le32(p + 140, slot_bytes(h));
	put_le32(p + 144, h->fingerprint_count);
	memcpy(p + 152, h->release, strnlen(h->release, 79));
	memcpy(p + 232, h->machine, strnlen(h->machine, 31));
	for (int i = 0; i < HEADER_PAGES_MAX - 1; i++)
		put_le64(p + 264 + 8 * i, h->more[i]);
}

void header_put(uint8_t *out, const struct header *h, const struct fingerprint *fp)
{
	memset(out, 0, (size_t)h->pages * RECORD_PAGE);
	header_put_root(out, h);
	if (h->features & FEATURE_SEALED) {
		uint8_t slot[KEY_SLOT];

		key_slot_put(slot, &h->slot);
		body_put(out, 0, slot, sizeof slot);
	}
	for (uint32_t i = 0; i < h->fingerprint_count; i++) {
		uint8_t raw[FINGERPRINT_BYTES];

		fingerprint_put(raw, &fp[i]);
		body_put(out, slot_bytes(h) + (size_t)i * FINGERPRINT_BYTES, raw, sizeof raw);
	}
	for (uint32_t i = 0; i < h->pages; i++)
		put_check(out + (size_t)i * RECORD_PAGE, id64(h->image_id) ^ i);
}

static void header_take_root(struct header *h, const uint8_t *p)
{
	memset(h, 0, sizeof *h);
	h->version = get_le32(p + 8);
	h->pages = get_le32(p + 12);
	h->features = get_le32(p + 16);
	h->optional_features = get_le32(p + 20);
	h->page_size = get_le32(p + 24);
	h->block_size = get_le32(p + 28);
	memcpy(h->image_id.b, p + 32, 16);
	memcpy(h->swap_uuid.b, p + 48, 16);
	memcpy(h->installation.b, p + 64, 16);
	h->created = get_le64(p + 80);
	h->memory_map = get_le64(p + 88);
	h->image_bytes = get_le64(p + 96);
	h->state_place = get_le64(p + 104);
	h->trailer_place = get_le64(p + 112);
	h->area_start = get_le64(p + 120);
	h->shutdown = get_le32(p + 128);
	h->resume_pause = get_le32(p + 132);
	h->codecs = get_le32(p + 136);
	h->fingerprint_count = get_le32(p + 144);
	memcpy(h->release, p + 152, 79);
	memcpy(h->machine, p + 232, 31);
	for (int i = 0; i < HEADER_PAGES_MAX - 1; i++)
		h->more[i] = get_le64(p + 264 + 8 * i);
}

static int header_bound(const struct header *h, uint64_t device_size)
{
	if (!page_size_ok(h->page_size))
		return fault(E_CORRUPT, 0, "fixed header: page size %u", h->page_size);
	if (!h->block_size || h->block_size > BLOCK_SIZE_MAX || h->block_size % h->page_size)
		return fault(E_CORRUPT, 0, "fixed header: block size %u", h->block_size);
	if (h->image_bytes % h->page_size)
		return fault(E_CORRUPT, 0, "fixed header: image size is not whole pages");
	if (h->fingerprint_count > FINGERPRINTS_MAX ||
	    h->pages != header_pages(h->fingerprint_count, h->features & FEATURE_SEALED))
		return fault(E_CORRUPT, 0, "fixed header: %u fingerprints in %u pages", h->fingerprint_count, h->pages);
	if (!place_ok(h->state_place, device_size) || !place_ok(h->trailer_place, device_size))
		return fault(E_CORRUPT, 0, "fixed header: a place lies outside the device");
	for (uint32_t i = 1; i < h->pages; i++)
		if (!place_ok(h->more[i - 1], device_size))
			return fault(E_CORRUPT, 0, "fixed header: a place lies outside the device");
	if (h->shutdown > SHUTDOWN_REBOOT)
		return fault(E_CORRUPT, 0, "fixed header: shutdown method %u", h->shutdown);
	return E_OK;
}

static int know_features(const struct header *h, uint32_t slot)
{
	if (h->features & ~(uint32_t)FEATURE_SEALED)
		return fault(E_UNSUPPORTED, 0, "image needs features 0x%x, this program knows 0x%x", h->features,
			     FEATURE_SEALED);
	if (slot_bytes(h) && !crypt_built_in())
		return fault(E_UNSUPPORTED, 0, "image is sealed, and this program was built without encryption");
	if (slot_bytes(h) && slot != KEY_SLOT)
		return fault(E_UNSUPPORTED, 0, "image has a key slot of %u bytes, this program knows %u", slot,
			     KEY_SLOT);
	return E_OK;
}

int header_get_root(struct header *h, const uint8_t *page0, uint64_t device_size)
{
	id128 id;

	memcpy(id.b, page0 + 32, sizeof id.b);
	if (memcmp(page0, head_magic, 8) || !check_holds(page0, id64(id)))
		return fault(E_CORRUPT, 0, "fixed header: its check does not hold");
	header_take_root(h, page0);
	if (h->version != FORMAT_VERSION)
		return fault(E_UNSUPPORTED, 0, "image format version %u, this program reads %u", h->version,
			     FORMAT_VERSION);
	int r = know_features(h, get_le32(page0 + 140));
	if (r != E_OK)
		return r;
	return header_bound(h, device_size);
}

int header_get_rest(struct header *h, const uint8_t *in, struct fingerprint *fp)
{
	for (uint32_t i = 0; i < h->pages; i++)
		if (!check_holds(in + (size_t)i * RECORD_PAGE, id64(h->image_id) ^ i))
			return fault(E_CORRUPT, 0, "fixed header: the check of page %u does not hold", i);
	if (h->features & FEATURE_SEALED) {
		uint8_t slot[KEY_SLOT];

		body_get(in, 0, slot, sizeof slot);
		int r = key_slot_get(&h->slot, slot);
		if (r != E_OK)
			return r;
	}
	for (uint32_t i = 0; i < h->fingerprint_count; i++) {
		uint8_t raw[FINGERPRINT_BYTES];

		body_get(in, slot_bytes(h) + (size_t)i * FINGERPRINT_BYTES, raw, sizeof raw);
		fingerprint_get(&fp[i], raw);
	}
	return E_OK;
}

/* ---- extents ---- */

void extent_page_put(uint8_t out[RECORD_PAGE], struct extent_page *p, id128 image)
{
	memset(out, 0, RECORD_PAGE);
	memcpy(out, extents_magic, 8);
	put_le64(out + 8, p->index);
	put_le64(out + 16, p->next);
	put_le32(out + 24, p->count);
	for (uint32_t i = 0; i < p->count; i++) {
		put_le64(out + 32 + 12 * i, p->e[i].start);
		put_le32(out + 40 + 12 * i, p->e[i].pages);
	}
	put_check(out, id64(image) ^ p->index);
	p->check = get_le64(out + CHECK_AT);
}

static int extent_bound(const struct extent *e, uint32_t page_size, uint64_t device_size)
{
	uint64_t pages = device_size / page_size;

	if (!e->pages || e->start > pages || e->pages > pages - e->start)
		return fault(E_CORRUPT, 0, "extents: pages %llu+%u lie outside the device",
			     (unsigned long long)e->start, e->pages);
	return E_OK;
}

int extent_page_get(struct extent_page *p, const uint8_t in[RECORD_PAGE], id128 image, uint64_t index,
		    uint32_t page_size, uint64_t device_size)
{
	if (memcmp(in, extents_magic, 8) || !check_holds(in, id64(image) ^ index))
		return fault(E_CORRUPT, 0, "extents: the check of page %llu does not hold", (unsigned long long)index);
	p->index = get_le64(in + 8);
	p->next = get_le64(in + 16);
	p->count = get_le32(in + 24);
	p->check = get_le64(in + CHECK_AT);
	if (p->index != index || !p->count || p->count > EXTENTS_PER_PAGE)
		return fault(E_CORRUPT, 0, "extents: page %llu has %u entries", (unsigned long long)index, p->count);
	if (p->next && !place_ok(p->next, device_size))
		return fault(E_CORRUPT, 0, "extents: the next page lies outside the device");
	for (uint32_t i = 0; i < p->count; i++) {
		p->e[i].start = get_le64(in + 32 + 12 * i);
		p->e[i].pages = get_le32(in + 40 + 12 * i);
		int r = extent_bound(&p->e[i], page_size, device_size);
		if (r != E_OK)
			return r;
	}
	return E_OK;
}

/* ---- blocks ---- */

static uint64_t payload_hash(const uint8_t *payload, size_t n, uint64_t number, id128 image)
{
	return XXH3_64bits_withSeed(payload, n, id64(image) ^ number);
}

static uint64_t record_check(const uint8_t *record, uint64_t payload, id128 image)
{
	uint8_t both[24];

	memcpy(both, record, 16);
	put_le64(both + 16, payload);
	return XXH3_64bits_withSeed(both, sizeof both, id64(image));
}

void block_record_head(uint8_t out[BLOCK_RECORD], const struct block_record *b)
{
	memset(out, 0, BLOCK_RECORD);
	put_le32(out, b->stored);
	put_le32(out + 4, b->raw);
	out[8] = b->codec;
	out[9] = b->flags;
	put_le16(out + 10, b->level);
	put_le32(out + 12, (uint32_t)b->number);
}

void block_record_put(uint8_t out[BLOCK_RECORD], const struct block_record *b, const uint8_t *payload, id128 image)
{
	block_record_head(out, b);
	put_le64(out + 16, record_check(out, payload_hash(payload, b->stored, b->number, image), image));
}

static bool closing_shape(const struct block_record *b)
{
	return b->flags == BLOCK_LAST && b->stored == CLOSING_PAYLOAD && b->raw == CLOSING_PAYLOAD;
}

static bool block_shape(const struct block_record *b, uint32_t raw)
{
	if (b->flags || b->codec >= CODECS_MAX || b->raw != raw || !b->stored || b->stored > b->raw)
		return false;
	return b->codec || b->stored == b->raw;
}

int block_record_get(struct block_record *b, const uint8_t in[BLOCK_RECORD], uint64_t number, uint32_t raw)
{
	b->stored = get_le32(in);
	b->raw = get_le32(in + 4);
	b->codec = in[8];
	b->flags = in[9];
	b->level = get_le16(in + 10);
	b->number = number;
	bool shaped = b->codec == CODEC_CLOSING ? closing_shape(b) : block_shape(b, raw);
	if (!shaped || get_le32(in + 12) != (uint32_t)number)
		return fault(E_CORRUPT, 0, "block %llu: its record makes no sense", (unsigned long long)number);
	return E_OK;
}

int block_payload_check(const uint8_t record[BLOCK_RECORD], const uint8_t *payload, uint32_t stored, uint64_t number,
			id128 image)
{
	if (!CHECKS_HOLD &&
	    get_le64(record + 16) != record_check(record, payload_hash(payload, stored, number, image), image))
		return fault(E_CORRUPT, 0, "block %llu: its check does not hold", (unsigned long long)number);
	return E_OK;
}

uint64_t chain_next(uint64_t chain, const uint8_t *bytes, size_t n)
{
	return XXH3_64bits_withSeed(bytes, n, chain);
}

void closing_put(uint8_t out[CLOSING_PAYLOAD], const struct closing *c)
{
	put_le64(out, c->blocks);
	put_le64(out + 8, c->raw_bytes);
	put_le64(out + 16, c->stream_bytes);
	put_le64(out + 24, c->image_check);
}

void closing_get(struct closing *c, const uint8_t in[CLOSING_PAYLOAD])
{
	c->blocks = get_le64(in);
	c->raw_bytes = get_le64(in + 8);
	c->stream_bytes = get_le64(in + 16);
	c->image_check = get_le64(in + 24);
}

/* ---- trailer ---- */

void trailer_put(uint8_t out[RECORD_PAGE], const struct trailer *t, id128 image)
{
	memset(out, 0, RECORD_PAGE);
	memcpy(out, trailer_magic, 8);
	memcpy(out + 8, image.b, 16);
	put_le64(out + 24, t->extents_place);
	put_le64(out + 32, t->extent_pages);
	put_le64(out + 40, t->extents_check);
	put_le64(out + 48, t->stream_bytes);
	put_le64(out + 56, t->blocks);
	put_le64(out + 64, t->raw_bytes);
	put_le64(out + 72, t->image_check);
	put_le64(out + 80, t->save_ns);
	put_le32(out + 88, t->threads);
	for (int i = 0; i < CODECS_MAX; i++) {
		put_le64(out + 96 + 24 * i, t->codec[i].blocks);
		put_le64(out + 104 + 24 * i, t->codec[i].raw);
		put_le64(out + 112 + 24 * i, t->codec[i].stored);
	}
	memcpy(out + 288, t->extents_hash, sizeof t->extents_hash);
	memcpy(out + TRAILER_SEALED, t->tag, sizeof t->tag);
	put_check(out, id64(image));
}

int trailer_get(struct trailer *t, const uint8_t in[RECORD_PAGE], id128 image, uint64_t device_size)
{
	if (memcmp(in, trailer_magic, 8) || memcmp(in + 8, image.b, 16) || !check_holds(in, id64(image)))
		return fault(E_CORRUPT, 0, "trailer: its check does not hold");
	t->extents_place = get_le64(in + 24);
	t->extent_pages = get_le64(in + 32);
	t->extents_check = get_le64(in + 40);
	t->stream_bytes = get_le64(in + 48);
	t->blocks = get_le64(in + 56);
	t->raw_bytes = get_le64(in + 64);
	t->image_check = get_le64(in + 72);
	t->save_ns = get_le64(in + 80);
	t->threads = get_le32(in + 88);
	for (int i = 0; i < CODECS_MAX; i++) {
		t->codec[i].blocks = get_le64(in + 96 + 24 * i);
		t->codec[i].raw = get_le64(in + 104 + 24 * i);
		t->codec[i].stored = get_le64(in + 112 + 24 * i);
	}
	memcpy(t->extents_hash, in + 288, sizeof t->extents_hash);
	memcpy(t->tag, in + TRAILER_SEALED, sizeof t->tag);
	if (!place_ok(t->extents_place, device_size) || t->stream_bytes > device_size)
		return fault(E_CORRUPT, 0, "trailer: the stream lies outside the device");
	return E_OK;
}

/* ---- mutable sector ---- */

enum { STATE_CHECK_AT = 504 };

void state_put(uint8_t out[RECORD_PAGE], const struct state *s, id128 image)
{
	memset(out, 0, RECORD_PAGE);
	memcpy(out, state_magic, 8);
	memcpy(out + 8, image.b, 16);
	put_le32(out + 24, s->flags);
	put_le32(out + 28, s->attempts);
	put_le64(out + 32, s->load_ns);
	put_le64(out + 40, s->load_threads);
	put_le64(out + STATE_CHECK_AT, XXH3_64bits_withSeed(out, STATE_CHECK_AT, id64(image)));
}

void state_get(struct state *s, const uint8_t in[RECORD_PAGE], id128 image)
{
	bool whole =
		!memcmp(in, state_magic, 8) && !memcmp(in + 8, image.b, 16) &&
		(CHECKS_HOLD || get_le64(in + STATE_CHECK_AT) == XXH3_64bits_withSeed(in, STATE_CHECK_AT, id64(image)));

	memset(s, 0, sizeof *s);
	if (!whole) {
		s->attempts = ATTEMPTS_MAX - 1;
		return;
	}
	s->flags = get_le32(in + 24);
	s->attempts = get_le32(in + 28);
	s->load_ns = get_le64(in + 32);
	s->load_threads = get_le64(in + 40);
}
