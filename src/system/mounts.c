/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/mounts.h"

#include "base/error.h"
#include "system/area.h"
#include "system/device.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void copy_text(char *out, size_t size, const char *s)
{
	snprintf(out, size, "%s", s);
	unescape_octal(out);
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue" */
bool mount_parse(char *line, struct mount_line *out)
{
	char *tail = strstr(line, " - "), *save = NULL, *field;

	if (!tail || sscanf(line, "%*u %*u %u:%u", &out->major, &out->minor) != 2)
		return false;
	*tail = 0;
	field = strtok_r(line, " ", &save);
	for (unsigned i = 0; field && i < 4; i++)
		field = strtok_r(NULL, " ", &save);
	if (!field)
		return false;
	copy_text(out->point, sizeof out->point, field);
	field = strtok_r(tail + 3, " \n", &save);
	if (!field)
		return false;
	copy_text(out->type, sizeof out->type, field);
	field = strtok_r(NULL, " \n", &save);
	copy_text(out->source, sizeof out->source, field ? field : "");
	return true;
}

bool mount_on_block(const struct mount_line *m)
{
	struct stat st;

	if (m->major)
		return true;
	if (strncmp(m->source, "/dev/", 5))
		return false;
	return stat(m->source, &st) || S_ISBLK(st.st_mode);
}

int mounts_each(const char *mountinfo, int (*visit)(void *ctx, const struct mount_line *m), void *ctx)
{
	struct mount_line m;
	char *line = NULL;
	size_t room = 0;
	int code = E_OK;
	FILE *f = fopen(mountinfo, "re");

	if (!f)
		return fault(errno == ENOMEM ? E_MEMORY : E_INTERNAL, errno, "%s cannot be read; is /proc mounted?",
			     mountinfo);
	while (code == E_OK && getline(&line, &room, f) > 0)
		if (mount_parse(line, &m))
			code = visit(ctx, &m);
	/* Not only when the file says so: getline() that finds no memory leaves no mark on it. */
	if (code == E_OK && !feof(f))
		code = fault(errno == ENOMEM ? E_MEMORY : E_INTERNAL, errno, "%s cannot be read to its end", mountinfo);
	free(line);
	fclose(f);
	return code;
}

/* Live media are mounted in the initramfs already, and nothing writes to them. */
static bool is_read_only_type(const char *type)
{
	static const char *const types[] = {"squashfs", "erofs", "iso9660", "udf"};

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

static int refuse_mounted(void *ctx, const struct mount_line *m)
{
	(void)ctx;
	if (!strcmp(m->type, "zfs"))
		return fault(E_MOUNTED, 0, "%.100s (zfs) is mounted at %.100s", m->source, m->point);
	if (!mount_on_block(m) || is_read_only_type(m->type))
		return E_OK;
	return fault(E_MOUNTED, 0, "%.100s (%s) is mounted at %.100s", m->source, m->type, m->point);
}

/* Each imported pool has a directory here. */
static int refuse_zpools(const char *kstat)
{
	char io[512];
	int code = E_OK;
	struct dirent *e;
	struct stat st;
	DIR *d = opendir(kstat);

	if (!d)
		return E_OK;
	while (code == E_OK && (e = readdir(d))) {
		if (e->d_name[0] == '.' || snprintf(io, sizeof io, "%s/%s", kstat, e->d_name) >= (int)sizeof io)
			continue;
		if (!stat(io, &st) && S_ISDIR(st.st_mode))
			code = fault(E_MOUNTED, 0, "the ZFS pool %.100s is imported", e->d_name);
	}
	closedir(d);
	return code;
}

int mounts_check(const char *mountinfo)
{
	int code = mounts_each(mountinfo, refuse_mounted, NULL);

	return code == E_OK ? refuse_zpools("/proc/spl/kstat/zfs") : code;
}
