/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel command line of the next boot, and what else of the system has a say. */
#include "system/check-parts.h"

#include "base/error.h"
#include "system/machine.h"
#include "system/mounts.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- resume= ---- */

struct next_line {
	char text[8192];
	bool known; /* of the entry that boots next, not only of this boot */
	char source[AREA_PATH];
};

static void read_next_line(const struct check_facts *f, struct next_line *l)
{
	struct boot_entry e;

	l->known = boot_entry_find(f, &e) && e.options[0];
	if (l->known) {
		strcpy(l->text, e.options);
		strcpy(l->source, e.source);
	} else {
		root_text(f, l->text, sizeof l->text, "/proc/cmdline");
		strcpy(l->source, "/proc/cmdline");
	}
}

/* What ought to stand there. */
static void right_line(const struct check_facts *f, struct finding *out)
{
	if (f->area->start)
		found_cure(out, "write resume=%s resume_offset=%" PRIu64 " into the boot loader's entry", f->area->path,
			   f->area->start / f->page_size);
	else
		found_cure(out, "write resume=%s (or its UUID=) into the boot loader's entry", f->area->path);
}

static void compare(const struct check_facts *f, const char *where, const char *spec, uint64_t offset,
		    struct finding *out)
{
	dev_t device = 0;

	if (f->resolve(spec, &device) != E_OK) {
		fault_clear();
		found_fail(out, E_CONF, "%.100s says `%.100s', which is %s", where, spec,
			   names_file(spec) ? "a file: nothing is mounted yet when resume looks for it"
					    : "no device here");
	} else if (device != f->area->device)
		found_fail(out, E_CONF, "%.100s says `%.100s', but the image goes to %.100s", where, spec,
			   f->area->path);
	else if (offset != f->area->start / f->page_size)
		found_fail(out, E_CONF, "%.100s has the offset %" PRIu64 ", but the swap file begins at page %" PRIu64,
			   where, offset, f->area->start / f->page_size);
	else
		found_ok(out, "%.100s names the target", where);
	if (out->level != CHECK_OK)
		right_line(f, out);
}

static void compare_line(const struct check_facts *f, const struct next_line *l, const struct boot_line *b,
			 struct finding *out)
{
	char where[AREA_PATH + 32];

	if (b->resume[0]) {
		snprintf(where, sizeof where, "resume= (%s)", l->source);
		compare(f, where, b->resume, b->resume_offset_set ? b->resume_offset : f->conf_offset, out);
	} else if (names_file(f->conf_device)) {
		/* That row looks whether it is the right one. */
		found_ok(out, "the initramfs is told where %.200s lies", f->conf_device);
	} else if (f->conf_device[0]) {
		snprintf(where, sizeof where, "resume device (%.200s)", f->conf_file);
		compare(f, where, f->conf_device, b->resume_offset_set ? b->resume_offset : f->conf_offset, out);
	} else {
		found_warning(out, "neither resume= (%s) nor a configuration tells the next boot where the image lies",
			      l->source);
		right_line(f, out);
	}
}

void check_resume_line(const struct check_facts *f, struct finding *out)
{
	struct next_line l;
	struct boot_line b;

	read_next_line(f, &l);
	int code = boot_line_parse(l.text, &b);
	if (code != E_OK) {
		found_fail(out, code, "%.400s (%.60s)", fault_text(), l.source);
		fault_clear();
		if (f->area)
			right_line(f, out);
		found_cure(out, "correct it in the boot loader's entry");
	} else if (b.noresume) {
		if (l.known)
			found_fail(out, E_NORESUME, "%.200s tells the next boot not to resume", l.source);
		else
			found_warning(out, "this boot was told not to resume; if the next one is too, the image is "
					   "passed over");
		found_cure(out, "take noresume (or hibernate=noresume) out of the boot loader's entry");
	} else if (!f->area)
		found_ok(out, "no target to compare resume= with");
	else
		compare_line(f, &l, &b, out);
}

/* ---- file systems that may not answer ---- */

static int visit_mount(void *ctx, const struct mount_line *m)
{
	static const char *const types[] = {
		"nfs",	      "nfs4",	     "cifs",	       "smb3",	"ceph", "9p",	     "afs",	    "glusterfs",
		"fuse.sshfs", "fuse.rclone", "fuse.glusterfs", "ncpfs", "coda", "fuse.s3fs", "fuse.davfs2", "davfs"};

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (!strcmp(m->type, types[i])) {
			found_warning(ctx,
				      "%.80s (%s from %.80s) is mounted: when its server does not answer, the sync "
				      "before the freeze waits for it",
				      m->point, m->type, m->source);
			found_cure(ctx, "umount %.120s before, or let a sleep hook do it", m->point);
		}
	return E_OK;
}

void check_network(const struct check_facts *f, struct finding *out)
{
	char path[PATH_MAX];

	if (root_path(f, path, "/proc/self/mountinfo") && mounts_each(path, visit_mount, out) != E_OK)
		fault_clear();
	found_ok(out, "no network file system could hold up the sync");
}

/* ---- sealing ---- */

/* Without its key s2disk refuses by itself, just before it would be used. */
void check_sealing(const struct check_facts *f, struct finding *out)
{
	if (f->seal_code == E_OK) {
		found_ok(out, "%s", f->seal_text ? f->seal_text : "images are not sealed");
		return;
	}
	found_fail(out, f->seal_code, "%s", f->seal_text);
	found_cure(out, "make a key pair with suspend-keygen, or put the key file right, or set encrypt = n");
}

/* ---- systemd ---- */

/* Whether a drop-in of logind's takes its own look at the memory off. */
static bool logind_bypassed(const struct check_facts *f)
{
	static const char folder[] = "/etc/systemd/system/systemd-logind.service.d";
	char path[PATH_MAX], text[4096];
	DIR *d = root_path(f, path, "%s", folder) ? opendir(path) : NULL;
	bool found = false;

	for (struct dirent *e; d && !found && (e = readdir(d));)
		found = e->d_name[0] != '.' && root_text(f, text, sizeof text, "%s/%s", folder, e->d_name) > 0 &&
			strstr(text, "SYSTEMD_BYPASS_HIBERNATION_MEMORY_CHECK=1");
	if (d)
		closedir(d);
	return found;
}

/* The most that is free in one area, zram left out, in bytes; @any: there is one. */
static uint64_t most_free(const struct check_facts *f, bool *any)
{
	struct swap_line s[SWAPS_MAX];
	unsigned n = root_swaps(f, s);
	uint64_t most = 0;

	*any = false;
	for (unsigned i = 0; i < n; i++) {
		if (swap_is_zram(&s[i]))
			continue;
		*any = true;
		if (s[i].size_kib - s[i].used_kib > most)
			most = s[i].size_kib - s[i].used_kib;
	}
	return most << 10;
}

static void cure_logind(struct finding *out, const char *first)
{
	found_cure(out,
		   "%s, or write Environment=SYSTEMD_BYPASS_HIBERNATION_MEMORY_CHECK=1 into [Service] of "
		   "/etc/systemd/system/systemd-logind.service.d/dormouse.conf; s2disk itself does not ask logind",
		   first);
}

/* What logind (systemd 252) looks at before it lets `systemctl hibernate' begin. */
void check_systemd(const struct check_facts *f, struct finding *out)
{
	uint64_t used = meminfo(f, "Active(anon)");
	bool any;
	uint64_t most = most_free(f, &any);

	if (!root_has(f, "/run/systemd/system"))
		found_ok(out, "systemd is not in charge");
	else if (logind_bypassed(f))
		found_ok(out, "logind is told not to look at swap and memory before `systemctl hibernate'");
	else if (!any) {
		found_warning(out, "logind sees no active swap area, and `systemctl hibernate' will refuse");
		cure_logind(out, "activate it in /etc/fstab");
	} else if (used >= most / 100 * 98) {
		found_warning(out,
			      "logind holds that %" PRIu64 " MiB in use do not fit into %" PRIu64
			      " MiB of swap, and `systemctl hibernate' will refuse",
			      used >> 20, most >> 20);
		cure_logind(out, "make the swap area larger");
	} else
		found_ok(out, "logind will find that `systemctl hibernate' can be done");
}
