/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fakes.h"

#include "base/bytes.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 42 };

static const id128 image = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static struct fake_disk disk;
static struct fake_swap swap;
static struct stream_out out;
static struct stream_in in;
static struct arena arena;
static struct trailer trailer;

/* Byte @at of the stream. */
static uint8_t stream_byte(uint64_t at)
{
	return (uint8_t)((at * 0x9e3779b97f4a7c15u) >> 56);
}

static void carve(struct arena *a, uint32_t page_size)
{
	stream_out_carve(&out, a, page_size, 1 << 20, STREAM_BUFFERS, STREAM_BUFFER);
	stream_in_carve(&in, a, page_size);
}

static void open_all(enum fake_layout layout, uint32_t page_size, uint64_t async)
{
	uint64_t area = (layout == LAYOUT_SINGLES ? 128ull << 20 : 1ull << 30) / page_size;

	if (!arena.base) { /* once for all, it takes a while */
		struct arena need;

		arena_count(&need);
		carve(&need, 4096);
		ck_assert_int_eq(arena_open(&arena, need.used, 0), E_OK);
	}
	arena.used = 0;
	carve(&arena, page_size);
	fake_disk_open(&disk, area * page_size);
	fake_swap_open(&swap, layout, page_size, 0, area);
	if (async)
		fake_disk_make_async(&disk, async);
	memset(&trailer, 0, sizeof trailer);
	fault_clear();
}

static void close_all(void)
{
	fake_swap_close(&swap);
	fake_disk_close(&disk);
}

/* Pieces of changing length, as blocks have. */
static uint32_t piece(uint64_t *random, uint64_t left)
{
	static const uint32_t lengths[] = {32, 1, 4096, 100000, 262144, 7, 4095, 65537};

	return (uint32_t)min_u64(left, lengths[fake_random(random) % 8]);
}

static int append(uint64_t at, uint32_t n)
{
	static uint8_t buf[262144];
	int r = stream_out_reserve(&out, n);

	for (uint32_t i = 0; i < n; i++)
		buf[i] = stream_byte(at + i);
	if (r == E_OK)
		r = stream_out_append(&out, buf, n);
	memset(buf, 0x55, sizeof buf); /* the caller's from here on */
	if (r == E_OK)
		stream_out_keep_promise(&out, n);
	return r;
}

static int write_stream(uint64_t length)
{
	uint64_t random = SEED;
	int r = E_OK;

	stream_out_start(&out, &disk.disk, &swap.pages, image, NULL);
	for (uint64_t at = 0; at < length && r == E_OK;) {
		uint32_t n = piece(&random, length - at);

		r = append(at, n);
		at += n;
	}
	if (r == E_OK)
		r = stream_out_finish(&out, &trailer);
	if (r != E_OK)
		stream_out_settle(&out);
	stream_out_stop(&out);
	return r;
}

static int read_piece(uint64_t at, uint32_t n, uint64_t *wrong)
{
	static uint8_t buf[262144];
	int r = stream_in_read(&in, buf, n);

	for (uint32_t i = 0; r == E_OK && i < n; i++)
		*wrong += buf[i] != stream_byte(at + i);
	return r;
}

static int read_stream(uint64_t length, uint64_t *wrong)
{
	uint64_t random = SEED + 1;
	int r = stream_in_start(&in, &disk.disk, image, &trailer, NULL);

	*wrong = 0;
	for (uint64_t at = 0; at < length && r == E_OK;) {
		uint32_t n = piece(&random, length - at);

		r = read_piece(at, n, wrong);
		at += n;
	}
	if (r == E_OK)
		r = stream_in_finish(&in);
	stream_in_settle(&in);
	return r;
}

/* No two writes overlap, none touches the area's first page, all are whole pages. */
static void check_places(uint32_t page_size)
{
	uint8_t *used = calloc(1, disk.disk.size / page_size);

	ck_assert_ptr_nonnull(used);
	for (unsigned i = 0; i < disk.log_count; i++) {
		const struct fake_entry *e = &disk.log[i];
		if (!e->write)
			continue;
		must(e->offset % page_size == 0);
		for (uint64_t p = e->offset / page_size; p < div_up(e->offset + e->length, page_size); p++) {
			must(p && !used[p]);
			used[p] = 1;
		}
	}
	free(used);
}

static void round_trip(enum fake_layout layout, uint32_t page_size, uint64_t async, uint64_t length)
{
	uint64_t wrong;

	open_all(layout, page_size, async);
	ck_assert_int_eq(write_stream(length), E_OK);
	ck_assert_uint_eq(disk.pending_count, 0);
	ck_assert_uint_eq(trailer.stream_bytes, length);
	check_places(page_size);
	ck_assert_int_eq(read_stream(length, &wrong), E_OK);
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_eq(disk.pending_count, 0);
	ck_assert_int_eq(disk.raced, 0);
	close_all();
}

static const uint64_t lengths[] = {1,	    31,	     4095,    4096,    4097,	65536,	(1 << 20) - 1,
				   1 << 20, 1048577, 2097152, 3000001, 8999999, 8 << 20};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

START_TEST(test_round_trip)
{
	for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
		round_trip((enum fake_layout)layout, 4096, (uint64_t)_i + 1, lengths[_i]);
		round_trip((enum fake_layout)layout, 16384, _i % 2 ? (uint64_t)_i : 0, lengths[_i]);
	}
}
END_TEST

/* The stream's extents, read from the disk. */
static uint32_t count_extents(uint64_t *pages_total, uint64_t *chain)
{
	static struct extent_page map;
	uint64_t place = trailer.extents_place;
	uint32_t n = 0;

	*pages_total = *chain = 0;
	do {
		ck_assert_int_eq(
			extent_page_get(&map, disk.bytes + place, image, *chain, out.page_size, disk.disk.size), E_OK);
		++*chain;
		n += map.count;
		for (uint32_t i = 0; i < map.count; i++)
			*pages_total += map.e[i].pages;
		place = map.next;
	} while (place);
	return n;
}

/* Requests begin at 256 KiB; the stream's end, runs' ends and the extent page are shorter. */
enum { LEAST_MEAN = 192 << 10 };

static void mean_write(uint64_t *mean, unsigned *writes)
{
	uint64_t sum = 0;

	*writes = 0;
	for (unsigned i = 0; i < disk.log_count; i++) {
		if (!disk.log[i].write)
			continue;
		++*writes;
		sum += disk.log[i].length;
		must(disk.log[i].length <= STREAM_BUFFER);
	}
	*mean = sum / *writes;
}

START_TEST(test_one_run_is_written_in_large_requests)
{
	const uint64_t length = 20 << 20;
	uint64_t mean, pages, chain;
	unsigned writes;

	open_all(LAYOUT_RUN, 4096, 5);
	ck_assert_int_eq(write_stream(length), E_OK);
	mean_write(&mean, &writes);
	/* How large they are beyond that hangs on how fast the disk seems. */
	ck_assert_uint_ge(mean, LEAST_MEAN);
	/* The extent page itself may split the one run. */
	ck_assert_uint_le(count_extents(&pages, &chain), 2);
	ck_assert_uint_eq(chain, 1);
	ck_assert_uint_eq(pages, length / 4096);
	ck_assert_uint_ge(disk.pending_most, 4);
	disk.pending_most = 0;
	uint64_t wrong, before = disk.read_bytes;
	ck_assert_int_eq(read_stream(length, &wrong), E_OK);
	ck_assert_uint_ge(disk.pending_most, STREAM_BUFFERS);
	/* Nothing is read twice. */
	ck_assert_uint_eq(disk.read_bytes - before, length + RECORD_PAGE);
	close_all();
}
END_TEST

START_TEST(test_spread_runs_are_whole_requests)
{
	const uint64_t length = 20 << 20;
	uint64_t mean, pages, chain;
	unsigned writes;

	open_all(LAYOUT_SPREAD, 4096, 5);
	ck_assert_int_eq(write_stream(length), E_OK);
	mean_write(&mean, &writes);
	ck_assert_uint_ge(mean, LEAST_MEAN);
	/* Ten runs of 2 MiB, some cut by a batch's end or an extent page. */
	ck_assert_uint_le(count_extents(&pages, &chain), 16);
	ck_assert_uint_eq(pages, length / 4096);
	close_all();
}
END_TEST

/* Pages that come shuffled but make up one run are one extent. */
static int take_backwards(struct swap_pages *p, uint64_t *places, uint32_t want, uint32_t *got)
{
	uint64_t t;

	(void)p;
	for (*got = 0; *got < want && fake_swap_next(&swap, &places[*got]);)
		++*got;
	for (uint32_t i = 0; i < *got / 2; i++) {
		t = places[i];
		places[i] = places[*got - 1 - i];
		places[*got - 1 - i] = t;
	}
	return E_OK;
}

START_TEST(test_pages_are_sorted)
{
	uint64_t pages, chain, mean;
	unsigned writes;

	open_all(LAYOUT_RUN, 4096, 0);
	swap.pages.take = take_backwards;
	ck_assert_int_eq(write_stream(20 << 20), E_OK);
	ck_assert_uint_le(count_extents(&pages, &chain), 2);
	mean_write(&mean, &writes);
	ck_assert_uint_ge(mean, LEAST_MEAN);
	close_all();
}
END_TEST

START_TEST(test_long_chain)
{
	const uint64_t length = (8 << 20) + 77;
	uint64_t pages, chain, wrong;

	open_all(LAYOUT_SINGLES, 4096, 9);
	ck_assert_int_eq(write_stream(length), E_OK);
	ck_assert_uint_eq(count_extents(&pages, &chain), div_up(length, 4096));
	ck_assert_uint_eq(pages, div_up(length, 4096));
	ck_assert_uint_eq(chain, div_up(pages, EXTENTS_PER_PAGE));
	ck_assert_uint_eq(trailer.extent_pages, chain);
	ck_assert_uint_ge(disk.pending_most, 256);
	ck_assert_int_eq(read_stream(length, &wrong), E_OK);
	ck_assert_uint_eq(wrong, 0);
	close_all();
}
END_TEST

/* A chain that fills its last page exactly gets no empty page behind it. */
START_TEST(test_chain_of_whole_pages)
{
	uint64_t pages, chain, wrong, length = 2 * EXTENTS_PER_PAGE * 4096;

	open_all(LAYOUT_SINGLES, 4096, 0);
	ck_assert_int_eq(write_stream(length), E_OK);
	count_extents(&pages, &chain);
	ck_assert_uint_eq(chain, 2);
	ck_assert_int_eq(read_stream(length, &wrong), E_OK);
	ck_assert_uint_eq(wrong, 0);
	close_all();
}
END_TEST

/* Every number of pages is tried: it fits or it does not, and never leaves anything under way. */
static void try_full(enum fake_layout layout, uint64_t length)
{
	uint64_t wrong, needed = div_up(length, 4096);
	bool fitted = false;

	for (uint64_t count = layout == LAYOUT_SINGLES ? needed - 3 : 0; count < needed + 8; count++) {
		open_all(layout, 4096, count + 1);
		swap.count = count;
		int r = write_stream(length);
		ck_assert_uint_eq(disk.pending_count, 0);
		ck_assert_uint_eq(disk.raced, 0);
		ck_assert_msg(r == E_OK || r == E_NOSPACE, "%llu pages: code %d", (unsigned long long)count, r);
		if (fitted || count > needed + needed / EXTENTS_PER_PAGE + 1)
			ck_assert_int_eq(r, E_OK);
		if (count < needed + 1)
			ck_assert_int_eq(r, E_NOSPACE);
		if (r == E_OK) {
			fitted = true;
			check_places(4096);
			ck_assert_int_eq(read_stream(length, &wrong), E_OK);
			ck_assert_uint_eq(wrong, 0);
		}
		close_all();
	}
	ck_assert(fitted);
}

START_TEST(test_full_area)
{
	try_full(LAYOUT_RUN, 300000);
	try_full(LAYOUT_SINGLES, 1500000);
}
END_TEST

static void fail_once(enum fake_op op, unsigned nth, unsigned times, uint32_t moved)
{
	fake_disk_fail(&disk, (struct fake_fault){.op = op, .nth = nth, .times = times, .error = EIO, .moved = moved});
}

/* Fails the nth, n+1-st ... operation of a kind when writing, until there are no more. */
static void fail_writing(enum fake_layout layout, enum fake_op op, unsigned times, uint32_t moved, unsigned step)
{
	const uint64_t length = layout == LAYOUT_RUN ? 9 << 20 : 1500000;
	unsigned nth = 1;
	int r;

	for (;; nth += step) {
		open_all(layout, 4096, nth);
		fail_once(op, nth, times, moved);
		r = write_stream(length);
		bool met = disk.fault[0].seen >= nth;
		if (!met)
			ck_assert_int_eq(r, E_OK);
		else
			ck_assert_msg(r == E_IO, "operation %u of kind %d fails: code %d", nth, (int)op, r);
		ck_assert_uint_eq(disk.pending_count, 0);
		close_all();
		if (!met)
			break;
	}
	ck_assert_uint_gt(nth, 1);
}

START_TEST(test_write_faults)
{
	fail_writing(LAYOUT_RUN, FAKE_WRITE, 1, 0, 1);
	fail_writing(LAYOUT_RUN, FAKE_WRITE, FAKE_FOR_GOOD, 4096, 1);
	fail_writing(LAYOUT_SINGLES, FAKE_WRITE, 1, 512, 97);
	fail_writing(LAYOUT_SINGLES, FAKE_WRITE, FAKE_FOR_GOOD, 0, 97);
	fail_writing(LAYOUT_SINGLES, FAKE_SUBMIT, 1, 0, 1);
	fail_writing(LAYOUT_SINGLES, FAKE_SUBMIT, FAKE_FOR_GOOD, 13, 1);
}
END_TEST

START_TEST(test_taking_faults)
{
	for (unsigned nth = 1; nth <= 3; nth++) {
		open_all(LAYOUT_RUN, 4096, 3);
		swap.fail_take = nth;
		ck_assert_int_eq(write_stream(40 << 20), E_SNAPSHOT);
		ck_assert_uint_eq(disk.pending_count, 0);
		close_all();
	}
}
END_TEST

static void fail_reading(enum fake_layout layout, enum fake_op op, unsigned times, uint32_t moved, unsigned step)
{
	const uint64_t length = layout == LAYOUT_RUN ? 9 << 20 : 1500000;
	unsigned nth = 1;
	uint64_t wrong;

	for (;; nth += step) {
		open_all(layout, 4096, nth);
		ck_assert_int_eq(write_stream(length), E_OK);
		fail_once(op, nth, times, moved);
		int r = read_stream(length, &wrong);
		bool met = disk.fault[0].seen >= nth;
		ck_assert_int_eq(r, met ? E_IO : E_OK);
		ck_assert_uint_eq(wrong, 0);
		ck_assert_uint_eq(disk.pending_count, 0);
		close_all();
		if (!met)
			break;
	}
	ck_assert_uint_gt(nth, 1);
}

START_TEST(test_read_faults)
{
	fail_reading(LAYOUT_RUN, FAKE_READ, 1, 0, 1);
	fail_reading(LAYOUT_RUN, FAKE_READ, FAKE_FOR_GOOD, 4096, 1);
	fail_reading(LAYOUT_SINGLES, FAKE_READ, 1, 512, 97);
	fail_reading(LAYOUT_SINGLES, FAKE_SUBMIT, 1, 0, 1);
	fail_reading(LAYOUT_SINGLES, FAKE_SUBMIT, FAKE_FOR_GOOD, 13, 1);
}
END_TEST

/* Reading to another end than was written, or with another trailer, is refused. */
static void refuse(uint64_t length, const struct trailer *t)
{
	struct trailer right = trailer;
	uint64_t wrong;

	trailer = *t;
	ck_assert_int_eq(read_stream(length, &wrong), E_CORRUPT);
	ck_assert_uint_eq(disk.pending_count, 0);
	trailer = right;
}

static void refuse_all(enum fake_layout layout)
{
	const uint64_t length = 1500000;
	struct trailer t;

	open_all(layout, 4096, 4);
	ck_assert_int_eq(write_stream(length), E_OK);
	refuse(length + 1, &trailer);
	refuse(length - 1, &trailer);
	t = trailer, t.stream_bytes += 4096;
	refuse(length, &t);
	t = trailer, t.stream_bytes -= 4096;
	refuse(length - 4096, &t);
	t = trailer, t.extents_check ^= 1;
	refuse(length, &t);
	t = trailer, t.extent_pages--;
	refuse(length, &t);
	t = trailer, t.extent_pages++;
	refuse(length, &t);
	t = trailer, t.extents_place += 4096;
	refuse(length, &t);
	close_all();
}

START_TEST(test_trailer_must_agree)
{
	refuse_all(LAYOUT_RUN);
	refuse_all(LAYOUT_SPREAD);
	refuse_all(LAYOUT_SINGLES);
}
END_TEST

/* A page for metadata is none of the stream's. */
START_TEST(test_metadata_pages)
{
	uint64_t place[16], wrong;

	open_all(LAYOUT_SPREAD, 4096, 1);
	stream_out_start(&out, &disk.disk, &swap.pages, image, NULL);
	ck_assert_int_eq(stream_out_reserve(&out, 0), E_OK);
	for (int i = 0; i < 16; i++) {
		ck_assert_int_eq(stream_out_page(&out, &place[i]), E_OK);
		ck_assert_int_eq(disk_write(&disk.disk, arena.base, 4096, place[i]), E_OK);
	}
	for (uint64_t at = 0; at < 1 << 20; at += 65536)
		ck_assert_int_eq(append(at, 65536), E_OK);
	ck_assert_int_eq(stream_out_finish(&out, &trailer), E_OK);
	stream_out_stop(&out);
	check_places(4096);
	ck_assert_int_eq(read_stream(1 << 20, &wrong), E_OK);
	ck_assert_uint_eq(wrong, 0);
	close_all();
}
END_TEST

/* However much is promised, the pages that carry the extents are in the reserve too. */
START_TEST(test_reserve_holds_extent_pages)
{
	const uint64_t promised = 160 << 20;
	uint64_t area = 1 << 20;

	arena_close(&arena);
	stream_out_carve(&out, &arena, 4096, promised, STREAM_BUFFERS, STREAM_BUFFER);
	ck_assert_int_eq(arena_open(&arena, arena.used, 0), E_OK);
	stream_out_carve(&out, &arena, 4096, promised, STREAM_BUFFERS, STREAM_BUFFER);
	fake_disk_open(&disk, area * 4096);
	fake_swap_open(&swap, LAYOUT_SINGLES, 4096, 0, area);
	/* Whatever the last batch leaves over, what was promised can be written. */
	for (uint64_t first = 0; first < 16 << 20; first += (2 << 20) + 40960) {
		uint64_t at = 0;

		stream_out_start(&out, &disk.disk, &swap.pages, image, NULL);
		swap.given = 0;
		for (; at < first; at += 4096)
			must(append(at, 4096) == E_OK);
		ck_assert_int_eq(stream_out_reserve(&out, promised), E_OK);
		ck_assert(!out.full);
		static uint8_t block[1 << 20];
		for (at = 0; at < promised; at += sizeof block)
			must(stream_out_append(&out, block, sizeof block) == E_OK);
		ck_assert_int_eq(stream_out_finish(&out, &trailer), E_OK);
		stream_out_stop(&out);
		fake_disk_forget(&disk);
	}
	close_all();
	arena_close(&arena);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("check_stream");
	TCase *t = tcase_create("stream");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, test_round_trip, 0, LENGTHS);
	tcase_add_test(t, test_one_run_is_written_in_large_requests);
	tcase_add_test(t, test_spread_runs_are_whole_requests);
	tcase_add_test(t, test_pages_are_sorted);
	tcase_add_test(t, test_long_chain);
	tcase_add_test(t, test_chain_of_whole_pages);
	tcase_add_test(t, test_full_area);
	tcase_add_test(t, test_write_faults);
	tcase_add_test(t, test_taking_faults);
	tcase_add_test(t, test_read_faults);
	tcase_add_test(t, test_trailer_must_agree);
	tcase_add_test(t, test_metadata_pages);
	tcase_add_test(t, test_reserve_holds_extent_pages);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
