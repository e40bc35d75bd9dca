/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/error.h"
#include "image/format.h"
#include "tools/config.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a file of this text gives: a code, and a piece of the dump below or, for E_CONF, of fault_text(). */
struct row {
	const char *text;
	int code;
	const char *want;
};

/* Lines as people have them: Debian's and openSUSE's packages, wikis, forums, other editors. */
static const struct row corpus[] = {
	/* whole files */
	{"# /etc/uswsusp.conf(8) -- Configuration file for s2disk/s2both \n"
	 "resume device = /dev/mapper/vg-swap_1\ncompress = y\nearly writeout = y\nimage size = 7632834068\n"
	 "RSA key file = /etc/uswsusp.key\nshutdown method = platform\n",
	 E_OK, "dev=/dev/mapper/vg-swap_1 size=7632834068 shutdown=0 compress=1 notes=2"},
	{"# /etc/uswsusp.conf(8) -- Configuration file for s2disk/s2both \n"
	 "resume device = /dev/sda7\ncompress = y\nearly writeout = y\nimage size = 483503718\n"
	 "RSA key file = /etc/uswsusp.key\nshutdown method = platform\ncompute checksum = y\n",
	 E_OK, "dev=/dev/sda7 size=483503718 shutdown=0 compress=1 notes=3"},
	{"snapshot device = /dev/snapshot\nresume device = /dev/hda5\n#image size = 350000000\n"
	 "#suspend loglevel = 2\n#compute checksum = y\n#compress = y\n#encrypt = y\n#early writeout = y\n#splash = "
	 "y\n",
	 E_OK, "dev=/dev/hda5 size=unset shutdown=0 compress=1 notes=0"},
	{"resume device = /dev/disk/by-uuid/53ad2b7e-6d66-4b0b-a2c1-ad8e3a1d7bd3\nresume offset = 34816\nsplash = y\n",
	 E_OK, "offset=34816"},
	/* Ubuntu 7.10 to 9.04, forums: splash still there */
	{"# /etc/uswsusp.conf(8) -- Configuration file for s2disk/s2both\n"
	 "resume device = UUID=70554dbc-5ffc-4c5c-bd2e-258ad118db4f\nsplash = y\ncompress = y\nearly writeout = y\n"
	 "image size = 425876684\nRSA key file = /etc/uswsusp.key\nshutdown method = platform\n",
	 E_OK, "dev=UUID=70554dbc-5ffc-4c5c-bd2e-258ad118db4f size=425876684 shutdown=0 compress=1 notes=3"},
	{"# /etc/uswsusp.conf( -- Configuration file for s2disk/s2both\n"
	 "resume device = /dev/disk/by-uuid/6d77e24a-79d3-425c-bac6-f875a3f35855\nsplash = y\ncompress = y\n"
	 "early writeout = y\n#image size = 2.26133e+09\nRSA key file = /etc/uswsusp.key\nshutdown method = platform\n",
	 E_OK, "dev=/dev/disk/by-uuid/6d77e24a-79d3-425c-bac6-f875a3f35855 size=unset shutdown=0 compress=1 notes=3"},
	/* a swap file that debconf found, the order of its keys */
	{"# /etc/uswsusp.conf(5) -- Configuration file for s2disk/s2both\n"
	 "resume device = /dev/sda2\ncompress = y\nearly writeout = y\nimage size = 7692818022\n"
	 "RSA key file = /etc/uswsusp.key\nshutdown method = platform\nresume offset = 8617984\n",
	 E_OK, "dev=/dev/sda2 size=7692818022 shutdown=0 compress=1 notes=2 offset=8617984"},
	/* a Windows file system's file on a loop device, all keys of the package */
	{"resume device = /dev/loop0\ncompress = y\nearly writeout = y\nimage size = 1000000000\n"
	 "RSA key file = /etc/uswsusp.key\nshutdown method = platform\nresume offset = 970752\ncompute checksum = y\n"
	 "suspend loglevel = 2\nmax loglevel = 4\n",
	 E_OK, "dev=/dev/loop0 size=1000000000 shutdown=0 compress=1 notes=3 offset=970752"},
	/* Arch's wiki, with blanks behind a commented key */
	{"snapshot device = /dev/snapshot\n\nresume device = /dev/disk/by-label/swap\n\n# image size is in bytes\n"
	 "image size = 1468006400\n\n#suspend loglevel = 2\n\ncompute checksum = y\n\ncompress = y\n\n#encrypt = y\n\n"
	 "#early writeout = y\n\n#splash = y\n\n# up to 60 (seconds)\n#resume pause = 30 \n\nthreads = y\n",
	 E_OK, "dev=/dev/disk/by-label/swap size=1468006400 shutdown=0 compress=1 notes=1 offset=0"},
	/* Arch, swap file by hand, shutdown instead of platform */
	{"resume device = /dev/sda3\nresume offset = 1748992\n#snapshot device = /dev/snapshot\n"
	 "#resume device = /dev/sda8\n#image size = 350000000\n#suspend loglevel = 2\n#compute checksum = y\n"
	 "compress = y\n#encrypt = y\n#early writeout = y\n#splash = y\nshutdown method = shutdown\n",
	 E_OK, "dev=/dev/sda3 size=unset shutdown=1 compress=1 notes=0 offset=1748992"},
	/* indented, as pasted from a blog */
	{"        snapshot device = /dev/snapshot\n        resume device = /dev/sda2\n"
	 "        #image size = 350000000\n        #suspend loglevel = 2\n        compress = y\n"
	 "        shutdown method = shutdown\n",
	 E_OK, "dev=/dev/sda2 size=unset shutdown=1 compress=1 notes=0"},
	{"snapshot device = /dev/snapshot\nresume device = /dev/archdisk/swap\n#image size = 350000000\n"
	 "#suspend loglevel = 2\ncompute checksum = y\n#compress = y\nthreads = y\n#encrypt = y\n"
	 "early writeout = y\n#splash = y\n",
	 E_OK, "dev=/dev/archdisk/swap size=unset shutdown=0 compress=1 notes=2"},
	{"resume device = /dev/sda6\nearly writeout = y\nimage size = 1003741824\nshutdown method = platform\n"
	 "snapshot device = /dev/snapshot\ncompute checksum = n\nsplash = n\n",
	 E_OK, "dev=/dev/sda6 size=1003741824 shutdown=0 compress=1 notes=3"},
	/* a swap file by its path, as ours alone takes it */
	{"resume device = /swapfile\nimage size = 60%\ncompressor = zstd\n", E_OK, "dev=/swapfile size=60%"},
	/* a template that nobody filled in */
	{"snapshot device = /dev/snapshot\nresume device = /dev/<your_swap_partition>\n", E_OK,
	 "dev=/dev/<your_swap_partition>"},
	{"resume device = \ncompress = y\n", E_OK, "dev= size=unset"},
	{"image size = <preferred_suspend_image_size_in_bytes>\n", E_CONF, "no size; write bytes"},
	{"shutdown method = <reboot, platform>\n", E_CONF, "write platform, shutdown or reboot"},
	{"compress = <y/n>\n", E_CONF, "neither y nor n"},
	{"", E_OK, "dev= size=unset shutdown=0 compress=1 notes=0"},
	{"\n\n   \n\t\n# only comments\n   # and blanks\n", E_OK, "notes=0"},
	/* editors and line ends */
	{"resume device = /dev/sda2\r\nimage size = 350000000\r\n", E_OK, "dev=/dev/sda2 size=350000000"},
	{"\xef\xbb\xbfresume device = /dev/sda2\n", E_OK, "dev=/dev/sda2"},
	{"\xef\xbb\xbf# comment first\nimage size = 0\n", E_OK, "size=0"},
	{"resume device = /dev/sda2", E_OK, "dev=/dev/sda2"},
	{"resume device = /dev/sda2   \t \n", E_OK, "dev=/dev/sda2 size"},
	/* blanks */
	{"resume device=/dev/sda2\n", E_OK, "dev=/dev/sda2"},
	{"resume device =/dev/sda2\n", E_OK, "dev=/dev/sda2"},
	{"resume device= /dev/sda2\n", E_OK, "dev=/dev/sda2"},
	{"  resume \t device\t=\t/dev/sda2\n", E_OK, "dev=/dev/sda2"},
	{"Resume Device = /dev/sda2\n", E_OK, "dev=/dev/sda2"},
	/* quotes and comments */
	{"resume device = \"/dev/sda2\"\n", E_OK, "dev=/dev/sda2 size"},
	{"resume device = '/dev/sda2' # the big one\n", E_OK, "dev=/dev/sda2 size"},
	{"resume device = /dev/sda2 # the big one\n", E_OK, "dev=/dev/sda2 size"},
	{"resume device = /dev/sda2\t#the big one\n", E_OK, "dev=/dev/sda2 size"},
	{"resume device = LABEL=a#b\n", E_OK, "dev=LABEL=a#b size"},
	{"resume device = \"LABEL=my # swap\"\n", E_OK, "dev=LABEL=my # swap size"},
	{"resume device = UUID=53ad2b7e-6d66-4b0b-a2c1-ad8e3a1d7bd3\n", E_OK,
	 "dev=UUID=53ad2b7e-6d66-4b0b-a2c1-ad8e3a1d7bd3"},
	{"resume device = PARTUUID=8d6c5f1e-02\n", E_OK, "dev=PARTUUID=8d6c5f1e-02"},
	{"resume device = 8:2\n", E_OK, "dev=8:2"},
	{"resume device = # nothing yet\n", E_OK, "dev= size"},
	{"resume device = \"/dev/sda2\n", E_CONF, "`resume device = \"/dev/sda2': a quote is not closed"},
	{"resume device = \"/dev/sda2\" /dev/sdb1\n", E_CONF, "something follows the closing quote"},
	{"resume device = sda2\n", E_CONF, "`resume device = sda2': no device; write /dev/..."},
	{"resume device = <path_to_resume_device_file>\n", E_CONF, "no device"},
	{"resume device = 8:x\n", E_CONF, "no device"},
	{"resume device = UUID=\n", E_CONF, "no device"},
	{"snapshot device = snapshot\n", E_CONF, "write /dev/snapshot"},
	/* offsets */
	{"resume offset = 4294967296\n", E_OK, "offset=4294967296"},
	{"resume offset = 0\n", E_OK, "offset=0"},
	{"resume offset = 12x\n", E_CONF,
	 "suspend.conf:1: `resume offset = 12x': not a number of pages; write the number"},
	{"\n\nresume offset = 12x\n", E_CONF, "suspend.conf:3: `resume offset = 12x'"},
	{"resume offset = -1\n", E_CONF, "not a number of pages"},
	{"resume offset = 0x8800\n", E_CONF, "not a number of pages"},
	{"resume offset = 34816.0\n", E_CONF, "not a number of pages"},
	{"resume offset = 99999999999999999999\n", E_CONF, "not a number of pages"},
	{"resume offset = 34816 34817\n", E_CONF, "not a number of pages"},
	{"resume offset =\n", E_CONF, "no value"},
	/* sizes */
	{"image size = 2.26133e+09\n", E_OK, "size=2261330000"},
	{"image size = 1.2E9\n", E_OK, "size=1200000000"},
	{"image size = 512M\n", E_OK, "size=536870912"},
	{"image size = 512MiB\n", E_OK, "size=536870912"},
	{"image size = 512 MiB\n", E_OK, "size=536870912"},
	{"image size = 500MB\n", E_OK, "size=500000000"},
	{"image size = 1G\n", E_OK, "size=1073741824"},
	{"image size = 1.5g\n", E_OK, "size=1610612736"},
	{"image size = 1000000k # small\n", E_OK, "size=1024000000"},
	{"image size = 0\n", E_OK, "size=0"},
	{"image size = 40%\n", E_OK, "size=40%"},
	{"image size = 40 %\n", E_OK, "size=40%"},
	{"image size = 40%\nimage size = 1G\n", E_OK, "size=1073741824"},
	{"image size = 18446744073709551615\n", E_CONF, "no size"},
	{"image size = 999999999999999999\n", E_OK, "size=999999999999999999"},
	{"image size = 101%\n", E_CONF, "0% to 100%"},
	{"image size = 40.5%\n", E_CONF, "0% to 100%"},
	{"image size = -1\n", E_CONF, "no size; write bytes"},
	{"image size = 512 megabytes\n", E_CONF, "no size"},
	{"image size = 1,5G\n", E_CONF, "no size"},
	{"image size = 1.5\n", E_CONF, "no size"},
	{"image size = 1e99\n", E_CONF, "no size"},
	{"image size = 99999999999T\n", E_CONF, "no size"},
	{"image size = 1.2.3\n", E_CONF, "no size"},
	{"image size = M\n", E_CONF, "no size"},
	/* booleans */
	{"compress = n\n", E_OK, "compress=0"},
	{"compress = No\n", E_OK, "compress=0"},
	{"compress = 0\n", E_OK, "compress=0"},
	{"compress = n\ncompress = YES\n", E_OK, "compress=1"},
	{"compress = n\ncompress = 1\n", E_OK, "compress=1"},
	{"encrypt = y\n", E_OK, "encrypt=1"},
	{"force = yes\n", E_OK, "force=1"},
	{"compress = yess\n", E_CONF, "neither y nor n"},
	{"compress = 2\n", E_CONF, "neither y nor n"},
	{"cipher = AES-256-GCM\n", E_OK, "cipher=2"},
	{"cipher = chacha20-poly1305\n", E_OK, "cipher=3"},
	{"cipher = aes-256-ocb\ncipher = auto\n", E_OK, "cipher=0"},
	{"cipher = aes\n", E_CONF, "no such cipher; write auto, aes-256-ocb"},
	{"key file = /run/key # unlocked before\n", E_OK, "keyfile=/run/key "},
	{"key file = key\n", E_CONF, "no absolute path"},
	{"key file =\n", E_CONF, "no value"},
	{"key pair = /root/my.key\n", E_OK, "pair=/root/my.key:1"},
	{"key pair = my.key\n", E_CONF, "no absolute path; write /etc/dormouse.key"},
	{"passphrase tries = 1\npassphrase timeout = 3600\n", E_OK, "tries=1 timeout=3600"},
	{"passphrase tries = 0\n", E_CONF, "no number of tries; write 1 to 100"},
	{"passphrase tries = 101\n", E_CONF, "no number of tries"},
	{"passphrase timeout = 0\n", E_CONF, "no number of seconds; write 1 to 3600"},
	{"passphrase timeout = never\n", E_CONF, "no number of seconds"},
	{"encrypt = maybe\n", E_CONF, "`encrypt = maybe': neither y nor n"},
	/* threads */
	{"threads = y\n", E_OK, "threads=all"},
	{"threads = n\n", E_OK, "threads=0"},
	{"threads = 4\n", E_OK, "threads=4"},
	{"threads = 1\n", E_OK, "threads=1"},
	{"threads = 4\nthreads = y\n", E_OK, "threads=all"},
	{"threads = 513\n", E_CONF, "up to 512"},
	{"threads = many\n", E_CONF, "up to 512"},
	/* compressors */
	{"compressor = auto\n", E_OK, "codec=4:0"},
	{"compressor = lz4\n", E_OK, "codec=2:0"},
	{"compressor = lz4:8\n", E_OK, "codec=2:8"},
	{"compressor = LZO\n", E_OK, "codec=1:0"},
	{"compressor = zstd:3\n", E_OK, "codec=3:3"},
	{"compressor = zstd:-3\n", E_OK, "codec=3:-3"},
	{"compressor = zstd:3\ncompressor = zstd\n", E_OK, "codec=3:0"},
	{"compressor = none\n", E_OK, "codec=0:0"},
	{"compressor = lzo:3\n", E_CONF, "no levels"},
	{"compressor = zstd:23\n", E_CONF, "no such level"},
	{"compressor = zstd:0\n", E_CONF, "no such level"},
	{"compressor = zstd:\n", E_CONF, "no number"},
	{"compressor = gzip\n", E_CONF, "write auto, lz4"},
	/* the rest */
	{"shutdown method = reboot\n", E_OK, "shutdown=2"},
	{"shutdown method = shutdown\n", E_OK, "shutdown=1"},
	{"shutdown method = poweroff\n", E_CONF, "write platform, shutdown or reboot"},
	{"resume pause = 5\nresume wait = 30\n", E_OK, "pause=5 wait=30"},
	{"resume pause = 5s\n", E_CONF, "no number of seconds"},
	{"disk timeout = 0\n", E_OK, "disk=0"},
	{"disk timeout = 3600\n", E_OK, "disk=3600"},
	{"disk timeout = 3601\n", E_CONF, "write 0 (wait for ever) to 3600"},
	{"disk timeout = -1\n", E_CONF, "write 0 (wait for ever) to 3600"},
	{"suspend loglevel = 2\nmax loglevel = 4\n", E_OK, "log=2/4"},
	{"suspend loglevel = 99\n", E_CONF, "no log level"},
	{"max loglevel = -1\n", E_CONF, "no log level"},
	{"fbsplash theme = livecd-2007.0\nsplash = y\n", E_OK, "notes=2"},
	{"s2ram_vbe_post = y\ns2ram = n\n", E_OK, "notes=2"},
	{"resum device = /dev/sda2\n", E_OK, "notes=1"},
	{"resume device /dev/sda2\n", E_CONF, "no `=' in it; write `key = value'"},
	{"= /dev/sda2\n", E_CONF, "no key before"},
	{"this key is much longer than any key that this program or another ever had = y\n", E_CONF, "key is too long"},
};

static char dir[] = "/tmp/check_config.XXXXXX", path[64];

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(strcpy(dir, "/tmp/check_config.XXXXXX")));
	snprintf(path, sizeof path, "%s/suspend.conf", dir);
	fault_clear();
}

static void teardown(void)
{
	unlink(path);
	rmdir(dir);
}

static void write_file(const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

/* One field after the other; a row wants a piece of the text, so "size=unset" and the like come in a fixed order. */
static void dump(char out[1024], const struct config *c)
{
	char size[32] = "unset", threads[16] = "all";

	if (c->image_percent)
		snprintf(size, sizeof size, "%u%%", c->image_percent);
	else if (c->image_size_set)
		snprintf(size, sizeof size, "%" PRIu64, c->image_size);
	if (c->threads_set)
		snprintf(threads, sizeof threads, "%u", c->threads);
	snprintf(out, 1024,
		 "dev=%s size=%s shutdown=%u compress=%d notes=%u offset=%" PRIu64
		 " codec=%d:%d threads=%s encrypt=%d force=%d pause=%u wait=%u log=%d/%d "
		 "cipher=%u keyfile=%s pair=%s:%d tries=%u timeout=%u disk=%u ",
		 c->resume_device, size, c->shutdown, c->compress, c->note_count, c->resume_offset, c->codec, c->level,
		 threads, c->encrypt, c->force, c->resume_pause, c->resume_wait, c->suspend_loglevel, c->max_loglevel,
		 c->cipher, c->key_file, c->key_pair, c->key_pair_set, c->passphrase_tries, c->passphrase_timeout,
		 c->disk_timeout);
}

START_TEST(test_corpus)
{
	const struct row *r = &corpus[_i];
	struct config c;
	char shown[1024];

	write_file(r->text, strlen(r->text));
	config_default(&c);
	int code = config_read(&c, path);
	ck_assert_msg(code == r->code, "%s: %d %s", r->text, code, fault_text());
	dump(shown, &c);
	const char *got = code ? fault_text() : shown;
	ck_assert_msg(strstr(got, r->want), "%s: no `%s' in `%s'", r->text, r->want, got);
}
END_TEST

START_TEST(test_defaults)
{
	struct config c;
	char shown[1024];

	config_default(&c);
	dump(shown, &c);
	ck_assert_str_eq(c.snapshot_device, "/dev/snapshot");
	ck_assert(!c.resume_offset_set);
	ck_assert_str_eq(shown,
			 "dev= size=unset shutdown=0 compress=1 notes=0 offset=0 codec=4:0 threads=all encrypt=0 "
			 "force=0 pause=0 wait=10 log=-1/-1 cipher=0 keyfile= pair=/etc/dormouse.key:0 tries=3 "
			 "timeout=120 disk=300 ");
}
END_TEST

START_TEST(test_offset_is_set)
{
	struct config c;

	config_default(&c);
	ck_assert_int_eq(config_set(&c, "-P", "resume offset = 0"), E_OK);
	ck_assert(c.resume_offset_set);
	ck_assert_int_eq(config_set(&c, "-P", "resume offset=140737488355327"), E_OK);
	ck_assert_uint_eq(c.resume_offset, UINT64_C(140737488355327));
	ck_assert_int_eq(config_set(&c, "-P", "resume offset=140737488355328"), E_CONF);
	ck_assert_uint_eq(c.image_percent, 0);
	ck_assert_ptr_nonnull(strstr(fault_text(), "-P: `resume offset=140737488355328'"));
}
END_TEST

START_TEST(test_notes)
{
	struct config c;

	config_default(&c);
	ck_assert_int_eq(config_set(&c, "x:1", "resum device = /dev/sda2"), E_OK);
	ck_assert_str_eq(c.notes[0],
			 "x:1: unknown key `resum device' ignored; the nearest known one is `resume device'");
	ck_assert_int_eq(config_set(&c, "x:2", "thread = 3"), E_OK);
	ck_assert_ptr_nonnull(strstr(c.notes[1], "`threads'"));
	ck_assert_int_eq(config_set(&c, "x:3", "imagesize = 3"), E_OK);
	ck_assert_ptr_nonnull(strstr(c.notes[2], "`image size'"));
	ck_assert_int_eq(config_set(&c, "x:4", "early writeout = y"), E_OK);
	ck_assert_str_eq(c.notes[3], "x:4: `early writeout' has no effect any more: writing always begins at once");
	ck_assert_int_eq(config_set(&c, "x:4", "RSA key file = /etc/uswsusp.key"), E_OK);
	ck_assert_ptr_nonnull(strstr(c.notes[4], "make a new key pair with `suspend-keygen'"));
	ck_assert_str_eq(c.resume_device, "");
	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(config_set(&c, "x:5", "splash = y"), E_OK);
	ck_assert_uint_eq(c.note_count, CONFIG_NOTES);
	ck_assert_str_eq(c.notes[CONFIG_NOTES - 1], "and more lines without effect");
}
END_TEST

/* A path of 255 characters is the longest that fits; one more is refused, not cut. */
START_TEST(test_long_values)
{
	struct config c;
	char line[4096] = "resume device = /";
	size_t n = strlen(line);

	config_default(&c);
	memset(line + n, 'x', 254);
	ck_assert_int_eq(config_set(&c, "-P", line), E_OK);
	ck_assert_uint_eq(strlen(c.resume_device), 255);
	strcat(line, "x");
	config_default(&c);
	ck_assert_int_eq(config_set(&c, "-P", line), E_CONF);
	ck_assert_str_eq(c.resume_device, "");
	ck_assert_ptr_nonnull(strstr(fault_text(), "longer than 255"));
	memset(line + n, 'x', 3000);
	fault_clear();
	ck_assert_int_eq(config_set(&c, "-P", line), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "too long"));
	memset(line, 'x', 3000);
	ck_assert_int_eq(config_set(&c, "-P", line), E_CONF);
}
END_TEST

START_TEST(test_files_refused)
{
	struct config c;

	config_default(&c);
	ck_assert_int_eq(config_read(&c, path), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "No such file"));
	fault_clear();
	ck_assert_int_eq(config_read(&c, dir), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "not a plain file"));
	fault_clear();
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(config_read(&c, path), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "not a plain file"));
	unlink(path);
	fault_clear();
	write_file("force = y\n", 10);
	ck_assert_int_eq(chmod(path, 0664), 0);
	ck_assert_int_eq(config_read(&c, path), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "chmod go-w"));
	fault_clear();
	ck_assert_int_eq(chmod(path, 0646), 0);
	ck_assert_int_eq(config_read(&c, path), E_CONF);
	ck_assert(!c.force);
	fault_clear();
	write_file("force = y\0x\n", 12);
	ck_assert_int_eq(config_read(&c, path), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "zero bytes"));
	ck_assert(!c.force);
}
END_TEST

/* suspend.conf comes before uswsusp.conf, which is read when only that exists. */
START_TEST(test_usual_files)
{
	struct config c;
	char etc[80], old[96];

	snprintf(etc, sizeof etc, "%s/etc", dir);
	snprintf(old, sizeof old, "%s/uswsusp.conf", etc);
	ck_assert_int_eq(mkdir(etc, 0755), 0);
	config_default(&c);
	ck_assert_int_eq(config_read_usual(&c, dir), E_OK);
	ck_assert_str_eq(c.file, "");
	write_file("resume device = /dev/old\n", 25);
	ck_assert_int_eq(rename(path, old), 0);
	ck_assert_int_eq(config_read_usual(&c, dir), E_OK);
	ck_assert_str_eq(c.file, "/etc/uswsusp.conf");
	ck_assert_str_eq(c.resume_device, "/dev/old");
	write_file("image size = 5\n", 15);
	snprintf(etc, sizeof etc, "%s/etc/suspend.conf", dir);
	ck_assert_int_eq(rename(path, etc), 0);
	config_default(&c);
	ck_assert_int_eq(config_read_usual(&c, dir), E_OK);
	ck_assert_str_eq(c.file, "/etc/suspend.conf");
	ck_assert_str_eq(c.resume_device, "");
	/* One that cannot be used is an error, not a reason to take the other. */
	ck_assert_int_eq(chmod(etc, 0666), 0);
	ck_assert_int_eq(config_read_usual(&c, dir), E_CONF);
	ck_assert_int_eq(unlink(etc) | unlink(old), 0);
	*strrchr(etc, '/') = 0;
	ck_assert_int_eq(rmdir(etc), 0);
}
END_TEST

START_TEST(test_other_owner_refused)
{
	struct config c;

	if (geteuid())
		return; /* only root can give a file away */
	config_default(&c);
	write_file("force = y\n", 10);
	ck_assert_int_eq(chown(path, 12345, 0), 0);
	ck_assert_int_eq(config_read(&c, path), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "chown root"));
	ck_assert(!c.force);
}
END_TEST

START_TEST(test_too_large)
{
	struct config c;

	write_file("", 0);
	ck_assert_int_eq(truncate(path, 65537), 0);
	ck_assert_int_eq(config_read(&c, path), E_CONF);
	ck_assert_ptr_nonnull(strstr(fault_text(), "64 KiB"));
}
END_TEST

/* The configuration that is installed says what the defaults are. */
START_TEST(test_shipped)
{
	const char *top = getenv("SRCDIR") ? getenv("SRCDIR") : ".";
	char shipped[512];
	struct config c, d;

	snprintf(shipped, sizeof shipped, "%s/conf/suspend.conf", top);
	if (access(shipped, R_OK))
		return;
	config_default(&c);
	config_default(&d);
	FILE *f = fopen(shipped, "r");
	char line[512];
	unsigned settings = 0;
	while (fgets(line, sizeof line, f)) {
		/* "#key = value" is a default; "# text" is prose. */
		if (line[0] != '#' || line[1] == ' ' || line[1] == '\n')
			continue;
		settings++;
		ck_assert_msg(config_set(&c, "shipped", line + 1) == E_OK, "%s", fault_text());
	}
	fclose(f);
	ck_assert_uint_ge(settings, 12);
	ck_assert_uint_eq(c.note_count, 0);
	c.threads_set = d.threads_set;
	ck_assert_int_eq(c.codec, d.codec);
	ck_assert_int_eq(c.compress, d.compress);
	ck_assert_uint_eq(c.shutdown, d.shutdown);
	ck_assert_uint_eq(c.resume_wait, d.resume_wait);
	ck_assert_uint_eq(c.resume_pause, d.resume_pause);
	ck_assert_str_eq(c.resume_device, d.resume_device);
	ck_assert_str_eq(c.snapshot_device, d.snapshot_device);
	ck_assert_uint_eq(c.cipher, d.cipher);
	ck_assert_int_eq(c.encrypt, d.encrypt);
	ck_assert_str_eq(c.key_file, d.key_file);
	ck_assert_str_eq(c.key_pair, d.key_pair);
	ck_assert_uint_eq(c.passphrase_tries, d.passphrase_tries);
	ck_assert_uint_eq(c.passphrase_timeout, d.passphrase_timeout);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("check_config");
	TCase *t = tcase_create("config");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, test_corpus, 0, (int)(sizeof corpus / sizeof corpus[0]));
	tcase_add_test(t, test_defaults);
	tcase_add_test(t, test_offset_is_set);
	tcase_add_test(t, test_notes);
	tcase_add_test(t, test_long_values);
	tcase_add_test(t, test_files_refused);
	tcase_add_test(t, test_usual_files);
	tcase_add_test(t, test_other_owner_refused);
	tcase_add_test(t, test_too_large);
	tcase_add_test(t, test_shipped);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
