/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel command line, and whether an image is for this machine. */
#include "base/error.h"
#include "system/machine.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static char path[] = "/tmp/dormouse-check-machine-XXXXXX";

static void write_file(const char *text, size_t n)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
	close(fd);
}

static void make_file(void)
{
	strcpy(path + strlen(path) - 6, "XXXXXX");
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

static void remove_file(void)
{
	unlink(path);
}

static int read_line(const char *text, struct boot_line *b)
{
	write_file(text, strlen(text));
	memset(b, 0xee, sizeof *b);
	fault_clear();
	return boot_line_read(path, b);
}

/* ---- the command line ---- */

static const struct {
	const char *line, *resume;
	int offset; /* -1: not set */
	unsigned delay;
	bool noresume;
} good[] = {
	{"", "", -1, 0, false},
	{"\n", "", -1, 0, false},
	{"quiet splash\n", "", -1, 0, false},
	{"resume=/dev/sda3\n", "/dev/sda3", -1, 0, false},
	{"ro resume=/dev/sda3 quiet\n", "/dev/sda3", -1, 0, false},
	{"resume=UUID=0f4c3b2a-1111-2222-3333-444455556666", "UUID=0f4c3b2a-1111-2222-3333-444455556666", -1, 0, false},
	{"resume=/dev/a resume=/dev/b\n", "/dev/b", -1, 0, false}, /* the last one counts, as in the kernel */
	{"\tresume=8:3 \t resume_offset=38912\n\n", "8:3", 38912, 0, false},
	{"resume_offset=0\n", "", 0, 0, false},
	{"resume_offset=7 resume_offset=8\n", "", 8, 0, false},
	{"resumedelay=5\n", "", -1, 5, false},
	{"resumedelay=0\n", "", -1, 0, false},
	{"resumedelay=600\n", "", -1, 600, false},
	{"resumedelay=601\n", "", -1, 600, false},
	{"resumedelay=99999\n", "", -1, 600, false}, /* never without bound */
	{"resumedelay=18446744073709551615\n", "", -1, 600, false},
	{"noresume\n", "", -1, 0, true},
	{"resume=/dev/a noresume\n", "/dev/a", -1, 0, true},
	{"nohibernate", "", -1, 0, true},
	{"hibernate=no\n", "", -1, 0, true},
	{"hibernate=noresume\n", "", -1, 0, true},
	{"hibernate=nocompress\n", "", -1, 0, false},
	{"hibernate=protect_image hibernate=noresume\n", "", -1, 0, true},
	{"hibernate=\n", "", -1, 0, false},
	{"hibernate\n", "", -1, 0, false},
	/* Words that only look like ours. */
	{"xnoresume noresumex no resume\n", "", -1, 0, false},
	{"xresume=/dev/a resumex=/dev/b resum=/dev/c Resume=/dev/d\n", "", -1, 0, false},
	{"resume_offsetx=x xresume_offset=x resumedelayx=x\n", "", -1, 0, false},
	{"root=/dev/sda1=resume=/dev/a\n", "", -1, 0, false},
	/* Within quotes, and behind "--", nothing is the kernel's. */
	{"foo=\"a resume=/dev/x\" resume_offset=7 -- resume=/dev/y noresume\n", "", 7, 0, false},
};

START_TEST(good_lines)
{
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		struct boot_line b;

		ck_assert_msg(read_line(good[i].line, &b) == E_OK, "`%s': %s", good[i].line, fault_text());
		ck_assert_str_eq(b.resume, good[i].resume);
		ck_assert_msg(b.resume_offset_set == (good[i].offset >= 0), "`%s'", good[i].line);
		if (b.resume_offset_set)
			ck_assert_uint_eq(b.resume_offset, (unsigned)good[i].offset);
		ck_assert_msg(b.delay == good[i].delay, "`%s': %u", good[i].line, b.delay);
		ck_assert_msg(b.noresume == good[i].noresume, "`%s'", good[i].line);
	}
}
END_TEST

/* Refused, never read as something else. */
static const struct {
	const char *line, *says;
} bad[] = {
	{"resume=\n", "resume="},
	{"resume= quiet\n", "resume="},
	{"quiet resume= resume=/dev/a\n", "resume="},
	{"resume_offset=\n", "resume_offset="},
	{"resume_offset=x\n", "resume_offset=x"},
	{"resume_offset=12x\n", "resume_offset=12x"},
	{"resume_offset=0x10\n", "resume_offset=0x10"},
	{"resume_offset=-1\n", "resume_offset=-1"},
	{"resume_offset=+1\n", "resume_offset=+1"},
	{"resume_offset=1.5\n", "resume_offset=1.5"},
	{"resume_offset=18446744073709551616\n", "resume_offset"},
	{"resumedelay=\n", "resumedelay="},
	{"resumedelay=x\n", "resumedelay=x"},
	{"resumedelay=-5\n", "resumedelay=-5"},
	{"resumedelay=5s\n", "resumedelay=5s"},
};

START_TEST(bad_lines)
{
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct boot_line b;

		ck_assert_msg(read_line(bad[i].line, &b) == E_CONF, "`%s' passed", bad[i].line);
		ck_assert_msg(strstr(fault_text(), bad[i].says), "`%s': %s", bad[i].line, fault_text());
		ck_assert_msg(!b.resume_offset_set, "`%s' sets an offset", bad[i].line);
		ck_assert_uint_eq(b.delay, 0);
	}
}
END_TEST

START_TEST(bad_beside_good)
{
	/* noresume must be seen although something else on the line cannot be read. */
	struct boot_line b;

	ck_assert_int_eq(read_line("resume_offset=x noresume resume=/dev/a resumedelay=3\n", &b), E_CONF);
	ck_assert(b.noresume && !b.resume_offset_set && b.delay == 3);
	ck_assert_str_eq(b.resume, "/dev/a");
	/* The first fault is the one that is told. */
	ck_assert_int_eq(read_line("resumedelay=y resume_offset=x\n", &b), E_CONF);
	ck_assert(strstr(fault_text(), "resumedelay=y"));
}
END_TEST

START_TEST(long_values)
{
	char line[600], *value = line + strlen("resume=");
	struct boot_line b;

	strcpy(line, "resume=");
	memset(value, 'a', 255);
	value[255] = 0;
	ck_assert_int_eq(read_line(line, &b), E_OK);
	ck_assert_uint_eq(strlen(b.resume), 255);
	/* Not cut. */
	strcat(line, "a");
	ck_assert_int_eq(read_line(line, &b), E_CONF);
	ck_assert_str_eq(b.resume, "");
	memset(value, 'a', 500);
	value[500] = 0;
	ck_assert_int_eq(read_line(line, &b), E_CONF);
}
END_TEST

START_TEST(long_line)
{
	/* Longer than any kernel's: what comes last still counts up to 4096 bytes. */
	char line[4200];
	struct boot_line b;

	memset(line, 'x', sizeof line);
	for (int i = 80; i < 4000; i += 80)
		line[i] = ' ';
	strcpy(line + 4000, " resume=/dev/last resume_offset=5\n");
	ck_assert_int_eq(read_line(line, &b), E_OK);
	ck_assert_str_eq(b.resume, "/dev/last");
	ck_assert(b.resume_offset_set && b.resume_offset == 5);
}
END_TEST

START_TEST(no_file)
{
	struct boot_line b;

	memset(&b, 0xee, sizeof b);
	ck_assert_int_eq(boot_line_read("/nonexistent/cmdline", &b), E_OK);
	ck_assert(!b.resume[0] && !b.resume_offset_set && !b.delay && !b.noresume);
}
END_TEST

/* ---- small files ---- */

START_TEST(small_files)
{
	char out[16];

	write_file("abc\n", 4);
	ck_assert_int_eq(file_read_text(path, out, sizeof out), 3);
	ck_assert_str_eq(out, "abc");
	write_file("abc\n\n", 5);
	ck_assert_int_eq(file_read_text(path, out, sizeof out), 3);
	write_file("", 0);
	ck_assert_int_eq(file_read_text(path, out, sizeof out), 0);
	ck_assert_str_eq(out, "");
	write_file("0123456789abcdefghi", 19);
	memset(out, 'z', sizeof out);
	ck_assert_int_eq(file_read_text(path, out, 8), 7);
	ck_assert_str_eq(out, "0123456");
	ck_assert(out[8] == 'z');
	ck_assert_int_eq(file_read_text("/nonexistent", out, sizeof out), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* ---- machines ---- */

static struct header described(void)
{
	struct header h;

	memset(&h, 0, sizeof h);
	strcpy(h.machine, "x86_64");
	strcpy(h.release, "6.1.0-18-amd64");
	h.page_size = 4096;
	h.memory_map = 0x1234;
	return h;
}

static int match(const struct header *image, const struct header *here)
{
	fault_clear();
	int r = machine_matches(image, here);
	ck_assert_msg(!!fault_text()[0] == (r != E_OK), "%d: `%s'", r, fault_text());
	return r;
}

static const struct {
	const char *text, *now;
	int code;
} sleeps[] = {
	{"s2idle [deep]\n", "deep", E_OK},
	{"[s2idle] deep\n", "s2idle", E_OK},
	{"s2idle shallow [deep]\n", "deep", E_OK},
	{"[s2idle] shallow deep\n", "s2idle", E_OK},
	{"[deep]", "deep", E_OK},
	{"[s2idle]\n", "s2idle", E_KERNEL},
	{"[s2idle] shallow\n", "s2idle", E_KERNEL},
	{"", "", E_KERNEL},
	{"deeper [deepest]\n", "deepest", E_KERNEL},
};

START_TEST(sleep_states)
{
	char now[MEM_SLEEP_TEXT];

	write_file(sleeps[_i].text, strlen(sleeps[_i].text));
	fault_clear();
	ck_assert_int_eq(machine_deep(path, now), sleeps[_i].code);
	ck_assert_str_eq(now, sleeps[_i].now);
	if (sleeps[_i].code != E_OK)
		ck_assert_ptr_nonnull(strstr(fault_text(), "use s2disk"));
}
END_TEST

START_TEST(no_sleep_states)
{
	char now[MEM_SLEEP_TEXT];

	remove_file();
	fault_clear();
	ck_assert_int_eq(machine_deep(path, now), E_KERNEL);
	ck_assert_str_eq(now, "");
	ck_assert_ptr_nonnull(strstr(fault_text(), path));
}
END_TEST

START_TEST(text_is_written)
{
	char text[16];

	write_file("old", 3);
	ck_assert(file_write_text(path, "new"));
	ck_assert_int_eq(file_read_text(path, text, sizeof text), 3);
	ck_assert_str_eq(text, "new");
	remove_file();
	ck_assert(!file_write_text(path, "new"));
}
END_TEST

START_TEST(matches)
{
	struct header image = described(), here = described();

	ck_assert_int_eq(match(&image, &here), E_OK);
	/* Only what tells kernels and machines apart. */
	image.created = 5;
	image.block_size = 4096;
	image.installation.b[0] = 1;
	image.image_id.b[0] = 1;
	ck_assert_int_eq(match(&image, &here), E_OK);
}
END_TEST

START_TEST(other_release)
{
	struct header image = described(), here = described();

	strcpy(here.release, "6.1.0-19-amd64");
	ck_assert_int_eq(match(&image, &here), E_OTHERKERNEL);
	ck_assert(strstr(fault_text(), "6.1.0-18-amd64") && strstr(fault_text(), "6.1.0-19-amd64"));
	strcpy(here.release, "6.1.0-18-amd64+");
	ck_assert_int_eq(match(&image, &here), E_OTHERKERNEL);
	strcpy(here.release, "6.1.0-18-AMD64");
	ck_assert_int_eq(match(&image, &here), E_OTHERKERNEL);
	here.release[0] = 0;
	ck_assert_int_eq(match(&image, &here), E_OTHERKERNEL);
}
END_TEST

START_TEST(other_machine)
{
	struct header image = described(), here = described();

	strcpy(here.machine, "aarch64");
	ck_assert_int_eq(match(&image, &here), E_OTHERKERNEL);
	ck_assert(strstr(fault_text(), "x86_64") && strstr(fault_text(), "aarch64"));
	here = described();
	here.page_size = 16384;
	ck_assert_int_eq(match(&image, &here), E_OTHERKERNEL);
	ck_assert(strstr(fault_text(), "4096") && strstr(fault_text(), "16384"));
}
END_TEST

START_TEST(other_memory_map)
{
	struct header image = described(), here = described();

	here.memory_map = 0x1235;
	ck_assert_int_eq(match(&image, &here), E_OTHERKERNEL);
	ck_assert(strstr(fault_text(), "memory map"));
	/* Unknown on one side is no objection. */
	here.memory_map = 0;
	ck_assert_int_eq(match(&image, &here), E_OK);
	here.memory_map = 0x1235;
	image.memory_map = 0;
	ck_assert_int_eq(match(&image, &here), E_OK);
}
END_TEST

START_TEST(foreign)
{
	static const id128 unknown;
	id128 a = {{1}}, b = {{1}};

	ck_assert(!machine_foreign(a, b));
	for (int i = 0; i < 16; i++) {
		b.b[i] ^= 1;
		if (!id_is_zero(b))
			ck_assert(machine_foreign(a, b) && machine_foreign(b, a));
		b.b[i] ^= 1;
	}
	ck_assert(!machine_foreign(unknown, a) && !machine_foreign(a, unknown));
	ck_assert(!machine_foreign(unknown, unknown));
}
END_TEST

START_TEST(describes_this_one)
{
	struct header h, again;
	struct utsname u;

	memset(&h, 0, sizeof h);
	memset(&again, 0, sizeof again);
	machine_describe(&h);
	machine_describe(&again);
	ck_assert_int_eq(uname(&u), 0);
	ck_assert_str_eq(h.release, u.release);
	ck_assert_str_eq(h.machine, u.machine);
	ck_assert_uint_eq(h.page_size, (unsigned)sysconf(_SC_PAGESIZE));
	/* The same each time, or no image of this machine would ever match. */
	ck_assert(h.memory_map == again.memory_map && id_equal(h.installation, again.installation));
	ck_assert_int_eq(match(&h, &again), E_OK);
	ck_assert(!machine_foreign(h.installation, machine_installation()));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("machine");
	TCase *line = tcase_create("command line"), *m = tcase_create("machines");

	tcase_add_checked_fixture(line, make_file, remove_file);
	tcase_add_test(line, good_lines);
	tcase_add_test(line, bad_lines);
	tcase_add_test(line, bad_beside_good);
	tcase_add_test(line, long_values);
	tcase_add_test(line, long_line);
	tcase_add_test(line, no_file);
	tcase_add_test(line, small_files);
	tcase_add_loop_test(line, sleep_states, 0, (int)(sizeof sleeps / sizeof sleeps[0]));
	tcase_add_test(line, no_sleep_states);
	tcase_add_test(line, text_is_written);
	tcase_add_test(m, matches);
	tcase_add_test(m, other_release);
	tcase_add_test(m, other_machine);
	tcase_add_test(m, other_memory_map);
	tcase_add_test(m, foreign);
	tcase_add_test(m, describes_this_one);
	suite_add_tcase(s, line);
	suite_add_tcase(s, m);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
