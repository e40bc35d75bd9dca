/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What needs mkfs, or root and loop devices, is left out without them. */
#include "base/bytes.h"
#include "base/error.h"
#include "system/fingerprint-fs.h"
#include "system/fingerprint.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define UUID_TEXT "6f1d2a33-0c07-4d7f-8f6c-0123456789ab"

static char base[40], dir[80], image[128];
static uint8_t *scratch;

static bool __attribute__((format(printf, 1, 2))) run(const char *fmt, ...)
{
	char command[1024] = "exec >/dev/null 2>&1; ";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command + strlen(command), sizeof command - strlen(command), fmt, ap);
	va_end(ap);
	return system(command) == 0;
}

static void skipped(const char *why)
{
	fprintf(stderr, "check_fingerprint: a test is left out: %s\n", why);
}

static void setup(void)
{
	snprintf(dir, sizeof dir, "%s/XXXXXX", base);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(image, sizeof image, "%s/image", dir);
	scratch = aligned_alloc(4096, FINGERPRINT_SCRATCH);
	ck_assert_ptr_nonnull(scratch);
	fault_clear();
}

static void teardown(void)
{
	free(scratch);
	run("rm -rf %s", dir);
}

/* A test that failed never reached its end. */
static void clean_up(void)
{
	run("for d in %s/*; do test -d $d || continue; umount $d/mnt; "
	    "losetup -n -O NAME -j $d/image | xargs -r losetup -d; losetup -n -O NAME -j $d/copy | xargs -r losetup "
	    "-d; "
	    "done; rm -rf %s",
	    base, base);
}

static int take(const char *path, const char *want, struct fingerprint *f)
{
	int fd = open(path, O_RDONLY | O_DIRECT);

	if (fd < 0)
		fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	int code = fingerprint_take(fd, want, scratch, f);
	close(fd);
	return code;
}

static uint64_t hash_of(const char *path, const char *want)
{
	struct fingerprint f;

	ck_assert_msg(take(path, want, &f) == E_OK, "%s", fault_text());
	return f.hash;
}

static void peek(uint64_t at, void *buf, size_t len)
{
	int fd = open(image, O_RDONLY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, buf, len, (off_t)at), len);
	close(fd);
}

static void poke(uint64_t at, const void *buf, size_t len)
{
	int fd = open(image, O_WRONLY | O_CREAT, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, buf, len, (off_t)at), len);
	close(fd);
}

static void flip(uint64_t at)
{
	uint8_t b;

	peek(at, &b, 1);
	b ^= 0x55;
	poke(at, &b, 1);
}

static bool make(const char *size, const char *mkfs)
{
	if (run("truncate -s %s %s && %s %s", size, image, mkfs, image))
		return true;
	skipped(mkfs);
	return false;
}

/* Memory instead of a disk; whatever lies outside fails the test. */

struct memory {
	uint8_t *bytes;
	uint64_t size;
	unsigned calls, fail_at; /* the nth call fails, 0 = none */
};

static int read_memory(const struct fs_reader *r, void *buf, size_t len, uint64_t at)
{
	struct memory *m = (struct memory *)(uintptr_t)r->ctx;

	ck_assert_uint_eq(at % FS_UNIT, 0);
	ck_assert_uint_eq(len % FS_UNIT, 0);
	ck_assert_uint_lt(at, m->size);
	ck_assert_uint_lt(at + len, m->size + FS_UNIT);
	ck_assert_uint_le(len, FS_WINDOW);
	if (++m->calls == m->fail_at)
		return E_IO;
	memcpy(buf, m->bytes + at, (size_t)min_u64(len, m->size - at));
	return E_OK;
}

static struct fs_reader reader(struct memory *m)
{
	return (struct fs_reader){
		.read = read_memory, .ctx = m, .size = m->size, .window = scratch, .gathered = scratch + FS_WINDOW};
}

/* ext4 */

START_TEST(test_ext)
{
	static const char *const mkfs[] = {"mkfs.ext4 -q -F -U " UUID_TEXT, "mkfs.ext2 -q -F -U " UUID_TEXT,
					   "mkfs.ext3 -q -F -b 4096 -U " UUID_TEXT};
	struct fingerprint f, g;
	char id[37];

	if (!make("16M", mkfs[_i]))
		return;
	ck_assert_int_eq(take(image, NULL, &f), E_OK);
	ck_assert_str_eq(f.type, "ext4");
	id_text(f.uuid, id);
	ck_assert_str_eq(id, UUID_TEXT);
	ck_assert_uint_eq(f.flags, 0);
	ck_assert_int_eq(take(image, "ext3", &g), E_OK);
	ck_assert_uint_eq(f.hash, g.hash);
	ck_assert_uint_eq(f.hash, hash_of(image, "ext4"));
	ck_assert_int_eq(take(image, "xfs", &g), E_NOIMAGE);
	ck_assert_int_eq(take(image, "btrfs", &g), E_NOIMAGE);
	ck_assert(run("debugfs -w -R 'set_super_value mnt_count 7' %s", image));
	ck_assert_uint_ne(f.hash, hash_of(image, NULL));
	uint64_t before = hash_of(image, NULL);
	flip(9 << 20);
	ck_assert_uint_eq(before, hash_of(image, NULL));
}
END_TEST

/* XFS */

static uint64_t log_start(uint64_t *size)
{
	uint8_t sb[512];
	uint64_t at, block;

	peek(0, sb, sizeof sb);
	at = get_be64(sb + 48);
	block = get_be32(sb + 4);
	*size = get_be32(sb + 96) * block;
	return ((at >> sb[124]) * get_be32(sb + 84) + (at & ((UINT64_C(1) << sb[124]) - 1))) * block;
}

static uint64_t real_head(uint64_t start, uint64_t size)
{
	struct stat st;

	ck_assert_int_eq(stat(image, &st), 0);
	struct memory m = {.bytes = malloc((size_t)st.st_size), .size = (uint64_t)st.st_size};
	struct fs_reader r = reader(&m);
	uint32_t head;
	ck_assert_ptr_nonnull(m.bytes);
	peek(0, m.bytes, (size_t)m.size);
	ck_assert_int_eq(xfs_log_head(&r, start, (uint32_t)(size / 512), &head), E_OK);
	free(m.bytes);
	return head * UINT64_C(512);
}

START_TEST(test_xfs)
{
	static const char *const mkfs[] = {"mkfs.xfs -q -f -m uuid=" UUID_TEXT,
					   "mkfs.xfs -q -f -s size=4096 -m uuid=" UUID_TEXT,
					   "mkfs.xfs -q -f -b size=1024 -m crc=1,uuid=" UUID_TEXT};
	struct fingerprint f;
	char id[37];
	uint64_t size;

	if (!make("320M", mkfs[_i]))
		return;
	ck_assert_int_eq(take(image, NULL, &f), E_OK);
	ck_assert_str_eq(f.type, "xfs");
	id_text(f.uuid, id);
	ck_assert_str_eq(id, UUID_TEXT);
	ck_assert_uint_eq(f.hash, hash_of(image, "xfs"));
	uint64_t start = log_start(&size), head = real_head(start, size) % size;
	flip(start + head + 100);
	ck_assert_uint_ne(f.hash, hash_of(image, NULL));
	flip(start + head + 100);
	ck_assert_uint_eq(f.hash, hash_of(image, NULL));
	flip(start + (head + size - 400) % size);
	ck_assert_uint_ne(f.hash, hash_of(image, NULL));
	flip(start + (head + size - 400) % size);
	flip(start + (head + size / 2) % size + 40);
	ck_assert_uint_eq(f.hash, hash_of(image, NULL));
	if (run("xfs_admin -L other %s", image))
		ck_assert_uint_ne(f.hash, hash_of(image, NULL));
}
END_TEST

enum { LOG_BLOCKS = 1024 };

/* A log of which @head blocks are of @cycle and the rest of the one before, with a record header now and then. */
static void fill_log(uint8_t *log, uint32_t head, uint32_t cycle)
{
	for (uint32_t i = 0; i < LOG_BLOCKS; i++) {
		uint8_t *b = log + i * 512;
		uint32_t c = i < head ? cycle : cycle - 1;
		uint8_t be[4] = {(uint8_t)(c >> 24), (uint8_t)(c >> 16), (uint8_t)(c >> 8), (uint8_t)c};
		memset(b, 0xee, 512);
		memcpy(b + (i % 7 ? 0 : 4), be, 4);
		if (i % 7 == 0)
			memcpy(b, "\xfe\xed\xba\xbe", 4);
	}
}

START_TEST(test_xfs_head)
{
	static const uint32_t heads[] = {1, 2, 7, 8, 511, 512, 513, 1022, 1023};
	struct memory m = {.bytes = malloc(4608 + LOG_BLOCKS * 512), .size = 4608 + LOG_BLOCKS * 512};
	struct fs_reader r = reader(&m);
	uint32_t head;

	for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
		fill_log(m.bytes + 4608, heads[i], 5);
		m.calls = 0;
		ck_assert_int_eq(xfs_log_head(&r, 4608, LOG_BLOCKS, &head), E_OK);
		ck_assert_uint_eq(head, heads[i]);
		ck_assert_uint_le(m.calls, 13);
	}
	fill_log(m.bytes + 4608, LOG_BLOCKS, 5);
	ck_assert_int_eq(xfs_log_head(&r, 4608, LOG_BLOCKS, &head), E_OK);
	ck_assert_uint_eq(head, LOG_BLOCKS);
	/* never written beyond its first record */
	fill_log(m.bytes + 4608, 9, 1);
	ck_assert_int_eq(xfs_log_head(&r, 4608, LOG_BLOCKS, &head), E_OK);
	ck_assert_uint_eq(head, 9);
	m.calls = 0;
	m.fail_at = 4;
	ck_assert_int_eq(xfs_log_head(&r, 4608, LOG_BLOCKS, &head), E_IO);
	free(m.bytes);
}
END_TEST

static void put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
	while (bytes--) {
		p[bytes] = (uint8_t)v;
		v >>= 8;
	}
}

static uint64_t memory_hash(struct memory *m, const char *want)
{
	struct fs_reader r = reader(m);
	struct fingerprint f;

	ck_assert_int_eq(fs_fingerprint(&r, want, &f), E_OK);
	return f.hash;
}

/* A superblock and a log in the second group: what is hashed goes round the log's end. */
START_TEST(test_xfs_wrap)
{
	enum { START = (256 + 3) * 4096, END = START + LOG_BLOCKS * 512 };
	struct memory m = {.bytes = calloc(1, END), .size = END};
	static const struct {
		uint32_t head;
		uint32_t in[4], out[2]; /* blocks within and without the 64 KiB */
	} rows[] = {
		{512, {448, 511, 512, 575}, {447, 576}},
		{4, {0, 67, 964, 1023}, {68, 963}},
		{1020, {956, 1023, 0, 59}, {60, 955}},
		{LOG_BLOCKS, {960, 1023, 0, 63}, {64, 959}},
	};

	memcpy(m.bytes, "XFSB", 4);
	put_be(m.bytes + 4, 4096, 4);
	put_be(m.bytes + 48, 1 << 9 | 3, 8);
	put_be(m.bytes + 84, 256, 4);
	put_be(m.bytes + 96, LOG_BLOCKS / 8, 4);
	m.bytes[124] = 9;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		fill_log(m.bytes + START, rows[i].head, 3);
		uint64_t hash = memory_hash(&m, "xfs");
		for (size_t k = 0; k < 6; k++) {
			uint32_t block = k < 4 ? rows[i].in[k] : rows[i].out[k - 4];
			m.bytes[START + block * 512 + 200] ^= 1;
			ck_assert_int_eq(hash != memory_hash(&m, "xfs"), k < 4);
			m.bytes[START + block * 512 + 200] ^= 1;
		}
	}
	/* a log on another device leaves the superblock alone */
	put_be(m.bytes + 48, 0, 8);
	uint64_t hash = memory_hash(&m, "xfs");
	m.bytes[START + 512 * 512] ^= 1;
	ck_assert_uint_eq(hash, memory_hash(&m, "xfs"));
	/* a log beyond the end is no XFS */
	put_be(m.bytes + 48, 1 << 9 | 4, 8);
	struct fs_reader r = reader(&m);
	struct fingerprint f;
	ck_assert_int_eq(fs_fingerprint(&r, "xfs", &f), E_NOIMAGE);
	free(m.bytes);
}
END_TEST

/* btrfs, f2fs, FAT and others */

START_TEST(test_btrfs)
{
	struct fingerprint f;
	char id[37];

	if (!make("128M", "mkfs.btrfs -q -f -U " UUID_TEXT))
		return;
	ck_assert_int_eq(take(image, NULL, &f), E_OK);
	ck_assert_str_eq(f.type, "btrfs");
	id_text(f.uuid, id);
	ck_assert_str_eq(id, UUID_TEXT);
	ck_assert_uint_eq(f.hash, hash_of(image, "btrfs"));
	flip(65536 + 72); /* its generation */
	ck_assert_uint_ne(f.hash, hash_of(image, "btrfs"));
	ck_assert_int_eq(take(image, "ext4", &f), E_NOIMAGE);
	ck_assert_str_eq(fault_text(), "there is no ext4");
}
END_TEST

START_TEST(test_f2fs)
{
	enum { SIZE = 8 << 20, FIRST = 512 * 4096, SECOND = 2 * FIRST };
	struct memory m = {.bytes = calloc(1, SIZE), .size = SIZE};
	struct fs_reader r = reader(&m);
	struct fingerprint f;

	put_le32(m.bytes + 1024, 0xF2F52010);
	put_le32(m.bytes + 1024 + 16, 12);
	put_le32(m.bytes + 1024 + 20, 9);
	put_le32(m.bytes + 1024 + 76, 512);
	memset(m.bytes + 1024 + 108, 0xab, 16);
	ck_assert_int_eq(fs_fingerprint(&r, NULL, &f), E_OK);
	ck_assert_str_eq(f.type, "f2fs");
	ck_assert_uint_eq(f.uuid.b[15], 0xab);
	static const uint32_t in[] = {1024 + 500, FIRST, FIRST + 4095, SECOND + 8},
			      out[] = {0, FIRST + 4096, SECOND - 1};
	for (size_t i = 0; i < 4; i++) {
		m.bytes[in[i]] ^= 1;
		ck_assert_uint_ne(f.hash, memory_hash(&m, "f2fs"));
		m.bytes[in[i]] ^= 1;
	}
	for (size_t i = 0; i < 3; i++) {
		m.bytes[out[i]] ^= 1;
		ck_assert_uint_eq(f.hash, memory_hash(&m, "f2fs"));
	}
	put_le32(m.bytes + 1024 + 76, UINT32_MAX);
	ck_assert_int_eq(fs_fingerprint(&r, "f2fs", &f), E_NOIMAGE);
	put_le32(m.bytes + 1024 + 16, 40);
	ck_assert_int_eq(fs_fingerprint(&r, "f2fs", &f), E_NOIMAGE);
	free(m.bytes);
}
END_TEST

static void fat_boot(uint8_t *b, bool fat32)
{
	memset(b, 0, 65536);
	memcpy(b, "\xeb\x58\x90mkfs.fat", 11);
	put_le16(b + 11, 512);
	b[13] = 8;
	put_le16(b + 14, 32);
	b[16] = 2;
	b[21] = 0xf8;
	put_le16(b + 22, fat32 ? 0 : 200);
	put_le32(b + (fat32 ? 67 : 39), 0xABCD1234);
	put_le16(b + 510, 0xAA55);
}

START_TEST(test_vfat)
{
	struct memory m = {.bytes = malloc(65536), .size = 65536};
	struct fs_reader r = reader(&m);
	struct fingerprint f;

	for (int fat32 = 0; fat32 < 2; fat32++) {
		fat_boot(m.bytes, fat32);
		ck_assert_int_eq(fs_fingerprint(&r, NULL, &f), E_OK);
		ck_assert_str_eq(f.type, "vfat");
		ck_assert_uint_eq(f.flags, FINGERPRINT_WARN);
		ck_assert_uint_eq(get_le32(f.uuid.b), 0xABCD1234);
		ck_assert_uint_eq(get_le32(f.uuid.b + 4), 0);
		m.bytes[32 * 512 + 7] ^= 0x08; /* the dirty bit */
		ck_assert_uint_ne(f.hash, memory_hash(&m, "msdos"));
		m.bytes[32 * 512 + 7] ^= 0x08;
		m.bytes[33 * 512] ^= 1;
		ck_assert_uint_eq(f.hash, memory_hash(&m, "vfat"));
	}
	m.bytes[13] = 3;
	ck_assert_int_eq(fs_fingerprint(&r, "vfat", &f), E_NOIMAGE);
	free(m.bytes);
}
END_TEST

START_TEST(test_other)
{
	struct memory m = {.bytes = calloc(1, 1 << 20), .size = 1 << 20};
	struct fs_reader r = reader(&m);
	struct fingerprint f;

	ck_assert_int_eq(fs_fingerprint(&r, "a_name_longer_than_16", &f), E_OK);
	ck_assert_str_eq(f.type, "a_name_longer_th");
	ck_assert(id_is_zero(f.uuid));
	uint64_t hash = memory_hash(&m, "ntfs3");
	m.bytes[65535] ^= 1;
	ck_assert_uint_ne(hash, memory_hash(&m, "ntfs3"));
	m.bytes[65535] ^= 1;
	m.bytes[65536] ^= 1;
	ck_assert_uint_eq(hash, memory_hash(&m, NULL));
	free(m.bytes);
}
END_TEST

/* Every type at every awkward size: read_memory() fails the test when anything outside is asked for. */
START_TEST(test_never_past_the_end)
{
	static const char *const wants[] = {NULL, "xfs", "ext4", "btrfs", "f2fs", "vfat", "ntfs"};
	static const uint64_t sizes[] = {0,    1,    511,   512,   1023,  1024,	 2047, 4095,
					 4096, 4097, 65535, 65536, 65537, 69631, 69632};
	struct memory m = {.bytes = calloc(1, 70000)};
	struct fingerprint f;

	fat_boot(m.bytes, true);
	put_le16(m.bytes + 14, 65535);
	put_le16(m.bytes + 1024 + 56, 0xEF53);
	memcpy(m.bytes + 65536 + 64, "_BHRfS_M", 8);
	for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
		for (size_t w = 0; w < sizeof wants / sizeof wants[0]; w++) {
			m.size = sizes[s];
			struct fs_reader r = reader(&m);
			int code = fs_fingerprint(&r, wants[w], &f);
			ck_assert(code == E_OK || (code == E_NOIMAGE && wants[w]));
		}
	m.size = 70000;
	for (m.fail_at = 1; m.fail_at < 3; m.fail_at++) {
		struct fs_reader r = reader(&m);
		m.calls = 0;
		ck_assert_int_eq(fs_fingerprint(&r, "ext4", &f), E_IO);
	}
	free(m.bytes);
}
END_TEST

/* Comparing, among plain files that play block devices */

static void make_device(const char *name, unsigned ma, unsigned mi, uint64_t generation, const char *uuid)
{
	uint8_t *b = calloc(1, 1 << 20);
	char path[256];

	ck_assert(run("mkdir -p %s/sys/%s/holders %s/dev", dir, name, dir));
	ck_assert(run("echo %u:%u > %s/sys/%s/dev; echo 2048 > %s/sys/%s/size", ma, mi, dir, name, dir, name));
	memcpy(b + 65536 + 64, "_BHRfS_M", 8);
	memcpy(b + 65536 + 32, uuid, 16);
	put_le64(b + 65536 + 72, generation);
	snprintf(path, sizeof path, "%s/dev/%s", dir, name);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(b, 1, 1 << 20, f), 1 << 20);
	fclose(f);
	free(b);
}

static struct fingerprint fingerprint_of(const char *name, const char *want, unsigned ma, unsigned mi)
{
	struct fingerprint f;
	char path[256];

	snprintf(path, sizeof path, "%s/dev/%s", dir, name);
	ck_assert_int_eq(take(path, want, &f), E_OK);
	f.major = ma;
	f.minor = mi;
	snprintf(f.name, sizeof f.name, "%s", name);
	return f;
}

static int compare(const struct fingerprint *f, unsigned n, char warning[80])
{
	char sys[128], dev[128];

	snprintf(sys, sizeof sys, "%s/sys", dir);
	snprintf(dev, sizeof dev, "%s/dev", dir);
	fault_clear();
	warning[0] = 0;
	return fingerprints_compare(f, n, sys, dev, warning, 80);
}

#define UUID_A "aaaaaaaaaaaaaaaa"
#define UUID_B "bbbbbbbbbbbbbbbb"

START_TEST(test_compare)
{
	struct fingerprint f[3];
	char warning[80];

	make_device("sda1", 8, 1, 7, UUID_A);
	make_device("sdb1", 8, 17, 9, UUID_B);
	f[0] = fingerprint_of("sda1", "btrfs", 8, 1);
	f[1] = fingerprint_of("sdb1", "btrfs", 8, 17);
	ck_assert_int_eq(compare(f, 2, warning), E_OK);
	/* the devices changed their names */
	f[0].minor = 17;
	f[1].minor = 1;
	ck_assert_int_eq(compare(f, 2, warning), E_OK);
	/* one is used */
	make_device("sdb1", 8, 17, 10, UUID_B);
	ck_assert_int_eq(compare(f, 2, warning), E_STALE);
	ck_assert_str_eq(
		fault_text(),
		"the btrfs 62626262-6262-6262-6262-626262626262 (sdb1 when the image was made) was used since");
	f[1].minor = 17;
	ck_assert_int_eq(compare(f, 2, warning), E_STALE);
	ck_assert_int_eq(compare(f, 1, warning), E_OK);
	/* one is absent */
	f[2] = f[1];
	ck_assert(run("rm -r %s/sys/sdb1", dir));
	ck_assert_int_eq(compare(f, 3, warning), E_OK);
	/* another is in its place */
	make_device("sdb1", 8, 17, 10, "cccccccccccccccc");
	ck_assert_int_eq(compare(f, 3, warning), E_OK);
	/* a clone that is unchanged counts, since it may be the one */
	make_device("sdb1", 8, 17, 10, UUID_B);
	make_device("sdc1", 8, 33, 9, UUID_B);
	ck_assert_int_eq(compare(f, 3, warning), E_OK);
	ck_assert_str_eq(warning, "");
}
END_TEST

START_TEST(test_compare_without_uuid)
{
	struct fingerprint f;
	char warning[80];

	make_device("sda1", 8, 1, 7, UUID_A);
	make_device("sdb1", 8, 17, 9, UUID_B);
	f = fingerprint_of("sda1", "ntfs3", 8, 1);
	ck_assert_int_eq(compare(&f, 1, warning), E_OK);
	f.hash++;
	ck_assert_int_eq(compare(&f, 1, warning), E_STALE);
	ck_assert_ptr_nonnull(strstr(fault_text(), "ntfs3 without a UUID (sda1"));
	f.minor = 2;
	ck_assert_int_eq(compare(&f, 1, warning), E_OK);
}
END_TEST

START_TEST(test_compare_warns)
{
	struct fingerprint f[4];
	char warning[80];

	make_device("sda1", 8, 1, 7, UUID_A);
	for (int i = 0; i < 4; i++) {
		f[i] = fingerprint_of("sda1", "btrfs", 8, 1);
		f[i].flags = FINGERPRINT_WARN;
		f[i].hash += i > 0;
	}
	ck_assert_int_eq(compare(f, 1, warning), E_OK);
	ck_assert_str_eq(warning, "");
	ck_assert_int_eq(compare(f, 2, warning), E_OK);
	ck_assert_str_eq(warning, "the btrfs on sda1 was written to");
	ck_assert_int_eq(compare(f, 4, warning), E_OK);
	ck_assert_uint_eq(strlen(warning), 79);
}
END_TEST

/* Mounted file systems */

START_TEST(test_list)
{
	struct fingerprint *f = calloc(FINGERPRINTS_MAX, sizeof *f);
	struct fs_list *l = NULL;

	int code = fs_list_open("/proc/self/mountinfo", &l);
	if (code != E_OK || !fs_list_count(l)) {
		skipped(fault_text()[0] ? fault_text() : "no block device is mounted");
		fs_list_close(l);
		free(f);
		return;
	}
	ck_assert_msg(fs_list_take(l, scratch, f) == E_OK, "%s", fault_text());
	for (unsigned i = 0; i < fs_list_count(l); i++) {
		ck_assert_uint_ne(f[i].major, 0);
		ck_assert_uint_ne(f[i].major, 7);
		ck_assert_str_ne(f[i].name, "");
		ck_assert_str_ne(f[i].type, "");
		for (unsigned k = 0; k < i; k++)
			ck_assert(f[i].major != f[k].major || f[i].minor != f[k].minor);
	}
	fs_list_close(l);
	fs_list_close(NULL);
	free(f);
}
END_TEST

START_TEST(test_list_unreadable)
{
	struct fs_list *l;

	ck_assert_int_eq(fs_list_open("/nowhere", &l), E_INTERNAL);
	ck_assert_ptr_null(l);
}
END_TEST

/* Nothing in this table is on a block device that answers while frozen. */
START_TEST(test_list_leaves_out)
{
	char path[128];
	struct fs_list *l;

	snprintf(path, sizeof path, "%s/mountinfo", dir);
	FILE *f = fopen(path, "w");
	fputs("22 1 0:20 / / rw - tmpfs tmpfs rw\n"
	      "23 22 7:0 / /a rw - ext4 /dev/loop0 rw\n"
	      "24 22 4095:1048575 / /b rw - ext4 /dev/gone rw\n"
	      "25 22 8:1 / /c ro - squashfs /dev/sda1 ro\n"
	      "26 22 0:21 / /d rw - nfs server:/x rw\n",
	      f);
	fclose(f);
	ck_assert_msg(fs_list_open(path, &l) == E_OK, "%s", fault_text());
	ck_assert_uint_eq(fs_list_count(l), 0);
	fs_list_close(l);
}
END_TEST

/* What mounting does to a real one */

static const struct {
	const char *type, *size, *mkfs, *options;
} real[] = {
	{"ext4", "64M", "mkfs.ext4 -q -F", "defaults"},
	{"xfs", "320M", "mkfs.xfs -q -f", "nouuid"},
	{"btrfs", "128M", "mkfs.btrfs -q -f", "defaults"},
};

static bool make_real(int i)
{
	if (geteuid() || !make(real[i].size, real[i].mkfs) ||
	    !run("mkdir %s/mnt && mount -o loop,%s %s %s/mnt && umount %s/mnt && sync", dir, real[i].options, image,
		 dir, dir)) {
		skipped("no root, or no loop device can be mounted");
		return false;
	}
	return true;
}

START_TEST(test_mount_changes)
{
	if (!make_real(_i))
		return;
	uint64_t before = hash_of(image, real[_i].type);
	ck_assert_uint_eq(before, hash_of(image, NULL));
	ck_assert(run("mount -o loop,%s %s %s/mnt && echo text > %s/mnt/file && umount %s/mnt && sync",
		      real[_i].options, image, dir, dir, dir));
	ck_assert_uint_ne(before, hash_of(image, real[_i].type));
}
END_TEST

/*
 * As at hibernation: the file system is mounted and synced when its disk is looked at, and never unmounted.  Whoever
 * mounts that disk then, and writes no file, must still show; but btrfs then leaves every byte of the disk alone.
 */
START_TEST(test_recovery_changes)
{
	char copy[128];

	if (!make_real(_i))
		return;
	snprintf(copy, sizeof copy, "%s/copy", dir);
	ck_assert(run("mount -o loop,%s %s %s/mnt && echo text > %s/mnt/file && sync && cp --sparse=always %s %s",
		      real[_i].options, image, dir, dir, image, copy));
	ck_assert(run("umount %s/mnt && rm %s && sync", dir, image));
	uint64_t before = hash_of(copy, real[_i].type);
	ck_assert(run("cp --sparse=always %s %s", copy, image));
	ck_assert(run("mount -o loop,%s %s %s/mnt && umount %s/mnt && sync", real[_i].options, copy, dir, dir));
	bool touched = !run("cmp %s %s", image, copy);
	ck_assert(touched || !strcmp(real[_i].type, "btrfs"));
	ck_assert_int_eq(touched, before != hash_of(copy, real[_i].type));
	ck_assert(run("mount -o loop,%s %s %s/mnt && touch %s/mnt/file && umount %s/mnt && sync", real[_i].options,
		      copy, dir, dir, dir));
	ck_assert_uint_ne(before, hash_of(copy, real[_i].type));
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
	Suite *s = suite_create("check_fingerprint");
	TCase *t = tcase_create("fingerprint");

	strcpy(base, "/tmp/check_fingerprint.XXXXXX");
	if (!mkdtemp(base))
		return 1;
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, test_ext, 0, 3);
	tcase_add_loop_test(t, test_xfs, 0, 3);
	tcase_add_test(t, test_xfs_head);
	tcase_add_test(t, test_xfs_wrap);
	tcase_add_test(t, test_btrfs);
	tcase_add_test(t, test_f2fs);
	tcase_add_test(t, test_vfat);
	tcase_add_test(t, test_other);
	tcase_add_test(t, test_never_past_the_end);
	tcase_add_test(t, test_compare);
	tcase_add_test(t, test_compare_without_uuid);
	tcase_add_test(t, test_compare_warns);
	tcase_add_test(t, test_list);
	tcase_add_test(t, test_list_unreadable);
	tcase_add_test(t, test_list_leaves_out);
	tcase_add_loop_test(t, test_mount_changes, 0, COUNT(real));
	tcase_add_loop_test(t, test_recovery_changes, 0, COUNT(real));
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	clean_up();
	return failed ? 1 : 0;
}
