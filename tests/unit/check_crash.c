/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Power cuts.  The writes of a save, of a load's attempts and of the clearing
 * are recorded; for every point in that log a disk is made on which all that
 * was synced by then lies, and of what came later any part.  Such a disk is
 * plain swap or carries the whole image, never anything else.
 */
#include "fakes.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECTOR = 512, EXHAUSTIVE = 10, SAMPLES = 100, BYTES = 300 << 10 };

static struct rig rig;
static uint8_t *initial; /* the disk before the log began */
static struct fake_entry *log_entry;
static unsigned log_count;
static uint64_t random_state;
static unsigned swaps, images; /* disks seen of either kind */

/* ---- recording ---- */

static void open_bench(unsigned threads, uint32_t page_size, enum fake_layout layout)
{
	rig_open(&rig, &(struct rig_options){.page_size = page_size,
					     .area_pages = 2 * (BYTES / page_size + 16),
					     .area_start = 65536,
					     .pages = BYTES / page_size,
					     .content = CONTENT_RANDOM,
					     .block_size = 65536,
					     .threads = threads,
					     .load_threads = threads,
					     .layout = layout,
					     .fingerprints = 60,
					     .seed = 1,
					     .async = 7});
	rig.disk.keep = true;
	initial = malloc(rig.disk.disk.size);
	ck_assert_ptr_nonnull(initial);
}

static void close_bench(void)
{
	for (unsigned i = 0; i < log_count; i++)
		free(log_entry[i].bytes);
	free(log_entry);
	free(initial);
	rig_close(&rig);
	log_entry = NULL;
	log_count = 0;
}

/* An earlier image lies there already, given up: its header, its blocks, all whole. */
static void leave_an_old_image(void)
{
	rig.o.id = 0x77;
	rig.o.seed = 2;
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	ck_assert_int_eq(image_discard(&rig.image), E_OK);
	rig.o.id = 0x11;
	rig.o.seed = 1;
}

static void begin_log(void)
{
	memcpy(initial, rig.disk.bytes, rig.disk.disk.size);
	fake_disk_forget(&rig.disk);
}

/* Takes the log over from the disk and makes it a disk without one. */
static void end_log(void)
{
	log_entry = rig.disk.log;
	log_count = rig.disk.log_count;
	rig.disk.log = NULL;
	rig.disk.log_count = rig.disk.log_room = 0;
	rig.disk.keep = false;
	rig.disk.async = 0;
	rig.disk.disk.queues = false;
	swaps = images = 0;
	random_state = (uint64_t)time(NULL);
	const char *given = getenv("CRASH_SEED");
	if (given)
		random_state = strtoull(given, NULL, 0);
	printf("check_crash: CRASH_SEED=%llu\n", (unsigned long long)random_state);
	fflush(stdout);
}

/* ---- a disk after a power cut ---- */

static void replay(const struct fake_entry *e)
{
	memcpy(rig.disk.bytes + e->offset, e->bytes, e->length);
}

/* Any of its sectors, the others as they were. */
static void replay_torn(const struct fake_entry *e, uint64_t sectors)
{
	for (uint32_t at = 0; at < e->length; at += SECTOR, sectors = sectors >> 1 | sectors << 63)
		if (sectors & 1)
			memcpy(rig.disk.bytes + e->offset + at, e->bytes + at, SECTOR);
}

static void check_disk(unsigned cut)
{
	enum mark_kind kind = rig_kind(&rig);

	if (kind == MARK_SWAP) {
		struct mark m;

		must(mark_read(&rig.disk.disk, rig.o.area_start, rig.scratch, &m) == E_OK);
		must(id_equal(m.swap_uuid, rig.header.swap_uuid) && m.swap_header && m.room);
		must(m.page_size == rig.o.page_size);
		swaps++;
		return;
	}
	int r = rig_load(&rig);
	if (r != E_OK || !rig_same(&rig))
		ck_abort_msg("cut at %u of %u: kind %d, code %d: %s", cut, log_count, (int)kind, r, fault_text());
	must(id_equal(rig.image.header.image_id, rig.header.image_id));
	must(rig.image.state.attempts <= ATTEMPTS_MAX && !rig.image.state.flags);
	images++;
}

/* What is durable at the cut: all before the last sync. */
static unsigned lay_durable(unsigned cut)
{
	unsigned from = cut;

	while (from && log_entry[from - 1].write)
		from--;
	memcpy(rig.disk.bytes, initial, rig.disk.disk.size);
	for (unsigned i = 0; i < from; i++)
		if (log_entry[i].write)
			replay(&log_entry[i]);
	return from;
}

static bool on_first_page(const struct fake_entry *e)
{
	return e->offset < rig.o.area_start + rig.o.page_size && e->offset + e->length > rig.o.area_start;
}

/* Every subset of whole writes. */
static void cut_exhaustive(unsigned from, unsigned cut)
{
	for (uint64_t set = 0; set < 1ull << (cut - from); set++) {
		lay_durable(cut);
		for (unsigned i = from; i < cut; i++)
			if (set >> (i - from) & 1)
				replay(&log_entry[i]);
		check_disk(cut);
	}
}

/* Some subsets, in any order, any write torn. */
static void cut_sampled(unsigned from, unsigned cut, unsigned samples)
{
	for (unsigned n = 0; n < samples; n++) {
		lay_durable(cut);
		for (unsigned i = from; i < cut; i++) {
			uint64_t dice = fake_random(&random_state);
			if (dice & 1)
				replay(&log_entry[i]);
			else if (dice & 2)
				replay_torn(&log_entry[i], fake_random(&random_state));
		}
		check_disk(cut);
	}
}

/* Every subset of sectors of a write on the area's first page, the others all there. */
static void cut_torn(unsigned from, unsigned cut)
{
	for (unsigned i = from; i < cut; i++) {
		if (!on_first_page(&log_entry[i]))
			continue;
		for (uint64_t sectors = 0; sectors < 256; sectors++) {
			lay_durable(cut);
			for (unsigned k = from; k < cut; k++)
				if (k != i)
					replay(&log_entry[k]);
			replay_torn(&log_entry[i], sectors * 0x0101010101010101u);
			check_disk(cut);
		}
	}
}

static void cut_everywhere(void)
{
	for (unsigned cut = 0; cut <= log_count; cut++) {
		unsigned from = lay_durable(cut);

		/* A longer run of writes holds the shorter ones' subsets: all of one run only at its end. */
		bool whole_run = cut == log_count || !log_entry[cut].write;
		if (cut - from <= EXHAUSTIVE)
			cut_exhaustive(from, cut);
		cut_sampled(from, cut, whole_run ? SAMPLES : 2);
		cut_torn(from, cut);
	}
	ck_assert_uint_gt(swaps, 0);
	ck_assert_uint_gt(images, 0);
}

static const struct {
	unsigned threads;
	uint32_t page_size;
	enum fake_layout layout;
} benches[] = {{0, 4096, LAYOUT_RUN}, {2, 4096, LAYOUT_SINGLES}, {2, 16384, LAYOUT_RUN}, {1, 65536, LAYOUT_SINGLES}};
enum { BENCHES = sizeof benches / sizeof benches[0] };

static void open_numbered(int i)
{
	open_bench(benches[i].threads, benches[i].page_size, benches[i].layout);
}

static bool in_header(uint64_t place)
{
	const struct header *h = &rig.header;
	struct mark m;
	bool any = mark_read(&rig.disk.disk, rig.o.area_start, rig.scratch, &m) == E_OK && m.place == place;

	for (uint32_t i = 1; i < h->pages; i++)
		any |= h->more[i - 1] == place;
	return any;
}

/* The document's order of a save: all else, sync; the fixed header, sync; the mark, sync. */
START_TEST(test_order)
{
	char order[8] = "";
	size_t n = 0;

	open_numbered(_i);
	begin_log();
	ck_assert_int_eq(rig_save(&rig), E_OK);
	end_log();
	for (unsigned i = 0; i < log_count; i++) {
		const struct fake_entry *e = &log_entry[i];
		char step = !e->write ? 's' : on_first_page(e) ? 'm' : in_header(e->offset) ? 'h' : 'd';

		if (n && order[n - 1] == step && step != 's')
			continue; /* one of many writes */
		must(n + 1 < sizeof order);
		order[n++] = step;
	}
	ck_assert_str_eq(order, "dshsms");
	close_bench();
}
END_TEST

START_TEST(test_save)
{
	open_numbered(_i);
	leave_an_old_image();
	begin_log();
	ck_assert_int_eq(rig_save(&rig), E_OK);
	end_log();
	cut_everywhere();
	/* All of it is the image. */
	lay_durable(log_count);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	close_bench();
}
END_TEST

/* A load counts its attempts, writes its time, and what was restored clears the mark. */
START_TEST(test_load_and_clear)
{
	open_numbered(_i);
	leave_an_old_image();
	ck_assert_int_eq(rig_save(&rig), E_OK);
	ck_assert_int_eq(rig_load(&rig), E_OK);
	begin_log();
	for (uint32_t attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
		rig.image.state.attempts = attempt;
		ck_assert_int_eq(image_write_state(&rig.image), E_OK);
		rig.image.state.load_ns = 1000 * attempt;
		ck_assert_int_eq(image_write_state(&rig.image), E_OK);
	}
	ck_assert_int_eq(mark_clear(&rig.disk.disk, rig.o.area_start, rig.scratch, rig.header.image_id, false), E_OK);
	end_log();
	cut_everywhere();
	lay_durable(log_count);
	ck_assert_int_eq(rig_kind(&rig), MARK_SWAP);
	close_bench();
}
END_TEST

/* One image is given up and the next one saved: a disk of any moment is the new one's or plain swap. */
START_TEST(test_mark_taken_back)
{
	open_numbered(_i);
	leave_an_old_image();
	begin_log();
	ck_assert_int_eq(rig_save_run(&rig), E_OK);
	/* The mark's sync fails, so that the old sector is written again. */
	fake_disk_fail(&rig.disk, (struct fake_fault){.op = FAKE_SYNC, .nth = 1, .times = 1, .error = 5});
	ck_assert_int_eq(rig_mark(&rig), E_IO);
	memset(rig.disk.fault, 0, sizeof rig.disk.fault);
	end_log();
	/* A sync that failed made nothing durable. */
	unsigned n = 0;
	for (unsigned i = 0; i < log_count; i++)
		if (!log_entry[i].failed)
			log_entry[n++] = log_entry[i];
	ck_assert_uint_eq(log_count - n, 1);
	log_count = n;
	cut_everywhere();
	lay_durable(log_count);
	ck_assert_int_eq(rig_kind(&rig), MARK_SWAP);
	close_bench();
}
END_TEST

/* The fake forgets nothing: a save whose header is not synced before its mark must be found out. */
START_TEST(test_this_test)
{
	unsigned broken = 0;

	open_numbered(0);
	begin_log();
	ck_assert_int_eq(rig_save(&rig), E_OK);
	end_log();
	/* All syncs but the last are left out, then any one write is lost. */
	for (unsigned lost = 0; lost < log_count; lost++) {
		if (!log_entry[lost].write || on_first_page(&log_entry[lost]))
			continue;
		memcpy(rig.disk.bytes, initial, rig.disk.disk.size);
		for (unsigned i = 0; i < log_count; i++)
			if (log_entry[i].write && i != lost)
				replay(&log_entry[i]);
		broken += rig_kind(&rig) == MARK_OURS && rig_load(&rig) != E_OK;
	}
	ck_assert_uint_ge(broken, 4);
	close_bench();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("check_crash");
	TCase *t = tcase_create("crash");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, test_this_test);
	tcase_add_loop_test(t, test_order, 0, BENCHES);
	tcase_add_loop_test(t, test_save, 0, BENCHES);
	tcase_add_loop_test(t, test_load_and_clear, 0, BENCHES);
	tcase_add_loop_test(t, test_mark_taken_back, 0, BENCHES);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
