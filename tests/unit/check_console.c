/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The console and the bar on it, on pseudo terminals that nobody reads unless a test does. */
#include "fakes.h"

#include "base/clock.h"
#include "base/log.h"
#include "system/console.h"
#include "tools/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int far; /* what a user sees and types at */
static char path[64];
static struct console console;

static void open_terminal(void)
{
	far = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
	ck_assert_int_ge(far, 0);
	ck_assert_int_eq(grantpt(far), 0);
	ck_assert_int_eq(unlockpt(far), 0);
	ck_assert_int_eq(ptsname_r(far, path, sizeof path), 0);
	console_none(&console);
}

static void setup(void)
{
	open_terminal();
	ck_assert(console_add(&console, path));
}

static void teardown(void)
{
	console_close(&console);
	close(far);
}

static void type(const char *keys, size_t n)
{
	ck_assert_int_eq(write(far, keys, n), (ssize_t)n);
}

/* What the user has seen since the last time. */
static const char *seen(void)
{
	static char text[65536];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof text - 1 && (got = read(far, text + n, sizeof text - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	return text;
}

/* ---- lines ---- */

START_TEST(test_raw_and_back)
{
	struct termios before, now;
	int fd;

	open_terminal();
	fd = open(path, O_RDWR | O_NOCTTY);
	ck_assert_int_eq(tcgetattr(fd, &before), 0);
	ck_assert(before.c_lflag & ICANON);
	ck_assert(console_add(&console, path));
	ck_assert_uint_eq(console.count, 1);
	ck_assert_int_eq(tcgetattr(fd, &now), 0);
	ck_assert(!(now.c_lflag & (ICANON | ECHO)));
	ck_assert_uint_eq(now.c_oflag, before.c_oflag);
	console_close(&console);
	ck_assert_uint_eq(console.count, 0);
	ck_assert_int_eq(tcgetattr(fd, &now), 0);
	ck_assert_uint_eq(now.c_lflag, before.c_lflag);
	ck_assert_int_eq(now.c_cc[VMIN], before.c_cc[VMIN]);
	close(fd);
	close(far);
}
END_TEST

START_TEST(test_no_terminal)
{
	console_none(&console);
	ck_assert(!console_add(&console, "/dev/null"));
	ck_assert(!console_add(&console, "/nonexistent/tty"));
	ck_assert(!console_add(&console, "/proc/self/exe"));
	ck_assert_uint_eq(console.count, 0);
	/* Nothing is shown, nobody types, nothing fails. */
	console_write(&console, "text", 4);
	ck_assert_int_eq(console_key(&console), KEY_NONE);
	console_close(&console);
	console_close(&console);
}
END_TEST

START_TEST(test_width)
{
	struct winsize w = {.ws_row = 50, .ws_col = 133};

	setup();
	ck_assert_uint_eq(console.line[0].columns, CONSOLE_COLUMNS);
	ck_assert_int_eq(ioctl(far, TIOCSWINSZ, &w), 0);
	ck_assert(console_add(&console, path));
	ck_assert_uint_eq(console.line[1].columns, 133);
	ck_assert_uint_eq(console.narrow, CONSOLE_COLUMNS);
	/* There is room for two. */
	ck_assert(!console_add(&console, path));
	teardown();
}
END_TEST

/* What stands in the kernel's buffers is little; whoever writes more must not wait for a reader. */
START_TEST(test_full_line_loses)
{
	char text[1024];

	setup();
	memset(text, 'x', sizeof text);
	for (int i = 0; i < 4096; i++)
		console_write(&console, text, sizeof text);
	ck_assert_uint_lt(strlen(seen()), 1 << 20);
	teardown();
}
END_TEST

START_TEST(test_stopped_line_loses)
{
	setup();
	ck_assert_int_eq(tcflow(console.line[0].fd, TCOOFF), 0);
	for (int i = 0; i < 4096; i++)
		console_write(&console, "stopped", 7);
	teardown();
}
END_TEST

/* ---- keys ---- */

static const struct {
	const char *typed, *keys; /* keys: all that come out, however often it is asked */
} typed[] = {
	{"a", "a"},	    {"ab\b", "ab\b"}, {"\177", "\177"},	      {"\033", "\033"}, {"\033\033", "\033\033"},
	{"\033[A", ""},	    {"\033OP", ""},   {"\033[15~", ""},	      {"\033[[B", ""},	{"\033[1;5Cb", "b"},
	{"x\033[Dy", "xy"}, {"\033b", ""},    {"\033[A\033", "\033"},
};

START_TEST(test_keys)
{
	char keys[32];
	size_t n = 0;
	unsigned silent = 0;

	setup();
	type(typed[_i].typed, strlen(typed[_i].typed));
	while (silent < 3 && n < sizeof keys - 1) {
		int key = console_key(&console);

		silent = key == KEY_NONE ? silent + 1 : 0;
		if (key != KEY_NONE)
			keys[n++] = (char)key;
	}
	keys[n] = 0;
	ck_assert_str_eq(keys, typed[_i].keys);
	teardown();
}
END_TEST

/* A slow line brings a sequence in pieces; what has begun as one is no Escape. */
START_TEST(test_sequence_in_pieces)
{
	setup();
	type("\033", 1);
	ck_assert_int_eq(console_key(&console), KEY_NONE);
	type("[", 1);
	ck_assert_int_eq(console_key(&console), KEY_NONE);
	type("A", 1);
	ck_assert_int_eq(console_key(&console), KEY_NONE);
	ck_assert_int_eq(console_key(&console), KEY_NONE);
	teardown();
}
END_TEST

/* Meant for whoever read the terminal before. */
START_TEST(test_keys_from_before)
{
	open_terminal();
	int fd = open(path, O_RDWR | O_NOCTTY);
	type("\177\033", 2);
	ck_assert(console_add(&console, path));
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(console_key(&console), KEY_NONE);
	close(fd);
	teardown();
}
END_TEST

/* ---- the bar ---- */

static const struct {
	unsigned columns;
	struct save_progress s;
	const char *line;
} looks[] = {
	{80,
	 {.raw = 123000000, .stored = 60000000, .total = 280000000, .ns = 1500000000, .codec = CODEC_LZ4},
	 "saving  43 % [#######...........]   123/280 MB   82 MB/s  2.0:1 lz4   0:02 left"},
	{80,
	 {.total = 280000000, .codec = CODEC_NONE},
	 "saving   0 % [..................]     0/280 MB    0 MB/s                       "},
	{80,
	 {.raw = 280000000, .stored = 93000000, .total = 280000000, .ns = 2000000000, .codec = CODEC_ZSTD},
	 "saving 100 % [##################]   280/280 MB  140 MB/s  3.0:1 zstd           "},
	{55,
	 {.raw = 123000000, .stored = 60000000, .total = 280000000, .ns = 1500000000, .codec = CODEC_LZ4},
	 "saving  43 %"},
	{20,
	 {.raw = 123000000, .stored = 60000000, .total = 280000000, .ns = 1500000000, .codec = CODEC_LZ4},
	 "saving  43 %"},
	{62,
	 {.raw = 64000000000, .stored = 9000000000, .total = 68000000000, .ns = 7200000000000, .codec = CODEC_LZO},
	 "saving  94 % 64000/68000 MB    8 MB/s  7.1:1 lzo   7:30 left"},
};

START_TEST(test_line)
{
	static const struct progress p = {.verb = "saving"};
	char line[PROGRESS_LINE];
	size_t n = progress_format(line, sizeof line, &p, looks[_i].columns, &looks[_i].s);

	ck_assert_str_eq(line, looks[_i].line);
	ck_assert_uint_eq(n, strlen(line));
}
END_TEST

/* Characters that take a column. */
static size_t visible(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		if (*s == '\033')
			s += strcspn(s, "m");
		else
			n++;
	return n;
}

START_TEST(test_words)
{
	struct save_progress s = {.raw = 48000000, .total = 100000000, .ns = 500000000, .codec = CODEC_LZ4};
	char line[PROGRESS_LINE];

	progress_words(line, sizeof line, "loading", &s);
	ck_assert_str_eq(line, "loading 48 %, 96 MB/s, 0:01 left");
	s.raw = s.total;
	progress_words(line, sizeof line, "loading", &s);
	ck_assert_str_eq(line, "loading 100 %, 200 MB/s");
}
END_TEST

START_TEST(test_any_line_fits)
{
	static const uint64_t values[] = {0, 1, 4096, 999999, 123456789, 1ull << 40, 1ull << 60, UINT64_MAX};
	enum { VALUES = sizeof values / sizeof values[0] };
	char line[PROGRESS_LINE];

	for (unsigned columns = 14; columns < 400; columns += columns < 100 ? 1 : 50)
		for (unsigned i = 0; i < VALUES * VALUES * VALUES * VALUES; i++) {
			struct progress p = {.verb = "saving", .colours = i % 2};
			struct save_progress s = {.raw = values[i % VALUES],
						  .stored = values[i / VALUES % VALUES],
						  .total = values[i / VALUES / VALUES % VALUES],
						  .ns = values[i / VALUES / VALUES / VALUES],
						  .codec = i % 7};
			size_t n = progress_format(line, sizeof line, &p, columns, &s);

			must(n < sizeof line && n == strlen(line));
			must(visible(line) < columns);
		}
}
END_TEST

static struct progress progress;
static const struct save_progress half = {
	.raw = 5000000, .stored = 2500000, .total = 10000000, .ns = 100000000, .codec = CODEC_LZ4};

static void open_progress(void)
{
	log_set_level(LOG_LEVEL_ERROR); /* the machine's own console is not for tests */
	progress_open(&progress, CONSOLE_STAY, "saving");
	log_set_level(LOG_LEVEL_NOTE);
	ck_assert_uint_eq(progress.console.count, 0);
	open_terminal();
	ck_assert(console_add(&progress.console, path));
}

START_TEST(test_bar)
{
	unsetenv("NO_COLOR");
	setenv("TERM", "xterm", 1);
	open_progress();
	progress_show(&progress, &half);
	const char *text = seen();
	ck_assert(text[0] == '\r');
	ck_assert_ptr_nonnull(strstr(text, "saving  50 %"));
	ck_assert_ptr_nonnull(strstr(text, "\033[32m"));
	ck_assert_ptr_nonnull(strstr(text, "lz4"));
	ck_assert_ptr_null(strchr(text, '\n'));
	progress_mirror(&progress, "a message\n", 10);
	ck_assert_ptr_nonnull(strstr(seen(), "\r\033[Ka message"));
	progress_say(&progress, "another");
	ck_assert_ptr_nonnull(strstr(seen(), "another\r\n"));
	progress_close(&progress);
	close(far);
}
END_TEST

START_TEST(test_no_colour)
{
	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	open_progress();
	progress_show(&progress, &half);
	const char *text = seen();
	ck_assert_ptr_nonnull(strstr(text, "saving  50 %"));
	ck_assert_ptr_null(strstr(text, "\033[3"));
	progress_close(&progress);
	close(far);
}
END_TEST

START_TEST(test_redrawn_ten_times_a_second)
{
	unsigned drawn = 0;
	uint64_t begun = clock_ns();

	open_progress();
	for (int i = 0; i < 100000; i++) {
		progress_show(&progress, &half);
		if (i % 1000 == 0)
			for (const char *s = seen(); (s = strchr(s, '\r')); s++)
				drawn++;
	}
	uint64_t tenths = (clock_ns() - begun) / 100000000;
	ck_assert_uint_ge(drawn, 1);
	ck_assert_uint_le(drawn, tenths + 2);
	progress_close(&progress);
	close(far);
}
END_TEST

START_TEST(test_dumb_terminal)
{
	struct save_progress s = half;
	unsigned lines = 0;

	setenv("TERM", "dumb", 1);
	open_progress();
	for (unsigned i = 0; i <= 1000; i++) {
		s.raw = s.total / 1000 * i;
		progress_show(&progress, &s);
	}
	const char *text = seen();
	ck_assert_ptr_null(strchr(text, '\033'));
	ck_assert_ptr_nonnull(strstr(text, "saving: 10 %"));
	ck_assert_ptr_nonnull(strstr(text, "saving: 100 %"));
	for (; (text = strchr(text, '\n')); text++)
		lines++;
	ck_assert_uint_eq(lines, 10);
	progress_close(&progress);
	close(far);
}
END_TEST

START_TEST(test_stop_wanted)
{
	open_progress();
	ck_assert(!progress_stop_wanted(&progress));
	type("abc \r", 5);
	ck_assert(!progress_stop_wanted(&progress));
	type("\033[A", 3);
	ck_assert(!progress_stop_wanted(&progress));
	ck_assert(!progress_stop_wanted(&progress));
	type("x\177", 2);
	ck_assert(progress_stop_wanted(&progress));
	type("\b", 1);
	ck_assert(progress_stop_wanted(&progress));
	type("\033", 1);
	ck_assert(!progress_stop_wanted(&progress));
	ck_assert(progress_stop_wanted(&progress));
	progress_close(&progress);
	close(far);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("check_console");
	TCase *t = tcase_create("lines");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_raw_and_back);
	tcase_add_test(t, test_no_terminal);
	tcase_add_test(t, test_width);
	tcase_add_test(t, test_full_line_loses);
	tcase_add_test(t, test_stopped_line_loses);
	tcase_add_loop_test(t, test_keys, 0, (int)(sizeof typed / sizeof typed[0]));
	tcase_add_test(t, test_sequence_in_pieces);
	tcase_add_test(t, test_keys_from_before);
	suite_add_tcase(s, t);
	t = tcase_create("bar");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_line, 0, (int)(sizeof looks / sizeof looks[0]));
	tcase_add_test(t, test_any_line_fits);
	tcase_add_test(t, test_words);
	tcase_add_test(t, test_bar);
	tcase_add_test(t, test_no_colour);
	tcase_add_test(t, test_redrawn_ten_times_a_second);
	tcase_add_test(t, test_dumb_terminal);
	tcase_add_test(t, test_stop_wanted);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
