/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/area.h"

#include "base/error.h"
#include "system/device.h"
#include "system/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SIGNATURE = 10, UNIT = 4096 };

static const char proc_swaps[] = "/proc/swaps";

/* /proc/swaps */

static bool parse_swap(const char *line, struct swap_line *s)
{
	char path[1024], type[16];

	memset(s, 0, sizeof *s);
	if (sscanf(line, "%1023s %15s %" SCNu64 " %" SCNu64 " %d", path, type, &s->size_kib, &s->used_kib,
		   &s->priority) != 5)
		return false;
	unescape_octal(path);
	if (path[0] != '/' || strlen(path) >= sizeof s->path)
		return false;
	strcpy(s->path, path);
	s->is_file = !strcmp(type, "file");
	return true;
}

int swaps_read(const char *path, struct swap_line *out, unsigned max)
{
	char *line = NULL;
	size_t room = 0;
	unsigned n = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return -1;
	while (n < max && getline(&line, &room, f) > 0)
		n += parse_swap(line, &out[n]);
	/* Without memory for a line there is no end of the file, and no error of it either. */
	bool whole = n == max || feof(f);
	free(line);
	fclose(f);
	return whole ? (int)n : -1;
}

bool swap_is_zram(const struct swap_line *s)
{
	return !strncmp(s->path, "/dev/zram", 9);
}

/* What is asked for, before anything is looked up. */
struct wish {
	char spec[AREA_PATH];
	bool offset_set;
	uint64_t offset; /* in pages */
	uint32_t page_size;
	struct swap_line swaps[SWAPS_MAX];
	unsigned swap_count;
};

static int wish_from_cmdline(struct wish *w)
{
	struct boot_line b;
	int code = boot_line_read("/proc/cmdline", &b);

	if (code != E_OK || !*b.resume)
		return code;
	strcpy(w->spec, b.resume);
	if (!w->offset_set && b.resume_offset_set) {
		w->offset_set = true;
		w->offset = b.resume_offset;
	}
	return E_OK;
}

/* The best active swap */

static bool sys_dir(dev_t device, const char *below, char out[AREA_PATH])
{
	return snprintf(out, AREA_PATH, "/sys/dev/block/%u:%u%s", major(device), minor(device), below) < AREA_PATH;
}

/* dm-crypt with a new random key at each boot: crypttab says so, nothing else does. */
static bool random_key_in(const char *crypttab, const char *mapping)
{
	static const char *const random[] = {"/dev/urandom", "/dev/random", "/dev/hwrng"};
	char line[1024], name[128], source[256], key[256];
	bool found = false;
	FILE *f = fopen(crypttab, "re");

	if (!f)
		return false;
	while (!found && fgets(line, sizeof line, f)) {
		if (sscanf(line, " %127s %255s %255s", name, source, key) != 3 || strcmp(name, mapping))
			continue;
		for (size_t i = 0; i < sizeof random / sizeof random[0]; i++)
			found |= !strcmp(key, random[i]);
	}
	fclose(f);
	return found;
}

struct key_search {
	char crypttab[AREA_PATH];
	char *mapping;
	enum area_key key;
};

static bool visit_mapping(void *ctx, const char *real)
{
	struct key_search *k = ctx;
	char name[AREA_MAPPING], uuid[AREA_PATH];

	if (!read_line_at(real, "dm/name", name, sizeof name))
		return false;
	if (random_key_in(k->crypttab, name))
		k->key = AREA_KEY_RANDOM;
	else if (k->key == AREA_KEY_KEPT && read_line_at(real, "dm/uuid", uuid, sizeof uuid) &&
		 !strncmp(uuid, "CRYPT-PLAIN-", 12))
		k->key = AREA_KEY_PLAIN;
	else
		return false;
	strcpy(k->mapping, name);
	return k->key == AREA_KEY_RANDOM;
}

enum area_key area_key(const char *root, dev_t device, char mapping[AREA_MAPPING])
{
	struct key_search k = {.mapping = mapping};
	char sys[AREA_PATH];

	mapping[0] = 0;
	if (snprintf(k.crypttab, sizeof k.crypttab, "%s/etc/crypttab", root) < (int)sizeof k.crypttab &&
	    snprintf(sys, sizeof sys, "%s/sys/dev/block", root) < (int)sizeof sys)
		stack_each(sys, device, visit_mapping, &k);
	return k.key;
}

static bool swap_survives(const struct swap_line *s)
{
	char real[DEVICE_NAME], mapping[AREA_MAPPING];
	struct stat st;

	if (stat(s->path, &st) || (!s->is_file && !S_ISBLK(st.st_mode)))
		return false;
	dev_t device = s->is_file ? st.st_dev : st.st_rdev;
	return !stack_objection("/sys/dev/block", device, real) && area_key("", device, mapping) != AREA_KEY_RANDOM;
}

static const struct swap_line *best_swap(const struct wish *w)
{
	const struct swap_line *best = NULL;

	for (unsigned i = 0; i < w->swap_count; i++) {
		const struct swap_line *s = &w->swaps[i];
		if (!swap_survives(s))
			continue;
		if (!best || s->priority > best->priority ||
		    (s->priority == best->priority && s->size_kib > best->size_kib))
			best = s;
	}
	return best;
}

static int wish_from_swaps(struct wish *w)
{
	const struct swap_line *best = best_swap(w);

	if (!best && w->swap_count)
		return fault(E_DEVICE, 0,
			     "no active swap outlasts power-off (zram, loop devices and swap with a new key at "
			     "each boot do not); add a swap partition or file on disk");
	if (!best)
		return fault(E_DEVICE, 0, "no swap is active; add a swap partition or file, or set `resume device'");
	strcpy(w->spec, best->path);
	return E_OK;
}

static int complete_wish(struct wish *w)
{
	int n = swaps_read(proc_swaps, w->swaps, SWAPS_MAX), code = E_OK;

	/* An area that is taken for inactive would be switched off in the end. */
	if (n < 0 && errno != ENOENT)
		return fault(errno == ENOMEM ? E_MEMORY : E_INTERNAL, errno, "%s cannot be read", proc_swaps);
	w->swap_count = n > 0 ? (unsigned)n : 0;
	if (!*w->spec)
		code = wish_from_cmdline(w);
	if (code == E_OK && !*w->spec)
		code = wish_from_swaps(w);
	return code;
}

/* Which area that is */

static bool is_plain_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

static int start_of(const struct wish *w, uint64_t offset, struct area *a)
{
	if (offset > (uint64_t)INT64_MAX / w->page_size)
		return fault(E_CONF, 0, "resume offset = %" PRIu64 " lies beyond every device", offset);
	a->start = offset * w->page_size;
	a->is_file = offset != 0;
	return E_OK;
}

static int locate_file(const struct wish *w, struct area *a)
{
	uint64_t offset;
	int code = swap_file_offset(w->spec, w->page_size, &a->device, &offset);

	if (code != E_OK)
		return code;
	if (w->offset_set && w->offset != offset)
		return fault(E_CONF, 0,
			     "resume offset = %" PRIu64 " is wrong: %.100s begins at %" PRIu64
			     "; write resume offset = %" PRIu64,
			     w->offset, w->spec, offset, offset);
	if (!device_node(a->device, a->path))
		return fault(E_DEVICE, 0, "the device %u:%u below %.100s has no node in /dev", major(a->device),
			     minor(a->device), w->spec);
	strcpy(a->swap_path, w->spec);
	code = start_of(w, offset, a);
	a->is_file = true;
	return code;
}

static int locate_device(const struct wish *w, struct area *a)
{
	struct stat st;
	int code = area_resolve(w->spec, a->path);

	if (code != E_OK)
		return code;
	if (stat(a->path, &st))
		return fault(E_DEVICE, errno, "%.200s", a->path);
	a->device = st.st_rdev;
	return start_of(w, w->offset_set ? w->offset : 0, a);
}

/* Is @file, which holds or may hold swap, this area?  Leaves no fault behind. */
static bool file_is_area(const char *file, const struct wish *w, dev_t device, uint64_t *start)
{
	bool quiet = !fault_text()[0];
	uint64_t offset = 0;
	dev_t on = 0;
	int code = swap_file_offset(file, w->page_size, &on, &offset);

	if (quiet)
		fault_clear();
	*start = offset * w->page_size;
	return code == E_OK && on == device;
}

static bool swap_is_area(const struct swap_line *s, const struct wish *w, const struct area *a)
{
	struct stat st;
	uint64_t start = 0;

	if (s->is_file)
		return file_is_area(s->path, w, a->device, &start) && start == a->start;
	return !a->start && !stat(s->path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == a->device;
}

/* Calls @visit for each swap file in /etc/fstab until it returns true. */
static bool each_fstab_file(bool (*visit)(void *ctx, const char *file), void *ctx)
{
	FILE *f = setmntent("/etc/fstab", "re");
	bool done = false;
	struct mntent *e;

	if (!f)
		return false;
	while (!done && (e = getmntent(f)))
		if (!strcmp(e->mnt_type, "swap") && strlen(e->mnt_fsname) < AREA_PATH && is_plain_file(e->mnt_fsname))
			done = visit(ctx, e->mnt_fsname);
	endmntent(f);
	return done;
}

struct search {
	const struct wish *w;
	struct area *a;
	uint64_t start; /* of another swap file found on the device */
	char file[AREA_PATH];
};

static bool visit_same_area(void *ctx, const char *file)
{
	struct search *s = ctx;

	if (!file_is_area(file, s->w, s->a->device, &s->start) || s->start != s->a->start)
		return false;
	strcpy(s->a->swap_path, file);
	return true;
}

static bool visit_same_device(void *ctx, const char *file)
{
	struct search *s = ctx;

	if (!file_is_area(file, s->w, s->a->device, &s->start))
		return false;
	strcpy(s->file, file);
	return true;
}

/* Sets active and swap_path. */
static void find_swap(const struct wish *w, struct area *a)
{
	struct search s = {.w = w, .a = a};

	for (unsigned i = 0; i < w->swap_count && !a->active; i++)
		if (swap_is_area(&w->swaps[i], w, a)) {
			a->active = true;
			strcpy(a->swap_path, w->swaps[i].path);
		}
	if (*a->swap_path)
		return;
	if (a->is_file)
		each_fstab_file(visit_same_area, &s);
	else
		strcpy(a->swap_path, a->path);
}

/* Is there a swap header? */

static bool is_signature(const char *s)
{
	static const char *const known[] = {"SWAPSPACE2", "SWAP-SPACE", "S1SUSPEND",
					    "S2SUSPEND",  "ULSUSPEND",	"LINHIB0001"};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (!memcmp(s, known[i], strlen(known[i])))
			return true;
	return false;
}

/* The page cache may be older than the disk, so it is gone past where that can be done. */
static int open_direct(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);

	return fd < 0 && errno == EINVAL ? open(path, O_RDONLY | O_CLOEXEC) : fd;
}

static int read_signature(const struct area *a, int fd, void *unit, bool *found)
{
	static const uint32_t pages[] = {4096, 16384, 65536};
	bool any = false;

	*found = false;
	for (size_t i = 0; i < sizeof pages / sizeof pages[0] && !*found; i++) {
		uint64_t at = a->start + pages[i] - UNIT;
		if (at + UNIT > a->size)
			break;
		if (pread(fd, unit, UNIT, (off_t)at) != UNIT)
			return fault(E_IO, errno, "%.200s cannot be read at byte %" PRIu64, a->path, at);
		any = true;
		*found = is_signature((const char *)unit + UNIT - SIGNATURE);
	}
	if (!any)
		return fault(E_CONF, 0, "byte %" PRIu64 " lies beyond the end of %.200s (%" PRIu64 " bytes)", a->start,
			     a->path, a->size);
	return E_OK;
}

static int measure(struct area *a, bool *found)
{
	int code, fd = open_direct(a->path);
	void *unit;

	if (fd < 0)
		return fault(errno == EACCES || errno == EPERM ? E_PRIVILEGE : E_DEVICE, errno, "%.200s", a->path);
	unit = aligned_alloc(UNIT, UNIT);
	if (!unit)
		code = fault(E_MEMORY, 0, "no memory to read %.200s", a->path);
	else if (ioctl(fd, BLKGETSIZE64, &a->size))
		code = fault(E_DEVICE, errno, "the size of %.200s cannot be read", a->path);
	else
		code = read_signature(a, fd, unit, found);
	free(unit);
	close(fd);
	return code;
}

/* A queue belongs to the disk; a partition's directory in /sys lies in its disk's. */
static void find_rotational(struct area *a)
{
	char dir[AREA_PATH], text[16];

	sys_dir(a->device, "/queue", dir);
	if (!read_line_at(dir, "rotational", text, sizeof text)) {
		sys_dir(a->device, "/../queue", dir);
		read_line_at(dir, "rotational", text, sizeof text);
	}
	a->rotational = text[0] == '1';
}

/* A swap file on the same device, active or in fstab. */
static bool other_file(struct search *s)
{
	for (unsigned i = 0; i < s->w->swap_count; i++)
		if (s->w->swaps[i].is_file && visit_same_device(s, s->w->swaps[i].path))
			return true;
	return each_fstab_file(visit_same_device, s);
}

static int no_header(const struct wish *w, struct area *a)
{
	struct search s = {.w = w, .a = a};

	if (other_file(&s))
		return fault(E_CONF, 0,
			     "no swap header stands at page %" PRIu64 " of %.100s, but the swap file %.100s begins "
			     "at page %" PRIu64 "; write resume offset = %" PRIu64,
			     a->start / w->page_size, a->path, s.file, s.start / w->page_size, s.start / w->page_size);
	if (a->start)
		return fault(E_CONF, 0,
			     "no swap header stands at page %" PRIu64 " of %.100s; write the resume offset that "
			     "`swap-offset FILE' prints",
			     a->start / w->page_size, a->path);
	return fault(E_DEVICE, 0, "%.100s is no swap area; name another, or run mkswap if nothing on it is needed",
		     a->path);
}

/* A header may outlive its file.  When the device has a known swap file elsewhere, that is the one that was meant. */
static int check_file_known(const struct wish *w, struct area *a)
{
	struct search s = {.w = w, .a = a};

	if (!a->is_file || *a->swap_path || !other_file(&s))
		return E_OK;
	return fault(E_CONF, 0,
		     "at page %" PRIu64
		     " of %.100s stands the header of a swap file that is gone; the swap file %.100s "
		     "begins at page %" PRIu64 "; write resume offset = %" PRIu64,
		     a->start / w->page_size, a->path, s.file, s.start / w->page_size, s.start / w->page_size);
}

int area_find(const char *spec, bool offset_set, uint64_t offset, uint32_t page_size, struct area *out)
{
	struct wish w = {.offset_set = offset_set, .offset = offset, .page_size = page_size};
	bool header = false;
	int code;

	memset(out, 0, sizeof *out);
	if (strlen(spec) >= sizeof w.spec)
		return fault(E_CONF, 0, "the name of the resume device is too long");
	strcpy(w.spec, spec);
	code = complete_wish(&w);
	if (code == E_OK)
		code = is_plain_file(w.spec) ? locate_file(&w, out) : locate_device(&w, out);
	if (code == E_OK)
		code = measure(out, &header);
	if (code == E_OK && !header)
		code = no_header(&w, out);
	if (code != E_OK)
		return code;
	find_swap(&w, out);
	find_rotational(out);
	return check_file_known(&w, out);
}

int area_swapon(const struct area *a, bool *switched)
{
	*switched = false;
	if (!*a->swap_path)
		return fault(E_DEVICE, 0,
			     "the swap file at byte %" PRIu64 " of %.200s is in neither /proc/swaps nor "
			     "/etc/fstab; run swapon on it",
			     a->start, a->path);
	*switched = !swapon(a->swap_path, 0);
	if (*switched || errno == EBUSY)
		return E_OK;
	return fault(errno == EPERM ? E_PRIVILEGE : E_DEVICE, errno, "swapon %.200s", a->swap_path);
}

int area_swapoff(const struct area *a)
{
	if (!*a->swap_path || !swapoff(a->swap_path) || errno == EINVAL)
		return E_OK;
	if (errno == ENOMEM)
		return fault(E_MEMORY, 0, "swapoff %.200s: memory is too full to take back what is on it",
			     a->swap_path);
	return fault(errno == EPERM ? E_PRIVILEGE : E_DEVICE, errno, "swapoff %.200s", a->swap_path);
}
