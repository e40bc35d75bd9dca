/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/key-file.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading what nobody else may read ---- */

/* A file's bytes in locked memory. */
struct held {
	uint8_t *bytes;
	size_t n, mapped;
};

static int check_owner(int fd, const char *path, size_t *size)
{
	struct stat st;

	if (fstat(fd, &st))
		return fault(E_CONF, errno, "cannot look at %s", path);
	if (!S_ISREG(st.st_mode))
		return fault(E_CONF, 0, "%s is no plain file", path);
	if (st.st_uid && st.st_uid != geteuid())
		return fault(E_CONF, 0, "%s belongs to another user; chown root it", path);
	if (st.st_mode & 077)
		return fault(E_CONF, 0, "%s can be used by others; chmod 600 it and make a new key", path);
	*size = (size_t)st.st_size;
	return E_OK;
}

static int read_all(int fd, const char *path, struct held *h)
{
	size_t at = 0;

	while (at < h->n) {
		ssize_t got = read(fd, h->bytes + at, h->n - at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fault(E_CONF, got ? errno : ENODATA, "cannot read %s", path);
		at += (size_t)got;
	}
	return E_OK;
}

static void let_go(struct held *h)
{
	if (!h->bytes)
		return;
	explicit_bzero(h->bytes, h->n);
	munmap(h->bytes, h->mapped);
	h->bytes = NULL;
}

/* A zero follows the bytes. */
static int hold_fd(int fd, const char *path, size_t least, struct held *h)
{
	int r = check_owner(fd, path, &h->n);

	if (r == E_OK && (h->n < least || h->n > KEY_FILE_MOST))
		r = fault(E_CONF, 0, "%s has %zu bytes, a key has %zu to %d", path, h->n, least, KEY_FILE_MOST);
	if (r != E_OK)
		return r;
	h->mapped = h->n + 1;
	h->bytes = mmap(NULL, h->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (h->bytes == MAP_FAILED) {
		h->bytes = NULL;
		return fault(E_MEMORY, errno, "no memory for %s", path);
	}
	madvise(h->bytes, h->mapped, MADV_DONTDUMP);
	(void)!mlock(h->bytes, h->mapped); /* an ordinary user may have no right to */
	r = read_all(fd, path, h);
	if (r != E_OK)
		let_go(h);
	return r;
}

static int hold(const char *path, size_t least, struct held *h)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	memset(h, 0, sizeof *h);
	if (fd < 0)
		return fault(E_CONF, errno, "cannot open %s", path);
	int r = hold_fd(fd, path, least, h);
	close(fd);
	return r;
}

/* ---- key files ---- */

int recipient_from_key_file(struct recipient *to, unsigned cipher, const char *path)
{
	struct held h;
	int r = hold(path, KEY_FILE_LEAST, &h);

	if (r == E_OK)
		r = recipient_from_key_bytes(to, cipher, (struct bytes){h.bytes, h.n});
	let_go(&h);
	return r;
}

int seal_open_key_file(struct seal *s, const struct header *h, const char *path)
{
	struct held held;
	int r = hold(path, KEY_FILE_LEAST, &held);

	memset(s, 0, sizeof *s);
	if (r == E_OK)
		r = seal_open_key_bytes(s, h, (struct bytes){held.bytes, held.n});
	let_go(&held);
	return r;
}

/* ---- the key pair ---- */

static const char title[] =
	"# Dormouse key pair; suspend-keygen(8) makes it and changes its passphrase.\nversion = 1\n";

enum { PAIR_TEXT = 1024, PAIR_CHECK = 8 };

/* Where the lines' values are, in their order. */
struct pair_line {
	const char *name;
	uint8_t *bytes; /* hexadecimal, or: */
	size_t n;
	uint32_t *number;
};

enum { PAIR_LINES = 7 };

static void lines_of(struct key_pair *p, struct pair_line line[PAIR_LINES])
{
	const struct pair_line all[PAIR_LINES] = {
		{"public key", p->public_key, sizeof p->public_key, NULL},
		{"authenticator", p->authenticator, sizeof p->authenticator, NULL},
		{"salt", p->salt, sizeof p->salt, NULL},
		{"memory", NULL, 0, &p->cost.memory},
		{"passes", NULL, 0, &p->cost.passes},
		{"lanes", NULL, 0, &p->cost.lanes},
		{"wrapped", p->wrapped, sizeof p->wrapped, NULL},
	};

	memcpy(line, all, sizeof all);
}

static char *put_hex(char *to, const uint8_t *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to += sprintf(to, "%02x", b[i]);
	return to;
}

static size_t pair_text(struct key_pair *pair, char out[PAIR_TEXT])
{
	struct pair_line line[PAIR_LINES];
	uint8_t check[CRYPT_HASH];
	char *p = out + sprintf(out, "%s", title);

	lines_of(pair, line);
	for (int i = 0; i < PAIR_LINES; i++) {
		p += sprintf(p, "%s = ", line[i].name);
		p = line[i].number ? p + sprintf(p, "%" PRIu32, *line[i].number) : put_hex(p, line[i].bytes, line[i].n);
		*p++ = '\n';
	}
	hash_all((const uint8_t *)out, (size_t)(p - out), check);
	p += sprintf(p, "check = ");
	p = put_hex(p, check, PAIR_CHECK);
	*p++ = '\n';
	return (size_t)(p - out);
}

static bool take_hex(const char **at, uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++, *at += 2) {
		unsigned v;
		if (!strchr("0123456789abcdef", (*at)[0]) || !(*at)[0] || sscanf(*at, "%2x", &v) != 1)
			return false;
		out[i] = (uint8_t)v;
	}
	return true;
}

static bool take_line(const char **at, const struct pair_line *l)
{
	size_t n = strlen(l->name);
	char *end;

	if (strncmp(*at, l->name, n) || strncmp(*at + n, " = ", 3))
		return false;
	*at += n + 3;
	if (l->number) {
		*l->number = (uint32_t)strtoul(*at, &end, 10);
		*at = end;
	} else if (!take_hex(at, l->bytes, l->n)) {
		return false;
	}
	return *(*at)++ == '\n';
}

/* What was read must be what would be written: nothing else has the same check line. */
static bool parse_pair(struct key_pair *pair, const struct held *h)
{
	struct pair_line line[PAIR_LINES];
	const char *at = (const char *)h->bytes + strlen(title);
	char again[PAIR_TEXT];
	bool ok = h->bytes && h->n < PAIR_TEXT && !strncmp((const char *)h->bytes, title, strlen(title));

	memset(pair, 0, sizeof *pair);
	lines_of(pair, line);
	for (int i = 0; ok && i < PAIR_LINES; i++)
		ok = take_line(&at, &line[i]);
	ok = ok && pair_text(pair, again) == h->n && !memcmp(again, h->bytes, h->n) && key_cost_ok(&pair->cost);
	explicit_bzero(again, sizeof again);
	return ok;
}

int key_pair_read(struct key_pair *pair, const char *path)
{
	struct held h;
	int r = crypt_start();

	if (r == E_OK)
		r = hold(path, 1, &h);
	if (r != E_OK)
		return r;
	if (!parse_pair(pair, &h))
		r = fault(E_CONF, 0, "%s is no key pair, or was altered; `suspend-keygen' makes a new one", path);
	let_go(&h);
	return r;
}

int recipient_from_key_pair(struct recipient *to, unsigned cipher, const char *path)
{
	struct key_pair pair;
	int r = key_pair_read(&pair, path);

	if (r == E_OK)
		r = recipient_from_pair(to, cipher, &pair);
	explicit_bzero(&pair, sizeof pair);
	return r;
}

int key_pair_exists(const char *path)
{
	return fault(E_CONF, 0, "%s is there already; what was sealed for it could not be opened any more", path);
}

static int write_new(const char *path, const char *text, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t put = -1;

	if (fd < 0)
		return errno;
	put = write(fd, text, n);
	int e = put == (ssize_t)n ? 0 : put < 0 ? errno : ENOSPC;
	if (fsync(fd) && !e)
		e = errno;
	if (close(fd) && !e)
		e = errno;
	return e;
}

static int put_in_place(const char *from, const char *path, bool replace)
{
	if (replace)
		return rename(from, path) ? errno : 0;
	if (link(from, path))
		return errno;
	unlink(from);
	return 0;
}

int key_pair_write(const struct key_pair *pair, const char *path, bool replace)
{
	struct key_pair copy = *pair;
	char text[PAIR_TEXT], beside[4096];
	size_t n = pair_text(&copy, text);

	explicit_bzero(&copy, sizeof copy);
	if ((size_t)snprintf(beside, sizeof beside, "%s.new", path) >= sizeof beside)
		return fault(E_CONF, ENAMETOOLONG, "cannot write %.100s...", path);
	unlink(beside);
	int e = write_new(beside, text, n);
	if (!e)
		e = put_in_place(beside, path, replace);
	explicit_bzero(text, sizeof text);
	if (!e)
		return E_OK;
	unlink(beside);
	return e == EEXIST ? key_pair_exists(path) : fault(E_IO, e, "cannot write %s", path);
}
