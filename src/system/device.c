/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/device.h"

#include "base/clock.h"
#include "base/error.h"
#include "system/area.h"

#include <blkid/blkid.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* mkswap makes no area smaller than ten pages of 4096 bytes. */
enum { SMALLEST = 10 * 4096, STACK_DEPTH = 16 };

static const char sys_class_block[] = "/sys/class/block";

/* Small files */

bool read_line_at(const char *dir, const char *file, char *out, size_t size)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	out[0] = 0;
	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, out, size);
	close(fd);
	if (n < 0 || (size_t)n == size)
		n = 0;
	out[n] = 0;
	out[strcspn(out, "\n")] = 0;
	return n > 0;
}

bool uevent_value(const char *dir, const char *key, char *out, size_t size)
{
	char path[PATH_MAX], line[512];
	size_t n = strlen(key);
	bool found = false;
	FILE *f;

	if (snprintf(path, sizeof path, "%s/uevent", dir) >= (int)sizeof path)
		return false;
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		found = !strncmp(line, key, n) && line[n] == '=' && strlen(line + n + 1) < size;
	}
	fclose(f);
	if (found)
		strcpy(out, line + n + 1);
	return found;
}

void unescape_octal(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
		    s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = 0;
}

static bool is_block(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISBLK(st.st_mode);
}

/* Walking /sys/class/block */

/* "sr0" for "sr", not "sram": the letters and then a digit. */
static bool named(const char *name, const char *letters)
{
	size_t n = strlen(letters);

	return !strncmp(name, letters, n) && isdigit((unsigned char)name[n]);
}

static bool has_entries(const char *dir, const char *sub)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool found = false;
	DIR *d;

	if (snprintf(path, sizeof path, "%s/%s", dir, sub) >= (int)sizeof path || !(d = opendir(path)))
		return false;
	while (!found && (e = readdir(d)))
		found = e->d_name[0] != '.';
	closedir(d);
	return found;
}

/* Partitions are directories below their disk's, with its name in front and a file "partition" in them. */
static bool has_partitions(const char *dir, const char *name)
{
	size_t n = strlen(name);
	char file[PATH_MAX];
	struct dirent *e;
	bool found = false;
	DIR *d = opendir(dir);

	if (!d)
		return false;
	while (!found && (e = readdir(d)))
		found = !strncmp(e->d_name, name, n) &&
			snprintf(file, sizeof file, "%s/%s/partition", dir, e->d_name) < (int)sizeof file &&
			!access(file, F_OK);
	closedir(d);
	return found;
}

static void set_devname(struct block_device *d, const char *dir)
{
	if (uevent_value(dir, "DEVNAME", d->devname, sizeof d->devname))
		return;
	strcpy(d->devname, d->name);
	for (char *s = d->devname; (s = strchr(s, '!')); s++)
		*s = '/';
}

static bool device_from_sys(const char *dir, const char *name, struct block_device *d)
{
	char text[64];

	memset(d, 0, sizeof *d);
	if (strlen(name) >= sizeof d->name)
		return false;
	strcpy(d->name, name);
	if (!read_line_at(dir, "dev", text, sizeof text) || sscanf(text, "%u:%u", &d->major, &d->minor) != 2)
		return false;
	if (!read_line_at(dir, "size", text, sizeof text))
		return false;
	d->size = strtoull(text, NULL, 10) * 512;
	set_devname(d, dir);
	d->divided = has_partitions(dir, name);
	d->held = has_entries(dir, "holders");
	return true;
}

void block_devices_each(const char *sys_block, bool (*visit)(void *ctx, const struct block_device *d), void *ctx)
{
	char dir[PATH_MAX];
	struct block_device dev;
	struct dirent *e;
	bool done = false;
	DIR *d = opendir(sys_block);

	if (!d)
		return;
	while (!done && (e = readdir(d))) {
		if (e->d_name[0] == '.' || named(e->d_name, "fd") || named(e->d_name, "sr") || named(e->d_name, "ram"))
			continue;
		if (snprintf(dir, sizeof dir, "%s/%s", sys_block, e->d_name) >= (int)sizeof dir)
			continue;
		if (device_from_sys(dir, e->d_name, &dev) && dev.size >= SMALLEST)
			done = visit(ctx, &dev);
	}
	closedir(d);
}

/* Nodes */

static bool is_device(const char *path, dev_t device)
{
	struct stat st;

	return !stat(path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == device;
}

static bool node_in(const char *dir, dev_t device, char path[DEVICE_PATH])
{
	struct dirent *e;
	bool found = false;
	DIR *d = opendir(dir);

	if (!d)
		return false;
	while (!found && (e = readdir(d)))
		found = e->d_name[0] != '.' && snprintf(path, DEVICE_PATH, "%s/%s", dir, e->d_name) < DEVICE_PATH &&
			is_device(path, device);
	closedir(d);
	return found;
}

bool device_node(dev_t device, char path[DEVICE_PATH])
{
	static const char *const places[] = {"/dev/mapper", "/dev", "/dev/block"};
	char dir[64], name[DEVICE_NAME];

	snprintf(dir, sizeof dir, "/sys/dev/block/%u:%u", major(device), minor(device));
	if (uevent_value(dir, "DEVNAME", name, sizeof name)) {
		snprintf(path, DEVICE_PATH, "/dev/%s", name);
		if (is_device(path, device))
			return true;
	}
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		if (node_in(places[i], device, path))
			return true;
	path[0] = 0;
	return false;
}

/* Resolving UUID= and the like */

enum tag { TAG_UUID, TAG_LABEL, TAG_PARTUUID, TAG_PARTLABEL, TAGS };

static const struct {
	const char *prefix, *links;
	const char *blkid;  /* libblkid's name of the value */
	const char *uevent; /* the kernel's, newer ones only */
} tags[TAGS] = {
	[TAG_UUID] = {"UUID=", "/dev/disk/by-uuid/", "UUID", NULL},
	[TAG_LABEL] = {"LABEL=", "/dev/disk/by-label/", "LABEL", NULL},
	[TAG_PARTUUID] = {"PARTUUID=", "/dev/disk/by-partuuid/", "PART_ENTRY_UUID", "PARTUUID"},
	[TAG_PARTLABEL] = {"PARTLABEL=", "/dev/disk/by-partlabel/", "PART_ENTRY_NAME", "PARTNAME"},
};

struct lookup {
	enum tag tag;
	char value[DEVICE_PATH];
	char path[DEVICE_PATH]; /* the best found so far */
	int rank;		/* of it; 0 = none yet */
};

/* UUIDs in either case, labels exactly. */
static bool tag_matches(const struct lookup *l, const char *value)
{
	return l->tag == TAG_UUID || l->tag == TAG_PARTUUID ? !strcasecmp(value, l->value) : !strcmp(value, l->value);
}

static bool by_link(struct lookup *l)
{
	char encoded[DEVICE_PATH];

	if (blkid_encode_string(l->value, encoded, sizeof encoded))
		return false;
	return snprintf(l->path, sizeof l->path, "%s%s", tags[l->tag].links, encoded) < (int)sizeof l->path &&
	       is_block(l->path);
}

static bool visit_uevent(void *ctx, const struct block_device *d)
{
	char dir[PATH_MAX], value[DEVICE_PATH];
	struct lookup *l = ctx;

	snprintf(dir, sizeof dir, "%s/%s", sys_class_block, d->name);
	if (!uevent_value(dir, tags[l->tag].uevent, value, sizeof value) || !tag_matches(l, value))
		return false;
	l->rank = device_node(makedev(d->major, d->minor), l->path);
	return l->rank;
}

/* Only superblocks or only the partition's entry, whichever the tag is about. */
static blkid_probe new_probe(int fd, enum tag tag)
{
	blkid_probe pr = blkid_new_probe();

	if (!pr)
		return NULL;
	if (blkid_probe_set_device(pr, fd, 0, 0)) {
		blkid_free_probe(pr);
		return NULL;
	}
	blkid_probe_enable_superblocks(pr, tag == TAG_UUID || tag == TAG_LABEL);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_UUID | BLKID_SUBLKS_LABEL | BLKID_SUBLKS_TYPE);
	blkid_probe_enable_partitions(pr, tag == TAG_PARTUUID || tag == TAG_PARTLABEL);
	blkid_probe_set_partitions_flags(pr, BLKID_PARTS_ENTRY_DETAILS);
	return pr;
}

/* 0: no match.  A clone or a leg of a multipath or mirror ranks below what is stacked on it; an image above all. */
static int probe_rank(const struct lookup *l, int fd, bool held)
{
	blkid_probe pr = new_probe(fd, l->tag);
	const char *value, *type;
	int rank = 0;

	if (!pr)
		return 0;
	if (blkid_do_safeprobe(pr) == 0 && !blkid_probe_lookup_value(pr, tags[l->tag].blkid, &value, NULL) &&
	    tag_matches(l, value)) {
		rank = 1 + 2 * !held;
		if (!blkid_probe_lookup_value(pr, "TYPE", &type, NULL) && strstr(type, "suspend"))
			rank++;
	}
	blkid_free_probe(pr);
	return rank;
}

static bool tag_of(int fd, enum tag tag, char *name, size_t size)
{
	blkid_probe pr = new_probe(fd, tag);
	const char *value;
	bool found = pr && blkid_do_safeprobe(pr) == 0 &&
		     !blkid_probe_lookup_value(pr, tags[tag].blkid, &value, NULL) &&
		     snprintf(name, size, "%s%s", tags[tag].prefix, value) < (int)size;

	blkid_free_probe(pr);
	return found;
}

void area_name(const struct area *a, char name[AREA_PATH])
{
	char dir[64], mapping[DEVICE_NAME];

	snprintf(dir, sizeof dir, "/sys/dev/block/%u:%u/dm", major(a->device), minor(a->device));
	if (read_line_at(dir, "name", mapping, sizeof mapping)) {
		snprintf(name, AREA_PATH, "/dev/mapper/%s", mapping);
		return;
	}
	int fd = open(a->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool found = fd >= 0 && (tag_of(fd, TAG_UUID, name, AREA_PATH) || tag_of(fd, TAG_PARTUUID, name, AREA_PATH));
	if (fd >= 0)
		close(fd);
	if (!found)
		strcpy(name, a->path);
}

static bool visit_probe(void *ctx, const struct block_device *d)
{
	char path[DEVICE_PATH];
	struct lookup *l = ctx;
	int fd, rank;

	if (d->divided || !device_node(makedev(d->major, d->minor), path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	rank = probe_rank(l, fd, d->held);
	close(fd);
	if (rank > l->rank) {
		l->rank = rank;
		strcpy(l->path, path);
	}
	return false;
}

static int resolve_tag(struct lookup *l)
{
	if (by_link(l))
		return E_OK;
	if (tags[l->tag].uevent)
		block_devices_each(sys_class_block, visit_uevent, l);
	if (!l->rank)
		block_devices_each(sys_class_block, visit_probe, l);
	return l->rank ? E_OK : E_DEVICE;
}

/* Takes UUID="..." apart; E_CONF when it is empty or too long. */
static int tag_value(const char *s, struct lookup *l)
{
	size_t n = strlen(s);

	if (n >= 2 && (*s == '"' || *s == '\'') && s[n - 1] == *s) {
		s++;
		n -= 2;
	}
	if (!n || n >= sizeof l->value)
		return E_CONF;
	memcpy(l->value, s, n);
	l->value[n] = 0;
	return E_OK;
}

/* udev writes odd characters as \x20. */
static void unescape_hex(char *s)
{
	char *to = s;
	unsigned v;

	while (*s) {
		if (s[0] == '\\' && s[1] == 'x' && isxdigit((unsigned char)s[2]) && isxdigit((unsigned char)s[3])) {
			sscanf(s + 2, "%2x", &v);
			*to++ = (char)v;
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = 0;
}

/* Resolving names */

static bool visit_mapper(void *ctx, const struct block_device *d)
{
	char dir[PATH_MAX], name[DEVICE_PATH];
	struct lookup *l = ctx;

	snprintf(dir, sizeof dir, "%s/%s/dm", sys_class_block, d->name);
	if (!read_line_at(dir, "name", name, sizeof name) || strcmp(name, l->value))
		return false;
	l->rank = device_node(makedev(d->major, d->minor), l->path);
	return true;
}

/* A link that udev would have made, without udev. */
static int resolve_link(const char *spec, char path[AREA_PATH])
{
	static const char mapper[] = "/dev/mapper/";
	struct lookup l = {.rank = 0};
	int code = E_DEVICE;

	for (unsigned i = 0; i < TAGS; i++) {
		size_t n = strlen(tags[i].links);
		if (strncmp(spec, tags[i].links, n) || tag_value(spec + n, &l))
			continue;
		l.tag = (enum tag)i;
		unescape_hex(l.value);
		code = resolve_tag(&l);
	}
	if (!strncmp(spec, mapper, strlen(mapper)) && !tag_value(spec + strlen(mapper), &l)) {
		block_devices_each(sys_class_block, visit_mapper, &l);
		code = l.rank ? E_OK : E_DEVICE;
	}
	if (code == E_OK)
		strcpy(path, l.path);
	return code;
}

static int resolve_path(const char *spec, char path[AREA_PATH])
{
	if (strlen(spec) >= AREA_PATH)
		return E_CONF;
	if (!is_block(spec))
		return resolve_link(spec, path);
	strcpy(path, spec);
	return E_OK;
}

static int resolve_number(const char *spec, char path[AREA_PATH])
{
	unsigned ma, mi;
	char more;

	if (!isdigit((unsigned char)*spec) || sscanf(spec, "%u:%u%c", &ma, &mi, &more) != 2)
		return E_CONF;
	return device_node(makedev(ma, mi), path) ? E_OK : E_DEVICE;
}

/* Notes nothing, since a device may be waited for. */
static int resolve(const char *spec, char path[AREA_PATH])
{
	struct lookup l = {.rank = 0};
	int code;

	path[0] = 0;
	if (*spec == '/')
		return resolve_path(spec, path);
	for (unsigned i = 0; i < TAGS; i++) {
		size_t n = strlen(tags[i].prefix);
		if (strncmp(spec, tags[i].prefix, n))
			continue;
		l.tag = (enum tag)i;
		code = tag_value(spec + n, &l);
		if (code == E_OK)
			code = resolve_tag(&l);
		if (code == E_OK)
			strcpy(path, l.path);
		return code;
	}
	return resolve_number(spec, path);
}

static int resolve_fault(int code, const char *spec, unsigned waited)
{
	struct stat st;

	if (code == E_CONF)
		return fault(
			code, 0,
			"`%.100s' names no device; write /dev/..., UUID=, LABEL=, PARTUUID=, PARTLABEL= or MAJOR:MINOR",
			spec);
	if (*spec == '/' && !stat(spec, &st))
		return fault(code, 0, "%.100s is no block device%s", spec,
			     S_ISREG(st.st_mode) ? "; for a swap file give the device it lies on, and its offset" : "");
	if (waited)
		return fault(code, 0, "there is no device %.100s; it was waited for %u seconds", spec, waited);
	return fault(code, 0, "there is no device %.100s", spec);
}

int area_resolve(const char *spec, char path[AREA_PATH])
{
	int code = resolve(spec, path);

	return code == E_OK ? E_OK : resolve_fault(code, spec, 0);
}

int area_wait(const char *spec, unsigned seconds, char path[AREA_PATH])
{
	const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
	uint64_t end = clock_ns() + seconds * UINT64_C(1000000000);
	int code;

	while ((code = resolve(spec, path)) == E_DEVICE && clock_ns() < end)
		nanosleep(&pause, NULL);
	return code == E_OK ? E_OK : resolve_fault(code, spec, seconds);
}

/* What a device stands on */

static const struct {
	const char *letters, *why;
} unsteady[] = {
	{"loop", "a loop device does not answer while tasks are frozen"},
	{"nbd", "a network block device is served by a process, which is frozen"},
	{"ublkb", "a ublk device is served by a process, which is frozen"},
	{"zram", "zram is memory, which does not survive power-off"},
	{"zd", "a ZFS volume cannot be written while tasks are frozen"},
	{"ram", "a RAM disk does not survive power-off"},
};

const char *device_objection(const char *name)
{
	for (size_t i = 0; i < sizeof unsteady / sizeof unsteady[0]; i++)
		if (named(name, unsteady[i].letters))
			return unsteady[i].why;
	return NULL;
}

struct stack_walk {
	bool (*visit)(void *ctx, const char *real);
	void *ctx;
};

static bool walk_below(const struct stack_walk *w, const char *real, unsigned depth);

static bool walk_slaves(const struct stack_walk *w, const char *real, unsigned depth)
{
	char path[PATH_MAX], slave[PATH_MAX];
	bool done = false;
	struct dirent *e;
	DIR *d;

	if (snprintf(path, sizeof path, "%s/slaves", real) >= (int)sizeof path || !(d = opendir(path)))
		return false;
	while (!done && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (snprintf(slave, sizeof slave, "%s/slaves/%s", real, e->d_name) < (int)sizeof slave &&
		    realpath(slave, path))
			done = walk_below(w, path, depth + 1);
	}
	closedir(d);
	return done;
}

/* @real: the device's directory in /sys, links resolved.  A partition's disk is the directory above. */
static bool walk_below(const struct stack_walk *w, const char *real, unsigned depth)
{
	const char *last = strrchr(real, '/');
	char up[PATH_MAX];

	if (!last || depth > STACK_DEPTH)
		return false;
	if (w->visit(w->ctx, real))
		return true;
	if (snprintf(up, sizeof up, "%s/partition", real) < (int)sizeof up && !access(up, F_OK)) {
		snprintf(up, sizeof up, "%.*s", (int)(last - real), real);
		return walk_below(w, up, depth + 1);
	}
	return walk_slaves(w, real, depth);
}

bool stack_each(const char *sys_dev, dev_t device, bool (*visit)(void *ctx, const char *real), void *ctx)
{
	const struct stack_walk w = {visit, ctx};
	char link[PATH_MAX], real[PATH_MAX];

	if (snprintf(link, sizeof link, "%s/%u:%u", sys_dev, major(device), minor(device)) >= (int)sizeof link ||
	    !realpath(link, real))
		return false;
	return walk_below(&w, real, 0);
}

struct objection {
	char *name;
	const char *why;
};

static bool visit_objection(void *ctx, const char *real)
{
	struct objection *o = ctx;

	snprintf(o->name, DEVICE_NAME, "%.63s", strrchr(real, '/') + 1);
	o->why = device_objection(o->name);
	if (!o->why && strstr(real, "/session"))
		o->why = "iSCSI needs a process and the network, which are frozen";
	return o->why;
}

const char *stack_objection(const char *sys_dev, dev_t device, char name[DEVICE_NAME])
{
	struct objection o = {.name = name};

	name[0] = 0;
	stack_each(sys_dev, device, visit_objection, &o);
	return o.why;
}

int area_check_stack(dev_t device)
{
	char name[DEVICE_NAME];
	const char *why = stack_objection("/sys/dev/block", device, name);

	if (!why)
		return E_OK;
	return fault(E_DEVICE, 0, "the image would lie on %s: %s; use swap on a disk", name, why);
}
