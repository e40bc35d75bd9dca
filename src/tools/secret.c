/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tools/secret.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static const struct ask_places places = {
	.order = {ASK_TERMINAL, ASK_NOBODY},
	.terminals = {"/dev/tty", NULL},
};

void secret_guard(void)
{
	prctl(PR_SET_DUMPABLE, 0);
}

/* Byte by byte: what follows the line may be the next secret. */
static int read_line(struct secret *s, int fd)
{
	char c;
	ssize_t got;

	while ((got = read(fd, &c, 1)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fault(E_USAGE, errno, "no passphrase can be read from descriptor %d", fd);
		if (c == '\n')
			return E_OK;
		if (s->n == ASK_MAX - 1)
			return fault(E_USAGE, 0, "the passphrase is longer than %d bytes", ASK_MAX - 1);
		s->text[s->n++] = c;
	}
	return s->n ? E_OK : fault(E_USAGE, 0, "descriptor %d gives no passphrase", fd);
}

static int from_descriptor(struct secret *s, int fd)
{
	s->mapped = mmap(NULL, ASK_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->mapped == MAP_FAILED) {
		s->mapped = NULL;
		return fault(E_MEMORY, errno, "no memory for a passphrase");
	}
	madvise(s->mapped, ASK_MAX, MADV_DONTDUMP);
	(void)!mlock(s->mapped, ASK_MAX); /* an ordinary user may have no right to */
	s->text = s->mapped;
	return read_line(s, fd);
}

static int from_person(struct secret *s, const char *prompt, bool new)
{
	int r = ask_open(&s->ask, &places, -1);

	if (r == E_NOASK)
		fault_clear();
	if (r == E_NOASK)
		return fault(r, 0, "there is no terminal to ask for the passphrase; use --passphrase-fd");
	if (r == E_OK)
		r = new ? ask_new_secret(&s->ask, prompt, "Again: ") : ask_secret(&s->ask, prompt);
	s->text = s->ask.answer;
	s->n = s->ask.length;
	return r;
}

int secret_get(struct secret *s, int fd, const char *prompt, bool new)
{
	memset(s, 0, sizeof *s);
	secret_guard();
	int r = fd < 0 ? from_person(s, prompt, new) : from_descriptor(s, fd);
	if (r == E_OK && !s->n)
		r = fault(E_KEY, 0, "the passphrase is empty");
	return r;
}

void secret_drop(struct secret *s)
{
	ask_close(&s->ask);
	if (s->mapped) {
		explicit_bzero(s->mapped, ASK_MAX);
		munmap(s->mapped, ASK_MAX);
	}
	memset(s, 0, sizeof *s);
}
