/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What s2disk tells: what happens meanwhile, how it went, what helps when it failed. */
#include <config.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/s2disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char zswap_path[] = "/sys/module/zswap/parameters/enabled";

void report_event(void *ctx, enum hibernate_event e, uint64_t a, uint64_t b)
{
	(void)ctx;
	switch (e) {
	case EVENT_SMALLER:
		log_note("not enough memory for the image; trying one of %llu MiB", (unsigned long long)(a >> 20));
		break;
	case EVENT_SMALLEST:
		log_note("swap is too small for this image; trying the smallest");
		break;
	case EVENT_IMAGE:
		job.imaged = clock_ns();
		log_verbose("image of %llu KiB", (unsigned long long)(a >> 10));
		break;
	case EVENT_SAVED:
		log_verbose("saved %llu KiB in %llu KiB", (unsigned long long)(a >> 10), (unsigned long long)(b >> 10));
		break;
	case EVENT_MARKED:
		progress_say(&job.progress, job.to_ram ? "saved; suspending to RAM" : "saved; powering off");
		break;
	case EVENT_RAM_FAIL:
		log_error("suspending to RAM failed (error %llu); powering off, the image stands",
			  (unsigned long long)a);
		break;
	case EVENT_WOKEN:
		log_error("the power-off was refused by a wake-up event; going on");
		break;
	case EVENT_POWER_FAIL:
		log_error("the power-off failed (error %llu)", (unsigned long long)a);
		break;
	case EVENT_STUCK:
		log_error("the machine is saved but cannot be switched off: switch it off by hand");
		break;
	case EVENT_KEY_LEFT:
		log_error("the wrapped key of the image could not be overwritten on the disk%s%s", a ? ": " : "",
			  a ? strerrordesc_np((int)a) : "");
		break;
	case EVENT_FROZEN:
		progress_say(&job.progress, "tasks are stopped; making the image");
		break;
	case EVENT_AWAKE:
	case EVENT_RESTORED:
		break;
	}
}

static unsigned long long mb_per_s(uint64_t bytes, uint64_t ns)
{
	return ns ? (unsigned long long)((double)bytes * 1000 / (double)ns) : 0;
}

/* "resumed: 280 MB saved as 110 MB in 3.2 s (87 MB/s, auto), loaded in 2.9 s (96 MB/s)" */
static void put_result(char *out, size_t size)
{
	const struct trailer *t = job.h.awake ? save_trailer(job.h.save) : &job.image.trailer;
	const struct state *s = &job.image.state;
	size_t n = (size_t)snprintf(out, size, "%s", job.h.awake ? "woken" : "resumed");

	if (!job.h.awake && !job.h.statistics)
		return;
	n += (size_t)snprintf(out + n, size - n, ": %llu MB saved as %llu MB in %.1f s (%llu MB/s, %s), ",
			      (unsigned long long)(t->raw_bytes / 1000000),
			      (unsigned long long)(t->stream_bytes / 1000000), (double)t->save_ns / 1e9,
			      mb_per_s(t->raw_bytes, t->save_ns), job.save.adapt ? "auto" : job.save.codec->name);
	if (job.h.awake)
		snprintf(out + n, size - n, "not needed and given up");
	else
		snprintf(out + n, size - n, "loaded in %.1f s (%llu MB/s)", (double)s->load_ns / 1e9,
			 mb_per_s(t->raw_bytes, s->load_ns));
}

static void say_result(void)
{
	char line[256];

	put_result(line, sizeof line);
	log_note("%s", line);
	log_system("%s", line);
	if (!job.conf.resume_pause)
		return;
	progress_say(&job.progress, line);
	sleep(job.conf.resume_pause);
}

/* For the next --check. */
static void remember_result(void)
{
	const struct trailer *t = &job.image.trailer;
	const struct past_image p = {t->raw_bytes, t->stream_bytes, t->save_ns, job.image.state.load_ns};

	if (job.h.statistics)
		past_write("", &p);
}

void report_result(void)
{
	remember_result();
	say_result();
}

/* The kernel writes "task:NAME" for each that would not freeze to its log, and nothing to us. */
static void name_unfrozen(void)
{
	char record[2048];
	ssize_t n;

	while (job.kmsg >= 0 && ((n = read(job.kmsg, record, sizeof record - 1)) > 0 || (n < 0 && errno == EPIPE))) {
		if (n < 0)
			continue;
		record[n] = 0;
		char *text = strchr(record, ';');
		char *end = text ? strchr(text, '\n') : NULL;
		if (!text)
			continue;
		if (end)
			*end = 0;
		if (!strncmp(text + 1, "task:", 5) || strstr(text, "refusing to freeze"))
			log_error("kernel: %s", text + 1);
	}
}

/* Memory is short where half of it cannot be emptied; what was swapped out into it is a part of that. */
static void explain_memory(void)
{
	struct swap_line swap[SWAPS_MAX];
	int n = swaps_read("/proc/swaps", swap, SWAPS_MAX), i = 0;
	char text[8];

	while (i < n && !swap_is_zram(&swap[i]))
		i++;
	if (i < n)
		log_error("%s keeps in memory what is swapped out: `swapoff %s' before moves it to %s", swap[i].path,
			  swap[i].path, job.area.path);
	if (file_read_text(zswap_path, text, sizeof text) > 0 && text[0] == 'Y')
		log_error("zswap keeps in memory what is swapped out; a smaller max_pool_percent leaves more room");
}

static void explain(int code)
{
	uint64_t need = 0;

	if (code == E_FREEZE)
		name_unfrozen();
	if (code == E_IO)
		log_error(
			"nothing is lost: the machine goes on, without an image; see what the kernel's log says of %s, "
			"or name another `resume device'",
			job.area.path);
	if (code == E_MEMORY)
		explain_memory();
	if (code != E_NOSPACE)
		return;
	const struct trailer *t = save_trailer(job.h.save);
	uint64_t stored = 0;
	for (int i = 0; i < CODECS_MAX; i++)
		stored += t->codec[i].stored;
	if (t->raw_bytes)
		need = (uint64_t)((double)job.h.header.image_bytes * (double)stored / (double)t->raw_bytes);
	log_error(
		"%s: about %llu MiB are needed for the smallest image at the ratio measured, %llu MiB were free; make "
		"the swap area larger, or use `compressor = zstd'",
		job.area.path, (unsigned long long)(need >> 20), (unsigned long long)(stored >> 20));
}

static void say_failure(int code)
{
	char what[AREA_PATH + 32];

	snprintf(what, sizeof what, "%s%s%s", job.measure ? "not measured" : "not hibernated", code == E_IO ? ": " : "",
		 code == E_IO ? job.area.path : "");
	log_fault(code, what);
}

void report_failure(int code)
{
	say_failure(code);
	explain(code);
}

void report_measured(const char *compressor)
{
	const struct trailer *t = save_trailer(job.h.save);
	double raw = (double)t->raw_bytes / 1e6, stored = (double)t->stream_bytes / 1e6;
	double prepare = (double)(job.imaged - job.began) / 1e9, write = (double)t->save_ns / 1e9;

	printf("%-10s %9.0f %9.0f %6.2f %10.1f %8.1f %8.0f %8.1f\n", compressor, raw, stored, raw / stored, prepare,
	       write, raw / write, prepare + write);
	fflush(stdout);
}
