/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is the resume step inside the initramfs that boots next, and are its copies those of the system?  They are compared
 * byte by byte.  An archive that cannot be read here is listed by its maker's own tool, and compared by date only.
 */
#include "system/check-parts.h"

#include "base/clock.h"
#include "base/error.h"
#include "system/machine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECONDS = 30, LIBRARIES = 256, NEEDED = 32, SCRIPT_MAX = 64 << 10, TEXT_MAX = 256 << 10, CONF_MAX = 64 << 10 };

enum copy { COPY_SAME, COPY_OTHER, COPY_ALONE /* the system has no such file */ };

struct library {
	char name[128];	  /* without folders */
	char target[128]; /* of a link; "" for a file */
	char path[AREA_PATH];
	enum copy copy;
};

/* What was seen in the initramfs. */
struct contents {
	const struct check_facts *f;
	char program[AREA_PATH]; /* "usr/lib/dormouse/resume"; "" when it is not there */
	enum copy program_copy;
	char foreign[AREA_PATH]; /* a resume that is not ours */
	char needed[NEEDED][128];
	unsigned needed_count;
	struct library library[LIBRARIES];
	unsigned library_count;
	bool conf_seen;
	enum copy conf_copy;
	bool other_device; /* the two configurations name different places */
	char scripts[TEXT_MAX];
	size_t script_bytes; /* of small texts that mention a resume */
};

/* ---- comparing ---- */

static enum copy compare_with(const char *path, const uint8_t *data, uint64_t size)
{
	struct stat st;
	enum copy result = COPY_OTHER;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		result = COPY_ALONE;
	} else if ((uint64_t)st.st_size == size) {
		void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED && !memcmp(map, data, (size_t)size))
			result = COPY_SAME;
		if (map != MAP_FAILED)
			munmap(map, (size_t)size);
	}
	if (fd >= 0)
		close(fd);
	return result;
}

static enum copy compare_with_root(const struct check_facts *f, const char *name, const struct archive_file *a)
{
	char path[PATH_MAX];

	if (!root_path(f, path, "%s%s", name[0] == '/' ? "" : "/", name))
		return COPY_ALONE;
	return compare_with(path, a->data, a->size);
}

/* The program may lie elsewhere in the initramfs, and be the static one. */
static enum copy compare_program(const struct check_facts *f, const struct archive_file *a)
{
	char fixed[AREA_PATH];
	enum copy best = compare_with_root(f, f->program, a), here;

	snprintf(fixed, sizeof fixed, "%s-static", f->program);
	here = compare_with_root(f, fixed, a);
	if (best != COPY_SAME && here != COPY_ALONE)
		best = here;
	here = compare_with_root(f, a->name, a);
	return best != COPY_SAME && here != COPY_ALONE ? here : best;
}

/* ---- configurations ---- */

/* The last line of @text with this key, blanks taken out. */
static void last_setting(const char *text, const char *key, char out[256])
{
	size_t n;

	out[0] = 0;
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		char bare[256];
		n = 0;
		for (const char *s = line; *s && *s != '\n' && *s != '#' && n + 1 < sizeof bare; s++)
			if (!isspace((unsigned char)*s))
				bare[n++] = *s;
		bare[n] = 0;
		if (!strncasecmp(bare, key, strlen(key)))
			strcpy(out, bare);
	}
}

static bool same_setting(const char *one, const char *other, const char *key)
{
	char a[256], b[256];

	last_setting(one, key, a);
	last_setting(other, key, b);
	return !strcmp(a, b);
}

/* The value of a setting as last_setting() has it: behind the `=', without quotes. */
static const char *bare_value(char setting[256])
{
	char *value = strchr(setting, '=');

	if (!value)
		return "";
	if (value[1] == '"')
		value++;
	value[1 + strcspn(value + 1, "\"")] = 0;
	return value + 1;
}

/* The hooks write a partition and an offset into the copy where the configuration names a swap file, or nothing. */
static bool names_target(const struct check_facts *f, const char *own, const char *copy)
{
	char setting[256], number[256];
	dev_t device;

	last_setting(copy, "resumedevice=", setting);
	last_setting(copy, "resumeoffset=", number);
	const char *spec = bare_value(setting);
	if (!f->area || !spec[0])
		return same_setting(own, copy, "resumedevice=") && same_setting(own, copy, "resumeoffset=");
	if (f->resolve(spec, &device) != E_OK) {
		fault_clear();
		return false;
	}
	return device == f->area->device && strtoull(bare_value(number), NULL, 10) == f->area->start / f->page_size;
}

static bool names_place(const char *line, const char *end)
{
	char text[256], setting[256];

	snprintf(text, sizeof text, "%.*s", (int)(end - line < 255 ? end - line : 255), line);
	last_setting(text, "resumedevice=", setting);
	if (!setting[0])
		last_setting(text, "resumeoffset=", setting);
	return setting[0];
}

/* Takes the lines out, in place, that say where the image is, and the end of the last line. */
static void drop_places(char *text)
{
	char *to = text;

	for (char *line = text; *line;) {
		size_t n = strcspn(line, "\n");
		n += line[n] == '\n';
		if (!names_place(line, line + n)) {
			memmove(to, line, n);
			to += n;
		}
		line += n;
	}
	to -= to > text && to[-1] == '\n';
	*to = 0;
}

static void see_conf(struct contents *c, const struct archive_file *a)
{
	char *own = malloc(CONF_MAX), *copy = malloc(CONF_MAX);

	c->conf_seen = true;
	c->conf_copy = compare_with_root(c->f, c->f->conf_file, a);
	if (own && copy && root_text(c->f, own, CONF_MAX, "%s", c->f->conf_file) >= 0) {
		snprintf(copy, CONF_MAX, "%.*s", (int)a->size, (const char *)a->data);
		c->other_device = !names_target(c->f, own, copy);
		drop_places(own);
		drop_places(copy);
		if (c->conf_copy == COPY_OTHER && !strcmp(own, copy))
			c->conf_copy = COPY_SAME;
	}
	free(own);
	free(copy);
}

/* ---- what is looked at ---- */

static const char *base_name(const char *name)
{
	return strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
}

/* "resume", "resume-static", "systemd-hibernate-resume", but no unit or module. */
static bool is_program(const char *base)
{
	return strstr(base, "resume") && !strchr(base, '.');
}

static bool is_library(const char *base)
{
	return !strncmp(base, "lib", 3) && strstr(base, ".so");
}

static bool is_conf(const struct contents *c, const char *name)
{
	return c->f->conf_file[0] && !strcmp(name, c->f->conf_file + 1);
}

static bool wants(void *ctx, const struct archive_file *a)
{
	const char *base = base_name(a->name);

	if (S_ISLNK(a->mode))
		return is_library(base);
	if (!S_ISREG(a->mode))
		return false;
	return is_program(base) || is_library(base) || is_conf(ctx, a->name) || a->size <= SCRIPT_MAX;
}

static void need(void *ctx, const char *library)
{
	struct contents *c = ctx;

	if (c->needed_count < NEEDED && strlen(library) < sizeof c->needed[0])
		strcpy(c->needed[c->needed_count++], library);
}

static void see_program(struct contents *c, const struct archive_file *a)
{
	static const char words[] = "(Dormouse)"; /* what --version says */

	if (!memmem(a->data, (size_t)a->size, words, sizeof words - 1)) {
		/* A script of that name is not it, but may well run it. */
		if (!memcmp(a->data, "\177ELF", 4))
			snprintf(c->foreign, sizeof c->foreign, "%.255s", a->name);
		return;
	}
	enum copy copy = compare_program(c->f, a);
	if (c->program[0] && copy != COPY_SAME)
		return;
	snprintf(c->program, sizeof c->program, "%.255s", a->name);
	c->program_copy = copy;
	c->needed_count = 0;
	elf_needed(a->data, (size_t)a->size, need, c);
}

static void see_library(struct contents *c, const struct archive_file *a)
{
	const char *base = base_name(a->name);

	if (c->library_count == LIBRARIES)
		return;
	struct library *l = &c->library[c->library_count++];
	snprintf(l->name, sizeof l->name, "%.127s", base);
	snprintf(l->path, sizeof l->path, "%.255s", a->name);
	if (S_ISLNK(a->mode))
		snprintf(l->target, sizeof l->target, "%.127s", base_name((const char *)a->data));
	else
		l->copy = compare_with_root(c->f, a->name, a);
}

static void see_text(struct contents *c, const struct archive_file *a)
{
	if (memchr(a->data, 0, (size_t)a->size) || !strstr((const char *)a->data, "resume") ||
	    a->size + 1 > sizeof c->scripts - 1 - c->script_bytes)
		return;
	memcpy(c->scripts + c->script_bytes, a->data, (size_t)a->size);
	c->script_bytes += (size_t)a->size;
	c->scripts[c->script_bytes++] = '\n';
	c->scripts[c->script_bytes] = 0;
}

static void see(void *ctx, const struct archive_file *a)
{
	struct contents *c = ctx;
	const char *base = base_name(a->name);

	if (is_library(base))
		see_library(c, a);
	else if (is_conf(c, a->name))
		see_conf(c, a);
	else {
		if (S_ISREG(a->mode) && is_program(base) && a->size >= 4)
			see_program(c, a);
		if (S_ISREG(a->mode) && a->size <= SCRIPT_MAX)
			see_text(c, a);
	}
}

/* ---- judging ---- */

/* How this system makes its initramfs anew. */
static const char *remake(const struct check_facts *f)
{
	static const char *const tools[][2] = {
		{"update-initramfs", "update-initramfs -u"},
		{"mkinitcpio", "mkinitcpio -P"},
		{"dracut", "dracut -f"},
		{"mkinitrd", "mkinitrd"},
	};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
		if (program_find(f->root, tools[i][0], path))
			return tools[i][1];
	return "make the initramfs anew";
}

static const struct library *find_library(const struct contents *c, const char *name, unsigned depth)
{
	for (unsigned i = 0; i < c->library_count; i++)
		if (!strcmp(c->library[i].name, name) && !c->library[i].target[0])
			return &c->library[i];
	for (unsigned i = 0; depth < 4 && i < c->library_count; i++)
		if (!strcmp(c->library[i].name, name) && strcmp(c->library[i].target, name))
			return find_library(c, c->library[i].target, depth + 1);
	return NULL;
}

/* The number of those that are as installed. */
static unsigned judge_libraries(const struct contents *c, const char *initrd, struct finding *out)
{
	unsigned same = 0;

	for (unsigned i = 0; i < c->needed_count; i++) {
		const struct library *l = find_library(c, c->needed[i], 0);
		same += l && l->copy == COPY_SAME;
		if (!l)
			found_fail(out, E_UNSAFE, "%.100s has resume in it, but not %.60s, which that needs", initrd,
				   c->needed[i]);
		else if (l->copy == COPY_OTHER)
			found_warning(out, "the copy of %.100s in %.100s is not the system's", l->path, initrd);
		else
			continue;
		found_cure(out, "%s", remake(c->f));
	}
	return same;
}

static void judge_program(const struct contents *c, const char *initrd, struct finding *out)
{
	if (c->program_copy == COPY_OTHER) {
		found_fail(out, E_UNSAFE, "%.100s in %.100s is not the one that is installed (%.100s)", c->program,
			   initrd, c->f->program);
		found_cure(out, "%s", remake(c->f));
	} else if (c->program_copy == COPY_ALONE) {
		found_warning(out, "%.100s is in %.100s, but there is no %.100s to compare it with", c->program, initrd,
			      c->f->program);
		found_cure(out, "install Dormouse, and %s", remake(c->f));
	}
}

/* Is the program's path in any script?  With /bin a link to /usr/bin, either name will do. */
static bool is_called(const struct contents *c)
{
	const char *name = c->program;

	if (!strncmp(name, "usr/", 4))
		name += 4;
	return strstr(c->scripts, name);
}

/* resume= goes before the configuration; another row looks at it. */
static bool told_by_line(const struct check_facts *f)
{
	struct boot_line b = {0};
	char line[8192];

	if (root_text(f, line, sizeof line, "/proc/cmdline") <= 0 || boot_line_parse(line, &b) != E_OK)
		fault_clear();
	return b.resume[0];
}

static void judge_conf(const struct contents *c, const char *initrd, struct finding *out)
{
	const char *conf = c->f->conf_file;

	if (c->conf_seen && c->conf_copy != COPY_ALONE && c->other_device)
		found_fail(out, E_UNSAFE, "the copy of %.100s in %.100s names another resume device or offset", conf,
			   initrd);
	else if (c->conf_seen && c->conf_copy == COPY_OTHER)
		found_warning(out, "the copy of %.100s in %.100s is an older one", conf, initrd);
	else if (!c->conf_seen && names_file(c->f->conf_device) && !told_by_line(c->f))
		found_fail(out, E_UNSAFE,
			   "%.100s has no copy of %.100s: the next boot does not learn where %.100s lies", initrd, conf,
			   c->f->conf_device);
	else if (!c->conf_seen && c->f->conf_device[0])
		found_warning(out,
			      "%.100s has no copy of %.100s: the next boot knows only what resume= and the script say",
			      initrd, conf);
	else
		return;
	found_cure(out, "%s", remake(c->f));
}

static void judge(const struct contents *c, const char *initrd, struct finding *out)
{
	if (!c->program[0]) {
		found_fail(out, E_UNSAFE,
			   "%.100s has no resume of Dormouse in it%s%.100s: the next boot would be a cold one", initrd,
			   c->foreign[0] ? ", only another program's " : "", c->foreign);
		found_cure(out,
			   "put resume into the initramfs, before any file system is mounted (README, Install), "
			   "and %s",
			   remake(c->f));
		return;
	}
	judge_program(c, initrd, out);
	unsigned same = judge_libraries(c, initrd, out);
	judge_conf(c, initrd, out);
	if (!is_called(c)) {
		found_warning(out, "%.100s is in %.100s, but no script there seems to run it", c->program, initrd);
		found_cure(out,
			   "let a script of the initramfs run it before any file system is mounted (README, "
			   "Install), and %s",
			   remake(c->f));
	}
	found_ok(out, "%.100s has %.100s in it, compared byte by byte: program, %u libraries%s as installed", initrd,
		 c->program, same, c->conf_seen ? " and configuration" : "");
}

/* ---- by the maker's own tool, and by date ---- */

/* A line of a listing: a name alone, or `ls -l', perhaps with a link's target. */
static bool names_program(char *line)
{
	char *arrow = strstr(line, " -> ");

	if (arrow)
		*arrow = 0;
	char *name = strrchr(line, ' ') ? strrchr(line, ' ') + 1 : line;
	return is_program(base_name(name)) && strstr(name, "dormouse/");
}

/* Looks through what the tool prints, line by line. */
static bool read_listing(int fd, uint64_t end, bool *found)
{
	char text[8192];
	size_t n = 0;
	ssize_t got = -1;

	while (wait_readable(fd, end) && (got = read(fd, text + n, sizeof text - 1 - n)) > 0) {
		char *line = text, *stop;
		n += (size_t)got;
		text[n] = 0;
		while ((stop = strchr(line, '\n'))) {
			*stop = 0;
			*found |= names_program(line);
			line = stop + 1;
		}
		n = strlen(line);
		if (n == sizeof text - 1)
			n = 0; /* no name is as long */
		memmove(text, line, n);
		got = -1;
	}
	return got == 0;
}

static int list_contents(char *const argv[], uint64_t end, bool *found)
{
	pid_t child;
	int fd = program_start(argv, -1, &child);

	if (fd < 0)
		return E_UNSUPPORTED;
	bool whole = read_listing(fd, end, found);
	close(fd);
	return program_end(child, !whole) && whole ? E_OK : E_IO;
}

static bool newer(const struct check_facts *f, const char *file, const char *initrd)
{
	char a[PATH_MAX], b[PATH_MAX];
	struct stat x, y;

	return file[0] && root_path(f, a, "%s", file) && root_path(f, b, "%s", initrd) && !stat(a, &x) &&
	       !stat(b, &y) && x.st_mtime > y.st_mtime;
}

static void judge_listing(const struct check_facts *f, const char *tool, const char *initrd, bool found,
			  struct finding *out)
{
	if (!found) {
		found_fail(out, E_UNSAFE, "%s finds no dormouse/resume in %.100s: the next boot would be a cold one",
			   tool, initrd);
		found_cure(out, "put resume into the initramfs (README, Install), and %s", remake(f));
	} else if (newer(f, f->program, initrd) || newer(f, f->conf_file, initrd)) {
		found_warning(out, "%.100s is older than %.100s (by date; %s only lists it)", initrd,
			      newer(f, f->program, initrd) ? f->program : f->conf_file, tool);
		found_cure(out, "%s", remake(f));
	} else
		found_ok(out, "%s finds resume in %.100s, which is newer than program and configuration (by date)",
			 tool, initrd);
}

/* False when no tool is there that can. */
static bool by_listing(const struct check_facts *f, const char *initrd, uint64_t end, struct finding *out)
{
	static const char *const tools[] = {"lsinitramfs", "lsinitcpio", "lsinitrd"};
	char tool[PATH_MAX], path[PATH_MAX];
	char *const argv[] = {tool, path, NULL};

	if (!root_path(f, path, "%s", initrd))
		return false;
	for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
		bool found = false;
		if (!program_find(f->root, tools[i], tool) || list_contents(argv, end, &found) != E_OK)
			continue;
		judge_listing(f, tools[i], initrd, found, out);
		return true;
	}
	return false;
}

/* ---- the check ---- */

static int read_all(struct contents *c, const struct boot_entry *e, uint64_t end)
{
	struct archive_reader r = {.wants = wants, .visit = see, .ctx = c, .root = c->f->root, .end = end};
	char path[PATH_MAX];
	int code = E_OK;

	for (unsigned i = 0; code == E_OK && i < e->initrds; i++)
		if (root_path(c->f, path, "%s", e->initrd[i]))
			code = archive_read(&r, path);
	return code;
}

void check_initramfs(const struct check_facts *f, struct finding *out)
{
	uint64_t end = clock_ns() + SECONDS * UINT64_C(1000000000);
	struct contents *c = calloc(1, sizeof *c);
	struct boot_entry e;
	const char *initrd;

	if (!c || !boot_entry_find(f, &e) || !e.initrds) {
		found_warning(out,
			      "it is not known which initramfs boots next: there is no boot loader entry, and none in "
			      "/boot for %.60s",
			      f->release);
		found_cure(out, "make sure yourself that resume is in it (README, Install)");
		free(c);
		return;
	}
	c->f = f;
	initrd = e.initrd[e.initrds - 1];
	if (read_all(c, &e, end) == E_OK)
		judge(c, initrd, out);
	else if (!by_listing(f, initrd, end, out)) {
		found_warning(out, "%.100s %.200s: what is in it is not known", initrd, fault_text());
		found_cure(out, "make sure yourself that resume is in it (README, Install)");
	}
	fault_clear();
	free(c);
}
