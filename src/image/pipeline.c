/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who holds what
 *
 * There is no reader thread and no writer thread: every worker does whatever
 * is due, so no more threads are awake than there is work for.  Under the one
 * lock a worker picks, in this order:
 *
 *   drain, when the oldest slot not yet drained is done and nobody drains;
 *   fill and then work, when a slot is free, input is left and nobody fills;
 *   else it waits.
 *
 * A slot goes round free -> filling -> working -> done -> draining -> free.  From
 * free to done it belongs to the worker that filled it; a drainer takes it over
 * from done.  "filled" and "drained" count slots; slot number = count % slots.
 * At most one thread fills and one drains, so each of the two callbacks, and
 * all that only it touches, needs no lock of its own.
 *
 * Wake-ups: whoever changes the state and then leaves the lock for an activity
 * signals one waiter if another activity is due (pass_on()).  So no activity
 * waits while a worker sleeps, and no change wakes more than one.
 *
 * An error is kept if it is the first and wakes everybody; all look at it
 * before anything else.  The caller's thread only waits and ticks.
 */
#include "image/pipeline.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum { TICK_MS = 100, AWAKE_NS = 100000 };

struct pipeline {
	const struct pipeline_ops *ops;
	void *ctx;
	unsigned slots;
	pthread_mutex_t lock;
	pthread_cond_t due;	 /* workers wait here */
	pthread_cond_t finished; /* the caller waits here */
	/* All below: any thread, under lock. */
	uint64_t filled, drained;
	bool filling, draining, ended;
	bool crowded; /* more workers than processors: set before they start */
	unsigned waiting, running, next_worker;
	int error;
	bool done[PIPELINE_SLOTS_MAX];
};

unsigned pipeline_slots(unsigned threads)
{
	return threads ? 2 * threads + 2 : 1;
}

static bool can_drain(const struct pipeline *p)
{
	return !p->draining && p->drained < p->filled && p->done[p->drained % p->slots];
}

static bool can_fill(const struct pipeline *p)
{
	return !p->filling && !p->ended && p->filled - p->drained < p->slots;
}

static bool over(const struct pipeline *p)
{
	return p->error || (p->ended && !p->filling && p->drained == p->filled);
}

static void pass_on(struct pipeline *p)
{
	if (over(p))
		pthread_cond_broadcast(&p->due);
	else if (p->waiting && (can_drain(p) || can_fill(p)))
		pthread_cond_signal(&p->due);
}

static void set_error(struct pipeline *p, int code)
{
	if (!p->error)
		p->error = code;
	pthread_cond_broadcast(&p->due);
	pthread_cond_signal(&p->finished);
}

/* Called and returns with the lock held, as all below. */
static void drain_one(struct pipeline *p)
{
	unsigned slot = (unsigned)(p->drained % p->slots);

	p->draining = true;
	pass_on(p);
	pthread_mutex_unlock(&p->lock);
	int r = p->ops->drain(p->ctx, slot);
	pthread_mutex_lock(&p->lock);
	p->draining = false;
	p->done[slot] = false;
	p->drained++;
	if (r != E_OK)
		set_error(p, r);
}

static void work_one(struct pipeline *p, unsigned slot, unsigned worker)
{
	pass_on(p);
	pthread_mutex_unlock(&p->lock);
	int r = p->ops->work(p->ctx, slot, worker);
	pthread_mutex_lock(&p->lock);
	p->done[slot] = true;
	if (r != E_OK)
		set_error(p, r);
}

static void fill_one(struct pipeline *p, unsigned worker)
{
	unsigned slot = (unsigned)(p->filled % p->slots);

	p->filling = true;
	pass_on(p);
	pthread_mutex_unlock(&p->lock);
	int r = p->ops->fill(p->ctx, slot);
	pthread_mutex_lock(&p->lock);
	p->filling = false;
	if (r == PIPELINE_END) {
		p->ended = true;
		return;
	}
	if (r != E_OK) {
		set_error(p, r);
		return;
	}
	p->filled++;
	work_one(p, slot, worker);
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

/*
 * A fill or a drain of somebody else ends soon, mostly: looking again for a
 * moment costs less than sleeping and being woken.
 */
static bool wait_awake(struct pipeline *p)
{
	uint64_t until = clock_ns() + AWAKE_NS;

	while ((p->filling || p->draining) && !over(p) && !can_drain(p) && !can_fill(p)) {
		if (clock_ns() > until)
			return false;
		pthread_mutex_unlock(&p->lock);
		for (int i = 0; i < 50; i++)
			relax();
		pthread_mutex_lock(&p->lock);
	}
	return over(p) || can_drain(p) || can_fill(p);
}

static void *worker_main(void *arg)
{
	struct pipeline *p = arg;

	pthread_mutex_lock(&p->lock);
	unsigned worker = p->next_worker++;
	while (!over(p)) {
		if (can_drain(p)) {
			drain_one(p);
		} else if (can_fill(p)) {
			fill_one(p, worker);
		} else if (!p->crowded && wait_awake(p)) {
			continue;
		} else {
			p->waiting++;
			pthread_cond_wait(&p->due, &p->lock);
			p->waiting--;
		}
	}
	pass_on(p);
	if (--p->running == 0)
		pthread_cond_signal(&p->finished);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static int run_inline(const struct pipeline_ops *ops, void *ctx)
{
	for (;;) {
		int r = ops->fill(ctx, 0);

		if (r == PIPELINE_END)
			return E_OK;
		if (r == E_OK)
			r = ops->work(ctx, 0, 0);
		if (r == E_OK)
			r = ops->drain(ctx, 0);
		if (r == E_OK && ops->tick)
			r = ops->tick(ctx);
		if (r != E_OK)
			return r;
	}
}

static int start_worker(struct pipeline *p, pthread_t *t, uint8_t *stack)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstack(&attr, stack, PIPELINE_STACK);
	int r = pthread_create(t, &attr, worker_main, p);
	pthread_attr_destroy(&attr);
	return r;
}

static void after_ms(struct timespec *t, long ms)
{
	clock_gettime(CLOCK_MONOTONIC, t);
	t->tv_nsec += ms * 1000000;
	t->tv_sec += t->tv_nsec / 1000000000;
	t->tv_nsec %= 1000000000;
}

/* The caller's part: wait for the workers, ticking; the lock is held. */
static void watch(struct pipeline *p)
{
	struct timespec until;

	after_ms(&until, TICK_MS);
	while (p->running) {
		if (pthread_cond_timedwait(&p->finished, &p->lock, &until) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&p->lock);
		int r = p->ops->tick ? p->ops->tick(p->ctx) : E_OK;
		after_ms(&until, TICK_MS);
		pthread_mutex_lock(&p->lock);
		if (r != E_OK)
			set_error(p, r);
	}
}

static void open_locks(struct pipeline *p)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&p->due, &monotonic);
	pthread_cond_init(&p->finished, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static void close_locks(struct pipeline *p)
{
	pthread_cond_destroy(&p->finished);
	pthread_cond_destroy(&p->due);
	pthread_mutex_destroy(&p->lock);
}

/* Those this thread may run on; a system call, nothing more. */
static unsigned processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : PIPELINE_THREADS_MAX;
}

int pipeline_run(const struct pipeline_ops *ops, void *ctx, unsigned threads, uint8_t *stacks)
{
	if (threads > PIPELINE_THREADS_MAX)
		threads = PIPELINE_THREADS_MAX;

	struct pipeline p = {.ops = ops, .ctx = ctx, .slots = pipeline_slots(threads)};
	pthread_t t[PIPELINE_THREADS_MAX];
	unsigned made = 0;

	open_locks(&p);
	pthread_mutex_lock(&p.lock);
	for (; made < threads; made++)
		if (start_worker(&p, &t[made], stacks ? stacks + (size_t)made * PIPELINE_STACK : NULL))
			break;
	p.running = made;
	p.crowded = made > processors();
	if (made)
		watch(&p);
	pthread_mutex_unlock(&p.lock);
	for (unsigned i = 0; i < made; i++)
		pthread_join(t[i], NULL);
	int error = p.error;
	close_locks(&p);
	return made ? error : run_inline(ops, ctx);
}
