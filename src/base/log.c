/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/log.h"

#include "base/error.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

/* Used by the main thread only, but for log_verbose before any thread exists. */
static char tool[32] = "dormouse";
static enum log_level shown = LOG_LEVEL_NOTE;
static int out_fd = 1, err_fd = 2, kmsg_fd = -1;
static bool holding;
static char held[8192];
static size_t held_len;
static void (*mirror)(void *ctx, const char *line, size_t len);
static void *mirror_ctx;

/* A descriptor for @fd's file that cannot block, or @fd itself where it never does. */
static int never_blocking(int fd)
{
	struct stat st;
	char path[32];

	if (fstat(fd, &st) || (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)))
		return fd;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int twin = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return twin < 0 ? fd : twin;
}

void log_open(const char *name)
{
	snprintf(tool, sizeof tool, "%s", name);
	out_fd = never_blocking(1);
	err_fd = never_blocking(2);
}

void log_set_level(enum log_level level)
{
	shown = level;
}

enum log_level log_get_level(void)
{
	return shown;
}

/* Best effort by design: a message is never worth a hang, so the result is dropped. */
static void emit(int fd, const char *line, size_t len)
{
	if (send(fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		ssize_t n = write(fd, line, len);
		(void)n;
	}
}

static void keep(const char *line, size_t len, bool is_error)
{
	if (held_len + len + 1 > sizeof held)
		return;
	held[held_len++] = is_error ? 'e' : 'n';
	memcpy(held + held_len, line, len);
	held_len += len;
}

static void say(bool is_error, const char *fmt, va_list ap)
{
	char line[1024];
	int head = snprintf(line, sizeof line - 2, "%s: ", tool);
	int n = vsnprintf(line + head, sizeof line - 2 - (size_t)head, fmt, ap);
	size_t len = strlen(line);

	if (n < 0)
		return;
	line[len++] = '\n';
	if (!holding) {
		emit(is_error ? err_fd : out_fd, line, len);
		return;
	}
	keep(line, len, is_error);
	if (kmsg_fd >= 0)
		emit(kmsg_fd, line, len);
	if (mirror)
		mirror(mirror_ctx, line, len);
}

void log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(true, fmt, ap);
	va_end(ap);
}

void log_note(const char *fmt, ...)
{
	va_list ap;

	if (shown < LOG_LEVEL_NOTE)
		return;
	va_start(ap, fmt);
	say(false, fmt, ap);
	va_end(ap);
}

void log_verbose(const char *fmt, ...)
{
	va_list ap;

	if (shown < LOG_LEVEL_VERBOSE)
		return;
	va_start(ap, fmt);
	say(true, fmt, ap);
	va_end(ap);
}

int log_fault(int code, const char *what)
{
	const char *detail = fault_text();

	if (detail[0])
		log_error("%s: %s (%s)", what, detail, code_sentence(code));
	else
		log_error("%s: %s", what, code_sentence(code));
	return code;
}

void log_hold(void)
{
	if (kmsg_fd < 0)
		kmsg_fd = open("/dev/kmsg", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	holding = true;
}

void log_release(void)
{
	size_t at = 0;

	holding = false;
	while (at < held_len) {
		bool is_error = held[at++] == 'e';
		const char *end = memchr(held + at, '\n', held_len - at);
		size_t len = end ? (size_t)(end - (held + at)) + 1 : held_len - at;
		emit(is_error ? err_fd : out_fd, held + at, len);
		at += len;
	}
	held_len = 0;
}

void log_mirror(void (*to)(void *ctx, const char *line, size_t len), void *ctx)
{
	mirror = to;
	mirror_ctx = ctx;
}

static int open_system_log(void)
{
	static const struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a)) {
		close(fd);
		fd = -1;
	}
	return fd >= 0 ? fd : open("/dev/kmsg", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

void log_system(const char *fmt, ...)
{
	char line[1024];
	int fd = open_system_log(), head;
	va_list ap;

	if (fd < 0)
		return;
	head = snprintf(line, sizeof line, "<%d>%s[%d]: ", LOG_DAEMON | LOG_NOTICE, tool, (int)getpid());
	va_start(ap, fmt);
	vsnprintf(line + head, sizeof line - (size_t)head, fmt, ap);
	va_end(ap);
	emit(fd, line, strlen(line));
	close(fd);
}
