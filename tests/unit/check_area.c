/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What needs root and a loop device is passed over without them. */
#include "base/bytes.h"
#include "base/error.h"
#include "system/area.h"
#include "system/device.h"
#include "system/mounts.h"
#include "system/swapfile.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fiemap.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

static char base[32], dir[64], loop[64];
static bool mounted;

static void __attribute__((format(printf, 1, 2))) path_set(const char *fmt, ...);
static char path[512];

static void path_set(const char *fmt, ...)
{
	char below[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(below, sizeof below, fmt, ap);
	va_end(ap);
	snprintf(path, sizeof path, "%s/%s", dir, below);
}

/* Runs a shell command; its first line of output goes to @out when that is not NULL. */
static bool __attribute__((format(printf, 2, 3))) run(char out[256], const char *fmt, ...)
{
	char command[1024], line[256] = "";
	va_list ap;

	va_start(ap, fmt);
	strcpy(command, "exec 2>/dev/null; ");
	vsnprintf(command + strlen(command), sizeof command - strlen(command), fmt, ap);
	va_end(ap);
	FILE *p = popen(command, "r");
	if (!p)
		return false;
	if (fgets(line, sizeof line, p))
		line[strcspn(line, "\n")] = 0;
	if (out)
		strcpy(out, line);
	while (fgets(line, sizeof line, p))
		;
	return pclose(p) == 0;
}

static void skipped(const char *why)
{
	fprintf(stderr, "check_area: a test is left out: %s\n", why);
}

static void setup(void)
{
	snprintf(dir, sizeof dir, "%s/XXXXXX", base);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	loop[0] = 0;
	mounted = false;
	fault_clear();
}

static void teardown(void)
{
	if (mounted)
		run(NULL, "umount %s/mnt", dir);
	if (loop[0])
		run(NULL, "losetup -d %s", loop);
	run(NULL, "rm -rf %s", dir);
}

/* A test that failed never reached its teardown. */
static void clean_up(void)
{
	run(NULL,
	    "for d in %s/*; do test -d $d || continue; swapoff $d/mnt/swap; umount $d/mnt; "
	    "for i in $d/image $d/image2; do losetup -n -O NAME -j $i | xargs -r losetup -d; done; done; rm -rf %s",
	    base, base);
}

static void write_text(const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

/* A loop device of @size over an image that @mkfs makes; false when this machine has none or the tools lack. */
static bool loop_with(const char *size, const char *mkfs)
{
	if (geteuid() || !run(NULL, "truncate -s %s %s/image && %s %s/image", size, dir, mkfs, dir))
		return false;
	char out[256];
	if (!run(out, "losetup --direct-io=off -f --show -P %s/image", dir) || strlen(out) >= sizeof loop)
		return false;
	strcpy(loop, out);
	return true;
}

static bool mount_loop(const char *size, const char *mkfs)
{
	if (!loop_with(size, mkfs))
		return false;
	mounted = run(NULL, "mkdir %s/mnt && mount %s %s/mnt", dir, loop, dir);
	return mounted;
}

static dev_t loop_number(void)
{
	struct stat st;

	ck_assert_int_eq(stat(loop, &st), 0);
	return st.st_rdev;
}

/* /proc/swaps */

START_TEST(test_swaps)
{
	struct swap_line s[4];

	path_set("swaps");
	write_text("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
		   "/dev/dm-1                               partition\t16777212\t1024\t-2\n"
		   "/my\\040swap\\011file                    file\t\t4194300\t\t0\t\t100\n"
		   "/swap\\040(deleted)                      file\t\t18446744073709551\t0\t-3\n");
	ck_assert_int_eq(swaps_read(path, s, 4), 3);
	ck_assert_str_eq(s[0].path, "/dev/dm-1");
	ck_assert(!s[0].is_file);
	ck_assert_uint_eq(s[0].size_kib, 16777212);
	ck_assert_uint_eq(s[0].used_kib, 1024);
	ck_assert_int_eq(s[0].priority, -2);
	ck_assert_str_eq(s[1].path, "/my swap\tfile");
	ck_assert(s[1].is_file);
	ck_assert_int_eq(s[1].priority, 100);
	ck_assert_uint_eq(s[2].size_kib, UINT64_C(18446744073709551));
	ck_assert_int_eq(swaps_read(path, s, 1), 1);
	path_set("absent");
	ck_assert_int_eq(swaps_read(path, s, 4), -1);
}
END_TEST

/* Mounts */

START_TEST(test_mount_line)
{
	struct mount_line m;
	char line[] =
		"36 35 259:65538 / /mnt/my\\040disk rw,noatime master:1 propagate_from:2 - ext4 /dev/nvme0n1p2 rw\n";
	char none[] = "41 22 0:38 / /x rw - tmpfs  rw\n", bad[] = "nonsense\n", cut[] = "36 35 98:0 / /mnt";

	ck_assert(mount_parse(line, &m));
	ck_assert_uint_eq(m.major, 259);
	ck_assert_uint_eq(m.minor, 65538);
	ck_assert_str_eq(m.point, "/mnt/my disk");
	ck_assert_str_eq(m.type, "ext4");
	ck_assert_str_eq(m.source, "/dev/nvme0n1p2");
	ck_assert(mount_parse(none, &m));
	ck_assert(!mount_on_block(&m));
	ck_assert(!mount_parse(bad, &m));
	ck_assert(!mount_parse(cut, &m));
}
END_TEST

static const struct {
	const char *line;
	int code;
} mounts[] = {
	{"22 1 0:20 / / rw - rootfs rootfs rw\n23 22 0:21 / /proc rw - proc proc rw\n", E_OK},
	{"23 22 0:6 / /dev rw - devtmpfs devtmpfs rw\n24 22 0:7 / /run rw - tmpfs tmpfs rw\n", E_OK},
	{"30 22 8:2 / /sysroot ro - ext4 /dev/sda2 ro\n", E_MOUNTED},
	{"30 22 8:2 / /sysroot ro - xfs /dev/root ro\n", E_MOUNTED},
	{"30 22 0:30 /@ /sysroot rw - btrfs /dev/sdzz9 rw\n", E_MOUNTED},
	{"30 22 0:31 / /mnt rw - bcachefs /dev/sdzz1:/dev/sdzz2 rw\n", E_MOUNTED},
	{"30 22 0:32 / /mnt rw - zfs tank/root rw\n", E_MOUNTED},
	{"30 22 7:0 / /live ro - squashfs /dev/loop0 ro\n31 22 11:0 / /cd ro - iso9660 /dev/sr0 ro\n", E_OK},
	{"30 22 0:33 / /mnt rw - fuse.x /dev/null rw\n", E_OK},
	{"30 22 0:34 / /mnt rw - nfs server:/export rw\n", E_OK},
	{"30 22 0:35 / /mnt rw - overlay overlay rw,lowerdir=/dev/x\n", E_OK},
};

START_TEST(test_mounts)
{
	path_set("mountinfo");
	write_text(mounts[_i].line);
	int code = mounts_check(path);
	ck_assert_msg(code == mounts[_i].code, "%s: %d %s", mounts[_i].line, code, fault_text());
	if (code == E_MOUNTED)
		ck_assert_ptr_nonnull(strstr(fault_text(), "is mounted at /"));
}
END_TEST

START_TEST(test_mounts_unreadable)
{
	path_set("absent");
	ck_assert_int_eq(mounts_check(path), E_INTERNAL);
	ck_assert_ptr_nonnull(strstr(fault_text(), "/proc"));
}
END_TEST

/* A false /sys */

static void make_device(const char *below, const char *number, const char *sectors)
{
	ck_assert(run(NULL, "mkdir -p '%s/sys/%s/slaves' '%s/sys/%s/holders'", dir, below, dir, below));
	path_set("sys/%s/dev", below);
	write_text(number);
	path_set("sys/%s/size", below);
	write_text(sectors);
	ck_assert(run(NULL, "mkdir -p %s/class %s/dev && ln -sn '../sys/%s' %s/class/ && ln -sn '../sys/%s' %s/dev/%s",
		      dir, dir, below, dir, below, dir, number));
}

static void make_partition(const char *below)
{
	path_set("sys/%s/partition", below);
	write_text("1\n");
}

static void make_slave(const char *below, const char *slave)
{
	ck_assert(run(NULL, "ln -sn %s/sys/%s %s/sys/%s/slaves/", dir, slave, dir, below));
}

static const char *objection_to(unsigned ma, unsigned mi, char name[DEVICE_NAME])
{
	path_set("dev");
	return stack_objection(path, makedev(ma, mi), name);
}

START_TEST(test_stack)
{
	char name[DEVICE_NAME];

	make_device("pci/ata1/block/sda", "8:0", "1000000");
	make_device("pci/ata1/block/sda/sda1", "8:1", "500000");
	make_partition("pci/ata1/block/sda/sda1");
	make_device("virtual/block/loop0", "7:0", "1000000");
	make_device("virtual/block/loop0/loop0p1", "259:0", "1000000");
	make_partition("virtual/block/loop0/loop0p1");
	make_device("virtual/block/nbd3", "43:0", "1000000");
	make_device("virtual/block/zram0", "252:0", "1000000");
	make_device("virtual/block/zd16", "230:16", "1000000");
	make_device("virtual/block/ublkb0", "259:7", "1000000");
	make_device("platform/host3/session1/target3:0:0/block/sdb", "8:16", "1000000");
	make_device("virtual/block/dm-0", "254:0", "1000000");
	make_device("virtual/block/dm-1", "254:1", "1000000");
	make_device("virtual/block/dm-2", "254:2", "1000000");
	make_slave("virtual/block/dm-0", "pci/ata1/block/sda/sda1");
	make_slave("virtual/block/dm-1", "virtual/block/dm-0");
	make_slave("virtual/block/dm-2", "virtual/block/dm-1");
	ck_assert_ptr_null(objection_to(8, 1, name));
	ck_assert_ptr_null(objection_to(254, 2, name));
	make_slave("virtual/block/dm-1", "virtual/block/loop0/loop0p1");
	ck_assert_ptr_nonnull(objection_to(254, 2, name));
	ck_assert_str_eq(name, "loop0p1");
	ck_assert_ptr_nonnull(strstr(objection_to(7, 0, name), "loop"));
	ck_assert_ptr_nonnull(objection_to(43, 0, name));
	ck_assert_ptr_nonnull(objection_to(252, 0, name));
	ck_assert_ptr_nonnull(objection_to(230, 16, name));
	ck_assert_ptr_nonnull(objection_to(259, 7, name));
	ck_assert_ptr_nonnull(strstr(objection_to(8, 16, name), "iSCSI"));
	ck_assert_ptr_null(objection_to(9, 9, name));
	ck_assert_ptr_null(device_objection("loopy"));
	ck_assert_ptr_null(device_objection("sda"));
}
END_TEST

static bool count_device(void *ctx, const struct block_device *d)
{
	char *seen = ctx;

	sprintf(seen + strlen(seen), "%s=%s/%u:%u/%" PRIu64 "%s%s ", d->name, d->devname, d->major, d->minor, d->size,
		d->divided ? "/divided" : "", d->held ? "/held" : "");
	return false;
}

START_TEST(test_devices)
{
	char seen[1024] = "";

	make_device("pci/block/sda", "8:0", "1000000");
	make_device("pci/block/sda/sda1", "8:1", "5000000000");
	make_partition("pci/block/sda/sda1");
	make_device("pci/block/cciss!c0d0", "104:0", "1000");
	make_device("virtual/block/loop0", "7:0", "0");
	make_device("virtual/block/fd0", "2:0", "2880");
	make_device("virtual/block/sr0", "11:0", "2880000");
	make_device("virtual/block/ram0", "1:0", "8192");
	make_device("virtual/block/sdc", "8:32", "79");
	ck_assert(run(NULL, "touch %s/sys/pci/block/sda/sda1/holders/dm-0", dir));
	path_set("class");
	block_devices_each(path, count_device, seen);
	ck_assert_ptr_nonnull(strstr(seen, "sda=sda/8:0/512000000/divided "));
	ck_assert_ptr_nonnull(strstr(seen, "sda1=sda1/8:1/2560000000000/held "));
	ck_assert_ptr_nonnull(strstr(seen, "cciss!c0d0=cciss/c0d0/104:0/512000 "));
	ck_assert_uint_eq(strlen(seen), strlen("sda=sda/8:0/512000000/divided ") +
						strlen("sda1=sda1/8:1/2560000000000/held ") +
						strlen("cciss!c0d0=cciss/c0d0/104:0/512000 "));
}
END_TEST

/* Extents and chunks */

START_TEST(test_extents)
{
	struct fiemap_extent e = {.fe_physical = 1 << 20, .fe_length = 1 << 20};
	static const struct {
		uint32_t flags;
		bool first, later; /* refused there */
	} rows[] = {
		{0, false, false},
		{FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_MERGED, false, false},
		{FIEMAP_EXTENT_UNWRITTEN, true, false}, /* as fallocate leaves them */
		{FIEMAP_EXTENT_DATA_INLINE, true, true},
		{FIEMAP_EXTENT_ENCODED, true, true},
		{FIEMAP_EXTENT_SHARED, true, true},
		{FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN, true, true},
		{FIEMAP_EXTENT_NOT_ALIGNED, true, false},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		e.fe_flags = rows[i].flags;
		e.fe_logical = 0;
		ck_assert_int_eq(swap_extent_objection(&e, 4096) != NULL, rows[i].first);
		e.fe_logical = 1 << 20;
		ck_assert_int_eq(swap_extent_objection(&e, 4096) != NULL, rows[i].later);
	}
	e = (struct fiemap_extent){.fe_length = 4096};
	ck_assert_ptr_null(swap_extent_objection(&e, 4096));
	ck_assert_ptr_nonnull(swap_extent_objection(&e, 16384));
}
END_TEST

/* A file of @count extents as FIEMAP shows it: the first at @start, the others all over the device. */
struct far_file {
	uint64_t start, extent;
	unsigned count, bad; /* bad: one that is shared, none when beyond the count */
	unsigned calls;
};

static int far_fiemap(void *ctx, struct fiemap *map)
{
	struct far_file *f = ctx;
	unsigned first = (unsigned)(map->fm_start / f->extent), n = 0;

	f->calls++;
	for (unsigned i = first; i < f->count && n < map->fm_extent_count; i++, n++)
		map->fm_extents[n] = (struct fiemap_extent){
			.fe_logical = i * f->extent,
			.fe_physical = i ? f->start - (i * 7919 % f->count + 1) * f->extent * 2 : f->start,
			.fe_length = f->extent,
			.fe_flags =
				(i + 1 == f->count ? FIEMAP_EXTENT_LAST : 0) | (i == f->bad ? FIEMAP_EXTENT_SHARED : 0),
		};
	map->fm_mapped_extents = n;
	return 0;
}

/* Beyond 2^32 pages, in hundreds of fragments; what is wrong with the last of them is found too. */
START_TEST(test_far_extents)
{
	const uint64_t page = (UINT64_C(1) << 33) + 7;
	struct far_file f = {.start = page * 4096, .extent = 64 << 10, .count = 1000, .bad = 1000};
	uint64_t start = 0;

	ck_assert_int_eq(swap_extents_start(far_fiemap, &f, "/swap", 4096, &start), E_OK);
	ck_assert_uint_eq(start / 4096, page);
	ck_assert_uint_ge(f.calls, 2);
	f.bad = 999;
	ck_assert_int_eq(swap_extents_start(far_fiemap, &f, "/swap", 4096, &start), E_DEVICE);
	ck_assert_ptr_nonnull(strstr(fault_text(), "shares blocks"));
}
END_TEST

static void chunk_item(uint8_t item[80], uint64_t length, uint64_t type, uint16_t stripes, uint64_t physical)
{
	memset(item, 0, 80);
	put_le64(item, length);
	put_le64(item + 24, type);
	put_le16(item + 44, stripes);
	put_le64(item + 48, 1);
	put_le64(item + 56, physical);
}

START_TEST(test_chunks)
{
	const uint64_t logical = UINT64_C(0x123456789000), physical = UINT64_C(0x7f0000000000), length = 1 << 30;
	struct btrfs_chunk_place c;
	uint8_t item[80];
	uint64_t at;

	chunk_item(item, length, 1 /* data, single */, 1, physical);
	ck_assert_int_eq(btrfs_chunk_get(&c, logical, item, sizeof item), E_OK);
	ck_assert_uint_eq(c.device_id, 1);
	ck_assert_int_eq(btrfs_chunk_map(&c, logical + length - 4096, &at), E_OK);
	ck_assert_uint_eq(at, physical + length - 4096);
	ck_assert_int_eq(btrfs_chunk_map(&c, logical + length, &at), E_IO);
	for (unsigned bit = 3; bit <= 10; bit++) { /* RAID0 to RAID1C4, DUP */
		chunk_item(item, length, 1 | 1 << bit, 1, physical);
		ck_assert_int_eq(btrfs_chunk_get(&c, logical, item, sizeof item), E_OK);
		ck_assert_int_eq(btrfs_chunk_map(&c, logical, &at), E_DEVICE);
	}
	chunk_item(item, length, 1, 2, physical);
	ck_assert_int_eq(btrfs_chunk_get(&c, logical, item, sizeof item), E_OK);
	ck_assert_int_eq(btrfs_chunk_map(&c, logical, &at), E_DEVICE);
	ck_assert_int_eq(btrfs_chunk_get(&c, logical, item, 79), E_IO);
}
END_TEST

/* Names */

START_TEST(test_resolve_nonsense)
{
	static const char *const nonsense[] = {"sda2", "", "UUID=", "UUID=\"\"", "LABEL=", "8:", "8:2x", "ID=5", ":"};
	char out[AREA_PATH];

	for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
		ck_assert_msg(area_resolve(nonsense[i], out) == E_CONF, "%s", nonsense[i]);
	ck_assert_ptr_nonnull(strstr(fault_text(), "`sda2' names no device"));
}
END_TEST

START_TEST(test_resolve_absent)
{
	static const char *const absent[] = {"/dev/nowhere",
					     "UUID=53ad2b7e-dead-4b0b-a2c1-ad8e3a1d7bd3",
					     "LABEL=no such",
					     "PARTUUID=00000000-77",
					     "PARTLABEL=no such",
					     "4095:1048575",
					     "/dev/disk/by-uuid/53ad2b7e-dead-4b0b-a2c1-ad8e3a1d7bd3",
					     "/dev/mapper/no-such",
					     "/dev/null",
					     "/etc/passwd"};
	char out[AREA_PATH];

	for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
		ck_assert_msg(area_resolve(absent[i], out) == E_DEVICE, "%s", absent[i]);
	ck_assert_str_eq(fault_text(), "there is no device /dev/nowhere");
}
END_TEST

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

START_TEST(test_wait)
{
	char out[AREA_PATH];
	double begun = seconds();

	ck_assert_int_eq(area_wait("nonsense", 60, out), E_CONF);
	ck_assert(seconds() - begun < 1);
	fault_clear();
	begun = seconds();
	ck_assert_int_eq(area_wait("/dev/nowhere", 1, out), E_DEVICE);
	ck_assert(seconds() - begun >= 1 && seconds() - begun < 3);
	ck_assert_str_eq(fault_text(), "there is no device /dev/nowhere; it was waited for 1 seconds");
}
END_TEST

/* Real devices */

START_TEST(test_resolve_loop)
{
	char out[AREA_PATH], number[32];
	struct area a;

	if (!loop_with("4M", "mkswap -U 6f1d2a33-0c07-4d7f-8f6c-0123456789ab -L 'My Swap'")) {
		skipped("it needs root, loop devices and mkfs");
		return;
	}
	ck_assert_int_eq(area_resolve("UUID=6f1d2a33-0c07-4d7f-8f6c-0123456789ab", out), E_OK);
	ck_assert_str_eq(out, loop);
	ck_assert_int_eq(area_resolve("UUID=\"6F1D2A33-0c07-4d7f-8f6c-0123456789ab\"", out), E_OK);
	ck_assert_int_eq(area_resolve("/dev/disk/by-uuid/6f1d2a33-0c07-4d7f-8f6c-0123456789ab", out), E_OK);
	ck_assert_int_eq(area_resolve("LABEL=My Swap", out), E_OK);
	ck_assert_int_eq(area_resolve("/dev/disk/by-label/My\\x20Swap", out), E_OK);
	ck_assert_int_eq(area_wait("LABEL=My Swap", 1, out), E_OK);
	snprintf(number, sizeof number, "%u:%u", major(loop_number()), minor(loop_number()));
	ck_assert_int_eq(area_resolve(number, out), E_OK);
	ck_assert_str_eq(out, loop);
	ck_assert_int_eq(area_find("LABEL=My Swap", false, 0, 4096, &a), E_OK);
	ck_assert_str_eq(a.path, loop);
	ck_assert_str_eq(a.swap_path, loop);
	ck_assert_uint_eq(a.size, 4 << 20);
	ck_assert_uint_eq(a.start, 0);
	ck_assert(!a.active && !a.is_file);
	ck_assert(a.device == loop_number());
	ck_assert_int_eq(area_check_stack(a.device), E_DEVICE);
	/* libblkid knows an area with an image too */
	ck_assert(run(NULL, "printf ULSUSPEND | dd of=%s bs=1 seek=4086 conv=notrunc,fsync", loop));
	ck_assert_int_eq(area_resolve("UUID=6f1d2a33-0c07-4d7f-8f6c-0123456789ab", out), E_OK);
	ck_assert_int_eq(area_find(loop, false, 0, 4096, &a), E_OK);
}
END_TEST

START_TEST(test_find_refuses)
{
	struct area a;

	if (!loop_with("4M", "mkswap")) {
		skipped("it needs root, loop devices and mkfs");
		return;
	}
	ck_assert_int_eq(area_find(loop, true, 16, 4096, &a), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "no swap header stands at page 16"));
	fault_clear();
	ck_assert_int_eq(area_find(loop, true, 1024, 4096, &a), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "beyond the end"));
	fault_clear();
	ck_assert_int_eq(area_find(loop, true, UINT64_MAX / 4096, 4096, &a), E_CONF);
	fault_clear();
	ck_assert(run(NULL, "dd if=/dev/zero of=%s bs=4096 count=16 conv=fsync", loop));
	ck_assert_int_eq(area_find(loop, false, 0, 4096, &a), E_DEVICE);
	ck_assert_ptr_nonnull(strstr(fault_text(), "is no swap area"));
}
END_TEST

START_TEST(test_resolve_partition)
{
	char out[AREA_PATH], want[128];

	if (!loop_with(
		    "16M",
		    "printf 'label: gpt\\nsize=8M, name=\"cold store\", uuid=6F1D2A33-0C07-4D7F-8F6C-0123456789AB\\n' "
		    "| sfdisk -q")) {
		skipped("it needs root, loop devices and mkfs");
		return;
	}
	snprintf(want, sizeof want, "%sp1", loop);
	if (access(want, F_OK)) {
		skipped("no partitions on loop devices");
		return;
	}
	ck_assert_int_eq(area_resolve("PARTUUID=6f1d2a33-0c07-4d7f-8f6c-0123456789ab", out), E_OK);
	ck_assert_str_eq(out, want);
	ck_assert_int_eq(area_resolve("PARTLABEL=cold store", out), E_OK);
	ck_assert_str_eq(out, want);
	ck_assert_int_eq(area_resolve("PARTLABEL=Cold Store", out), E_DEVICE);
}
END_TEST

/* A partition table of the old kind, made by hand: one partition from sector 2048 on, 8192 long. */
START_TEST(test_resolve_dos_partition)
{
	char out[AREA_PATH], want[128];

	if (!loop_with("16M",
		       "f() { printf '\\170\\126\\064\\022\\0\\0\\0\\0\\0\\0\\202\\0\\0\\0\\0\\010\\0\\0\\0\\040' | "
		       "dd of=$1 bs=1 seek=440 conv=notrunc && "
		       "printf '\\125\\252' | dd of=$1 bs=1 seek=510 conv=notrunc; }; f")) {
		skipped("it needs root and loop devices");
		return;
	}
	snprintf(want, sizeof want, "%sp1", loop);
	if (!run(NULL, "partx -a %s", loop) || access(want, F_OK)) {
		skipped("no partitions on loop devices");
		return;
	}
	ck_assert_int_eq(area_resolve("PARTUUID=12345678-01", out), E_OK);
	ck_assert_str_eq(out, want);
	ck_assert_int_eq(area_resolve("PARTUUID=12345678-02", out), E_DEVICE);
}
END_TEST

/* The signature that mkswap wrote must be found where the offset says, on the device. */
static void check_offset(const char *file, uint64_t *offset)
{
	char unit[4096];
	dev_t device;

	ck_assert_msg(swap_file_offset(file, 4096, &device, offset) == E_OK, "%s", fault_text());
	ck_assert(device == loop_number());
	ck_assert(run(NULL, "sync && blockdev --flushbufs %s", loop));
	int fd = open(loop, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, unit, sizeof unit, (off_t)(*offset * 4096)), sizeof unit);
	close(fd);
	ck_assert_mem_eq(unit + 4086, "SWAPSPACE2", 10);
}

static const struct {
	const char *size, *mkfs, *make;
} file_systems[] = {
	{"64M", "mkfs.ext4 -q -F -b 4096", "fallocate -l 8M"},
	{"64M", "mkfs.ext4 -q -F -b 4096", "dd bs=1M count=8 if=/dev/zero of="},
	{"320M", "mkfs.xfs -q -f", "fallocate -l 8M"},
	{"256M", "mkfs.btrfs -q -f -m single", "btrfs filesystem mkswapfile -s 8M"},
	{"256M", "mkfs.btrfs -q -f -m dup", "btrfs filesystem mkswapfile -s 8M"},
};

START_TEST(test_swap_file)
{
	char file[128], text[256];
	uint64_t offset;
	struct area a;

	if (!mount_loop(file_systems[_i].size, file_systems[_i].mkfs)) {
		skipped("it needs root, loop devices and mkfs");
		return;
	}
	snprintf(file, sizeof file, "%s/mnt/swap", dir);
	/* something before it, so that it does not begin where every one does */
	ck_assert(run(NULL, "dd if=/dev/urandom of=%s/mnt/x bs=1M count=3", dir));
	const char *make = file_systems[_i].make;
	if (!run(NULL, "%s%s%s && chmod 600 %s && mkswap %s", make, make[strlen(make) - 1] == '=' ? "" : " ", file,
		 file, file)) {
		skipped(make);
		return;
	}
	check_offset(file, &offset);
	if (strstr(make, "btrfs") && run(text, "btrfs inspect-internal map-swapfile -r %s", file))
		ck_assert_uint_eq(strtoull(text, NULL, 10), offset);
	ck_assert_msg(area_find(file, false, 0, 4096, &a) == E_OK, "%s", fault_text());
	ck_assert_uint_eq(a.start, offset * 4096);
	ck_assert(a.is_file);
	ck_assert_str_eq(a.swap_path, file);
	ck_assert_int_eq(area_find(loop, true, offset, 4096, &a), E_OK);
	ck_assert(a.is_file && !a.active);
	ck_assert_int_eq(area_find(file, true, offset + 1, 4096, &a), E_CONF);
	snprintf(text, sizeof text, "write resume offset = %" PRIu64, offset);
	ck_assert_ptr_nonnull(strstr(fault_text(), text));
}
END_TEST

static const struct {
	const char *size, *mkfs, *prepare;
} fragmented[] = {
	/* ext4 keeps direct writes together: there the free space is made of holes */
	{"64M", "mkfs.ext4 -q -F -b 4096",
	 "touch swap && fallocate -l $(($(df --output=avail -B1 . | tail -n 1) - 4194304)) fill && sync && i=0 && "
	 "while [ $i -lt 500 ]; do fallocate -p -o $((i * 65536)) -l 32768 fill && i=$((i + 1)) || exit; done && sync "
	 "&& "
	 "fallocate -l 14M swap"},
	{"320M", "mkfs.xfs -q -f", "touch swap other"},
	{"256M", "mkfs.btrfs -q -f -m single", "touch swap other && chattr +C swap other"},
};

/* Two files that grow by turns, past the page cache, lie between each other. */
static void interleave(const char *one, const char *other)
{
	enum { PART = 32 << 10, PARTS = 300 };
	const char *const name[] = {one, other};
	void *part = aligned_alloc(4096, PART);
	int fd[2];

	memset(part, 1, PART);
	for (int k = 0; k < 2; k++)
		ck_assert_int_ge(fd[k] = open(name[k], O_WRONLY | O_DIRECT), 0);
	for (int i = 0; i < PARTS * 2; i++)
		ck_assert_int_eq(pwrite(fd[i % 2], part, PART, (off_t)(i / 2) * PART), PART);
	for (int k = 0; k < 2; k++)
		close(fd[k]);
	free(part);
}

START_TEST(test_fragmented_swap_file)
{
	char file[128], other[128], text[256];
	uint64_t offset;
	struct area a;

	if (!mount_loop(fragmented[_i].size, fragmented[_i].mkfs) ||
	    !run(NULL, "cd %s/mnt && %s", dir, fragmented[_i].prepare)) {
		skipped("it needs root, loop devices, mkfs and fallocate");
		return;
	}
	snprintf(file, sizeof file, "%s/mnt/swap", dir);
	snprintf(other, sizeof other, "%s/mnt/other", dir);
	if (_i)
		interleave(file, other);
	ck_assert(run(NULL, "chmod 600 %s && mkswap %s && sync", file, file));
	if (run(text, "filefrag %s | sed 's/.*: //'", file))
		ck_assert_msg(strtoul(text, NULL, 10) >= 200, "only %s", text);
	check_offset(file, &offset);
	ck_assert_msg(area_find(file, false, 0, 4096, &a) == E_OK, "%s", fault_text());
	ck_assert_uint_eq(a.start, offset * 4096);
}
END_TEST

/* Made anew somewhere else, under the same name: the old offset is refused, the new one named. */
START_TEST(test_recreated_swap_file)
{
	char file[128], text[256];
	uint64_t before, after;
	struct area a;

	if (!mount_loop("64M", "mkfs.ext4 -q -F -b 4096")) {
		skipped("it needs root, loop devices and mkfs");
		return;
	}
	snprintf(file, sizeof file, "%s/mnt/swap", dir);
	ck_assert(run(NULL, "dd bs=1M count=8 if=/dev/zero of=%s && chmod 600 %s && mkswap %s", file, file, file));
	check_offset(file, &before);
	ck_assert(run(NULL,
		      "cd %s/mnt && dd bs=1M count=8 if=/dev/zero of=new && mv new swap && dd bs=1M count=8 "
		      "if=/dev/zero of=x && chmod 600 swap && mkswap swap",
		      dir));
	check_offset(file, &after);
	ck_assert_uint_ne(before, after);
	ck_assert_int_eq(area_find(file, true, before, 4096, &a), E_CONF);
	snprintf(text, sizeof text, "resume offset = %" PRIu64 " is wrong", before);
	ck_assert_msg(strstr(fault_text(), text), "%s", fault_text());
	snprintf(text, sizeof text, "write resume offset = %" PRIu64, after);
	ck_assert_msg(strstr(fault_text(), text), "%s", fault_text());
	fault_clear();
	/* By device and offset: the place holds something else now. */
	ck_assert_int_eq(area_find(loop, true, before, 4096, &a), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "no swap header stands at page"));
	fault_clear();
	ck_assert_int_eq(area_find(file, false, 0, 4096, &a), E_OK);
	ck_assert_uint_eq(a.start, after * 4096);
}
END_TEST

/* swapon works on a file in a loop device, and the kernel lets us swap it off again. */
START_TEST(test_active_swap_file)
{
	char file[128], text[256];
	uint64_t offset, gone;
	struct area a, b;

	if (!mount_loop("64M", "mkfs.ext4 -q -F -b 4096")) {
		skipped("it needs root, loop devices and mkfs");
		return;
	}
	/* One that was there before: its header stays on the disk. */
	snprintf(file, sizeof file, "%s/mnt/gone", dir);
	ck_assert(run(NULL, "dd if=/dev/zero of=%s bs=1M count=8 && chmod 600 %s && mkswap %s", file, file, file));
	check_offset(file, &gone);
	snprintf(file, sizeof file, "%s/mnt/swap", dir);
	ck_assert(run(NULL, "dd if=/dev/zero of=%s bs=1M count=8 && chmod 600 %s && mkswap %s", file, file, file));
	check_offset(file, &offset);
	ck_assert(run(NULL, "rm %s/mnt/gone && sync", dir));
	ck_assert_int_eq(area_find(file, false, 0, 4096, &a), E_OK);
	bool switched;
	if (area_swapon(&a, &switched) != E_OK) {
		skipped(fault_text());
		return;
	}
	ck_assert(switched);
	ck_assert_int_eq(area_swapon(&a, &switched), E_OK);
	ck_assert(!switched);
	int found = area_find(loop, true, offset, 4096, &b);
	fault_clear();
	int wrong = area_find(loop, true, offset + 1, 4096, &a);
	snprintf(text, sizeof text, "%s", fault_text());
	fault_clear();
	int old = area_find(loop, true, gone, 4096, &a);
	ck_assert_msg(strstr(fault_text(), "a swap file that is gone"), "%s", fault_text());
	int off = area_swapoff(&b);
	ck_assert_int_eq(off, E_OK);
	ck_assert_int_eq(found, E_OK);
	ck_assert(b.active);
	ck_assert_str_eq(b.swap_path, file);
	ck_assert_int_eq(wrong, E_CONF);
	ck_assert_int_eq(old, E_CONF);
	snprintf(file, sizeof file, "write resume offset = %" PRIu64, offset);
	ck_assert_msg(strstr(text, file), "%s", text);
	ck_assert_int_eq(area_swapoff(&b), E_OK);
}
END_TEST

static const struct {
	const char *size, *mkfs, *make, *why;
} bad_files[] = {
	{"64M", "mkfs.ext4 -q -F -b 4096", "truncate -s 8M", "a hole where its header belongs"},
	{"64M", "mkfs.ext4 -q -F", "fallocate -l 8M", "first page was never written"},
	{"64M", "mkfs.ext4 -q -F", "fallocate -l 8K", "too small"},
	{"64M", "mkfs.ext4 -q -F -b 1024", "dd bs=1M count=8 if=/dev/urandom of=", "inside a page"},
	{"64M", "mkfs.ext4 -q -F", "mkdir", "is no file"},
	{"256M", "mkfs.btrfs -q -f", "dd bs=1M count=8 if=/dev/zero of=", "copy-on-write"},
	{"256M", "mkfs.btrfs -q -f -d dup", "btrfs filesystem mkswapfile -s 8M", "more than one place"},
	{"320M", "mkfs.xfs -q -f",
	 "cd / && f() { dd bs=1M count=8 if=/dev/urandom of=$1 && cp --reflink=always $1 $1.2; }; f", "shares blocks"},
};

START_TEST(test_bad_swap_file)
{
	char file[128];
	uint64_t offset;
	dev_t device;

	if (!mount_loop(bad_files[_i].size, bad_files[_i].mkfs)) {
		skipped("it needs root, loop devices and mkfs");
		return;
	}
	snprintf(file, sizeof file, "%s/mnt/swap", dir);
	const char *make = bad_files[_i].make;
	if (!run(NULL, "%s%s%s && sync", make, make[strlen(make) - 1] == '=' ? "" : " ", file)) {
		skipped(make);
		return;
	}
	int code = swap_file_offset(file, 4096, &device, &offset);
	ck_assert_int_eq(code, E_DEVICE);
	ck_assert_msg(strstr(fault_text(), bad_files[_i].why), "%s: %s", bad_files[_i].make, fault_text());
}
END_TEST

/* Of one file system on two devices: %1$s and %2$s, mounted at %3$s. */
static const struct {
	const char *make, *why;
} on_two[] = {
	{"mkfs.btrfs -q -f -d single -m single %1$s %2$s && mount %1$s %3$s && btrfs filesystem mkswapfile -s 8M "
	 "%3$s/swap",
	 "the file system lies on 2 devices; use a swap partition"},
	{"mkfs.xfs -q -f -m reflink=0,rmapbt=0 -r rtdev=%2$s %1$s && mount -o rtdev=%2$s %1$s %3$s && "
	 "xfs_io -f -c 'chattr +t' %3$s/swap && dd bs=1M count=8 conv=notrunc if=/dev/zero of=%3$s/swap",
	 "lies on the realtime device of an XFS; put it elsewhere"},
};

START_TEST(test_swap_file_on_two_devices)
{
	char second[256], mnt[96], file[128], command[512];
	uint64_t offset;
	dev_t device;

	if (!loop_with("320M", "true") || !run(second,
					       "mkdir %s/mnt && truncate -s 256M %s/image2 && "
					       "losetup --direct-io=off -f --show %s/image2",
					       dir, dir, dir)) {
		skipped("it needs root and loop devices");
		return;
	}
	snprintf(mnt, sizeof mnt, "%s/mnt", dir);
	snprintf(file, sizeof file, "%s/swap", mnt);
	snprintf(command, sizeof command, on_two[_i].make, loop, second, mnt);
	bool made = run(NULL, "%s && sync", command);
	int code = made ? swap_file_offset(file, 4096, &device, &offset) : E_OK;
	run(NULL, "umount %s; losetup -d %s", mnt, second);
	if (!made)
		skipped(on_two[_i].why);
	ck_assert_int_eq(code, made ? E_DEVICE : E_OK);
	ck_assert_msg(!made || strstr(fault_text(), on_two[_i].why), "%s", fault_text());
}
END_TEST

START_TEST(test_no_block_device)
{
	uint64_t offset;
	dev_t device;
	char file[] = "/dev/shm/check_area.XXXXXX";
	int fd = mkstemp(file);

	if (fd < 0)
		return;
	ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
	ck_assert_int_eq(swap_file_offset(file, 4096, &device, &offset), E_DEVICE);
	close(fd);
	unlink(file);
	ck_assert_ptr_nonnull(strstr(fault_text(), "block device"));
	fault_clear();
	ck_assert_int_eq(swap_file_offset("/nowhere/at all", 4096, &device, &offset), E_DEVICE);
	ck_assert_ptr_nonnull(strstr(fault_text(), "/nowhere/at all: No such file"));
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
	Suite *s = suite_create("check_area");
	TCase *t = tcase_create("area");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_swaps);
	tcase_add_test(t, test_mount_line);
	tcase_add_loop_test(t, test_mounts, 0, COUNT(mounts));
	tcase_add_test(t, test_mounts_unreadable);
	tcase_add_test(t, test_stack);
	tcase_add_test(t, test_devices);
	tcase_add_test(t, test_extents);
	tcase_add_test(t, test_far_extents);
	tcase_add_test(t, test_chunks);
	tcase_add_test(t, test_resolve_nonsense);
	tcase_add_test(t, test_resolve_absent);
	tcase_add_test(t, test_wait);
	tcase_add_test(t, test_resolve_loop);
	tcase_add_test(t, test_find_refuses);
	tcase_add_test(t, test_resolve_partition);
	tcase_add_test(t, test_resolve_dos_partition);
	tcase_add_loop_test(t, test_swap_file, 0, COUNT(file_systems));
	tcase_add_loop_test(t, test_fragmented_swap_file, 0, COUNT(fragmented));
	tcase_add_test(t, test_recreated_swap_file);
	tcase_add_test(t, test_active_swap_file);
	tcase_add_loop_test(t, test_bad_swap_file, 0, COUNT(bad_files));
	tcase_add_loop_test(t, test_swap_file_on_two_devices, 0, COUNT(on_two));
	tcase_add_test(t, test_no_block_device);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	strcpy(base, "/tmp/check_area.XXXXXX");
	if (!mkdtemp(base))
		return 1;
	srunner_run_all(r, CK_NORMAL);
	clean_up();
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
