/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sealed images: saved, opened, altered in every way, forged; keys and the files they lie in. */
#include "config.h"

#include "fakes.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/pool.h"
#include "system/key-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* Sanitizers need address space of their own, terabytes of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RUNNING_ON_SANITIZER true
#else
#define RUNNING_ON_SANITIZER false
#endif

enum { SMALL_BLOCK = 4096, PARTS = 4 };

/* Under memcheck, which is slow: every so many bytes only. */
static uint64_t stride(void)
{
	return getenv("DORMOUSE_SLOW") ? 61 : 1;
}

/* A limit on memory lasts: only in a process of its own, and where the tools that look on need none themselves. */
static bool limit_memory(void)
{
	struct rlimit little = {64 << 20, 64 << 20};
	const char *fork = getenv("CK_FORK");

	if (RUNNING_ON_SANITIZER || (fork && !strcmp(fork, "no")))
		return false;
	return !setrlimit(RLIMIT_AS, &little);
}

static const struct bytes key_file = {"the bytes of a key file", 23}, other_key = {"the bytes of another one", 24};
static const struct argon2_cost cheap = {64, 1, 1};
static struct rig rig, other;
static struct recipient to;

static struct bytes text(const char *s)
{
	return (struct bytes){s, strlen(s)};
}

static void for_key_file(unsigned cipher)
{
	ck_assert_int_eq(recipient_from_key_bytes(&to, cipher, key_file), E_OK);
}

/* Several blocks, two header pages; blocks of one size when they are not packed. */
static struct rig_options small(const struct codec *codec)
{
	return (struct rig_options){.codec = codec,
				    .level = codec->level_default,
				    .block_size = SMALL_BLOCK,
				    .pages = 5,
				    .content = codec == &codec_none ? CONTENT_RANDOM : CONTENT_TEXT,
				    .seed = 1,
				    .fingerprints = 60,
				    .area_pages = 2048,
				    .to = &to,
				    .key = key_file};
}

static void save_small(struct rig *r, const struct codec *codec)
{
	struct rig_options o = small(codec);

	rig_open(r, &o);
	ck_assert_int_eq(rig_save(r), E_OK);
	ck_assert_int_eq(rig_load(r), E_OK);
	ck_assert(rig_same(r));
}

static int load_with(struct rig *r, struct bytes key, const char *passphrase)
{
	seal_close(&r->opened);
	r->o.key = key;
	r->o.passphrase = passphrase;
	return rig_load(r);
}

/* ---- there and back ---- */

static void there_and_back(uint64_t pages, enum fake_content content)
{
	rig.o.pages = pages;
	rig.raw = pages * rig.o.page_size;
	rig.o.content = content;
	ck_assert_int_eq(rig_save(&rig), E_OK);
	int r = rig_load(&rig);
	ck_assert_msg(r == E_OK, "load of %llu pages, content %d: %s", (unsigned long long)pages, (int)content,
		      fault_text());
	ck_assert(rig_same(&rig));
	ck_assert_uint_eq(rig.image.header.features, FEATURE_SEALED);
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	ck_assert(!rig.image.key_left);
}

/* Every cipher with every number of threads. */
START_TEST(test_round_trip)
{
	static const unsigned threads[] = {0, 1, 4};
	static const struct codec *const codecs[] = {&codec_none, &codec_lz4, &codec_zstd, &codec_lzo};
	const struct codec *codec = codecs[_i % 4];
	unsigned cipher = 1 + (unsigned)_i / 12;

	for_key_file(cipher);
	if (!codec_built_in(codec))
		codec = &codec_none;
	rig_open(&rig, &(struct rig_options){.codec = codec,
					     .level = codec->level_default,
					     .adapt = _i % 5 == 4,
					     .threads = threads[_i / 4 % 3],
					     .load_threads = threads[(_i + 1) % 3],
					     .layout = (enum fake_layout)(_i % LAYOUT_COUNT),
					     .async = (uint64_t)_i,
					     .to = &to,
					     .key = key_file});
	for (int c = 0; c < CONTENT_COUNT; c++) {
		there_and_back(0, (enum fake_content)c);
		there_and_back(1, (enum fake_content)c);
		there_and_back(65, (enum fake_content)c);
	}
	there_and_back(1500, CONTENT_MIXED);
	ck_assert_uint_eq(rig.image.header.slot.cipher, cipher);
	rig_close(&rig);
}
END_TEST

/* Same pages, same recipient: nothing but the lengths is the same. */
START_TEST(test_fresh_key_each_time)
{
	uint8_t key[2][CRYPT_KEY];

	for_key_file(0);
	save_small(&rig, &codec_none);
	memcpy(key[0], rig.opened.key, CRYPT_KEY);
	save_small(&other, &codec_none);
	memcpy(key[1], other.opened.key, CRYPT_KEY);
	ck_assert_mem_ne(key[0], key[1], CRYPT_KEY);
	ck_assert_mem_ne(rig.image.header.slot.ephemeral, other.image.header.slot.ephemeral, CRYPT_POINT);
	rig_close(&other);
	rig_close(&rig);
}
END_TEST

static bool holds(const struct rig *r, const uint8_t *what, size_t n)
{
	return memmem(r->disk.bytes, r->disk.disk.size, what, n);
}

/* No page, no key and no byte of the passphrase's keys lies on the disk. */
START_TEST(test_disk_holds_no_secret)
{
	static uint8_t page[4096];

	for_key_file(1 + (unsigned)_i % 3);
	save_small(&rig, &codec_none);
	for (uint64_t i = 0; i < rig.o.pages; i++) {
		fake_page(page, 4096, rig.o.content, rig.o.seed, i);
		ck_assert(!holds(&rig, page, 32));
	}
	ck_assert(!holds(&rig, rig.opened.key, CRYPT_KEY));
	ck_assert(!holds(&rig, to.authenticator, CRYPT_KEY));
	ck_assert(!holds(&rig, to.public_key, CRYPT_POINT));
	rig_close(&rig);
}
END_TEST

/* ---- alterations ---- */

static void expect(struct rig *r, int code, const char *what, uint64_t at)
{
	int got = rig_load(r);

	if (got == E_OK)
		must(rig_same(r));
	if (got != code)
		ck_abort_msg("%s %llu altered: code %d instead of %d: %s", what, (unsigned long long)at, got, code,
			     fault_text());
}

static uint8_t flip_with(uint64_t i)
{
	return (uint8_t)(i % 3 ? 1u << i % 8 : 1 + i % 255);
}

/* What the writer wrote of the page at @place, in the units of whole swap pages. */
static bool within(uint64_t at, uint64_t place)
{
	return at >= place && at < place + RECORD_PAGE;
}

/* Which part of the image byte @at of the disk is: the code its alteration must give. */
static int code_of(const struct rig *r, const uint8_t *stream, uint64_t at)
{
	if (at < 4096)
		return -1; /* swap header and mark: check_image has them */
	if (within(at, save_header_place(r->save)) || within(at, r->header.more[0]) ||
	    within(at, r->header.trailer_place) || within(at, r->image.trailer.extents_place) || stream[at])
		return E_CORRUPT;
	return E_OK;
}

/* Sets a byte for each byte of the disk that belongs to the stream. */
static uint8_t *map_stream(const struct rig *r)
{
	static struct extent_page map;
	uint8_t *in = calloc(1, r->disk.disk.size);
	uint64_t left = r->image.trailer.stream_bytes;

	must(in && r->image.trailer.extent_pages == 1);
	must(extent_page_get(&map, r->disk.bytes + r->image.trailer.extents_place, r->header.image_id, 0,
			     r->o.page_size, r->disk.disk.size) == E_OK);
	for (uint32_t i = 0; i < map.count; i++) {
		uint64_t n = min_u64(left, (uint64_t)map.e[i].pages * r->o.page_size);
		memset(in + map.e[i].start * r->o.page_size, 1, n);
		left -= n;
	}
	must(!left);
	return in;
}

/* The last byte that was ever written. */
static uint64_t disk_used(const struct rig *r)
{
	uint64_t end = 0;

	for (unsigned i = 0; i < r->disk.log_count; i++) {
		const struct fake_entry *e = &r->disk.log[i];
		if (e->write && e->offset + e->length > end)
			end = e->offset + e->length;
	}
	return end;
}

/* Every single byte that the save wrote, in PARTS tests. */
START_TEST(test_every_byte)
{
	for_key_file(1 + (unsigned)_i / PARTS);
	save_small(&rig, codec_default());
	uint8_t *stream = map_stream(&rig);
	uint64_t end = disk_used(&rig), met = 0;

	for (uint64_t at = 4096 + (uint64_t)_i % PARTS; at < end; at += PARTS * stride()) {
		int code = code_of(&rig, stream, at);
		uint8_t old = rig.disk.bytes[at];

		rig.disk.bytes[at] ^= flip_with(at);
		expect(&rig, code, "byte", at);
		rig.disk.bytes[at] = old;
		met += code == E_CORRUPT;
	}
	ck_assert_uint_ge(met, 4 * RECORD_PAGE / PARTS / stride());
	ck_assert_int_eq(rig_load(&rig), E_OK);
	free(stream);
	rig_close(&rig);
}
END_TEST

static void put_right(uint8_t *page, uint64_t seed)
{
	put_le64(page + 4088, XXH3_64bits_withSeed(page, 4088, seed));
}

/* Who alters a record page puts its check right too: what then refuses it is the seal. */
static void alter(struct rig *r, uint64_t place, uint64_t index, uint64_t at, int code, const char *what)
{
	uint8_t *page = r->disk.bytes + place, old = page[at];

	page[at] ^= flip_with(at);
	put_right(page, id64(r->header.image_id) ^ index);
	expect(r, code, what, at);
	page[at] = old;
	put_right(page, id64(r->header.image_id) ^ index);
}

enum { SLOT_AT = 512, SLOT_END = SLOT_AT + KEY_SLOT };

/* Of the fixed header's first page, sealed with a key file. */
static int code_of_header(uint64_t at)
{
	if ((at >= 8 && at < 12) || (at >= 16 && at < 20) || (at >= 140 && at < 144))
		return E_UNSUPPORTED; /* version, features, length of the slot */
	if (at == SLOT_AT || at == SLOT_AT + 1)
		return E_UNSUPPORTED; /* mode, cipher: see below */
	if (at >= SLOT_AT + 16 && at < SLOT_AT + 88)
		return E_KEY; /* salt, the image's public key, key check, key id */
	return E_CORRUPT;
}

START_TEST(test_header_altered_and_put_right)
{
	for_key_file(CIPHER_CHACHA20);
	save_small(&rig, codec_default());
	for (uint64_t at = 0; at < 4088; at += stride()) {
		if (at >= SLOT_AT && at < SLOT_AT + 2)
			continue;
		if (at >= 16 && at < 20)
			continue;
		alter(&rig, save_header_place(rig.save), 0, at, code_of_header(at), "header, byte");
	}
	for (uint64_t at = 0; at < 4088; at += stride())
		alter(&rig, rig.header.more[0], 1, at, E_CORRUPT, "header, second page, byte");
	ck_assert_int_eq(rig_load(&rig), E_OK);
	rig_close(&rig);
}
END_TEST

/* One byte of the header has this value, and its check holds. */
static void say(struct rig *r, uint64_t at, uint8_t value, int code)
{
	uint8_t *page = r->disk.bytes + save_header_place(r->save), old = page[at];

	page[at] = value;
	put_right(page, id64(r->header.image_id));
	expect(r, code, "header, byte", at);
	page[at] = old;
	put_right(page, id64(r->header.image_id));
}

START_TEST(test_header_says_something_else)
{
	for_key_file(CIPHER_GCM);
	save_small(&rig, codec_default());
	say(&rig, 16, 0,
	    E_CORRUPT); /* not sealed: the fingerprints are not whole then, and the blocks' checks neither */
	say(&rig, 16, 3, E_UNSUPPORTED);
	say(&rig, 19, 1, E_UNSUPPORTED);
	say(&rig, SLOT_AT, 0, E_UNSUPPORTED);
	say(&rig, SLOT_AT, 4, E_UNSUPPORTED);
	say(&rig, SLOT_AT, KEY_MODE_PASSPHRASE, E_CORRUPT); /* costs that are none */
	say(&rig, SLOT_AT + 1, 0, E_UNSUPPORTED);
	say(&rig, SLOT_AT + 1, CIPHER_COUNT, E_UNSUPPORTED);
	say(&rig, SLOT_AT + 1, CIPHER_OCB, E_CORRUPT);
	say(&rig, SLOT_AT + 1, CIPHER_CHACHA20, E_CORRUPT);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	rig_close(&rig);
}
END_TEST

START_TEST(test_trailer_and_extents_put_right)
{
	for_key_file(1 + (unsigned)_i);
	save_small(&rig, codec_default());
	uint64_t extents = rig.image.trailer.extents_place;
	for (uint64_t at = 0; at < 4088; at += stride()) {
		alter(&rig, rig.header.trailer_place, 0, at, E_CORRUPT, "trailer, byte");
		alter(&rig, extents, 0, at, E_CORRUPT, "extents, byte");
	}
	ck_assert_int_eq(rig_load(&rig), E_OK);
	rig_close(&rig);
}
END_TEST

/* ---- blocks out of their places ---- */

enum { ONE = BLOCK_RECORD + SMALL_BLOCK };

/* The stream of an image whose blocks lie in one run of pages. */
static uint8_t *stream_of(struct rig *r)
{
	static struct extent_page map;

	must(extent_page_get(&map, r->disk.bytes + r->image.trailer.extents_place, r->header.image_id, 0,
			     r->o.page_size, r->disk.disk.size) == E_OK);
	must(map.count == 1 && r->image.trailer.stream_bytes == 5 * ONE + BLOCK_RECORD + CLOSING_PAYLOAD);
	return r->disk.bytes + map.e[0].start * r->o.page_size;
}

/* The number in the clear is put right, so that it is the seal that refuses. */
static void move_block(uint8_t *stream, unsigned from, unsigned onto, const uint8_t *source)
{
	memcpy(stream + onto * ONE, source + from * ONE, ONE);
	put_le32(stream + onto * ONE + 12, onto);
}

static void check_moved(struct rig *r, uint8_t *stream, const uint8_t *whole, unsigned block)
{
	char want[64];

	snprintf(want, sizeof want, "block %u: it is not what was sealed there", block);
	ck_assert_int_eq(rig_load(r), E_CORRUPT);
	ck_assert_str_eq(fault_text(), want);
	memcpy(stream, whole, 5 * ONE + BLOCK_RECORD + CLOSING_PAYLOAD);
	ck_assert_int_eq(rig_load(r), E_OK);
}

START_TEST(test_blocks_moved)
{
	uint8_t whole[6 * ONE];

	for_key_file(1 + (unsigned)_i);
	save_small(&rig, &codec_none);
	uint8_t *stream = stream_of(&rig);
	memcpy(whole, stream, 5 * ONE + BLOCK_RECORD + CLOSING_PAYLOAD);
	/* Swapped: the earlier is found first. */
	move_block(stream, 1, 3, whole);
	move_block(stream, 3, 1, whole);
	check_moved(&rig, stream, whole, 1);
	/* Repeated. */
	move_block(stream, 1, 2, whole);
	check_moved(&rig, stream, whole, 2);
	/* One cut out, the rest moved up. */
	for (unsigned i = 2; i < 5; i++)
		move_block(stream, i, i - 1, whole);
	check_moved(&rig, stream, whole, 1);
	rig_close(&rig);
}
END_TEST

/* Blocks of another image for the same recipient, and of the same header but another key. */
START_TEST(test_blocks_of_another_image)
{
	uint8_t whole[6 * ONE];

	for_key_file(1 + (unsigned)_i);
	save_small(&rig, &codec_none);
	struct rig_options o = small(&codec_none);
	rig_open(&other, &o); /* even the image id is the same */
	ck_assert_int_eq(rig_save(&other), E_OK);
	ck_assert_int_eq(rig_load(&other), E_OK);
	uint8_t *stream = stream_of(&rig);
	memcpy(whole, stream, 5 * ONE + BLOCK_RECORD + CLOSING_PAYLOAD);
	move_block(stream, 2, 2, stream_of(&other));
	check_moved(&rig, stream, whole, 2);
	/* The closing record and the trailer of the other. */
	memcpy(stream + 5 * ONE, stream_of(&other) + 5 * ONE, BLOCK_RECORD + CLOSING_PAYLOAD);
	check_moved(&rig, stream, whole, 5);
	memcpy(rig.disk.bytes + rig.header.trailer_place, other.disk.bytes + other.header.trailer_place, RECORD_PAGE);
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	rig_close(&other);
	rig_close(&rig);
}
END_TEST

/* The stream ends after two blocks: a closing record belongs to one number only. */
START_TEST(test_cut_short)
{
	for_key_file(0);
	save_small(&rig, &codec_none);
	uint8_t *stream = stream_of(&rig);
	memmove(stream + 2 * ONE, stream + 5 * ONE, BLOCK_RECORD + CLOSING_PAYLOAD);
	put_le32(stream + 2 * ONE + 12, 2);
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	rig_close(&rig);
}
END_TEST

/* An image that is not opened is not loaded, whoever forgot it. */
START_TEST(test_not_opened)
{
	struct load_input in = {.image = &rig.image, .sink = &rig.sink.sink};

	for_key_file(0);
	save_small(&rig, codec_default());
	ck_assert_int_eq(image_open(&rig.image, &rig.disk.disk, 0, rig.scratch), E_OK);
	ck_assert_int_eq(image_read_trailer(&rig.image), E_OK);
	fault_clear();
	ck_assert_int_eq(load_run(rig.load, &in), E_KEY);
	rig_close(&rig);
}
END_TEST

/* ---- keys ---- */

START_TEST(test_wrong_keys)
{
	for_key_file(0);
	save_small(&rig, codec_default());
	ck_assert_int_eq(load_with(&rig, other_key, NULL), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, "a passphrase"), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, NULL), E_OK);
	rig_close(&rig);
	ck_assert_int_eq(recipient_from_passphrase(&to, 0, "pass", 4, &cheap), E_OK);
	struct rig_options o = small(codec_default());
	rig_open(&rig, &o);
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(load_with(&rig, key_file, "Pass"), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, "pass "), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, ""), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, NULL), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, "pass"), E_OK);
	ck_assert(rig_same(&rig));
	ck_assert_int_eq(recipient_from_passphrase(&to, 0, "", 0, &cheap), E_KEY);
	ck_assert_int_eq(recipient_from_passphrase(&to, CIPHER_COUNT, "pass", 4, &cheap), E_CONF);
	rig_close(&rig);
}
END_TEST

static int save_for_pair(const struct key_pair *pair)
{
	ck_assert_int_eq(recipient_from_pair(&to, 0, pair), E_OK);
	struct rig_options o = small(codec_default());
	rig_open(&rig, &o);
	return rig_save(&rig);
}

START_TEST(test_key_pair)
{
	struct key_pair pair, changed;
	uint8_t id[KEY_ID];

	ck_assert_int_eq(key_pair_make(&pair, text("first"), &cheap), E_OK);
	changed = pair;
	ck_assert_int_eq(key_pair_change(&changed, text("wrong"), text("second"), &cheap), E_KEY);
	ck_assert_mem_eq(&changed, &pair, sizeof pair);
	ck_assert_int_eq(key_pair_change(&changed, text("first"), text("second"), &cheap), E_OK);
	ck_assert_int_eq(save_for_pair(&pair), E_OK);
	ck_assert_int_eq(load_with(&rig, key_file, "second"), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, NULL), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, "first"), E_OK);
	ck_assert(rig_same(&rig));
	key_pair_id(&pair, id);
	ck_assert_mem_eq(rig.image.header.slot.id, id, KEY_ID);
	rig_close(&rig);
	/* The same pair under its new passphrase. */
	ck_assert_int_eq(save_for_pair(&changed), E_OK);
	ck_assert_int_eq(load_with(&rig, key_file, "first"), E_KEY);
	ck_assert_int_eq(load_with(&rig, key_file, "second"), E_OK);
	ck_assert_mem_eq(rig.image.header.slot.id, id, KEY_ID);
	rig_close(&rig);
}
END_TEST

/* Who knows the public half and has seen images, but not the authenticator, cannot make one. */
START_TEST(test_forged_without_authenticator)
{
	struct key_pair pair, forged;

	ck_assert_int_eq(key_pair_make(&pair, text("word"), &cheap), E_OK);
	forged = pair;
	memset(forged.authenticator, 0, sizeof forged.authenticator);
	ck_assert_int_eq(save_for_pair(&forged), E_OK);
	ck_assert_int_eq(load_with(&rig, key_file, "word"), E_KEY);
	rig_close(&rig);
	/* Another public half under the same wrapping. */
	forged = pair;
	forged.public_key[0] ^= 1;
	ck_assert_int_eq(save_for_pair(&forged), E_OK);
	ck_assert_int_eq(load_with(&rig, key_file, "word"), E_KEY);
	rig_close(&rig);
	/* A cheaper cost, a salt of one's own: the wrapping holds for neither. */
	forged = pair;
	forged.cost.passes++;
	ck_assert_int_eq(save_for_pair(&forged), E_OK);
	ck_assert_int_eq(load_with(&rig, key_file, "word"), E_KEY);
	rig_close(&rig);
}
END_TEST

/* Whatever a header asks for, out of bounds it is refused before memory is taken: there is none to take here. */
START_TEST(test_costs_are_bounded)
{
	static const struct argon2_cost costs[] = {
		{UINT32_MAX, 1, 1},
		{KEY_MEMORY_MAX + 1, 1, 1},
		{64, 0, 1},
		{64, KEY_PASSES_MAX + 1, 1},
		{64, UINT32_MAX, 1},
		{64, 1, 0},
		{64, 1, KEY_LANES_MAX + 1},
		{7, 1, 1},
		{31, 1, 4},
		{0, 1, 1},
	};
	uint8_t slot[KEY_SLOT], key[CRYPT_KEY];
	struct header h = {.features = FEATURE_SEALED};

	ck_assert_int_eq(recipient_from_passphrase(&to, 0, "pass", 4, &cheap), E_OK);
	size_t before = pool_used();
	limit_memory();
	for (int mode = KEY_MODE_PASSPHRASE; mode <= KEY_MODE_PAIR; mode++) {
		h.slot = to.slot;
		h.slot.mode = (uint8_t)mode;
		h.slot.cost = costs[_i];
		key_slot_put(slot, &h.slot);
		ck_assert_int_eq(key_slot_get(&h.slot, slot), E_CORRUPT);
		ck_assert_int_eq(key_from_passphrase(&h, text("pass"), key), E_CORRUPT);
	}
	ck_assert_uint_eq(pool_used(), before);
}
END_TEST

START_TEST(test_no_memory_for_the_passphrase)
{
	struct header h = {.features = FEATURE_SEALED};
	uint8_t key[CRYPT_KEY];

	ck_assert_int_eq(recipient_from_passphrase(&to, 0, "pass", 4, &cheap), E_OK);
	size_t before = pool_used();
	h.slot = to.slot;
	h.slot.cost.memory = KEY_MEMORY_MAX;
	if (!limit_memory())
		return;
	ck_assert_int_eq(key_from_passphrase(&h, text("pass"), key), E_MEMORY);
	ck_assert_uint_eq(pool_used(), before);
}
END_TEST

/* A point of small order as the image's own half: every secret would agree on zeros. */
START_TEST(test_small_order)
{
	struct header h = {.features = FEATURE_SEALED};
	uint8_t key[CRYPT_KEY];

	for_key_file(0);
	ck_assert_int_eq(key_make(&to, &h, key), E_OK);
	memset(h.slot.ephemeral, 0, sizeof h.slot.ephemeral);
	ck_assert_int_eq(key_from_key_bytes(&h, key_file, key), E_CORRUPT);
	memset(to.public_key, 0, sizeof to.public_key);
	ck_assert_int_eq(key_make(&to, &h, key), E_CORRUPT);
}
END_TEST

START_TEST(test_calibration)
{
	struct argon2_cost c;

	ck_assert_int_eq(crypt_start(), E_OK);
	ck_assert_int_eq(key_calibrate(&c), E_OK);
	ck_assert(key_cost_ok(&c));
}
END_TEST

START_TEST(test_descriptions)
{
	char out[KEY_TEXT];
	struct key_slot s = {.mode = KEY_MODE_PASSPHRASE, .cipher = CIPHER_GCM, .id = {1, 0x23, 0xff}};

	ck_assert_str_eq(key_describe(&s, out), "with a passphrase, aes-256-gcm");
	s.mode = KEY_MODE_PAIR;
	ck_assert_str_eq(key_describe(&s, out), "for the key pair 0123ff0000000000, aes-256-gcm");
	s.mode = KEY_MODE_FILE;
	ck_assert_str_eq(key_describe(&s, out), "for the key file 0123ff0000000000, aes-256-gcm");
}
END_TEST

/* ---- what is left behind ---- */

/* All memory comes back, after failures too, and a second save needs no more of it. */
START_TEST(test_nothing_leaks)
{
	size_t before = 0;

	for (int i = 0; i < 3; i++) {
		for_key_file(1 + (unsigned)i);
		save_small(&rig, codec_default());
		size_t used = pool_used();
		ck_assert_int_eq(image_discard(&rig.image), E_OK);
		ck_assert_int_eq(rig_save(&rig), E_OK);
		ck_assert_uint_eq(pool_used(), used);
		ck_assert_int_eq(load_with(&rig, other_key, NULL), E_KEY);
		ck_assert_int_eq(load_with(&rig, key_file, "word"), E_KEY);
		rig_close(&rig);
		if (!i)
			before = pool_used();
		ck_assert_uint_eq(pool_used(), before);
	}
}
END_TEST

/* After a save the contexts seal as if they had never had a key, however the save ended. */
START_TEST(test_save_forgets_its_key)
{
	static const uint8_t zeros[CRYPT_KEY];
	struct aead_with w = {.n = 0};
	uint8_t plain[64] = "plain", ours[64], fresh[64], tag[CRYPT_TAG];
	struct aead *a;

	for_key_file(1 + (unsigned)_i / 2);
	struct rig_options o = small(codec_default());
	o.threads = 3;
	rig_open(&rig, &o);
	if (_i % 2)
		fake_disk_fail(&rig.disk, (struct fake_fault){.op = FAKE_WRITE, .nth = 2, .times = 1, .error = EIO});
	ck_assert_int_eq(rig_save_run(&rig), _i % 2 ? E_IO : E_OK);
	ck_assert_int_eq(aead_open(&a, rig.seal.cipher), E_OK);
	ck_assert_int_eq(aead_key(a, zeros), E_OK);
	ck_assert_int_eq(aead_seal(a, &w, fresh, plain, sizeof plain, tag), E_OK);
	ck_assert_uint_eq(rig.seal.contexts, 4);
	for (unsigned i = 0; i < rig.seal.contexts; i++) {
		ck_assert_int_eq(aead_seal(rig.seal.context[i], &w, ours, plain, sizeof plain, tag), E_OK);
		ck_assert_mem_eq(ours, fresh, sizeof ours);
	}
	ck_assert_mem_eq(rig.seal.key, zeros, sizeof zeros);
	aead_close(a);
	rig_close(&rig);
}
END_TEST

static bool is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/* Giving the image up takes the wrapped key with it; only then, and only behind the mark. */
START_TEST(test_discard_takes_the_key)
{
	for_key_file(0);
	save_small(&rig, codec_default());
	uint8_t *head = rig.disk.bytes + save_header_place(rig.save);
	ck_assert(holds(&rig, rig.image.header.slot.ephemeral, CRYPT_POINT));
	fake_disk_forget(&rig.disk);
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	ck_assert(is_zero(head, RECORD_PAGE));
	ck_assert(!holds(&rig, rig.image.header.slot.ephemeral, CRYPT_POINT));
	ck_assert_uint_eq(rig.disk.log_count, 4); /* mark, sync, key, sync */
	ck_assert(rig.disk.log[0].write && !rig.disk.log[1].write && rig.disk.log[2].write && !rig.disk.log[3].write);
	ck_assert_uint_eq(rig.disk.log[2].offset, save_header_place(rig.save));
	ck_assert_int_eq(rig_kind(&rig), MARK_SWAP);
	rig_close(&rig);
}
END_TEST

/* When the mark stays the key stays; when only the key cannot be overwritten that is said, no more. */
START_TEST(test_discard_that_fails)
{
	for_key_file(0);
	save_small(&rig, codec_default());
	uint8_t *head = rig.disk.bytes + save_header_place(rig.save);
	fake_disk_forget(&rig.disk);
	fake_disk_fail(&rig.disk, (struct fake_fault){.op = FAKE_WRITE, .nth = 1, .times = 1, .error = EIO});
	ck_assert_int_eq(image_discard(&rig.image), E_IO);
	ck_assert(!is_zero(head, RECORD_PAGE));
	fake_disk_forget(&rig.disk);
	fake_disk_fail(&rig.disk, (struct fake_fault){.op = FAKE_WRITE, .nth = 2, .times = 1, .error = EIO});
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	ck_assert(rig.image.key_left);
	ck_assert_int_eq(rig_kind(&rig), MARK_SWAP);
	rig_close(&rig);
}
END_TEST

/* ---- files ---- */

static char folder[] = "/tmp/check_seal.XXXXXX", path[64];

static void make_folder(void)
{
	strcpy(folder, "/tmp/check_seal.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/key", folder);
}

static void remove_folder(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0);
}

static void write_file(const void *bytes, size_t n, mode_t mode)
{
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

START_TEST(test_key_file)
{
	static const uint8_t large[KEY_FILE_MOST + 1];
	struct seal s;

	make_folder();
	write_file(key_file.at, key_file.n, 0600);
	ck_assert_int_eq(recipient_from_key_file(&to, 0, path), E_OK);
	struct rig_options o = small(codec_default());
	rig_open(&rig, &o);
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(load_with(&rig, key_file, NULL), E_OK);
	ck_assert_int_eq(seal_open_key_file(&s, &rig.image.header, path), E_OK);
	ck_assert_mem_eq(s.key, rig.opened.key, CRYPT_KEY);
	seal_close(&s);
	static const mode_t modes[] = {0640, 0604, 0620, 0601};
	for (size_t i = 0; i < 4; i++) {
		write_file(key_file.at, key_file.n, modes[i]);
		ck_assert_int_eq(recipient_from_key_file(&to, 0, path), E_CONF);
		ck_assert_int_eq(seal_open_key_file(&s, &rig.image.header, path), E_CONF);
	}
	write_file(key_file.at, KEY_FILE_LEAST - 1, 0400);
	ck_assert_int_eq(recipient_from_key_file(&to, 0, path), E_CONF);
	write_file(large, sizeof large, 0400);
	ck_assert_int_eq(recipient_from_key_file(&to, 0, path), E_CONF);
	write_file(large, KEY_FILE_MOST, 0400);
	ck_assert_int_eq(recipient_from_key_file(&to, 0, path), E_OK);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, 65534, 65534), 0);
		ck_assert_int_eq(recipient_from_key_file(&to, 0, path), E_CONF);
	}
	ck_assert_int_eq(recipient_from_key_file(&to, 0, folder), E_CONF);
	unlink(path);
	ck_assert_int_eq(recipient_from_key_file(&to, 0, path), E_CONF);
	rig_close(&rig);
	remove_folder();
}
END_TEST

START_TEST(test_key_pair_file)
{
	struct key_pair pair, again;
	struct stat st;

	make_folder();
	ck_assert_int_eq(key_pair_make(&pair, text("word"), &cheap), E_OK);
	ck_assert_int_eq(key_pair_write(&pair, path, false), E_OK);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(key_pair_read(&again, path), E_OK);
	ck_assert_mem_eq(&again, &pair, sizeof pair);
	fault_clear();
	ck_assert_int_eq(key_pair_write(&pair, path, false), E_CONF);
	ck_assert_int_eq(key_pair_change(&again, text("word"), text("new"), &cheap), E_OK);
	ck_assert_int_eq(key_pair_write(&again, path, true), E_OK);
	ck_assert_int_eq(key_pair_read(&pair, path), E_OK);
	ck_assert_mem_eq(&again, &pair, sizeof pair);
	ck_assert_int_eq(recipient_from_key_pair(&to, CIPHER_GCM, path), E_OK);
	ck_assert_mem_eq(to.authenticator, pair.authenticator, CRYPT_KEY);
	ck_assert_int_eq(chmod(path, 0640), 0);
	ck_assert_int_eq(recipient_from_key_pair(&to, 0, path), E_CONF);
	remove_folder();
}
END_TEST

/* No byte of the pair's file can be another one, none be missing, none be added. */
START_TEST(test_key_pair_file_altered)
{
	struct key_pair pair;
	char bytes[2048];

	make_folder();
	ck_assert_int_eq(key_pair_make(&pair, text("word"), &cheap), E_OK);
	ck_assert_int_eq(key_pair_write(&pair, path, false), E_OK);
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, bytes, sizeof bytes);
	close(fd);
	must(n > 500 && n < (ssize_t)sizeof bytes);
	for (ssize_t i = 0; i < n; i += (ssize_t)stride()) {
		char old = bytes[i];
		bytes[i] = (char)(old ^ (1 << i % 7));
		write_file(bytes, (size_t)n, 0600);
		must(key_pair_read(&pair, path) == E_CONF);
		bytes[i] = old;
	}
	for (ssize_t cut = 1; cut < n; cut += 7) {
		write_file(bytes, (size_t)(n - cut), 0600);
		must(key_pair_read(&pair, path) == E_CONF);
	}
	bytes[n] = '\n';
	write_file(bytes, (size_t)n + 1, 0600);
	ck_assert_int_eq(key_pair_read(&pair, path), E_CONF);
	write_file(bytes, (size_t)n, 0600);
	ck_assert_int_eq(key_pair_read(&pair, path), E_OK);
	remove_folder();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("check_seal");
	TCase *t = tcase_create("images"), *k = tcase_create("keys"), *l = tcase_create("left"),
	      *f = tcase_create("files");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, test_round_trip, 0, 36);
	tcase_add_test(t, test_fresh_key_each_time);
	tcase_add_loop_test(t, test_disk_holds_no_secret, 0, 3);
	tcase_add_loop_test(t, test_every_byte, 0, 3 * PARTS);
	tcase_add_test(t, test_header_altered_and_put_right);
	tcase_add_test(t, test_header_says_something_else);
	tcase_add_loop_test(t, test_trailer_and_extents_put_right, 0, 3);
	tcase_add_loop_test(t, test_blocks_moved, 0, 3);
	tcase_add_loop_test(t, test_blocks_of_another_image, 0, 3);
	tcase_add_test(t, test_cut_short);
	tcase_add_test(t, test_not_opened);
	suite_add_tcase(s, t);
	tcase_set_timeout(k, 60);
	tcase_add_test(k, test_wrong_keys);
	tcase_add_test(k, test_key_pair);
	tcase_add_test(k, test_forged_without_authenticator);
	tcase_add_loop_test(k, test_costs_are_bounded, 0, 10);
	tcase_add_test(k, test_no_memory_for_the_passphrase);
	tcase_add_test(k, test_small_order);
	tcase_add_test(k, test_calibration);
	tcase_add_test(k, test_descriptions);
	suite_add_tcase(s, k);
	tcase_add_test(l, test_nothing_leaks);
	tcase_add_loop_test(l, test_save_forgets_its_key, 0, 6);
	tcase_add_test(l, test_discard_takes_the_key);
	tcase_add_test(l, test_discard_that_fails);
	suite_add_tcase(s, l);
	tcase_set_timeout(f, 60);
	tcase_add_test(f, test_key_file);
	tcase_add_test(f, test_key_pair_file);
	tcase_add_test(f, test_key_pair_file_altered);
	suite_add_tcase(s, f);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(crypt_built_in() ? suite() : suite_create("check_seal"));

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
