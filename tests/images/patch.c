/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * patch FILE [noseal] WHAT [INDEX] AT HEX: overwrites bytes of one record of an
 * image and makes every check that covers them hold again, unless told not to.
 * Written from doc/image-format.md alone, so that it shares no mistake with the
 * program.  "patch FILE" without more says where everything is.
 *
 *   file AT HEX             any bytes; nothing is sealed
 *   mark AT HEX             AT counts from the mark's start
 *   head PAGE AT HEX        a record page of the fixed header
 *   trailer AT HEX
 *   state AT HEX
 *   extents INDEX AT HEX
 *   record N AT HEX         the record of block N; behind the last, the closing record
 *   payload N AT HEX        its payload
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint8_t *file;
static size_t size;
static uint64_t id64, mark, head, trailer, state;
static uint32_t page;
static uint64_t *stream; /* where each byte of the stream lies */
static uint64_t stream_bytes, chain_pages;
static uint64_t extents[64], records[1024];
static unsigned blocks; /* without the closing record */

static void die(const char *what)
{
	fprintf(stderr, "patch: %s\n", what);
	exit(1);
}

static uint64_t get(uint64_t at, unsigned n)
{
	uint64_t v = 0;

	if (at > size || n > size - at)
		die("a place lies outside the file");
	while (n--)
		v = v << 8 | file[at + n];
	return v;
}

static void put(uint64_t at, uint64_t v, unsigned n)
{
	get(at, n);
	for (unsigned i = 0; i < n; i++)
		file[at + i] = (uint8_t)(v >> 8 * i);
}

static uint64_t hash(uint64_t at, size_t n, uint64_t seed)
{
	get(at + n - 1, 1);
	return XXH3_64bits_withSeed(file + at, n, seed);
}

/* ---- where everything is ---- */

static void find_mark(void)
{
	for (page = 4096; page <= 65536; page *= 4)
		if (size >= page && !memcmp(file + page - 80, "DORMOUSE", 8))
			break;
	if (page > 65536)
		die("no mark");
	mark = page - 80;
	id64 = get(mark + 8, 8);
	head = get(mark + 52, 8);
	state = get(head + 104, 8);
	trailer = get(head + 112, 8);
	stream_bytes = get(trailer + 48, 8);
}

static void find_extents(void)
{
	uint64_t at = get(trailer + 24, 8), done = 0;

	stream = calloc(stream_bytes + 65536, sizeof *stream);
	for (; at; at = get(at + 16, 8)) {
		if (chain_pages == 64)
			die("too many extent pages");
		extents[chain_pages++] = at;
		for (uint64_t i = 0; i < get(at + 24, 4); i++)
			for (uint64_t k = 0; k < get(at + 40 + 12 * i, 4) * page && done < stream_bytes; k++)
				stream[done++] = get(at + 32 + 12 * i, 8) * page + k;
	}
}

/* The stream in one piece, and back. */
static uint8_t *flat;

static void find_blocks(void)
{
	uint64_t at = 0;

	flat = malloc(stream_bytes + 1);
	for (uint64_t i = 0; i < stream_bytes; i++)
		flat[i] = file[stream[i]];
	while (at < stream_bytes) {
		uint32_t stored = flat[at] | flat[at + 1] << 8 | flat[at + 2] << 16 | (uint32_t)flat[at + 3] << 24;
		if (blocks == 1023)
			die("too many blocks");
		records[blocks++] = at;
		at += 32 + stored;
	}
	blocks--;
}

/* ---- sealing ---- */

static void put_flat(uint64_t at, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		flat[at + i] = (uint8_t)(v >> 8 * i);
}

static void seal_record(unsigned n, uint32_t stored)
{
	uint8_t both[24];
	uint64_t at = records[n], payload = XXH3_64bits_withSeed(flat + at + 32, stored, id64 ^ n);

	memcpy(both, flat + at, 16);
	for (int i = 0; i < 8; i++)
		both[16 + i] = (uint8_t)(payload >> 8 * i);
	put_flat(at + 16, XXH3_64bits_withSeed(both, 24, id64));
}

static uint32_t stored_room(unsigned n)
{
	return (uint32_t)((n == blocks ? stream_bytes : records[n + 1]) - records[n] - 32);
}

/* @n: the block changed; lengths are those the stream had, whatever the record says now. */
static void seal_stream(unsigned n)
{
	uint64_t check = id64;

	seal_record(n, stored_room(n));
	for (unsigned i = 0; i < blocks; i++)
		check = XXH3_64bits_withSeed(flat + records[i], 32, check);
	if (n < blocks) {
		put_flat(records[blocks] + 32 + 24, check);
		seal_record(blocks, 32);
		put(trailer + 72, check, 8);
	}
}

static void seal_page(uint64_t at, uint64_t seed)
{
	put(at + 4088, hash(at, 4088, seed), 8);
}

static void seal_extents(void)
{
	uint64_t check = id64;

	for (uint64_t i = 0; i < chain_pages; i++) {
		seal_page(extents[i], id64 ^ i);
		check = hash(extents[i] + 4088, 8, check);
	}
	put(trailer + 40, check, 8);
}

static void seal_mark(void)
{
	uint8_t b[66];

	memcpy(b, file + 1036, 16);
	memcpy(b + 16, file + mark + 8, 32);
	memcpy(b + 48, file + mark + 52, 18);
	put(mark + 40, XXH3_64bits(b, sizeof b), 8);
}

/* ---- commands ---- */

static uint64_t number(const char *text)
{
	char *end;
	uint64_t v = strtoull(text, &end, 0);

	if (*end || end == text)
		die("no number");
	return v;
}

static void overwrite(uint8_t *at, const char *hex)
{
	for (; *hex; hex += 2) {
		unsigned v;
		if (sscanf(hex, "%2x", &v) != 1)
			die("no hex digits");
		*at++ = (uint8_t)v;
	}
}

static void overwrite_file(uint64_t at, const char *hex)
{
	get(at + strlen(hex) / 2 - 1, 1);
	overwrite(file + at, hex);
}

static void list(void)
{
	printf("pages of %u bytes, mark at %llu, header at %llu, state at %llu, trailer at %llu\n", page,
	       (unsigned long long)mark, (unsigned long long)head, (unsigned long long)state,
	       (unsigned long long)trailer);
	for (uint64_t i = 0; i < chain_pages; i++)
		printf("extents %llu at %llu\n", (unsigned long long)i, (unsigned long long)extents[i]);
	for (unsigned i = 0; i <= blocks; i++)
		printf("record %u at %llu of the stream, byte %llu\n", i, (unsigned long long)records[i],
		       (unsigned long long)stream[records[i]]);
}

static void patch_stream(char **arg, bool seal)
{
	unsigned n = (unsigned)number(arg[1]);
	uint64_t at = number(arg[2]) + (arg[0][0] == 'p' ? 32 : 0);

	if (n > blocks || records[n] + at + strlen(arg[3]) / 2 > stream_bytes)
		die("outside the stream");
	overwrite(flat + records[n] + at, arg[3]);
	if (seal)
		seal_stream(n);
	for (uint64_t i = 0; i < stream_bytes; i++)
		file[stream[i]] = flat[i];
	if (seal)
		seal_page(trailer, id64);
}

static void patch_simple(char **arg, bool seal)
{
	uint64_t at = number(arg[1]);

	if (!strcmp(arg[0], "mark")) {
		overwrite_file(mark + at, arg[2]);
		if (seal)
			seal_mark();
	} else if (!strcmp(arg[0], "trailer")) {
		overwrite_file(trailer + at, arg[2]);
		if (seal)
			seal_page(trailer, id64);
	} else if (!strcmp(arg[0], "state")) {
		overwrite_file(state + at, arg[2]);
		if (seal)
			put(state + 504, hash(state, 504, id64), 8);
	} else if (!strcmp(arg[0], "file")) {
		overwrite_file(at, arg[2]);
	} else {
		die("no such record");
	}
}

static void patch_indexed(char **arg, bool seal)
{
	uint64_t n = number(arg[1]), at = number(arg[2]), place;

	if (!strcmp(arg[0], "head")) {
		place = n ? get(head + 264 + 8 * (n - 1), 8) : head;
		overwrite_file(place + at, arg[3]);
		/* The header is sealed with the id that stands in it. */
		if (seal)
			seal_page(place, get(head + 32, 8) ^ n);
		return;
	}
	if (strcmp(arg[0], "extents") || n >= chain_pages)
		die("no such record");
	overwrite_file(extents[n] + at, arg[3]);
	if (seal) {
		seal_extents();
		seal_page(trailer, id64);
	}
}

static void patch(int argc, char **arg)
{
	bool seal = argc < 1 || strcmp(arg[0], "noseal");

	arg += !seal;
	argc -= !seal;
	if (argc == 4 && (!strcmp(arg[0], "record") || !strcmp(arg[0], "payload")))
		patch_stream(arg, seal);
	else if (argc == 4)
		patch_indexed(arg, seal);
	else if (argc == 3)
		patch_simple(arg, seal);
	else
		die("usage: patch FILE [noseal] WHAT [INDEX] AT HEX");
}

int main(int argc, char **argv)
{
	FILE *f = argc > 1 ? fopen(argv[1], "r+b") : NULL;

	if (!f)
		die("cannot open the file");
	fseek(f, 0, SEEK_END);
	size = (size_t)ftell(f);
	rewind(f);
	file = malloc(size + 1);
	if (!file || fread(file, 1, size, f) != size)
		die("cannot read the file");
	find_mark();
	find_extents();
	find_blocks();
	if (argc == 2) {
		list();
		return 0;
	}
	patch(argc - 2, argv + 2);
	rewind(f);
	if (fwrite(file, 1, size, f) != size || fclose(f))
		die("cannot write the file");
	free(file);
	free(flat);
	free(stream);
	return 0;
}
