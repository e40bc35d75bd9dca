/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two rules decide every turn here: before the mark is set the machine must go
 * on as if nothing had happened; while the mark may stand tasks are never
 * thawed.  Between them lies mark_set(), which says which of the two holds.
 */
#include "system/hibernate.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

#include <errno.h>

enum { CLEAR_TRIES = 3, POWER_TRIES = 3 };
/* Where halving begins when nobody knows what the kernel aims at. */
#define SIZE_TRIED (64ull << 30)

static int call(struct hibernate *h, enum kernel_call c, uint64_t in, uint64_t *out)
{
	uint64_t ignored = 0;

	return h->kernel->ops->call(h->kernel, c, in, out ? out : &ignored);
}

static void tell(struct hibernate *h, enum hibernate_event e, uint64_t a, uint64_t b)
{
	if (h->event)
		h->event(h->ctx, e, a, b);
}

/* ---- giving back ---- */

static void drop_image(struct hibernate *h)
{
	call(h, KERNEL_FREE_SWAP_PAGES, 0, NULL);
	call(h, KERNEL_FREE_IMAGE, 0, NULL);
}

static void reset_size(struct hibernate *h)
{
	if (h->old_image_size != IMAGE_SIZE_UNKNOWN)
		call(h, KERNEL_PREF_SIZE, h->old_image_size, NULL);
}

/* While its page is still the image's: what is given back may be somebody's before the tasks run. */
static void drop_key(struct hibernate *h)
{
	uint64_t place = h->key_place;

	h->key_place = 0;
	if (!h->seal || (!place && !h->restored))
		return;
	if (!place || image_drop_key(h->disk, place, h->scratch) != E_OK)
		tell(h, EVENT_KEY_LEFT, 0, 0);
}

static void thaw(struct hibernate *h)
{
	drop_key(h);
	/* UNFREEZE does nothing while an image exists, in the restored system too. */
	call(h, KERNEL_FREE_IMAGE, 0, NULL);
	/* A write that a stuck disk still owes would land on what somebody else keeps there by then. */
	if (disk_answers(h->disk))
		call(h, KERNEL_FREE_SWAP_PAGES, 0, NULL);
	reset_size(h);
	call(h, KERNEL_UNFREEZE, 0, NULL);
}

static int clear_mark(struct hibernate *h)
{
	int r = E_IO;

	for (int i = 0; i < CLEAR_TRIES; i++) {
		r = mark_clear(h->disk, h->area_start, h->scratch, h->header.image_id, false);
		if (r == E_OK)
			return r;
		call(h, KERNEL_PAUSE, SECOND / 5, NULL);
	}
	return r;
}

/* The signature may stand and cannot be cleared: the machine must not go on. */
static void off_for_good(struct hibernate *h)
{
	for (int i = 0; i < POWER_TRIES; i++) {
		int e = call(h, KERNEL_REBOOT, SHUTDOWN_POWEROFF, NULL);

		tell(h, EVENT_POWER_FAIL, (uint64_t)e, 0);
		call(h, KERNEL_PAUSE, SECOND, NULL);
	}
	tell(h, EVENT_STUCK, 0, 0);
	int e;
	do /* a sleep is only ever interrupted; a kernel made up by a test ends it otherwise */
		e = call(h, KERNEL_PAUSE, 3600 * SECOND, NULL);
	while (!e || e == EINTR);
}

/* Clears the mark and lets the machine go on, or powers it off. */
static int back_or_off(struct hibernate *h, int code)
{
	if (clear_mark(h) != E_OK) {
		off_for_good(h);
		return E_POWER;
	}
	thaw(h);
	return code;
}

/* ---- saving ---- */

static int snapshot_failed(int e)
{
	return fault(e == ENOMEM ? E_MEMORY : E_SNAPSHOT, e, "the kernel could not make the image");
}

/*
 * Makes the image, a smaller one when memory is short.  @size: what was asked
 * for last.  The id is drawn before the image is made, so that the restored
 * system knows it.
 */
static int create_image(struct hibernate *h, uint64_t *size, bool *restored)
{
	for (;;) {
		uint64_t original = 0;

		h->random(h->ctx, &h->header.image_id);
		int e = call(h, KERNEL_CREATE_IMAGE, 0, &original);
		*restored = !e && !original;
		if (!e)
			return E_OK;
		if (e != ENOMEM || !*size)
			return snapshot_failed(e);
		*size = *size >= 64 << 20 ? *size / 2 : 0;
		tell(h, EVENT_SMALLER, *size, 0);
		e = call(h, KERNEL_PREF_SIZE, *size, NULL);
		if (e)
			return snapshot_failed(e);
	}
}

static int describe_image(struct hibernate *h)
{
	int e = call(h, KERNEL_IMAGE_SIZE, 0, &h->header.image_bytes);

	if (e || !h->header.image_bytes)
		return fault(E_SNAPSHOT, e, "the kernel does not say how large the image is");
	if (h->header.image_bytes > h->largest)
		h->largest = h->header.image_bytes;
	h->header.created = h->now(h->ctx);
	tell(h, EVENT_IMAGE, h->header.image_bytes, 0);
	return h->fingerprints(h->ctx, h->fingerprint, &h->header.fingerprint_count);
}

static int save_image(struct hibernate *h)
{
	struct kernel_source source;
	struct kernel_swap swap;
	struct save_input in = {
		.disk = h->disk,
		.source = &source.source,
		.swap = &swap.pages,
		.header = &h->header,
		.fingerprints = h->fingerprint,
		.seal = h->seal,
		.tick = h->tick,
		.tick_ctx = h->ctx,
	};
	int r = describe_image(h);

	if (r != E_OK)
		return r;
	if (h->swap)
		in.swap = h->swap, in.room = UINT64_MAX;
	else if (call(h, KERNEL_AVAIL_SWAP, 0, &in.room))
		in.room = h->header.image_bytes; /* not known: packed, but not with all might */
	kernel_source_open(&source, h->kernel, h->header.page_size);
	kernel_swap_open(&swap, h->kernel);
	r = save_run(h->save, &in);
	h->key_place = save_header_place(h->save);
	if (r == E_OK)
		tell(h, EVENT_SAVED, h->header.image_bytes, save_trailer(h->save)->stream_bytes);
	return r;
}

/* Saves; when the area is too small, once more with the smallest image. */
static int make_and_save(struct hibernate *h, bool *restored)
{
	uint64_t size = min_u64(h->set_size ? h->image_size : h->old_image_size, SIZE_TRIED);
	int r = create_image(h, &size, restored);

	if (r != E_OK || *restored)
		return r;
	r = save_image(h);
	if (r != E_NOSPACE || !size)
		return r;
	h->key_place = 0; /* the area was full before the header */
	drop_image(h);
	tell(h, EVENT_SMALLEST, 0, 0);
	size = 0;
	int e = call(h, KERNEL_PREF_SIZE, 0, NULL);
	if (e)
		return snapshot_failed(e);
	fault_clear();
	r = create_image(h, &size, restored);
	return r != E_OK || *restored ? r : save_image(h);
}

/* ---- the power switch; the mark stands ---- */

static bool woken(int e)
{
	return e == EAGAIN || e == EBUSY;
}

static int power_off(struct hibernate *h)
{
	int e = 0;

	if (h->header.shutdown == SHUTDOWN_PLATFORM) {
		e = call(h, KERNEL_POWER_OFF, 0, NULL);
		if (woken(e)) {
			tell(h, EVENT_WOKEN, (uint64_t)e, 0);
			return back_or_off(h, fault(E_POWER, e, "a wake-up event stopped the power-off"));
		}
	} else if (h->header.shutdown == SHUTDOWN_REBOOT) {
		e = call(h, KERNEL_REBOOT, SHUTDOWN_REBOOT, NULL);
	}
	if (h->header.shutdown != SHUTDOWN_POWEROFF)
		tell(h, EVENT_POWER_FAIL, (uint64_t)e, 0);
	off_for_good(h);
	return E_POWER;
}

/* With the image on the disk, memory kept powered: whichever is there at the end, the machine goes on from it. */
static int suspend_to_ram(struct hibernate *h)
{
	int e = call(h, KERNEL_S2RAM, 0, NULL);

	if (e) {
		tell(h, EVENT_RAM_FAIL, (uint64_t)e, 0);
		return power_off(h);
	}
	h->awake = true;
	tell(h, EVENT_AWAKE, 0, 0);
	return back_or_off(h, E_OK);
}

static int mark_and_off(struct hibernate *h)
{
	int r = mark_set(h->disk, h->area_start, h->header.page_size, h->scratch, h->header.image_id,
			 h->header.installation, save_header_place(h->save));

	if (r == E_POWER)
		return back_or_off(h, E_IO);
	if (r != E_OK) {
		thaw(h);
		return r;
	}
	tell(h, EVENT_MARKED, 0, 0);
	return h->to_ram ? suspend_to_ram(h) : power_off(h);
}

/* ---- the restored system ---- */

/* What the save and the load took, for the one line that is said; nothing hangs on it. */
static void read_statistics(struct hibernate *h)
{
	bool ours = image_open(h->image, h->disk, h->area_start, h->scratch) == E_OK &&
		    id_equal(h->image->header.image_id, h->header.image_id);

	h->key_place = ours ? h->image->mark.place : 0;
	h->statistics = ours && image_read_trailer(h->image) == E_OK;
	fault_clear();
}

static int go_on(struct hibernate *h)
{
	h->restored = true;
	tell(h, EVENT_RESTORED, 0, 0);
	read_statistics(h);
	return back_or_off(h, E_OK);
}

/* ---- the sequence ---- */

static int prepare(struct hibernate *h)
{
	uint64_t offset = h->area_start / h->header.page_size;
	int e = h->device ? call(h, KERNEL_SET_SWAP_AREA, h->device, &offset) : 0;

	if (e == ENODEV)
		return fault(E_DEVICE, e, "the kernel does not know the target as an active swap area");
	if (!e && h->set_size)
		e = call(h, KERNEL_PREF_SIZE, h->image_size, NULL);
	if (!e && h->header.shutdown == SHUTDOWN_PLATFORM)
		e = call(h, KERNEL_PLATFORM, 1, NULL);
	return e ? fault(E_KERNEL, e, "the kernel refuses to prepare a hibernation") : E_OK;
}

int hibernate(struct hibernate *h)
{
	bool restored = false;
	int r = prepare(h);

	if (r == E_OK) {
		int e = call(h, KERNEL_FREEZE, 0, NULL);
		if (e)
			r = fault(E_FREEZE, e, "freezing the tasks failed");
	}
	if (r != E_OK) {
		reset_size(h);
		return r;
	}
	tell(h, EVENT_FROZEN, 0, 0);
	r = make_and_save(h, &restored);
	if (r == E_OK && (restored || !h->measure))
		return restored ? go_on(h) : mark_and_off(h);
	thaw(h);
	return r;
}

int restore(struct kernel *k, const struct header *h, void (*give_up)(void *ctx), void *ctx)
{
	uint64_t none = 0;
	int r = E_OK, e = 0;

	if (h->shutdown == SHUTDOWN_PLATFORM)
		e = k->ops->call(k, KERNEL_PLATFORM, 1, &none);
	if (e)
		r = fault(E_RESTORE, e, "the kernel refuses platform support");
	if (r == E_OK && (e = k->ops->call(k, KERNEL_FREEZE, 0, &none)))
		r = fault(E_FREEZE, e, "freezing the tasks failed");
	bool frozen = r == E_OK;
	if (frozen) {
		e = k->ops->call(k, KERNEL_ATOMIC_RESTORE, 0, &none);
		r = fault(E_RESTORE, e, "the kernel did not restore the image%s",
			  e == EPERM
				  ? " (kernels 6.6 to 6.8 do so when an image ends in zero pages; a newer one does not)"
				  : "");
	}
	give_up(ctx);
	k->ops->call(k, KERNEL_FREE_IMAGE, 0, &none);
	if (frozen)
		k->ops->call(k, KERNEL_UNFREEZE, 0, &none);
	return r;
}
