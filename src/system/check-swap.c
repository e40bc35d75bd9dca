/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The swap area that is to hold the image: is it there, does it last, is there room. */
#include "system/check-parts.h"

#include "base/bytes.h"
#include "base/error.h"
#include "system/device.h"
#include "system/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- active swap ---- */

unsigned root_swaps(const struct check_facts *f, struct swap_line out[SWAPS_MAX])
{
	char path[PATH_MAX];
	int n = root_path(f, path, "/proc/swaps") ? swaps_read(path, out, SWAPS_MAX) : -1;

	return n > 0 ? (unsigned)n : 0;
}

static const struct swap_line *swap_of_area(const struct check_facts *f, struct swap_line all[SWAPS_MAX])
{
	unsigned n = root_swaps(f, all);

	for (unsigned i = 0; f->area && f->area->active && i < n; i++)
		if (!strcmp(all[i].path, f->area->swap_path))
			return &all[i];
	return NULL;
}

/* ---- the target ---- */

void check_target(const struct check_facts *f, struct finding *out)
{
	struct swap_line all[SWAPS_MAX];
	const struct swap_line *s = swap_of_area(f, all);

	if (!f->area || f->area_code != E_OK) {
		/* Such texts end in what is to be done. */
		const char *cure = strrchr(f->area_text, ';');
		int n = cure ? (int)(cure - f->area_text) : (int)strlen(f->area_text);
		found_fail(out, f->area_code, "%.*s", n, f->area_text);
		found_cure(out, "%s",
			   cure ? cure + 1 + strspn(cure + 1, " ")
				: "name an existing swap area in /etc/suspend.conf (resume device), see blkid");
		return;
	}
	if (f->area->is_file)
		found_ok(out, "the swap file %.100s at page %" PRIu64 " of %.100s, %s",
			 f->area->swap_path[0] ? f->area->swap_path : "(no name known)", f->area->start / f->page_size,
			 f->area->path, s ? "active" : "to be switched on for the save");
	else
		found_ok(out, "%.200s, %s", f->area->path, s ? "active" : "to be switched on for the save");
}

void check_stack(const struct check_facts *f, struct finding *out)
{
	char path[PATH_MAX], name[DEVICE_NAME];
	const char *why;

	if (!f->area) {
		found_ok(out, "no target, so nothing below it");
		return;
	}
	why = root_path(f, path, "/sys/dev/block") ? stack_objection(path, f->area->device, name) : NULL;
	if (!why) {
		found_ok(out, "the target's devices go on while tasks are frozen");
		return;
	}
	found_fail(out, E_DEVICE, "the image would lie on %s: %s", name, why);
	found_cure(out, "use a swap partition or file on a disk");
}

/* ---- keys made anew at each boot ---- */

void check_random_key(const struct check_facts *f, struct finding *out)
{
	char mapping[AREA_MAPPING] = "";
	enum area_key key = f->area ? area_key(f->root, f->area->device, mapping) : AREA_KEY_KEPT;

	if (key == AREA_KEY_RANDOM) {
		found_fail(out, E_DEVICE,
			   "/etc/crypttab gives %.60s a new random key at each boot: nobody could read the image again",
			   mapping);
		found_cure(out, "make it a LUKS volume whose passphrase the initramfs asks for, or use other swap");
	} else if (key == AREA_KEY_PLAIN) {
		found_warning(out,
			      "%.60s is plain dm-crypt, which keeps no key: the image can be read only when the "
			      "initramfs sets it up with the same one",
			      mapping);
		found_cure(out, "make sure that its key is not made anew at each boot, or use LUKS");
	} else
		found_ok(out, "the target is not under a key made anew at each boot");
}

/* ---- room ---- */

/* What the kernel would put into an image: what is in use, brought down to the size wished for where that goes. */
static uint64_t image_raw(const struct check_facts *f)
{
	uint64_t total = meminfo(f, "MemTotal"), left = meminfo(f, "MemFree"), wished = f->image_size, fixed;

	if (!total || left > total)
		return 0;
	if (wished == UINT64_MAX && !root_number(f, &wished, "/sys/power/image_size"))
		wished = UINT64_MAX;
	/* Neither the kernel's own memory nor what is locked can be brought down. */
	fixed = meminfo(f, "SUnreclaim") + meminfo(f, "KernelStack") + meminfo(f, "PageTables") +
		meminfo(f, "Unevictable");
	if (wished < fixed)
		wished = fixed;
	/* While it is made, the image and what it is a copy of both lie in memory. */
	return min_u64(min_u64(total - left, wished), total / 2);
}

void check_estimate(const struct check_facts *f, struct estimate *e)
{
	struct past_image p;

	*e = (struct estimate){.raw = image_raw(f)};
	e->stored = e->raw;
	if (!past_read(f->root, &p))
		return;
	e->ratio_known = f->compress;
	if (e->ratio_known)
		e->stored = (uint64_t)((double)e->raw * (double)p.stored / (double)p.raw);
	if (p.save_ns)
		e->seconds = (double)e->raw / (double)p.raw * (double)p.save_ns / 1e9;
}

static uint64_t area_free(const struct check_facts *f, const struct swap_line *s)
{
	struct stat st;

	if (s)
		return s->used_kib < s->size_kib ? (s->size_kib - s->used_kib) << 10 : 0;
	if (!f->area->is_file)
		return f->area->size - f->area->start;
	return f->area->swap_path[0] && !stat(f->area->swap_path, &st) ? (uint64_t)st.st_size : 0;
}

#define MIB(bytes) (unsigned long long)((bytes) >> 20)

/* What is needed at the least: memory without what the kernel can drop. */
static uint64_t least_stored(const struct check_facts *f, const struct estimate *e)
{
	uint64_t least = meminfo(f, "MemTotal") - meminfo(f, "MemAvailable");

	if (least > e->raw)
		least = e->raw;
	/* Nothing that was ever measured comes down to a tenth. */
	return e->ratio_known ? (uint64_t)((double)least * (double)e->stored / (double)e->raw) : least / 10;
}

static void compare_room(const struct check_facts *f, const struct estimate *e, uint64_t room, struct finding *out)
{
	const char *how = e->ratio_known ? " at the last image's ratio" : " without compression";
	uint64_t least = least_stored(f, e);

	if (e->stored <= room) {
		found_ok(out, "%llu MiB free, about %llu MiB needed%s", MIB(room), MIB(e->stored), how);
		return;
	}
	if (least > room)
		found_fail(out, E_NOSPACE, "%llu MiB free, but about %llu MiB needed%s, and %llu MiB at the very least",
			   MIB(room), MIB(e->stored), how, MIB(least));
	else
		found_warning(out,
			      "%llu MiB free, about %llu MiB needed%s: the image has to come down to %llu %% of that",
			      MIB(room), MIB(e->stored), how, (unsigned long long)(room * 100 / e->stored));
	found_cure(out, "make the swap area larger, or set `image size' lower or `compressor = zstd'");
}

void check_space(const struct check_facts *f, struct finding *out)
{
	struct swap_line all[SWAPS_MAX];
	const struct swap_line *s = swap_of_area(f, all);
	struct estimate e;

	check_estimate(f, &e);
	if (!f->area || !e.raw) {
		found_ok(out, "not known: there is no target, or no /proc/meminfo");
		return;
	}
	uint64_t room = area_free(f, s);
	if (room)
		compare_room(f, &e, room, out);
	else if (s) {
		found_fail(out, E_NOSPACE, "nothing is free on %.200s", s->path);
		found_cure(out, "make the swap area larger, or end programs");
	} else
		found_ok(out, "not known before the area is switched on");
}

void check_guess(const struct check_facts *f, struct finding *out)
{
	struct estimate e;

	check_estimate(f, &e);
	if (!e.raw)
		found_ok(out, "the image's size is not known: there is no /proc/meminfo");
	else if (!e.ratio_known && e.seconds <= 0)
		found_ok(out, "about %llu MiB of memory to save; how small and how fast is known after the first image",
			 MIB(e.raw));
	else
		found_ok(out, "about %llu MiB of memory to save, %llu MiB on disk, %.0f s, going by the last image",
			 MIB(e.raw), MIB(e.stored), e.seconds);
}

/* ---- compressed swap in memory ---- */

void check_zram(const struct check_facts *f, struct finding *out)
{
	struct swap_line all[SWAPS_MAX];
	unsigned n = root_swaps(f, all);
	const struct swap_line *mine = swap_of_area(f, all), *zram = NULL;
	/* What is "available" the kernel drops before it swaps anything out. */
	uint64_t used = meminfo(f, "MemTotal") - meminfo(f, "MemAvailable"), wished = f->image_size;

	for (unsigned i = 0; i < n; i++)
		if (swap_is_zram(&all[i]) && (!zram || all[i].priority > zram->priority))
			zram = &all[i];
	if (wished == UINT64_MAX && !root_number(f, &wished, "/sys/power/image_size"))
		wished = UINT64_MAX;
	if (!zram) {
		found_ok(out, "no swap lies in zram");
		return;
	}
	bool first = !mine || zram->priority > mine->priority;
	if (!first || used <= wished) {
		found_ok(out, "%.60s at priority %d holds %llu MiB, which become part of the image", zram->path,
			 zram->priority, MIB(zram->used_kib << 10));
		return;
	}
	found_warning(out,
		      "%.60s at priority %d comes before the target: to bring the image down to %llu MiB the kernel "
		      "would swap out into memory",
		      zram->path, zram->priority, MIB(wished));
	found_cure(out, "set `image size = 100%%' in /etc/suspend.conf, or swapoff %.60s before", zram->path);
}

void check_zswap(const struct check_facts *f, struct finding *out)
{
	char text[16];

	if (root_text(f, text, sizeof text, "/sys/module/zswap/parameters/enabled") <= 0 || text[0] != 'Y')
		found_ok(out, "zswap is off");
	else
		found_ok(out, "zswap is on: what it holds is saved with the memory, and keeps its room on the target");
}

/* ---- the last image ---- */

static const char last_image[] = "/var/lib/dormouse/last-image";

bool past_read(const char *root, struct past_image *p)
{
	char path[PATH_MAX], text[128];

	memset(p, 0, sizeof *p);
	if (snprintf(path, sizeof path, "%s%s", root, last_image) >= (int)sizeof path ||
	    file_read_text(path, text, sizeof text) <= 0)
		return false;
	return sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &p->raw, &p->stored, &p->save_ns,
		      &p->load_ns) == 4 &&
	       p->raw && p->stored && p->stored <= 2 * p->raw;
}

void past_write(const char *root, const struct past_image *p)
{
	char path[PATH_MAX], partial[PATH_MAX];

	if (snprintf(path, sizeof path, "%s%s", root, last_image) >= (int)sizeof path - 5)
		return;
	char *slash = strrchr(path, '/');
	*slash = 0;
	mkdir(path, 0755);
	*slash = '/';
	snprintf(partial, sizeof partial, "%.*s.new", (int)sizeof partial - 5, path);
	FILE *file = fopen(partial, "we");
	if (!file)
		return;
	fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", p->raw, p->stored, p->save_ns, p->load_ns);
	if (fclose(file) || rename(partial, path))
		unlink(partial);
}
