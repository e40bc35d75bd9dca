/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tools/unlock.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "system/ask.h"
#include "system/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define KEEP_FREE (64ull << 20)

enum { TRY_AGAIN = 't', POWER_OFF = 'p', BOOT = 'b' };

static int idle_ms(const struct unlock *u)
{
	return (int)u->conf->passphrase_timeout * 1000;
}

/* A signal may not end the program before the image has been given up: these stay pending. */
static void stop_signals(sigset_t *stop)
{
	sigemptyset(stop);
	sigaddset(stop, SIGINT);
	sigaddset(stop, SIGTERM);
	sigaddset(stop, SIGHUP);
	sigaddset(stop, SIGQUIT);
}

static bool signal_pending(void)
{
	sigset_t stop, pending;

	stop_signals(&stop);
	sigpending(&pending);
	return sigandset(&pending, &pending, &stop) == 0 && !sigisemptyset(&pending);
}

/* ---- one round of tries; E_KEY when none was right ---- */

static int try_passphrases(struct unlock *u, struct ask *a)
{
	unsigned tries = u->conf->passphrase_tries;
	char prompt[CONFIG_PATH + 128];
	int r = E_KEY;

	for (unsigned i = 0; r == E_KEY && i < tries; i++) {
		fault_clear();
		if (i)
			snprintf(prompt, sizeof prompt, "Wrong. Passphrase for the image on %s (%u of %u): ", u->path,
				 i + 1, tries);
		else
			snprintf(prompt, sizeof prompt, "Passphrase for the image on %s: ", u->path);
		r = ask_secret(a, prompt);
		if (r == E_OK)
			r = seal_open_passphrase(u->seal, &u->image->header, a->answer, a->length);
		ask_forget(a);
	}
	return r;
}

static int try_key_file(struct unlock *u)
{
	if (!u->conf->key_file[0])
		return fault(E_KEY, 0, "the image is sealed by a key file, and no `key file' is configured");
	return seal_open_key_file(u->seal, &u->image->header, u->conf->key_file);
}

/* ---- what then ---- */

static int choose(struct ask *a, const char *why)
{
	char prompt[512], key = 0;

	snprintf(prompt, sizeof prompt,
		 "%s\r\nt = try again, p = power off and keep the image, b = boot and give the image up: ", why);
	int r = ask_choice(a, prompt, (char[]){TRY_AGAIN, POWER_OFF, BOOT, 0}, &key);
	if (r != E_OK || key == TRY_AGAIN)
		return r;
	return key == POWER_OFF ? fault(E_NOANSWER, 0, "the power-off was chosen")
				: fault(E_DECLINED, 0, "to boot without the image was chosen");
}

static bool sealed_by_file(const struct unlock *u)
{
	return u->image->header.slot.mode == KEY_MODE_FILE;
}

/* The person decides, as often as no key was found. */
static int decide(struct unlock *u, struct ask *a, int r)
{
	const char *why =
		sealed_by_file(u) ? "The key file does not open the image." : "No passphrase has opened the image.";

	for (;;) {
		if (r != E_KEY && (r != E_ABORTED || signal_pending()))
			return r;
		fault_clear();
		r = choose(a, why);
		if (r == E_OK)
			r = sealed_by_file(u) ? try_key_file(u) : try_passphrases(u, a);
		else if (r != E_ABORTED)
			return r;
	}
}

static int unlock_by_file(struct unlock *u)
{
	struct ask a;
	int r = try_key_file(u);

	if (r != E_KEY)
		return r;
	log_fault(r, u->path);
	fault_clear();
	int way = ask_open(&a, &ask_at_boot, idle_ms(u));
	r = way == E_OK ? decide(u, &a, r) : way;
	ask_close(&a);
	return r;
}

static int unlock_by_passphrase(struct unlock *u)
{
	struct ask a;
	int r = ask_open(&a, &ask_at_boot, idle_ms(u));

	if (r == E_OK)
		r = decide(u, &a, try_passphrases(u, &a));
	ask_close(&a);
	return r;
}

/* ---- reading ahead ---- */

/* MemAvailable in bytes, 0 when unknown. */
static uint64_t memory_available(void)
{
	char text[4096];
	uint64_t kib = 0;

	if (file_read_text("/proc/meminfo", text, sizeof text) < 0)
		return 0;
	const char *line = strstr(text, "MemAvailable:");
	if (line && sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
		kib = 0;
	return kib << 10;
}

/* What the image, its key, the load and the rest of the boot leave. */
static uint64_t ahead_budget(const struct header *h)
{
	uint64_t there = memory_available();
	uint64_t taken = h->image_bytes + ((uint64_t)h->slot.cost.memory << 10) + arena_limit() + KEEP_FREE;

	return there > taken ? there - taken : 0;
}

static void start_ahead(struct unlock *u)
{
	if (image_read_trailer(u->image) == E_OK)
		u->ahead = ahead_start(u->image, ahead_budget(&u->image->header));
	fault_clear();
}

static void stop_ahead(struct unlock *u)
{
	if (!u->ahead)
		return;
	ahead_stop(u->ahead);
	log_verbose("%" PRIu64 " KiB were read ahead", ahead_bytes(u->ahead) >> 10);
}

int unlock_image(struct unlock *u)
{
	sigset_t stop;

	u->ahead = NULL;
	prctl(PR_SET_DUMPABLE, 0);
	stop_signals(&stop);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	if (sealed_by_file(u))
		return unlock_by_file(u);
	start_ahead(u);
	int r = unlock_by_passphrase(u);
	stop_ahead(u);
	crypt_burn_stack();
	return r;
}
