/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct row {
	int code;
	const char *name;
	const char *sentence;
};

static const struct row rows[] = {
	{E_OK, "ok", "done"},
	{E_INTERNAL, "internal", "this is a bug in Dormouse; please report it"},
	{E_USAGE, "usage", "the command line cannot be used; see --help"},
	{E_CONF, "conf", "the configuration cannot be used"},
	{E_PRIVILEGE, "privilege", "this needs root"},
	{E_KERNEL, "kernel", "the kernel refuses hibernation"},
	{E_BUSY, "busy", "something else is using it"},
	{E_DEVICE, "device", "the device is missing or cannot be used"},
	{E_IO, "io", "the device could not be read or written"},
	{E_NOSPACE, "no-space", "the swap area is too small for the image"},
	{E_MEMORY, "memory", "there is not enough memory"},
	{E_FREEZE, "freeze", "a task would not freeze"},
	{E_SNAPSHOT, "snapshot", "the kernel could not make the image"},
	{E_POWER, "power", "the machine could not be powered off and goes on"},
	{E_ABORTED, "aborted", "aborted"},
	{E_UNSAFE, "unsafe", "this machine would not come back"},
	{E_NOIMAGE, "no-image", "the swap area holds no image"},
	{E_CORRUPT, "corrupt", "the image is damaged"},
	{E_UNSUPPORTED, "unsupported", "the image is of a version or kind unknown to this program"},
	{E_OTHERKERNEL, "other-kernel", "the image was made by another kernel or on another machine"},
	{E_OTHERSYSTEM, "other-installation", "the image belongs to another installation"},
	{E_STALE, "stale", "file systems were used since the image was made"},
	{E_KEY, "key", "the key is missing or wrong"},
	{E_NOASK, "no-way-to-ask", "there is no way to ask for the passphrase"},
	{E_NORESUME, "noresume", "the kernel command line says not to resume"},
	{E_MOUNTED, "mounted", "file systems are mounted already"},
	{E_RESTORE, "restore", "the kernel refused the image"},
	{E_FOREIGN, "foreign", "the area carries somebody else's signature"},
	{E_GIVENUP, "given-up", "too many attempts to load this image failed"},
	{E_NOANSWER, "no-answer", "nobody answered in time"},
	{E_DECLINED, "declined", "to boot without the image was chosen"},
};

static const struct row *find(int code)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].code == code)
			return &rows[i];
	return &rows[1];
}

const char *code_sentence(int code)
{
	return find(code)->sentence;
}

const char *code_name(int code)
{
	return find(code)->name;
}

/* Written under lock by whoever meets the first fault; read once all others are joined. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[512];
static int noted_errno;

int fault(int code, int sys, const char *fmt, ...)
{
	va_list ap;

	pthread_mutex_lock(&lock);
	if (!text[0]) {
		va_start(ap, fmt);
		int n = vsnprintf(text, sizeof text, fmt, ap);
		va_end(ap);
		/* strerrordesc_np, unlike strerror, loads no locale and allocates nothing. */
		const char *why = sys ? strerrordesc_np(sys) : NULL;
		if (why && n >= 0 && (size_t)n < sizeof text)
			snprintf(text + n, sizeof text - (size_t)n, ": %s", why);
		noted_errno = sys;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

const char *fault_text(void)
{
	return text;
}

int fault_errno(void)
{
	return noted_errno;
}

void fault_clear(void)
{
	pthread_mutex_lock(&lock);
	text[0] = 0;
	noted_errno = 0;
	pthread_mutex_unlock(&lock);
}
