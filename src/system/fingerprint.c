/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/fingerprint.h"

#include "base/error.h"
#include "system/device.h"
#include "system/fingerprint-fs.h"
#include "system/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

_Static_assert(FS_WINDOW + FS_GATHER <= FINGERPRINT_SCRATCH, "both halves fit the scratch memory");

/* One device */

static int read_fd(const struct fs_reader *r, void *buf, size_t len, uint64_t at)
{
	int fd = *(const int *)r->ctx;
	size_t done = 0;

	while (done < len && at + done < r->size) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (!n)
			errno = 0;
		if (n <= 0)
			return E_IO;
		done += (size_t)n;
	}
	return E_OK;
}

static int fd_size(int fd, uint64_t *size)
{
	struct stat st;

	if (fstat(fd, &st))
		return E_IO;
	*size = (uint64_t)st.st_size;
	return S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, size) ? E_IO : E_OK;
}

/* Notes no fault: at resume a device that cannot be read may be none of ours. */
static int take_quietly(int fd, const char *want, void *scratch, struct fingerprint *out)
{
	struct fs_reader r = {
		.read = read_fd,
		.ctx = &fd,
		.window = scratch,
		.gathered = (uint8_t *)scratch + FS_WINDOW,
	};
	int code = fd_size(fd, &r.size);

	return code == E_OK ? fs_fingerprint(&r, want, out) : code;
}

int fingerprint_take(int fd, const char *want, void *scratch, struct fingerprint *out)
{
	int code = take_quietly(fd, want, scratch, out);

	if (code == E_NOIMAGE)
		return fault(code, 0, "there is no %.16s", want);
	return code == E_OK ? E_OK : fault(code, errno, "a file system cannot be read");
}

/* The node of a block device, or a plain file that a test puts there.  -1 with errno. */
static int open_node(const char *path)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
	int fd = open(path, flags | O_DIRECT);

	return fd < 0 && errno == EINVAL ? open(path, flags) : fd;
}

/* The mounted file systems */

struct fs_item {
	int fd;
	unsigned major, minor;
	char type[17];
	char name[13];
};

struct fs_list {
	unsigned count;
	struct fs_item item[FINGERPRINTS_MAX];
	void *scratch; /* while the list is made */
};

static bool is_listed(const struct fs_list *l, dev_t device)
{
	for (unsigned i = 0; i < l->count; i++)
		if (makedev(l->item[i].major, l->item[i].minor) == device)
			return true;
	return false;
}

/* The name people know: the device mapper's, else the one in /sys. */
static void name_device(dev_t device, const char *node, char name[13])
{
	char dir[64], text[DEVICE_PATH];
	const char *last = strrchr(node, '/');

	snprintf(dir, sizeof dir, "/sys/dev/block/%u:%u/dm", major(device), minor(device));
	if (!read_line_at(dir, "name", text, sizeof text))
		snprintf(text, sizeof text, "%s", last ? last + 1 : node);
	snprintf(name, 13, "%.12s", text);
}

/* A medium that was pulled out while mounted is no reason to refuse. */
static bool is_gone(dev_t device)
{
	char dir[64];

	snprintf(dir, sizeof dir, "/sys/dev/block/%u:%u", major(device), minor(device));
	return access(dir, F_OK) && errno == ENOENT;
}

/* Reading a device that a frozen process or workqueue serves would never end; it is left out. */
static bool answers_while_frozen(dev_t device)
{
	char name[DEVICE_NAME];

	return !stack_objection("/sys/dev/block", device, name) || !device_objection(name);
}

static int add_device(struct fs_list *l, dev_t device, const struct mount_line *m)
{
	char path[DEVICE_PATH];
	struct fs_item *item;
	int fd;

	if (is_listed(l, device) || is_gone(device) || !answers_while_frozen(device))
		return E_OK;
	if (l->count == FINGERPRINTS_MAX)
		return fault(E_DEVICE, 0, "more than %d file systems are mounted", FINGERPRINTS_MAX);
	if (!device_node(device, path))
		return fault(E_IO, 0, "the device %u:%u, mounted at %.100s, has no node in /dev", major(device),
			     minor(device), m->point);
	fd = open_node(path);
	if (fd < 0 && (errno == ENOMEDIUM || errno == ENXIO || errno == ENODEV))
		return E_OK;
	if (fd < 0)
		return fault(errno == EACCES || errno == EPERM ? E_PRIVILEGE : E_IO, errno, "%s, mounted at %.100s",
			     path, m->point);
	item = &l->item[l->count++];
	*item = (struct fs_item){.fd = fd, .major = major(device), .minor = minor(device)};
	snprintf(item->type, sizeof item->type, "%.16s", m->type);
	name_device(device, path, item->name);
	return E_OK;
}

/* File systems on several devices */

static int add_btrfs_devices(struct fs_list *l, id128 fsid, const struct mount_line *m)
{
	char dir[PATH_MAX], file[PATH_MAX], text[32], id[37];
	unsigned ma, mi;
	int code = E_OK;
	struct dirent *e;
	DIR *d;

	id_text(fsid, id);
	snprintf(dir, sizeof dir, "/sys/fs/btrfs/%s/devices", id);
	d = opendir(dir);
	if (!d)
		return E_OK;
	while (code == E_OK && (e = readdir(d))) {
		if (e->d_name[0] == '.' || snprintf(file, sizeof file, "%s/%s", dir, e->d_name) >= (int)sizeof file)
			continue;
		if (read_line_at(file, "dev", text, sizeof text) && sscanf(text, "%u:%u", &ma, &mi) == 2)
			code = add_device(l, makedev(ma, mi), m);
	}
	closedir(d);
	return code;
}

static bool fsid_of_mount(const char *point, id128 *fsid)
{
	struct btrfs_ioctl_fs_info_args info = {0};
	int fd = open(point, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NONBLOCK);
	bool known = fd >= 0 && !ioctl(fd, BTRFS_IOC_FS_INFO, &info);

	if (fd >= 0)
		close(fd);
	if (known)
		memcpy(fsid->b, info.fsid, sizeof fsid->b);
	return known;
}

static bool fsid_of_device(dev_t device, void *scratch, id128 *fsid)
{
	char path[DEVICE_PATH];
	struct fingerprint f;
	int fd = device_node(device, path) ? open_node(path) : -1;
	bool known = fd >= 0 && take_quietly(fd, "btrfs", scratch, &f) == E_OK;

	if (fd >= 0)
		close(fd);
	if (known)
		*fsid = f.uuid;
	return known;
}

static bool source_device(const char *source, dev_t *device)
{
	struct stat st;

	if (stat(source, &st) || !S_ISBLK(st.st_mode))
		return false;
	*device = st.st_rdev;
	return true;
}

/* The mount point may be hidden below another mount, and the source may be a name of the kernel's own (/dev/root). */
static int add_btrfs(struct fs_list *l, const struct mount_line *m)
{
	id128 fsid;
	dev_t device;
	bool by_source = source_device(m->source, &device);
	int code = by_source ? add_device(l, device, m) : E_OK;

	if (code != E_OK)
		return code;
	if (by_source ? fsid_of_device(device, l->scratch, &fsid) : fsid_of_mount(m->point, &fsid))
		return add_btrfs_devices(l, fsid, m);
	return fault(E_IO, 0, "the devices of the btrfs mounted at %.100s (%.100s) cannot be found", m->point,
		     m->source);
}

/* bcachefs: "/dev/sda1:/dev/sdb1". */
static int add_sources(struct fs_list *l, const struct mount_line *m)
{
	char text[MOUNT_TEXT], *rest = text, *source;
	int code = E_OK;
	dev_t device;

	strcpy(text, m->source);
	while (code == E_OK && (source = strsep(&rest, ":")))
		if (source_device(source, &device))
			code = add_device(l, device, m);
	return code;
}

/* Nothing writes to these while they are mounted or ever after. */
static bool never_written(const char *type)
{
	return !strcmp(type, "squashfs") || !strcmp(type, "erofs") || !strcmp(type, "iso9660");
}

static int add_mount(void *ctx, const struct mount_line *m)
{
	struct fs_list *l = ctx;

	if (never_written(m->type) || !mount_on_block(m))
		return E_OK;
	if (!strcmp(m->type, "btrfs"))
		return add_btrfs(l, m);
	if (m->major)
		return add_device(l, makedev(m->major, m->minor), m);
	return add_sources(l, m);
}

int fs_list_open(const char *mountinfo, struct fs_list **out)
{
	struct fs_list *l = calloc(1, sizeof *l);
	int code;

	*out = NULL;
	if (!l || !(l->scratch = aligned_alloc(FS_UNIT, FINGERPRINT_SCRATCH))) {
		free(l);
		return fault(E_MEMORY, 0, "no memory for the list of file systems");
	}
	code = mounts_each(mountinfo, add_mount, l);
	free(l->scratch);
	l->scratch = NULL;
	if (code == E_OK)
		*out = l;
	else
		fs_list_close(l);
	return code;
}

unsigned fs_list_count(const struct fs_list *l)
{
	return l->count;
}

int fs_list_take(struct fs_list *l, void *scratch, struct fingerprint *out)
{
	for (unsigned i = 0; i < l->count; i++) {
		const struct fs_item *item = &l->item[i];
		int code = take_quietly(item->fd, item->type, scratch, &out[i]);
		if (code == E_NOIMAGE)
			return fault(E_IO, 0, "%s is mounted as %s, but none is on it", item->name, item->type);
		if (code != E_OK)
			return fault(E_IO, errno, "%s (%s) cannot be read", item->name, item->type);
		out[i].major = item->major;
		out[i].minor = item->minor;
		memcpy(out[i].name, item->name, sizeof out[i].name);
	}
	return E_OK;
}

void fs_list_close(struct fs_list *l)
{
	for (unsigned i = 0; l && i < l->count; i++)
		close(l->item[i].fd);
	free(l);
}

/* Comparing at resume */

struct devices {
	struct block_device *d;
	unsigned count, room;
	bool failed;
};

static bool collect(void *ctx, const struct block_device *d)
{
	struct devices *all = ctx;

	if (all->count == all->room) {
		unsigned room = all->room ? 2 * all->room : 32;
		struct block_device *more = realloc(all->d, room * sizeof *more);
		if (!more)
			return all->failed = true;
		all->d = more;
		all->room = room;
	}
	all->d[all->count++] = *d;
	return false;
}

enum verdict { ABSENT, DIFFERS, SAME };

struct comparison {
	struct devices devices;
	const char *dev_dir;
	void *scratch;
	char *warning;
	unsigned warning_size;
};

/* Is the node the device that /sys speaks of?  Tests put plain files there. */
static bool is_node_of(int fd, const struct block_device *d)
{
	struct stat st;

	return !fstat(fd, &st) && (!S_ISBLK(st.st_mode) || st.st_rdev == makedev(d->major, d->minor));
}

static enum verdict compare_device(const struct comparison *c, const struct block_device *d,
				   const struct fingerprint *want)
{
	char path[PATH_MAX];
	struct fingerprint now = {.hash = 0};
	int fd, code = E_IO;

	if (snprintf(path, sizeof path, "%s/%s", c->dev_dir, d->devname) >= (int)sizeof path)
		return ABSENT;
	fd = open_node(path);
	if (fd < 0)
		return ABSENT;
	if (is_node_of(fd, d))
		code = take_quietly(fd, want->type, c->scratch, &now);
	close(fd);
	if (code != E_OK || !id_equal(now.uuid, want->uuid))
		return ABSENT;
	return now.hash == want->hash ? SAME : DIFFERS;
}

/* Looks at the hinted device only, or at all others. */
static enum verdict compare_devices(const struct comparison *c, const struct fingerprint *want, bool hinted)
{
	enum verdict best = ABSENT;

	for (unsigned i = 0; i < c->devices.count && best != SAME; i++) {
		const struct block_device *d = &c->devices.d[i];
		if ((d->major == want->major && d->minor == want->minor) != hinted)
			continue;
		enum verdict v = compare_device(c, d, want);
		best = v > best ? v : best;
	}
	return best;
}

static enum verdict compare_one(const struct comparison *c, const struct fingerprint *want)
{
	enum verdict hint = compare_devices(c, want, true), others;

	if (hint == SAME || id_is_zero(want->uuid))
		return hint;
	others = compare_devices(c, want, false);
	return others > hint ? others : hint;
}

static void append(struct comparison *c, const struct fingerprint *f)
{
	size_t n = c->warning_size ? strlen(c->warning) : 0;

	if (c->warning_size)
		snprintf(c->warning + n, c->warning_size - n, "%sthe %s on %s was written to", n ? "; " : "", f->type,
			 f->name);
}

static int judge(struct comparison *c, const struct fingerprint *want)
{
	char id[37] = "without a UUID";

	if (compare_one(c, want) != DIFFERS)
		return E_OK;
	if (want->flags & FINGERPRINT_WARN) {
		append(c, want);
		return E_OK;
	}
	if (!id_is_zero(want->uuid))
		id_text(want->uuid, id);
	return fault(E_STALE, 0, "the %s %s (%s when the image was made) was used since", want->type, id, want->name);
}

int fingerprints_compare(const struct fingerprint *want, unsigned n, const char *sys_block, const char *dev_dir,
			 char *warning, unsigned warning_size)
{
	struct comparison c = {.dev_dir = dev_dir, .warning = warning, .warning_size = warning_size};
	int code = E_OK;

	c.scratch = aligned_alloc(FS_UNIT, FINGERPRINT_SCRATCH);
	block_devices_each(sys_block, collect, &c.devices);
	if (!c.scratch || c.devices.failed)
		code = fault(E_MEMORY, 0, "no memory to compare file systems");
	for (unsigned i = 0; i < n && code == E_OK; i++)
		code = judge(&c, &want[i]);
	free(c.devices.d);
	free(c.scratch);
	return code;
}
