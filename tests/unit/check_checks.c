/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The checks on a made-up machine: a folder that has the files of a good one.  Each row spoils one thing, and wants
 * that the check says so and names the cure; on the good machine all of them are content.
 */
#include "base/clock.h"
#include "base/error.h"
#include "system/check-parts.h"

#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RELEASE "6.1.0-18-amd64"
#define PROGRAM "/usr/lib/dormouse/resume"
#define INITRD	"/boot/initrd.img-" RELEASE

static char root[32];
static struct area area;
static struct check_facts facts;

/* ---- files ---- */

static void make_folders(const char *path)
{
	char part[512];

	snprintf(part, sizeof part, "%s", path);
	for (char *s = part + strlen(root) + 1; (s = strchr(s, '/')); *s++ = '/') {
		*s = 0;
		mkdir(part, 0755);
	}
}

static void put_bytes(const char *below, const void *data, size_t n)
{
	char path[512];

	snprintf(path, sizeof path, "%s%s", root, below);
	make_folders(path);
	unlink(path);
	FILE *f = fopen(path, "w");
	ck_assert_msg(f, "%s: %s", path, strerror(errno));
	ck_assert_uint_eq(fwrite(data, 1, n, f), n);
	ck_assert_int_eq(fclose(f), 0);
}

static void put(const char *below, const char *text)
{
	put_bytes(below, text, strlen(text));
}

static void take_away(const char *below)
{
	char path[512];

	snprintf(path, sizeof path, "%s%s", root, below);
	ck_assert_msg(!unlink(path), "%s: %s", path, strerror(errno));
}

static void put_link(const char *below, const char *target)
{
	char path[512];

	snprintf(path, sizeof path, "%s%s", root, below);
	make_folders(path);
	unlink(path);
	ck_assert_int_eq(symlink(target, path), 0);
}

static void date(const char *below, time_t when)
{
	const struct timespec t[2] = {{.tv_sec = when}, {.tv_sec = when}};
	char path[512];

	snprintf(path, sizeof path, "%s%s", root, below);
	ck_assert_int_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* ---- an ELF program that asks for two libraries ---- */

enum { ELF_SIZE = 4096, ELF_STRINGS = 1024, ELF_DYNAMIC = 2048, ELF_TEXT = 3072, ELF_BASE = 0x400000 };

static void make_elf(uint8_t out[ELF_SIZE], const char *text)
{
	static const char strings[] = "\0libzstd.so.1\0libc.so.6";
	Elf64_Ehdr h = {.e_phoff = sizeof h, .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2};
	const Elf64_Phdr p[2] = {
		{.p_type = PT_LOAD, .p_vaddr = ELF_BASE, .p_filesz = ELF_SIZE},
		{.p_type = PT_DYNAMIC, .p_offset = ELF_DYNAMIC, .p_filesz = 4 * sizeof(Elf64_Dyn)},
	};
	const Elf64_Dyn d[4] = {
		{.d_tag = DT_NEEDED, .d_un.d_val = 1},
		{.d_tag = DT_NEEDED, .d_un.d_val = 14},
		{.d_tag = DT_STRTAB, .d_un.d_ptr = ELF_BASE + ELF_STRINGS},
	};

	memset(out, 0, ELF_SIZE);
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	memcpy(out, &h, sizeof h);
	memcpy(out + sizeof h, p, sizeof p);
	memcpy(out + ELF_STRINGS, strings, sizeof strings);
	memcpy(out + ELF_DYNAMIC, d, sizeof d);
	strcpy((char *)out + ELF_TEXT, text);
}

/* ---- an initramfs ---- */

static uint8_t archive[1 << 20];
static size_t archive_size;

static void pad4(void)
{
	while (archive_size % 4)
		archive[archive_size++] = 0;
}

static void add(const char *name, unsigned mode, const void *data, size_t n)
{
	char h[160];

	snprintf(h, sizeof h, "070701%08x%08x%08x%08x%08x%08x%08zx%08x%08x%08x%08x%08zx%08x", 1u, mode, 0u, 0u, 1u, 0u,
		 n, 0u, 0u, 0u, 0u, strlen(name) + 1, 0u);
	memcpy(archive + archive_size, h, 110);
	strcpy((char *)archive + archive_size + 110, name);
	archive_size += 110 + strlen(name) + 1;
	pad4();
	memcpy(archive + archive_size, data, n);
	archive_size += n;
	pad4();
}

static void add_text(const char *name, const char *text)
{
	add(name, S_IFREG | 0644, text, strlen(text));
}

static void end_archive(void)
{
	add("TRAILER!!!", 0, "", 0);
	while (archive_size % 512)
		archive[archive_size++] = 0;
}

static const char conf[] = "# the swap\nresume device = UUID=1234\n";

/* What of the good initramfs is to be otherwise. */
struct ramfs {
	const char *program, *program_name, *script, *conf, *library; /* NULL: as it should be; "": not there */
	bool no_zstd;
};

static void good_or(const char *name, const char *given, const char *good)
{
	if (!given || *given)
		add_text(name, given ? given : good);
}

static void make_archive(const struct ramfs *r)
{
	uint8_t elf[ELF_SIZE];
	const char *name = r->program_name ? r->program_name : "usr/lib/dormouse/resume";

	archive_size = 0;
	/* Microcode stands in an archive of its own in front. */
	add("kernel/x86/microcode/GenuineIntel.bin", S_IFREG | 0644, "\1\0\0\0", 4);
	end_archive();
	add("usr", S_IFDIR | 0755, "", 0);
	make_elf(elf, r->program ? r->program : "%s (Dormouse) 1");
	if (!r->program || *r->program)
		add(name, S_IFREG | 0755, elf, sizeof elf);
	good_or("usr/lib/libc.so.6", r->library, "libc's code");
	if (!r->no_zstd) {
		add("usr/lib/libzstd.so.1", S_IFLNK | 0777, "libzstd.so.1.5.4", 16);
		add_text("usr/lib/libzstd.so.1.5.4", "zstd's code");
	}
	good_or("scripts/local-premount/dormouse", r->script, "#!/bin/sh\n/lib/dormouse/resume\n");
	good_or("etc/suspend.conf", r->conf, conf);
	end_archive();
}

static void put_initrd(const struct ramfs *r)
{
	make_archive(r);
	put_bytes(INITRD, archive, archive_size);
}

/* ---- the good machine ---- */

static const char grub[] = "set default=\"0\"\n"
			   "menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'simple-1' {\n"
			   "\tload_video\n\tif [ x = xen ]; then insmod xzio; fi\n"
			   "\tlinux\t/vmlinuz-" RELEASE " root=UUID=5 ro quiet resume=/dev/good\n"
			   "\tinitrd\t/initrd.img-" RELEASE "\n}\n"
			   "submenu 'Advanced options' $menuentry_id_option 'advanced-1' {\n"
			   "\tmenuentry 'Debian, with Linux 6.1.0-17' --id 'old' {\n"
			   "\t\tlinux\t/vmlinuz-6.1.0-17-amd64 root=UUID=5 ro single\n"
			   "\t\tinitrd\t/initrd.img-6.1.0-17-amd64\n\t}\n}\n";

static void put_kernel(const char *below, const char *release)
{
	uint8_t image[2048] = {0};

	memcpy(image + 0x202, "HdrS", 4);
	image[0x20e] = 0;
	image[0x20f] = 2; /* 0x200 behind the first sector */
	snprintf((char *)image + 0x400, 128, "%s (builder@host) #1 SMP Debian", release);
	put_bytes(below, image, sizeof image);
}

static int resolve(const char *spec, dev_t *device)
{
	if (!strcmp(spec, "/dev/good") || !strcmp(spec, "UUID=1234"))
		*device = makedev(8, 2);
	else if (!strcmp(spec, "/dev/other"))
		*device = makedev(8, 3);
	else
		return fault(E_DEVICE, 0, "there is no device %s", spec);
	return E_OK;
}

static void good_system(void)
{
	static const struct {
		const char *path, *text;
	} files[] = {
		{"/dev/snapshot", ""},
		{"/sys/power/disk", "[platform] shutdown reboot suspend test_resume\n"},
		{"/sys/power/pm_test", "[none] core processors platform devices freezer\n"},
		{"/sys/power/mem_sleep", "s2idle [deep]\n"},
		{"/sys/power/image_size", "1600000000\n"},
		{"/sys/kernel/security/lockdown", "[none] integrity confidentiality\n"},
		{"/sys/devices/pci/block/sda/sda2/partition", "2\n"},
		{"/sys/devices/pci/block/sda/dev", "8:0\n"},
		{"/proc/cmdline", "root=/dev/sda1 ro resume=/dev/good\n"},
		{"/proc/swaps", "Filename Type Size Used Priority\n/dev/good partition 8388604 1024 -2\n"},
		{"/proc/meminfo", "MemTotal: 4000000 kB\nMemFree: 3000000 kB\nMemAvailable: 3500000 kB\n"
				  "SUnreclaim: 50000 kB\nPageTables: 9000 kB\n"},
		{"/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:6 / /dev rw - devtmpfs d rw\n"},
		{"/etc/suspend.conf", conf},
		{"/etc/crypttab",
		 "# name source key\ncryptswap /dev/sda2 /dev/urandom swap\nroot /dev/sda1 none luks\n"},
		{"/lib/modules/" RELEASE "/modules.dep", ""},
		{"/boot/grub/grub.cfg", grub},
		{"/usr/lib/libc.so.6", "libc's code"},
		{"/usr/lib/libzstd.so.1.5.4", "zstd's code"},
		{"/usr/sbin/update-initramfs", "#!/bin/sh\n"},
		{"/boot/config-" RELEASE, "CONFIG_HIBERNATION=y\nCONFIG_HIBERNATION_SNAPSHOT_DEV=y\n"},
	};

	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		put(files[i].path, files[i].text);
}

static void setup(void)
{
	const struct ramfs good = {0};
	uint8_t elf[ELF_SIZE];
	char path[512];

	strcpy(root, "/tmp/check_checks.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	good_system();
	make_elf(elf, "%s (Dormouse) 1");
	put_bytes(PROGRAM, elf, sizeof elf);
	put_link("/sys/dev/block/8:2", "../../devices/pci/block/sda/sda2");
	put_kernel("/boot/vmlinuz-" RELEASE, RELEASE);
	put_initrd(&good);
	snprintf(path, sizeof path, "%s/usr/sbin/update-initramfs", root);
	chmod(path, 0755);
	area = (struct area){.path = "/dev/good", .swap_path = "/dev/good", .active = true, .device = makedev(8, 2)};
	area.size = UINT64_C(8) << 30;
	facts = (struct check_facts){.root = root,
				     .release = RELEASE,
				     .snapshot_device = "/dev/snapshot",
				     .area = &area,
				     .area_text = "",
				     .page_size = 4096,
				     .image_size = UINT64_MAX,
				     .compress = true,
				     .conf_file = "/etc/suspend.conf",
				     .conf_device = "UUID=1234",
				     .program = PROGRAM,
				     .resolve = resolve};
	fault_clear();
}

static void teardown(void)
{
	char command[64];

	snprintf(command, sizeof command, "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

static struct finding look(const char *name)
{
	struct finding found;

	for (unsigned i = 0; i < check_count; i++)
		if (!strcmp(checks[i].name, name)) {
			check_run(&checks[i], &facts, &found);
			ck_assert_msg(!fault_text()[0], "%s leaves a fault behind: %s", name, fault_text());
			return found;
		}
	ck_abort_msg("there is no check %s", name);
	return (struct finding){0};
}

static void expect(const char *name, enum check_level level, int code, const char *text, const char *cure)
{
	struct finding found = look(name);

	ck_assert_msg(found.level == level, "%s: level %d, %s", name, found.level, found.text);
	ck_assert_msg(found.code == code, "%s: code %d, %s", name, found.code, found.text);
	ck_assert_msg(strstr(found.text, text), "%s: no `%s' in `%s'", name, text, found.text);
	ck_assert_msg(strstr(found.cure, cure), "%s: no `%s' in the cure `%s'", name, cure, found.cure);
	/* Whatever is wrong has a cure, and what is not needs none. */
	ck_assert_msg((found.level == CHECK_OK) == !found.cure[0], "%s: `%s', cure `%s'", name, found.text, found.cure);
}

/* ---- the table ---- */

START_TEST(test_good_machine)
{
	for (unsigned i = 0; i < check_count; i++) {
		struct finding found = look(checks[i].name);
		ck_assert_msg(found.level == CHECK_OK, "%s: %s", checks[i].name, found.text);
		ck_assert_msg(found.text[0] && !found.cure[0], "%s: %s; %s", checks[i].name, found.text, found.cure);
	}
}
END_TEST

START_TEST(test_table)
{
	for (unsigned i = 0; i < check_count; i++) {
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(checks[i].name, checks[k].name);
		/* Without a target, or the kernel's device, nothing can be forced. */
		if (!strcmp(checks[i].name, "snapshot") || !strcmp(checks[i].name, "target") ||
		    !strcmp(checks[i].name, "stack"))
			ck_assert(checks[i].fatal && !checks[i].force);
	}
}
END_TEST

/* An empty machine: no check may stumble over what is not there. */
START_TEST(test_nothing_there)
{
	teardown();
	ck_assert_int_eq(mkdir(root, 0755), 0);
	facts.area = NULL;
	facts.area_code = E_DEVICE;
	facts.area_text = "no swap is active; add a swap partition or file, or set `resume device'";
	for (unsigned i = 0; i < check_count; i++) {
		struct finding found = look(checks[i].name);
		ck_assert_msg(found.text[0], "%s says nothing", checks[i].name);
	}
	expect("target", CHECK_FAIL, E_DEVICE, "no swap is active", "add a swap partition");
	expect("snapshot", CHECK_FAIL, E_KERNEL, "/dev/snapshot is missing", "CONFIG_HIBERNATION_SNAPSHOT_DEV");
	expect("initramfs", CHECK_WARNING, E_OK, "not known which initramfs", "README");
}
END_TEST

static const struct row {
	const char *check;
	const char *file, *text; /* NULL text: the file is taken away */
	enum check_level level;
	int code;
	const char *says, *cure;
} rows[] = {
	{"snapshot", "/dev/snapshot", NULL, CHECK_FAIL, E_KERNEL, "is missing", "CONFIG_HIBERNATION_SNAPSHOT_DEV=y"},
	{"pm-test", "/sys/power/pm_test", "none [core] processors\n", CHECK_FAIL, E_KERNEL, "`core'", "echo none >"},
	{"pm-test", "/sys/power/pm_test", NULL, CHECK_OK, E_OK, "no test modes", ""},
	{"to-ram", "/sys/power/mem_sleep", "[s2idle]\n", CHECK_OK, E_OK, "s2both is refused", ""},
	{"zswap", "/sys/module/zswap/parameters/enabled", "Y\n", CHECK_OK, E_OK, "zswap is on", ""},
	{"zram", "/proc/swaps",
	 "Filename Type Size Used Priority\n/dev/zram0 partition 2000000 512000 100\n/dev/good partition 8388604 0 "
	 "-2\n",
	 CHECK_OK, E_OK, "/dev/zram0 at priority 100 holds 500 MiB", ""},
	{"space", "/proc/swaps", "Filename Type Size Used Priority\n/dev/good partition 8388604 8388604 -2\n",
	 CHECK_FAIL, E_NOSPACE, "nothing is free", "larger"},
	{"space", "/proc/swaps", "Filename Type Size Used Priority\n/dev/good partition 8388604 8380000 -2\n",
	 CHECK_FAIL, E_NOSPACE, "48 MiB at the very least", "make the swap area larger"},
	{"space", "/proc/swaps", "Filename Type Size Used Priority\n/dev/good partition 600000 0 -2\n", CHECK_WARNING,
	 E_OK, "has to come down to 60 %", "compressor = zstd"},
	{"gpu", "/proc/driver/nvidia/version", "NVRM version\n", CHECK_WARNING, E_OK, "would lose",
	 "NVreg_PreserveVideoMemoryAllocations=1"},
	{"systemd", "/run/systemd/system/x", "", CHECK_OK, E_OK, "can be done", ""},
	{"network", "/proc/self/mountinfo",
	 "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / /home rw - nfs4 server:/home rw\n", CHECK_WARNING, E_OK,
	 "/home (nfs4 from server:/home)", "umount /home"},
	{"network", "/proc/self/mountinfo", "30 22 0:40 / /media/x rw - fuse.sshfs me@host: rw\n", CHECK_WARNING, E_OK,
	 "fuse.sshfs", "umount"},
	{"network", "/proc/self/mountinfo", "30 22 0:40 / /run/user/0/doc rw - fuse.portal portal rw\n", CHECK_OK, E_OK,
	 "no network file system", ""},
	{"kernel", "/boot/vmlinuz-" RELEASE, NULL, CHECK_OK, E_OK, "nothing says", ""},
	{"kernel", "/lib/modules/" RELEASE "/modules.dep", NULL, CHECK_OK, E_OK, "starts this kernel", ""},
	{"resume-line", "/boot/grub/grub.cfg", NULL, CHECK_OK, E_OK, "names the target", ""},
	{"initramfs", INITRD, NULL, CHECK_WARNING, E_OK, "not known which initramfs", "README"},
	{"initramfs", INITRD, "no archive at all", CHECK_WARNING, E_OK, "holds something that is no archive", "README"},
	{"initramfs", INITRD, "\x1f\x8bnot really gzip", CHECK_WARNING, E_OK, "gzip is not installed", "README"},
};

START_TEST(test_rows)
{
	const struct row *r = &rows[_i];

	if (r->text)
		put(r->file, r->text);
	else
		take_away(r->file);
	expect(r->check, r->level, r->code, r->says, r->cure);
}
END_TEST

/* ---- the snapshot device ---- */

START_TEST(test_snapshot_refused)
{
	facts.snapshot_errno = EBUSY;
	expect("snapshot", CHECK_FAIL, E_BUSY, "another hibernation", "wait for it");
	facts.snapshot_errno = EACCES;
	expect("snapshot", CHECK_FAIL, E_PRIVILEGE, "root only", "as root");
	facts.snapshot_errno = 0;
	put("/sys/power/disk", "[disabled]\n");
	expect("snapshot", CHECK_FAIL, E_KERNEL, "secret memory", "memfd_secret");
	put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	expect("snapshot", CHECK_FAIL, E_KERNEL, "Secure Boot", "switch Secure Boot off");
	put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	put("/proc/cmdline", "ro nohibernate quiet\n");
	expect("snapshot", CHECK_FAIL, E_KERNEL, "`nohibernate'", "boot loader's entry");
	/* Behind "--" it is not the kernel's. */
	put("/proc/cmdline", "ro -- nohibernate\n");
	expect("snapshot", CHECK_FAIL, E_KERNEL, "secret memory", "memfd_secret");
}
END_TEST

START_TEST(test_snapshot_not_built)
{
	take_away("/dev/snapshot");
	put("/boot/config-" RELEASE, "CONFIG_HIBERNATION=y\n# CONFIG_HIBERNATION_SNAPSHOT_DEV is not set\n");
	expect("snapshot", CHECK_FAIL, E_KERNEL, "built without CONFIG_HIBERNATION_SNAPSHOT_DEV",
	       "CONFIG_HIBERNATION=y");
}
END_TEST

/* ---- the target ---- */

START_TEST(test_target)
{
	facts.area_code = E_BUSY;
	facts.area_text = "/dev/good holds an image already; `s2image discard' or swapon gives it up";
	expect("target", CHECK_FAIL, E_BUSY, "/dev/good holds an image already", "`s2image discard'");
	struct finding found = look("target");
	ck_assert_msg(!strchr(found.text, ';'), "%s", found.text);
	facts.area_code = E_DEVICE;
	facts.area_text = "there is no device /dev/sda9";
	expect("target", CHECK_FAIL, E_DEVICE, "/dev/sda9", "resume device");
}
END_TEST

START_TEST(test_target_shown)
{
	expect("target", CHECK_OK, E_OK, "/dev/good, active", "");
	area.active = false;
	expect("target", CHECK_OK, E_OK, "switched on for the save", "");
	area.is_file = true;
	area.start = 34816 * 4096;
	strcpy(area.swap_path, "/swapfile");
	expect("target", CHECK_OK, E_OK, "the swap file /swapfile at page 34816 of /dev/good", "");
}
END_TEST

static const struct {
	const char *dir, *why;
} stacks[] = {
	{"virtual/block/loop0", "loop device"}, {"virtual/block/nbd3", "network block device"},
	{"virtual/block/ublkb0", "ublk"},	{"virtual/block/zram0", "zram is memory"},
	{"virtual/block/zd16", "ZFS volume"},	{"platform/host3/session1/target3:0:0/block/sdb", "iSCSI"},
};

START_TEST(test_stack)
{
	char below[256];

	/* As a device of its own, and below a mapping. */
	snprintf(below, sizeof below, "../../devices/%s", stacks[_i].dir);
	put_link("/sys/dev/block/8:2", below);
	snprintf(below, sizeof below, "/sys/devices/%s/dev", stacks[_i].dir);
	put(below, "1:1\n");
	expect("stack", CHECK_FAIL, E_DEVICE, stacks[_i].why, "on a disk");
	put_link("/sys/dev/block/8:2", "../../devices/virtual/block/dm-0");
	snprintf(below, sizeof below, "../../../../%s", stacks[_i].dir);
	put_link("/sys/devices/virtual/block/dm-0/slaves/x", below);
	expect("stack", CHECK_FAIL, E_DEVICE, stacks[_i].why, "on a disk");
}
END_TEST

START_TEST(test_random_key)
{
	put_link("/sys/dev/block/8:2", "../../devices/virtual/block/dm-1");
	put_link("/sys/devices/virtual/block/dm-1/slaves/dm-0", "../../dm-0");
	put("/sys/devices/virtual/block/dm-1/dm/name", "vg-swap\n");
	put("/sys/devices/virtual/block/dm-0/dm/name", "root\n");
	put("/sys/devices/virtual/block/dm-0/dm/uuid", "CRYPT-LUKS2-5-root\n");
	expect("random-key", CHECK_OK, E_OK, "not under a key", "");
	put("/sys/devices/virtual/block/dm-0/dm/name", "cryptswap\n");
	expect("random-key", CHECK_FAIL, E_DEVICE, "gives cryptswap a new random key", "LUKS");
	put("/etc/crypttab", "# cryptswap /dev/sda2 /dev/urandom swap\n");
	expect("random-key", CHECK_OK, E_OK, "not under a key", "");
	put("/sys/devices/virtual/block/dm-0/dm/uuid", "CRYPT-PLAIN-cryptswap\n");
	expect("random-key", CHECK_WARNING, E_OK, "plain dm-crypt", "LUKS");
}
END_TEST

START_TEST(test_mounted_writes)
{
	put("/boot/config-" RELEASE, "# CONFIG_BLK_DEV_WRITE_MOUNTED is not set\n");
	expect("mounted-writes", CHECK_OK, E_OK, "no swap file", "");
	area.is_file = true;
	expect("mounted-writes", CHECK_FAIL, E_DEVICE, "CONFIG_BLK_DEV_WRITE_MOUNTED", "bdev_allow_write_mounted=1");
	put("/proc/cmdline", "ro bdev_allow_write_mounted=1\n");
	expect("mounted-writes", CHECK_OK, E_OK, "allows", "");
	put("/proc/cmdline", "ro\n");
	put("/boot/config-" RELEASE, "CONFIG_BLK_DEV_WRITE_MOUNTED=y\n");
	expect("mounted-writes", CHECK_OK, E_OK, "allows", "");
}
END_TEST

/* ---- room and time ---- */

static void remember(uint64_t raw, uint64_t stored, uint64_t save_ns)
{
	const struct past_image p = {raw, stored, save_ns, 5};
	struct past_image back;

	put("/var/lib/x", "");
	past_write(root, &p);
	ck_assert(past_read(root, &back));
	ck_assert(back.raw == raw && back.stored == stored && back.save_ns == save_ns && back.load_ns == 5);
}

START_TEST(test_space_by_ratio)
{
	struct estimate e;

	/* 1000000 kB are in use, 600000 are free. */
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/good partition 600000 0 -2\n");
	remember(1000, 500, UINT64_C(1000000000));
	expect("space", CHECK_OK, E_OK, "488 MiB needed at the last image's ratio", "");
	remember(1000, 700, UINT64_C(1000000000));
	expect("space", CHECK_WARNING, E_OK, "683 MiB needed at the last image's ratio", "larger");
	check_estimate(&facts, &e);
	ck_assert_uint_eq(e.raw, UINT64_C(1000000) << 10);
	ck_assert(e.ratio_known && e.seconds > 1023999 && e.seconds < 1024001);
	facts.compress = false;
	check_estimate(&facts, &e);
	ck_assert(!e.ratio_known && e.stored == e.raw);
	facts.compress = true;
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/good partition 300000 0 -2\n");
	expect("space", CHECK_FAIL, E_NOSPACE, "341 MiB at the very least", "larger");
}
END_TEST

START_TEST(test_size_asked_for)
{
	struct estimate e;

	facts.image_size = UINT64_C(100) << 20;
	check_estimate(&facts, &e);
	ck_assert_uint_eq(e.raw, UINT64_C(100) << 20);
	facts.image_size = 0; /* the smallest there is: what cannot be brought down */
	check_estimate(&facts, &e);
	ck_assert_uint_eq(e.raw, UINT64_C(59000) << 10);
	facts.image_size = UINT64_MAX;
	put("/proc/meminfo", "MemTotal: 4000000 kB\nMemFree: 0 kB\n");
	put("/sys/power/image_size", "999999999999\n");
	check_estimate(&facts, &e);
	ck_assert_uint_eq(e.raw, UINT64_C(2000000) << 10);
	put("/proc/meminfo", "nonsense\n");
	check_estimate(&facts, &e);
	ck_assert_uint_eq(e.raw, 0);
}
END_TEST

START_TEST(test_past_nonsense)
{
	static const char *const texts[] = {"", "x", "1 2 3", "0 0 0 0", "5 0 1 1", "5 11 1 1", "-1 -1"};
	struct past_image p;

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		put("/var/lib/dormouse/last-image", texts[i]);
		ck_assert_msg(!past_read(root, &p), "%s", texts[i]);
	}
	put("/var/lib/dormouse/last-image", "1000 400 5000000000 4000000000\n");
	ck_assert(past_read(root, &p));
}
END_TEST

START_TEST(test_estimate)
{
	expect("estimate", CHECK_OK, E_OK, "about 976 MiB of memory to save; how small", "");
	remember(UINT64_C(1024000000), UINT64_C(512000000), UINT64_C(8000000000));
	expect("estimate", CHECK_OK, E_OK, "976 MiB of memory to save, 488 MiB on disk, 8 s", "");
}
END_TEST

START_TEST(test_watchdog)
{
	put("/sys/class/watchdog/watchdog0/state", "inactive\n");
	put("/sys/class/watchdog/watchdog0/timeout", "10\n");
	put("/sys/class/watchdog/watchdog0/identity", "iTCO_wdt\n");
	expect("watchdog", CHECK_OK, E_OK, "no hardware watchdog runs", "");
	put("/sys/class/watchdog/watchdog0/state", "active\n");
	expect("watchdog", CHECK_WARNING, E_OK, "iTCO_wdt", "RuntimeWatchdogSec=");
	remember(UINT64_C(1024000000), UINT64_C(512000000), UINT64_C(30000000000));
	expect("watchdog", CHECK_FAIL, E_UNSAFE, "after 10 s, but saving takes about 30 s", "RuntimeWatchdogSec=");
	put("/sys/class/watchdog/watchdog0/timeout", "60\n");
	expect("watchdog", CHECK_OK, E_OK, "after 60 s", "");
}
END_TEST

START_TEST(test_zram_first)
{
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 2000000 512000 100\n"
			   "/dev/good partition 8388604 0 -2\n");
	put("/proc/meminfo", "MemTotal: 4000000 kB\nMemFree: 100000 kB\nMemAvailable: 500000 kB\n");
	expect("zram", CHECK_WARNING, E_OK, "/dev/zram0 at priority 100 comes before the target", "swapoff /dev/zram0");
	/* Behind the target it does no harm, nor where nothing has to be swapped out. */
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 2000000 512000 -3\n"
			   "/dev/good partition 8388604 0 -2\n");
	expect("zram", CHECK_OK, E_OK, "become part of the image", "");
}
END_TEST

START_TEST(test_to_ram_wanted)
{
	facts.both = true;
	expect("to-ram", CHECK_OK, E_OK, "deep", "");
	put("/sys/power/mem_sleep", "[s2idle]\n");
	expect("to-ram", CHECK_FAIL, E_KERNEL, "offers `[s2idle]'", "use s2disk");
}
END_TEST

START_TEST(test_gpu)
{
	put("/proc/driver/nvidia/version", "NVRM\n");
	put("/proc/driver/nvidia/params", "EnableMSI: 1\nPreserveVideoMemoryAllocations: 1\n");
	expect("gpu", CHECK_WARNING, E_OK, "nvidia-hibernate.service", "systemctl enable nvidia-hibernate");
	put_link("/etc/systemd/system/systemd-hibernate.service.wants/nvidia-hibernate.service", "/dev/null");
	expect("gpu", CHECK_OK, E_OK, "services are enabled", "");
	put("/proc/driver/nvidia/params", "UseKernelSuspendNotifiers: 1\n");
	expect("gpu", CHECK_OK, E_OK, "by itself", "");
}
END_TEST

/* ---- the next boot ---- */

START_TEST(test_kernel_replaced)
{
	put("/lib/modules/6.1.0-19-amd64/modules.dep", "");
	take_away("/lib/modules/" RELEASE "/modules.dep");
	expect("kernel", CHECK_OK, E_OK, "starts this kernel", "");
	char path[512];
	snprintf(path, sizeof path, "%s/lib/modules/" RELEASE, root);
	ck_assert_int_eq(rmdir(path), 0);
	expect("kernel", CHECK_FAIL, E_OTHERKERNEL, "/lib/modules/" RELEASE " is gone", "boot into the new kernel");
	/* The image on the disk is another, under the same name. */
	put_kernel("/boot/vmlinuz-" RELEASE, "6.1.0-19-amd64");
	expect("kernel", CHECK_FAIL, E_OTHERKERNEL, "starts kernel 6.1.0-19-amd64, this is " RELEASE, "boot into");
}
END_TEST

START_TEST(test_grub_entries)
{
	static const struct {
		const char *wanted, *kernel; /* NULL: not there */
	} entries[] = {
		{"0", "/vmlinuz-" RELEASE},
		{"simple-1", "/vmlinuz-" RELEASE},
		{"Debian GNU/Linux", "/vmlinuz-" RELEASE},
		{"1>0", "/vmlinuz-6.1.0-17-amd64"},
		{"advanced-1>old", "/vmlinuz-6.1.0-17-amd64"},
		{"Advanced options>Debian, with Linux 6.1.0-17", "/vmlinuz-6.1.0-17-amd64"},
		{"1", NULL},
		{"1>1", NULL},
		{"nothing of that name", NULL},
	};
	struct boot_entry e;
	char menu[sizeof grub];

	for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
		memset(&e, 0, sizeof e);
		strcpy(menu, grub);
		bool found = grub_entry(menu, entries[i].wanted, &e);
		ck_assert_msg(found == !!entries[i].kernel, "%s", entries[i].wanted);
		if (!found)
			continue;
		ck_assert_str_eq(e.kernel, entries[i].kernel);
		ck_assert_uint_eq(e.initrds, 1);
		ck_assert(strstr(e.options, "root=UUID=5 ro"));
	}
}
END_TEST

static void put_saved(const char *env)
{
	char menu[sizeof grub + 256];

	snprintf(menu, sizeof menu,
		 "if [ \"${next_entry}\" ] ; then\n   set default=\"${next_entry}\"\nelse\n"
		 "   set default=\"${saved_entry}\"\nfi\n%s",
		 strchr(grub, '\n') + 1);
	put("/boot/grub/grub.cfg", menu);
	put("/boot/grub/grubenv", env);
}

START_TEST(test_grub_saved)
{
	put_kernel("/boot/vmlinuz-6.1.0-17-amd64", "6.1.0-17-amd64");
	put_saved("# GRUB Environment Block\nsaved_entry=advanced-1>old\nnext_entry=\n####");
	expect("kernel", CHECK_FAIL, E_OTHERKERNEL, "starts kernel 6.1.0-17-amd64",
	       "make the boot loader start " RELEASE);
	put_saved("# GRUB Environment Block\nsaved_entry=advanced-1>old\nnext_entry=0\n####");
	expect("kernel", CHECK_OK, E_OK, "starts this kernel", "");
	put_saved("# GRUB Environment Block\nsaved_entry=gone\n####");
	expect("kernel", CHECK_OK, E_OK, "starts this kernel", "");
}
END_TEST

START_TEST(test_loader_entries)
{
	struct boot_entry e;

	put_kernel("/efi/m/new/linux", "6.1.0-19-amd64");
	put("/efi/m/new/initrd", "");
	put("/efi/loader/entries/m-9.conf", "title Debian\nversion 6.1.0-9-amd64\nlinux /m/old/linux\noptions ro\n");
	put("/efi/loader/entries/m-19.conf",
	    "title Debian\nversion 6.1.0-19-amd64\noptions ro quiet\noptions resume=/dev/x\n"
	    "linux /m/new/linux\ninitrd /m/new/initrd\n");
	put("/efi/loader/entries/notes.txt", "linux /nothing\nversion 99\n");
	ck_assert(boot_entry_find(&facts, &e));
	ck_assert_str_eq(e.source, "/efi/loader/entries/m-19.conf");
	ck_assert_str_eq(e.kernel, "/efi/m/new/linux");
	ck_assert_uint_eq(e.initrds, 1);
	ck_assert_str_eq(e.initrd[0], "/efi/m/new/initrd");
	ck_assert_str_eq(e.options, "ro quiet resume=/dev/x");
	expect("kernel", CHECK_FAIL, E_OTHERKERNEL, "starts kernel 6.1.0-19-amd64", "boot into");
	put("/efi/loader/loader.conf", "timeout 3\ndefault m-9*\n");
	ck_assert(boot_entry_find(&facts, &e));
	ck_assert_str_eq(e.source, "/efi/loader/entries/m-9.conf");
	ck_assert_str_eq(e.kernel, ""); /* it is not there */
	put("/efi/loader/loader.conf", "timeout 3\ndefault @saved\n");
	put("/boot/grub2/grubenv",
	    "# GRUB Environment Block\nsaved_entry=m-7\nkernelopts=root=/dev/x resume=/dev/good\n");
	put("/efi/loader/entries/m-7.conf", "title Fedora\nversion 6.1.0-7\nlinux /m/old/linux\noptions $kernelopts\n");
	ck_assert(boot_entry_find(&facts, &e));
	ck_assert_str_eq(e.source, "/efi/loader/entries/m-7.conf");
	ck_assert_str_eq(e.options, "root=/dev/x resume=/dev/good");
}
END_TEST

static void put_line(const char *options)
{
	char menu[512];

	snprintf(menu, sizeof menu, "menuentry 'x' {\n\tlinux /vmlinuz-" RELEASE " %s\n}\n", options);
	put("/boot/grub/grub.cfg", menu);
}

START_TEST(test_logind)
{
	put("/run/systemd/system/x", "");
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 8000000 0 100\n");
	expect("systemd", CHECK_WARNING, E_OK, "no active swap area", "activate it in /etc/fstab");
	put("/proc/meminfo", "MemTotal: 4000000 kB\nActive(anon): 985000 kB\n");
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/good partition 1200000 200000 -2\n");
	expect("systemd", CHECK_WARNING, E_OK, "961 MiB in use do not fit into 976 MiB",
	       "BYPASS_HIBERNATION_MEMORY_CHECK=1");
	put("/proc/meminfo", "MemTotal: 4000000 kB\nActive(anon): 970000 kB\n");
	expect("systemd", CHECK_OK, E_OK, "can be done", "");
	put("/proc/meminfo", "MemTotal: 4000000 kB\nActive(anon): 2000000 kB\n");
	put("/etc/systemd/system/systemd-logind.service.d/my.conf",
	    "[Service]\nEnvironment=SYSTEMD_BYPASS_HIBERNATION_MEMORY_CHECK=1\n");
	expect("systemd", CHECK_OK, E_OK, "told not to look", "");
}
END_TEST

START_TEST(test_resume_line)
{
	put_line("ro resume=/dev/other");
	expect("resume-line", CHECK_FAIL, E_CONF, "says `/dev/other', but the image goes to /dev/good",
	       "write resume=/dev/good");
	put_line("ro resume=/dev/nowhere");
	expect("resume-line", CHECK_FAIL, E_CONF, "no device here", "write resume=/dev/good");
	put_line("ro resume=");
	expect("resume-line", CHECK_FAIL, E_CONF, "`resume=' names no device", "boot loader's entry");
	put_line("ro resume=/dev/good resume_offset=");
	expect("resume-line", CHECK_FAIL, E_CONF, "resume_offset", "boot loader's entry");
	put_line("ro resume=/dev/good noresume");
	expect("resume-line", CHECK_FAIL, E_NORESUME, "not to resume", "take noresume");
	put_line("ro");
	expect("resume-line", CHECK_OK, E_OK, "resume device (/etc/suspend.conf) names the target", "");
	facts.conf_device = "";
	expect("resume-line", CHECK_WARNING, E_OK, "neither resume=", "write resume=/dev/good");
	facts.conf_device = "/dev/other";
	expect("resume-line", CHECK_FAIL, E_CONF, "but the image goes to", "write resume=/dev/good");
}
END_TEST

START_TEST(test_resume_offset)
{
	area.is_file = true;
	area.start = (UINT64_C(1) << 33) * 4096;
	put_line("ro resume=/dev/good resume_offset=8589934592");
	expect("resume-line", CHECK_OK, E_OK, "names the target", "");
	put_line("ro resume=/dev/good resume_offset=1");
	expect("resume-line", CHECK_FAIL, E_CONF, "offset 1, but the swap file begins at page 8589934592",
	       "write resume=/dev/good resume_offset=8589934592");
	put_line("ro resume=/dev/good");
	expect("resume-line", CHECK_FAIL, E_CONF, "offset 0", "resume_offset=8589934592");
	facts.conf_offset = UINT64_C(1) << 33;
	expect("resume-line", CHECK_OK, E_OK, "names the target", "");
	facts.conf_device = "/etc/passwd"; /* any file */
	put_line("ro");
	expect("resume-line", CHECK_OK, E_OK, "the initramfs is told where /etc/passwd lies", "");
	put_line("ro resume=/etc/passwd");
	expect("resume-line", CHECK_FAIL, E_CONF, "nothing is mounted yet", "write resume=/dev/good");
}
END_TEST

START_TEST(test_this_boot_without_resume)
{
	take_away("/boot/grub/grub.cfg");
	put("/proc/cmdline", "ro noresume\n");
	expect("resume-line", CHECK_WARNING, E_OK, "this boot was told not to resume", "take noresume");
}
END_TEST

/* ---- the initramfs ---- */

static const struct {
	struct ramfs ramfs;
	enum check_level level;
	int code;
	const char *says, *cure;
} ramfs[] = {
	{{.program = ""}, CHECK_FAIL, E_UNSAFE, "has no resume of Dormouse", "update-initramfs -u"},
	{{.program = "klibc's own"}, CHECK_FAIL, E_UNSAFE, "only another program's usr/lib/dormouse/resume", "README"},
	{{.program = "%s (Dormouse) 0"},
	 CHECK_FAIL,
	 E_UNSAFE,
	 "is not the one that is installed",
	 "update-initramfs -u"},
	{{.no_zstd = true}, CHECK_FAIL, E_UNSAFE, "but not libzstd.so.1, which that needs", "update-initramfs -u"},
	{{.library = "an older libc"}, CHECK_WARNING, E_OK, "usr/lib/libc.so.6", "update-initramfs -u"},
	{{.script = ""}, CHECK_WARNING, E_OK, "no script there seems to run it", "README"},
	{{.script = "#!/bin/sh\n/bin/resume\n"}, CHECK_WARNING, E_OK, "no script", "README"},
	{{.conf = "# the swap\nresume device = /dev/other\n"},
	 CHECK_FAIL,
	 E_UNSAFE,
	 "another resume device",
	 "update-initramfs -u"},
	{{.conf = "resume device=UUID=1234 # it\nimage size = 0\n"},
	 CHECK_WARNING,
	 E_OK,
	 "an older one",
	 "update-initramfs -u"},
	{{.conf = ""}, CHECK_WARNING, E_OK, "has no copy of /etc/suspend.conf", "update-initramfs -u"},
	{{.program_name = "sbin/resume", .script = "#!/bin/sh\nexec /sbin/resume\n"},
	 CHECK_OK,
	 E_OK,
	 "sbin/resume",
	 ""},
};

START_TEST(test_initramfs)
{
	put_initrd(&ramfs[_i].ramfs);
	expect("initramfs", ramfs[_i].level, ramfs[_i].code, ramfs[_i].says, ramfs[_i].cure);
}
END_TEST

/* The hooks write where a swap file lies into the copy, since nobody can look it up by its path in there. */
START_TEST(test_initramfs_swap_file)
{
	struct ramfs there = {.conf = "threads = 2\nresume device = UUID=1234\nresume offset = 256\n"};
	struct ramfs moved = {.conf = "threads = 2\nresume device = UUID=1234\nresume offset = 300\n"};
	struct ramfs path = {.conf = "resume device = /swapfile\nthreads = 2\n"};
	struct ramfs older = {.conf = "threads = 3\nresume device = UUID=1234\nresume offset = 256\n"};

	put("/etc/suspend.conf", path.conf);
	area.start = 256 * 4096;
	put_initrd(&there);
	expect("initramfs", CHECK_OK, E_OK, "and configuration as installed", "");
	put_initrd(&moved);
	expect("initramfs", CHECK_FAIL, E_UNSAFE, "names another resume device or offset", "update-initramfs -u");
	put_initrd(&path);
	expect("initramfs", CHECK_FAIL, E_UNSAFE, "names another resume device or offset", "update-initramfs -u");
	put_initrd(&older);
	expect("initramfs", CHECK_WARNING, E_OK, "an older one", "update-initramfs -u");
	struct ramfs none = {.conf = ""};
	facts.conf_device = "/etc/passwd"; /* any file */
	put_initrd(&none);
	put("/proc/cmdline", "ro\n");
	expect("initramfs", CHECK_FAIL, E_UNSAFE, "does not learn where /etc/passwd lies", "update-initramfs -u");
	put("/proc/cmdline", "ro resume=/dev/good resume_offset=256\n");
	expect("initramfs", CHECK_WARNING, E_OK, "has no copy of", "update-initramfs -u");
}
END_TEST

/* Uninstalled: what is in the initramfs cannot be told from what it should be. */
START_TEST(test_initramfs_alone)
{
	take_away(PROGRAM);
	expect("initramfs", CHECK_WARNING, E_OK, "there is no " PROGRAM " to compare it with", "update-initramfs -u");
}
END_TEST

static void run(const char *fmt, ...)
{
	char command[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof command, fmt, ap);
	va_end(ap);
	ck_assert_msg(!system(command), "%s", command);
}

static const char *const packers[][2] = {
	{"gzip", "gzip -c"}, {"zstd", "zstd -qc"}, {"xz", "xz -c"}, {"lz4", "lz4 -lqc"}, {"bzip2", "bzip2 -c"}};

/* Compressed behind an archive that is not, as every distribution has it. */
START_TEST(test_initramfs_compressed)
{
	char where[128];
	size_t first;

	snprintf(where, sizeof where, "command -v %s > /dev/null 2>&1", packers[_i][0]);
	if (system(where)) {
		fprintf(stderr, "check_checks: a test is left out: no %s\n", packers[_i][0]);
		return;
	}
	make_archive(&(struct ramfs){.program = ""});
	for (first = 512; memcmp(archive + first, "070701", 6); first += 512)
		;
	put_bytes("/early", archive, first);
	put_bytes("/late", archive + first, archive_size - first);
	run("cd %s && %s late > late.packed && cat early late.packed > .%s", root, packers[_i][1], INITRD);
	run("ln -s $(command -v %s) %s/usr/sbin/%s", packers[_i][0], root, packers[_i][0]);
	expect("initramfs", CHECK_FAIL, E_UNSAFE, "has no resume of Dormouse", "update-initramfs -u");
	/* Cut short it is no archive any more, and nothing is concluded from what was there. */
	run("cd %s && head -c -20 .%s > cut && cat cut > .%s", root, INITRD, INITRD);
	struct finding found = look("initramfs");
	ck_assert_msg(found.level == CHECK_WARNING && strstr(found.text, "is not known"), "%s", found.text);
}
END_TEST

START_TEST(test_archive_damaged)
{
	make_archive(&(struct ramfs){.conf = ""});
	for (size_t cut = 1; cut < archive_size - 1024; cut += 97) {
		put_bytes(INITRD, archive, cut);
		struct finding found = look("initramfs");
		ck_assert_msg(found.level != CHECK_OK, "cut at %zu: %s", cut, found.text);
	}
	/* A name or a size that cannot be. */
	memset(archive + 94, 'f', 8);
	put_bytes(INITRD, archive, archive_size);
	expect("initramfs", CHECK_WARNING, E_OK, "is damaged", "README");
}
END_TEST

static void put_tool(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "/usr/bin/%s", name);
	put(path, text);
	run("chmod 755 %s%s", root, path);
}

/* What cannot be read here is listed by its maker's tool; copies are compared by date then. */
START_TEST(test_listing)
{
	put(INITRD, "MZ: a unified kernel image");
	put_tool("lsinitramfs", "#!/bin/sh\necho usr/bin/x; echo usr/lib/dormouse/resume\n");
	date(PROGRAM, 1000);
	date("/etc/suspend.conf", 1000);
	date(INITRD, 2000);
	expect("initramfs", CHECK_OK, E_OK, "lsinitramfs finds resume", "");
	date("/etc/suspend.conf", 3000);
	expect("initramfs", CHECK_WARNING, E_OK, "older than /etc/suspend.conf (by date", "update-initramfs -u");
	date(PROGRAM, 3000);
	expect("initramfs", CHECK_WARNING, E_OK, "older than " PROGRAM, "update-initramfs -u");
	put_tool("lsinitramfs", "#!/bin/sh\necho usr/bin/resume\n");
	expect("initramfs", CHECK_FAIL, E_UNSAFE, "lsinitramfs finds no dormouse/resume", "README");
	/* A tool that fails is no witness. */
	put_tool("lsinitramfs", "#!/bin/sh\necho usr/lib/dormouse/resume; exit 1\n");
	put_tool("lsinitrd", "#!/bin/sh\necho '-rwxr-xr-x 1 root root 5 Jan  1 00:00 usr/lib/dormouse/resume -> x'\n");
	expect("initramfs", CHECK_WARNING, E_OK, "lsinitrd only lists it", "update-initramfs -u");
	put_tool("lsinitcpio", "#!/bin/sh\necho usr/bin/x\n");
	expect("initramfs", CHECK_FAIL, E_UNSAFE, "lsinitcpio finds no", "README");
}
END_TEST

/* No tool may hold the check up for ever, nor leave a process behind. */
START_TEST(test_program_hangs)
{
	char path[128];
	char *const argv[] = {path, NULL};
	pid_t child;

	put_tool("hangs", "#!/bin/sh\nexec sleep 1000\n");
	snprintf(path, sizeof path, "%s/usr/bin/hangs", root);
	int fd = program_start(argv, -1, &child);
	ck_assert_int_ge(fd, 0);
	ck_assert(!wait_readable(fd, clock_ns() + 1000000));
	close(fd);
	ck_assert(!program_end(child, true));
	ck_assert(kill(child, 0) && errno == ESRCH);
	strcpy(path, "/nonexistent/program");
	/* Under memcheck posix_spawn() cannot tell that; the child ends with 127 then. */
	fd = program_start(argv, -1, &child);
	if (fd < 0)
		return;
	close(fd);
	ck_assert(!program_end(child, false));
}
END_TEST

static void collect(void *ctx, const char *library)
{
	strcat(strcat(ctx, library), " ");
}

START_TEST(test_elf)
{
	uint8_t elf[ELF_SIZE];
	char found[256] = "";

	make_elf(elf, "");
	ck_assert(elf_needed(elf, sizeof elf, collect, found));
	ck_assert_str_eq(found, "libzstd.so.1 libc.so.6 ");
	/* Cut or damaged anywhere: refused, or the same, and never read past its end. */
	for (size_t n = 0; n < sizeof elf; n += 7) {
		uint8_t *part = malloc(n + !n);
		memcpy(part, elf, n);
		found[0] = 0;
		elf_needed(part, n, collect, found);
		ck_assert_uint_le(strlen(found), strlen("libzstd.so.1 libc.so.6 "));
		free(part);
	}
	ck_assert(!elf_needed((const uint8_t *)"#!/bin/sh\n", 10, collect, found));
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
	Suite *s = suite_create("checks");
	TCase *t = tcase_create("checks");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_good_machine);
	tcase_add_test(t, test_table);
	tcase_add_test(t, test_nothing_there);
	tcase_add_loop_test(t, test_rows, 0, COUNT(rows));
	tcase_add_test(t, test_snapshot_refused);
	tcase_add_test(t, test_snapshot_not_built);
	tcase_add_test(t, test_target);
	tcase_add_test(t, test_target_shown);
	tcase_add_loop_test(t, test_stack, 0, COUNT(stacks));
	tcase_add_test(t, test_random_key);
	tcase_add_test(t, test_mounted_writes);
	tcase_add_test(t, test_space_by_ratio);
	tcase_add_test(t, test_size_asked_for);
	tcase_add_test(t, test_past_nonsense);
	tcase_add_test(t, test_estimate);
	tcase_add_test(t, test_watchdog);
	tcase_add_test(t, test_zram_first);
	tcase_add_test(t, test_to_ram_wanted);
	tcase_add_test(t, test_gpu);
	tcase_add_test(t, test_kernel_replaced);
	tcase_add_test(t, test_grub_entries);
	tcase_add_test(t, test_grub_saved);
	tcase_add_test(t, test_loader_entries);
	tcase_add_test(t, test_resume_line);
	tcase_add_test(t, test_logind);
	tcase_add_test(t, test_resume_offset);
	tcase_add_test(t, test_this_boot_without_resume);
	tcase_add_loop_test(t, test_initramfs, 0, COUNT(ramfs));
	tcase_add_test(t, test_initramfs_swap_file);
	tcase_add_test(t, test_initramfs_alone);
	tcase_add_loop_test(t, test_initramfs_compressed, 0, COUNT(packers));
	tcase_add_test(t, test_archive_damaged);
	tcase_add_test(t, test_listing);
	tcase_add_test(t, test_program_hangs);
	tcase_add_test(t, test_elf);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
