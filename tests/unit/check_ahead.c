/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading ahead: whatever part of an image was read, the load gets the same bytes, from there or from the disk. */
#include "fakes.h"

#include "base/bytes.h"
#include "base/error.h"
#include "image/ahead.h"

#include <errno.h>
#include <unistd.h>

enum { PAGES = 8000, MIB = 1 << 20 };

static struct rig rig;

static void make_image(int variant)
{
	rig_open(&rig, &(struct rig_options){.layout = (enum fake_layout)(variant % LAYOUT_COUNT),
					     .content = CONTENT_RANDOM,
					     .pages = PAGES,
					     .threads = 2,
					     .load_threads = 2,
					     .async = variant >= LAYOUT_COUNT ? 3 : 0});
	rig.raw = (uint64_t)PAGES * rig.o.page_size;
	ck_assert_msg(rig_save(&rig) == E_OK, "%s", fault_text());
	ck_assert_int_eq(image_open(&rig.image, &rig.disk.disk, rig.o.area_start, rig.scratch), E_OK);
	ck_assert_int_eq(image_read_trailer(&rig.image), E_OK);
}

/* Loads through what was read ahead; the code of the load. */
static int load_through(struct ahead *a)
{
	struct load_input in = {.image = &rig.image, .sink = &rig.sink.sink};

	rig.image.disk = ahead_disk(a);
	fake_sink_close(&rig.sink);
	fake_sink_open(&rig.sink, rig.o.page_size, rig.o.content, rig.o.seed);
	return load_run(rig.load, &in);
}

static struct ahead *read_for(uint64_t budget, uint64_t wait_for)
{
	struct ahead *a = ahead_start(&rig.image, budget);

	ck_assert_ptr_nonnull(a);
	while (ahead_bytes(a) < wait_for)
		usleep(100);
	ahead_stop(a);
	return a;
}

static void close_all(struct ahead *a)
{
	ahead_close(a);
	rig_close(&rig);
}

START_TEST(part_of_an_image)
{
	static const unsigned parts[] = {8, 9, 20};

	make_image(_i % (2 * LAYOUT_COUNT));
	uint64_t part = (uint64_t)parts[_i / (2 * LAYOUT_COUNT)] * MIB;
	struct ahead *a = read_for(part, part);
	ck_assert_uint_eq(ahead_bytes(a), part);
	uint64_t before = rig.disk.read_bytes, stream = rig.image.trailer.stream_bytes;
	ck_assert_msg(load_through(a) == E_OK, "%s", fault_text());
	ck_assert(rig_same(&rig));
	/* Only what was not read yet is, extents and requests across the end of it apart. */
	ck_assert_uint_le(rig.disk.read_bytes - before, stream - part + 4 * MIB);
	ck_assert_int_eq(rig.disk.raced, 0);
	close_all(a);
}
END_TEST

START_TEST(all_of_an_image)
{
	make_image(_i);
	struct ahead *a = read_for(UINT64_MAX / 2, rig.image.trailer.stream_bytes);
	uint64_t before = rig.disk.read_bytes;
	ck_assert_msg(load_through(a) == E_OK, "%s", fault_text());
	ck_assert(rig_same(&rig));
	ck_assert_uint_le(rig.disk.read_bytes - before, MIB);
	close_all(a);
}
END_TEST

/* Ended at any moment: the passphrase may come at once. */
START_TEST(stopped_early)
{
	make_image(_i);
	struct ahead *a = read_for(20 * MIB, 0);
	ck_assert_msg(load_through(a) == E_OK, "%s", fault_text());
	ck_assert(rig_same(&rig));
	close_all(a);
}
END_TEST

/* What the thread could not read is the load's to report; a disk that has recovered is no error. */
START_TEST(read_errors)
{
	bool recovers = _i & 1;

	make_image(_i / 2);
	uint64_t place = fake_swap_place(&rig.swap, 2000);
	fake_disk_forget(&rig.disk);
	fake_disk_fail(&rig.disk, (struct fake_fault){.op = FAKE_READ,
						      .nth = 1,
						      .times = FAKE_FOR_GOOD,
						      .error = EIO,
						      .from = place,
						      .to = place + 4096});
	struct ahead *a = read_for(20 * MIB, 4 * MIB);
	if (recovers)
		fake_disk_forget(&rig.disk);
	ck_assert_int_eq(load_through(a), recovers ? E_OK : E_IO);
	ck_assert(!recovers || rig_same(&rig));
	close_all(a);
}
END_TEST

/* Bytes altered on the disk before they were read ahead are refused by the load. */
START_TEST(damage_is_seen)
{
	make_image(0);
	uint64_t place = fake_swap_place(&rig.swap, 500);
	rig.disk.bytes[place] ^= 1;
	struct ahead *a = read_for(20 * MIB, 20 * MIB);
	ck_assert_int_eq(load_through(a), E_CORRUPT);
	close_all(a);
}
END_TEST

START_TEST(writes_go_through)
{
	make_image(0);
	struct ahead *a = read_for(8 * MIB, 8 * MIB);
	rig.image.disk = ahead_disk(a);
	rig.image.state.attempts = 2;
	fake_disk_forget(&rig.disk);
	ck_assert_int_eq(image_write_state(&rig.image), E_OK);
	ck_assert_uint_eq(rig.disk.count[FAKE_WRITE], 1);
	ck_assert_uint_eq(rig.disk.count[FAKE_SYNC], 1);
	ck_assert_int_eq(image_open(&rig.image, &rig.disk.disk, rig.o.area_start, rig.scratch), E_OK);
	ck_assert_uint_eq(rig.image.state.attempts, 2);
	ahead_close(a);
	rig_close(&rig);
}
END_TEST

START_TEST(not_worth_it)
{
	make_image(0);
	ck_assert_ptr_null(ahead_start(&rig.image, 0));
	ck_assert_ptr_null(ahead_start(&rig.image, 8 * MIB - 1));
	ahead_close(NULL);
	rig_close(&rig);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ahead");
	TCase *t = tcase_create("ahead");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, part_of_an_image, 0, 3 * 2 * LAYOUT_COUNT);
	tcase_add_loop_test(t, all_of_an_image, 0, 2 * LAYOUT_COUNT);
	tcase_add_loop_test(t, stopped_early, 0, 2 * LAYOUT_COUNT);
	tcase_add_loop_test(t, read_errors, 0, 4 * LAYOUT_COUNT);
	tcase_add_test(t, damage_is_seen);
	tcase_add_test(t, writes_go_through);
	tcase_add_test(t, not_worth_it);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
