/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/machine.h"

#include "base/bytes.h"
#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

int file_read_text(const char *path, char *out, int size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), n = 0;

	if (fd < 0)
		return -1;
	while (n < size - 1) {
		ssize_t got = read(fd, out + n, (size_t)(size - 1 - n));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (int)got;
	}
	close(fd);
	while (n && out[n - 1] == '\n')
		n--;
	out[n] = 0;
	return n;
}

bool file_write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	bool done = fd >= 0 && write(fd, text, n) == (ssize_t)n;

	if (fd >= 0)
		close(fd);
	return done;
}

static bool id_parse(const char *text, id128 *id)
{
	for (int i = 0; i < 16; i++) {
		unsigned v;
		if (!isxdigit((unsigned char)text[2 * i]) || !isxdigit((unsigned char)text[2 * i + 1]) ||
		    sscanf(text + 2 * i, "%2x", &v) != 1)
			return false;
		id->b[i] = (uint8_t)v;
	}
	return text[32] == 0;
}

/* machine-id is not to be shown as it is: what is stored is a hash of it. */
static id128 hashed(id128 id)
{
	static const char salt[] = "dormouse installation";
	uint8_t b[16 + sizeof salt];

	memcpy(b, id.b, 16);
	memcpy(b + 16, salt, sizeof salt);
	XXH128_hash_t h = XXH3_128bits(b, sizeof b);
	put_le64(id.b, h.low64);
	put_le64(id.b + 8, h.high64);
	return id;
}

id128 machine_installation(void)
{
	char text[64];
	id128 id = {{0}}, none = {{0}};

	if (file_read_text("/etc/dormouse.id", text, sizeof text) == 32 && id_parse(text, &id))
		return id;
	/* systemd makes up a machine-id in an initramfs that has none. */
	if (access("/etc/initrd-release", F_OK) == 0)
		return none;
	if (file_read_text("/etc/machine-id", text, sizeof text) == 32 && id_parse(text, &id))
		return hashed(id);
	return none;
}

/* The firmware's memory map: ranges of /sys/firmware/memmap in their numbers' order. */
static uint64_t memory_map(void)
{
	static const char *const parts[] = {"start", "end", "type"};
	uint64_t h = 0;

	for (int i = 0;; i++) {
		for (int k = 0; k < 3; k++) {
			char path[64], text[64];

			snprintf(path, sizeof path, "/sys/firmware/memmap/%d/%s", i, parts[k]);
			int n = file_read_text(path, text, sizeof text);
			if (n < 0)
				return h;
			h = XXH3_64bits_withSeed(text, (size_t)n, h + 1);
		}
	}
}

void machine_describe(struct header *h)
{
	struct utsname u;

	uname(&u);
	snprintf(h->release, sizeof h->release, "%.*s", (int)sizeof h->release - 1, u.release);
	snprintf(h->machine, sizeof h->machine, "%.*s", (int)sizeof h->machine - 1, u.machine);
	h->page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	h->memory_map = memory_map();
	h->installation = machine_installation();
}

int machine_matches(const struct header *image, const struct header *here)
{
	if (strcmp(image->machine, here->machine) || image->page_size != here->page_size)
		return fault(E_OTHERKERNEL, 0, "made on %s with pages of %u bytes, this is %s with %u", image->machine,
			     image->page_size, here->machine, here->page_size);
	if (strcmp(image->release, here->release))
		return fault(E_OTHERKERNEL, 0, "made by kernel %s, this is %s", image->release, here->release);
	if (image->memory_map && here->memory_map && image->memory_map != here->memory_map)
		return fault(E_OTHERKERNEL, 0,
			     "the firmware's memory map is not what it was: memory, a device or a firmware setting was "
			     "changed");
	return E_OK;
}

bool machine_foreign(id128 image, id128 here)
{
	return !id_is_zero(image) && !id_is_zero(here) && !id_equal(image, here);
}

static int number(const char *key, const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno)
		return fault(E_CONF, 0, "kernel command line: `%s=%s' is not a number", key, text);
	return E_OK;
}

static int take_word(struct boot_line *b, char *word)
{
	char *value = strchr(word, '=');
	uint64_t n = 0;

	if (value)
		*value++ = 0;
	if (!strcmp(word, "noresume") || !strcmp(word, "nohibernate")) {
		b->noresume = true;
	} else if (!value) {
		return E_OK;
	} else if (!strcmp(word, "hibernate")) {
		if (!strcmp(value, "no") || !strcmp(value, "noresume"))
			b->noresume = true;
	} else if (!strcmp(word, "resume")) {
		if (!*value || strlen(value) >= sizeof b->resume)
			return fault(E_CONF, 0, "kernel command line: `resume=' names no device");
		strcpy(b->resume, value);
	} else if (!strcmp(word, "resume_offset")) {
		int r = number(word, value, &b->resume_offset);
		b->resume_offset_set = r == E_OK;
		return r;
	} else if (!strcmp(word, "resumedelay")) {
		int r = number(word, value, &n);
		b->delay = r != E_OK ? 0 : n > 600 ? 600 : (unsigned)n;
		return r;
	}
	return E_OK;
}

/* The next word, quotes taken off, as the kernel reads it: blanks within quotes belong to it. */
static bool next_word(const char **s, char *out, size_t size)
{
	bool quoted = false;
	size_t n = 0;

	*s += strspn(*s, " \t\n");
	if (!**s)
		return false;
	for (; **s && (quoted || !strchr(" \t\n", **s)); ++*s) {
		if (**s == '"')
			quoted = !quoted;
		else if (n + 1 < size)
			out[n++] = **s;
	}
	out[n] = 0;
	return true;
}

int boot_line_parse(const char *line, struct boot_line *b)
{
	char word[1024];
	int r = E_OK;

	memset(b, 0, sizeof *b);
	/* What follows "--" is for the first process. */
	while (next_word(&line, word, sizeof word) && strcmp(word, "--")) {
		int one = take_word(b, word);
		if (r == E_OK)
			r = one;
	}
	return r;
}

int boot_line_read(const char *path, struct boot_line *b)
{
	char line[8192];

	/* No /proc: as if nothing were said. */
	if (file_read_text(path, line, sizeof line) < 0)
		line[0] = 0;
	return boot_line_parse(line, b);
}

bool machine_has_platform(void)
{
	char text[128];

	return file_read_text("/sys/power/disk", text, sizeof text) > 0 && strstr(text, "platform");
}

/* "s2idle [deep]": the words are what there is, the one in brackets is selected. */
int machine_deep(const char *path, char now[MEM_SLEEP_TEXT])
{
	char text[128], shown[128], *rest = text;
	bool deep = false;

	now[0] = 0;
	if (file_read_text(path, text, sizeof text) < 0)
		return fault(E_KERNEL, errno, "cannot suspend to RAM: %s", path);
	strcpy(shown, text);
	for (char *word; (word = strsep(&rest, " "));) {
		size_t n = strlen(word);
		if (word[0] == '[' && n > 2) {
			word[n - 1] = 0;
			snprintf(now, MEM_SLEEP_TEXT, "%s", ++word);
		}
		deep |= !strcmp(word, "deep");
	}
	if (deep)
		return E_OK;
	return fault(
		E_KERNEL, 0,
		"cannot suspend to RAM: %s offers `%s', not `deep'; switch S3 (\"Linux sleep\") on in the firmware's "
		"setup if it has that, or use s2disk",
		path, shown);
}

int machine_power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	return fault(E_POWER, errno, "the machine cannot be powered off");
}

uint64_t machine_image_size(void)
{
	char text[64];

	return file_read_text("/sys/power/image_size", text, sizeof text) > 0 ? strtoull(text, NULL, 10) : UINT64_MAX;
}
