/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole images: saved, opened, loaded, damaged in every way, given up. */
#include "fakes.h"

#include "base/bytes.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MARK_BYTES = 80, SMALL_BLOCK = 4096 };

static const struct codec *const codecs[] = {&codec_none, &codec_lzo, &codec_lz4, &codec_zstd};
static const unsigned thread_counts[] = {0, 1, 2, 4};
enum { CODECS = 4, THREADS = 4 };

static struct rig rig, other;

static bool usable(const struct codec *c)
{
	return codec_built_in(c);
}

static void check_quiet(struct rig *r)
{
	ck_assert_uint_eq(r->disk.pending_count, 0);
	ck_assert_uint_eq(r->disk.early_syncs, 0);
	ck_assert_int_eq(r->disk.raced, 0);
}

/* ---- there and back ---- */

static void there_and_back(uint64_t pages, enum fake_content content)
{
	rig.o.pages = pages;
	rig.raw = pages * rig.o.page_size;
	rig.o.content = content;
	rig.o.seed++;
	ck_assert_msg(rig_save(&rig) == E_OK, "save: %s", fault_text());
	int r = rig_load(&rig);
	ck_assert_msg(r == E_OK, "load of %llu pages, content %d: %s", (unsigned long long)pages, (int)content,
		      fault_text());
	ck_assert(rig_same(&rig));
	ck_assert_uint_eq(rig.image.trailer.raw_bytes, rig.raw);
	ck_assert_uint_eq(rig.image.trailer.blocks, div_up(rig.raw, rig.o.block_size));
	ck_assert_uint_eq(rig.image.state.attempts, 0);
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	check_quiet(&rig);
}

START_TEST(test_round_trip)
{
	static const uint64_t sizes[] = {0, 1, 63, 64, 65};
	const struct codec *codec = codecs[_i / THREADS];
	unsigned threads = thread_counts[_i % THREADS];

	if (!usable(codec))
		return;
	rig_open(&rig, &(struct rig_options){.codec = codec,
					     .level = codec->level_default,
					     .threads = threads,
					     .load_threads = thread_counts[(_i / THREADS + _i) % THREADS],
					     .layout = (enum fake_layout)(_i % LAYOUT_COUNT),
					     .async = (uint64_t)_i});
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (int c = 0; c < CONTENT_COUNT; c++)
			there_and_back(sizes[i], (enum fake_content)c);
	there_and_back(2000, CONTENT_MIXED);
	rig_close(&rig);
}
END_TEST

/* Codec and level change from block to block: whatever they were, the load finds out. */
START_TEST(test_round_trip_adapting)
{
	rig_open(&rig, &(struct rig_options){.adapt = true,
					     .threads = thread_counts[_i],
					     .load_threads = 2,
					     .layout = LAYOUT_SPREAD,
					     .async = _i % 2 ? 6 : 0});
	for (int c = 0; c < CONTENT_COUNT; c++)
		there_and_back(65, (enum fake_content)c);
	there_and_back(6000, CONTENT_MIXED);
	rig_close(&rig);
}
END_TEST

START_TEST(test_large_image_of_zeros)
{
	const struct codec *codec = codec_default();

	rig_open(&rig,
		 &(struct rig_options){
			 .codec = codec, .level = codec->level_default, .threads = 2, .load_threads = 2, .async = 3});
	there_and_back(100000, CONTENT_ZERO);
	ck_assert_uint_lt(rig.image.trailer.stream_bytes, rig.raw / 50);
	rig_close(&rig);
}
END_TEST

START_TEST(test_page_sizes)
{
	static const uint32_t sizes[] = {4096, 16384, 65536};

	rig_open(&rig, &(struct rig_options){.page_size = sizes[_i],
					     .codec = codec_default(),
					     .level = codec_default()->level_default,
					     .threads = 2,
					     .layout = LAYOUT_SPREAD,
					     .area_start = 7ull * 65536,
					     .fingerprints = 70,
					     .async = 8});
	there_and_back(65, CONTENT_TEXT);
	there_and_back(33, CONTENT_RANDOM);
	ck_assert_uint_eq(rig.image.mark.page_size, sizes[_i]);
	ck_assert_uint_eq(rig.image.header.page_size, sizes[_i]);
	rig_close(&rig);
}
END_TEST

static int counted_tick(void *ctx, const struct save_progress *p)
{
	const struct rig *r = ctx;

	ck_assert_uint_eq(p->total, r->raw);
	ck_assert_uint_le(p->raw, p->total);
	return E_OK;
}

/* All that the header and the fingerprints carry comes back. */
START_TEST(test_header_comes_back)
{
	rig_open(&rig, &(struct rig_options){.pages = 20, .fingerprints = FINGERPRINTS_MAX, .async = 5});
	rig.tick = counted_tick;
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	struct header *h = &rig.image.header, *w = &rig.header;
	ck_assert_uint_eq(h->pages, HEADER_PAGES_MAX);
	ck_assert(id_equal(h->image_id, w->image_id) && id_equal(h->swap_uuid, w->swap_uuid));
	ck_assert(id_equal(h->installation, w->installation));
	ck_assert_uint_eq(h->created, w->created);
	ck_assert_uint_eq(h->memory_map, w->memory_map);
	ck_assert_uint_eq(h->image_bytes, w->image_bytes);
	ck_assert_uint_eq(h->shutdown, w->shutdown);
	ck_assert_uint_eq(h->codecs, 1u << CODEC_NONE);
	ck_assert_str_eq(h->release, w->release);
	ck_assert_str_eq(h->machine, w->machine);
	ck_assert_uint_eq(h->fingerprint_count, FINGERPRINTS_MAX);
	ck_assert_mem_eq(rig.image.fingerprint, rig.fingerprint, FINGERPRINTS_MAX * sizeof(struct fingerprint));
	rig_close(&rig);
}
END_TEST

/* ---- the same bytes whatever the threads ---- */

/* Where @a was written @b has the same. */
static void check_same_writes(const struct rig *a, const struct rig *b)
{
	for (unsigned i = 0; i < a->disk.log_count; i++) {
		const struct fake_entry *e = &a->disk.log[i];
		if (e->write)
			must(!memcmp(a->disk.bytes + e->offset, b->disk.bytes + e->offset, e->length));
	}
}

static void check_same_disks(const struct rig *a, const struct rig *b)
{
	ck_assert_uint_eq(a->disk.written_bytes, b->disk.written_bytes);
	check_same_writes(a, b);
	check_same_writes(b, a);
}

static void save_with(struct rig *r, struct rig_options o, unsigned threads)
{
	o.threads = threads;
	o.async = threads;
	rig_open(r, &o);
	ck_assert_int_eq(rig_save(r), E_OK);
}

START_TEST(test_threads_write_the_same)
{
	const struct codec *codec = codecs[_i / LAYOUT_COUNT];
	struct rig_options o = {.codec = codec,
				.level = codec->level_default,
				.layout = (enum fake_layout)(_i % LAYOUT_COUNT),
				.pages = 2500,
				.block_size = 64 << 10,
				.fingerprints = 60,
				.content = CONTENT_MIXED};

	if (!usable(codec))
		return;
	save_with(&rig, o, 0);
	for (unsigned i = 1; i < THREADS; i++) {
		save_with(&other, o, thread_counts[i]);
		check_same_disks(&rig, &other);
		rig_close(&other);
	}
	rig_close(&rig);
}
END_TEST

/* ---- damage ---- */

/* The small image that is damaged: several blocks, two header pages. */
static void small_image(struct rig *r, const struct codec *codec, uint8_t id, uint64_t seed)
{
	rig_open(r, &(struct rig_options){.codec = codec,
					  .level = codec->level_default,
					  .block_size = SMALL_BLOCK,
					  .pages = 5,
					  .content = CONTENT_TEXT,
					  .seed = seed,
					  .id = id,
					  .fingerprints = 60});
	ck_assert_int_eq(rig_save(r), E_OK);
	ck_assert_int_eq(rig_load(r), E_OK);
	ck_assert(rig_same(r));
}

/* The place on disk of byte @at of the stream. */
static uint8_t *stream_at(struct rig *r, uint64_t at)
{
	static struct extent_page map;
	uint64_t place = r->image.trailer.extents_place, page = at / r->o.page_size, index = 0;

	for (;; place = map.next, index++) {
		must(extent_page_get(&map, r->disk.bytes + place, r->header.image_id, index, r->o.page_size,
				     r->disk.disk.size) == E_OK);
		for (uint32_t i = 0; i < map.count; i++) {
			if (page < map.e[i].pages)
				return r->disk.bytes + (map.e[i].start + page) * r->o.page_size + at % r->o.page_size;
			page -= map.e[i].pages;
		}
		must(map.next);
	}
}

/* One byte is altered; the code that must follow, and never other pages than were saved. */
static void flip(struct rig *r, uint8_t *byte, uint8_t with, int code)
{
	uint8_t old = *byte;

	*byte ^= with;
	int got = rig_load(r);
	if (got == E_OK)
		must(rig_same(r));
	if (got != code)
		ck_abort_msg("byte %llu of the disk altered: code %d instead of %d: %s",
			     (unsigned long long)(byte - r->disk.bytes), got, code, fault_text());
	*byte = old;
}

static uint8_t flip_with(uint64_t i)
{
	return (uint8_t)(i % 3 ? 1u << i % 8 : 1 + i % 255);
}

static void flip_record(struct rig *r, uint64_t place)
{
	for (uint64_t i = 0; i < RECORD_PAGE; i++)
		flip(r, r->disk.bytes + place + i, flip_with(i), E_CORRUPT);
}

START_TEST(test_flips_in_records)
{
	uint64_t place;

	small_image(&rig, codec_default(), 0, 1);
	place = save_header_place(rig.save);
	ck_assert_uint_eq(rig.header.pages, 2);
	switch (_i) {
	case 0:
		flip_record(&rig, place);
		break;
	case 1:
		flip_record(&rig, rig.header.more[0]);
		break;
	case 2:
		flip_record(&rig, rig.header.trailer_place);
		break;
	case 3:
		place = rig.image.trailer.extents_place;
		flip_record(&rig, place);
		break;
	}
	ck_assert_int_eq(rig_load(&rig), E_OK);
	ck_assert(rig_same(&rig));
	rig_close(&rig);
}
END_TEST

/* Every byte of the stream; only the closing record's reserved ones are never read. */
START_TEST(test_flips_in_stream)
{
	if (!usable(codecs[_i]))
		return;
	small_image(&rig, codecs[_i], 0, 1);
	uint64_t length = rig.image.trailer.stream_bytes, reserved = length - CLOSING_PAYLOAD - 8;
	for (uint64_t at = 0; at < length; at++) {
		bool unread = at >= reserved && at < reserved + 8;
		flip(&rig, stream_at(&rig, at), flip_with(at), unread ? E_OK : E_CORRUPT);
	}
	rig_close(&rig);
}
END_TEST

/* Without threads and with them the same is refused. */
START_TEST(test_flips_with_threads)
{
	rig_open(&rig, &(struct rig_options){.codec = codec_default(),
					     .level = codec_default()->level_default,
					     .load_threads = 3,
					     .block_size = 16384,
					     .pages = 200,
					     .content = CONTENT_MIXED,
					     .async = 9});
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	uint64_t length = rig.image.trailer.stream_bytes;
	for (uint64_t at = 5; at < length - CLOSING_PAYLOAD - 8; at += length / 100)
		flip(&rig, stream_at(&rig, at), flip_with(at), E_CORRUPT);
	check_quiet(&rig);
	rig_close(&rig);
}
END_TEST

/* The mutable sector can cost attempts, nothing else. */
START_TEST(test_flips_in_state)
{
	small_image(&rig, &codec_none, 0, 1);
	uint64_t place = rig.header.state_place;
	rig.image.state = (struct state){.attempts = 1, .load_ns = 12345, .load_threads = 3};
	ck_assert_int_eq(image_write_state(&rig.image), E_OK);
	for (uint64_t i = 0; i < RECORD_PAGE; i++) {
		uint8_t *byte = rig.disk.bytes + place + i;

		flip(&rig, byte, flip_with(i), E_OK);
		struct state s = rig.image.state;
		must(!s.flags);
		must(i < 512 ? s.attempts == ATTEMPTS_MAX - 1 : s.attempts == 1 && s.load_ns == 12345);
	}
	rig_close(&rig);
}
END_TEST

/* Of the mark only the reserved bytes and the zero at its end may change. */
START_TEST(test_flips_in_mark)
{
	small_image(&rig, &codec_none, 0, 1);
	for (uint64_t i = 4096 - MARK_BYTES; i < 4096; i++) {
		bool unread = (i >= 4096 - 32 && i < 4096 - 28) || i == 4095;
		bool signature = i >= 4096 - 10, magic = i < 4096 - 72;
		flip(&rig, rig.disk.bytes + i, flip_with(i),
		     unread	 ? E_OK
		     : signature ? E_NOIMAGE
		     : magic	 ? E_FOREIGN
				 : E_CORRUPT);
	}
	/* The UUID is under the mark's check, the label is free. */
	for (uint64_t i = 1036; i < 1052; i++)
		flip(&rig, rig.disk.bytes + i, flip_with(i), E_CORRUPT);
	for (uint64_t i = 1052; i < 1068; i++)
		flip(&rig, rig.disk.bytes + i, flip_with(i), E_OK);
	rig_close(&rig);
}
END_TEST

static void seal(uint8_t *page, uint64_t seed)
{
	put_le64(page + 4088, XXH3_64bits_withSeed(page, 4088, seed));
}

/* A header that is whole but says @v at @at. */
static void alter_header(struct rig *r, size_t at, uint32_t v, int code)
{
	uint8_t *p = r->disk.bytes + save_header_place(r->save);
	uint32_t old = get_le32(p + at);

	put_le32(p + at, v);
	seal(p, id64(r->header.image_id));
	int got = rig_load(r);
	ck_assert_msg(got == code, "header with %u at %zu: code %d", v, at, got);
	put_le32(p + at, old);
	seal(p, id64(r->header.image_id));
}

START_TEST(test_header_is_bounded)
{
	small_image(&rig, &codec_none, 0, 1);
	alter_header(&rig, 8, 2, E_UNSUPPORTED);
	alter_header(&rig, 8, 0, E_UNSUPPORTED);
	for (unsigned bit = 0; bit < 32; bit++)
		alter_header(&rig, 16, 1u << bit, E_UNSUPPORTED);
	alter_header(&rig, 20, 0xffffffff, E_OK);
	alter_header(&rig, 12, 1, E_CORRUPT);
	alter_header(&rig, 12, 17, E_CORRUPT);
	alter_header(&rig, 24, 8192, E_CORRUPT);
	alter_header(&rig, 28, 0, E_CORRUPT);
	alter_header(&rig, 28, 6000, E_CORRUPT);
	alter_header(&rig, 28, 32 << 20, E_CORRUPT);
	alter_header(&rig, 96, 4097, E_CORRUPT);
	alter_header(&rig, 96, 6 * 4096, E_CORRUPT);
	alter_header(&rig, 96, 4 * 4096, E_CORRUPT);
	alter_header(&rig, 104, 1, E_CORRUPT);
	alter_header(&rig, 116, 0x7fffffff, E_CORRUPT);
	alter_header(&rig, 120, 4096, E_CORRUPT);
	alter_header(&rig, 128, 3, E_CORRUPT);
	alter_header(&rig, 144, 1001, E_CORRUPT);
	alter_header(&rig, 268, 0x7fffffff, E_CORRUPT);
	alter_header(&rig, 48, 0, E_CORRUPT);
	rig_close(&rig);
}
END_TEST

/* An extent page that is whole but says something impossible. */
static void alter_extents(size_t at, uint32_t v)
{
	uint8_t *p = rig.disk.bytes + rig.image.trailer.extents_place, old[RECORD_PAGE];

	memcpy(old, p, sizeof old);
	put_le32(p + at, v);
	seal(p, id64(rig.header.image_id));
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	memcpy(p, old, sizeof old);
}

START_TEST(test_extents_are_bounded)
{
	small_image(&rig, &codec_none, 0, 1);
	alter_extents(8, 1);
	alter_extents(16, 4096 * 20);
	alter_extents(16, 1);
	alter_extents(24, 0);
	alter_extents(24, 339);
	alter_extents(36, 0x7fffffff);
	alter_extents(32, (uint32_t)rig.o.area_pages - 1);
	alter_extents(40, 0xffffffff);
	alter_extents(40, 0);
	alter_extents(40, get_le32(rig.disk.bytes + rig.image.trailer.extents_place + 40) + 1);
	rig_close(&rig);
}
END_TEST

/* The device ends too early, at any page. */
START_TEST(test_truncated_device)
{
	small_image(&rig, codec_default(), 0, 1);
	uint64_t last = 0;
	for (unsigned i = 0; i < rig.disk.log_count; i++)
		if (rig.disk.log[i].write && rig.disk.log[i].offset + rig.disk.log[i].length > last)
			last = rig.disk.log[i].offset + rig.disk.log[i].length;
	for (uint64_t size = 0; size < last; size += 4096) {
		rig.disk.disk.size = size;
		int r = rig_load(&rig);
		ck_assert_msg(r == E_CORRUPT || r == E_IO || (!size && r == E_NOIMAGE), "%llu bytes: code %d",
			      (unsigned long long)size, r);
	}
	rig.disk.disk.size = last;
	ck_assert_int_eq(rig_load(&rig), E_OK);
	rig_close(&rig);
}
END_TEST

static void copy_stream(struct rig *to, uint64_t at, struct rig *from, uint64_t from_at, uint32_t n)
{
	uint8_t block[65536];

	for (uint32_t i = 0; i < n; i++)
		block[i] = *stream_at(from, from_at + i);
	for (uint32_t i = 0; i < n; i++)
		*stream_at(to, at + i) = block[i];
}

enum { WHOLE_BLOCK = BLOCK_RECORD + SMALL_BLOCK };

START_TEST(test_swapped_blocks)
{
	uint8_t block[WHOLE_BLOCK];

	small_image(&rig, &codec_none, 0, 1);
	for (uint32_t i = 0; i < WHOLE_BLOCK; i++)
		block[i] = *stream_at(&rig, WHOLE_BLOCK + i);
	copy_stream(&rig, WHOLE_BLOCK, &rig, 2 * WHOLE_BLOCK, WHOLE_BLOCK);
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	for (uint32_t i = 0; i < WHOLE_BLOCK; i++)
		*stream_at(&rig, 2 * WHOLE_BLOCK + i) = block[i];
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	/* Their numbers put right as well, the payloads are still bound to their places. */
	put_le32(stream_at(&rig, WHOLE_BLOCK + 12), 1);
	put_le32(stream_at(&rig, 2 * WHOLE_BLOCK + 12), 2);
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	rig_close(&rig);
}
END_TEST

/* Blocks of another image at the same places: another id, and even the same one. */
START_TEST(test_foreign_blocks)
{
	for (int same_id = 0; same_id < 2; same_id++) {
		small_image(&rig, &codec_none, 0x33, 1);
		small_image(&other, &codec_none, same_id ? 0x33 : 0x44, 2);
		for (int block = 0; block < 5; block++) {
			struct rig saved = rig;
			uint8_t old[WHOLE_BLOCK];

			for (uint32_t i = 0; i < WHOLE_BLOCK; i++)
				old[i] = *stream_at(&saved, (uint64_t)block * WHOLE_BLOCK + i);
			copy_stream(&rig, (uint64_t)block * WHOLE_BLOCK, &other, (uint64_t)block * WHOLE_BLOCK,
				    WHOLE_BLOCK);
			ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
			for (uint32_t i = 0; i < WHOLE_BLOCK; i++)
				*stream_at(&rig, (uint64_t)block * WHOLE_BLOCK + i) = old[i];
		}
		ck_assert_int_eq(rig_load(&rig), E_OK);
		/* Its closing record, and then its trailer too. */
		copy_stream(&rig, 5 * WHOLE_BLOCK, &other, 5 * WHOLE_BLOCK, BLOCK_RECORD + CLOSING_PAYLOAD);
		ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
		memcpy(rig.disk.bytes + rig.header.trailer_place, other.disk.bytes + other.header.trailer_place,
		       RECORD_PAGE);
		ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
		rig_close(&rig);
		rig_close(&other);
	}
}
END_TEST

/* A stream cut between two blocks, its closing record made to fit: the header knows the size. */
START_TEST(test_shortened_stream)
{
	small_image(&rig, &codec_none, 0, 1);
	copy_stream(&rig, 4 * WHOLE_BLOCK, &rig, 5 * WHOLE_BLOCK, BLOCK_RECORD + CLOSING_PAYLOAD);
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	uint8_t *t = rig.disk.bytes + rig.header.trailer_place;
	put_le64(t + 48, get_le64(t + 48) - WHOLE_BLOCK);
	seal(t, id64(rig.header.image_id));
	ck_assert_int_eq(rig_load(&rig), E_CORRUPT);
	rig_close(&rig);
}
END_TEST

/* ---- giving an image up ---- */

static void check_cleared(struct rig *r)
{
	uint32_t n = r->o.page_size;

	memset(r->original + n - MARK_BYTES, 0, MARK_BYTES - 10);
	ck_assert_mem_eq(r->disk.bytes + r->o.area_start, r->original, n);
	ck_assert_int_eq(rig_kind(r), MARK_SWAP);
	ck_assert(r->disk.log_count && !r->disk.log[r->disk.log_count - 1].write);
	for (unsigned i = 0; i < r->disk.log_count; i++)
		if (r->disk.log[i].write)
			ck_assert_uint_eq(r->disk.log[i].offset, r->o.area_start + n - 4096);
}

static void open_marked(uint32_t page_size, uint64_t start)
{
	rig_open(&rig, &(struct rig_options){.page_size = page_size, .pages = 3, .area_start = start});
	ck_assert_int_eq(rig_save(&rig), E_OK);
	/* All but the mark's bytes are as mkswap wrote them. */
	ck_assert_mem_eq(rig.disk.bytes + start, rig.original, page_size - MARK_BYTES);
	fake_disk_forget(&rig.disk);
	fault_clear();
}

static int open_image(void)
{
	return image_open(&rig.image, &rig.disk.disk, rig.o.area_start, rig.scratch);
}

START_TEST(test_discard)
{
	static const uint32_t sizes[] = {4096, 16384, 65536};

	open_marked(sizes[_i / 2], _i % 2 ? 65536 * 5 : 0);
	ck_assert_int_eq(open_image(), E_OK);
	ck_assert(image_is_ours(&rig.image));
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	check_cleared(&rig);
	ck_assert_int_eq(open_image(), E_NOIMAGE);
	/* Again changes nothing. */
	fake_disk_forget(&rig.disk);
	ck_assert_int_eq(mark_clear(&rig.disk.disk, rig.o.area_start, rig.scratch, rig.header.image_id, false), E_OK);
	ck_assert_uint_eq(rig.disk.written_bytes, 0);
	rig_close(&rig);
}
END_TEST

static void check_untouched(void)
{
	ck_assert_uint_eq(rig.disk.log_count, 0);
}

START_TEST(test_foreign_is_left_alone)
{
	static const char signature[][11] = {"S1SUSPEND", "ULSUSPEND", "S2SUSPEND", "LINHIB0001",
					     "\xed\xc3\x02\xe9\x98\x56\xe5\x0c"};
	static const uint32_t sizes[] = {4096, 16384, 65536};
	uint32_t n = sizes[_i % 3];
	id128 id = {{0}};

	open_marked(n, 0);
	memcpy(rig.disk.bytes + n - 80, "whatever", 8);
	memcpy(rig.disk.bytes + n - 10, signature[_i / 3], 10);
	ck_assert_int_eq(open_image(), E_FOREIGN);
	ck_assert(!image_is_ours(&rig.image));
	ck_assert_int_eq(image_discard(&rig.image), E_FOREIGN);
	ck_assert_int_eq(mark_set(&rig.disk.disk, 0, n, rig.scratch, rig.header.image_id, id, 4096), E_FOREIGN);
	ck_assert_int_eq(mark_clear(&rig.disk.disk, 0, rig.scratch, rig.header.image_id, true), E_FOREIGN);
	check_untouched();
	rig_close(&rig);
}
END_TEST

START_TEST(test_wrong_uuid_is_not_cleared)
{
	open_marked(4096, 0);
	rig.disk.bytes[1040] ^= 1;
	ck_assert_int_eq(open_image(), E_CORRUPT);
	ck_assert(!image_is_ours(&rig.image));
	ck_assert_int_ne(image_discard(&rig.image), E_OK);
	check_untouched();
	ck_assert_int_eq(rig_kind(&rig), MARK_DAMAGED);
	rig_close(&rig);
}
END_TEST

START_TEST(test_damaged_mark_proven_by_header)
{
	open_marked(4096, 0);
	rig.disk.bytes[4096 - 40] ^= 1;
	ck_assert_int_eq(open_image(), E_CORRUPT);
	ck_assert(image_is_ours(&rig.image));
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	check_cleared(&rig);
	rig_close(&rig);
}
END_TEST

START_TEST(test_damaged_mark_not_proven)
{
	static const struct {
		bool header;
		uint32_t at;
	} too[] = {{true, 100}, {false, 4096 - 28 + 6}, {false, 4096 - 60}, {false, 1024}, {false, 4096 - 20}};

	open_marked(4096, 0);
	rig.disk.bytes[4096 - 40] ^= 1;
	(too[_i].header ? rig.disk.bytes + save_header_place(rig.save) : rig.disk.bytes)[too[_i].at] ^= 1;
	ck_assert_int_eq(open_image(), E_CORRUPT);
	ck_assert_int_eq(image_discard(&rig.image), E_FOREIGN);
	ck_assert_int_eq(rig_kind(&rig), MARK_DAMAGED);
	for (unsigned i = 0; i < rig.disk.log_count; i++)
		ck_assert(!rig.disk.log[i].write || rig.disk.log[i].offset == rig.header.state_place);
	rig_close(&rig);
}
END_TEST

/* A whole mark over a header that is gone: corrupt, but ours to clear. */
START_TEST(test_mark_without_header)
{
	open_marked(4096, 0);
	memset(rig.disk.bytes + save_header_place(rig.save), 0, 4096);
	ck_assert_int_eq(open_image(), E_CORRUPT);
	ck_assert(image_is_ours(&rig.image));
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	check_cleared(&rig);
	rig_close(&rig);
}
END_TEST

/* Another image's mark is not this image's to clear. */
START_TEST(test_clear_names_the_image)
{
	id128 id;

	open_marked(4096, 0);
	id = rig.header.image_id;
	id.b[15] ^= 1;
	ck_assert_int_eq(mark_clear(&rig.disk.disk, 0, rig.scratch, id, true), E_FOREIGN);
	check_untouched();
	rig_close(&rig);
}
END_TEST

START_TEST(test_discard_fails_then_passed_over)
{
	open_marked(4096, 0);
	ck_assert_int_eq(open_image(), E_OK);
	fake_disk_fail(&rig.disk, (struct fake_fault){.op = _i ? FAKE_WRITE : FAKE_SYNC,
						      .nth = 1,
						      .times = _i ? FAKE_FOR_GOOD : 1,
						      .error = EIO,
						      .to = _i ? 4096 : 0});
	ck_assert_int_eq(image_discard(&rig.image), E_IO);
	/* It was written and not synced: what stands there nobody knows, so it is passed over as well. */
	rig.disk.bytes[4096 - 1] = 0;
	struct state s;
	state_get(&s, rig.disk.bytes + rig.header.state_place, rig.header.image_id);
	ck_assert_uint_eq(s.flags, STATE_PASSED_OVER);
	rig_close(&rig);
}
END_TEST

/* Signature put back, its sync refused: the next try may not take what it reads for durable. */
START_TEST(test_clear_again_syncs)
{
	open_marked(4096, 0);
	fake_disk_fail(&rig.disk, (struct fake_fault){.op = FAKE_SYNC, .nth = 1, .times = 2, .error = EIO});
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(mark_clear(&rig.disk.disk, 0, rig.scratch, rig.header.image_id, false), E_IO);
	ck_assert_int_eq(mark_clear(&rig.disk.disk, 0, rig.scratch, rig.header.image_id, false), E_OK);
	ck_assert_uint_eq(fake_disk_durable(&rig.disk, rig.disk.log_count), rig.disk.log_count);
	check_cleared(&rig);
	rig_close(&rig);
}
END_TEST

/* ---- memory ---- */

static void plan_works(struct save_options *o, size_t limit, unsigned most)
{
	struct arena a;
	size_t size;

	o->threads = most;
	ck_assert_int_eq(save_plan(o, limit, &size), E_OK);
	ck_assert_uint_le(size, limit);
	ck_assert_uint_le(o->threads, most);
	ck_assert_int_eq(arena_open(&a, size, 0), E_OK);
	a.size = size; /* not rounded up */
	struct save *s = save_carve(&a, o);
	ck_assert_ptr_nonnull(s);
	ck_assert_uint_eq(a.used, size);
	struct save *mine = rig.save;
	rig.save = s;
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	ck_assert(rig_same(&rig));
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	rig.save = mine;
	arena_close(&a);
}

/* One byte short of a plan gives the next: the queue shrinks, then threads go one by one, then E_MEMORY. */
static void plan_shrinks(struct save_options *o)
{
	size_t size, before;
	unsigned threads = 6;
	uint32_t buffer;

	o->threads = threads;
	ck_assert_int_eq(save_plan(o, SIZE_MAX, &before), E_OK);
	ck_assert_uint_eq(o->threads, threads);
	ck_assert_uint_eq(o->buffer, STREAM_BUFFER);
	for (buffer = o->buffer; threads || buffer > STREAM_BUFFER_MIN; threads = o->threads, buffer = o->buffer) {
		o->threads = 6;
		ck_assert_int_eq(save_plan(o, before - 1, &size), E_OK);
		ck_assert_uint_lt(size, before);
		if (buffer > STREAM_BUFFER_MIN) {
			ck_assert_uint_eq(o->threads, threads);
			ck_assert_uint_lt(o->buffer, buffer);
		} else {
			ck_assert_uint_eq(o->threads, threads - 1);
			ck_assert_uint_eq(o->buffer, STREAM_BUFFER_MIN);
		}
		if (o->threads % 3 == 0)
			plan_works(o, size, 6);
		before = size;
	}
	o->threads = 6;
	ck_assert_int_eq(save_plan(o, before - 1, &size), E_MEMORY);
}

START_TEST(test_save_plan)
{
	const struct codec *c = codecs[_i];

	if (!usable(c))
		return;
	for (int worst = 0; worst < 2; worst++) {
		int level = worst ? c->level_max : c->level_default;
		rig_open(&rig, &(struct rig_options){.pages = 300, .content = CONTENT_MIXED});
		struct save_options o = {.page_size = 4096,
					 .block_size = BLOCK_SIZE_DEFAULT,
					 .codec = c,
					 .level = level,
					 .reproducible = true};
		plan_shrinks(&o);
		rig_close(&rig);
	}
}
END_TEST

START_TEST(test_load_plan)
{
	struct load_options o = {.page_size = 4096, .block_size = BLOCK_SIZE_DEFAULT};
	struct load_input in = {.image = &rig.image, .sink = &rig.sink.sink};
	struct arena a;
	size_t size;

	rig_open(&rig, &(struct rig_options){.pages = 300,
					     .content = CONTENT_MIXED,
					     .codec = codec_default(),
					     .level = codec_default()->level_default});
	ck_assert_int_eq(rig_save(&rig), E_OK);
	for (unsigned threads = 0; threads < 6; threads++) {
		o.threads = threads;
		ck_assert_int_eq(load_plan(&o, SIZE_MAX, &size), E_OK);
		size_t exact = size;
		o.threads = 6;
		ck_assert_int_eq(load_plan(&o, exact, &size), E_OK);
		ck_assert_uint_eq(o.threads, threads);
		ck_assert_uint_eq(size, exact);
		ck_assert_int_eq(arena_open(&a, size, 0), E_OK);
		a.size = size;
		struct load *l = load_carve(&a, &o);
		ck_assert_ptr_nonnull(l);
		ck_assert_uint_eq(a.used, size);
		ck_assert_int_eq(rig_load(&rig), E_OK);
		fake_sink_close(&rig.sink);
		fake_sink_open(&rig.sink, 4096, rig.o.content, rig.o.seed);
		ck_assert_int_eq(load_run(l, &in), E_OK);
		ck_assert(rig_same(&rig));
		arena_close(&a);
		if (!threads)
			ck_assert_int_eq(load_plan(&o, exact - 1, &size), E_MEMORY);
	}
	rig_close(&rig);
}
END_TEST

/* ---- failures ---- */

static int abort_tick(void *ctx, const struct save_progress *p)
{
	(void)ctx;
	(void)p;
	return E_ABORTED;
}

static const struct rig_options busy = {.pages = 600,
					.block_size = 64 << 10,
					.content = CONTENT_MIXED,
					.layout = LAYOUT_SPREAD,
					.fingerprints = 3,
					.async = 4};

/* Whatever made the first save fail, with more fingerprints too, the second writes what a first one would. */
static void save_again(unsigned threads, int failure)
{
	struct rig_options o = busy;

	o.threads = threads;
	o.fingerprints = 300;
	rig_open(&rig, &o);
	int expected = E_IO;
	if (failure == 0)
		rig.swap.count = 300, expected = E_NOSPACE;
	else if (failure == 1)
		rig.source.fail_at = 321, expected = E_SNAPSHOT;
	else if (failure == 2)
		rig.swap.fail_take = 1, expected = E_SNAPSHOT;
	else
		fake_disk_fail(&rig.disk, (struct fake_fault){.op = failure == 3 ? FAKE_WRITE : FAKE_SYNC,
							      .nth = failure == 3 ? 2 : 1,
							      .times = FAKE_FOR_GOOD,
							      .error = EIO});
	uint64_t count = busy.fingerprints;
	ck_assert_int_eq(rig_save(&rig), expected);
	check_quiet(&rig);
	ck_assert_int_eq(rig_kind(&rig), MARK_SWAP);
	fake_disk_forget(&rig.disk);
	rig.o.fingerprints = (uint32_t)count;
	rig.source.fail_at = 0;
	rig.swap.fail_take = 0;
	rig.swap.count = rig.o.area_pages - 1;
	ck_assert_int_eq(rig_save(&rig), E_OK);
	o.fingerprints = (uint32_t)count;
	rig_open(&other, &o);
	ck_assert_int_eq(rig_save(&other), E_OK);
	check_same_disks(&rig, &other);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	ck_assert(rig_same(&rig));
	rig_close(&other);
	rig_close(&rig);
}

START_TEST(test_save_after_failed_save)
{
	save_again(0, _i);
	save_again(2, _i);
}
END_TEST

/* A header that was used before keeps nothing of it, as hibernate() does when it saves a second time. */
START_TEST(test_header_used_again)
{
	struct save_input in = {.disk = &rig.disk.disk, .source = &rig.source.source, .swap = &rig.swap.pages};

	rig_open(&rig, &busy);
	rig.o.fingerprints = 3;
	ck_assert_int_eq(rig_save_run(&rig), E_OK);
	struct header used = rig.header;
	used.codecs = 0xff;
	for (int i = 0; i < HEADER_PAGES_MAX - 1; i++)
		used.more[i] = 4096;
	rig_open(&other, &busy);
	in.header = &used;
	in.fingerprints = rig.fingerprint;
	fake_source_open(&rig.source, rig.o.page_size, rig.o.content, rig.o.seed);
	rig.swap.given = 0;
	fake_disk_forget(&rig.disk);
	ck_assert_int_eq(save_run(rig.save, &in), E_OK);
	ck_assert_int_eq(rig_save_run(&other), E_OK);
	check_same_disks(&rig, &other);
	rig_close(&other);
	rig_close(&rig);
}
END_TEST

static void fail_disk(struct rig *r, enum fake_op op, unsigned nth, unsigned times)
{
	fake_disk_fail(&r->disk,
		       (struct fake_fault){.op = op, .nth = nth, .times = times, .error = EIO, .moved = 4096});
}

/* The nth operation of any kind fails while saving: E_IO, and the area is plain swap. */
START_TEST(test_save_faults)
{
	struct rig_options o = busy;
	enum fake_op op = _i & 1 ? FAKE_SUBMIT : FAKE_ANY;
	unsigned times = _i & 2 ? FAKE_FOR_GOOD : 1, nth = 1;
	bool met = true;

	o.threads = _i & 4 ? 2 : 0;
	rig_open(&rig, &o);
	for (; met; nth++) {
		fake_disk_forget(&rig.disk);
		fail_disk(&rig, op, nth, times);
		int r = rig_save_run(&rig);
		met = rig.disk.fault[0].seen >= nth;
		ck_assert_int_eq(r, met ? E_IO : E_OK);
		check_quiet(&rig);
		ck_assert_mem_eq(rig.disk.bytes, rig.original, 4096);
	}
	ck_assert_uint_gt(nth, 5);
	rig_close(&rig);
}
END_TEST

START_TEST(test_load_faults)
{
	struct rig_options o = busy;
	enum fake_op op = _i & 1 ? FAKE_SUBMIT : FAKE_ANY;
	unsigned times = _i & 2 ? FAKE_FOR_GOOD : 1, nth = 1;
	bool met = true;

	o.load_threads = _i & 4 ? 2 : 0;
	rig_open(&rig, &o);
	ck_assert_int_eq(rig_save(&rig), E_OK);
	for (; met; nth++) {
		fake_disk_forget(&rig.disk);
		fail_disk(&rig, op, nth, times);
		int r = rig_load(&rig);
		met = rig.disk.fault[0].seen >= nth;
		ck_assert_int_eq(r, met ? E_IO : E_OK);
		ck_assert_uint_eq(rig.sink.wrong, 0);
		check_quiet(&rig);
		ck_assert_uint_eq(rig.disk.written_bytes, 0);
	}
	ck_assert_uint_gt(nth, 5);
	rig_close(&rig);
}
END_TEST

START_TEST(test_sink_fails)
{
	struct rig_options o = busy;

	o.load_threads = (unsigned)_i;
	rig_open(&rig, &o);
	ck_assert_int_eq(rig_save(&rig), E_OK);
	rig.sink.fail_at = 450;
	ck_assert_int_eq(rig_load(&rig), E_RESTORE);
	check_quiet(&rig);
	rig.sink.fail_at = 0;
	ck_assert_int_eq(rig_load(&rig), E_OK);
	ck_assert(rig_same(&rig));
	rig_close(&rig);
}
END_TEST

/* However short a save is, it asks at least once whether it is to go on. */
START_TEST(test_tick_stops)
{
	struct rig_options o = busy;

	o.threads = o.load_threads = (unsigned)_i;
	o.pages = 2;
	rig_open(&rig, &o);
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	rig.tick = abort_tick;
	ck_assert_int_eq(rig_save_run(&rig), E_ABORTED);
	check_quiet(&rig);
	rig_close(&rig);
}
END_TEST

/* Data, sync, header, sync; then the mark alone, sync.  Nothing is under way at a sync. */
START_TEST(test_order_of_writes)
{
	struct rig_options o = busy;
	unsigned i = 0, syncs = 0;

	o.threads = 2;
	o.fingerprints = 100;
	rig_open(&rig, &o);
	ck_assert_int_eq(rig_save(&rig), E_OK);
	check_quiet(&rig);
	for (; i < rig.disk.log_count; i++) {
		const struct fake_entry *e = &rig.disk.log[i];
		bool header = e->offset == save_header_place(rig.save) || e->offset == rig.header.more[0];

		if (!e->write) {
			syncs++;
			continue;
		}
		ck_assert_uint_eq(header, syncs == 1);
		ck_assert_uint_eq(e->offset == 0, syncs == 2);
	}
	ck_assert_uint_eq(syncs, 3);
	ck_assert(!rig.disk.log[i - 1].write);
	rig_close(&rig);
}
END_TEST

static TCase *add(Suite *s, const char *name)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return t;
}

static void add_damage(TCase *t)
{
	tcase_add_loop_test(t, test_flips_in_records, 0, 4);
	tcase_add_loop_test(t, test_flips_in_stream, 0, CODECS);
	tcase_add_test(t, test_flips_with_threads);
	tcase_add_test(t, test_flips_in_state);
	tcase_add_test(t, test_flips_in_mark);
	tcase_add_test(t, test_header_is_bounded);
	tcase_add_test(t, test_extents_are_bounded);
	tcase_add_test(t, test_truncated_device);
	tcase_add_test(t, test_swapped_blocks);
	tcase_add_test(t, test_foreign_blocks);
	tcase_add_test(t, test_shortened_stream);
}

static void add_discard(TCase *t)
{
	tcase_add_loop_test(t, test_discard, 0, 6);
	tcase_add_loop_test(t, test_foreign_is_left_alone, 0, 15);
	tcase_add_test(t, test_wrong_uuid_is_not_cleared);
	tcase_add_test(t, test_damaged_mark_proven_by_header);
	tcase_add_loop_test(t, test_damaged_mark_not_proven, 0, 5);
	tcase_add_test(t, test_mark_without_header);
	tcase_add_test(t, test_clear_names_the_image);
	tcase_add_loop_test(t, test_discard_fails_then_passed_over, 0, 2);
	tcase_add_test(t, test_clear_again_syncs);
}

int main(void)
{
	Suite *s = suite_create("check_image");
	TCase *t = add(s, "round trip");

	tcase_add_loop_test(t, test_round_trip, 0, CODECS * THREADS);
	tcase_add_loop_test(t, test_round_trip_adapting, 0, THREADS);
	tcase_add_test(t, test_large_image_of_zeros);
	tcase_add_loop_test(t, test_page_sizes, 0, 3);
	tcase_add_test(t, test_header_comes_back);
	tcase_add_loop_test(t, test_threads_write_the_same, 0, CODECS * LAYOUT_COUNT);
	add_damage(add(s, "damage"));
	add_discard(add(s, "discard"));
	t = add(s, "memory");
	tcase_add_loop_test(t, test_save_plan, 0, CODECS);
	tcase_add_test(t, test_load_plan);
	t = add(s, "failure");
	tcase_add_loop_test(t, test_save_after_failed_save, 0, 5);
	tcase_add_test(t, test_header_used_again);
	tcase_add_loop_test(t, test_save_faults, 0, 8);
	tcase_add_loop_test(t, test_load_faults, 0, 8);
	tcase_add_loop_test(t, test_sink_fails, 0, 3);
	tcase_add_loop_test(t, test_tick_stops, 0, 3);
	tcase_add_test(t, test_order_of_writes);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
