/* SPDX-License-Identifier: GPL-2.0-or-later */
/* s2image: looks into images, takes them apart and makes them, with the very code that saves and loads. */
#include <config.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "image/image.h"
#include "image/load.h"
#include "image/save.h"
#include "image/seal.h"
#include "system/key-file.h"
#include "system/machine.h"
#include "tools/config.h"
#include "tools/secret.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SWAP_VERSION = 1024, SWAP_LAST_PAGE = 1028, SWAP_UUID = 1036 };

static struct job {
	struct config conf;
	bool json, destroy, reproducible, adapt, encrypt;
	int passphrase_fd; /* -1: the terminal */
	const char *key_file, *public_key;
	const struct cipher *cipher;
	uint64_t offset; /* pages of this machine */
	uint64_t block_pages;
	struct target target;
	struct image image;
	struct arena arena;
	struct seal seal;
	uint8_t *scratch;
} job = {.passphrase_fd = -1};

static void usage(FILE *to)
{
	fputs("Usage: s2image [OPTION]... COMMAND FILE...\n"
	      "Look into hibernation images on devices or in files.\n\n"
	      "  info FILE           what stands there\n"
	      "  verify FILE         read all of it and check every byte\n"
	      "  unpack FILE RAW     the page stream, as the kernel gave it\n"
	      "  pack RAW FILE       an image from a page stream, in a swap area or a new file\n"
	      "  discard FILE        give the image up: the swap signature back\n\n"
	      "  -o, --offset PAGES        where the swap area begins on the device\n"
	      "      --json                info as JSON\n"
	      "  -c, --compressor CODEC    none, lzo, lz4[:N] (default), zstd[:N], or auto:\n"
	      "                            chosen block by block from how fast FILE takes them\n"
	      "  -t, --threads N           threads, 0 = none beside the main one\n"
	      "      --block-pages N       pages in a block (default 256 KiB)\n"
	      "      --reproducible        the same bytes each time: no times, ids or names\n"
	      "      --destroy             write although something else is on FILE\n"
	      "  Sealed images:\n"
	      "      --passphrase-fd N     read the passphrase from descriptor N instead of asking\n"
	      "      --key-file FILE       the key file that opens the image, or seals it\n"
	      "      --encrypt             pack: seal the image, with a passphrase or for a key\n"
	      "      --public-key FILE     pack: the machine's key pair to seal it for\n"
	      "      --cipher CIPHER       aes-256-ocb, aes-256-gcm, chacha20-poly1305\n\n"
	      "  -v, --verbose  -q, --quiet  -h, --help  -V, --version\n\n"
	      "Exit codes: s2image(8).\n",
	      to);
}

/* ---- options ---- */

enum { O_JSON = 256, O_BLOCK_PAGES, O_REPRODUCIBLE, O_DESTROY, O_FD, O_KEY_FILE, O_ENCRYPT, O_PUBLIC_KEY, O_CIPHER };

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"offset", required_argument, NULL, 'o'},
	{"json", no_argument, NULL, O_JSON},
	{"compressor", required_argument, NULL, 'c'},
	{"threads", required_argument, NULL, 't'},
	{"block-pages", required_argument, NULL, O_BLOCK_PAGES},
	{"reproducible", no_argument, NULL, O_REPRODUCIBLE},
	{"destroy", no_argument, NULL, O_DESTROY},
	{"passphrase-fd", required_argument, NULL, O_FD},
	{"key-file", required_argument, NULL, O_KEY_FILE},
	{"encrypt", no_argument, NULL, O_ENCRYPT},
	{"public-key", required_argument, NULL, O_PUBLIC_KEY},
	{"cipher", required_argument, NULL, O_CIPHER},
	{"verbose", no_argument, NULL, 'v'},
	{"quiet", no_argument, NULL, 'q'},
	{NULL, 0, NULL, 0},
};

static int set_key(const char *key, const char *value)
{
	char line[256];

	if ((size_t)snprintf(line, sizeof line, "%s = %s", key, value) >= sizeof line)
		return fault(E_USAGE, 0, "`%.40s...' is too long", value);
	return config_set(&job.conf, key, line);
}

static int take_number(uint64_t *out, const char *what)
{
	if (tool_number(optarg, out))
		return E_OK;
	return fault(E_USAGE, 0, "`%s' is no number of %s", optarg, what);
}

static int take_sealing(int o)
{
	switch (o) {
	case O_FD:
		return tool_descriptor(optarg, &job.passphrase_fd);
	case O_KEY_FILE:
		job.key_file = optarg;
		break;
	case O_ENCRYPT:
		job.encrypt = true;
		break;
	case O_PUBLIC_KEY:
		job.public_key = optarg;
		break;
	case O_CIPHER:
		job.cipher = cipher_by_name(optarg);
		if (!job.cipher)
			return fault(E_USAGE, 0, "`%s' is no cipher; see --help", optarg);
	}
	return E_OK;
}

static int take_option(int o)
{
	switch (o) {
	case 'o':
		return take_number(&job.offset, "pages");
	case 'c':
		job.adapt = !strcmp(optarg, "auto");
		return set_key("compressor", optarg);
	case 't':
		return set_key("threads", optarg);
	case O_BLOCK_PAGES:
		return take_number(&job.block_pages, "pages");
	case O_JSON:
		job.json = true;
		break;
	case O_REPRODUCIBLE:
		job.reproducible = true;
		break;
	case O_DESTROY:
		job.destroy = true;
		break;
	case 'v':
		log_set_level(LOG_LEVEL_VERBOSE);
		break;
	case 'q':
		log_set_level(LOG_LEVEL_ERROR);
		break;
	case '?':
		return E_USAGE;
	default:
		return take_sealing(o);
	}
	return E_OK;
}

/* ---- opening ---- */

static int open_image(const char *path, enum target_mode mode)
{
	int r = target_open(&job.target, path, mode);

	if (r == E_OK)
		r = image_open(&job.image, &job.target.file.disk, job.offset * (uint64_t)sysconf(_SC_PAGESIZE),
			       job.scratch);
	return r;
}

/* ---- info ---- */

static const char *method_name(uint32_t m)
{
	static const char *const names[] = {"platform", "shutdown", "reboot"};

	return m < 3 ? names[m] : "?";
}

/* Names on a disk may hold anything; a terminal is shown letters only. */
static const char *printable(char *s)
{
	for (char *p = s; *p; p++)
		if (*p < 32 || *p > 126)
			*p = '?';
	return s;
}

/* Whether, how and for whom: what may be known without the key. */
static void json_seal(const struct header *h)
{
	static const char *const modes[] = {"none", "passphrase", "key pair", "key file"};
	const struct key_slot *s = &h->slot;
	char id[2 * KEY_ID + 1];

	if (!(h->features & FEATURE_SEALED)) {
		printf("  \"sealed\": false,\n");
		return;
	}
	key_id_text(s->id, id);
	printf("  \"sealed\": true,\n  \"seal\": {\"mode\": \"%s\", \"cipher\": \"%s\"", modes[s->mode],
	       cipher_by_id(s->cipher)->name);
	if (s->mode != KEY_MODE_PASSPHRASE)
		printf(", \"key_id\": \"%s\"", id);
	if (s->mode != KEY_MODE_FILE)
		printf(", \"argon2id\": {\"memory_kib\": %u, \"passes\": %u, \"lanes\": %u}", s->cost.memory,
		       s->cost.passes, s->cost.lanes);
	printf("},\n");
}

static void table_seal(const struct header *h)
{
	char text[KEY_TEXT];

	if (!(h->features & FEATURE_SEALED))
		printf("sealed           no\n");
	else if (h->slot.mode == KEY_MODE_FILE)
		printf("sealed           %s\n", key_describe(&h->slot, text));
	else
		printf("sealed           %s, Argon2id %u KiB x %u\n", key_describe(&h->slot, text), h->slot.cost.memory,
		       h->slot.cost.passes);
}

static void info_json(void)
{
	const struct image *im = &job.image;
	const struct header *h = &im->header;
	const struct trailer *t = &im->trailer;
	char image[37], swap[37], system[37];
	bool first = true;

	id_text(h->image_id, image);
	id_text(h->swap_uuid, swap);
	id_text(h->installation, system);
	printf("{\n  \"format\": %u,\n  \"image_id\": \"%s\",\n  \"swap_uuid\": \"%s\",\n  \"installation\": \"%s\",\n",
	       h->version, image, swap, system);
	printf("  \"created\": %llu,\n  \"page_size\": %u,\n  \"block_size\": %u,\n", (unsigned long long)h->created,
	       h->page_size, h->block_size);
	printf("  \"release\": ");
	tool_json_string(h->release);
	printf(",\n  \"machine\": ");
	tool_json_string(h->machine);
	printf(",\n  \"shutdown_method\": \"%s\",\n", method_name(h->shutdown));
	json_seal(h);
	printf("  \"raw_bytes\": %llu,\n  \"stored_bytes\": %llu,\n  \"blocks\": %llu,\n  \"extent_pages\": %llu,\n",
	       (unsigned long long)t->raw_bytes, (unsigned long long)t->stream_bytes, (unsigned long long)t->blocks,
	       (unsigned long long)t->extent_pages);
	printf("  \"save_ns\": %llu,\n  \"save_threads\": %u,\n", (unsigned long long)t->save_ns, t->threads);
	printf("  \"passed_over\": %s,\n  \"attempts\": %u,\n  \"codecs\": {",
	       im->state.flags & STATE_PASSED_OVER ? "true" : "false", im->state.attempts);
	for (unsigned i = 0; i < CODEC_COUNT; i++) {
		const struct codec_count *c = &t->codec[i];
		if (!c->blocks)
			continue;
		printf("%s\n    \"%s\": {\"blocks\": %llu, \"raw_bytes\": %llu, \"stored_bytes\": %llu}",
		       first ? "" : ",", codec_by_id(i)->name, (unsigned long long)c->blocks,
		       (unsigned long long)c->raw, (unsigned long long)c->stored);
		first = false;
	}
	printf("\n  },\n  \"file_systems\": [");
	for (uint32_t i = 0; i < h->fingerprint_count; i++) {
		char uuid[37];
		id_text(im->fingerprint[i].uuid, uuid);
		printf("%s\n    {\"type\": ", i ? "," : "");
		tool_json_string(im->fingerprint[i].type);
		printf(", \"uuid\": \"%s\", \"device\": ", uuid);
		tool_json_string(im->fingerprint[i].name);
		putchar('}');
	}
	printf("\n  ]\n}\n");
}

static void info_codecs(const struct trailer *t)
{
	for (unsigned i = 0; i < CODEC_COUNT; i++) {
		const struct codec_count *c = &t->codec[i];
		if (c->blocks)
			printf("  %-6s %10llu blocks %12llu KiB -> %12llu KiB\n", codec_by_id(i)->name,
			       (unsigned long long)c->blocks, (unsigned long long)(c->raw >> 10),
			       (unsigned long long)(c->stored >> 10));
	}
}

static void info_table(void)
{
	struct image *im = &job.image;
	struct header *h = &im->header;
	const struct trailer *t = &im->trailer;
	char text[64];
	time_t created = (time_t)h->created;
	struct tm tm;

	id_text(h->image_id, text);
	printf("image            %s\n", text);
	id_text(h->swap_uuid, text);
	printf("swap UUID        %s%s%s\n", text, im->mark.label[0] ? ", label " : "", printable(im->mark.label));
	id_text(h->installation, text);
	printf("installation     %s\n", id_is_zero(h->installation) ? "unknown" : text);
	if (gmtime_r(&created, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm))
		printf("saved            %s\n", created ? text : "unknown");
	printf("kernel           %s, %s, pages of %u bytes\n", printable(h->release), printable(h->machine),
	       h->page_size);
	printf("shutdown method  %s\n", method_name(h->shutdown));
	table_seal(h);
	printf("state            %s, %u of %d attempts made\n",
	       im->state.flags & STATE_PASSED_OVER ? "passed over: will not be resumed" : "to be resumed",
	       im->state.attempts, ATTEMPTS_MAX);
	printf("raw              %llu KiB in %llu blocks of %u KiB\n", (unsigned long long)(t->raw_bytes >> 10),
	       (unsigned long long)t->blocks, h->block_size >> 10);
	printf("stored           %llu KiB, ratio %.2f\n", (unsigned long long)(t->stream_bytes >> 10),
	       t->stream_bytes ? (double)t->raw_bytes / (double)t->stream_bytes : 0);
	if (t->save_ns)
		printf("save             %.2f s, %.0f MB/s, %u threads\n", (double)t->save_ns / 1e9,
		       (double)t->raw_bytes * 1e3 / (double)t->save_ns, t->threads);
	info_codecs(t);
	for (uint32_t i = 0; i < h->fingerprint_count; i++) {
		struct fingerprint *f = &im->fingerprint[i];
		id_text(f->uuid, text);
		printf("file system      %-8s %s on %s\n", printable(f->type), text, printable(f->name));
	}
}

static int do_info(char **arg)
{
	int r = open_image(arg[0], TARGET_LOOK);

	if (r == E_OK)
		r = image_read_trailer(&job.image);
	if (r != E_OK)
		return log_fault(r, arg[0]);
	if (job.json)
		info_json();
	else
		info_table();
	/* An earlier flush that failed is not forgotten for a later one that does not. */
	return fflush(stdout) || ferror(stdout) ? E_IO : E_OK;
}

/* ---- verify, unpack ---- */

struct file_sink {
	struct page_sink sink;
	int fd; /* -1: only checked */
};

static int sink_write(struct page_sink *sink, const uint8_t *buf, uint32_t n)
{
	int fd = ((struct file_sink *)sink)->fd;

	while (fd >= 0 && n) {
		ssize_t put = write(fd, buf, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return fault(E_IO, errno, "cannot write the page stream");
		buf += put;
		n -= (uint32_t)put;
	}
	return E_OK;
}

/* ---- seals ---- */

static int open_by_passphrase(void)
{
	struct secret word;
	int r = secret_get(&word, job.passphrase_fd, "Passphrase of the image: ", false);

	if (r == E_OK)
		r = seal_open_passphrase(&job.seal, &job.image.header, word.text, word.n);
	secret_drop(&word);
	return r;
}

/* Finds the key when there is need of one; what is read of the trailer is the image's own then. */
static int open_trailer(void)
{
	const struct header *h = &job.image.header;
	int r;

	if (!(h->features & FEATURE_SEALED))
		return image_read_trailer(&job.image);
	secret_guard();
	if (job.key_file)
		r = seal_open_key_file(&job.seal, h, job.key_file);
	else if (h->slot.mode == KEY_MODE_FILE)
		r = fault(E_KEY, 0, "it is sealed with a key file; use --key-file");
	else
		r = open_by_passphrase();
	return r == E_OK ? image_unseal(&job.image, &job.seal) : r;
}

static int make_recipient(struct recipient *to)
{
	unsigned cipher = job.cipher ? job.cipher->id : 0;
	struct secret word;

	secret_guard();
	if (job.public_key)
		return recipient_from_key_pair(to, cipher, job.public_key);
	if (job.key_file)
		return recipient_from_key_file(to, cipher, job.key_file);
	int r = secret_get(&word, job.passphrase_fd, "New passphrase for the image: ", true);
	if (r == E_OK)
		r = recipient_from_passphrase(to, cipher, word.text, word.n, NULL);
	secret_drop(&word);
	return r;
}

static int load_to(int fd)
{
	struct file_sink sink = {{sink_write}, fd};
	struct load_input in = {.image = &job.image, .sink = &sink.sink};
	struct load_options o = {job.image.header.page_size, job.image.header.block_size, tool_threads(&job.conf)};
	size_t size = 0;
	int r = open_trailer();

	if (r == E_OK)
		r = load_plan(&o, arena_limit(), &size);
	if (r == E_OK)
		r = arena_open(&job.arena, size, 0);
	if (r != E_OK)
		return r;
	struct load *l = load_carve(&job.arena, &o);
	return l ? load_run(l, &in) : E_INTERNAL;
}

static int do_verify(char **arg)
{
	int r = open_image(arg[0], TARGET_LOOK);

	if (r == E_OK)
		r = load_to(-1);
	if (r != E_OK)
		return log_fault(r, arg[0]);
	log_note("%s: whole: %llu KiB in %llu KiB", arg[0], (unsigned long long)(job.image.trailer.raw_bytes >> 10),
		 (unsigned long long)(job.image.trailer.stream_bytes >> 10));
	return E_OK;
}

static int do_unpack(char **arg)
{
	int r = open_image(arg[0], TARGET_LOOK);

	if (r != E_OK)
		return log_fault(r, arg[0]);
	int fd = open(arg[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		fault(E_IO, errno, "cannot be created");
		return log_fault(E_IO, arg[1]);
	}
	r = load_to(fd);
	if (r == E_OK && fsync(fd) && errno != EINVAL && errno != EROFS)
		r = fault(E_IO, errno, "cannot write the page stream");
	if (close(fd) && r == E_OK)
		r = fault(E_IO, errno, "cannot write the page stream");
	/* Not verified is not the page stream. */
	if (r != E_OK)
		unlink(arg[1]);
	return r == E_OK ? E_OK : log_fault(r, arg[0]);
}

/* ---- pack ---- */

struct file_source {
	struct page_source source;
	int fd;
};

static int source_read(struct page_source *source, uint8_t *buf, uint32_t n)
{
	while (n) {
		ssize_t got = read(((struct file_source *)source)->fd, buf, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fault(E_IO, got ? errno : ENODATA, "cannot read the page stream");
		buf += got;
		n -= (uint32_t)got;
	}
	return E_OK;
}

/* The area's pages in order. */
struct file_pages {
	struct swap_pages pages;
	uint64_t next, end, start; /* page numbers in the area; start: bytes of the area on the device */
	uint32_t page_size;
};

static int pages_take(struct swap_pages *p, uint64_t *places, uint32_t want, uint32_t *got)
{
	struct file_pages *f = (struct file_pages *)p;

	for (*got = 0; *got < want && f->next < f->end; ++*got)
		places[*got] = f->start + f->next++ * f->page_size;
	return E_OK;
}

static void draw_id(id128 *id, const char *fixed)
{
	if (job.reproducible)
		memcpy(id->b, fixed, sizeof id->b);
	else if (getrandom(id->b, sizeof id->b, 0) != (ssize_t)sizeof id->b)
		put_le64(id->b, (uint64_t)time(NULL));
}

/* What mkswap would write, for a file that holds nothing yet. */
static int make_swap(const char *path, uint64_t bytes)
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	uint8_t *first = calloc(1, page);
	id128 uuid;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;
	int r = E_OK;

	draw_id(&uuid, "reproducible\0swp");
	if (!first || fd < 0 || fstat(fd, &st) || (S_ISREG(st.st_mode) && ftruncate(fd, (off_t)bytes))) {
		r = fault(E_IO, errno, "cannot be created");
	} else {
		put_le32(first + SWAP_VERSION, 1);
		put_le32(first + SWAP_LAST_PAGE, (uint32_t)(bytes / page - 1));
		memcpy(first + SWAP_UUID, uuid.b, sizeof uuid.b);
		memcpy(first + page - 10, "SWAPSPACE2", 10);
		if (pwrite(fd, first, page, 0) != (ssize_t)page || fsync(fd))
			r = fault(E_IO, errno, "cannot be written");
	}
	if (fd >= 0)
		close(fd);
	free(first);
	return r;
}

/* Everything but swap is somebody's: refused without --destroy. */
static int check_foreign(const char *path)
{
	char type[TARGET_CONTENT];
	int r = target_content(path, type);

	if (r == E_OK && type[0] && strcmp(type, "swap") && strcmp(type, "swsuspend"))
		r = fault(E_FOREIGN, 0, "it holds %s; --destroy overwrites it", type);
	return r;
}

/* Swap files are not held by the device's O_EXCL; a write to one in use would meet ETXTBSY only in part. */
static int check_active(const char *path)
{
	char real[4096], text[16384], *save = NULL;

	if (!realpath(path, real) || file_read_text("/proc/swaps", text, sizeof text) < 0)
		return E_OK;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		if (!strncmp(l, real, strlen(real)) && (l[strlen(real)] == ' ' || l[strlen(real)] == '\t'))
			return fault(E_BUSY, 0, "it is swapped on; run swapoff first");
	return E_OK;
}

/* An area to write on: as it is, or made for a new or empty file, or over something else when told. */
static int ready_area(const char *path, uint64_t raw)
{
	struct stat st;
	bool there = stat(path, &st) == 0;
	uint64_t room = save_room(raw, (uint32_t)sysconf(_SC_PAGESIZE));
	int r;

	if (!there || (S_ISREG(st.st_mode) && st.st_size == 0))
		return make_swap(path, room);
	if ((r = check_active(path)) != E_OK || (!job.destroy && (r = check_foreign(path)) != E_OK))
		return r;
	r = open_image(path, TARGET_CLAIM);
	enum mark_kind kind = job.image.mark.kind;
	uint64_t size = job.target.file.disk.size;
	target_close(&job.target);
	if (kind == MARK_SWAP)
		return E_OK;
	if (r == E_OK || image_is_ours(&job.image))
		return fault(E_FOREIGN, 0, "it holds an image already; `s2image discard' gives it up");
	if (r == E_BUSY || r == E_PRIVILEGE || !job.destroy)
		return r == E_NOIMAGE ? fault(E_FOREIGN, 0, "it is no swap area; --destroy makes it one") : r;
	return make_swap(path, S_ISREG(st.st_mode) && room > size ? room : size);
}

static void describe(struct header *h, uint64_t raw)
{
	machine_describe(h);
	h->created = (uint64_t)time(NULL);
	if (job.reproducible) {
		memset(&h->installation, 0, sizeof h->installation);
		h->created = h->memory_map = 0;
		strcpy(h->release, "reproducible");
	}
	h->image_bytes = raw;
	h->shutdown = SHUTDOWN_POWEROFF;
	h->area_start = job.image.area_start;
	h->swap_uuid = job.image.mark.swap_uuid;
	draw_id(&h->image_id, "reproducible\0img");
}

static int pack_options(struct save_options *o)
{
	o->page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	o->block_size = BLOCK_SIZE_DEFAULT;
	if (job.block_pages > BLOCK_SIZE_MAX / o->page_size)
		return fault(E_USAGE, 0, "--block-pages: at most %u", BLOCK_SIZE_MAX / o->page_size);
	if (job.block_pages)
		o->block_size = (uint32_t)job.block_pages * o->page_size;
	o->threads = tool_threads(&job.conf);
	o->reproducible = job.reproducible;
	o->adapt = job.adapt;
	return tool_codec(&job.conf, &o->codec, &o->level);
}

/* The seal is ready before anything is written. */
static int pack_seal(void)
{
	struct recipient to;

	if (!job.encrypt)
		return job.key_file || job.public_key || job.cipher || job.passphrase_fd >= 0
			       ? fault(E_USAGE, 0, "a key is given: --encrypt is missing")
			       : E_OK;
	if (job.reproducible)
		return fault(E_USAGE, 0, "a sealed image has a new key each time: --reproducible cannot be had");
	if (!!job.key_file + !!job.public_key + (job.passphrase_fd >= 0) > 1)
		return fault(E_USAGE, 0, "an image is sealed in one way: --passphrase-fd, --key-file or --public-key");
	int r = make_recipient(&to);
	if (r == E_OK)
		r = seal_prepare(&job.seal, &to, tool_threads(&job.conf));
	explicit_bzero(&to, sizeof to);
	return r;
}

static int pack_from(int raw_fd, uint64_t raw, struct save_options *o)
{
	struct disk *disk = &job.target.file.disk;
	struct file_source source = {{source_read}, raw_fd};
	struct file_pages pages = {{pages_take}, 1, 0, job.image.area_start, job.image.mark.page_size};
	struct header h = {0};
	struct save_input in = {.disk = disk, .source = &source.source, .swap = &pages.pages, .header = &h};
	size_t size = 0;
	int r = save_plan(o, arena_limit(), &size);

	if (r == E_OK)
		r = arena_open(&job.arena, size, 0);
	if (r != E_OK)
		return r;
	struct save *s = save_carve(&job.arena, o);
	if (!s)
		return E_INTERNAL;
	pages.end = min_u64(job.image.mark.last_page + 1ull, (disk->size - pages.start) / pages.page_size);
	in.seal = job.encrypt ? &job.seal : NULL;
	in.room = (pages.end - pages.next) * pages.page_size;
	describe(&h, raw);
	r = save_run(s, &in);
	return r == E_OK ? mark_set(disk, job.image.area_start, o->page_size, job.scratch, h.image_id, h.installation,
				    save_header_place(s))
			 : r;
}

static int open_area(const char *path)
{
	int r = open_image(path, TARGET_CLAIM);

	if (r != E_NOIMAGE)
		return r == E_OK ? E_FOREIGN : r;
	const struct mark *m = &job.image.mark;
	if (m->kind != MARK_SWAP || !m->room || m->page_size != (uint32_t)sysconf(_SC_PAGESIZE))
		return fault(E_FOREIGN, 0, "it is no swap area for this machine's pages");
	return E_OK;
}

static int open_raw(const char *path, int *fd, uint64_t *size)
{
	struct stat st;

	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return fault(E_IO, errno, "cannot be opened");
	if (fstat(*fd, &st) || !S_ISREG(st.st_mode))
		return fault(E_IO, 0, "is no plain file");
	if (st.st_size % sysconf(_SC_PAGESIZE))
		return fault(E_USAGE, 0, "its %lld bytes are not whole pages", (long long)st.st_size);
	*size = (uint64_t)st.st_size;
	return E_OK;
}

static int pack_to(const char *path, int raw_fd, uint64_t raw)
{
	struct save_options o = {0};
	int r = pack_options(&o);

	if (r == E_OK)
		r = pack_seal();
	if (r == E_OK)
		r = ready_area(path, raw);
	if (r == E_OK)
		r = open_area(path);
	if (r == E_OK)
		r = pack_from(raw_fd, raw, &o);
	return r == E_OK ? E_OK : log_fault(r, path);
}

static int do_pack(char **arg)
{
	uint64_t raw = 0;
	int fd, r = open_raw(arg[0], &fd, &raw);

	if (r == E_OK)
		r = pack_to(arg[1], fd, raw);
	else
		log_fault(r, arg[0]);
	if (fd >= 0)
		close(fd);
	return r;
}

/* ---- discard ---- */

static int do_discard(char **arg)
{
	int r = check_active(arg[0]);

	if (r == E_OK)
		r = open_image(arg[0], TARGET_CLAIM);
	if (r == E_OK || r == E_CORRUPT || r == E_UNSUPPORTED) {
		fault_clear();
		r = image_discard(&job.image);
	}
	if (r != E_OK)
		return log_fault(r, arg[0]);
	log_note("%s: the image is given up; it is swap again", arg[0]);
	if (job.image.key_left)
		log_error("%s: the wrapped key of the image could not be overwritten: %s", arg[0], fault_text());
	return E_OK;
}

/* ---- main ---- */

static const struct command {
	const char *name;
	int arguments;
	int (*run)(char **arg);
} commands[] = {
	{"info", 1, do_info}, {"verify", 1, do_verify},	  {"unpack", 2, do_unpack},
	{"pack", 2, do_pack}, {"discard", 1, do_discard},
};

static int run(int argc, char **argv)
{
	if (!argc) {
		usage(stderr);
		return E_USAGE;
	}
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
		if (strcmp(commands[i].name, argv[0]))
			continue;
		if (argc - 1 == commands[i].arguments)
			return commands[i].run(argv + 1);
		log_error("`%s' takes %d argument%s; see --help", argv[0], commands[i].arguments,
			  commands[i].arguments == 1 ? "" : "s");
		return E_USAGE;
	}
	log_error("`%s' is no command; see --help", argv[0]);
	return E_USAGE;
}

int main(int argc, char **argv)
{
	int o, r = E_OK;

	tool_start("s2image");
	config_default(&job.conf);
	job.target.fd = -1;
	while (r == E_OK && (o = getopt_long(argc, argv, "hVo:c:t:vq", options, NULL)) != -1) {
		if (o == 'h')
			return usage(stdout), fflush(stdout) ? E_IO : E_OK;
		if (o == 'V')
			return tool_version("s2image");
		r = take_option(o);
	}
	if (r != E_OK)
		return fault_text()[0] ? log_fault(r, "command line") : r;
	job.scratch = aligned_alloc(DISK_UNIT, IMAGE_SCRATCH);
	if (!job.scratch)
		return log_fault(E_MEMORY, "memory");
	r = run(argc - optind, argv + optind);
	seal_close(&job.seal);
	target_close(&job.target);
	arena_close(&job.arena);
	free(job.scratch);
	return r;
}
