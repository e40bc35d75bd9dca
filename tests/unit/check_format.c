/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The records' bytes.  What is expected stands here as offsets and hex digits,
 * copied from doc/image-format.md and not from the code, with checks computed
 * once, so that the format cannot drift unnoticed.
 */
#include "base/bytes.h"
#include "base/error.h"
#include "image/format.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define DEVICE (1ull << 30)

enum { CHECK_AT = 4088 };

static const id128 image = {{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 1, 2, 3, 4, 5, 6, 7, 8}};
static const uint64_t image64 = 0x8877665544332211;

/* ---- helpers ---- */

#define ROWS(t) ((int)(sizeof(t) / sizeof(t)[0]))

struct row {
	unsigned at;
	const char *hex;
};

static unsigned digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void put_hex(uint8_t *out, const char *hex)
{
	for (; *hex; hex += 2)
		*out++ = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
}

/* Zeros but for the rows. */
static void put_rows(uint8_t *out, size_t n, const struct row *r, size_t rows)
{
	memset(out, 0, n);
	for (size_t i = 0; i < rows; i++)
		put_hex(out + r[i].at, r[i].hex);
}

#define PUT_ROWS(out, n, r) put_rows(out, n, r, sizeof(r) / sizeof(r)[0])

static void same_bytes(const uint8_t *is, const uint8_t *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is[i] != want[i])
			ck_abort_msg("byte %zu is %02x, %02x was expected", i, is[i], want[i]);
}

static void seal(uint8_t *page, uint64_t seed)
{
	put_le64(page + CHECK_AT, XXH3_64bits_withSeed(page, CHECK_AT, seed));
}

/* xorshift64*: the same numbers everywhere. */
static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t draw(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1d;
}

/* Of each kind of record; fewer for tools that make everything slow. */
static int mutations(void)
{
	return getenv("DORMOUSE_SLOW") ? 1000 : 40000;
}

/* Changes 1 to 8 places; now and then all to one value, moved, or cut. */
static void mutate(uint8_t *p, size_t n)
{
	unsigned times = 1 + (unsigned)(draw() % 8);

	for (unsigned i = 0; i < times; i++) {
		size_t at = draw() % n, some = 1 + draw() % 16;

		if (some > n - at)
			some = n - at;
		switch (draw() % 6) {
		case 0:
			p[at] ^= (uint8_t)(1u << draw() % 8);
			break;
		case 1:
			p[at] = (uint8_t)draw();
			break;
		case 2:
			memset(p + at, 0, some);
			break;
		case 3:
			memset(p + at, 0xff, some);
			break;
		case 4:
			memmove(p + at, p + draw() % (n - some + 1), some);
			break;
		default:
			p[at]++;
			break;
		}
	}
}

static bool says(const char *what)
{
	return strstr(fault_text(), what) != NULL;
}

/* One field overwritten, the check made to hold again: what the reader must say. */
struct bad {
	unsigned at, bytes;
	uint64_t value;
	int code;
};

static void put_le(uint8_t *p, unsigned bytes, uint64_t v)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* ---- ids ---- */

START_TEST(ids)
{
	char text[37];
	static const id128 zero;
	id128 other = image;

	ck_assert(id64(image) == image64);
	id_text(image, text);
	ck_assert_str_eq(text, "11223344-5566-7788-0102-030405060708");
	ck_assert(id_is_zero(zero) && !id_is_zero(image));
	for (int i = 0; i < 16; i++) {
		ck_assert(id_equal(image, other));
		other.b[i] ^= 0x80;
		ck_assert(!id_equal(image, other));
		other.b[i] ^= 0x80;
	}
}
END_TEST

/* ---- fixed header ---- */

static const struct row header_rows[] = {
	{0, "444f524d48454144"},		  /* DORMHEAD */
	{8, "01000000"},			  /* version */
	{12, "01000000"},			  /* record pages */
	{20, "40302010"},			  /* may be ignored */
	{24, "00100000"},			  /* page size */
	{28, "00000400"},			  /* block size */
	{32, "11223344556677880102030405060708"}, /* image id */
	{48, "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"}, /* swap UUID */
	{64, "b0b1b2b3b4b5b6b7b8b9babbbcbdbebf"}, /* installation */
	{80, "15cd5b0701000000"},		  /* creation time */
	{88, "efcdab8967452301"},		  /* memory map */
	{96, "0050341200000000"},		  /* raw image size */
	{104, "0030000000000000"},		  /* mutable sector */
	{112, "0040000001000000"},		  /* trailer */
	{120, "0000100000000000"},		  /* start of the area */
	{128, "02000000"},			  /* shutdown method */
	{132, "07000000"},			  /* resume pause */
	{136, "0d000000"},			  /* codecs */
	{144, "02000000"},			  /* fingerprints */
	{152, "362e312e302d31382d616d643634"},	  /* 6.1.0-18-amd64 */
	{232, "7838365f3634"},			  /* x86_64 */
	{512, "65787434"},			  /* ext4 */
	{528, "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf"},
	{544, "8877665544332211"},
	{552, "0800000003000000"}, /* 8:3 */
	{564, "73646133"},	   /* sda3 */
	{576, "76666174"},	   /* vfat */
	{592, "1234abcd"},
	{608, "0100000000000000"},
	{616, "0301000010000000"},	 /* 259:16 */
	{624, "01000000"},		 /* only warn */
	{628, "6e766d65306e3170313233"}, /* nvme0n1p123 */
	{4088, "701cac4c9d6582f5"},
};

static void sample_header(struct header *h, struct fingerprint fp[2])
{
	memset(h, 0, sizeof *h);
	h->version = 1;
	h->fingerprint_count = 2;
	h->pages = header_pages(2, false);
	h->optional_features = 0x10203040;
	h->page_size = 4096;
	h->block_size = 256 << 10;
	h->image_id = image;
	for (int i = 0; i < 16; i++) {
		h->swap_uuid.b[i] = (uint8_t)(0xa0 + i);
		h->installation.b[i] = (uint8_t)(0xb0 + i);
	}
	h->created = 0x1075bcd15;
	h->memory_map = 0x0123456789abcdef;
	h->image_bytes = 0x12345000;
	h->state_place = 0x3000;
	h->trailer_place = 0x100004000;
	h->area_start = 0x100000;
	h->shutdown = SHUTDOWN_REBOOT;
	h->resume_pause = 7;
	h->codecs = 0xd;
	strcpy(h->release, "6.1.0-18-amd64");
	strcpy(h->machine, "x86_64");
	memset(fp, 0, 2 * sizeof *fp);
	strcpy(fp[0].type, "ext4");
	for (int i = 0; i < 16; i++)
		fp[0].uuid.b[i] = (uint8_t)(0xc0 + i);
	fp[0].hash = 0x1122334455667788;
	fp[0].major = 8;
	fp[0].minor = 3;
	strcpy(fp[0].name, "sda3");
	strcpy(fp[1].type, "vfat");
	memcpy(fp[1].uuid.b, "\x12\x34\xab\xcd", 4);
	fp[1].hash = 1;
	fp[1].major = 259;
	fp[1].minor = 16;
	fp[1].flags = FINGERPRINT_WARN;
	strcpy(fp[1].name, "nvme0n1p123");
}

static void same_header(const struct header *a, const struct header *b)
{
	ck_assert_uint_eq(a->version, b->version);
	ck_assert_uint_eq(a->pages, b->pages);
	ck_assert_uint_eq(a->features, b->features);
	ck_assert_uint_eq(a->optional_features, b->optional_features);
	ck_assert_uint_eq(a->page_size, b->page_size);
	ck_assert_uint_eq(a->block_size, b->block_size);
	ck_assert(id_equal(a->image_id, b->image_id) && id_equal(a->swap_uuid, b->swap_uuid));
	ck_assert(id_equal(a->installation, b->installation));
	ck_assert(a->created == b->created && a->memory_map == b->memory_map && a->image_bytes == b->image_bytes);
	ck_assert(a->state_place == b->state_place && a->trailer_place == b->trailer_place);
	ck_assert(a->area_start == b->area_start);
	ck_assert_uint_eq(a->shutdown, b->shutdown);
	ck_assert_uint_eq(a->resume_pause, b->resume_pause);
	ck_assert_uint_eq(a->codecs, b->codecs);
	ck_assert_uint_eq(a->fingerprint_count, b->fingerprint_count);
	ck_assert_str_eq(a->release, b->release);
	ck_assert_str_eq(a->machine, b->machine);
	for (int i = 0; i < HEADER_PAGES_MAX - 1; i++)
		ck_assert(a->more[i] == b->more[i]);
}

static void same_fingerprint(const struct fingerprint *a, const struct fingerprint *b)
{
	ck_assert_str_eq(a->type, b->type);
	ck_assert(id_equal(a->uuid, b->uuid) && a->hash == b->hash);
	ck_assert(a->major == b->major && a->minor == b->minor && a->flags == b->flags);
	ck_assert_str_eq(a->name, b->name);
}

START_TEST(header_golden)
{
	uint8_t is[RECORD_PAGE], want[RECORD_PAGE];
	struct header h, back;
	struct fingerprint fp[2], fp_back[2];

	sample_header(&h, fp);
	memset(is, 0xee, sizeof is);
	header_put(is, &h, fp);
	PUT_ROWS(want, sizeof want, header_rows);
	same_bytes(is, want, sizeof want);
	ck_assert_int_eq(header_get_root(&back, want, 1ull << 40), E_OK);
	same_header(&h, &back);
	memset(fp_back, 0xee, sizeof fp_back);
	ck_assert_int_eq(header_get_rest(&back, want, fp_back), E_OK);
	for (int i = 0; i < 2; i++)
		same_fingerprint(&fp[i], &fp_back[i]);
}
END_TEST

START_TEST(header_longest_texts)
{
	static uint8_t page[RECORD_PAGE];
	struct header h, back;
	struct fingerprint fp[2], fp_back[2];

	sample_header(&h, fp);
	memset(h.release, 'r', sizeof h.release - 1);
	memset(h.machine, 'm', sizeof h.machine - 1);
	memset(fp[0].type, 't', 16);
	memset(fp[0].name, 'n', 12);
	header_put(page, &h, fp);
	/* Zero-terminated on the disk too; a fingerprint's own are cut and padded. */
	ck_assert(page[152 + 78] == 'r' && page[152 + 79] == 0 && page[232 + 30] == 'm' && page[232 + 31] == 0);
	ck_assert(page[512 + 15] == 't' && page[512 + 52 + 11] == 'n');
	ck_assert_int_eq(header_get_root(&back, page, 1ull << 40), E_OK);
	same_header(&h, &back);
	ck_assert_int_eq(header_get_rest(&back, page, fp_back), E_OK);
	same_fingerprint(&fp[0], &fp_back[0]);
	/* A field without its zero is cut, not run over. */
	memset(page + 152, 'R', 80);
	memset(page + 232, 'M', 32);
	seal(page, image64);
	ck_assert_int_eq(header_get_root(&back, page, 1ull << 40), E_OK);
	ck_assert_uint_eq(strlen(back.release), 79);
	ck_assert_uint_eq(strlen(back.machine), 31);
}
END_TEST

START_TEST(header_page_counts)
{
	/* 3576 bytes of body in page 0, 4088 in the others, 64 a fingerprint. */
	static const uint32_t rows[][2] = {{0, 1},   {1, 1},   {55, 1},	  {56, 2},   {119, 2},	{120, 3},  {182, 3},
					   {183, 3}, {184, 4}, {949, 15}, {950, 15}, {951, 16}, {1000, 16}};

	for (int i = 0; i < ROWS(rows); i++)
		ck_assert_msg(header_pages(rows[i][0], false) == rows[i][1], "%u fingerprints: %u pages, not %u",
			      rows[i][0], header_pages(rows[i][0], false), rows[i][1]);
	ck_assert_uint_le(header_pages(FINGERPRINTS_MAX, true), HEADER_PAGES_MAX);
}
END_TEST

static uint8_t many_pages[HEADER_PAGES_MAX * RECORD_PAGE];
static struct fingerprint many[FINGERPRINTS_MAX], many_back[FINGERPRINTS_MAX];

static void put_many(struct header *h, uint32_t n)
{
	struct fingerprint two[2];

	sample_header(h, two);
	h->fingerprint_count = n;
	h->pages = header_pages(n, false);
	h->trailer_place = 0x5000;
	memset(h->more, 0, sizeof h->more);
	for (uint32_t i = 1; i < h->pages; i++)
		h->more[i - 1] = 0x10000 + i * 0x2000ull;
	for (uint32_t i = 0; i < n; i++) {
		many[i] = two[i % 2];
		many[i].hash = draw();
		many[i].minor = i;
	}
	memset(many_pages, 0xee, sizeof many_pages);
	header_put(many_pages, h, many);
}

START_TEST(header_many)
{
	static const uint32_t counts[] = {0, 1, 55, 56, 57, 119, 120, 500, FINGERPRINTS_MAX};

	for (int k = 0; k < ROWS(counts); k++) {
		struct header h, back;

		put_many(&h, counts[k]);
		ck_assert_int_eq(header_get_root(&back, many_pages, DEVICE), E_OK);
		same_header(&h, &back);
		ck_assert_int_eq(header_get_rest(&back, many_pages, many_back), E_OK);
		for (uint32_t i = 0; i < counts[k]; i++)
			same_fingerprint(&many[i], &many_back[i]);
		/* Nothing behind the pages that it has. */
		for (size_t i = (size_t)h.pages * RECORD_PAGE; i < sizeof many_pages; i++)
			ck_assert_msg(many_pages[i] == 0xee, "byte %zu was written", i);
	}
}
END_TEST

START_TEST(header_runs_over_pages)
{
	struct header h;

	put_many(&h, 57);
	/* The 56th begins 56 bytes before page 0's check; its name's last 8 bytes open page 1. */
	ck_assert(!memcmp(many_pages + 4032, "vfat", 4));
	ck_assert(!memcmp(many_pages + 4032 + 52, "nvme", 4));
	ck_assert(!memcmp(many_pages + 4096, "0n1p123", 8));
	ck_assert(!memcmp(many_pages + 4104, "ext4", 4));
	/* Each page is checked with its index. */
	for (uint64_t i = 0; i < 2; i++)
		ck_assert(get_le64(many_pages + i * 4096 + 4088) ==
			  XXH3_64bits_withSeed(many_pages + i * 4096, 4088, image64 ^ i));
	/* The places of the other pages. */
	ck_assert(get_le64(many_pages + 264) == 0x12000 && get_le64(many_pages + 272) == 0);
}
END_TEST

START_TEST(header_other_pages_checked)
{
	struct header h, back;
	uint8_t saved[RECORD_PAGE];

	put_many(&h, 200);
	ck_assert_int_eq(header_get_root(&back, many_pages, DEVICE), E_OK);
	for (uint32_t page = 1; page < h.pages; page++)
		for (int k = 0; k < 64; k++) {
			uint8_t *p = many_pages + page * RECORD_PAGE + draw() % RECORD_PAGE;

			*p ^= 4;
			fault_clear();
			ck_assert_int_eq(header_get_rest(&back, many_pages, many_back), E_CORRUPT);
			ck_assert(fault_text()[0]);
			*p ^= 4;
		}
	/* Two pages in each other's places. */
	memcpy(saved, many_pages + RECORD_PAGE, RECORD_PAGE);
	memcpy(many_pages + RECORD_PAGE, many_pages + 2 * RECORD_PAGE, RECORD_PAGE);
	memcpy(many_pages + 2 * RECORD_PAGE, saved, RECORD_PAGE);
	ck_assert_int_eq(header_get_rest(&back, many_pages, many_back), E_CORRUPT);
}
END_TEST

#define DEV40 (1ull << 40)

static const struct bad header_bad[] = {
	{8, 4, 0, E_UNSUPPORTED},
	{8, 4, 2, E_UNSUPPORTED},
	{8, 4, 0xffffffff, E_UNSUPPORTED},
	{16, 4, 1, E_UNSUPPORTED}, /* sealed: not known here */
	{16, 4, 0x80000000, E_UNSUPPORTED},
	{20, 4, 0xffffffff, E_OK}, /* may be ignored */
	{12, 4, 0, E_CORRUPT},
	{12, 4, 2, E_CORRUPT},
	{12, 4, 16, E_CORRUPT},
	{12, 4, 17, E_CORRUPT},
	{12, 4, 0xffffffff, E_CORRUPT},
	{24, 4, 0, E_CORRUPT},
	{24, 4, 512, E_CORRUPT},
	{24, 4, 2048, E_CORRUPT},
	{24, 4, 4095, E_CORRUPT},
	{24, 4, 8192, E_CORRUPT},
	{24, 4, 32768, E_CORRUPT},
	{24, 4, 131072, E_CORRUPT},
	{24, 4, 0xffffffff, E_CORRUPT},
	{28, 4, 0, E_CORRUPT},
	{28, 4, 1, E_CORRUPT},
	{28, 4, 4095, E_CORRUPT},
	{28, 4, 4096, E_OK},
	{28, 4, 6144, E_CORRUPT},
	{28, 4, 16 << 20, E_OK},
	{28, 4, (16 << 20) + 4096, E_CORRUPT},
	{28, 4, 0xfffff000, E_CORRUPT},
	{96, 8, 1, E_CORRUPT},
	{96, 8, 4097, E_CORRUPT},
	{96, 8, 0, E_OK},
	{104, 8, DEV40 - 4096, E_OK},
	{104, 8, DEV40, E_CORRUPT},
	{104, 8, DEV40 + 4096, E_CORRUPT},
	{104, 8, 0xfffffffffffff000, E_CORRUPT},
	{104, 8, 512, E_CORRUPT},
	{104, 8, 4097, E_CORRUPT},
	{112, 8, DEV40 - 4096, E_OK},
	{112, 8, DEV40, E_CORRUPT},
	{112, 8, 0xfffffffffffff000, E_CORRUPT},
	{112, 8, 2048, E_CORRUPT},
	{128, 4, 0, E_OK},
	{128, 4, 1, E_OK},
	{128, 4, 3, E_CORRUPT},
	{128, 4, 0xffffffff, E_CORRUPT},
	{144, 4, 56, E_CORRUPT}, /* would need a second page */
	{144, 4, 1001, E_CORRUPT},
	{144, 4, 0xffffffff, E_CORRUPT},
	{144, 4, 0x04000000, E_CORRUPT}, /* times 64 is 2^32 */
	{144, 4, 55, E_OK},
	{148, 4, 0xffffffff, E_OK}, /* reserved: not read */
	{384, 8, 0xffffffffffffffff, E_OK},
	{504, 8, 0xffffffffffffffff, E_OK},
};

static void header_bounds_row(const struct bad *b)
{
	uint8_t page[RECORD_PAGE];
	struct header h;

	PUT_ROWS(page, sizeof page, header_rows);
	put_le(page + b->at, b->bytes, b->value);
	seal(page, image64);
	fault_clear();
	ck_assert_msg(header_get_root(&h, page, DEV40) == b->code, "%llx at %u is not answered with %d",
		      (unsigned long long)b->value, b->at, b->code);
	ck_assert_msg(!!fault_text()[0] == (b->code != E_OK), "%u: `%s'", b->at, fault_text());
	ck_assert(b->code == E_OK || !says("its check"));
}

START_TEST(header_bounds)
{
	for (int i = 0; i < ROWS(header_bad); i++)
		header_bounds_row(&header_bad[i]);
}
END_TEST

START_TEST(header_checked_first)
{
	/* With a check that does not hold, no field is believed: not even the version. */
	uint8_t page[RECORD_PAGE];
	struct header h;

	for (int i = 0; i < ROWS(header_bad); i++) {
		PUT_ROWS(page, sizeof page, header_rows);
		put_le(page + header_bad[i].at, header_bad[i].bytes, header_bad[i].value);
		page[4000] ^= 1;
		fault_clear();
		ck_assert_int_eq(header_get_root(&h, page, DEV40), E_CORRUPT);
		ck_assert_msg(says("check does not hold"), "%s", fault_text());
	}
	/* Another magic, although the check holds. */
	PUT_ROWS(page, sizeof page, header_rows);
	page[7] = 'T';
	seal(page, image64);
	ck_assert_int_eq(header_get_root(&h, page, DEV40), E_CORRUPT);
}
END_TEST

START_TEST(header_more_places)
{
	static const uint64_t bad[] = {DEVICE, DEVICE - 4095, DEVICE - 1, 4097, 0xfffffffffffff000, 0xffffffffffffffff};
	struct header h, back;

	put_many(&h, 200);
	for (uint32_t i = 1; i < h.pages; i++)
		for (int k = 0; k < ROWS(bad); k++) {
			uint64_t was = h.more[i - 1];

			put_le64(many_pages + 264 + 8 * (i - 1), bad[k]);
			seal(many_pages, image64);
			ck_assert_int_eq(header_get_root(&back, many_pages, DEVICE), E_CORRUPT);
			put_le64(many_pages + 264 + 8 * (i - 1), was);
		}
	seal(many_pages, image64);
	ck_assert_int_eq(header_get_root(&back, many_pages, DEVICE), E_OK);
	/* A device that ends within a record page holds none there. */
	ck_assert_int_eq(header_get_root(&back, many_pages, h.more[h.pages - 2] + 4095), E_CORRUPT);
	ck_assert_int_eq(header_get_root(&back, many_pages, h.more[h.pages - 2] + 4096), E_OK);
	ck_assert_int_eq(header_get_root(&back, many_pages, 0), E_CORRUPT);
}
END_TEST

START_TEST(header_page_sizes)
{
	static const uint32_t sizes[] = {4096, 16384, 65536};
	uint8_t page[RECORD_PAGE];
	struct header h;

	for (int i = 0; i < 3; i++) {
		PUT_ROWS(page, sizeof page, header_rows);
		put_le32(page + 24, sizes[i]);
		put_le64(page + 96, 3ull * sizes[i]);
		seal(page, image64);
		ck_assert_int_eq(header_get_root(&h, page, DEV40), E_OK);
		ck_assert_uint_eq(h.page_size, sizes[i]);
		put_le64(page + 96, 3ull * sizes[i] + 2048);
		seal(page, image64);
		ck_assert_int_eq(header_get_root(&h, page, DEV40), E_CORRUPT);
		put_le64(page + 96, 3ull * sizes[i]);
		put_le32(page + 28, sizes[i] / 2);
		seal(page, image64);
		ck_assert_int_eq(header_get_root(&h, page, DEV40), E_CORRUPT);
	}
}
END_TEST

static bool place_within(uint64_t place, uint64_t device)
{
	return place % 4096 == 0 && place <= device && device - place >= 4096;
}

/* Whatever passes must be within every bound of the document. */
static void header_within(const struct header *h, uint64_t device)
{
	bool ok = h->version == 1 && !h->features && h->pages >= 1 && h->pages <= 16 && h->fingerprint_count <= 1000;

	ok = ok && (h->page_size == 4096 || h->page_size == 16384 || h->page_size == 65536);
	ok = ok && h->block_size && h->block_size <= 16 << 20 && h->block_size % h->page_size == 0;
	ok = ok && h->image_bytes % h->page_size == 0 && h->shutdown <= 2;
	ok = ok && place_within(h->state_place, device) && place_within(h->trailer_place, device);
	for (uint32_t i = 1; ok && i < h->pages; i++)
		ok = place_within(h->more[i - 1], device);
	ok = ok && memchr(h->release, 0, sizeof h->release) && memchr(h->machine, 0, sizeof h->machine);
	ck_assert_msg(ok, "a header outside its bounds passed");
}

START_TEST(header_mutations)
{
	static uint8_t good[RECORD_PAGE], page[RECORD_PAGE];
	struct header h;
	unsigned passed = 0;

	PUT_ROWS(good, sizeof good, header_rows);
	for (int i = 0; i < mutations(); i++) {
		memcpy(page, good, sizeof page);
		/* The field region by itself too, or most hits would be in zeros. */
		mutate(page, i % 2 ? RECORD_PAGE : 400);
		bool same = !memcmp(page, good, sizeof page);
		int r = header_get_root(&h, page, DEV40);
		if ((r == E_OK) != same || (!same && r != E_CORRUPT))
			ck_abort_msg("mutation %d is answered with %d", i, r);
		seal(page, get_le64(page + 32));
		r = header_get_root(&h, page, DEV40);
		if (r != E_OK && r != E_CORRUPT && r != E_UNSUPPORTED)
			ck_abort_msg("sealed mutation %d is answered with %d", i, r);
		if (r == E_OK) {
			header_within(&h, DEV40);
			passed++;
			if (h.pages == 1)
				header_get_rest(&h, page, many_back);
		}
	}
	/* It did get past the check. */
	ck_assert_uint_gt(passed, (unsigned)mutations() / 20);
}
END_TEST

/* ---- extents ---- */

static const struct row extents_rows[] = {
	{0, "444f524d45585453"},  /* DORMEXTS */
	{8, "0500000000000000"},  /* index */
	{16, "0070000000000000"}, /* next */
	{24, "03000000"},	  /* entries */
	{32, "0100000000000000"}, {40, "02000000"}, {44, "ff03000000000000"},	{52, "01000000"},
	{56, "0000010000000000"}, {64, "00010000"}, {4088, "b4e208b8df649e20"},
};

static struct extent_page sample_extents(void)
{
	struct extent_page p = {
		.index = 5,
		.next = 0x7000,
		.count = 3,
		.e = {{1, 2}, {0x3ff, 1}, {0x10000, 0x100}},
	};

	return p;
}

static void same_extents(const struct extent_page *a, const struct extent_page *b)
{
	ck_assert(a->index == b->index && a->next == b->next && a->check == b->check);
	ck_assert_uint_eq(a->count, b->count);
	for (uint32_t i = 0; i < a->count; i++)
		ck_assert(a->e[i].start == b->e[i].start && a->e[i].pages == b->e[i].pages);
}

START_TEST(extents_golden)
{
	uint8_t is[RECORD_PAGE], want[RECORD_PAGE];
	struct extent_page p = sample_extents(), back;

	memset(is, 0xee, sizeof is);
	extent_page_put(is, &p, image);
	PUT_ROWS(want, sizeof want, extents_rows);
	same_bytes(is, want, sizeof want);
	ck_assert(p.check == get_le64(want + 4088));
	ck_assert_int_eq(extent_page_get(&back, want, image, 5, 4096, DEVICE), E_OK);
	same_extents(&p, &back);
}
END_TEST

START_TEST(extents_full)
{
	uint8_t page[RECORD_PAGE];
	struct extent_page p = {.index = 0, .next = 0, .count = EXTENTS_PER_PAGE}, back;

	for (uint32_t i = 0; i < EXTENTS_PER_PAGE; i++)
		p.e[i] = (struct extent){3 * i, 1 + i % 2};
	extent_page_put(page, &p, image);
	/* The last ends where the check begins. */
	ck_assert(get_le64(page + 4076) == 3 * 337 && get_le32(page + 4084) == 2);
	ck_assert_int_eq(extent_page_get(&back, page, image, 0, 4096, DEVICE), E_OK);
	same_extents(&p, &back);
	put_le32(page + 24, EXTENTS_PER_PAGE + 1);
	seal(page, image64);
	ck_assert_int_eq(extent_page_get(&back, page, image, 0, 4096, DEVICE), E_CORRUPT);
}
END_TEST

#define PAGES (DEVICE / 4096)

static const struct bad extents_bad[] = {
	{24, 4, 339, E_CORRUPT},
	{24, 4, 0xffffffff, E_CORRUPT},
	{24, 4, 0x80000001, E_CORRUPT},
	{24, 4, 4, E_CORRUPT}, /* the fourth has no pages */
	{24, 4, 2, E_OK},
	{16, 8, 0, E_OK},
	{16, 8, DEVICE - 4096, E_OK},
	{16, 8, DEVICE, E_CORRUPT},
	{16, 8, DEVICE - 2048, E_CORRUPT},
	{16, 8, 4095, E_CORRUPT},
	{16, 8, 0xfffffffffffff000, E_CORRUPT},
	{28, 4, 0xffffffff, E_OK}, /* reserved */
	{40, 4, 0, E_CORRUPT},
	{52, 4, 0, E_CORRUPT},
	{64, 4, 0, E_CORRUPT},
	{32, 8, PAGES, E_CORRUPT},
	{32, 8, PAGES - 1, E_CORRUPT}, /* two pages there */
	{32, 8, PAGES - 2, E_OK},
	{32, 8, 0xffffffffffffffff, E_CORRUPT},
	{32, 8, 0xfffffffffffffffe, E_CORRUPT}, /* start + pages is 0 */
	{40, 4, 0xffffffff, E_CORRUPT},
	{40, 4, PAGES, E_CORRUPT},
	{40, 4, PAGES - 1, E_OK},
	{56, 8, 0x10000000000000, E_CORRUPT}, /* times 4096 is 2^64 */
	{8, 8, 4, E_CORRUPT},
	{8, 8, 6, E_CORRUPT},
};

static void extents_bounds_row(const struct bad *b)
{
	uint8_t page[RECORD_PAGE];
	struct extent_page p;

	PUT_ROWS(page, sizeof page, extents_rows);
	put_le(page + b->at, b->bytes, b->value);
	seal(page, image64 ^ 5);
	fault_clear();
	ck_assert_msg(extent_page_get(&p, page, image, 5, 4096, DEVICE) == b->code,
		      "%llx at %u is not answered with %d", (unsigned long long)b->value, b->at, b->code);
	ck_assert(!!fault_text()[0] == (b->code != E_OK));
}

START_TEST(extents_bounds)
{
	for (int i = 0; i < ROWS(extents_bad); i++)
		extents_bounds_row(&extents_bad[i]);
}
END_TEST

START_TEST(extents_page_size_counts)
{
	uint8_t page[RECORD_PAGE];
	struct extent_page p = {.count = 1, .e = {{1000, 24}}}, back;

	/* 1024 pages, whatever their size; one byte less is a page less. */
	extent_page_put(page, &p, image);
	for (uint32_t size = 4096; size <= 65536; size *= 4) {
		ck_assert_int_eq(extent_page_get(&back, page, image, 0, size, 1024ull * size), E_OK);
		ck_assert_int_eq(extent_page_get(&back, page, image, 0, size, 1024ull * size - 1), E_CORRUPT);
	}
}
END_TEST

START_TEST(extents_turn)
{
	uint8_t page[RECORD_PAGE];
	struct extent_page p;
	id128 other = image;

	PUT_ROWS(page, sizeof page, extents_rows);
	for (uint64_t i = 0; i < 10; i++)
		ck_assert_int_eq(extent_page_get(&p, page, image, i, 4096, DEVICE), i == 5 ? E_OK : E_CORRUPT);
	other.b[0] ^= 1;
	ck_assert_int_eq(extent_page_get(&p, page, other, 5, 4096, DEVICE), E_CORRUPT);
}
END_TEST

START_TEST(extents_empty)
{
	/* A closing record is always there, so no extent page is ever without entries. */
	uint8_t page[RECORD_PAGE];
	struct extent_page p = {.count = 0}, back;

	extent_page_put(page, &p, image);
	ck_assert_int_eq(extent_page_get(&back, page, image, 0, 4096, DEVICE), E_CORRUPT);
	p.next = 0x3000;
	extent_page_put(page, &p, image);
	ck_assert_int_eq(extent_page_get(&back, page, image, 0, 4096, DEVICE), E_CORRUPT);
}
END_TEST

static void extents_within(const struct extent_page *p)
{
	bool ok = p->index == 5 && p->count && p->count <= 338 && (!p->next || place_within(p->next, DEVICE));

	for (uint32_t i = 0; ok && i < p->count; i++)
		ok = p->e[i].pages && p->e[i].start <= PAGES && p->e[i].start + p->e[i].pages <= PAGES;
	ck_assert_msg(ok, "extents outside their bounds passed");
}

START_TEST(extents_mutations)
{
	static uint8_t good[RECORD_PAGE], page[RECORD_PAGE];
	struct extent_page p;
	unsigned passed = 0;

	PUT_ROWS(good, sizeof good, extents_rows);
	for (int i = 0; i < mutations(); i++) {
		memcpy(page, good, sizeof page);
		mutate(page, i % 2 ? RECORD_PAGE : 80);
		bool same = !memcmp(page, good, sizeof page);
		if ((extent_page_get(&p, page, image, 5, 4096, DEVICE) == E_OK) != same)
			ck_abort_msg("mutation %d", i);
		seal(page, image64 ^ 5);
		if (extent_page_get(&p, page, image, 5, 4096, DEVICE) == E_OK) {
			extents_within(&p);
			passed++;
		}
	}
	ck_assert_uint_gt(passed, (unsigned)mutations() / 20);
}
END_TEST

/* ---- blocks ---- */

static const char payload[] = "0123456789abcdef";

static const struct row block_rows[] = {
	{0, "10000000"},  /* stored */
	{4, "00100000"},  /* raw */
	{8, "02"},	  /* lz4 */
	{10, "0700"},	  /* level */
	{12, "efcdab89"}, /* number, low half */
	{16, "aff71cc9375e2024"},
};
static const uint64_t block_number = 0x89abcdef;

static struct block_record sample_block(void)
{
	return (struct block_record){.stored = 16, .raw = 4096, .codec = 2, .level = 7, .number = block_number};
}

static int get_block(struct block_record *b, const uint8_t *in, const char *data)
{
	int r = block_record_get(b, in, block_number, 4096);

	return r == E_OK ? block_payload_check(in, (const uint8_t *)data, b->stored, block_number, image) : r;
}

START_TEST(block_golden)
{
	uint8_t is[BLOCK_RECORD], want[BLOCK_RECORD];
	struct block_record b = sample_block(), back;

	memset(is, 0xee, sizeof is);
	block_record_put(is, &b, (const uint8_t *)payload, image);
	PUT_ROWS(want, sizeof want, block_rows);
	same_bytes(is, want, sizeof want);
	ck_assert_int_eq(get_block(&back, want, payload), E_OK);
	ck_assert(back.stored == b.stored && back.raw == b.raw && back.codec == b.codec && back.flags == b.flags);
	ck_assert(back.level == b.level && back.number == b.number);
}
END_TEST

/* Without a check of its own, since lengths are needed before the payload can be read. */
static const struct bad block_bad[] = {
	{0, 4, 0, E_CORRUPT},
	{0, 4, 1, E_OK},
	{0, 4, 4096, E_OK},
	{0, 4, 4097, E_CORRUPT},
	{0, 4, 0xffffffff, E_CORRUPT},
	{4, 4, 0, E_CORRUPT},
	{4, 4, 4095, E_CORRUPT},
	{4, 4, 8192, E_CORRUPT},
	{4, 4, 0xffffffff, E_CORRUPT},
	{8, 1, 0, E_CORRUPT}, /* stored as it is has one length */
	{8, 1, 1, E_OK},
	{8, 1, 3, E_OK},
	{8, 1, 8, E_CORRUPT},
	{8, 1, 254, E_CORRUPT},
	{8, 1, 255, E_CORRUPT}, /* closing, but not its lengths */
	{9, 1, 1, E_CORRUPT},
	{9, 1, 0x80, E_CORRUPT},
	{12, 4, 0x89abcdee, E_CORRUPT},
	{12, 4, 0x89abcdf0, E_CORRUPT},
	{12, 4, 0, E_CORRUPT},
	{24, 8, 0xffffffffffffffff, E_OK}, /* reserved */
};

static void block_bounds_row(const struct bad *t)
{
	uint8_t in[BLOCK_RECORD];
	struct block_record b;

	PUT_ROWS(in, sizeof in, block_rows);
	put_le(in + t->at, t->bytes, t->value);
	ck_assert_msg(block_record_get(&b, in, block_number, 4096) == t->code, "%llx at %u is not answered with %d",
		      (unsigned long long)t->value, t->at, t->code);
}

START_TEST(block_bounds)
{
	for (int i = 0; i < ROWS(block_bad); i++)
		block_bounds_row(&block_bad[i]);
}
END_TEST

START_TEST(block_stored_raw)
{
	uint8_t in[BLOCK_RECORD];
	struct block_record b;

	PUT_ROWS(in, sizeof in, block_rows);
	in[8] = 0;
	put_le32(in, 4096);
	ck_assert_int_eq(block_record_get(&b, in, block_number, 4096), E_OK);
	put_le32(in, 4095);
	ck_assert_int_eq(block_record_get(&b, in, block_number, 4096), E_CORRUPT);
	/* After the last block nothing but a closing record. */
	PUT_ROWS(in, sizeof in, block_rows);
	ck_assert_int_eq(block_record_get(&b, in, block_number, 0), E_CORRUPT);
	put_le32(in, 0);
	put_le32(in + 4, 0);
	ck_assert_int_eq(block_record_get(&b, in, block_number, 0), E_CORRUPT);
}
END_TEST

START_TEST(block_number_counts)
{
	/* The record holds the low half; the check covers all of it. */
	uint8_t in[BLOCK_RECORD];
	struct block_record b = sample_block();
	id128 other = image;

	b.number = 0x100000000 + block_number;
	block_record_put(in, &b, (const uint8_t *)payload, image);
	ck_assert_uint_eq(get_le32(in + 12), 0x89abcdef);
	ck_assert_int_eq(block_payload_check(in, (const uint8_t *)payload, 16, b.number, image), E_OK);
	ck_assert_int_eq(block_payload_check(in, (const uint8_t *)payload, 16, block_number, image), E_CORRUPT);
	other.b[7] ^= 0x80;
	ck_assert_int_eq(block_payload_check(in, (const uint8_t *)payload, 16, b.number, other), E_CORRUPT);
	ck_assert_int_eq(block_payload_check(in, (const uint8_t *)payload, 15, b.number, image), E_CORRUPT);
}
END_TEST

START_TEST(block_bits)
{
	/* Every bit of record (but the reserved ones) and payload counts. */
	uint8_t in[BLOCK_RECORD];
	char data[17];
	struct block_record b;

	for (unsigned bit = 0; bit < 8 * (BLOCK_RECORD + 16); bit++) {
		PUT_ROWS(in, sizeof in, block_rows);
		memcpy(data, payload, sizeof data);
		if (bit < 8 * BLOCK_RECORD)
			in[bit / 8] ^= (uint8_t)(1u << bit % 8);
		else
			data[bit / 8 - BLOCK_RECORD] ^= (char)(1u << bit % 8);
		bool reserved = bit >= 8 * 24 && bit < 8 * BLOCK_RECORD;
		/* A length that passes may be longer than what is there: look at the record first. */
		int r = block_record_get(&b, in, block_number, 4096);
		if (r == E_OK && b.stored <= 16)
			r = get_block(&b, in, data);
		else if (r == E_OK)
			r = E_CORRUPT;
		ck_assert_msg(r == (reserved ? E_OK : E_CORRUPT), "bit %u is answered with %d", bit, r);
	}
}
END_TEST

START_TEST(block_mutations)
{
	uint8_t good[BLOCK_RECORD + 4096], both[BLOCK_RECORD + 4096];
	struct block_record b = sample_block();

	for (size_t i = BLOCK_RECORD; i < sizeof good; i++)
		good[i] = (uint8_t)draw();
	b.stored = 1000;
	block_record_put(good, &b, good + BLOCK_RECORD, image);
	for (int i = 0; i < mutations(); i++) {
		memcpy(both, good, sizeof both);
		mutate(both, i % 2 ? 24 : BLOCK_RECORD + 1000);
		memcpy(both + 24, good + 24, 8);
		bool same = !memcmp(both, good, sizeof both);
		int r = block_record_get(&b, both, block_number, 4096);
		if (r == E_OK && b.codec == CODEC_CLOSING)
			ck_assert(b.stored == 32 && b.raw == 32 && b.flags == BLOCK_LAST);
		else if (r == E_OK && (b.raw != 4096 || !b.stored || b.stored > 4096 || b.codec > 7 || b.flags))
			ck_abort_msg("mutation %d passed with lengths outside the bounds", i);
		if (r == E_OK)
			r = block_payload_check(both, both + BLOCK_RECORD, b.stored, block_number, image);
		if ((r == E_OK) != same)
			ck_abort_msg("mutation %d is answered with %d", i, r);
	}
}
END_TEST

/* ---- closing record ---- */

static const struct row closing_rows[] = {
	/* The record: */
	{0, "20000000"},
	{4, "20000000"},
	{8, "ff"},
	{9, "01"},
	{12, "04000000"},
	{16, "aa8f55a5840c56db"},
	/* Its payload: */
	{32, "0400000000000000"},
	{40, "0000100000000000"},
	{48, "8877665544332201"},
	{56, "0123456789abcdef"},
};

START_TEST(closing_golden)
{
	uint8_t is[64], want[64];
	struct closing c = {4, 0x100000, 0x0122334455667788, 0xefcdab8967452301}, back;
	struct block_record b = {.stored = 32, .raw = 32, .codec = 255, .flags = 1, .number = 4}, got;

	closing_put(is + 32, &c);
	block_record_put(is, &b, is + 32, image);
	PUT_ROWS(want, sizeof want, closing_rows);
	same_bytes(is, want, sizeof want);
	/* Let through whatever raw length is expected. */
	for (uint32_t raw = 0; raw <= 4096; raw += 1024)
		ck_assert_int_eq(block_record_get(&got, want, 4, raw), E_OK);
	ck_assert(got.codec == CODEC_CLOSING && got.stored == CLOSING_PAYLOAD);
	ck_assert_int_eq(block_payload_check(want, want + 32, 32, 4, image), E_OK);
	closing_get(&back, want + 32);
	ck_assert(back.blocks == c.blocks && back.raw_bytes == c.raw_bytes);
	ck_assert(back.stream_bytes == c.stream_bytes && back.image_check == c.image_check);
}
END_TEST

START_TEST(closing_bounds)
{
	static const struct bad rows[] = {{0, 4, 31, 0}, {0, 4, 33, 0}, {0, 4, 0, 0},	    {0, 4, 0xffffffff, 0},
					  {4, 4, 31, 0}, {4, 4, 0, 0},	{4, 4, 4096, 0},    {9, 1, 0, 0},
					  {9, 1, 3, 0},	 {9, 1, 2, 0},	{12, 4, 3, 0},	    {12, 4, 5, 0},
					  {8, 1, 0, 0},	 {8, 1, 2, 0},	{12, 4, 0x10004, 0}};

	for (int i = 0; i < ROWS(rows); i++) {
		uint8_t in[64];
		struct block_record b;

		PUT_ROWS(in, sizeof in, closing_rows);
		put_le(in + rows[i].at, rows[i].bytes, rows[i].value);
		ck_assert_msg(block_record_get(&b, in, 4, 32) == E_CORRUPT, "%llx at %u passed",
			      (unsigned long long)rows[i].value, rows[i].at);
	}
}
END_TEST

START_TEST(chain)
{
	/* Each depends on all before it and on their order. */
	static const uint8_t a[] = "first", b[] = "second";
	uint64_t ab = chain_next(chain_next(image64, a, 5), b, 6), ba = chain_next(chain_next(image64, b, 6), a, 5);

	ck_assert(ab != ba && ab != chain_next(image64, b, 6));
	ck_assert(chain_next(image64, a, 5) == XXH3_64bits_withSeed(a, 5, image64));
	ck_assert(ab == XXH3_64bits_withSeed(b, 6, XXH3_64bits_withSeed(a, 5, image64)));
}
END_TEST

/* ---- trailer ---- */

static const struct row trailer_rows[] = {
	{0, "444f524d54524c52"}, /* DORMTRLR */
	{8, "11223344556677880102030405060708"},
	{24, "0080000000000000"}, /* first extent page */
	{32, "0300000000000000"}, /* extent pages */
	{40, "8877665544332211"}, /* extents check */
	{48, "0000002000000000"}, /* stream bytes */
	{56, "0400000000000000"}, /* blocks */
	{64, "0000100000000000"}, /* raw bytes */
	{72, "efcdab8967452301"}, /* image check */
	{80, "00ca9a3b00000000"}, /* nanoseconds */
	{88, "10000000"},	  /* threads */
	{96, "0100000000000000"}, /* codec 0: blocks, raw, stored */
	{104, "0200000000000000"},
	{112, "0300000000000000"},
	{264, "0700000000000000"}, /* codec 7 */
	{272, "0800000000000000"},
	{280, "0900000000000000"},
	{4088, "071c292494bd189e"},
};

static struct trailer sample_trailer(void)
{
	struct trailer t = {
		.extents_place = 0x8000,
		.extent_pages = 3,
		.extents_check = 0x1122334455667788,
		.stream_bytes = 0x20000000,
		.blocks = 4,
		.raw_bytes = 0x100000,
		.image_check = 0x0123456789abcdef,
		.save_ns = 1000000000,
		.threads = 16,
	};

	t.codec[0] = (struct codec_count){1, 2, 3};
	t.codec[7] = (struct codec_count){7, 8, 9};
	return t;
}

START_TEST(trailer_golden)
{
	uint8_t is[RECORD_PAGE], want[RECORD_PAGE];
	struct trailer t = sample_trailer(), back;

	memset(is, 0xee, sizeof is);
	trailer_put(is, &t, image);
	PUT_ROWS(want, sizeof want, trailer_rows);
	same_bytes(is, want, sizeof want);
	ck_assert_int_eq(trailer_get(&back, want, image, DEVICE), E_OK);
	ck_assert(back.extents_place == t.extents_place && back.extent_pages == t.extent_pages);
	ck_assert(back.extents_check == t.extents_check && back.stream_bytes == t.stream_bytes);
	ck_assert(back.blocks == t.blocks && back.raw_bytes == t.raw_bytes && back.image_check == t.image_check);
	ck_assert(back.save_ns == t.save_ns && back.threads == t.threads);
	for (int i = 0; i < CODECS_MAX; i++)
		ck_assert(back.codec[i].blocks == t.codec[i].blocks && back.codec[i].raw == t.codec[i].raw &&
			  back.codec[i].stored == t.codec[i].stored);
}
END_TEST

static const struct bad trailer_bad[] = {
	{24, 8, DEVICE - 4096, E_OK},
	{24, 8, DEVICE, E_CORRUPT},
	{24, 8, DEVICE - 2048, E_CORRUPT},
	{24, 8, 0xfffffffffffff000, E_CORRUPT},
	{24, 8, 0x8001, E_CORRUPT},
	{48, 8, DEVICE, E_OK},
	{48, 8, DEVICE + 1, E_CORRUPT},
	{48, 8, 0xffffffffffffffff, E_CORRUPT},
	{92, 4, 0xffffffff, E_OK}, /* reserved */
	{8, 8, 0, E_CORRUPT},
	{16, 8, 0, E_CORRUPT}, /* the id's second half too */
	{0, 8, 0, E_CORRUPT},
};

static void trailer_bounds_row(const struct bad *b)
{
	uint8_t page[RECORD_PAGE];
	struct trailer t;

	PUT_ROWS(page, sizeof page, trailer_rows);
	put_le(page + b->at, b->bytes, b->value);
	seal(page, image64);
	ck_assert_msg(trailer_get(&t, page, image, DEVICE) == b->code, "%llx at %u is not answered with %d",
		      (unsigned long long)b->value, b->at, b->code);
}

START_TEST(trailer_bounds)
{
	for (int i = 0; i < ROWS(trailer_bad); i++)
		trailer_bounds_row(&trailer_bad[i]);
}
END_TEST

START_TEST(trailer_mutations)
{
	static uint8_t good[RECORD_PAGE], page[RECORD_PAGE];
	struct trailer t;

	PUT_ROWS(good, sizeof good, trailer_rows);
	for (int i = 0; i < mutations(); i++) {
		memcpy(page, good, sizeof page);
		mutate(page, i % 2 ? RECORD_PAGE : 300);
		bool same = !memcmp(page, good, sizeof page);
		if ((trailer_get(&t, page, image, DEVICE) == E_OK) != same)
			ck_abort_msg("mutation %d", i);
		seal(page, image64);
		if (trailer_get(&t, page, image, DEVICE) == E_OK)
			ck_assert(place_within(t.extents_place, DEVICE) && t.stream_bytes <= DEVICE);
	}
}
END_TEST

/* ---- mutable sector ---- */

static const struct row state_rows[] = {
	{0, "444f524d53544154"}, /* DORMSTAT */
	{8, "11223344556677880102030405060708"},
	{24, "01000000"},	  /* passed over */
	{28, "02000000"},	  /* attempts */
	{32, "00ca9a3b00000000"}, /* nanoseconds */
	{40, "1000000000000000"}, /* threads */
	{504, "22840226bf874690"},
};

START_TEST(state_golden)
{
	uint8_t is[RECORD_PAGE], want[RECORD_PAGE];
	struct state s = {.flags = STATE_PASSED_OVER, .attempts = 2, .load_ns = 1000000000, .load_threads = 16}, back;

	memset(is, 0xee, sizeof is);
	state_put(is, &s, image);
	PUT_ROWS(want, sizeof want, state_rows);
	same_bytes(is, want, sizeof want);
	state_get(&back, want, image);
	ck_assert(back.flags == 1 && back.attempts == 2 && back.load_ns == 1000000000 && back.load_threads == 16);
}
END_TEST

static bool one_left(const struct state *s)
{
	return s->flags == 0 && s->attempts == ATTEMPTS_MAX - 1 && s->load_ns == 0 && s->load_threads == 0;
}

START_TEST(state_unreadable)
{
	uint8_t page[RECORD_PAGE];
	struct state s;
	id128 other = image;

	/* Any bit of the sector; none behind it. */
	for (unsigned bit = 0; bit < 8 * 1024; bit++) {
		PUT_ROWS(page, sizeof page, state_rows);
		page[28] = 0; /* so that "one left" is not what it says by itself */
		put_le64(page + 504, XXH3_64bits_withSeed(page, 504, image64));
		page[bit / 8] ^= (uint8_t)(1u << bit % 8);
		state_get(&s, page, image);
		if (one_left(&s) != (bit < 8 * 512))
			ck_abort_msg("bit %u", bit);
	}
	PUT_ROWS(page, sizeof page, state_rows);
	other.b[15] ^= 1;
	state_get(&s, page, other);
	ck_assert(one_left(&s));
	memset(page, 0, sizeof page);
	state_get(&s, page, image);
	ck_assert(one_left(&s));
	memset(page, 0xff, sizeof page);
	state_get(&s, page, image);
	ck_assert(one_left(&s));
}
END_TEST

START_TEST(state_mutations)
{
	static uint8_t good[RECORD_PAGE], page[RECORD_PAGE];
	struct state s;

	PUT_ROWS(good, sizeof good, state_rows);
	for (int i = 0; i < mutations(); i++) {
		memcpy(page, good, sizeof page);
		mutate(page, 512);
		state_get(&s, page, image);
		if ((s.flags == 1 && s.load_threads == 16) != !memcmp(page, good, 512))
			ck_abort_msg("mutation %d", i);
	}
}
END_TEST

/* ---- */

static void add_blocks(TCase *t)
{
	tcase_add_test(t, block_golden);
	tcase_add_test(t, block_bounds);
	tcase_add_test(t, block_stored_raw);
	tcase_add_test(t, block_number_counts);
	tcase_add_test(t, block_bits);
	tcase_add_test(t, block_mutations);
	tcase_add_test(t, closing_golden);
	tcase_add_test(t, closing_bounds);
	tcase_add_test(t, chain);
}

static void add_header(TCase *t)
{
	tcase_add_test(t, ids);
	tcase_add_test(t, header_golden);
	tcase_add_test(t, header_longest_texts);
	tcase_add_test(t, header_page_counts);
	tcase_add_test(t, header_many);
	tcase_add_test(t, header_runs_over_pages);
	tcase_add_test(t, header_other_pages_checked);
	tcase_add_test(t, header_bounds);
	tcase_add_test(t, header_checked_first);
	tcase_add_test(t, header_more_places);
	tcase_add_test(t, header_page_sizes);
	tcase_add_test(t, header_mutations);
}

static void add_extents(TCase *t)
{
	tcase_add_test(t, extents_golden);
	tcase_add_test(t, extents_full);
	tcase_add_test(t, extents_bounds);
	tcase_add_test(t, extents_page_size_counts);
	tcase_add_test(t, extents_turn);
	tcase_add_test(t, extents_empty);
	tcase_add_test(t, extents_mutations);
}

static void add_rest(TCase *t)
{
	tcase_add_test(t, trailer_golden);
	tcase_add_test(t, trailer_bounds);
	tcase_add_test(t, trailer_mutations);
	tcase_add_test(t, state_golden);
	tcase_add_test(t, state_unreadable);
	tcase_add_test(t, state_mutations);
}

static void add_case(Suite *s, const char *name, void (*add)(TCase *t))
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 120);
	add(t);
	suite_add_tcase(s, t);
}

int main(void)
{
	Suite *s = suite_create("format");

	add_case(s, "header", add_header);
	add_case(s, "extents", add_extents);
	add_case(s, "blocks", add_blocks);
	add_case(s, "trailer and state", add_rest);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
