/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Codecs and blocks.  All memory is taken to the byte, so that a build with
 * address sanitizer sees any access beyond what was declared; guard bytes see
 * it without.
 */
#include "base/bytes.h"
#include "base/error.h"
#include "image/block.h"
#include "image/codec.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 << 10, GUARD = 64, GUARD_BYTE = 0xa5 };

static const struct codec *const all[] = {&codec_none, &codec_lzo, &codec_lz4, &codec_zstd};
enum { CODECS = sizeof all / sizeof all[0] };

static const id128 image = {{9, 8, 7, 6, 5, 4, 3, 2, 1}};

/* ---- memory ---- */

/* Guard bytes before and behind. */
struct room {
	uint8_t *base, *p;
	size_t n;
};

static struct room take(size_t n)
{
	struct room r = {.n = n};
	void *p;

	ck_assert_int_eq(posix_memalign(&p, 64, n + 2 * GUARD), 0);
	r.base = p;
	memset(r.base, GUARD_BYTE, n + 2 * GUARD);
	r.p = r.base + GUARD;
	return r;
}

static bool guarded(const struct room *r)
{
	for (size_t i = 0; i < GUARD; i++)
		if (r->base[i] != GUARD_BYTE || r->p[r->n + i] != GUARD_BYTE)
			return false;
	return true;
}

static void give(struct room *r)
{
	ck_assert_msg(guarded(r), "written outside %zu bytes", r->n);
	free(r->base);
}

/* Exactly @n bytes, for the address sanitizer. */
static void *exact(size_t n)
{
	void *p;

	ck_assert_int_eq(posix_memalign(&p, 64, n ? n : 1), 0);
	return p;
}

/* ---- contents ---- */

enum content { ZEROS, TEXT, RANDOM, MIXED, CONTENTS };

static uint64_t random_state = 0x2545f4914f6cdd1d;

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void fill(uint8_t *p, size_t n, enum content c)
{
	static const char words[] = "the dormouse sleeps all winter and wakes up where it was before, "
				    "0x00007fff 00000000 /usr/lib/x86_64-linux-gnu ";
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		bool as_random = c == RANDOM || (c == MIXED && i / 512 % 2);

		if (as_random)
			p[i] = (uint8_t)(draw() >> 11);
		else if (c == ZEROS)
			p[i] = 0;
		else
			p[i] = (uint8_t)words[(at++ + i / 97 * 13) % (sizeof words - 1)];
	}
}

/* ---- one codec at one level ---- */

struct packer {
	const struct codec *c;
	int level;
	size_t block;
	void *memory, *unpack_memory;
	size_t unpack_size;
};

static struct packer open_packer(const struct codec *c, int level, size_t block)
{
	struct packer p = {.c = c, .level = level, .block = block, .unpack_size = c->unpack_memory()};
	size_t n = c->pack_memory(level, block);

	p.memory = exact(n);
	p.unpack_memory = exact(p.unpack_size);
	ck_assert_msg(c->pack_open(p.memory, n, level, block) == E_OK, "%s:%d for %zu bytes does not open in %zu",
		      c->name, level, block, n);
	return p;
}

static void close_packer(struct packer *p)
{
	free(p->memory);
	free(p->unpack_memory);
}

static bool unpack(struct packer *p, const uint8_t *src, size_t n, uint8_t *dst, size_t raw)
{
	return p->c->unpack(p->unpack_memory, p->unpack_size, src, n, dst, raw);
}

/* Packs @n bytes as block_pack() does and checks the way back; the packed length. */
static size_t there_and_back(struct packer *p, const uint8_t *data, size_t n)
{
	struct room packed = take(codec_room(n)), raw = take(n);
	uint8_t *src = exact(n);

	memcpy(src, data, n);
	size_t got = p->c->pack(p->memory, p->level, src, n, packed.p, n - 1);
	ck_assert_msg(!memcmp(src, data, n), "%s:%d changes its input", p->c->name, p->level);
	ck_assert_msg(got < n, "%s:%d: %zu bytes became %zu", p->c->name, p->level, n, got);
	if (got) {
		uint8_t *tight = exact(got);
		memcpy(tight, packed.p, got);
		ck_assert_msg(unpack(p, tight, got, raw.p, n), "%s:%d: %zu bytes do not come back", p->c->name,
			      p->level, n);
		ck_assert_msg(!memcmp(raw.p, data, n), "%s:%d: %zu bytes come back changed", p->c->name, p->level, n);
		free(tight);
	}
	free(src);
	give(&packed);
	give(&raw);
	return got;
}

/* ---- the table ---- */

START_TEST(table)
{
	static const struct {
		const char *name;
		unsigned id;
	} rows[] = {{"none", 0}, {"lzo", 1}, {"lz4", 2}, {"zstd", 3}};

	for (unsigned i = 0; i < CODECS; i++) {
		const struct codec *c = codec_by_id(rows[i].id);

		ck_assert_ptr_eq(c, all[i]);
		ck_assert_ptr_eq(codec_by_name(rows[i].name), c);
		ck_assert_str_eq(c->name, rows[i].name);
		ck_assert_uint_eq(c->id, rows[i].id);
		if (!codec_built_in(c))
			continue;
		ck_assert(c->pack_memory && c->pack_open && c->pack && c->unpack_memory && c->unpack);
		ck_assert(c->level_min <= c->level_default && c->level_default <= c->level_max);
		ck_assert_uint_le(c->unpack_memory(), codec_unpack_memory());
	}
	for (unsigned i = CODECS; i < 300; i++)
		ck_assert_ptr_eq(codec_by_id(i), NULL);
	ck_assert_ptr_eq(codec_by_id(0xffffffff), NULL);
	ck_assert_ptr_eq(codec_by_name(""), NULL);
	ck_assert_ptr_eq(codec_by_name("lz"), NULL);
	ck_assert_ptr_eq(codec_by_name("lz44"), NULL);
	ck_assert_ptr_eq(codec_by_name("LZ4"), NULL);
	ck_assert(codec_built_in(&codec_none) && codec_built_in(codec_default()));
	ck_assert_ptr_eq(codec_default(), codec_built_in(&codec_lz4) ? &codec_lz4 : &codec_lzo);
	ck_assert_uint_ge(codec_room(4096), 4096 + 4096 / 16 + 67);
}
END_TEST

/* ---- there and back ---- */

static size_t nth_size(unsigned i)
{
	/* Every small one, then round the powers of two. */
	static const int round[] = {-1, 0, 1};

	if (i <= 300)
		return i;
	i -= 301;
	return ((size_t)512 << i / 3) + (size_t)round[i % 3];
}

START_TEST(sizes)
{
	const struct codec *c = all[_i];
	uint8_t *data = exact(BLOCK);

	if (codec_built_in(c)) {
		struct packer p = open_packer(c, c->level_default, BLOCK);
		for (int k = 0; k < CONTENTS; k++) {
			fill(data, BLOCK, (enum content)k);
			for (unsigned i = 1; nth_size(i) <= BLOCK; i++)
				there_and_back(&p, data, nth_size(i));
		}
		close_packer(&p);
	}
	free(data);
}
END_TEST

/* Declared memory suffices at every level for every length up to the block's. */
static void try_level(const struct codec *c, int level, size_t block, const uint8_t *data)
{
	static const size_t parts[] = {1, 2, 16, 64};
	struct packer p = open_packer(c, level, block);

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		for (int k = 0; k < CONTENTS; k++) {
			size_t n = block / parts[i], got = there_and_back(&p, data + (size_t)k * block, n);

			/* A context without enough memory would say "does not fit". */
			if (c != &codec_none && ((k == ZEROS && n >= 1024) || (k == TEXT && n >= 4096)))
				ck_assert_msg(got, "%s:%d: %zu of %zu bytes of content %d", c->name, level, got, n, k);
			if (k == RANDOM || c == &codec_none)
				ck_assert_msg(!got, "%s:%d: %zu of %zu random bytes", c->name, level, got, n);
		}
	close_packer(&p);
}

static void try_levels(const struct codec *c, size_t block, int step)
{
	uint8_t *data = exact(CONTENTS * block);

	for (int k = 0; k < CONTENTS; k++)
		fill(data + (size_t)k * block, block, (enum content)k);
	for (int level = c->level_min; level < c->level_max; level += step)
		try_level(c, level, block, data);
	try_level(c, c->level_max, block, data);
	free(data);
}

START_TEST(levels)
{
	if (!codec_built_in(all[_i]))
		return;
	try_levels(all[_i], 4096, 1);
	try_levels(all[_i], 64 << 10, 7);
	try_levels(all[_i], BLOCK, 13);
	try_levels(all[_i], BLOCK + 4096, 23);
}
END_TEST

START_TEST(largest_block)
{
	/* 16 MiB, at the levels where tables are smallest and largest; zeros, to be quick. */
	const struct codec *c = all[_i];
	const size_t block = 16 << 20;
	const int ends[] = {c->level_min, c->level_default, c->level_max};
	uint8_t *data = calloc(1, block);

	ck_assert_ptr_ne(data, NULL);
	for (int i = 0; i < 3 && codec_built_in(c); i++) {
		struct packer p = open_packer(c, ends[i], block);
		ck_assert(there_and_back(&p, data, block) || c == &codec_none);
		ck_assert(there_and_back(&p, data, 4096) || c == &codec_none);
		close_packer(&p);
	}
	free(data);
}
END_TEST

START_TEST(room_is_kept)
{
	/* Whatever room is given: it fits or it is 0, and what fits is right. */
	const struct codec *c = all[_i];
	uint8_t *data = exact(8192);

	for (int k = 0; k < CONTENTS && codec_built_in(c); k++) {
		struct packer p = open_packer(c, c->level_default, 8192);
		fill(data, 8192, (enum content)k);
		struct room full = take(codec_room(8192));
		size_t whole = c->pack(p.memory, p.level, data, 8192, full.p, codec_room(8192));
		for (size_t room = 0; room <= 8192; room += room < 300 ? 1 : 61) {
			struct room out = take(codec_room(8192));
			size_t got = c->pack(p.memory, p.level, data, 8192, out.p, room);
			ck_assert_msg(got <= room, "%s: %zu bytes in room for %zu", c->name, got, room);
			ck_assert_msg(got || room < whole || !whole || whole > 8191 || room == 8192 ||
					      room < whole + whole / 8 + 64,
				      "%s: %zu bytes do not go into %zu", c->name, whole, room);
			/* Only LZO takes no limit, and may use all of codec_room(). */
			for (size_t i = room; c != &codec_lzo && i < out.n; i++)
				if (out.p[i] != GUARD_BYTE)
					ck_abort_msg("%s: written past room %zu", c->name, room);
			give(&out);
		}
		give(&full);
		close_packer(&p);
	}
	free(data);
}
END_TEST

START_TEST(no_memory_between_blocks)
{
	/* The same bytes whatever was packed before: threads take blocks in any order. */
	const struct codec *c = all[_i];
	uint8_t *data = exact(BLOCK), *first = exact(codec_room(BLOCK)), *again = exact(codec_room(BLOCK));

	for (int level = c->level_min; level <= c->level_max && codec_built_in(c); level += 9) {
		struct packer p = open_packer(c, level, BLOCK);
		fill(data, BLOCK, MIXED);
		size_t n = c->pack(p.memory, level, data, 30000, first, 29999);
		for (int k = 0; k < CONTENTS; k++) {
			uint8_t *other = exact(BLOCK);
			fill(other, BLOCK, (enum content)k);
			c->pack(p.memory, level, other, BLOCK >> k, again, (BLOCK >> k) - 1);
			free(other);
			ck_assert_uint_eq(c->pack(p.memory, level, data, 30000, again, 29999), n);
			ck_assert(!memcmp(first, again, n));
		}
		close_packer(&p);
	}
	free(data);
	free(first);
	free(again);
}
END_TEST

START_TEST(too_little_memory)
{
	const struct codec *c = all[_i];
	uint8_t few[64] __attribute__((aligned(64)));

	if (!codec_built_in(c) || !c->pack_memory(c->level_default, BLOCK))
		return;
	ck_assert_int_eq(c->pack_open(few, sizeof few, c->level_default, BLOCK), E_INTERNAL);
	if (c->unpack_memory()) {
		uint8_t in[16] = {0}, out[16];
		ck_assert(!c->unpack(few, sizeof few, in, sizeof in, out, sizeof out));
	}
}
END_TEST

/* ---- hostile input ---- */

/* Never past @raw; what passes has exactly that length by definition of unpack. */
static bool try_unpack(struct packer *p, const uint8_t *src, size_t n, size_t raw)
{
	struct room out = take(raw);
	uint8_t *in = exact(n);

	memcpy(in, src, n);
	bool passed = unpack(p, in, n, out.p, raw);
	free(in);
	give(&out);
	return passed;
}

static void wrong_lengths(struct packer *p, const uint8_t *packed, size_t got, size_t n)
{
	uint8_t *longer = exact(got + 8);

	for (size_t cut = 0; cut < got; cut += cut < 40 || cut + 40 > got ? 1 : 53)
		ck_assert_msg(!try_unpack(p, packed, cut, n), "%s: cut to %zu of %zu", p->c->name, cut, got);
	for (size_t raw = 0; raw < n + 200; raw += raw < 40 || raw + 40 > n ? 1 : 531)
		ck_assert_msg(try_unpack(p, packed, got, raw) == (raw == n), "%s: %zu bytes taken for %zu", p->c->name,
			      n, raw);
	memcpy(longer, packed, got);
	memset(longer + got, 0, 8);
	for (size_t more = 1; more <= 8; more++)
		ck_assert_msg(!try_unpack(p, longer, got + more, n), "%s: %zu bytes follow", p->c->name, more);
	free(longer);
}

static void mutations(struct packer *p, const uint8_t *packed, size_t got, size_t n, int times)
{
	uint8_t *bad = exact(got);

	for (int i = 0; i < times; i++) {
		memcpy(bad, packed, got);
		for (uint64_t k = 1 + draw() % 4; k; k--) {
			size_t at = draw() % (i % 2 ? got : got < 24 ? got : 24);
			bad[at] = draw() % 3 ? (uint8_t)draw() : draw() % 2 ? 0xff : 0;
		}
		/* The block's check is what refuses bytes that are merely others. */
		try_unpack(p, bad, got, n);
		try_unpack(p, bad, got, draw() % (2 * n));
	}
	free(bad);
}

START_TEST(hostile)
{
	const struct codec *c = all[_i];
	const size_t n = 8192;
	uint8_t *data = exact(n), *packed = exact(codec_room(n));

	for (int k = 0; k < CONTENTS && codec_built_in(c); k++) {
		struct packer p = open_packer(c, c->level_default, n);
		fill(data, n, (enum content)k);
		size_t got = c->pack(p.memory, p.level, data, n, packed, codec_room(n));
		if (got) {
			wrong_lengths(&p, packed, got, n);
			mutations(&p, packed, got, n, 2000);
		}
		close_packer(&p);
	}
	free(data);
	free(packed);
}
END_TEST

START_TEST(rubbish)
{
	const struct codec *c = all[_i];
	uint8_t in[512];

	if (!codec_built_in(c))
		return;
	struct packer p = open_packer(c, c->level_default, 4096);
	for (int i = 0; i < 5000; i++) {
		size_t n = draw() % sizeof in;

		for (size_t k = 0; k < n; k++)
			in[k] = i % 3 ? (uint8_t)(draw() >> 7) : (uint8_t)(i / 3);
		if (c == &codec_zstd && n > 8 && i % 2)
			memcpy(in, "\x28\xb5\x2f\xfd", 4);
		/* No room at all, or more than could ever come of it, is no excuse either. */
		try_unpack(&p, in, n, draw() % 4096);
		ck_assert(!try_unpack(&p, in, n, 0) || !n || c != &codec_none);
		if (i % 100 == 0)
			ck_assert(!try_unpack(&p, in, n, 1 << 20));
	}
	close_packer(&p);
}
END_TEST

/* ---- blocks ---- */

struct block {
	struct arena a;
	struct block_job job;
	struct block_worker packing, unpacking;
	struct rung rung;
};

static void open_block(struct block *b, const struct codec *c)
{
	size_t n = c->pack_memory(c->level_default, BLOCK);

	arena_count(&b->a);
	block_job_carve(&b->job, &b->a, BLOCK);
	ck_assert_int_eq(arena_open(&b->a, b->a.used, 0), E_OK);
	block_job_carve(&b->job, &b->a, BLOCK);
	ck_assert(b->job.raw && b->job.packed);
	ck_assert_uint_eq((uintptr_t)b->job.raw % 4096, 0);
	b->packing = (struct block_worker){.memory = exact(n), .size = n};
	b->unpacking = (struct block_worker){.memory = exact(codec_unpack_memory()), .size = codec_unpack_memory()};
	b->rung = (struct rung){.codec = c, .level = c->level_default};
	ck_assert_int_eq(block_worker_open(&b->packing, &b->rung, BLOCK), E_OK);
}

static void close_block(struct block *b)
{
	free(b->packing.memory);
	free(b->unpacking.memory);
	arena_close(&b->a);
}

static void pack_block(struct block *b, uint32_t n, uint64_t number)
{
	b->job.record = (struct block_record){.raw = n, .number = number};
	ck_assert_int_eq(block_pack(&b->job, &b->packing, &b->rung, BLOCK, image), E_OK);
	/* As it lies in the stream: the record's bytes, then the payload. */
	memmove(b->job.packed, b->job.payload, b->job.record.stored);
	ck_assert_int_eq(block_record_get(&b->job.record, b->job.bytes, number, n), E_OK);
}

static void block_round_trip(struct block *b, const struct codec *c, uint32_t n, enum content k)
{
	uint8_t *data = exact(n);

	fill(b->job.raw, n, k);
	memcpy(data, b->job.raw, n);
	pack_block(b, n, 77);
	const struct block_record *r = &b->job.record;
	bool packed = r->codec != CODEC_NONE;
	ck_assert_uint_eq(r->codec, packed ? c->id : CODEC_NONE);
	ck_assert(packed ? r->stored < n : r->stored == n);
	ck_assert_int_eq((int16_t)r->level, packed ? c->level_default : 0);
	ck_assert(packed || k == RANDOM || n < 64 || c == &codec_none);
	memset(b->job.raw, 0, n);
	ck_assert_int_eq(block_unpack(&b->job, &b->unpacking, image), E_OK);
	ck_assert(!memcmp(data, b->job.raw, n));
	free(data);
}

START_TEST(blocks)
{
	static const uint32_t lengths[] = {1, 2, 4096, 8192, BLOCK - 4096, BLOCK};
	const struct codec *c = all[_i];
	struct block b;

	if (!codec_built_in(c))
		return;
	open_block(&b, c);
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
		for (int k = 0; k < CONTENTS; k++)
			block_round_trip(&b, c, lengths[i], (enum content)k);
	close_block(&b);
}
END_TEST

START_TEST(worker_changes_rungs)
{
	/* One memory, large enough for the greediest, opened anew whenever codec or level is another. */
	struct block b;
	struct rung rung[CODECS];

	open_block(&b, &codec_none);
	for (int i = 0; i < CODECS; i++) {
		size_t n = codec_built_in(all[i]) ? all[i]->pack_memory(all[i]->level_default, BLOCK) : 0;
		rung[i] = (struct rung){.codec = all[i], .level = all[i]->level_default};
		if (n <= b.packing.size)
			continue;
		free(b.packing.memory);
		b.packing = (struct block_worker){.memory = exact(n), .size = n};
	}
	for (int i = 0; i < 200; i++) {
		const struct rung *r = &rung[draw() % CODECS];

		if (!codec_built_in(r->codec))
			continue;
		fill(b.job.raw, 4096, TEXT);
		b.job.record = (struct block_record){.raw = 4096, .number = 1};
		ck_assert_int_eq(block_pack(&b.job, &b.packing, r, BLOCK, image), E_OK);
		ck_assert_ptr_eq(b.packing.ready, r);
		ck_assert_uint_eq(b.job.record.codec, r->codec->id);
		memmove(b.job.packed, b.job.payload, b.job.record.stored);
		memset(b.job.raw, 0, 4096);
		ck_assert_int_eq(block_unpack(&b.job, &b.unpacking, image), E_OK);
	}
	close_block(&b);
}
END_TEST

START_TEST(dense_blocks_come_in_runs)
{
	/* A worker looks first only after a block that did not shrink, and only random pages are dense. */
	const struct codec *c = codec_default();
	size_t probe = block_probe_memory(BLOCK);
	struct block b;

	if (!probe)
		return;
	open_block(&b, c);
	b.packing.probe = exact(probe);
	for (int i = 0; i < 2; i++) {
		fill(b.job.raw, BLOCK, RANDOM);
		b.job.record = (struct block_record){.raw = BLOCK};
		ck_assert_int_eq(block_dense(&b.job, &b.packing), i);
		pack_block(&b, BLOCK, 1);
		ck_assert_uint_eq(b.job.record.codec, CODEC_NONE);
	}
	fill(b.job.raw, BLOCK, TEXT);
	ck_assert(!block_dense(&b.job, &b.packing));
	pack_block(&b, BLOCK, 2);
	ck_assert_uint_eq(b.job.record.codec, c->id);
	fill(b.job.raw, BLOCK, RANDOM);
	ck_assert(!block_dense(&b.job, &b.packing));
	free(b.packing.probe);
	close_block(&b);
}
END_TEST

START_TEST(worker_too_small)
{
	struct block b;
	struct rung big = {.codec = codec_default(), .level = codec_default()->level_default};

	open_block(&b, &codec_none);
	b.job.record = (struct block_record){.raw = 4096};
	ck_assert_int_eq(block_pack(&b.job, &b.packing, &big, BLOCK, image), E_INTERNAL);
	ck_assert_ptr_eq(b.packing.ready, NULL);
	close_block(&b);
}
END_TEST

START_TEST(damaged_block)
{
	/* Refused before anything is expanded. */
	const struct codec *c = all[_i];
	struct block b;

	if (!codec_built_in(c))
		return;
	open_block(&b, c);
	fill(b.job.raw, 4096, TEXT);
	pack_block(&b, 4096, 5);
	memset(b.job.raw, GUARD_BYTE, 4096);
	for (uint32_t i = 0; i < b.job.record.stored; i++) {
		b.job.packed[i] ^= 0x10;
		fault_clear();
		ck_assert_int_eq(block_unpack(&b.job, &b.unpacking, image), E_CORRUPT);
		ck_assert(strstr(fault_text(), "block 5"));
		b.job.packed[i] ^= 0x10;
	}
	for (int i = 0; i < 4096; i++)
		if (b.job.raw[i] != GUARD_BYTE)
			ck_abort_msg("byte %d was expanded", i);
	id128 other = image;
	other.b[0]++;
	ck_assert_int_eq(block_unpack(&b.job, &b.unpacking, other), E_CORRUPT);
	b.job.record.number++;
	ck_assert_int_eq(block_unpack(&b.job, &b.unpacking, image), E_CORRUPT);
	close_block(&b);
}
END_TEST

START_TEST(block_of_unknown_codec)
{
	struct block b;

	open_block(&b, &codec_none);
	fill(b.job.raw, 4096, TEXT);
	memcpy(b.job.packed, b.job.raw, 4096);
	for (uint8_t id = CODECS; id < CODECS_MAX; id++) {
		b.job.record = (struct block_record){.stored = 100, .raw = 4096, .codec = id, .number = 3};
		block_record_put(b.job.bytes, &b.job.record, b.job.packed, image);
		fault_clear();
		ck_assert_int_eq(block_unpack(&b.job, &b.unpacking, image), E_UNSUPPORTED);
		ck_assert(strstr(fault_text(), "unknown codec"));
	}
	/* A whole check over a payload that expands to another length. */
	b.job.record = (struct block_record){.stored = 100, .raw = 4096, .codec = codec_default()->id, .number = 3};
	block_record_put(b.job.bytes, &b.job.record, b.job.packed, image);
	ck_assert_int_eq(block_unpack(&b.job, &b.unpacking, image), E_CORRUPT);
	close_block(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("codec");
	TCase *t = tcase_create("codecs"), *b = tcase_create("blocks");

	tcase_set_timeout(t, 240);
	tcase_set_timeout(b, 120);
	tcase_add_test(t, table);
	tcase_add_loop_test(t, sizes, 0, CODECS);
	tcase_add_loop_test(t, levels, 0, CODECS);
	tcase_add_loop_test(t, largest_block, 0, CODECS);
	tcase_add_loop_test(t, room_is_kept, 0, CODECS);
	tcase_add_loop_test(t, no_memory_between_blocks, 0, CODECS);
	tcase_add_loop_test(t, too_little_memory, 0, CODECS);
	tcase_add_loop_test(t, hostile, 0, CODECS);
	tcase_add_loop_test(t, rubbish, 0, CODECS);
	tcase_add_loop_test(b, blocks, 0, CODECS);
	tcase_add_test(b, worker_changes_rungs);
	tcase_add_test(b, dense_blocks_come_in_runs);
	tcase_add_test(b, worker_too_small);
	tcase_add_loop_test(b, damaged_block, 0, CODECS);
	tcase_add_test(b, block_of_unknown_codec);
	suite_add_tcase(s, t);
	suite_add_tcase(s, b);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
