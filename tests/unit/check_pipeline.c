/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pipeline's promises, whatever the number of threads: order, who may run
 * beside whom, which error counts, and that nothing of it is left afterwards.
 * Where something must happen at the same time as something else, one waits for
 * the other; no outcome hangs on how long anything takes.
 */
#include "base/error.h"
#include "image/pipeline.h"

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#define THREAD_SANITIZER true
#else
#define THREAD_SANITIZER false
#endif

enum { FREE, FILLING, FILLED, WORKING, WORKED, DRAINING };
enum stage { FILL, WORK, DRAIN, TICK, STAGES };
enum { PATIENCE_MS = 60000, FOR_EVER = 1 << 30 };

static const unsigned thread_counts[] = {0, 1, 2, 4, 64};
enum { THREAD_COUNTS = sizeof thread_counts / sizeof thread_counts[0] };

/* ---- threads that cannot be made ---- */

static atomic_int creations_left = FOR_EVER;

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	if (atomic_fetch_sub(&creations_left, 1) <= 0)
		return EAGAIN;
	return real(t, attr, start, arg);
}

/* ---- a run that is watched ---- */

/* What a stage gives for its nth call. */
struct failure {
	int at; /* -1: never */
	int code;
};

static struct run {
	unsigned threads, slots;
	int items;
	struct failure fail[STAGES], fail_work_too;
	/* What happens inside a stage; NULL: nothing. */
	void (*in_fill)(int item), (*in_work)(int item), (*in_drain)(int item), (*in_tick)(int n);
	/* Which item each slot holds and who has it. */
	atomic_int state[PIPELINE_SLOTS_MAX], item[PIPELINE_SLOTS_MAX];
	atomic_int worker_busy[PIPELINE_THREADS_MAX + 1];
	atomic_int filling, draining, working, inside;
	atomic_int most_working;
	atomic_int filled, worked, drained, ticked, in_flight, most_in_flight;
	atomic_int tid[STAGES]; /* of the thread that ran it last */
	atomic_int broken;	/* a promise that was not kept: line number */
} run;

/* The main thread asserts; Check's own asserts are not for threads. */
static void promise(bool kept, int line)
{
	int none = 0;

	if (!kept)
		atomic_compare_exchange_strong(&run.broken, &none, line);
}
#define PROMISE(x) promise(x, __LINE__)

static void note_most(atomic_int *most, int now)
{
	int was = atomic_load(most);

	while (now > was && !atomic_compare_exchange_weak(most, &was, now))
		;
}

static void sleep_us(long us)
{
	struct timespec t = {0, us * 1000};

	nanosleep(&t, NULL);
}

/* Waits until @v is at least @n; a promise is broken when it never is. */
static void wait_for(atomic_int *v, int n)
{
	for (int i = 0; i < PATIENCE_MS && atomic_load(v) < n; i++)
		sleep_us(1000);
	PROMISE(atomic_load(v) >= n);
}

static void enter(enum stage s)
{
	atomic_fetch_add(&run.inside, 1);
	atomic_store(&run.tid[s], (int)syscall(SYS_gettid));
}

static int leave(enum stage s, int n)
{
	atomic_fetch_sub(&run.inside, 1);
	return n == run.fail[s].at ? run.fail[s].code : E_OK;
}

static int fill(void *ctx, unsigned slot)
{
	int n = atomic_load(&run.filled);

	enter(FILL);
	PROMISE(ctx == &run);
	PROMISE(atomic_fetch_add(&run.filling, 1) == 0);
	PROMISE(slot < run.slots && slot == (unsigned)n % run.slots);
	if (n == run.items) {
		atomic_fetch_sub(&run.filling, 1);
		leave(FILL, -2);
		return PIPELINE_END;
	}
	PROMISE(n < run.items);
	PROMISE(atomic_exchange(&run.state[slot], FILLING) == FREE);
	atomic_store(&run.item[slot], n);
	note_most(&run.most_in_flight, atomic_fetch_add(&run.in_flight, 1) + 1);
	if (run.in_fill)
		run.in_fill(n);
	PROMISE(atomic_exchange(&run.state[slot], FILLED) == FILLING);
	atomic_fetch_add(&run.filled, 1);
	PROMISE(atomic_fetch_sub(&run.filling, 1) == 1);
	return leave(FILL, n);
}

static int work(void *ctx, unsigned slot, unsigned worker)
{
	enter(WORK);
	PROMISE(ctx == &run && slot < run.slots);
	PROMISE(worker < (run.threads ? run.threads : 1));
	/* What belongs to a worker is never used by two. */
	PROMISE(atomic_exchange(&run.worker_busy[worker], 1) == 0);
	PROMISE(atomic_exchange(&run.state[slot], WORKING) == FILLED);
	note_most(&run.most_working, atomic_fetch_add(&run.working, 1) + 1);
	int n = atomic_load(&run.item[slot]);
	if (run.in_work)
		run.in_work(n);
	atomic_fetch_sub(&run.working, 1);
	atomic_fetch_add(&run.worked, 1);
	PROMISE(atomic_exchange(&run.state[slot], WORKED) == WORKING);
	atomic_store(&run.worker_busy[worker], 0);
	int r = leave(WORK, n);
	return n && n == run.fail_work_too.at ? run.fail_work_too.code : r;
}

static int drain(void *ctx, unsigned slot)
{
	int n = atomic_load(&run.drained);

	enter(DRAIN);
	PROMISE(ctx == &run && slot < run.slots);
	PROMISE(atomic_fetch_add(&run.draining, 1) == 0);
	PROMISE(atomic_exchange(&run.state[slot], DRAINING) == WORKED);
	/* In the order in which they were filled. */
	PROMISE(atomic_load(&run.item[slot]) == n);
	if (run.in_drain)
		run.in_drain(n);
	PROMISE(atomic_exchange(&run.state[slot], FREE) == DRAINING);
	atomic_fetch_sub(&run.in_flight, 1);
	atomic_fetch_add(&run.drained, 1);
	PROMISE(atomic_fetch_sub(&run.draining, 1) == 1);
	return leave(DRAIN, n);
}

static pthread_t caller;

static int tick(void *ctx)
{
	int n = atomic_load(&run.ticked);

	enter(TICK);
	PROMISE(ctx == &run && pthread_equal(pthread_self(), caller));
	if (run.in_tick)
		run.in_tick(n);
	atomic_fetch_add(&run.ticked, 1);
	return leave(TICK, n);
}

static void ready(unsigned threads, int items)
{
	memset(&run, 0, sizeof run);
	run.threads = threads;
	run.slots = pipeline_slots(threads);
	run.items = items;
	for (int i = 0; i < STAGES; i++)
		run.fail[i].at = -1;
	atomic_store(&creations_left, FOR_EVER);
}

static int count_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	ck_assert_ptr_ne(d, NULL);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static const struct pipeline_ops with_tick = {fill, work, drain, tick}, without_tick = {fill, work, drain, NULL};

static void *no_thread(void *arg)
{
	return arg;
}

/* A sanitizer starts a thread of its own with the first of ours: before any are counted. */
static void first_thread(void)
{
	pthread_t t;

	atomic_store(&creations_left, FOR_EVER);
	ck_assert_int_eq(pthread_create(&t, NULL, no_thread, NULL), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	sleep_us(10000);
}

/* Nothing may go on, and no thread be left, once it returns. */
static int go(const struct pipeline_ops *ops, uint8_t *stacks)
{
	int before = count_threads();

	caller = pthread_self();
	int r = pipeline_run(ops, &run, run.threads, stacks);
	ck_assert_int_eq(atomic_load(&run.inside), 0);
	ck_assert_msg(!atomic_load(&run.broken), "a promise in line %d was not kept", atomic_load(&run.broken));
	/* A joined thread may still be seen for a moment. */
	for (int i = 0; i < PATIENCE_MS && count_threads() > before; i++)
		sleep_us(1000);
	ck_assert_int_le(count_threads(), before);
	ck_assert_int_le(run.most_in_flight, (int)run.slots);
	return r;
}

static void whole(void)
{
	ck_assert_int_eq(run.filled, run.items);
	ck_assert_int_eq(run.worked, run.items);
	ck_assert_int_eq(run.drained, run.items);
}

/* ---- order ---- */

/* A little work of very different lengths, so that items overtake each other. */
static void uneven(int item)
{
	volatile unsigned x = (unsigned)item * 2654435761u;

	for (unsigned i = x >> 22; i; i--)
		x = x * 31 + i;
	if ((unsigned)item * 2654435761u % 61 == 0)
		sleep_us(300);
}

START_TEST(order)
{
	static const int items[] = {0, 1, 2, 3, 9, 10, 11, 100, 3000};

	for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
		ready(thread_counts[_i], items[i]);
		run.in_work = uneven;
		run.in_drain = i % 2 ? uneven : NULL;
		run.in_fill = i % 3 ? uneven : NULL;
		ck_assert_int_eq(go(i % 2 ? &with_tick : &without_tick, NULL), E_OK);
		whole();
	}
}
END_TEST

START_TEST(nothing)
{
	for (int i = 0; i < 10; i++) {
		ready(thread_counts[_i], 0);
		ck_assert_int_eq(go(&with_tick, NULL), E_OK);
		ck_assert(!run.filled && !run.worked && !run.drained);
	}
}
END_TEST

START_TEST(slots)
{
	ck_assert_uint_ge(pipeline_slots(0), 1);
	for (unsigned n = 1; n <= PIPELINE_THREADS_MAX; n++) {
		ck_assert_uint_ge(pipeline_slots(n), n + 1);
		ck_assert_uint_le(pipeline_slots(n), PIPELINE_SLOTS_MAX);
	}
}
END_TEST

/* ---- at the same time ---- */

static void until_all_work(int item)
{
	(void)item;
	wait_for(&run.most_working, (int)run.threads);
}

START_TEST(all_work)
{
	/* Each waits inside its work until as many are there as threads: fewer would never get there. */
	ready(thread_counts[_i], 4 * (int)thread_counts[_i]);
	run.in_work = until_all_work;
	ck_assert_int_eq(go(&without_tick, NULL), E_OK);
	whole();
	ck_assert_int_eq(run.most_working, (int)run.threads);
}
END_TEST

static void a_millisecond(int item)
{
	(void)item;
	sleep_us(1000);
}

START_TEST(sleeping_work)
{
	ready(64, 2000);
	run.in_work = a_millisecond;
	ck_assert_int_eq(go(&with_tick, NULL), E_OK);
	whole();
	ck_assert_int_ge(run.most_working, 16);
}
END_TEST

static void until_full(int item)
{
	if (item == 0)
		wait_for(&run.filled, (int)run.slots);
}

START_TEST(drain_holds_nobody_up)
{
	/* While the first is drained all other slots are filled, and then no more. */
	ready(thread_counts[_i], 1000);
	run.in_drain = until_full;
	ck_assert_int_eq(go(&without_tick, NULL), E_OK);
	whole();
	ck_assert_int_eq(run.most_in_flight, (int)run.slots);
}
END_TEST

static void until_drained(int item)
{
	if (item == 1)
		wait_for(&run.drained, 1);
}

START_TEST(fill_holds_nobody_up)
{
	/* What was filled is worked on and drained while a fill takes its time. */
	ready(thread_counts[_i], 10);
	run.in_fill = until_drained;
	ck_assert_int_eq(go(&without_tick, NULL), E_OK);
	whole();
}
END_TEST

static void until_others(int item)
{
	if (item == 0)
		wait_for(&run.worked, (int)run.slots - 1);
}

START_TEST(slow_first)
{
	/* The oldest comes last: all others are done, none is drained before it. */
	ready(thread_counts[_i], 500);
	run.in_work = until_others;
	ck_assert_int_eq(go(&without_tick, NULL), E_OK);
	whole();
}
END_TEST

/* ---- errors ---- */

START_TEST(one_error)
{
	/* In each stage, at each index round the ring and at the end. */
	static const int at[] = {0, 1, 2, 3, 9, 10, 11, 58, 59};

	for (int s = FILL; s <= DRAIN; s++)
		for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
			ready(thread_counts[_i], 60);
			run.fail[s] = (struct failure){at[i], 100 + at[i]};
			run.in_work = i % 2 ? uneven : NULL;
			ck_assert_int_eq(go(i % 2 ? &with_tick : &without_tick, NULL), 100 + at[i]);
			/* Nothing behind a failed item is ever drained. */
			ck_assert_int_le(run.drained, at[i] + (s == DRAIN));
		}
}
END_TEST

/* Waits until the thread that ran @s has ended: its error is known to all then. */
static void until_gone(enum stage s)
{
	wait_for(&run.tid[s], 1);
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (syscall(SYS_tgkill, getpid(), atomic_load(&run.tid[s]), 0) && errno == ESRCH)
			return;
		sleep_us(1000);
	}
	PROMISE(false);
}

static void work_follows_work(int item)
{
	static atomic_int other;

	if (item == 0) {
		/* Only once the second one is at work too. */
		wait_for(&run.working, 2);
		atomic_store(&other, (int)syscall(SYS_gettid));
		return;
	}
	if (item != 1)
		return;
	wait_for(&run.worked, 1);
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (syscall(SYS_tgkill, getpid(), atomic_load(&other), 0) && errno == ESRCH)
			return;
		sleep_us(1000);
	}
	PROMISE(false);
}

START_TEST(first_work_error_wins)
{
	/* The second item's work fails after the first one's, whose thread is gone by then. */
	if (thread_counts[_i] < 2)
		return;
	ready(thread_counts[_i], 2);
	run.fail[WORK] = (struct failure){0, 41};
	run.fail_work_too = (struct failure){1, 42};
	run.in_work = work_follows_work;
	ck_assert_int_eq(go(&without_tick, NULL), 41);
	ck_assert_int_eq(run.drained, 0);
}
END_TEST

static void work_follows_fill(int item)
{
	if (item != 0)
		return;
	wait_for(&run.filled, 3);
	until_gone(FILL);
}

START_TEST(first_fill_error_wins)
{
	/* A fill fails; the work that was going on then fails afterwards. */
	if (thread_counts[_i] < 2)
		return;
	ready(thread_counts[_i], 10);
	run.fail[FILL] = (struct failure){2, 51};
	run.fail[WORK] = (struct failure){0, 52};
	run.in_work = work_follows_fill;
	ck_assert_int_eq(go(&without_tick, NULL), 51);
	ck_assert_int_eq(run.drained, 0);
	ck_assert_int_eq(run.filled, 3);
}
END_TEST

static void work_follows_drain(int item)
{
	if (item != 1)
		return;
	wait_for(&run.drained, 1);
	until_gone(DRAIN);
}

START_TEST(first_drain_error_wins)
{
	if (thread_counts[_i] < 2)
		return;
	ready(thread_counts[_i], 10);
	run.fail[DRAIN] = (struct failure){0, 61};
	run.fail[WORK] = (struct failure){1, 62};
	run.in_work = work_follows_drain;
	ck_assert_int_eq(go(&without_tick, NULL), 61);
	ck_assert_int_eq(run.drained, 1);
}
END_TEST

START_TEST(many_errors)
{
	/* All at once: one of them, always joined. */
	for (int i = 0; i < 40; i++) {
		ready(thread_counts[_i], 1000);
		for (int s = FILL; s <= DRAIN; s++)
			run.fail[s] = (struct failure){(i * 7 + s * 3) % 23, 70 + s};
		run.in_work = uneven;
		int r = go(&without_tick, NULL);
		ck_assert(r >= 70 && r <= 72);
		ck_assert_int_lt(run.drained, 24);
	}
}
END_TEST

/* ---- ticks ---- */

static void until_ticked(int item)
{
	(void)item;
	wait_for(&run.ticked, 2);
}

START_TEST(ticks)
{
	/* Work waits until it was ticked twice. */
	ready(thread_counts[_i], 5);
	if (run.threads)
		run.in_work = until_ticked;
	ck_assert_int_eq(go(&with_tick, NULL), E_OK);
	whole();
	ck_assert_int_ge(run.ticked, 2);
}
END_TEST

START_TEST(tick_stops)
{
	/* Input that never ends. */
	ready(thread_counts[_i], FOR_EVER);
	run.in_work = a_millisecond;
	run.fail[TICK] = (struct failure){1, 14};
	ck_assert_int_eq(go(&with_tick, NULL), 14);
	ck_assert_int_eq(run.ticked, 2);
}
END_TEST

START_TEST(tick_stops_waiting_threads)
{
	/* One stage never ends by itself, so all other threads sleep when the tick fails. */
	ready(thread_counts[_i], FOR_EVER);
	if (run.threads)
		run.in_drain = until_ticked;
	run.fail[TICK] = (struct failure){1, 14};
	ck_assert_int_eq(go(&with_tick, NULL), 14);
	ck_assert_int_le(run.drained, 2);
}
END_TEST

/* ---- threads and stacks ---- */

START_TEST(fewer_threads)
{
	/* Whatever can be made is used, down to none at all. */
	static const int left[] = {0, 1, 2, 63};

	for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
		ready(thread_counts[_i], 300);
		run.in_work = uneven;
		if (!left[i])
			run.slots = 1;
		atomic_store(&creations_left, left[i]);
		ck_assert_int_eq(go(&with_tick, NULL), E_OK);
		whole();
		ck_assert_int_le(run.most_working, left[i] ? left[i] : 1);
		ready(thread_counts[_i], 300);
		run.fail[WORK] = (struct failure){7, 44};
		if (!left[i])
			run.slots = 1;
		atomic_store(&creations_left, left[i]);
		ck_assert_int_eq(go(&with_tick, NULL), 44);
	}
}
END_TEST

static uint8_t *stacks_base;
static size_t stacks_size;

static void on_given_stack(int item)
{
	uint8_t *here = __builtin_frame_address(0);

	(void)item;
	PROMISE(here >= stacks_base && here < stacks_base + stacks_size);
}

START_TEST(given_stacks)
{
	unsigned n = thread_counts[_i];

	/* The thread sanitizer's own part of a stack is larger than all of ours. */
	if (!n || THREAD_SANITIZER)
		return;
	stacks_size = (size_t)n * PIPELINE_STACK;
	stacks_base = aligned_alloc(65536, stacks_size);
	ck_assert_ptr_ne(stacks_base, NULL);
	memset(stacks_base, 0, stacks_size);
	for (int i = 0; i < 3; i++) {
		ready(n, 500);
		run.in_fill = run.in_work = run.in_drain = on_given_stack;
		ck_assert_int_eq(go(&without_tick, stacks_base), E_OK);
		whole();
	}
	free(stacks_base);
}
END_TEST

START_TEST(most_threads)
{
	ready(PIPELINE_THREADS_MAX, 4 * PIPELINE_THREADS_MAX);
	run.in_work = uneven;
	ck_assert_int_eq(go(&without_tick, NULL), E_OK);
	whole();
}
END_TEST

/* ---- */

static void add_runs(TCase *t)
{
	tcase_add_loop_test(t, order, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, nothing, 0, THREAD_COUNTS);
	tcase_add_test(t, slots);
	tcase_add_loop_test(t, all_work, 1, THREAD_COUNTS);
	tcase_add_test(t, sleeping_work);
	tcase_add_loop_test(t, drain_holds_nobody_up, 2, THREAD_COUNTS);
	tcase_add_loop_test(t, fill_holds_nobody_up, 2, THREAD_COUNTS);
	tcase_add_loop_test(t, slow_first, 2, THREAD_COUNTS);
}

static void add_ends(TCase *t)
{
	tcase_add_loop_test(t, one_error, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, first_work_error_wins, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, first_fill_error_wins, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, first_drain_error_wins, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, many_errors, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, ticks, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, tick_stops, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, tick_stops_waiting_threads, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, fewer_threads, 0, THREAD_COUNTS);
	tcase_add_loop_test(t, given_stacks, 0, THREAD_COUNTS);
	tcase_add_test(t, most_threads);
}

static void add_case(Suite *s, const char *name, void (*add)(TCase *t))
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, first_thread, NULL);
	tcase_set_timeout(t, 300);
	add(t);
	suite_add_tcase(s, t);
}

int main(void)
{
	Suite *s = suite_create("pipeline");

	add_case(s, "runs", add_runs);
	add_case(s, "ends", add_ends);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
