/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pages to save: a file's, or made up; and a place for those loaded. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POOL_PAGES = 4096, SINK_BYTES = 64 << 20 };

static void *take(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- a file ---- */

static int read_all(int fd, uint8_t *to, uint64_t bytes)
{
	while (bytes) {
		ssize_t got = read(fd, to, bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fault(E_IO, got ? errno : ENODATA, "cannot be read");
		to += got;
		bytes -= (uint64_t)got;
	}
	return E_OK;
}

static int read_file(struct input *in, int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return fault(E_IO, errno, "cannot be read");
	if (!S_ISREG(st.st_mode) || !st.st_size || st.st_size % in->page_size)
		return fault(E_USAGE, 0, "it is no file of whole pages of %u bytes", in->page_size);
	in->bytes = in->size = (uint64_t)st.st_size;
	in->memory = take(in->size);
	if (!in->memory)
		return fault(E_MEMORY, errno, "cannot hold its %llu MiB", (unsigned long long)(in->size >> 20));
	return read_all(fd, in->memory, in->size);
}

int input_open_file(struct input *in, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	*in = (struct input){.name = path, .page_size = (uint32_t)sysconf(_SC_PAGESIZE)};
	int r = read_file(in, fd);
	if (fd >= 0)
		close(fd);
	return r;
}

/* ---- made up ---- */

/* splitmix64: any counter gives evenly spread bits. */
static uint64_t spread(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static void random_page(uint8_t *page, uint32_t n, uint64_t seed)
{
	for (uint32_t i = 0; i < n; i += 8)
		put_le64(page + i, spread(seed + i));
}

static void text_page(uint8_t *page, uint32_t n, uint64_t seed)
{
	static const char *const words[] = {
		"memory ", "the ",   "of ",	"page ",  "and ",    "a ",     "kernel ", "return ",
		"to ",	   "if ",    "struct ", "size ",  "error: ", "const ", "in ",	  "value ",
		"is ",	   "= ",     "int ",	"0x",	  "NULL;\n", "char *", "<div>",	  "</div>\n",
		"width ",  "color ", "for ",	"name, ", "with ",   "list ",  "open ",	  "that ",
	};

	for (uint32_t i = 0; i < n;) {
		uint64_t r = spread(seed++);
		const char *w = words[r % 32];
		uint32_t len = (uint32_t)strlen(w);

		for (uint32_t k = 0; k < len && i < n; k++)
			page[i++] = (uint8_t)w[k];
		/* Now and then something that no dictionary holds. */
		for (r >>= 8; (r & 3) == 0 && i < n; r = r >> 2 | 1ull << 62)
			page[i++] = (uint8_t)('a' + (r >> 40) % 26);
	}
}

/* Objects on a heap: addresses near each other, small numbers, zeros. */
static void pointer_page(uint8_t *page, uint32_t n, uint64_t seed)
{
	uint64_t heap = 0x00007f0000000000 | (spread(seed) & 0xffff000000);

	for (uint32_t i = 0; i < n; i += 8) {
		uint64_t r = spread(seed + i + 1), word = 0;

		if (r % 8 < 3)
			word = heap + (r >> 8 & 0xfff0);
		else if (r % 8 < 5)
			word = r >> 8 & 0xff;
		put_le64(page + i, word);
	}
}

/* Out of a hundred pages 10 are zero, 35 text, 42 pointers and 13 random: what real ones come to. */
static void make_page(uint8_t *page, uint32_t n, uint64_t seed)
{
	unsigned which = (unsigned)(spread(seed) % 100);

	seed = spread(seed ^ 0x5eed);
	if (which < 10)
		memset(page, 0, n);
	else if (which < 45)
		text_page(page, n, seed);
	else if (which < 87)
		pointer_page(page, n, seed);
	else
		random_page(page, n, seed);
}

int input_open_synthetic(struct input *in, uint64_t bytes, uint64_t seed, enum synthetic_kind kind)
{
	*in = (struct input){.name = kind == SYNTHETIC_ZERO ? "synthetic zeros" : "synthetic mix",
			     .page_size = (uint32_t)sysconf(_SC_PAGESIZE),
			     .synthetic = true,
			     .seed = seed};
	if (!bytes || bytes % in->page_size)
		return fault(E_USAGE, 0, "%llu bytes are not whole pages of %u bytes", (unsigned long long)bytes,
			     in->page_size);
	in->bytes = bytes;
	in->size = (uint64_t)POOL_PAGES * in->page_size;
	in->memory = take(in->size);
	if (!in->memory)
		return fault(E_MEMORY, errno, "cannot hold %llu MiB", (unsigned long long)(in->size >> 20));
	for (uint64_t i = 0; i < POOL_PAGES && kind == SYNTHETIC_MIX; i++)
		make_page(in->memory + i * in->page_size, in->page_size, spread(seed + i));
	return E_OK;
}

void input_close(struct input *in)
{
	if (in->memory)
		munmap(in->memory, in->size);
	in->memory = NULL;
}

/* ---- the source ---- */

/* A page of the pool, in an order of its own each time round. */
static void draw(const struct input *in, uint8_t *buf, uint32_t n, uint64_t at)
{
	for (; n; n -= in->page_size, buf += in->page_size, at += in->page_size) {
		uint64_t from = spread(in->seed ^ at / in->page_size) % POOL_PAGES;

		memcpy(buf, in->memory + from * in->page_size, in->page_size);
	}
}

static int source_read(struct page_source *source, uint8_t *buf, uint32_t n)
{
	struct input_source *s = (struct input_source *)source;
	uint64_t begin = clock_ns();

	if (s->input->synthetic)
		draw(s->input, buf, n, s->at);
	else
		memcpy(buf, s->input->memory + s->at, n);
	s->at += n;
	s->ns += clock_ns() - begin;
	return E_OK;
}

void input_source_open(struct input_source *s, const struct input *in)
{
	*s = (struct input_source){.source = {source_read}, .input = in};
}

/* ---- the sink ---- */

static int sink_write(struct page_sink *sink, const uint8_t *buf, uint32_t n)
{
	struct copy_sink *s = (struct copy_sink *)sink;
	uint64_t begin = clock_ns();

	if (n > s->size - s->at)
		s->at = 0;
	memcpy(s->memory + s->at, buf, n);
	s->at += n;
	s->ns += clock_ns() - begin;
	return E_OK;
}

int copy_sink_open(struct copy_sink *s)
{
	*s = (struct copy_sink){.sink = {sink_write}, .size = SINK_BYTES};
	s->memory = take(s->size);
	return s->memory ? E_OK : fault(E_MEMORY, errno, "cannot hold %d MiB", SINK_BYTES >> 20);
}

void copy_sink_close(struct copy_sink *s)
{
	if (s->memory)
		munmap(s->memory, s->size);
	s->memory = NULL;
}
