/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sequence of a save and of a restore against doc/image-format.md, "Outcomes". */
#include "fakes.h"

#include "base/error.h"
#include "system/hibernate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 96, SMALLEST = 16, AREA = 200, DEVICE = 0x801, OLD_SIZE = 1 << 30, EVENTS = 16 };

static struct rig rig;
static struct fake_kernel kernel;
static struct hibernate h;
static struct fingerprint fingerprints[FINGERPRINTS_MAX];
static const struct bytes key = {"a key file's bytes", 18};
static struct recipient to;
static bool sealed; /* for that key */

/* What happened. */
static bool off;	 /* the machine went off or was restored away, by: */
static int off_by, code; /* code: what hibernate() returned */
static enum hibernate_event events[EVENTS];
static unsigned event_count, ids, fingerprint_calls, ticks, abort_at, give_ups;
static int fingerprint_code;
static const char *wrong; /* a thaw while a signature could stand */

static int take_fingerprints(void *ctx, struct fingerprint *out, uint32_t *n)
{
	(void)ctx;
	fingerprint_calls++;
	if (!kernel.image)
		wrong = "fingerprints before the image";
	out[0] = (struct fingerprint){.type = "ext4", .hash = 7, .name = "sda1"};
	*n = 1;
	return fingerprint_code;
}

static int asked(void *ctx, const struct save_progress *p)
{
	(void)ctx;
	(void)p;
	return ++ticks == abort_at ? E_ABORTED : E_OK;
}

static void happened(void *ctx, enum hibernate_event e, uint64_t a, uint64_t b)
{
	(void)ctx;
	(void)a;
	(void)b;
	if (event_count < EVENTS)
		events[event_count++] = e;
}

static void draw(void *ctx, id128 *out)
{
	(void)ctx;
	memset(out, 0x40, sizeof *out);
	out->b[0] = (uint8_t)++ids;
}

static uint64_t the_time(void *ctx)
{
	(void)ctx;
	return 1700000001;
}

static unsigned events_of(enum hibernate_event e)
{
	unsigned n = 0;

	for (unsigned i = 0; i < event_count; i++)
		n += events[i] == e;
	return n;
}

/* ---- what may stand on the disk ---- */

static uint8_t *before; /* the first page at the start */

static bool signed_page(const uint8_t *page)
{
	return !memcmp(page + 4096 - 10, "ULSUSPEND", 9);
}

/*
 * Whether the signature may be on the disk when power goes now: what a sync
 * that worked has not covered is there or not.
 */
static bool may_be_marked(void)
{
	bool now = signed_page(before), may = now;

	for (unsigned i = 0; i < rig.disk.log_count; i++) {
		const struct fake_entry *e = &rig.disk.log[i];

		if (e->write && e->offset == 0 && e->moved == e->length) {
			now = signed_page(e->bytes);
			may = may || now;
		} else if (!e->write && !e->failed) {
			may = now;
		}
	}
	return may;
}

/* Before every call: rule 1 of the outcomes. */
static void watch(void *ctx, int call)
{
	(void)ctx;
	if (call == KERNEL_UNFREEZE && kernel.frozen && !kernel.image && may_be_marked())
		wrong = "thawed while the signature may stand";
}

/* ---- one run ---- */

static void open_bench(unsigned threads)
{
	if (sealed)
		ck_assert_int_eq(recipient_from_key_bytes(&to, 0, key), E_OK);
	rig_open(&rig, &(struct rig_options){.to = sealed ? &to : NULL,
					     .key = key,
					     .pages = PAGES,
					     .area_pages = AREA,
					     .content = CONTENT_RANDOM,
					     .block_size = 16384,
					     .threads = threads,
					     .load_threads = threads,
					     .codec = codec_default(),
					     .level = codec_default()->level_default,
					     .async = threads});
	rig.disk.keep = true;
	before = fake_memory(4096);
	fake_kernel_open(&kernel, 4096, &rig.swap);
}

static void close_bench(void)
{
	fake_kernel_close(&kernel);
	rig_close(&rig);
	free(before);
	sealed = false;
}

/* A machine as it was before; @keep_disk: the disk as it is. */
static void reset(enum shutdown_method shutdown, bool keep_disk)
{
	if (!keep_disk) {
		memset(rig.disk.bytes, 0, rig.disk.disk.size);
		memcpy(rig.disk.bytes, rig.original, 4096);
	}
	memcpy(before, rig.disk.bytes, 4096);
	fake_disk_forget(&rig.disk);
	rig.swap.given = 0;
	rig.swap.count = AREA - 1;
	fake_kernel_close(&kernel);
	fake_kernel_open(&kernel, 4096, &rig.swap);
	kernel.content = rig.o.content;
	kernel.seed = rig.o.seed;
	kernel.most = PAGES;
	kernel.least = SMALLEST;
	kernel.pref_size = OLD_SIZE;
	kernel.watch = watch;
	off = false;
	code = -1;
	event_count = ids = fingerprint_calls = ticks = abort_at = give_ups = 0;
	fingerprint_code = E_OK;
	wrong = NULL;
	h = (struct hibernate){
		.kernel = &kernel.kernel,
		.disk = &rig.disk.disk,
		.save = rig.save,
		.seal = sealed ? &rig.seal : NULL,
		.image = &rig.image,
		.device = DEVICE,
		.scratch = rig.scratch,
		.header = {.page_size = 4096, .shutdown = shutdown, .release = "6.1", .machine = "x86_64"},
		.set_size = true,
		.image_size = PAGES * 4096,
		.old_image_size = OLD_SIZE,
		.fingerprints = take_fingerprints,
		.fingerprint = fingerprints,
		.tick = asked,
		.event = happened,
		.random = draw,
		.now = the_time,
	};
	h.header.swap_uuid = rig.header.swap_uuid;
	fault_clear();
}

static void run(void)
{
	int by = setjmp(kernel.off);

	if (by) {
		off = true;
		off_by = by - 1;
	} else {
		kernel.armed = true;
		code = hibernate(&h);
	}
	kernel.armed = false;
	must(!wrong);
	must(!kernel.broken);
	must(!kernel.raced && !rig.disk.raced);
	must((rig.disk.disk.stuck || !rig.disk.pending_count) && !rig.disk.early_syncs);
}

/* Everything was given back and tasks run. */
static bool given_back(void)
{
	return !off && !kernel.frozen && !kernel.image && !kernel.swap_pages && kernel.pref_size == OLD_SIZE;
}

static bool untouched(void)
{
	return !memcmp(rig.disk.bytes, rig.original, 4096);
}

static bool plain_swap(void)
{
	memset(rig.disk.fault, 0, sizeof rig.disk.fault);
	return rig_kind(&rig) == MARK_SWAP && !may_be_marked();
}

/* The area holds the whole image of @pages pages. */
static bool image_stands(uint64_t pages)
{
	rig.disk.async = rig.disk.async ? 1 : 0;
	memset(rig.disk.fault, 0, sizeof rig.disk.fault);
	if (rig_load(&rig) != E_OK)
		return false;
	return rig.sink.at == pages && !rig.sink.wrong && !rig.image.state.attempts && !rig.image.state.flags;
}

static void refuse(int call, unsigned nth, unsigned times, int error)
{
	fake_kernel_refuse(&kernel, (struct fake_refusal){.call = call, .nth = nth, .times = times, .error = error});
}

static void fail_disk(enum fake_op op, unsigned nth, unsigned times, uint32_t moved, bool first_page)
{
	fake_disk_fail(&rig.disk, (struct fake_fault){.op = op,
						      .nth = nth,
						      .times = times,
						      .error = EIO,
						      .moved = moved,
						      .to = first_page ? 4096 : 0});
}

/* A run that has to end with @expected, all given back and the area as before. */
static void refused_run(int expected)
{
	run();
	ck_assert_msg(!off && code == expected, "off %d, code %d instead of %d: %s", off, code, expected, fault_text());
	ck_assert(given_back());
	ck_assert(untouched());
}

/* ---- the good case ---- */

static unsigned at_of(int call, unsigned nth)
{
	int i = fake_kernel_find(&kernel, call, nth);

	ck_assert_msg(i >= 0, "%s was not called %u times", fake_call_name(call), nth);
	return kernel.log[i].at;
}

static unsigned last_at(int call)
{
	return at_of(call, kernel.count[call]);
}

/* Data, sync, header, sync, mark, sync, in this order before @end and behind @start. */
static void check_disk_order(unsigned start, unsigned end)
{
	unsigned syncs = 0;

	for (unsigned i = 0; i < rig.disk.log_count; i++) {
		const struct fake_entry *e = &rig.disk.log[i];

		ck_assert(e->at > start && e->at < end);
		if (!e->write)
			syncs++;
		else if (e->offset == save_header_place(rig.save))
			ck_assert_uint_eq(syncs, 1);
		else
			ck_assert_uint_eq(syncs, e->offset ? 0 : 2);
	}
	ck_assert_uint_eq(syncs, 3);
	ck_assert(!rig.disk.log[rig.disk.log_count - 1].write);
}

START_TEST(test_order)
{
	static const unsigned threads[] = {0, 2};

	open_bench(threads[_i]);
	reset(SHUTDOWN_PLATFORM, false);
	kernel.read_at_most = 3;
	kernel.interrupted = true;
	run();
	ck_assert(off);
	ck_assert_int_eq(off_by, KERNEL_POWER_OFF);
	unsigned freeze = at_of(KERNEL_FREEZE, 1), create = at_of(KERNEL_CREATE_IMAGE, 1);
	ck_assert_uint_lt(at_of(KERNEL_SET_SWAP_AREA, 1), freeze);
	ck_assert_uint_lt(at_of(KERNEL_PREF_SIZE, 1), freeze);
	ck_assert_uint_lt(at_of(KERNEL_PLATFORM, 1), freeze);
	ck_assert_uint_lt(freeze, create);
	ck_assert_uint_lt(create, at_of(KERNEL_IMAGE_SIZE, 1));
	ck_assert_uint_lt(create, at_of(KERNEL_ALLOC_PAGE, 1));
	ck_assert_uint_lt(create, at_of(FAKE_READV, 1));
	ck_assert_uint_lt(last_at(FAKE_READV), at_of(KERNEL_POWER_OFF, 1));
	check_disk_order(create, at_of(KERNEL_POWER_OFF, 1));
	ck_assert_uint_eq(kernel.log[fake_kernel_find(&kernel, KERNEL_SET_SWAP_AREA, 1)].in, DEVICE);
	ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
	ck_assert_uint_eq(kernel.count[KERNEL_FREE_IMAGE], 0);
	ck_assert_uint_eq(fingerprint_calls, 1);
	ck_assert_uint_ge(ticks, 1);
	ck_assert(image_stands(PAGES));
	ck_assert_uint_eq(rig.image.header.fingerprint_count, 1);
	ck_assert_uint_eq(rig.image.fingerprint[0].hash, 7);
	ck_assert_uint_eq(rig.image.header.created, 1700000001);
	ck_assert_uint_eq(h.largest, PAGES * 4096);
	ck_assert_uint_eq(events_of(EVENT_MARKED), 1);
	close_bench();
}
END_TEST

START_TEST(test_measure)
{
	/* To the area's own pages, then to some that are nobody's: no mark either way, and everything is given back. */
	open_bench((unsigned)_i);
	for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
		reset(SHUTDOWN_POWEROFF, false);
		h.measure = true;
		if (elsewhere) {
			h.device = 0;
			h.swap = &rig.swap.pages;
		}
		refused_run(E_OK);
		ck_assert(!h.restored);
		ck_assert_uint_eq(kernel.count[KERNEL_SET_SWAP_AREA], !elsewhere);
		ck_assert_uint_eq(kernel.count[KERNEL_ALLOC_PAGE] > 0, !elsewhere);
		ck_assert_uint_eq(kernel.thaws, 1);
		ck_assert_uint_eq(events_of(EVENT_MARKED), 0);
		ck_assert_uint_eq(events_of(EVENT_SAVED), 1);
		ck_assert_uint_eq(save_trailer(h.save)->raw_bytes, PAGES * 4096);
		ck_assert(plain_swap());
	}
	reset(SHUTDOWN_POWEROFF, false);
	h.measure = true;
	refuse(FAKE_READV, 2, 1, EIO);
	refused_run(E_SNAPSHOT);
	close_bench();
}
END_TEST

START_TEST(test_ways_to_switch_off)
{
	open_bench(0);
	reset(SHUTDOWN_POWEROFF, false);
	run();
	ck_assert(off && off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_POWEROFF);
	ck_assert_uint_eq(kernel.count[KERNEL_PLATFORM], 0);
	ck_assert_uint_eq(kernel.count[KERNEL_POWER_OFF], 0);
	ck_assert(image_stands(PAGES));
	reset(SHUTDOWN_REBOOT, false);
	run();
	ck_assert(off && off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_REBOOT);
	ck_assert_uint_eq(kernel.count[KERNEL_PLATFORM], 0);
	ck_assert(image_stands(PAGES));
	close_bench();
}
END_TEST

START_TEST(test_size_is_left_alone)
{
	open_bench(0);
	reset(SHUTDOWN_POWEROFF, false);
	h.set_size = false;
	run();
	ck_assert(off);
	ck_assert_uint_eq(kernel.count[KERNEL_PREF_SIZE], 0);
	reset(SHUTDOWN_POWEROFF, false);
	h.image_size = 40 * 4096;
	run();
	ck_assert(off);
	ck_assert(image_stands(40));
	close_bench();
}
END_TEST

/* ---- s2disk's outcomes, row by row ---- */

START_TEST(test_refused_before_freeze)
{
	static const struct {
		int call, error, code;
	} rows[] = {{KERNEL_SET_SWAP_AREA, ENODEV, E_DEVICE},
		    {KERNEL_SET_SWAP_AREA, EINVAL, E_KERNEL},
		    {KERNEL_PREF_SIZE, EINVAL, E_KERNEL},
		    {KERNEL_PLATFORM, EINVAL, E_KERNEL}};

	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	refuse(rows[_i].call, 1, 1, rows[_i].error);
	refused_run(rows[_i].code);
	ck_assert_uint_eq(kernel.count[KERNEL_FREEZE], 0);
	ck_assert_uint_eq(rig.disk.count[FAKE_ANY], 0);
	close_bench();
}
END_TEST

START_TEST(test_task_will_not_freeze)
{
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_FREEZE, 1, 1, EBUSY);
	refused_run(E_FREEZE);
	ck_assert_uint_eq(kernel.count[KERNEL_CREATE_IMAGE], 0);
	close_bench();
}
END_TEST

START_TEST(test_no_image)
{
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_CREATE_IMAGE, 1, 1, EIO);
	refused_run(E_SNAPSHOT);
	ck_assert_uint_eq(kernel.count[KERNEL_CREATE_IMAGE], 1);
	reset(SHUTDOWN_PLATFORM, false);
	kernel.memory = 1; /* not even for the smallest */
	refused_run(E_MEMORY);
	ck_assert_uint_ge(kernel.count[KERNEL_CREATE_IMAGE], 2);
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_IMAGE_SIZE, 1, 1, ENODATA);
	refused_run(E_SNAPSHOT);
	reset(SHUTDOWN_PLATFORM, false);
	fingerprint_code = E_INTERNAL;
	refused_run(E_INTERNAL);
	close_bench();
}
END_TEST

/* ENOMEM: each try asks for less, the last for nothing. */
START_TEST(test_smaller_images)
{
	uint64_t last = UINT64_MAX;

	open_bench(0);
	reset(SHUTDOWN_POWEROFF, false);
	h.image_size = 500ull << 20;
	kernel.memory = SMALLEST;
	run();
	ck_assert(off);
	for (unsigned n = 1; n <= kernel.count[KERNEL_PREF_SIZE]; n++) {
		uint64_t size = kernel.log[fake_kernel_find(&kernel, KERNEL_PREF_SIZE, n)].in;

		ck_assert_uint_lt(size, last);
		last = size;
	}
	ck_assert_uint_eq(last, 0);
	ck_assert_uint_ge(kernel.count[KERNEL_PREF_SIZE], 4);
	ck_assert_uint_eq(events_of(EVENT_SMALLER), kernel.count[KERNEL_PREF_SIZE] - 1);
	ck_assert(image_stands(SMALLEST));
	/* The id is that of the image that was made. */
	ck_assert_uint_eq(rig.image.header.image_id.b[0], kernel.count[KERNEL_CREATE_IMAGE]);
	close_bench();
}
END_TEST

START_TEST(test_area_too_small)
{
	open_bench((unsigned)_i);
	reset(SHUTDOWN_PLATFORM, false);
	rig.swap.count = 40; /* for the smallest image alone */
	run();
	ck_assert(off);
	ck_assert_uint_eq(events_of(EVENT_SMALLEST), 1);
	ck_assert_uint_eq(kernel.count[KERNEL_CREATE_IMAGE], 2);
	unsigned freed = at_of(KERNEL_FREE_IMAGE, 1);
	ck_assert_uint_lt(freed, at_of(KERNEL_CREATE_IMAGE, 2));
	ck_assert_uint_lt(at_of(KERNEL_FREE_SWAP_PAGES, 1), at_of(KERNEL_CREATE_IMAGE, 2));
	ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
	ck_assert(image_stands(SMALLEST));
	ck_assert_uint_eq(h.largest, PAGES * 4096);
	for (unsigned count = 0; count < 12; count++) {
		reset(SHUTDOWN_PLATFORM, false);
		rig.swap.count = count;
		refused_run(E_NOSPACE);
		ck_assert_uint_eq(kernel.count[KERNEL_CREATE_IMAGE], 2);
	}
	/* The smallest is not tried again when it was asked for at once. */
	reset(SHUTDOWN_PLATFORM, false);
	h.image_size = 0;
	rig.swap.count = 10;
	refused_run(E_NOSPACE);
	ck_assert_uint_eq(kernel.count[KERNEL_CREATE_IMAGE], 1);
	close_bench();
}
END_TEST

START_TEST(test_aborted)
{
	open_bench((unsigned)_i);
	reset(SHUTDOWN_PLATFORM, false);
	abort_at = 1;
	refused_run(E_ABORTED);
	ck_assert_uint_eq(events_of(EVENT_MARKED), 0);
	close_bench();
}
END_TEST

/* The mark's write or sync fails, with the bytes written in spite of it or not. */
START_TEST(test_mark_fails)
{
	for (uint32_t moved = 0; moved <= 4096; moved += 4096) {
		open_bench(0);
		reset(SHUTDOWN_PLATFORM, false);
		fail_disk(FAKE_WRITE, 1, 1, moved, true);
		refused_run(E_IO);
		ck_assert(plain_swap());
		close_bench();
	}
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	fail_disk(FAKE_SYNC, 3, 1, 0, false);
	refused_run(E_IO);
	ck_assert(plain_swap());
	/* Writing the old sector fails as well, then the clearing works. */
	for (unsigned times = 2; times < 4; times++) {
		reset(SHUTDOWN_PLATFORM, false);
		fail_disk(FAKE_WRITE, 1, times, 4096, true);
		run();
		ck_assert(!off && code == E_IO);
		ck_assert(given_back() && plain_swap());
		reset(SHUTDOWN_PLATFORM, false);
		fail_disk(FAKE_SYNC, 3, times, 0, false);
		run();
		ck_assert(!off && code == E_IO);
		ck_assert(given_back() && plain_swap());
	}
	/* Nothing works any more: off, whatever stands there. */
	for (int op = FAKE_WRITE; op <= FAKE_SYNC; op++) {
		reset(SHUTDOWN_PLATFORM, false);
		fail_disk((enum fake_op)op, op == FAKE_SYNC ? 3 : 1, 1, 4096, op == FAKE_WRITE);
		fail_disk((enum fake_op)op, op == FAKE_SYNC ? 4 : 2, FAKE_FOR_GOOD, 0, op == FAKE_WRITE);
		run();
		ck_assert(off && off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_POWEROFF);
		ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
	}
	close_bench();
}
END_TEST

/* The first page is no plain swap header any more: nothing is written on it. */
START_TEST(test_area_is_gone)
{
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	memcpy(rig.disk.bytes + 4086, "S1SUSPEND", 10);
	run();
	ck_assert(!off && code == E_FOREIGN);
	ck_assert(given_back());
	ck_assert_str_eq((char *)rig.disk.bytes + 4086, "S1SUSPEND");
	close_bench();
}
END_TEST

START_TEST(test_woken)
{
	open_bench(0);
	for (int i = 0; i < 2; i++) {
		reset(SHUTDOWN_PLATFORM, false);
		refuse(KERNEL_POWER_OFF, 1, 1, i ? EBUSY : EAGAIN);
		run();
		ck_assert(!off && code == E_POWER);
		ck_assert(given_back() && plain_swap());
		ck_assert_uint_eq(events_of(EVENT_WOKEN), 1);
		ck_assert_uint_eq(kernel.count[KERNEL_REBOOT], 0);
	}
	/* Cleared at the third try. */
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_POWER_OFF, 1, 1, EBUSY);
	fail_disk(FAKE_SYNC, 4, 2, 0, false);
	run();
	ck_assert(!off && code == E_POWER);
	ck_assert(given_back() && plain_swap());
	/* Never: then the machine goes off with its image, and frozen. */
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_POWER_OFF, 1, 1, EBUSY);
	fail_disk(FAKE_WRITE, 2, FAKE_FOR_GOOD, 0, true);
	run();
	ck_assert(off && off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_POWEROFF);
	ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
	ck_assert(image_stands(PAGES));
	close_bench();
}
END_TEST

START_TEST(test_power_off_fails)
{
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_POWER_OFF, 1, 1, EIO);
	run();
	ck_assert(off && off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_POWEROFF);
	ck_assert(image_stands(PAGES));
	/* The reboot as well, now and then. */
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_POWER_OFF, 1, 1, EIO);
	refuse(KERNEL_REBOOT, 1, 2, EPERM);
	run();
	ck_assert(off && off_by == KERNEL_REBOOT);
	close_bench();
}
END_TEST

/* For ever: frozen with the image, until a test's kernel ends the wait. */
static void stuck(enum shutdown_method shutdown)
{
	reset(shutdown, false);
	refuse(KERNEL_POWER_OFF, 1, FAKE_FOR_GOOD, EIO);
	refuse(KERNEL_REBOOT, 1, FAKE_FOR_GOOD, EPERM);
	run();
	ck_assert(!off && code == E_POWER);
	ck_assert_uint_eq(events_of(EVENT_STUCK), 1);
	ck_assert_uint_gt(kernel.hours, kernel.hours_most);
	ck_assert(kernel.frozen);
	ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
	ck_assert_uint_eq(kernel.count[KERNEL_FREE_IMAGE], 0);
	ck_assert_uint_ge(kernel.count[KERNEL_REBOOT], 2);
	ck_assert(image_stands(PAGES));
}

START_TEST(test_stuck)
{
	open_bench(0);
	stuck(SHUTDOWN_PLATFORM);
	stuck(SHUTDOWN_POWEROFF);
	stuck(SHUTDOWN_REBOOT);
	close_bench();
}
END_TEST

/* ---- the restored system ---- */

/* The disk with an image on it, and the system that comes out of it. */
static void reset_restored(void)
{
	reset(SHUTDOWN_PLATFORM, false);
	run();
	ck_assert(off);
	reset(SHUTDOWN_PLATFORM, true);
	kernel.restored = true;
}

START_TEST(test_restored)
{
	open_bench((unsigned)_i);
	reset_restored();
	run();
	ck_assert(!off && code == E_OK);
	ck_assert(h.restored && h.statistics);
	ck_assert_uint_eq(rig.image.trailer.raw_bytes, PAGES * 4096);
	ck_assert(given_back() && plain_swap());
	ck_assert_uint_eq(kernel.thaws, 1);
	unsigned cleared = 0;
	for (unsigned i = 0; i < rig.disk.log_count; i++) {
		ck_assert(!rig.disk.log[i].write || !rig.disk.log[i].offset);
		cleared = rig.disk.log[i].at;
	}
	ck_assert_uint_lt(cleared, at_of(KERNEL_FREE_IMAGE, 1));
	ck_assert_uint_lt(at_of(KERNEL_FREE_IMAGE, 1), at_of(KERNEL_UNFREEZE, 1));
	ck_assert_uint_lt(at_of(KERNEL_FREE_SWAP_PAGES, 1), at_of(KERNEL_UNFREEZE, 1));
	ck_assert_uint_lt(last_at(KERNEL_PREF_SIZE), at_of(KERNEL_UNFREEZE, 1));
	close_bench();
}
END_TEST

/* The statistics are no reason to keep a signature or a machine frozen. */
START_TEST(test_restored_without_statistics)
{
	open_bench(0);
	reset_restored();
	memset(rig.disk.bytes + save_header_place(rig.save), 0, 4096);
	run();
	ck_assert(!off && code == E_OK && h.restored && !h.statistics);
	ck_assert(given_back() && plain_swap());
	ck_assert_str_eq(fault_text(), "");
	close_bench();
}
END_TEST

START_TEST(test_restored_and_clearing_fails)
{
	open_bench(0);
	for (int op = FAKE_READ; op <= FAKE_SYNC; op++) {
		for (unsigned times = 1; times < 3; times++) {
			reset_restored();
			fail_disk((enum fake_op)op, op == FAKE_READ ? 2 : 1, times, 0, op != FAKE_SYNC);
			run();
			ck_assert(!off && code == E_OK);
			ck_assert(given_back() && plain_swap());
		}
		reset_restored();
		fail_disk((enum fake_op)op, 1, FAKE_FOR_GOOD, 0, op != FAKE_SYNC);
		run();
		ck_assert(off && off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_POWEROFF);
		ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
		ck_assert_uint_ge(kernel.count[KERNEL_PAUSE], 2);
		if (op != FAKE_SYNC)
			ck_assert(image_stands(PAGES));
	}
	close_bench();
}
END_TEST

/* Another image than the one this system came from is not cleared, and the machine does not go on. */
START_TEST(test_restored_over_another_image)
{
	open_bench(0);
	reset_restored();
	ids = 77;
	run();
	ck_assert(off && off_by == KERNEL_REBOOT);
	ck_assert_uint_eq(rig.disk.written_bytes, 0);
	ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
	close_bench();
}
END_TEST

/* ---- suspend to RAM with the image on the disk ---- */

static void reset_to_ram(void)
{
	reset(SHUTDOWN_PLATFORM, false);
	h.to_ram = true;
}

START_TEST(test_to_ram_and_woken)
{
	open_bench((unsigned)_i);
	reset_to_ram();
	run();
	ck_assert(!off && code == E_OK);
	ck_assert(h.awake && !h.restored);
	ck_assert(given_back() && plain_swap());
	ck_assert_uint_eq(kernel.thaws, 1);
	ck_assert_uint_eq(kernel.count[KERNEL_S2RAM], 1);
	ck_assert_uint_eq(kernel.count[KERNEL_POWER_OFF] + kernel.count[KERNEL_REBOOT], 0);
	ck_assert_uint_eq(events_of(EVENT_MARKED), 1);
	ck_assert_uint_eq(events_of(EVENT_AWAKE), 1);
	/* The mark was on the disk before, and is off it before the first task runs. */
	unsigned asleep = at_of(KERNEL_S2RAM, 1), cleared = 0;
	for (unsigned i = 0; i < rig.disk.log_count; i++)
		if (rig.disk.log[i].write && rig.disk.log[i].offset == 0)
			cleared = rig.disk.log[i].at;
	ck_assert_uint_gt(cleared, asleep);
	ck_assert_uint_lt(cleared, at_of(KERNEL_UNFREEZE, 1));
	ck_assert_uint_lt(at_of(KERNEL_FREE_IMAGE, 1), at_of(KERNEL_UNFREEZE, 1));
	close_bench();
}
END_TEST

START_TEST(test_to_ram_and_power_lost)
{
	open_bench(0);
	reset_to_ram();
	kernel.power_lost = true;
	run();
	ck_assert(off && off_by == KERNEL_S2RAM);
	ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
	ck_assert(image_stands(PAGES));
	/* The next boot's restored system. */
	reset(SHUTDOWN_PLATFORM, true);
	h.to_ram = true;
	kernel.restored = true;
	run();
	ck_assert(!off && code == E_OK && h.restored && !h.awake);
	ck_assert_uint_eq(kernel.count[KERNEL_S2RAM], 0);
	ck_assert(given_back() && plain_swap());
	close_bench();
}
END_TEST

START_TEST(test_to_ram_fails)
{
	static const int errors[] = {EBUSY, ENOSYS, EPERM, EAGAIN};

	open_bench(0);
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
		reset_to_ram();
		refuse(KERNEL_S2RAM, 1, 1, errors[i]);
		run();
		ck_assert(off && off_by == KERNEL_POWER_OFF);
		ck_assert_uint_eq(events_of(EVENT_RAM_FAIL), 1);
		ck_assert(!h.awake);
		ck_assert(image_stands(PAGES));
	}
	/* And the power-off is refused by the event that stopped the suspend. */
	reset_to_ram();
	refuse(KERNEL_S2RAM, 1, 1, EBUSY);
	refuse(KERNEL_POWER_OFF, 1, 1, EBUSY);
	run();
	ck_assert(!off && code == E_POWER);
	ck_assert(given_back() && plain_swap());
	close_bench();
}
END_TEST

START_TEST(test_woken_and_clearing_fails)
{
	open_bench(0);
	for (int op = FAKE_WRITE; op <= FAKE_SYNC; op++) {
		/* Setting the mark is the first write of the page and the third sync. */
		unsigned nth = op == FAKE_SYNC ? 4 : 2;

		for (unsigned times = 1; times < 3; times++) {
			reset_to_ram();
			fail_disk((enum fake_op)op, nth, times, 0, op == FAKE_WRITE);
			run();
			ck_assert(!off && code == E_OK);
			ck_assert(given_back() && plain_swap());
		}
		reset_to_ram();
		fail_disk((enum fake_op)op, nth, FAKE_FOR_GOOD, 0, op == FAKE_WRITE);
		run();
		ck_assert(off && off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_POWEROFF);
		ck_assert_uint_eq(kernel.count[KERNEL_UNFREEZE], 0);
		ck_assert_uint_ge(kernel.count[KERNEL_PAUSE], 2);
		if (op == FAKE_WRITE)
			ck_assert(image_stands(PAGES));
	}
	close_bench();
}
END_TEST

START_TEST(test_to_ram_stopped_before)
{
	open_bench(0);
	reset_to_ram();
	abort_at = 1;
	refused_run(E_ABORTED);
	ck_assert_uint_eq(kernel.count[KERNEL_S2RAM], 0);
	reset_to_ram();
	fail_disk(FAKE_SYNC, 3, 1, 0, false);
	refused_run(E_IO);
	ck_assert_uint_eq(kernel.count[KERNEL_S2RAM], 0);
	close_bench();
}
END_TEST

/* ---- a fault at every point ---- */

/* The calls that give back are not made twice; what one of them was refused stays until the device is closed. */
static bool given_back_but(int call)
{
	bool image = call == KERNEL_FREE_IMAGE;

	return (!kernel.frozen || image || call == KERNEL_UNFREEZE) && (!kernel.image || image) &&
	       (!kernel.swap_pages || call == KERNEL_FREE_SWAP_PAGES) &&
	       (kernel.pref_size == OLD_SIZE || call == KERNEL_PREF_SIZE);
}

static int code_of_call(int call)
{
	switch (call) {
	case KERNEL_SET_SWAP_AREA:
	case KERNEL_PREF_SIZE:
	case KERNEL_PLATFORM:
		return E_KERNEL;
	case KERNEL_FREEZE:
		return E_FREEZE;
	}
	return E_SNAPSHOT;
}

static bool gives_back(int call)
{
	return call == KERNEL_FREE_IMAGE || call == KERNEL_FREE_SWAP_PAGES || call == KERNEL_PREF_SIZE ||
	       call == KERNEL_UNFREEZE;
}

/* Each call fails once, and from there on always. */
static bool call_fails(unsigned nth, unsigned times, bool restored)
{
	if (restored)
		reset_restored();
	else
		reset(SHUTDOWN_PLATFORM, false);
	refuse(FAKE_EVERY, nth, times, EIO);
	run();
	if (kernel.refusal[0].seen < nth)
		return false;
	int call = kernel.log[nth - 1].call;
	/* How much swap there is only helps to choose a codec. */
	bool harmless = times == 1 && call == KERNEL_AVAIL_SWAP;
	if (off) {
		must((call == KERNEL_POWER_OFF || harmless) && image_stands(PAGES));
	} else if (call == KERNEL_POWER_OFF) {
		must(times > 1 && code == E_POWER && kernel.frozen && image_stands(PAGES));
	} else if (restored) {
		must(gives_back(call) && code == E_OK && plain_swap());
	} else {
		if (code != code_of_call(call))
			ck_abort_msg("%s fails: code %d", fake_call_name(call), code);
		must(untouched());
	}
	if (!off && call != KERNEL_POWER_OFF && times == 1)
		must(given_back_but(restored ? call : -1));
	return true;
}

START_TEST(test_every_call_fails)
{
	static const unsigned threads[] = {0, 2};
	unsigned nth = 1;

	open_bench(threads[_i % 2]);
	while (call_fails(nth, 1, false) && call_fails(nth, FAKE_FOR_GOOD, false))
		nth++;
	ck_assert_uint_gt(nth, AREA);
	/* The five calls up to CREATE_IMAGE belong to the system that was saved. */
	for (nth = 6; call_fails(nth, 1, true) && call_fails(nth, FAKE_FOR_GOOD, true);)
		nth++;
	ck_assert_uint_eq(nth, 6 + 4);
	close_bench();
}
END_TEST

/* In a save that has no room at first, so that giving back and a second image are in it too. */
START_TEST(test_every_call_fails_when_tight)
{
	bool met = true;

	open_bench(0);
	for (unsigned nth = 1; met; nth++) {
		reset(SHUTDOWN_PLATFORM, false);
		rig.swap.count = 40;
		refuse(FAKE_EVERY, nth, 1, EIO);
		run();
		met = kernel.refusal[0].seen >= nth;
		must(off ? image_stands(SMALLEST) : untouched());
		must(off || given_back_but(kernel.log[nth - 1].call));
	}
	close_bench();
}
END_TEST

/* The nth disk operation fails @times times while saving. */
static bool disk_fails(unsigned nth, unsigned times, uint32_t moved, bool woken)
{
	reset(SHUTDOWN_PLATFORM, false);
	if (woken)
		refuse(KERNEL_POWER_OFF, 1, 1, EBUSY);
	fail_disk(FAKE_ANY, nth, times, moved, false);
	run();
	bool met = rig.disk.fault[0].seen >= nth, marked = events_of(EVENT_MARKED);
	if (!met) {
		must(woken ? code == E_POWER && given_back() : off);
		return false;
	}
	if (!off) {
		must(code == (marked ? E_POWER : E_IO));
		must(given_back() && plain_swap());
	} else {
		must(off_by == KERNEL_REBOOT && kernel.off_in == SHUTDOWN_POWEROFF);
		must(!kernel.count[KERNEL_UNFREEZE] && kernel.frozen);
		must(times > 2);
	}
	return true;
}

/* Each call of a save that ends in RAM fails once, and each disk operation. */
START_TEST(test_every_step_to_ram_fails)
{
	bool met = true;

	open_bench(0);
	for (unsigned nth = 1; met; nth++) {
		reset_to_ram();
		if (_i)
			fail_disk(FAKE_ANY, nth, 1, _i == 2 ? 4096 : 0, false);
		else
			refuse(FAKE_EVERY, nth, 1, EIO);
		run();
		met = (_i ? rig.disk.fault[0].seen : kernel.refusal[0].seen) >= nth;
		if (off) {
			must(!_i && off_by == KERNEL_POWER_OFF && kernel.log[nth - 1].call == KERNEL_S2RAM);
			must(!kernel.count[KERNEL_UNFREEZE] && image_stands(PAGES));
		} else {
			must((code == E_OK) == h.awake);
			must(plain_swap());
			must(given_back_but(_i || !met ? -1 : kernel.log[nth - 1].call));
		}
	}
	close_bench();
}
END_TEST

START_TEST(test_every_disk_operation_fails)
{
	static const unsigned times[] = {1, 2, 3, 4, 5, FAKE_FOR_GOOD};
	enum { TIMES = sizeof times / sizeof times[0] };
	unsigned nth = 1;

	open_bench(_i & 1 ? 2 : 0);
	while (disk_fails(nth, times[_i / 2 % TIMES], _i / 2 / TIMES % 2 ? 4096 : 0, _i / 2 / TIMES / 2))
		nth++;
	ck_assert_uint_gt(nth, 8);
	close_bench();
}
END_TEST

/* The disk answers so many operations and then none; false when the run is over by then. */
static bool disk_falls_silent(unsigned answers)
{
	rig.disk.answers = answers;
	run();
	if (!rig.disk.disk.stuck)
		return false;
	/* Nobody knows where its answers will end: never thawed with the mark among them, never given away. */
	must(!off || (!kernel.count[KERNEL_UNFREEZE] && kernel.frozen));
	must(off || (code == E_IO && !kernel.frozen && !kernel.image && untouched() && !may_be_marked()));
	must(!kernel.count[KERNEL_FREE_SWAP_PAGES] && kernel.swap_pages);
	return true;
}

START_TEST(test_silent_disk)
{
	unsigned answers = 1, went_off = 0;
	bool silent = true;

	open_bench((unsigned)_i);
	for (; silent; answers++) {
		reset(SHUTDOWN_PLATFORM, false);
		silent = disk_falls_silent(answers);
		went_off += silent && off;
		/* What it owes will not come: the memory is another run's. */
		rig.disk.disk.single.busy = false;
	}
	ck_assert_uint_gt(answers, 8);
	ck_assert_uint_eq(went_off, 2); /* the mark and its sync */
	close_bench();
}
END_TEST

START_TEST(test_silent_disk_restored)
{
	unsigned answers = 1;

	open_bench(0);
	for (;; answers++) {
		reset_restored();
		rig.disk.answers = answers;
		run();
		if (!rig.disk.disk.stuck)
			break;
		must(off && kernel.frozen && !kernel.count[KERNEL_UNFREEZE]);
		rig.disk.disk.single.busy = false;
	}
	ck_assert_uint_gt(answers, 3);
	close_bench();
}
END_TEST

/* The same in the restored system. */
START_TEST(test_every_disk_operation_fails_restored)
{
	static const unsigned times[] = {1, 2, 3, 5, FAKE_FOR_GOOD};
	bool met = true;

	open_bench(0);
	for (unsigned nth = 1; met; nth++) {
		reset_restored();
		fail_disk(FAKE_ANY, nth, times[_i / 2], _i % 2 ? 4096 : 0, false);
		run();
		met = rig.disk.fault[0].seen >= nth;
		if (off)
			must(!kernel.count[KERNEL_UNFREEZE] && kernel.frozen && times[_i / 2] > 2);
		else
			must(code == E_OK && given_back() && plain_swap());
	}
	close_bench();
}
END_TEST

/* ---- sealed images ---- */

/* What the contexts that wait for a key make of a message, and with a key of zeros. */
static bool has_no_key(void)
{
	static const uint8_t zeros[CRYPT_KEY];
	struct aead_with w = {.n = 0};
	uint8_t plain[32] = "plain", one[32], two[32], tag[CRYPT_TAG];
	struct aead *a;

	must(aead_open(&a, rig.seal.cipher) == E_OK && aead_key(a, zeros) == E_OK);
	must(aead_seal(a, &w, one, plain, sizeof plain, tag) == E_OK);
	aead_close(a);
	for (unsigned i = 0; i < rig.seal.contexts; i++) {
		must(aead_seal(rig.seal.context[i], &w, two, plain, sizeof plain, tag) == E_OK);
		if (memcmp(one, two, sizeof one))
			return false;
	}
	return !memcmp(rig.seal.key, zeros, sizeof zeros);
}

/* The snapshot is made in CREATE_IMAGE: no image key is anywhere then, and no half of one. */
static void watch_for_keys(void *ctx, int call)
{
	static const struct key_slot none;

	watch(ctx, call);
	if (call != KERNEL_CREATE_IMAGE && call != KERNEL_FREEZE)
		return;
	if (memcmp(&h.header.slot, &none, sizeof none) || !has_no_key())
		wrong = "a key before the image";
}

static bool key_on_disk(void)
{
	static const uint8_t zeros[4096];

	return memcmp(rig.disk.bytes + save_header_place(rig.save), zeros, 4096);
}

START_TEST(test_sealed)
{
	sealed = true;
	open_bench((unsigned)_i);
	reset(SHUTDOWN_PLATFORM, false);
	kernel.watch = watch_for_keys;
	run();
	ck_assert(off && off_by == KERNEL_POWER_OFF);
	check_disk_order(at_of(KERNEL_CREATE_IMAGE, 1), at_of(KERNEL_POWER_OFF, 1));
	ck_assert(has_no_key());
	ck_assert(image_stands(PAGES));
	ck_assert_uint_eq(rig.image.header.slot.mode, KEY_MODE_FILE);
	close_bench();
}
END_TEST

/* Mark cleared and synced, then the key, then the pages are given back. */
START_TEST(test_sealed_restored)
{
	uint64_t place;
	unsigned i = 0;

	sealed = true;
	open_bench((unsigned)_i);
	reset_restored();
	place = save_header_place(rig.save);
	run();
	ck_assert(!off && code == E_OK && h.statistics);
	ck_assert(given_back() && plain_swap());
	ck_assert(!key_on_disk());
	ck_assert_uint_eq(events_of(EVENT_KEY_LEFT), 0);
	ck_assert_uint_eq(rig.disk.log_count, 4);
	ck_assert(rig.disk.log[i].write && rig.disk.log[i++].offset == 0);
	ck_assert(!rig.disk.log[i++].write);
	ck_assert(rig.disk.log[i].write && rig.disk.log[i++].offset == place);
	ck_assert(!rig.disk.log[i].write);
	ck_assert_uint_lt(rig.disk.log[i].at, at_of(KERNEL_FREE_IMAGE, 1));
	ck_assert_uint_lt(rig.disk.log[i].at, at_of(KERNEL_FREE_SWAP_PAGES, 1));
	close_bench();
}
END_TEST

/* The key cannot be overwritten, or nobody knows where it is: that is said, and the machine goes on. */
START_TEST(test_sealed_key_is_left)
{
	sealed = true;
	open_bench(0);
	reset_restored();
	fail_disk(FAKE_WRITE, 2, 1, 0, false);
	run();
	ck_assert(!off && code == E_OK);
	ck_assert(given_back() && plain_swap());
	ck_assert_uint_eq(events_of(EVENT_KEY_LEFT), 1);
	reset_restored();
	rig.disk.bytes[save_header_place(rig.save) + 100] ^= 1;
	run();
	ck_assert(!off && code == E_OK);
	ck_assert(given_back() && plain_swap());
	ck_assert_uint_eq(events_of(EVENT_KEY_LEFT), 1);
	close_bench();
}
END_TEST

/* A save that does not end in an image leaves no key behind it either. */
START_TEST(test_sealed_and_given_up)
{
	sealed = true;
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_POWER_OFF, 1, 1, EBUSY);
	run();
	ck_assert(!off && code == E_POWER);
	ck_assert(given_back() && plain_swap() && !key_on_disk() && has_no_key());
	/* The mark cannot be written. */
	reset(SHUTDOWN_PLATFORM, false);
	fail_disk(FAKE_WRITE, 1, 1, 0, true);
	run();
	ck_assert(!off && code == E_IO);
	ck_assert(given_back() && plain_swap() && !key_on_disk() && has_no_key());
	/* The kernel makes no image at all: no key, and nothing written. */
	reset(SHUTDOWN_PLATFORM, false);
	refuse(KERNEL_CREATE_IMAGE, 1, 1, EIO);
	run();
	ck_assert(!off && code == E_SNAPSHOT);
	ck_assert(given_back() && has_no_key());
	close_bench();
}
END_TEST

/*
 * Swap is too small, its pages are given back, and then there is no image at
 * all: shrinking memory may have put somebody's pages where the header was to be.
 */
START_TEST(test_sealed_pages_given_back)
{
	unsigned given;

	sealed = true;
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	rig.swap.count = 60;
	refuse(KERNEL_CREATE_IMAGE, 2, 1, EIO);
	run();
	ck_assert(!off && code == E_SNAPSHOT);
	ck_assert_uint_eq(events_of(EVENT_SMALLEST), 1);
	given = at_of(KERNEL_FREE_SWAP_PAGES, 1);
	for (unsigned i = 0; i < rig.disk.log_count; i++)
		ck_assert(!rig.disk.log[i].write || rig.disk.log[i].at < given);
	close_bench();
}
END_TEST

/* Swap is too small, then the smallest image fits: it has a key of its own. */
START_TEST(test_sealed_twice)
{
	struct key_slot first;

	sealed = true;
	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	rig.swap.count = 60;
	kernel.watch = watch;
	run();
	ck_assert(off && off_by == KERNEL_POWER_OFF);
	ck_assert_uint_eq(events_of(EVENT_SMALLEST), 1);
	first = h.header.slot;
	ck_assert(image_stands(SMALLEST));
	ck_assert_mem_eq(rig.image.header.slot.ephemeral, first.ephemeral, sizeof first.ephemeral);
	close_bench();
}
END_TEST

/* Rule 1 holds with the writes that sealing adds. */
START_TEST(test_sealed_every_disk_operation_fails)
{
	static const unsigned times[] = {1, 3, FAKE_FOR_GOOD};
	unsigned nth = 1;

	sealed = true;
	open_bench(_i & 1 ? 2 : 0);
	while (disk_fails(nth, times[_i / 2 % 3], _i / 6 % 2 ? 4096 : 0, _i / 12))
		nth++;
	ck_assert_uint_gt(nth, 8);
	close_bench();
}
END_TEST

/* ---- the load's last step ---- */

static unsigned gave_up_at;

static void give_up(void *ctx)
{
	(void)ctx;
	give_ups++;
	gave_up_at = fake_now();
	/* The receiver clears the mark here. */
	must(!kernel.thaws);
}

/* The image that stands is loaded into the kernel. */
static int load_into_kernel(void)
{
	struct kernel_sink sink;
	struct load_input in = {.image = &rig.image, .sink = &sink.sink};

	kernel.loading = true;
	kernel.pages = PAGES;
	kernel.at = 0;
	ck_assert_int_eq(image_open(&rig.image, &rig.disk.disk, 0, rig.scratch), E_OK);
	ck_assert_int_eq(image_read_trailer(&rig.image), E_OK);
	kernel_sink_open(&sink, &kernel.kernel, 4096);
	return load_run(rig.load, &in);
}

static void reset_loading(enum shutdown_method shutdown)
{
	reset(shutdown, false);
	run();
	ck_assert(off);
	reset(shutdown, true);
	kernel.interrupted = true;
	ck_assert_int_eq(load_into_kernel(), E_OK);
	ck_assert_uint_eq(kernel.wrong, 0);
	ck_assert_uint_eq(kernel.at, PAGES);
}

static void run_restore(void)
{
	int by = setjmp(kernel.off);

	gave_up_at = 0;
	if (by) {
		off = true;
		off_by = by - 1;
	} else {
		kernel.armed = true;
		code = restore(&kernel.kernel, &rig.image.header, give_up, NULL);
	}
	must(!kernel.broken);
}

START_TEST(test_restore)
{
	open_bench((unsigned)_i);
	for (int platform = 0; platform < 2; platform++) {
		reset_loading(platform ? SHUTDOWN_PLATFORM : SHUTDOWN_POWEROFF);
		run_restore();
		ck_assert(off && off_by == KERNEL_ATOMIC_RESTORE);
		ck_assert_uint_eq(give_ups, 0);
		ck_assert_uint_eq(kernel.count[KERNEL_PLATFORM], (unsigned)platform);
		if (platform)
			ck_assert_uint_lt(at_of(KERNEL_PLATFORM, 1), at_of(KERNEL_ATOMIC_RESTORE, 1));
		ck_assert_uint_lt(at_of(KERNEL_FREEZE, 1), at_of(KERNEL_ATOMIC_RESTORE, 1));
		ck_assert_uint_lt(last_at(FAKE_WRITEV), at_of(KERNEL_FREEZE, 1));
	}
	close_bench();
}
END_TEST

START_TEST(test_restore_fails)
{
	static const struct {
		int call, error, code;
	} rows[] = {{KERNEL_PLATFORM, EINVAL, E_RESTORE},
		    {KERNEL_FREEZE, EBUSY, E_FREEZE},
		    {KERNEL_ATOMIC_RESTORE, EPERM, E_RESTORE},
		    {KERNEL_ATOMIC_RESTORE, ENOMEM, E_RESTORE}};

	open_bench(0);
	reset_loading(SHUTDOWN_PLATFORM);
	refuse(rows[_i].call, 1, 1, rows[_i].error);
	run_restore();
	ck_assert(!off);
	ck_assert_int_eq(code, rows[_i].code);
	ck_assert_uint_eq(give_ups, 1);
	ck_assert(!kernel.frozen && !kernel.image);
	if (kernel.count[KERNEL_UNFREEZE])
		ck_assert_uint_lt(gave_up_at, at_of(KERNEL_UNFREEZE, 1));
	if (rows[_i].call == KERNEL_ATOMIC_RESTORE)
		ck_assert_uint_eq(kernel.thaws, 1);
	if (rows[_i].error == EPERM)
		ck_assert_ptr_nonnull(strstr(fault_text(), "zero pages"));
	close_bench();
}
END_TEST

START_TEST(test_kernel_takes_no_pages)
{
	static const struct {
		int error, code;
	} rows[] = {{EPERM, E_RESTORE}, {ENOMEM, E_MEMORY}, {EIO, E_RESTORE}};

	open_bench(0);
	for (int i = 0; i < 3; i++) {
		reset(SHUTDOWN_POWEROFF, false);
		run();
		reset(SHUTDOWN_POWEROFF, true);
		refuse(FAKE_WRITEV, 2, 1, rows[i].error);
		ck_assert_int_eq(load_into_kernel(), rows[i].code);
	}
	close_bench();
}
END_TEST

/* The fake itself: what the rules above lean on. */
START_TEST(test_fake_kernel)
{
	uint64_t out = 0;

	open_bench(0);
	reset(SHUTDOWN_PLATFORM, false);
	const struct kernel_ops *k = kernel.kernel.ops;
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_CREATE_IMAGE, 0, &out), EPERM);
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_IMAGE_SIZE, 0, &out), ENODATA);
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_ALLOC_PAGE, 0, &out), ENODEV);
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_FREEZE, 0, &out), 0);
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_CREATE_IMAGE, 0, &out), 0);
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_UNFREEZE, 0, &out), 0);
	ck_assert(kernel.frozen);
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_FREE_IMAGE, 0, &out), 0);
	ck_assert_int_eq(k->call(&kernel.kernel, KERNEL_UNFREEZE, 0, &out), 0);
	ck_assert(!kernel.frozen);
	close_bench();
}
END_TEST

static TCase *add(Suite *s, const char *name)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return t;
}

static void add_outcomes(TCase *t)
{
	tcase_add_loop_test(t, test_refused_before_freeze, 0, 4);
	tcase_add_loop_test(t, test_measure, 0, 3);
	tcase_add_test(t, test_task_will_not_freeze);
	tcase_add_test(t, test_no_image);
	tcase_add_test(t, test_smaller_images);
	tcase_add_loop_test(t, test_area_too_small, 0, 3);
	tcase_add_loop_test(t, test_aborted, 0, 3);
	tcase_add_test(t, test_mark_fails);
	tcase_add_test(t, test_area_is_gone);
	tcase_add_test(t, test_woken);
	tcase_add_test(t, test_power_off_fails);
	tcase_add_test(t, test_stuck);
	tcase_add_loop_test(t, test_restored, 0, 3);
	tcase_add_test(t, test_restored_without_statistics);
	tcase_add_test(t, test_restored_and_clearing_fails);
	tcase_add_test(t, test_restored_over_another_image);
}

static void add_sealed(TCase *t)
{
	tcase_add_loop_test(t, test_sealed, 0, 3);
	tcase_add_loop_test(t, test_sealed_restored, 0, 3);
	tcase_add_test(t, test_sealed_key_is_left);
	tcase_add_test(t, test_sealed_and_given_up);
	tcase_add_test(t, test_sealed_twice);
	tcase_add_test(t, test_sealed_pages_given_back);
	tcase_add_loop_test(t, test_sealed_every_disk_operation_fails, 0, 24);
}

int main(void)
{
	Suite *s = suite_create("check_hibernate");
	TCase *t = add(s, "sequence");

	tcase_add_test(t, test_fake_kernel);
	tcase_add_loop_test(t, test_order, 0, 2);
	tcase_add_test(t, test_ways_to_switch_off);
	tcase_add_test(t, test_size_is_left_alone);
	add_outcomes(add(s, "outcomes"));
	t = add(s, "ram");
	tcase_add_loop_test(t, test_to_ram_and_woken, 0, 3);
	tcase_add_test(t, test_to_ram_and_power_lost);
	tcase_add_test(t, test_to_ram_fails);
	tcase_add_test(t, test_woken_and_clearing_fails);
	tcase_add_test(t, test_to_ram_stopped_before);
	tcase_add_loop_test(t, test_every_step_to_ram_fails, 0, 3);
	t = add(s, "faults");
	tcase_add_loop_test(t, test_every_call_fails, 0, 2);
	tcase_add_test(t, test_every_call_fails_when_tight);
	tcase_add_loop_test(t, test_every_disk_operation_fails, 0, 48);
	tcase_add_loop_test(t, test_every_disk_operation_fails_restored, 0, 10);
	tcase_add_loop_test(t, test_silent_disk, 0, 3);
	tcase_add_test(t, test_silent_disk_restored);
	if (crypt_built_in())
		add_sealed(add(s, "sealed"));
	t = add(s, "restore");
	tcase_add_loop_test(t, test_restore, 0, 3);
	tcase_add_loop_test(t, test_restore_fails, 0, 4);
	tcase_add_test(t, test_kernel_takes_no_pages);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
