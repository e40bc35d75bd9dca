/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What boots next: the entry that the boot loader takes by default.  Boot loader specification entries (systemd-boot,
 * Fedora's GRUB), then grub.cfg, then the names that distributions give an initramfs.
 */
#include "system/check-parts.h"

#include "base/bytes.h"
#include "system/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MENU_MAX = 512 << 10, ENTRY_MAX = 16 << 10, NAME_SIZE = 256, DEPTH = 4 };

static void copy(char *out, size_t size, const char *s)
{
	snprintf(out, size, "%.*s", (int)size - 1, s);
}

static char *skip_blanks(char *s)
{
	return s + strspn(s, " \t");
}

/* Is the line @s "@key VALUE"?  The value, or NULL. */
static char *value_of(char *s, const char *key)
{
	size_t n = strlen(key);

	s = skip_blanks(s);
	return !strncmp(s, key, n) && (s[n] == ' ' || s[n] == '\t') ? skip_blanks(s + n) : NULL;
}

static void add_initrd(struct boot_entry *e, const char *path)
{
	if (e->initrds < BOOT_INITRDS)
		copy(e->initrd[e->initrds++], AREA_PATH, path);
}

/* "/vmlinuz root=... quiet": the first word is the kernel. */
static void set_linux(struct boot_entry *e, char *value)
{
	size_t n = strcspn(value, " \t");

	copy(e->options, sizeof e->options, skip_blanks(value + n));
	value[n] = 0;
	copy(e->kernel, sizeof e->kernel, value);
}

static void set_initrds(struct boot_entry *e, char *value)
{
	for (char *path; (path = strsep(&value, " \t"));)
		if (*path)
			add_initrd(e, path);
}

/* ---- where its files lie: paths begin at the partition of the boot loader's ---- */

static bool place_file(const struct check_facts *f, char path[AREA_PATH])
{
	static const char *const mounts[] = {"", "/boot", "/efi", "/boot/efi"};
	char found[AREA_PATH];
	char *plain = strchr(path, ')'); /* (hd0,1)/vmlinuz, ($root)/vmlinuz */

	plain = path[0] == '(' && plain ? plain + 1 : path;
	for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
		if (snprintf(found, sizeof found, "%s%s%s", mounts[i], *plain == '/' ? "" : "/", plain) >=
		    (int)sizeof found)
			continue;
		if (!root_has(f, "%s", found))
			continue;
		strcpy(path, found);
		return true;
	}
	return false;
}

static void place_files(const struct check_facts *f, struct boot_entry *e)
{
	unsigned n = 0;

	if (!place_file(f, e->kernel))
		e->kernel[0] = 0;
	for (unsigned i = 0; i < e->initrds; i++)
		if (place_file(f, e->initrd[i]))
			memmove(e->initrd[n++], e->initrd[i], AREA_PATH);
	e->initrds = n;
}

/* ---- GRUB's environment block and menu ---- */

bool grubenv_value(const char *text, const char *key, char *out, size_t size)
{
	size_t n = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, key, n) || line[n] != '=')
			continue;
		size_t length = strcspn(line + n + 1, "\n");
		if (length >= size)
			return false;
		memcpy(out, line + n + 1, length);
		out[length] = 0;
		return length > 0;
	}
	return false;
}

struct menu {
	const char *wanted;
	struct boot_entry *e;
	unsigned depth, number[DEPTH]; /* of the next entry at each depth */
	char place[64];		       /* of the menu we are in: "1>" */
	bool inside, matched;	       /* in a menuentry; it is the one */
	unsigned braces;
};

/* The text in quotes behind menuentry or submenu. */
static void quoted(const char *s, char out[NAME_SIZE])
{
	const char *begin = strpbrk(s, "'\""), *end = begin ? strchr(begin + 1, *begin) : NULL;

	snprintf(out, NAME_SIZE, "%.*s", end ? (int)(end - begin - 1) : 0, begin ? begin + 1 : "");
}

static bool is_wanted(const struct menu *m, char *line)
{
	const char *last = strrchr(m->wanted, '>') ? strrchr(m->wanted, '>') + 1 : m->wanted;
	char place[128], title[NAME_SIZE], id[NAME_SIZE] = "";
	char *option = strstr(line, "menuentry_id_option");

	snprintf(place, sizeof place, "%s%u", m->place, m->number[m->depth]);
	quoted(line, title);
	if (!option)
		option = strstr(line, "--id");
	if (option)
		quoted(option, id);
	bool digits = last[strspn(last, "0123456789")] == 0;
	if (digits)
		return !strcmp(m->wanted, place);
	return !strcmp(last, title) || (id[0] && !strcmp(last, id));
}

static void open_brace(struct menu *m, char *line)
{
	if (value_of(line, "menuentry")) {
		m->inside = true;
		m->matched = is_wanted(m, line);
		m->number[m->depth]++;
		m->braces = 0;
	} else if (value_of(line, "submenu") && m->depth + 1 < DEPTH) {
		size_t n = strlen(m->place);
		snprintf(m->place + n, sizeof m->place - n, "%u>", m->number[m->depth]++);
		m->number[++m->depth] = 0;
	}
}

/* A line in an entry; true when the entry that is wanted ends here. */
static bool inside_entry(struct menu *m, char *line)
{
	static const char *const linux_[] = {"linux", "linuxefi", "linux16"};
	static const char *const initrd[] = {"initrd", "initrdefi", "initrd16"};
	char *value;

	for (size_t i = 0; m->matched && i < 3; i++) {
		if ((value = value_of(line, linux_[i])))
			set_linux(m->e, value);
		if ((value = value_of(line, initrd[i])))
			set_initrds(m->e, value);
	}
	line = skip_blanks(line);
	size_t n = strlen(line);
	if (n && line[n - 1] == '{')
		m->braces++;
	if (line[0] != '}')
		return false;
	if (m->braces) {
		m->braces--;
		return false;
	}
	m->inside = false;
	return m->matched;
}

static void close_submenu(struct menu *m)
{
	if (!m->depth)
		return;
	m->depth--;
	char *place = m->place + strlen(m->place) - 1;
	while (place > m->place && place[-1] != '>')
		place--;
	*place = 0;
}

bool grub_entry(char *text, const char *wanted, struct boot_entry *e)
{
	struct menu m = {.wanted = wanted, .e = e};

	for (char *line; (line = strsep(&text, "\n"));) {
		if (m.inside) {
			if (inside_entry(&m, line))
				return true;
		} else if (strchr(line, '{'))
			open_brace(&m, line);
		else if (line[0] == '}')
			close_submenu(&m);
	}
	return false;
}

/* `set default="0"', what was saved, or what a `grub-reboot' asks for once. */
static void grub_default(const struct check_facts *f, const char *dir, const char *menu, char out[NAME_SIZE])
{
	const char *set = menu;
	char env[4096];

	strcpy(out, "0");
	if (root_text(f, env, sizeof env, "%s/grubenv", dir) <= 0)
		env[0] = 0;
	if (strstr(menu, "set default=\"${next_entry}\"") && grubenv_value(env, "next_entry", out, NAME_SIZE))
		return;
	if (strstr(menu, "set default=\"${saved_entry}\"")) {
		grubenv_value(env, "saved_entry", out, NAME_SIZE);
		return;
	}
	while ((set = strstr(set, "set default=\"")) && set[13] == '$')
		set++;
	if (set)
		snprintf(out, NAME_SIZE, "%.*s", (int)strcspn(set + 13, "\"\n"), set + 13);
}

static bool from_grub(const struct check_facts *f, struct boot_entry *e)
{
	static const char *const dirs[] = {"/boot/grub", "/boot/grub2"};
	char wanted[NAME_SIZE], *menu = malloc(MENU_MAX), *again = malloc(MENU_MAX);
	bool found = false;

	for (size_t i = 0; menu && again && !found && i < 2; i++) {
		if (root_text(f, menu, MENU_MAX, "%s/grub.cfg", dirs[i]) <= 0)
			continue;
		strcpy(again, menu);
		grub_default(f, dirs[i], menu, wanted);
		/* What GRUB does not find it takes for the first. */
		found = grub_entry(menu, wanted, e) || grub_entry(again, "0", e);
		snprintf(e->source, sizeof e->source, "%s/grub.cfg", dirs[i]);
	}
	free(menu);
	free(again);
	return found;
}

/* ---- entries of the boot loader specification ---- */

struct entries {
	const struct check_facts *f;
	char dir[AREA_PATH]; /* without the root */
	char wanted[NAME_SIZE];
	char best[NAME_SIZE], version[NAME_SIZE]; /* file and version of the newest */
	bool exact;
};

static bool entry_version(const struct entries *s, const char *name, char version[NAME_SIZE])
{
	char text[ENTRY_MAX], *at = text, *value;
	bool linux_ = false;

	version[0] = 0;
	if (root_text(s->f, text, sizeof text, "%s/%s", s->dir, name) <= 0)
		return false;
	for (char *line; (line = strsep(&at, "\n"));) {
		if ((value = value_of(line, "version")))
			copy(version, NAME_SIZE, value);
		linux_ |= value_of(line, "linux") || value_of(line, "efi") || value_of(line, "uki");
	}
	if (!version[0])
		copy(version, NAME_SIZE, name);
	return linux_;
}

static void consider(struct entries *s, const char *name)
{
	char version[NAME_SIZE], bare[NAME_SIZE];
	size_t n = strlen(name);

	if (n < 6 || n >= NAME_SIZE || strcmp(name + n - 5, ".conf") || !entry_version(s, name, version))
		return;
	snprintf(bare, sizeof bare, "%.*s", (int)n - 5, name);
	bool exact = s->wanted[0] && (!fnmatch(s->wanted, name, 0) || !fnmatch(s->wanted, bare, 0));
	if (s->best[0] && (exact < s->exact || (exact == s->exact && strverscmp(version, s->version) <= 0)))
		return;
	s->exact = exact;
	strcpy(s->best, name);
	strcpy(s->version, version);
}

/* Older Fedoras keep the options in GRUB's environment. */
static void expand_options(const struct check_facts *f, struct boot_entry *e)
{
	char env[4096];

	if (strstr(e->options, "$kernelopts") && (root_text(f, env, sizeof env, "/boot/grub2/grubenv") > 0 ||
						  root_text(f, env, sizeof env, "/boot/grub/grubenv") > 0))
		grubenv_value(env, "kernelopts", e->options, sizeof e->options);
}

static bool read_entry(const struct entries *s, struct boot_entry *e)
{
	char text[ENTRY_MAX], *at = text, *value;

	if (!s->best[0] || root_text(s->f, text, sizeof text, "%s/%s", s->dir, s->best) <= 0)
		return false;
	if (snprintf(e->source, sizeof e->source, "%s/%s", s->dir, s->best) >= (int)sizeof e->source)
		return false;
	for (char *line; (line = strsep(&at, "\n"));) {
		line[strcspn(line, "\r")] = 0;
		if ((value = value_of(line, "linux")))
			copy(e->kernel, sizeof e->kernel, value);
		else if ((value = value_of(line, "initrd")))
			set_initrds(e, value);
		else if ((value = value_of(line, "options"))) {
			size_t n = strlen(e->options);
			snprintf(e->options + n, sizeof e->options - n, "%s%s", n ? " " : "", value);
		}
	}
	expand_options(s->f, e);
	return true;
}

/* loader.conf's default, or the entry that GRUB has saved. */
static void wanted_entry(const struct check_facts *f, const char *base, char out[NAME_SIZE])
{
	char text[4096], *at = text, *value;

	out[0] = 0;
	if (root_text(f, text, sizeof text, "%s/loader/loader.conf", base) > 0)
		for (char *line; (line = strsep(&at, "\n"));)
			if ((value = value_of(line, "default")) && *value != '@')
				copy(out, NAME_SIZE, value);
	if (!out[0] && (root_text(f, text, sizeof text, "/boot/grub2/grubenv") > 0 ||
			root_text(f, text, sizeof text, "/boot/grub/grubenv") > 0))
		grubenv_value(text, "saved_entry", out, NAME_SIZE);
}

static bool from_entries(const struct check_facts *f, struct boot_entry *e)
{
	static const char *const bases[] = {"/efi", "/boot", "/boot/efi"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
		struct entries s = {.f = f};
		struct dirent *d;

		snprintf(s.dir, sizeof s.dir, "%s/loader/entries", bases[i]);
		wanted_entry(f, bases[i], s.wanted);
		DIR *dir = root_path(f, path, "%s", s.dir) ? opendir(path) : NULL;
		while (dir && (d = readdir(dir)))
			consider(&s, d->d_name);
		if (dir)
			closedir(dir);
		if (read_entry(&s, e))
			return true;
	}
	return false;
}

/* ---- names that distributions give ---- */

static bool from_names(const struct check_facts *f, struct boot_entry *e)
{
	static const char *const around[][2] = {
		{"/boot/initrd.img-", ""}, {"/boot/initramfs-", ".img"}, {"/boot/initrd-", ""},
		{"/boot/initrd-", ".img"}, {"/lib/modules/", "/initrd"}, {"/usr/lib/modules/", "/initrd"},
	};
	static const char *const fixed[] = {"/boot/initramfs-linux.img", "/boot/initramfs-linux-lts.img",
					    "/boot/initramfs-lts", "/boot/initramfs.img", "/boot/initrd.img"};
	char path[AREA_PATH];

	for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
		snprintf(path, sizeof path, "%s%s%s", around[i][0], f->release, around[i][1]);
		if (root_has(f, "%s", path))
			add_initrd(e, path);
	}
	for (size_t i = 0; !e->initrds && i < sizeof fixed / sizeof fixed[0]; i++)
		if (root_has(f, "%s", fixed[i]))
			add_initrd(e, fixed[i]);
	return e->initrds;
}

bool boot_entry_find(const struct check_facts *f, struct boot_entry *e)
{
	memset(e, 0, sizeof *e);
	if (from_entries(f, e) || from_grub(f, e)) {
		place_files(f, e);
		return true;
	}
	memset(e, 0, sizeof *e);
	return from_names(f, e);
}

/* ---- a kernel's release ---- */

/* An x86 image: a short header in its second sector says where the text with the release lies. */
static bool release_inside(int fd, char *out, size_t size)
{
	uint8_t h[16];
	char text[128];

	if (pread(fd, h, sizeof h, 0x202) != sizeof h || memcmp(h, "HdrS", 4))
		return false;
	uint16_t at = get_le16(h + (0x20e - 0x202));
	ssize_t n = at ? pread(fd, text, sizeof text - 1, at + 0x200) : 0;
	if (n <= 0)
		return false;
	text[n] = 0;
	text[strcspn(text, " ")] = 0;
	copy(out, size, text);
	return text[0];
}

bool kernel_release(const char *path, char *out, size_t size)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *dash = strchr(name, '-');
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool found = fd >= 0 && release_inside(fd, out, size);

	if (fd >= 0)
		close(fd);
	if (found)
		return true;
	/* "vmlinuz-6.1.0-18-amd64", but not "vmlinuz-linux". */
	copy(out, size, dash && isdigit((unsigned char)dash[1]) ? dash + 1 : "");
	return out[0];
}
