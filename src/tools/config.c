/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tools/config.h"

#include "base/error.h"
#include "image/format.h"
#include "system/key-file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 64 << 10, KEY_MAX = 64, VALUE_MAX = 1024, LINE_SHOWN = 160 };

/* Keeps offset * page size within a signed 64-bit byte offset, for pages up to 64 KiB. */
static const uint64_t offset_max = (uint64_t)INT64_MAX >> 16;

__extension__ typedef unsigned __int128 wide;

struct key;

/* Puts @value where the row says.  NULL, or what is wrong with it and the cure. */
typedef const char *(*setter)(struct config *c, const struct key *k, const char *value);

struct key {
	const char *name;
	setter set; /* NULL: accepted, no effect */
	size_t field;
	int max;
	const char *wrong; /* the error for a value that cannot be read; for keys without effect: why */
};

/* Reading values */

/* Decimal digits only; ends at the first other character. */
static bool read_digits(const char **s, uint64_t *out)
{
	uint64_t v = 0;

	if (!isdigit((unsigned char)**s))
		return false;
	for (; isdigit((unsigned char)**s); ++*s)
		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(**s - '0'), &v))
			return false;
	*out = v;
	return true;
}

static bool read_number(const char *value, uint64_t max, uint64_t *out)
{
	return read_digits(&value, out) && !*value && *out <= max;
}

static bool read_bool(const char *value, bool *out)
{
	static const char *const yes[] = {"y", "yes", "1", "true", "on"};
	static const char *const no[] = {"n", "no", "0", "false", "off"};

	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
		*out = !strcasecmp(value, yes[i]);
		if (*out || !strcasecmp(value, no[i]))
			return true;
	}
	return false;
}

/* "", "M", "MiB" are powers of 1024, "MB" one of 1000. */
static bool read_unit(const char *s, uint64_t *unit)
{
	static const char letters[] = "KMGT";
	const char *at;

	*unit = 1;
	if (!*s || !strcasecmp(s, "B"))
		return true;
	at = strchr(letters, toupper((unsigned char)*s));
	if (!at || (s[1] && strcasecmp(s + 1, "B") && strcasecmp(s + 1, "iB")))
		return false;
	for (const char *p = letters; p <= at; p++)
		*unit *= strcasecmp(s + 1, "B") ? 1024 : 1000;
	return true;
}

/* "12", "1.5", "2.26133e+09" as mantissa and power of ten, all digits kept; 18 digits at most. */
static bool read_decimal(const char **s, uint64_t *mantissa, int *power)
{
	unsigned digits = 0, before = 0;
	uint64_t exponent;
	bool point = false, minus;

	*mantissa = 0;
	*power = 0;
	for (; isdigit((unsigned char)**s) || (**s == '.' && !point); ++*s) {
		if (**s == '.') {
			point = true;
			continue;
		}
		if (digits == 18)
			return false;
		*mantissa = *mantissa * 10 + (uint64_t)(**s - '0');
		digits += *mantissa != 0;
		before += !point;
		*power -= point;
	}
	if (!before)
		return false;
	if (**s != 'e' && **s != 'E')
		return true;
	++*s;
	minus = **s == '-';
	if (**s == '+' || **s == '-')
		++*s;
	if (!read_digits(s, &exponent) || exponent > 40)
		return false;
	*power += minus ? -(int)exponent : (int)exponent;
	return true;
}

/* Bytes; a fraction of a byte is refused, unless a unit makes it one (1.1G). */
static bool read_size(const char *value, uint64_t *out)
{
	uint64_t mantissa, unit;
	int power;
	wide v;

	if (!read_decimal(&value, &mantissa, &power))
		return false;
	value += strspn(value, " \t");
	if (!read_unit(value, &unit))
		return false;
	v = (wide)mantissa * unit;
	for (; power > 0; power--)
		if ((v *= 10) > UINT64_MAX)
			return false;
	for (; power < 0; power++) {
		if (v % 10 && unit == 1)
			return false;
		v /= 10;
	}
	*out = (uint64_t)v;
	return v <= UINT64_MAX;
}

/* Setters */

static const char *set_text(struct config *c, const struct key *k, const char *value)
{
	if (strlen(value) >= CONFIG_PATH)
		return "longer than 255 characters; use a shorter name for it";
	strcpy((char *)c + k->field, value);
	return NULL;
}

static const char *set_path(struct config *c, const struct key *k, const char *value)
{
	return *value == '/' ? set_text(c, k, value) : k->wrong;
}

static const char *set_device(struct config *c, const struct key *k, const char *value)
{
	static const char *const tags[] = {"UUID=", "LABEL=", "PARTUUID=", "PARTLABEL="};
	const char *s = value;
	uint64_t n;

	for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
		if (!strncmp(value, tags[i], strlen(tags[i])) && value[strlen(tags[i])])
			return set_text(c, k, value);
	if (!*value || *value == '/')
		return set_text(c, k, value);
	if (read_digits(&s, &n) && *s++ == ':' && read_digits(&s, &n) && !*s)
		return set_text(c, k, value);
	return k->wrong;
}

static const char *set_offset(struct config *c, const struct key *k, const char *value)
{
	if (!read_number(value, offset_max, &c->resume_offset))
		return k->wrong;
	c->resume_offset_set = true;
	return NULL;
}

static const char *set_image_size(struct config *c, const struct key *k, const char *value)
{
	size_t n = strlen(value);
	const char *s = value;
	uint64_t v;

	if (n && value[n - 1] == '%') {
		if (!read_digits(&s, &v) || strcmp(s + strspn(s, " \t"), "%") || v > 100)
			return "not a percentage of the memory; write a whole number from 0% to 100%";
		c->image_percent = (unsigned)v;
		c->image_size = 0;
	} else {
		if (!read_size(value, &v))
			return k->wrong;
		c->image_size = v;
		c->image_percent = 0;
	}
	c->image_size_set = true;
	return NULL;
}

static const char *set_bool(struct config *c, const struct key *k, const char *value)
{
	bool *field = (bool *)((char *)c + k->field);
	bool v;

	if (!read_bool(value, &v))
		return "neither y nor n; write one of them";
	*field = v;
	return NULL;
}

/* Seconds and log levels; the fields are int or unsigned, which share their representation up to INT_MAX. */
static const char *set_number(struct config *c, const struct key *k, const char *value)
{
	uint64_t v;

	if (!read_number(value, (uint64_t)k->max, &v))
		return k->wrong;
	memcpy((char *)c + k->field, &(int){(int)v}, sizeof(int));
	return NULL;
}

static const char *set_at_least_one(struct config *c, const struct key *k, const char *value)
{
	uint64_t v;

	return read_number(value, (uint64_t)k->max, &v) && v ? set_number(c, k, value) : k->wrong;
}

static const char *set_cipher(struct config *c, const struct key *k, const char *value)
{
	/* Whether it is built in is for those who use it to find out. */
	static const char *const names[CIPHER_COUNT] = {
		[CIPHER_NONE] = "auto",
		[CIPHER_OCB] = "aes-256-ocb",
		[CIPHER_GCM] = "aes-256-gcm",
		[CIPHER_CHACHA20] = "chacha20-poly1305",
	};

	for (unsigned i = 0; i < CIPHER_COUNT; i++)
		if (!strcasecmp(value, names[i])) {
			c->cipher = i;
			return NULL;
		}
	return k->wrong;
}

static const char *set_key_pair(struct config *c, const struct key *k, const char *value)
{
	c->key_pair_set = true;
	return set_path(c, k, value);
}

static const char *set_threads(struct config *c, const struct key *k, const char *value)
{
	uint64_t v;
	bool all;

	if (read_number(value, (uint64_t)k->max, &v)) {
		c->threads = (unsigned)v;
		c->threads_set = true;
		return NULL;
	}
	if (isdigit((unsigned char)*value) || !read_bool(value, &all))
		return k->wrong;
	c->threads = 0;
	c->threads_set = !all;
	return NULL;
}

static const char *set_shutdown(struct config *c, const struct key *k, const char *value)
{
	static const char *const names[] = {
		[SHUTDOWN_PLATFORM] = "platform", [SHUTDOWN_POWEROFF] = "shutdown", [SHUTDOWN_REBOOT] = "reboot"};

	for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcasecmp(value, names[i])) {
			c->shutdown = i;
			return NULL;
		}
	return k->wrong;
}

static const struct {
	const char *name;
	enum config_codec codec;
	int min, max; /* of the level; both 0: takes none */
} codecs[] = {
	{"auto", CODEC_CHOICE_DEFAULT, 0, 0}, {"none", CODEC_CHOICE_NONE, 0, 0},   {"lzo", CODEC_CHOICE_LZO, 0, 0},
	{"lz4", CODEC_CHOICE_LZ4, 1, 64},     {"zstd", CODEC_CHOICE_ZSTD, -7, 22},
};

static const char *set_level(struct config *c, unsigned codec, const char *level)
{
	bool minus = *level == '-';
	uint64_t n;
	int v;

	if (!codecs[codec].max)
		return "this compressor has no levels; write its name alone";
	if (!read_number(level + minus, 9999, &n))
		return "the level after the colon is no number; write for example lz4:2 or zstd:3";
	v = minus ? -(int)n : (int)n;
	if (!v || v < codecs[codec].min || v > codecs[codec].max)
		return "no such level; lz4 has 1 to 64, zstd 1 to 22 and -7 to -1";
	c->codec = codecs[codec].codec;
	c->level = v;
	return NULL;
}

static const char *set_compressor(struct config *c, const struct key *k, const char *value)
{
	size_t n = strcspn(value, ":");

	for (unsigned i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
		if (strlen(codecs[i].name) != n || strncasecmp(value, codecs[i].name, n))
			continue;
		if (value[n])
			return set_level(c, i, value + n + 1);
		c->codec = codecs[i].codec;
		c->level = 0;
		return NULL;
	}
	return k->wrong;
}

/* The keys */

#define AT(field) offsetof(struct config, field)

static const struct key keys[] = {
	{"snapshot device", set_path, AT(snapshot_device), 0, "no absolute path; write /dev/snapshot"},
	{"resume device", set_device, AT(resume_device), 0,
	 "no device; write /dev/..., UUID=..., LABEL=..., PARTUUID=..., PARTLABEL=... or MAJOR:MINOR"},
	{"resume offset", set_offset, 0, 0, "not a number of pages; write the number that `swap-offset FILE' prints"},
	{"image size", set_image_size, 0, 0, "no size; write bytes (500000000), 512M, 1.5G or 40% of the memory"},
	{"suspend loglevel", set_number, AT(suspend_loglevel), 15, "no log level; write a number from 0 to 15"},
	{"max loglevel", set_number, AT(max_loglevel), 15, "no log level; write a number from 0 to 15"},
	{"compute checksum", NULL, 0, 0, "images are always checked"},
	{"compress", set_bool, AT(compress), 0, NULL},
	{"compressor", set_compressor, 0, 0, "no such compressor; write auto, lz4, lz4:N, lzo, zstd, zstd:N or none"},
	{"encrypt", set_bool, AT(encrypt), 0, NULL},
	{"cipher", set_cipher, 0, 0, "no such cipher; write auto, aes-256-ocb, aes-256-gcm or chacha20-poly1305"},
	{"key file", set_path, AT(key_file), 0, "no absolute path; write for example /run/dormouse/key"},
	{"key pair", set_key_pair, AT(key_pair), 0, "no absolute path; write /etc/dormouse.key"},
	{"passphrase tries", set_at_least_one, AT(passphrase_tries), 100, "no number of tries; write 1 to 100"},
	{"passphrase timeout", set_at_least_one, AT(passphrase_timeout), 3600, "no number of seconds; write 1 to 3600"},
	{"RSA key file", NULL, 0, 0, "RSA keys are not used; make a new key pair with `suspend-keygen'"},
	{"early writeout", NULL, 0, 0, "writing always begins at once"},
	{"splash", NULL, 0, 0, "there is no splash screen"},
	{"fbsplash theme", NULL, 0, 0, "there is no splash screen"},
	{"shutdown method", set_shutdown, 0, 0, "no such method; write platform, shutdown or reboot"},
	{"disk timeout", set_number, AT(disk_timeout), 3600, "no number of seconds; write 0 (wait for ever) to 3600"},
	{"resume pause", set_number, AT(resume_pause), 3600, "no number of seconds; write 0 to 3600"},
	{"resume wait", set_number, AT(resume_wait), 3600, "no number of seconds; write 0 to 3600"},
	{"threads", set_threads, 0, 512, "neither y, n nor a number up to 512; write y to use every core"},
	{"force", set_bool, AT(force), 0, NULL},
};

static const struct key s2ram = {"s2ram", NULL, 0, 0, "suspending to RAM is left to the kernel"};

static bool is_s2ram(const char *name)
{
	return !strncasecmp(name, "s2ram", 5) && (!name[5] || strchr("_- ", name[5]));
}

static const struct key *find_key(const char *name)
{
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		if (!strcasecmp(name, keys[i].name))
			return &keys[i];
	return is_s2ram(name) ? &s2ram : NULL;
}

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

/* Levenshtein's, ignoring case; both shorter than KEY_MAX. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[KEY_MAX + 1], diagonal, above;
	unsigned n = (unsigned)strlen(b);

	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		diagonal = row[0]++;
		for (unsigned j = 0; j < n; j++) {
			bool same = tolower((unsigned char)a[i]) == tolower((unsigned char)b[j]);
			above = row[j + 1];
			row[j + 1] = smallest(above + 1, row[j] + 1, diagonal + !same);
			diagonal = above;
		}
	}
	return row[n];
}

static const char *nearest_key(const char *name)
{
	const char *best = keys[0].name;
	unsigned least = UINT_MAX;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		unsigned d = edit_distance(name, keys[i].name);
		if (d < least) {
			least = d;
			best = keys[i].name;
		}
	}
	return best;
}

/* Notes: once the list is full the last line says so. */
static void __attribute__((format(printf, 2, 3))) note(struct config *c, const char *fmt, ...)
{
	va_list ap;

	if (c->note_count == CONFIG_NOTES) {
		snprintf(c->notes[CONFIG_NOTES - 1], sizeof c->notes[0], "and more lines without effect");
		return;
	}
	va_start(ap, fmt);
	vsnprintf(c->notes[c->note_count++], sizeof c->notes[0], fmt, ap);
	va_end(ap);
}

/* Lines */

static int refuse(const char *where, const char *line, const char *why)
{
	return fault(E_CONF, 0, "%.80s: `%.*s%s': %s", where, LINE_SHOWN, line, strlen(line) > LINE_SHOWN ? "..." : "",
		     why);
}

/* @len bytes of @s with blanks removed at both ends and runs of them made one.  False when it does not fit. */
static bool squeeze(char *out, size_t size, const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		bool blank = isspace((unsigned char)s[i]);
		if (blank && (!n || out[n - 1] == ' '))
			continue;
		if (n + 1 == size)
			return false;
		out[n++] = (char)(blank ? ' ' : s[i]);
	}
	if (n && out[n - 1] == ' ')
		n--;
	out[n] = 0;
	return true;
}

/* Where a comment or the end cuts an unquoted value: a # counts at its start and behind a blank. */
static size_t bare_length(const char *s)
{
	size_t n = 0;

	while (s[n] && !(s[n] == '#' && (!n || isspace((unsigned char)s[n - 1]))))
		n++;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	return n;
}

/* Takes quotes and comment off @s.  NULL or what is wrong. */
static const char *read_value(const char *s, char out[VALUE_MAX])
{
	const char *end;
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	if (*s == '"' || *s == '\'') {
		end = strchr(s + 1, *s);
		if (!end)
			return "a quote is not closed; close it or take it away";
		if (bare_length(end + 1))
			return "something follows the closing quote; take it away or put # before it";
		n = (size_t)(end - ++s);
	} else {
		n = bare_length(s);
	}
	if (n >= VALUE_MAX)
		return "the value is too long; 1023 characters are the most";
	memcpy(out, s, n);
	out[n] = 0;
	return NULL;
}

static int unknown(struct config *c, const char *where, const char *name)
{
	note(c, "%.60s: unknown key `%.40s' ignored; the nearest known one is `%s'", where, name, nearest_key(name));
	return E_OK;
}

static int set(struct config *c, const char *where, const char *line, const char *equals)
{
	char name[KEY_MAX], value[VALUE_MAX];
	const struct key *k;
	const char *why;

	if (!squeeze(name, sizeof name, line, (size_t)(equals - line)))
		return refuse(where, line, "the key is too long; see suspend.conf(5) for the keys");
	if (!*name)
		return refuse(where, line, "no key before the `='; write `key = value'");
	why = read_value(equals + 1, value);
	if (why)
		return refuse(where, line, why);
	k = find_key(name);
	if (!k)
		return unknown(c, where, name);
	if (!k->set) {
		note(c, "%.60s: `%.40s' has no effect any more: %s", where, name, k->wrong);
		return E_OK;
	}
	if (!*value && k->set != set_device)
		return refuse(where, line, "no value; write one or take the line away");
	why = k->set(c, k, value);
	return why ? refuse(where, line, why) : E_OK;
}

int config_set(struct config *c, const char *where, const char *line)
{
	char shown[LINE_SHOWN + 8];
	const char *equals;

	while (isspace((unsigned char)*line))
		line++;
	if (!*line || *line == '#')
		return E_OK;
	equals = strchr(line, '=');
	if (equals)
		return set(c, where, line, equals);
	snprintf(shown, sizeof shown, "%s", line);
	return refuse(where, shown, "no `=' in it; write `key = value', or # before a comment");
}

void config_default(struct config *c)
{
	memset(c, 0, sizeof *c);
	strcpy(c->snapshot_device, "/dev/snapshot");
	c->compress = true;
	c->codec = CODEC_CHOICE_DEFAULT;
	c->shutdown = SHUTDOWN_PLATFORM;
	c->resume_wait = 10;
	c->disk_timeout = 300;
	strcpy(c->key_pair, KEY_PAIR_PATH);
	c->passphrase_tries = 3;
	c->passphrase_timeout = 120;
	c->suspend_loglevel = -1;
	c->max_loglevel = -1;
}

/* Files */

static int check_file(int fd, const char *path, size_t *size)
{
	struct stat st;

	if (fstat(fd, &st))
		return fault(E_CONF, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return fault(E_CONF, 0, "%s is not a plain file; put the configuration into one", path);
	if (st.st_uid && st.st_uid != geteuid())
		return fault(E_CONF, 0, "%s belongs to user %u, who could change what root does; run chown root %s",
			     path, (unsigned)st.st_uid, path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return fault(E_CONF, 0, "%s may be written by others than its owner; run chmod go-w %s", path, path);
	if (st.st_size > FILE_MAX)
		return fault(E_CONF, 0, "%s is larger than 64 KiB; this cannot be a configuration", path);
	*size = (size_t)st.st_size;
	return E_OK;
}

static int read_all(int fd, const char *path, char *text, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = read(fd, text + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fault(E_CONF, n ? errno : 0, "%s cannot be read to its end", path);
		done += (size_t)n;
	}
	text[done] = 0;
	if (strlen(text) != done)
		return fault(E_CONF, 0, "%s holds zero bytes; save it as plain text (UTF-8)", path);
	return E_OK;
}

/* Cuts a line off at its end, carriage returns and other blanks taken away. */
static char *take_line(char **text)
{
	char *line = strsep(text, "\n");
	size_t n = strlen(line);

	while (n && isspace((unsigned char)line[n - 1]))
		line[--n] = 0;
	return line;
}

static int read_lines(struct config *c, const char *path, char *text)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char where[80];
	int code = E_OK;

	if (!strncmp(text, "\xef\xbb\xbf", 3))
		text += 3;
	for (unsigned line = 1; text && code == E_OK; line++) {
		snprintf(where, sizeof where, "%.60s:%u", name, line);
		code = config_set(c, where, take_line(&text));
	}
	return code;
}

static int read_file(struct config *c, int fd, const char *path)
{
	char text[FILE_MAX + 1];
	size_t size = 0;
	int code = check_file(fd, path, &size);

	if (code == E_OK)
		code = read_all(fd, path, text, size);
	if (code == E_OK)
		code = read_lines(c, path, text);
	return code;
}

static int open_conf(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* @named: below the root, for those who ask which file it was. */
static int read_open(struct config *c, int fd, const char *path, const char *named)
{
	int code = read_file(c, fd, path);

	close(fd);
	snprintf(c->file, sizeof c->file, "%.255s", named);
	return code;
}

int config_read_usual(struct config *c, const char *root)
{
	static const char *const usual[] = {"/etc/suspend.conf", "/etc/uswsusp.conf"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
		snprintf(path, sizeof path, "%s%s", root, usual[i]);
		int fd = open_conf(path);
		if (fd >= 0)
			return read_open(c, fd, path, usual[i]);
		if (errno != ENOENT)
			return fault(E_CONF, errno, "%.200s", path);
	}
	return E_OK;
}

int config_read(struct config *c, const char *path)
{
	if (!path)
		return config_read_usual(c, "");
	int fd = open_conf(path);
	return fd < 0 ? fault(E_CONF, errno, "%s", path) : read_open(c, fd, path, path);
}
