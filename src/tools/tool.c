/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <config.h>
#include "tools/tool.h"

#include "base/error.h"
#include "base/log.h"
#include "system/machine.h"

#include <blkid/blkid.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 256 /* requests under way at once */ };

void tool_start(const char *name)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
	signal(SIGPIPE, SIG_IGN);
	/* Ignored by whoever started us, it would keep us from knowing how our own children ended. */
	signal(SIGCHLD, SIG_DFL);
	umask(077);
	log_open(name);
}

int tool_version(const char *name)
{
	char codecs[64] = "";

	for (unsigned i = 0; i < CODEC_COUNT; i++) {
		const struct codec *c = codec_by_id(i);
		if (codec_built_in(c))
			snprintf(codecs + strlen(codecs), sizeof codecs - strlen(codecs), " %s", c->name);
	}
	printf("%s (Dormouse) %s\ncodecs:%s\n", name, PACKAGE_VERSION, codecs);
	return fflush(stdout) ? E_IO : E_OK;
}

void tool_notes(const struct config *c)
{
	for (unsigned i = 0; i < c->note_count; i++)
		log_note("%s", c->notes[i]);
}

unsigned tool_threads(const struct config *c)
{
	cpu_set_t set;

	if (c->threads_set)
		return c->threads;
	if (sched_getaffinity(0, sizeof set, &set) == 0)
		return (unsigned)CPU_COUNT(&set);
	/* More processors than the set has room for. */
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (unsigned)n : 1;
}

int tool_codec(const struct config *c, const struct codec **codec, int *level)
{
	static const struct codec *const rows[] = {
		[CODEC_CHOICE_NONE] = &codec_none,
		[CODEC_CHOICE_LZO] = &codec_lzo,
		[CODEC_CHOICE_LZ4] = &codec_lz4,
		[CODEC_CHOICE_ZSTD] = &codec_zstd,
	};

	*codec = c->codec == CODEC_CHOICE_DEFAULT ? codec_default() : rows[c->codec];
	if (!c->compress)
		*codec = &codec_none;
	if (!codec_built_in(*codec))
		return fault(E_CONF, 0, "`compressor = %s': this program was built without it", (*codec)->name);
	*level = c->level ? c->level : (*codec)->level_default;
	if (*level < (*codec)->level_min || *level > (*codec)->level_max)
		return fault(E_CONF, 0, "`compressor = %s:%d': the level goes from %d to %d", (*codec)->name, *level,
			     (*codec)->level_min, (*codec)->level_max);
	return E_OK;
}

void tool_json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 32 || c > 126)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

bool tool_number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return isdigit((unsigned char)text[0]) && !*end && !errno;
}

int tool_descriptor(const char *text, int *fd)
{
	uint64_t n;

	if (!tool_number(text, &n) || n > INT_MAX || fcntl((int)n, F_GETFD) < 0)
		return fault(E_USAGE, 0, "`%s' is the number of no open descriptor", text);
	*fd = (int)n;
	return E_OK;
}

static const char printk_path[] = "/proc/sys/kernel/printk";

static bool write_loglevel(int level)
{
	char text[16];

	snprintf(text, sizeof text, "%d", level);
	return file_write_text(printk_path, text);
}

void loglevel_set(struct loglevel *l, int level)
{
	l->changed = false;
	if (file_read_text(printk_path, l->before, sizeof l->before) < 0)
		l->before[0] = 0;
	if (level < 0)
		return;
	l->changed = l->before[0] && write_loglevel(level);
	if (!l->changed)
		log_verbose("cannot set the kernel's log level");
}

void loglevel_reset(struct loglevel *l, int level)
{
	if (!l->before[0])
		return;
	if (level >= 0)
		write_loglevel(level);
	else if (l->changed)
		file_write_text(printk_path, l->before);
}

static int open_failed(const char *path, int e, bool direct)
{
	if (e == EBUSY)
		return fault(E_BUSY, 0, "%s is in use: mounted, swapped on, or part of another device", path);
	if (e == EACCES || e == EPERM)
		return fault(E_PRIVILEGE, e, "cannot open %s", path);
	if (e == EINVAL && direct)
		return fault(
			E_DEVICE, 0,
			"%s cannot be read and written past the page cache (O_DIRECT); use a swap partition, or a swap "
			"file on a file system on a disk",
			path);
	return fault(E_DEVICE, e, "cannot open %s", path);
}

static int open_flags(enum target_mode mode, bool block)
{
	int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (mode == TARGET_LOOK ? O_RDONLY : O_RDWR);

	return mode == TARGET_CLAIM && block ? flags | O_EXCL : flags;
}

static int device_size(struct target *t, uint64_t *size)
{
	int sector = 0;

	if (ioctl(t->fd, BLKGETSIZE64, size) || ioctl(t->fd, BLKSSZGET, &sector))
		return fault(E_DEVICE, errno, "cannot tell the size of %s", t->path);
	if (sector > DISK_UNIT)
		return fault(E_DEVICE, 0, "%s has sectors of %d bytes; only up to %d are supported", t->path, sector,
			     DISK_UNIT);
	return E_OK;
}

static int open_fd(struct target *t, enum target_mode mode, uint64_t *size)
{
	struct stat st;

	if (stat(t->path, &st))
		return open_failed(t->path, errno, false);
	t->block = S_ISBLK(st.st_mode);
	if (!t->block && !S_ISREG(st.st_mode))
		return fault(E_DEVICE, 0, "%s is neither a block device nor a file", t->path);
	int flags = open_flags(mode, t->block);
	t->fd = open(t->path, flags | O_DIRECT);
	if (t->fd < 0 && errno == EINVAL && !t->block)
		t->fd = open(t->path, flags);
	if (t->fd < 0)
		return open_failed(t->path, errno, t->block);
	if (t->block)
		return device_size(t, size);
	*size = (uint64_t)st.st_size;
	return E_OK;
}

int target_open(struct target *t, const char *path, enum target_mode mode)
{
	uint64_t size = 0;

	memset(t, 0, sizeof *t);
	t->path = path;
	t->fd = -1;
	int r = open_fd(t, mode, &size);
	if (r == E_OK)
		r = disk_file_open(&t->file, t->fd, size / DISK_UNIT * DISK_UNIT, DEPTH);
	if (r != E_OK)
		target_close(t);
	return r;
}

void target_close(struct target *t)
{
	if (t->fd < 0)
		return;
	disk_file_close(&t->file);
	close(t->fd);
	t->fd = -1;
}

/* Beside its parent in the same memory: calls of the kernel's only. */
static int hold(void *ctx)
{
	struct target *t = ctx;

	/* Who reads what we print would wait for the end of it. */
	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	disk_file_settle(&t->file);
	_exit(E_OK);
}

void target_leave(struct target *t, int code)
{
	static uint8_t stack[64 << 10] __attribute__((aligned(64)));

	if (disk_answers(&t->file.disk)) {
		target_close(t);
		return;
	}
	int pid = clone(hold, stack + sizeof stack, CLONE_VM, t);
	if (pid > 0)
		log_note("process %d waits for what %s still owes", pid, t->path);
	else
		log_error("waiting for what %s still owes: %s", t->path, strerror(errno));
	_exit(code);
}

int target_content(const char *path, char type[TARGET_CONTENT])
{
	const char *seen = "";
	blkid_probe probe = blkid_new_probe_from_filename(path);

	if (!probe)
		return fault(E_DEVICE, errno, "cannot be looked at");
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE);
	blkid_probe_enable_partitions(probe, 1);
	int found = blkid_do_safeprobe(probe);
	if (found == -2)
		seen = "more than one kind of data";
	else if (found == 0 && blkid_probe_lookup_value(probe, "TYPE", &seen, NULL))
		seen = "a partition table";
	snprintf(type, TARGET_CONTENT, "%.*s", TARGET_CONTENT - 1, seen);
	blkid_free_probe(probe);
	return E_OK;
}
