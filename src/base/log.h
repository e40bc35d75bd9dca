/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages for people.  Only tools call this; the library returns codes.
 *
 * While tasks are frozen nobody reads our pipes, ptys or sockets and a write
 * to one can block for ever, so between log_hold() and log_release() messages
 * go to a static buffer and to /dev/kmsg (opened by log_open()).  Even outside
 * that window a message is dropped rather than waited for: output descriptors
 * that can block are re-opened O_NONBLOCK.
 */
#ifndef DORMOUSE_BASE_LOG_H
#define DORMOUSE_BASE_LOG_H

#include <stddef.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_NOTE, LOG_LEVEL_VERBOSE };

/* @name prefixes each line.  Opens what is needed; call once, early. */
void log_open(const char *name);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* One line each, no newline at its end.  Errors and verbose lines go to stderr, notes to stdout. */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_verbose(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints "what failed: detail (sentence)" for @code with fault_text(); returns @code. */
int log_fault(int code, const char *what);

void log_hold(void);
void log_release(void);

/* Between the two, every line also goes there; NULL ends it.  @to may not block. */
void log_mirror(void (*to)(void *ctx, const char *line, size_t len), void *ctx);

/*
 * One line to the system's log: /dev/log, or the kernel's where nobody listens.
 * Does not wait; only while tasks run.
 */
void log_system(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
