/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads an initramfs as the kernel does: cpio archives one after the other, the last one usually compressed.  Its
 * compressor's own program expands it, so that none has to be linked in; nothing is unpacked to disk.
 */
#include "system/check-parts.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, HEADER = 110, NAME_MAX_ = 4096, WANTED_MAX = 64 << 20, MAGIC = 6 };

struct input {
	const struct archive_reader *r;
	int fd, file; /* fd: where bytes come from, the file itself or a program's output */
	pid_t child;
	uint64_t taken; /* bytes of the file, as long as nothing expands it */
	size_t at, filled;
	uint8_t buffer[BUFFER];
};

/* ---- bytes ---- */

/* More bytes behind those that are there; false at the end or in error, which *code tells apart. */
static bool more(struct input *in, int *code)
{
	memmove(in->buffer, in->buffer + in->at, in->filled - in->at);
	in->filled -= in->at;
	in->at = 0;
	if (!wait_readable(in->fd, in->r->end)) {
		*code = fault(E_IO, 0, "took too long");
		return false;
	}
	ssize_t n = read(in->fd, in->buffer + in->filled, BUFFER - in->filled);
	if (n < 0)
		*code = fault(E_IO, errno, "cannot be read");
	if (n > 0)
		in->filled += (size_t)n;
	return n > 0;
}

/* Takes @n bytes to @out, or drops them when it is NULL. */
static int take(struct input *in, uint8_t *out, uint64_t n)
{
	int code = E_CORRUPT;

	in->taken += n;
	while (n) {
		if (in->at == in->filled && !more(in, &code))
			return code;
		size_t part = (size_t)min_u64(n, in->filled - in->at);
		if (out) {
			memcpy(out, in->buffer + in->at, part);
			out += part;
		}
		in->at += part;
		n -= part;
	}
	return E_OK;
}

/* At least @n bytes in the buffer, or all there are: their number. */
static size_t look(struct input *in, size_t n)
{
	int code;

	while (in->filled - in->at < n && more(in, &code))
		;
	return in->filled - in->at;
}

/* ---- compressors ---- */

static const struct {
	const char *magic;
	uint8_t length;
	const char *program, *option;
} compressors[] = {
	{"\x1f\x8b", 2, "gzip", "-dc"},
	{"\x28\xb5\x2f\xfd", 4, "zstd", "-dcq"},
	{"\xfd"
	 "7zXZ",
	 5, "xz", "-dc"},
	{"\x02\x21\x4c\x18", 4, "lz4", "-dc"},
	{"BZh", 3, "bzip2", "-dc"},
	{"\x5d\x00\x00", 3, "xz", "-dc"},
	{"\x89"
	 "LZO",
	 4, "lzop", "-dc"},
};

static int expand(struct input *in, const char *name, const char *option)
{
	char path[PATH_MAX];
	char *const argv[] = {path, (char *)option, NULL};

	if (in->child)
		return fault(E_UNSUPPORTED, 0, "is compressed twice");
	if (!program_find(in->r->root, name, path))
		return fault(E_UNSUPPORTED, 0, "is compressed, and %s is not installed", name);
	if (lseek(in->file, (off_t)in->taken, SEEK_SET) < 0)
		return fault(E_IO, errno, "cannot be read");
	in->fd = program_start(argv, in->file, &in->child);
	in->at = in->filled = 0;
	return in->fd < 0 ? fault(E_IO, errno, "cannot start %s", path) : E_OK;
}

/* Zeros may stand between archives. */
static int skip_zeros(struct input *in)
{
	int code = E_OK;

	while (code == E_OK && look(in, 1) && !in->buffer[in->at])
		code = take(in, NULL, 1);
	return code;
}

/* E_OK: an archive begins here, E_NOIMAGE: this is the end. */
static int begin(struct input *in)
{
	int code = skip_zeros(in);
	size_t n = look(in, MAGIC);
	const uint8_t *at = in->buffer + in->at;

	if (code != E_OK)
		return code;
	if (!n)
		return E_NOIMAGE;
	if (n == MAGIC || (n > MAGIC && (!memcmp(at, "070701", 6) || !memcmp(at, "070702", 6))))
		return !memcmp(at, "07070", 5) ? E_OK : fault(E_UNSUPPORTED, 0, "holds something that is no archive");
	for (size_t i = 0; i < sizeof compressors / sizeof compressors[0]; i++)
		if (n >= compressors[i].length && !memcmp(at, compressors[i].magic, compressors[i].length)) {
			code = expand(in, compressors[i].program, compressors[i].option);
			return code == E_OK ? begin(in) : code;
		}
	return fault(E_UNSUPPORTED, 0, "holds something that is no archive");
}

/* ---- entries ---- */

static uint32_t hex8(const uint8_t *p)
{
	char text[9] = {0};

	memcpy(text, p, 8);
	return (uint32_t)strtoul(text, NULL, 16);
}

static int take_data(struct input *in, struct archive_file *a)
{
	const struct archive_reader *r = in->r;

	if (!a->size || a->size > WANTED_MAX || !r->wants(r->ctx, a))
		return take(in, NULL, round_up(a->size, 4));
	uint8_t *data = malloc((size_t)a->size + 4);
	if (!data)
		return fault(E_MEMORY, 0, "no memory for %.100s", a->name);
	int code = take(in, data, round_up(a->size, 4));
	if (code == E_OK) {
		data[a->size] = 0;
		a->data = data;
		r->visit(r->ctx, a);
	}
	free(data);
	return code;
}

/* One entry; *last after the one that ends the archive. */
static int take_entry(struct input *in, char name[NAME_MAX_], bool *last)
{
	uint8_t h[HEADER];
	int code = take(in, h, HEADER);

	if (code != E_OK)
		return code;
	if (memcmp(h, "070701", 6) && memcmp(h, "070702", 6))
		return fault(E_CORRUPT, 0, "is damaged");
	struct archive_file a = {.name = name, .mode = hex8(h + 14), .size = hex8(h + 54)};
	uint32_t length = hex8(h + 94);
	if (!length || length >= NAME_MAX_ - 4)
		return fault(E_CORRUPT, 0, "is damaged");
	/* Header and name together are a multiple of four. */
	code = take(in, (uint8_t *)name, round_up(HEADER + length, 4) - HEADER);
	if (code != E_OK)
		return code;
	name[length] = 0;
	*last = !strcmp(name, "TRAILER!!!");
	if (!strncmp(name, "./", 2))
		a.name += 2;
	a.name += strspn(a.name, "/");
	return take_data(in, &a);
}

static int read_archives(struct input *in)
{
	char name[NAME_MAX_];
	bool last;
	int code;

	while ((code = begin(in)) == E_OK)
		for (last = false; code == E_OK && !last;)
			code = take_entry(in, name, &last);
	return code == E_NOIMAGE ? E_OK : code;
}

int archive_read(const struct archive_reader *r, const char *path)
{
	struct input *in = calloc(1, sizeof *in);
	int code = E_MEMORY;

	if (!in)
		return fault(code, 0, "no memory to read %.100s", path);
	in->r = r;
	in->file = in->fd = open(path, O_RDONLY | O_CLOEXEC);
	code = in->file < 0 ? fault(E_IO, errno, "cannot be opened") : read_archives(in);
	if (in->child) {
		if (in->fd >= 0)
			close(in->fd);
		if (!program_end(in->child, code != E_OK) && code == E_OK)
			code = fault(E_CORRUPT, 0, "cannot be expanded to its end");
	}
	if (in->file >= 0)
		close(in->file);
	free(in);
	if (code == E_CORRUPT)
		fault(code, 0, "ends too early");
	return code;
}

/* ---- ELF ---- */

struct elf {
	const uint8_t *data;
	size_t size;
	Elf64_Ehdr header;
};

static bool elf_get(const struct elf *e, uint64_t at, void *out, size_t n)
{
	if (at > e->size || n > e->size - at)
		return false;
	memcpy(out, e->data + at, n);
	return true;
}

static bool segment(const struct elf *e, unsigned i, Elf64_Phdr *p)
{
	return i < e->header.e_phnum && elf_get(e, e->header.e_phoff + (uint64_t)i * sizeof *p, p, sizeof *p);
}

/* Where in the file the address @a is. */
static bool elf_offset(const struct elf *e, uint64_t a, uint64_t *out)
{
	Elf64_Phdr p;

	for (unsigned i = 0; segment(e, i, &p); i++)
		if (p.p_type == PT_LOAD && a >= p.p_vaddr && a - p.p_vaddr < p.p_filesz) {
			*out = a - p.p_vaddr + p.p_offset;
			return true;
		}
	return false;
}

static bool dynamic(const struct elf *e, const Elf64_Phdr *p, uint64_t strings,
		    void (*visit)(void *ctx, const char *library), void *ctx, uint64_t *found)
{
	Elf64_Dyn d;

	for (uint64_t at = 0; at + sizeof d <= p->p_filesz; at += sizeof d) {
		if (!elf_get(e, p->p_offset + at, &d, sizeof d))
			return false;
		if (d.d_tag == DT_STRTAB)
			*found = d.d_un.d_ptr;
		if (d.d_tag != DT_NEEDED || !visit)
			continue;
		uint64_t name = strings + d.d_un.d_val;
		if (name >= e->size || !memchr(e->data + name, 0, e->size - name))
			return false;
		visit(ctx, (const char *)e->data + name);
	}
	return true;
}

bool elf_needed(const uint8_t *data, size_t size, void (*visit)(void *ctx, const char *library), void *ctx)
{
	struct elf e = {.data = data, .size = size};
	uint64_t address = 0, strings = 0;
	Elf64_Phdr p;

	if (!elf_get(&e, 0, &e.header, sizeof e.header) || memcmp(e.header.e_ident, ELFMAG, SELFMAG) ||
	    e.header.e_ident[EI_CLASS] != ELFCLASS64 || e.header.e_phentsize != sizeof p)
		return false;
	for (unsigned i = 0; segment(&e, i, &p); i++) {
		if (p.p_type != PT_DYNAMIC)
			continue;
		if (!dynamic(&e, &p, 0, NULL, NULL, &address) || !elf_offset(&e, address, &strings))
			return false;
		return dynamic(&e, &p, strings, visit, ctx, &address);
	}
	return true; /* static: it asks for none */
}
