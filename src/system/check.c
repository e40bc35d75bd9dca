/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/check-parts.h"

#include "base/clock.h"
#include "base/error.h"
#include "system/machine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the order in which they are shown; the first that fails gives the exit code. */
const struct check checks[] = {
	/* name, function, fatal, may be forced */
	{"snapshot", check_snapshot, true, false},  {"target", check_target, true, false},
	{"stack", check_stack, true, false},	    {"random-key", check_random_key, true, false},
	{"pm-test", check_pm_test, true, true},	    {"mounted-writes", check_mounted_writes, true, true},
	{"space", check_space, true, true},	    {"kernel", check_kernel, true, true},
	{"initramfs", check_initramfs, true, true}, {"resume-line", check_resume_line, true, true},
	{"watchdog", check_watchdog, true, true},   {"to-ram", check_to_ram, true, false},
	{"zram", check_zram, false, false},	    {"zswap", check_zswap, false, false},
	{"gpu", check_gpu, false, false},	    {"network", check_network, false, false},
	{"systemd", check_systemd, false, false},   {"sealing", check_sealing, false, false},
	{"estimate", check_guess, false, false},
};
const unsigned check_count = sizeof checks / sizeof checks[0];

void check_run(const struct check *c, const struct check_facts *f, struct finding *out)
{
	memset(out, 0, sizeof *out);
	c->look(f, out);
}

/* Findings */

static void put(struct finding *out, enum check_level level, int code, const char *fmt, va_list ap)
{
	if (out->text[0] && level <= out->level)
		return;
	out->level = level;
	out->code = code;
	out->cure[0] = 0;
	vsnprintf(out->text, sizeof out->text, fmt, ap);
}

void found_ok(struct finding *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(out, CHECK_OK, E_OK, fmt, ap);
	va_end(ap);
}

void found_warning(struct finding *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(out, CHECK_WARNING, E_OK, fmt, ap);
	va_end(ap);
}

void found_fail(struct finding *out, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(out, CHECK_FAIL, code, fmt, ap);
	va_end(ap);
}

/* The cure of what was found first among equals stays. */
void found_cure(struct finding *out, const char *fmt, ...)
{
	va_list ap;

	if (out->cure[0])
		return;
	va_start(ap, fmt);
	vsnprintf(out->cure, sizeof out->cure, fmt, ap);
	va_end(ap);
}

/* Files below the root */

static bool path_of(const struct check_facts *f, char out[PATH_MAX], const char *fmt, va_list ap)
{
	int n = snprintf(out, PATH_MAX, "%s", f->root);

	if (n < PATH_MAX && vsnprintf(out + n, PATH_MAX - (size_t)n, fmt, ap) < PATH_MAX - n)
		return true;
	out[0] = 0;
	return false;
}

bool root_path(const struct check_facts *f, char out[PATH_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	bool fits = path_of(f, out, fmt, ap);
	va_end(ap);
	return fits;
}

bool root_has(const struct check_facts *f, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	bool fits = path_of(f, path, fmt, ap);
	va_end(ap);
	return fits && !access(path, F_OK);
}

int root_text(const struct check_facts *f, char *out, int size, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	bool fits = path_of(f, path, fmt, ap);
	va_end(ap);
	int n = fits ? file_read_text(path, out, size) : -1;
	if (n < 0)
		out[0] = 0;
	return n;
}

bool root_number(const struct check_facts *f, uint64_t *out, const char *fmt, ...)
{
	char path[PATH_MAX], text[64], *end;
	va_list ap;

	va_start(ap, fmt);
	bool fits = path_of(f, path, fmt, ap);
	va_end(ap);
	if (!fits || file_read_text(path, text, sizeof text) <= 0 || !isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

static FILE *open_config(const struct check_facts *f)
{
	static const char *const places[][2] = {
		{"/boot/config-", ""}, {"/lib/modules/", "/config"}, {"/usr/lib/modules/", "/config"}};
	char path[PATH_MAX];
	FILE *file = NULL;

	for (size_t i = 0; !file && i < sizeof places / sizeof places[0]; i++)
		if (root_path(f, path, "%s%s%s", places[i][0], f->release, places[i][1]))
			file = fopen(path, "re");
	return file;
}

int kernel_config(const struct check_facts *f, const char *key)
{
	char line[512], on[128], off[128];
	FILE *file = open_config(f);
	int found = -1;

	if (!file)
		return -1;
	snprintf(on, sizeof on, "%s=y\n", key);
	snprintf(off, sizeof off, "# %s is not set\n", key);
	while (found < 0 && fgets(line, sizeof line, file))
		found = !strcmp(line, on) ? 1 : !strcmp(line, off) ? 0 : -1;
	fclose(file);
	return found;
}

bool names_file(const char *spec)
{
	struct stat st;

	return spec[0] == '/' && !stat(spec, &st) && S_ISREG(st.st_mode);
}

uint64_t meminfo(const struct check_facts *f, const char *key)
{
	char text[8192], *at = text;
	size_t n = strlen(key);

	if (root_text(f, text, sizeof text, "/proc/meminfo") < 0)
		return 0;
	for (char *line; (line = strsep(&at, "\n"));)
		if (!strncmp(line, key, n) && line[n] == ':')
			return strtoull(line + n + 1, NULL, 10) << 10;
	return 0;
}

/* Programs */

bool program_find(const char *root, const char *name, char out[PATH_MAX])
{
	static const char *const places[] = {"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"};

	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		if (snprintf(out, PATH_MAX, "%s%s/%s", root, places[i], name) < PATH_MAX && !access(out, X_OK))
			return true;
	return false;
}

static int spawn(char *const argv[], int in, int out, pid_t *child)
{
	static char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	int e;

	/* This program blocks signals; what it starts must not. */
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_init(&files);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&files, in, 0);
	else
		posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	e = posix_spawn(child, argv[0], &files, &attributes, argv, environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return e;
}

int program_start(char *const argv[], int in, pid_t *child)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	int e = spawn(argv, in, ends[1], child);
	close(ends[1]);
	if (!e)
		return ends[0];
	close(ends[0]);
	errno = e;
	return -1;
}

bool program_end(pid_t child, bool at_once)
{
	int status;

	if (at_once)
		kill(-child, SIGKILL);
	/* Whoever has closed its output is about to end; one that does not must not hold us up for ever. */
	for (unsigned i = 0; i < 10000; i++) {
		pid_t got = waitpid(child, &status, WNOHANG);
		if (got)
			return got == child && WIFEXITED(status) && !WEXITSTATUS(status);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	kill(-child, SIGKILL);
	waitpid(child, &status, 0);
	return false;
}

bool wait_readable(int fd, uint64_t end)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t now;
	int n;

	do {
		now = clock_ns();
		n = now < end ? poll(&p, 1, (int)((end - now) / 1000000) + 1) : 0;
	} while (n < 0 && errno == EINTR);
	return n > 0;
}
