/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asking, on a pseudo terminal and by programs.  The person at the terminal has
 * a clock of its own: it stands in for poll(2), presses the next key when it is
 * waited for, and lets the wait end when it pauses for longer than that lasts.
 */
#include "base/error.h"
#include "system/ask.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { IDLE_MS = 5000 };

struct person {
	int master;
	const char *keys;
	size_t count, at;
	int pause_ms;	/* before each key */
	size_t slow_at; /* before this one, */
	int slow_ms;	/* longer */
	int signal;	/* sent instead of a key once they are used up */
	bool hang_up;	/* the same */
	bool echoed;	/* echo was on while a key was waited for */
	long long now_ms;
};

static struct person person;
static struct termios settings; /* of the terminal before */
static char terminal[64], folder[64];
static struct ask_places places;
static struct ask ask;
static int slave; /* keeps the terminal's settings while nobody else has it open */

/* ---- the person ---- */

static void press(char key)
{
	ck_assert_int_eq(write(person.master, &key, 1), 1);
}

static int use_up(struct pollfd *f, nfds_t n)
{
	if (person.signal)
		ck_assert_int_eq(kill(getpid(), person.signal), 0);
	else if (person.hang_up)
		close(person.master);
	else
		return 0;
	return poll(f, n, -1);
}

static int person_waits(void *ctx, struct pollfd *f, nfds_t n, int ms)
{
	struct person *p = ctx;
	struct termios t;

	ck_assert_int_eq(tcgetattr(p->master, &t), 0);
	p->echoed |= (t.c_lflag & (ECHO | ECHONL)) != 0;
	if (p->at == p->count)
		return use_up(f, n);
	int pause = p->slow_ms && p->at == p->slow_at ? p->slow_ms : p->pause_ms;
	p->now_ms += pause < ms ? pause : ms;
	if (pause >= ms)
		return 0;
	press(p->keys[p->at++]);
	return poll(f, n, -1);
}

static void types(const char *keys)
{
	person.keys = keys;
	person.count = strlen(keys);
	person.at = 0;
}

/* What the terminal has shown, without carriage returns; a mark behind it tells that all has come through. */
static const char *shown(void)
{
	static char text[8192];
	struct pollfd f = {.fd = person.master, .events = POLLIN};
	size_t n = 0;
	char c;

	ck_assert_int_eq(write(slave, "#", 1), 1);
	for (;;) {
		ck_assert_int_eq(poll(&f, 1, -1), 1);
		if (read(person.master, &c, 1) != 1 || c == '\r')
			continue;
		if (c == '#' || n + 1 == sizeof text)
			break;
		text[n++] = c;
	}
	text[n] = 0;
	return text;
}

static void open_terminal(void)
{
	memset(&person, 0, sizeof person);
	person.master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	ck_assert_int_ge(person.master, 0);
	ck_assert_int_eq(grantpt(person.master), 0);
	ck_assert_int_eq(unlockpt(person.master), 0);
	ck_assert_int_eq(ptsname_r(person.master, terminal, sizeof terminal), 0);
	slave = open(terminal, O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(slave, 0);
	ck_assert_int_eq(tcgetattr(slave, &settings), 0);
	memset(&places, 0, sizeof places);
	places.order[0] = ASK_TERMINAL;
	places.terminals[0] = "/dev/null";
	places.terminals[1] = terminal;
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ask.wait = person_waits;
	ask.ctx = &person;
	fault_clear();
}

static void close_terminal(void)
{
	ask_close(&ask);
	close(slave);
	if (!person.hang_up)
		close(person.master);
}

/* As it was, flag for flag. */
static void settings_are_back(void)
{
	struct termios t;

	ck_assert_int_eq(tcgetattr(slave, &t), 0);
	ck_assert_uint_eq(t.c_lflag, settings.c_lflag);
	ck_assert_uint_eq(t.c_iflag, settings.c_iflag);
	ck_assert_int_eq(memcmp(t.c_cc, settings.c_cc, sizeof t.c_cc), 0);
	ck_assert(t.c_lflag & ECHO);
}

/* ---- a line on the terminal ---- */

static const struct {
	const char *keys, *answer;
} lines[] = {
	{"open sesame\n", "open sesame"},
	{"open sesame\r", "open sesame"},
	{"\n", ""},
	{"abd\bc\n", "abc"},
	{"abd\177c\n", "abc"},
	{"\177\177a\n", "a"},
	{"wrong\025right\n", "right"},
	{"gr\xc3\xbc\xc3\x9f"
	 "e\n",
	 "gr\xc3\xbc\xc3\x9f"
	 "e"},
	{"gr\xc3\xbc\177u\n", "gru"}, /* one key takes one character away */
	{"\xe2\x82\xac\177e\n", "e"},
	{"x\xf0\x9f\x94\x91\177\n", "x"},
	{"gr\xfc\177u\n", "gru"}, /* Latin-1 */
	{"a\xa4\177\n", "a"},
	{"a\xc3\x28\177b\n", "a\xc3"
			     "b"}, /* a lead byte without its tail */
	{"a\033[Ab\033OPc\033[15~d\n", "abcd"},
	{"a\tb\001c\n", "abc"},
	{"ab\004c\n", "abc"},
	{"  blanks  \n", "  blanks  "},
};

START_TEST(takes_lines)
{
	types(lines[_i].keys);
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_OK);
	ck_assert_str_eq(ask.answer, lines[_i].answer);
	ck_assert_uint_eq(ask.length, strlen(lines[_i].answer));
	ck_assert(!person.echoed);
	ck_assert_str_eq(shown(), "Passphrase: \n");
	settings_are_back();
}
END_TEST

START_TEST(drops_what_was_typed_before)
{
	ck_assert_int_eq(write(person.master, "hasty\nhas", 9), 9);
	types("calm\n");
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_OK);
	ck_assert_str_eq(ask.answer, "calm");
	settings_are_back();
}
END_TEST

START_TEST(forgets)
{
	types("open sesame\n");
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_OK);
	ask_forget(&ask);
	for (int i = 0; i < ASK_MAX; i++)
		ck_assert_int_eq(ask.answer[i], 0);
	ck_assert_uint_eq(ask.length, 0);
	/* nor does a question that failed leave what was typed */
	types("half of");
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_NOANSWER);
	for (int i = 0; i < ASK_MAX; i++)
		ck_assert_int_eq(ask.answer[i], 0);
}
END_TEST

START_TEST(bounded)
{
	static char keys[3 * ASK_MAX];

	memset(keys, 'x', ASK_MAX - 1);
	strcpy(keys + ASK_MAX - 1, "\n");
	types(keys);
	ck_assert_int_eq(ask_secret(&ask, ""), E_OK);
	ck_assert_uint_eq(ask.length, ASK_MAX - 1);
	/* one more: not cut, but asked for again */
	memset(keys, 'x', ASK_MAX);
	strcpy(keys + ASK_MAX, "\nshort\n");
	types(keys);
	ck_assert_int_eq(ask_secret(&ask, ""), E_OK);
	ck_assert_str_eq(ask.answer, "short");
	ck_assert_ptr_nonnull(strstr(shown(), "longer than"));
}
END_TEST

START_TEST(slow_typing)
{
	types("slowly does it\n");
	person.pause_ms = IDLE_MS - 1;
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_OK);
	ck_assert_str_eq(ask.answer, "slowly does it");
	ck_assert(person.now_ms > 10 * IDLE_MS);
}
END_TEST

START_TEST(nobody_answers)
{
	types("half of\n");
	person.slow_at = (size_t)_i;
	person.slow_ms = IDLE_MS;
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_NOANSWER);
	ck_assert_ptr_nonnull(strstr(fault_text(), "5 seconds"));
	settings_are_back();
}
END_TEST

START_TEST(stopped_by_a_key)
{
	static const char *const keys[] = {"\003", "abc\003", "\034", "\004", "ab\177\177\004"};

	types(keys[_i]);
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_ABORTED);
	settings_are_back();
}
END_TEST

START_TEST(hang_up)
{
	types("abc");
	person.hang_up = true;
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_NOANSWER);
}
END_TEST

START_TEST(signal_stays_pending)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	sigset_t one, pending;

	sigemptyset(&one);
	sigaddset(&one, signals[_i]);
	sigprocmask(SIG_BLOCK, &one, NULL);
	types("abc");
	person.signal = signals[_i];
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_ABORTED);
	settings_are_back();
	sigpending(&pending);
	ck_assert(sigismember(&pending, signals[_i]));
}
END_TEST

/* Death by a signal comes after the settings are back. */
START_TEST(signal_kills_late)
{
	int status;

	types("abc");
	person.signal = SIGTERM;
	pid_t child = fork();
	if (!child) {
		signal(SIGTERM, SIG_DFL);
		ask_secret(&ask, "Passphrase: ");
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	settings_are_back();
}
END_TEST

/* ---- choices and new passphrases ---- */

START_TEST(chooses)
{
	char key = 0;

	types("\nxqB");
	ck_assert_int_eq(ask_choice(&ask, "t, p or b? ", "tpb", &key), E_OK);
	ck_assert_int_eq(key, 'b');
	ck_assert_str_eq(shown(), "t, p or b? b\n");
	settings_are_back();
	types("\003\004\034\n");
	ck_assert_int_eq(ask_choice(&ask, "t, p or b? ", "tpb", &key), E_NOANSWER);
	settings_are_back();
}
END_TEST

static const struct {
	const char *keys;
	int code;
} twice[] = {
	{"sesame\nsesame\n", E_OK},
	{"sesame\nsesam\nsesame\nsesame\n", E_OK},
	{"sesame\nsesame \nsesame\nsesame\n", E_OK},
	{"\nsesame\nsesame\n", E_OK},
	{"a\nb\nc\nd\ne\nf\n", E_ABORTED},
	{"\n\n\n", E_ABORTED},
	{"sesame\n", E_NOANSWER},
	{"sesame\nsesa\003", E_ABORTED},
};

START_TEST(new_passphrase)
{
	types(twice[_i].keys);
	ck_assert_int_eq(ask_new_secret(&ask, "New: ", "Again: "), twice[_i].code);
	ck_assert_str_eq(ask.answer, twice[_i].code == E_OK ? "sesame" : "");
	ck_assert_uint_eq(person.at, person.count);
}
END_TEST

/* ---- programs ---- */

/* A shell script in the folder; @body sees its arguments. */
static char *program(char path[128], const char *name, const char *body)
{
	snprintf(path, 128, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "#!/bin/sh\n%s\n", body);
	fclose(f);
	ck_assert_int_eq(chmod(path, 0700), 0);
	return path;
}

static char plymouth[128], agent[128];

static void open_folder(void)
{
	strcpy(folder, "/tmp/check_ask.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	memset(&places, 0, sizeof places);
	places.order[0] = ASK_PLYMOUTH;
	places.order[1] = ASK_AGENT;
	places.plymouth[0] = "/nonexistent/plymouth";
	places.plymouth[1] = plymouth;
	places.agent[0] = agent;
	places.agent_folder = folder;
	places.patience = 3;
	snprintf(plymouth, sizeof plymouth, "%s/plymouth", folder);
	snprintf(agent, sizeof agent, "%s/agent", folder);
	memset(&ask, 0, sizeof ask);
	fault_clear();
}

static void close_folder(void)
{
	char command[128];

	ask_close(&ask);
	snprintf(command, sizeof command, "rm -r %s", folder);
	ck_assert_int_eq(system(command), 0);
}

#define PING "[ \"$1\" != --ping ] || exit 0\n"

START_TEST(plymouth_answers)
{
	program(plymouth, "plymouth", PING "[ \"$1\" = ask-for-password ] && printf %s \"$2\"");
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ck_assert_int_eq(ask.way, ASK_PLYMOUTH);
	/* no shell of ours takes the prompt apart */
	ck_assert_int_eq(ask_secret(&ask, "$(id) 'a' \"b\": "), E_OK);
	ck_assert_str_eq(ask.answer, "--prompt=$(id) 'a' \"b\": ");
}
END_TEST

START_TEST(plymouth_not_running)
{
	program(plymouth, "plymouth", "exit 1");
	program(agent, "agent", "echo 'open sesame'; [ $# = 4 ] && [ \"$1 $3\" = '--no-tty --timeout=15' ]");
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ck_assert_int_eq(ask.way, ASK_AGENT);
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_OK);
	ck_assert_str_eq(ask.answer, "open sesame");
	ck_assert_str_eq(fault_text(), "");
}
END_TEST

/* It answers the ping and then nothing: the agents are asked instead. */
START_TEST(plymouth_breaks_down)
{
	program(plymouth, "plymouth", PING "echo half of; exit 1");
	program(agent, "agent", "echo whole");
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_OK);
	ck_assert_str_eq(ask.answer, "whole");
	ck_assert_int_eq(ask.way, ASK_AGENT);
}
END_TEST

START_TEST(all_break_down)
{
	program(plymouth, "plymouth", PING "exit 1");
	program(agent, "agent", "kill -9 $$");
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_NOASK);
	ck_assert_uint_eq(ask.length, 0);
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_NOASK);
}
END_TEST

START_TEST(no_way)
{
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_NOASK);
	ask_close(&ask);
	/* agents only count where somebody watches */
	program(agent, "agent", "echo 'open sesame'");
	places.agent_folder = "/nonexistent/ask-password";
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_NOASK);
}
END_TEST

START_TEST(not_a_terminal)
{
	places.order[0] = ASK_TERMINAL;
	places.order[1] = ASK_NOBODY;
	places.terminals[0] = "/dev/null";
	places.terminals[1] = "/nonexistent";
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_NOASK);
}
END_TEST

static const struct {
	const char *body;
	int code;
	size_t length;
} answers[] = {
	{"printf 'ab\\n'", E_OK, 2},
	{"printf 'ab\\n\\n'", E_OK, 3},
	{"printf '\\n'", E_OK, 0},
	{"head -c 1023 /dev/zero | tr '\\0' x", E_OK, 1023},
	{"head -c 1024 /dev/zero | tr '\\0' x", E_NOASK, 0},
	{"head -c 100000 /dev/zero | tr '\\0' x", E_NOASK, 0},
	{"env | grep -v -e ^PWD= -e ^_= -e ^PATH= -e ^LC_ALL= -e ^OLDPWD= -e ^SHLVL=; true", E_OK, 0},
	{"cat; echo noise >&2", E_OK, 0},
};

START_TEST(programs_answer)
{
	setenv("LD_PRELOAD_NOT", "x", 1);
	program(agent, "agent", answers[_i].body);
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ck_assert_msg(ask_secret(&ask, "Passphrase: ") == answers[_i].code, "%s", fault_text());
	ck_assert_msg(ask.length == answers[_i].length, "%s", ask.answer);
}
END_TEST

/* Time is up at once, once the program has said that it runs. */
static int wait_for_file(void *ctx, struct pollfd *f, nfds_t n, int ms)
{
	(void)f;
	(void)n;
	ck_assert_int_gt(ms, 0);
	while (access(ctx, F_OK))
		usleep(1000);
	return 0;
}

START_TEST(program_is_ended)
{
	char file[128], body[512];
	int pid = 0;

	snprintf(file, sizeof file, "%s/pid", folder);
	/* the one that ends when asked, and the one that does not */
	snprintf(body, sizeof body, "%secho $$ > %s.part; mv %s.part %s; while :; do sleep 1; done",
		 _i ? "trap '' TERM; " : "", file, file, file);
	program(agent, "agent", body);
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ask.wait = wait_for_file;
	ask.ctx = file;
	ck_assert_int_eq(ask_secret(&ask, "Passphrase: "), E_NOANSWER);
	FILE *f = fopen(file, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
	fclose(f);
	ck_assert(kill(pid, 0) == -1 && errno == ESRCH);
}
END_TEST

START_TEST(program_chooses)
{
	char key = 0;

	program(plymouth, "plymouth", PING "[ $1 = ask-question ] && echo Power off");
	ck_assert_int_eq(ask_open(&ask, &places, IDLE_MS), E_OK);
	ck_assert_int_eq(ask_choice(&ask, "t, p or b? ", "tpb", &key), E_OK);
	ck_assert_int_eq(key, 'p');
	program(plymouth, "plymouth", PING "echo none of it");
	ck_assert_int_eq(ask_choice(&ask, "t, p or b? ", "tpb", &key), E_NOANSWER);
}
END_TEST

#define ROWS(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
	Suite *s = suite_create("ask");
	TCase *t = tcase_create("terminal"), *p = tcase_create("programs");

	tcase_add_checked_fixture(t, open_terminal, close_terminal);
	tcase_add_loop_test(t, takes_lines, 0, ROWS(lines));
	tcase_add_test(t, drops_what_was_typed_before);
	tcase_add_test(t, forgets);
	tcase_add_test(t, bounded);
	tcase_add_test(t, slow_typing);
	tcase_add_loop_test(t, nobody_answers, 0, 8);
	tcase_add_loop_test(t, stopped_by_a_key, 0, 5);
	tcase_add_test(t, hang_up);
	tcase_add_loop_test(t, signal_stays_pending, 0, 4);
	tcase_add_test(t, signal_kills_late);
	tcase_add_test(t, chooses);
	tcase_add_loop_test(t, new_passphrase, 0, ROWS(twice));
	tcase_add_checked_fixture(p, open_folder, close_folder);
	tcase_add_test(p, plymouth_answers);
	tcase_add_test(p, plymouth_not_running);
	tcase_add_test(p, plymouth_breaks_down);
	tcase_add_test(p, all_break_down);
	tcase_add_test(p, no_way);
	tcase_add_test(p, not_a_terminal);
	tcase_add_loop_test(p, programs_answer, 0, ROWS(answers));
	tcase_add_loop_test(p, program_is_ended, 0, 2);
	tcase_add_test(p, program_chooses);
	suite_add_tcase(s, t);
	suite_add_tcase(s, p);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
