/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The small things below all others: codes and their sentences, messages, a disk without asynchronous requests. */
#include "base/clock.h"
#include "base/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "fakes.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- codes ---- */

START_TEST(test_codes)
{
	for (int a = E_OK; a <= E_DECLINED; a++) {
		ck_assert(code_sentence(a)[0]);
		ck_assert(code_name(a)[0]);
		ck_assert_msg(!strchr(code_name(a), ' '), "%s", code_name(a));
	}
	ck_assert_str_eq(code_name(12345), code_name(E_INTERNAL));
	ck_assert_str_eq(code_sentence(-1), code_sentence(E_INTERNAL));
	ck_assert_str_ne(code_name(E_STALE), code_name(E_CORRUPT));
}
END_TEST

START_TEST(test_first_fault_stays)
{
	fault_clear();
	ck_assert_int_eq(fault(E_IO, EIO, "the %s", "first"), E_IO);
	ck_assert_int_eq(fault(E_BUSY, EBUSY, "the second"), E_BUSY);
	ck_assert_str_eq(fault_text(), "the first: Input/output error");
	ck_assert_int_eq(fault_errno(), EIO);
	fault_clear();
	ck_assert_str_eq(fault_text(), "");
	/* Cut, never longer than its place. */
	char many[2000];
	memset(many, 'x', sizeof many - 1);
	many[sizeof many - 1] = 0;
	fault(E_IO, EIO, "%s", many);
	ck_assert_uint_lt(strlen(fault_text()), 512);
	fault_clear();
}
END_TEST

/* ---- messages ---- */

static int out[2], err[2];

static void catch_messages(void)
{
	ck_assert(!pipe2(out, O_NONBLOCK) && !pipe2(err, O_NONBLOCK));
	ck_assert(dup2(out[1], 1) == 1 && dup2(err[1], 2) == 2);
	log_open("tester");
}

static void must_say(int fd, const char *wanted)
{
	char text[4096] = "";
	ssize_t n = read(fd, text, sizeof text - 1);

	if (strcmp(text, wanted))
		ck_abort_msg("it said '%s' (%zd), not '%s'", text, n, wanted);
}

START_TEST(test_levels)
{
	catch_messages();
	log_set_level(LOG_LEVEL_ERROR);
	log_note("a note");
	log_verbose("more");
	log_error("an error %d", 1);
	must_say(out[0], "");
	must_say(err[0], "tester: an error 1\n");
	log_set_level(LOG_LEVEL_VERBOSE);
	log_note("a note");
	log_verbose("more");
	must_say(out[0], "tester: a note\n");
	must_say(err[0], "tester: more\n");
	log_set_level(LOG_LEVEL_NOTE);
	log_verbose("more");
	must_say(err[0], "");
}
END_TEST

START_TEST(test_log_fault)
{
	char wanted[256];

	catch_messages();
	fault_clear();
	ck_assert_int_eq(log_fault(E_IO, "/dev/sda2"), E_IO);
	snprintf(wanted, sizeof wanted, "tester: /dev/sda2: %s\n", code_sentence(E_IO));
	must_say(err[0], wanted);
	fault(E_IO, 0, "byte 7");
	log_fault(E_IO, "/dev/sda2");
	snprintf(wanted, sizeof wanted, "tester: /dev/sda2: byte 7 (%s)\n", code_sentence(E_IO));
	must_say(err[0], wanted);
	fault_clear();
}
END_TEST

/* A reader that does not read costs lines, not the program. */
START_TEST(test_full_pipe)
{
	catch_messages();
	for (int i = 0; i < 20000; i++)
		log_note("line %d", i);
	char first[32] = "";
	ck_assert_int_gt(read(out[0], first, sizeof first - 1), 0);
	ck_assert(!strncmp(first, "tester: line 0\n", 15));
}
END_TEST

/* ---- while tasks are frozen: to the kernel's log and a mirror, and to everybody else afterwards ---- */

static int kernel_log[2] = {-1, -1};
static char mirrored[4096];

/* The kernel's log is a pipe here, /dev/log is nobody's; all else is as it is. */
int open(const char *path, int flags, ...)
{
	va_list ap;

	if (!strcmp(path, "/dev/kmsg"))
		return fcntl(kernel_log[1], F_DUPFD_CLOEXEC, 3);
	va_start(ap, flags);
	unsigned mode = flags & O_CREAT ? va_arg(ap, unsigned) : 0;
	va_end(ap);
	return openat(AT_FDCWD, path, flags, mode);
}

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
	(void)fd, (void)to, (void)size;
	errno = ECONNREFUSED;
	return -1;
}

static void mirror(void *ctx, const char *line, size_t len)
{
	ck_assert_ptr_eq(ctx, mirrored);
	strncat(mirrored, line, len);
}

START_TEST(test_held)
{
	catch_messages();
	ck_assert(!pipe2(kernel_log, O_NONBLOCK));
	log_mirror(mirror, mirrored);
	log_error("before");
	must_say(err[0], "tester: before\n");
	log_hold();
	log_note("a note");
	log_error("an error");
	must_say(out[0], "");
	must_say(err[0], "");
	must_say(kernel_log[0], "tester: a note\ntester: an error\n");
	ck_assert_str_eq(mirrored, "tester: a note\ntester: an error\n");
	log_release();
	must_say(out[0], "tester: a note\n");
	must_say(err[0], "tester: an error\n");
	log_mirror(NULL, NULL);
	log_note("after");
	must_say(out[0], "tester: after\n");
	must_say(kernel_log[0], "");
}
END_TEST

/* What does not fit is dropped, whole lines at a time. */
START_TEST(test_held_too_much)
{
	char text[16384] = "";

	catch_messages();
	log_hold();
	for (int i = 0; i < 1000; i++)
		log_note("line %d", i);
	log_release();
	ssize_t n = read(out[0], text, sizeof text - 1);
	ck_assert_int_gt(n, 4000);
	ck_assert(!strncmp(text, "tester: line 0\n", 15) && text[n - 1] == '\n');
	log_hold();
	log_note("again");
	log_release();
	must_say(out[0], "tester: again\n");
}
END_TEST

START_TEST(test_system_log)
{
	char line[64], wanted[64];

	catch_messages();
	ck_assert(!pipe2(kernel_log, O_NONBLOCK));
	log_system("resumed in %d s", 3);
	ssize_t n = read(kernel_log[0], line, sizeof line - 1);
	ck_assert_int_gt(n, 0);
	line[n] = 0;
	snprintf(wanted, sizeof wanted, "<29>tester[%d]: resumed in 3 s", (int)getpid());
	ck_assert_str_eq(line, wanted);
	must_say(out[0], "");
}
END_TEST

/* ---- a kernel without asynchronous requests ---- */

static struct disk_file disk;
static uint8_t *page;

static void open_disk(int flags)
{
	char path[64];
	int fd = memfd_create("disk", 0);

	ck_assert(fd >= 0 && !ftruncate(fd, 4 * DISK_UNIT));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int other = open(path, flags);
	ck_assert_int_ge(other, 0);
	/* No kernel gives a context for no requests at all. */
	ck_assert_int_eq(disk_file_open(&disk, other, 4 * DISK_UNIT, 0), E_OK);
	ck_assert(!disk.aio && !disk.disk.queues);
	page = fake_memory(2 * DISK_UNIT);
	fault_clear();
}

START_TEST(test_one_by_one)
{
	open_disk(O_RDWR);
	memset(page, 0x5a, DISK_UNIT);
	ck_assert_int_eq(disk_write(&disk.disk, page, DISK_UNIT, DISK_UNIT), E_OK);
	ck_assert_int_eq(disk_sync(&disk.disk), E_OK);
	ck_assert_int_eq(disk_read(&disk.disk, page + DISK_UNIT, DISK_UNIT, DISK_UNIT), E_OK);
	ck_assert(!memcmp(page, page + DISK_UNIT, DISK_UNIT));
	struct disk_io a = {.buf = page, .length = DISK_UNIT},
		       b = {.buf = page, .length = DISK_UNIT, .offset = DISK_UNIT};
	struct disk_io *both[] = {&a, &b};
	ck_assert_int_eq(disk.disk.ops->submit(&disk.disk, both, 2), E_OK);
	ck_assert(!a.busy && !b.busy && !a.error && !b.error && b.moved == DISK_UNIT);
	ck_assert_int_eq(disk.disk.ops->reap(&disk.disk, true), E_OK);
	disk_file_close(&disk);
	free(page);
}
END_TEST

START_TEST(test_one_by_one_fails)
{
	open_disk(O_RDONLY);
	ck_assert_int_eq(disk_read(&disk.disk, page, DISK_UNIT, 8 * DISK_UNIT), E_IO);
	ck_assert_str_eq(fault_text(), "cannot read 4096 bytes at byte 32768: No data available");
	fault_clear();
	ck_assert_int_eq(disk_write(&disk.disk, page, DISK_UNIT, 0), E_IO);
	ck_assert_str_eq(fault_text(), "cannot write 4096 bytes at byte 0: Bad file descriptor");
	fault_clear();
	close(disk.fd);
	ck_assert_int_eq(disk_sync(&disk.disk), E_IO);
	disk_file_close(&disk);
	free(page);
}
END_TEST

/* ---- a disk that falls silent: the kernel's answers are kept back ---- */

static bool keep_back; /* events stay in the kernel, as if the disk had not finished */
static int no_flushes;

/* The C library's, which the disk calls; answered by its own where nothing is kept back. */
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[5];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 5; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_io_getevents && keep_back) {
		ck_assert(a[4]); /* waiting for ever */
		nanosleep((struct timespec *)a[4], NULL);
		return 0;
	}
	if (number == SYS_io_submit && ((struct iocb **)a[2])[0]->aio_lio_opcode == IOCB_CMD_FSYNC && no_flushes) {
		errno = EINVAL;
		return -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4]);
}

static void open_patient(void)
{
	FILE *f = tmpfile();

	ck_assert(f && !ftruncate(fileno(f), 4 * DISK_UNIT));
	ck_assert_int_eq(disk_file_open(&disk, fileno(f), 4 * DISK_UNIT, 8), E_OK);
	ck_assert(disk.aio);
	disk.patience = SECOND / 50;
	page = fake_memory(2 * DISK_UNIT);
	fault_clear();
}

static void must_be_stuck(int r)
{
	struct disk_io io = {.buf = page + DISK_UNIT, .length = DISK_UNIT}, *one = &io;

	ck_assert_int_eq(r, E_IO);
	ck_assert_str_eq(fault_text(), "the disk has answered nothing for 0 seconds (`disk timeout')");
	ck_assert(!disk_answers(&disk.disk));
	/* For good, though it would answer by now, and at once. */
	keep_back = false;
	ck_assert_int_eq(disk.disk.ops->submit(&disk.disk, &one, 1), E_IO);
	ck_assert(!io.busy);
	ck_assert_int_eq(disk.disk.ops->reap(&disk.disk, true), E_IO);
	ck_assert_int_eq(disk_sync(&disk.disk), E_IO);
	disk_file_close(&disk);
	ck_assert(disk.aio && disk.under_way);
	disk_file_settle(&disk);
	ck_assert(!disk.aio);
	free(page);
}

START_TEST(test_silent_read)
{
	open_patient();
	ck_assert_int_eq(disk_read(&disk.disk, page, DISK_UNIT, 0), E_OK);
	keep_back = true;
	must_be_stuck(disk_read(&disk.disk, page, DISK_UNIT, 0));
}
END_TEST

START_TEST(test_silent_sync)
{
	open_patient();
	ck_assert_int_eq(disk_write(&disk.disk, page, DISK_UNIT, 0), E_OK);
	for (no_flushes = 1; no_flushes >= 0; no_flushes--)
		ck_assert_int_eq(disk_sync(&disk.disk), E_OK);
	no_flushes = 0;
	keep_back = true;
	must_be_stuck(disk_sync(&disk.disk));
}
END_TEST

/* Nobody waits where nothing is waited for. */
START_TEST(test_silent_but_not_asked)
{
	struct disk_io io = {.length = DISK_UNIT}, *one = &io;

	open_patient();
	io.buf = page;
	ck_assert_int_eq(disk.disk.ops->submit(&disk.disk, &one, 1), E_OK);
	keep_back = true;
	ck_assert_int_eq(disk.disk.ops->reap(&disk.disk, false), E_OK);
	ck_assert(io.busy && disk_answers(&disk.disk));
	keep_back = false;
	ck_assert_int_eq(disk.disk.ops->reap(&disk.disk, true), E_OK);
	ck_assert(!io.busy);
	disk_file_close(&disk);
	free(page);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("check_base");
	TCase *t = tcase_create("base");

	tcase_add_test(t, test_codes);
	tcase_add_test(t, test_first_fault_stays);
	tcase_add_test(t, test_levels);
	tcase_add_test(t, test_log_fault);
	tcase_add_test(t, test_full_pipe);
	tcase_add_test(t, test_held);
	tcase_add_test(t, test_held_too_much);
	tcase_add_test(t, test_system_log);
	tcase_add_test(t, test_one_by_one);
	tcase_add_test(t, test_one_by_one_fails);
	tcase_add_test(t, test_silent_read);
	tcase_add_test(t, test_silent_sync);
	tcase_add_test(t, test_silent_but_not_asked);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
