/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The area's first page: what is read from it, and that nothing but the mark is ever written. */
#include "base/bytes.h"
#include "base/error.h"
#include "image/mark.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { DISK = 512 << 10, MARK = 80 };

static const uint32_t sizes[] = {4096, 16384, 65536};
static const uint64_t starts[] = {0, 4096, 65536 + 8192};

static const id128 image = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
static const id128 installation = {
	{0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff}};
static const id128 uuid = {
	{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}};
static const uint64_t place = 0x123456000;

/* ---- a disk of memory that can fail and forget ---- */

static struct memory_disk {
	struct disk disk;
	uint8_t *bytes, *synced; /* what is written, what is durable */
	unsigned reads, writes, syncs;
	unsigned fail_read, fail_write, fail_sync; /* this one, counted from 1, and those after it */
	unsigned good_again;			   /* after so many failures */
	unsigned failures;
	uint64_t first, end; /* all writes lie in between */
} d;

static bool fails(unsigned count, unsigned from)
{
	if (!from || count < from || (d.good_again && d.failures >= d.good_again))
		return false;
	d.failures++;
	return true;
}

static void move(struct disk_io *io)
{
	ck_assert_uint_eq(io->offset % DISK_UNIT, 0);
	ck_assert_uint_eq(io->length % DISK_UNIT, 0);
	ck_assert_uint_eq((uintptr_t)io->buf % DISK_UNIT, 0);
	ck_assert(io->offset + io->length <= d.disk.size);
	bool failed = io->write ? fails(++d.writes, d.fail_write) : fails(++d.reads, d.fail_read);
	io->error = failed ? EIO : 0;
	io->moved = failed ? 0 : io->length;
	if (io->write && io->offset < d.first)
		d.first = io->offset;
	if (io->write && io->offset + io->length > d.end)
		d.end = io->offset + io->length;
	/* A write that fails may have been done all the same. */
	if (io->write)
		memcpy(d.bytes + io->offset, io->buf, io->length);
	else if (!failed)
		memcpy(io->buf, d.bytes + io->offset, io->length);
	io->busy = false;
}

static int submit(struct disk *disk, struct disk_io **io, unsigned n)
{
	(void)disk;
	for (unsigned i = 0; i < n; i++)
		move(io[i]);
	return E_OK;
}

static int reap(struct disk *disk, bool wait)
{
	(void)disk;
	(void)wait;
	return E_OK;
}

static int sync_all(struct disk *disk)
{
	(void)disk;
	if (fails(++d.syncs, d.fail_sync))
		return fault(E_IO, EIO, "cannot sync");
	memcpy(d.synced, d.bytes, DISK);
	return E_OK;
}

static const struct disk_ops ops = {submit, reap, sync_all};
static uint8_t *before;
static void *scratch;

static void remember(void)
{
	memcpy(before, d.bytes, DISK);
	memcpy(d.synced, d.bytes, DISK);
	d.reads = d.writes = d.syncs = d.failures = 0;
	d.fail_read = d.fail_write = d.fail_sync = d.good_again = 0;
	d.first = UINT64_MAX;
	d.end = 0;
	fault_clear();
}

static void open_disk(void)
{
	d.disk.ops = &ops;
	d.disk.size = DISK;
	d.bytes = malloc(DISK);
	d.synced = malloc(DISK);
	before = malloc(DISK);
	scratch = aligned_alloc(DISK_UNIT, 2 * DISK_UNIT);
	ck_assert(d.bytes && d.synced && before && scratch);
}

static void close_disk(void)
{
	free(d.bytes);
	free(d.synced);
	free(before);
	free(scratch);
}

/* ---- what lies on it ---- */

/* A swap area as mkswap makes it, except for boot bits and what lies behind, so that a stray write shows. */
static uint8_t *make_swap(uint64_t start, uint32_t page)
{
	uint8_t *p = d.bytes + start;

	for (size_t i = 0; i < DISK; i++)
		d.bytes[i] = (uint8_t)(i * 7 + i / 255);
	memset(p + 1024, 0, page - 1024);
	put_le32(p + 1024, 1);
	put_le32(p + 1028, 1000);
	memcpy(p + 1036, uuid.b, 16);
	memcpy(p + 1052, "my swap", 8);
	memcpy(p + page - 10, "SWAPSPACE2", 10);
	/* No signature where pages of other sizes would end. */
	for (int i = 0; i < 3; i++)
		if (sizes[i] != page)
			memset(p + sizes[i] - 10, 0, 10);
	remember();
	return p;
}

/* Each of @sizes at each of @starts. */
static uint8_t *make_nth(int i, uint64_t *start, uint32_t *page)
{
	*page = sizes[i % 3];
	*start = starts[i / 3];
	return make_swap(*start, *page);
}

static int set(uint64_t start, uint32_t page)
{
	return mark_set(&d.disk, start, page, scratch, image, installation, place);
}

static void untouched(void)
{
	ck_assert_uint_eq(d.writes, 0);
	ck_assert(!memcmp(d.bytes, before, DISK));
}

/* Nothing but [from, from + n) differs from before. */
static void only_changed(uint64_t from, uint64_t n)
{
	for (uint64_t i = 0; i < DISK; i++)
		if (d.bytes[i] != before[i] && (i < from || i >= from + n))
			ck_abort_msg("byte %llu was changed", (unsigned long long)i);
}

static struct mark look(uint64_t start)
{
	struct mark m;

	memset(&m, 0xee, sizeof m);
	ck_assert_int_eq(mark_read(&d.disk, start, scratch, &m), E_OK);
	return m;
}

/* ---- reading ---- */

static const struct {
	const char *signature;
	enum mark_kind kind;
} signatures[] = {
	{"SWAPSPACE2", MARK_SWAP},
	{"SWAP-SPACE", MARK_OLD_SWAP},
	{"ULSUSPEND\0", MARK_USWSUSP},
	{"S1SUSPEND\0", MARK_KERNEL},
	{"S2SUSPEND\0", MARK_OTHER_SUSPEND},
	{"LINHIB0001", MARK_OTHER_SUSPEND},
	{"\xed\xc3\x02\xe9\x98\x56\xe5\x0c\0\0", MARK_OTHER_SUSPEND},
	{"SWAPSPACE1", MARK_NONE},
	{"SWAPSPACE3", MARK_NONE},
	{"swapspace2", MARK_NONE},
	{"\0\0\0\0\0\0\0\0\0\0", MARK_NONE},
	{"DORMOUSE\0\0", MARK_NONE},
	{"ULSUSPENT\0", MARK_NONE},
};

START_TEST(every_signature)
{
	for (int i = 0; i < 9; i++)
		for (size_t k = 0; k < sizeof signatures / sizeof signatures[0]; k++) {
			uint64_t start;
			uint32_t page;
			uint8_t *p = make_nth(i, &start, &page);

			memcpy(p + page - 10, signatures[k].signature, 10);
			remember();
			struct mark m = look(start);
			ck_assert_msg(m.kind == signatures[k].kind, "`%.10s' with pages of %u: %d",
				      signatures[k].signature, page, m.kind);
			if (m.kind != MARK_NONE)
				ck_assert_uint_eq(m.page_size, page);
			untouched();
		}
}
END_TEST

START_TEST(swap_header_read)
{
	for (int i = 0; i < 9; i++) {
		uint64_t start;
		uint32_t page;

		make_nth(i, &start, &page);
		struct mark m = look(start);
		ck_assert(m.kind == MARK_SWAP && m.swap_header && m.room);
		ck_assert(id_equal(m.swap_uuid, uuid));
		ck_assert_str_eq(m.label, "my swap");
		ck_assert_uint_eq(m.last_page, 1000);
		/* A label without its end. */
		memset(d.bytes + start + 1052, 'L', 16);
		ck_assert_str_eq(look(start).label, "LLLLLLLLLLLLLLLL");
	}
}
END_TEST

START_TEST(header_no_good)
{
	static const struct {
		unsigned at;
		uint32_t value;
	} rows[] = {
		{1024, 0}, {1024, 2},	       {1024, 0x01000000}, /* byte-swapped */
		{1028, 0}, {1032, 0xffffffff}, {1032, 0x40000000}, /* times 4 is 2^32 */
	};

	for (int i = 0; i < 9; i++)
		for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
			uint64_t start;
			uint32_t page;
			uint8_t *p = make_nth(i, &start, &page);

			put_le32(p + rows[k].at, rows[k].value);
			remember();
			struct mark m = look(start);
			ck_assert(m.kind == MARK_SWAP && !m.swap_header && !m.room);
			ck_assert_int_eq(set(start, page), E_FOREIGN);
			untouched();
		}
}
END_TEST

START_TEST(bad_pages)
{
	for (int i = 0; i < 9; i++) {
		uint64_t start;
		uint32_t page;
		uint8_t *p = make_nth(i, &start, &page);
		/* Entries of 4 bytes from 1536 on: up to the mark, up to the signature. */
		uint32_t room = (page - MARK - 1536) / 4, most = (page - 10 - 1536) / 4;

		for (uint32_t bad = room - 2; bad <= most + 2; bad++) {
			put_le32(p + 1032, bad);
			remember();
			struct mark m = look(start);
			ck_assert_int_eq(m.swap_header, bad <= most);
			ck_assert_int_eq(m.room, bad <= room);
			if (bad > room) {
				ck_assert_int_eq(set(start, page), E_FOREIGN);
				untouched();
			}
		}
		/* Entries right up to the mark stay as they are. */
		put_le32(p + 1032, room);
		memset(p + 1536, 0x5a, room * 4);
		remember();
		ck_assert_int_eq(set(start, page), E_OK);
		only_changed(start + page - MARK, MARK);
		ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, false), E_OK);
		ck_assert(!memcmp(d.bytes, before, DISK));
	}
}
END_TEST

START_TEST(past_the_end)
{
	struct mark m;

	make_swap(0, 4096);
	/* An area that is no whole page, or not there at all. */
	ck_assert_int_eq(mark_read(&d.disk, DISK, scratch, &m), E_OK);
	ck_assert_int_eq(m.kind, MARK_NONE);
	ck_assert_int_eq(mark_read(&d.disk, DISK + 4096, scratch, &m), E_OK);
	ck_assert_int_eq(m.kind, MARK_NONE);
	ck_assert_int_eq(mark_read(&d.disk, UINT64_MAX / 4096 * 4096, scratch, &m), E_OK);
	ck_assert_int_eq(m.kind, MARK_NONE);
	ck_assert_uint_eq(d.reads, 0);
	d.disk.size = 4096;
	ck_assert_int_eq(look(0).kind, MARK_SWAP);
	make_swap(0, 65536);
	d.disk.size = 65536 - 4096;
	ck_assert_int_eq(look(0).kind, MARK_NONE);
	d.disk.size = DISK;
}
END_TEST

START_TEST(read_errors)
{
	for (int i = 0; i < 3; i++) {
		make_swap(0, sizes[i]);
		look(0);
		unsigned all = d.reads;

		ck_assert_uint_ge(all, 1);
		for (unsigned k = 1; k <= all; k++) {
			struct mark m;

			remember();
			d.fail_read = k;
			ck_assert_int_eq(mark_read(&d.disk, 0, scratch, &m), E_IO);
			d.reads = 0;
			ck_assert_int_eq(mark_clear(&d.disk, 0, scratch, image, true), E_IO);
			untouched();
		}
		remember();
		d.fail_read = 1;
		ck_assert_int_eq(set(0, sizes[i]), E_IO);
		untouched();
	}
}
END_TEST

/* ---- setting ---- */

START_TEST(golden)
{
	/* Pages of 4096 bytes; everything counted from the page's end. */
	static const uint8_t want[MARK] = {
		'D',  'O',  'R',  'M',	'O',  'U',  'S',  'E', /* -80 */
		1,    2,    3,	  4,	5,    6,    7,	  8,   /* -72 image */
		9,    10,   11,	  12,	13,   14,   15,	  16,	0xf0, 0xf1,
		0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, /* -56 installation */
		0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0x24, 0x24,
		0xfd, 0x59, 0xc3, 0xa4, 0xbb, 0xb2,			   /* -40 check */
		0,    0,    0,	  0,					   /* -32 reserved */
		0x00, 0x60, 0x45, 0x23, 0x01, 0,    0,	  0,		   /* -28 place */
		'S',  'W',  'A',  'P',	'S',  'P',  'A',  'C',	'E',  '2', /* -20 */
		'U',  'L',  'S',  'U',	'S',  'P',  'E',  'N',	'D',  0,   /* -10 */
	};

	for (int i = 0; i < 9; i++) {
		uint64_t start;
		uint32_t page;
		uint8_t *p = make_nth(i, &start, &page);

		ck_assert_int_eq(set(start, page), E_OK);
		for (int k = 0; k < MARK; k++)
			ck_assert_msg(p[page - MARK + k] == want[k], "byte %d is %02x, %02x was expected", k - MARK,
				      p[page - MARK + k], want[k]);
	}
}
END_TEST

START_TEST(check_covers)
{
	/* XXH3(swap UUID, image id, installation id, place, original signature; 0) */
	uint8_t *p = make_swap(0, 4096), all[66];

	ck_assert_int_eq(set(0, 4096), E_OK);
	memcpy(all, p + 1036, 16);
	memcpy(all + 16, p + 4096 - 72, 32);
	memcpy(all + 48, p + 4096 - 28, 18);
	ck_assert(get_le64(p + 4096 - 40) == XXH3_64bits(all, sizeof all));
}
END_TEST

START_TEST(set_and_clear)
{
	for (int i = 0; i < 9; i++) {
		uint64_t start;
		uint32_t page;

		make_nth(i, &start, &page);
		ck_assert_int_eq(set(start, page), E_OK);
		/* One write of the page's end, durable. */
		ck_assert_uint_eq(d.writes, 1);
		ck_assert(d.first == start + page - 4096 && d.end == start + page);
		ck_assert(!memcmp(d.synced, d.bytes, DISK));
		only_changed(start + page - MARK, MARK);
		struct mark m = look(start);
		ck_assert(m.kind == MARK_OURS && m.page_size == page && m.swap_header && m.saved_swap_signature);
		ck_assert(id_equal(m.image, image) && id_equal(m.installation, installation) && m.place == place);
		ck_assert(id_equal(m.swap_uuid, uuid));
		ck_assert_str_eq(m.label, "my swap");
		d.writes = 0;
		ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, false), E_OK);
		ck_assert_uint_eq(d.writes, 1);
		ck_assert(!memcmp(d.bytes, before, DISK) && !memcmp(d.synced, before, DISK));
		/* Once more is nothing. */
		d.writes = 0;
		ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, false), E_OK);
		untouched();
	}
}
END_TEST

START_TEST(clear_zeroes)
{
	/* What stood there before an image is not kept: 70 zeros and the signature. */
	static const uint8_t zero[MARK - 10];
	uint8_t *p = make_swap(0, 4096);

	memset(p + 4096 - MARK, 0x77, MARK - 10);
	remember();
	ck_assert_int_eq(set(0, 4096), E_OK);
	ck_assert_int_eq(mark_clear(&d.disk, 0, scratch, image, false), E_OK);
	ck_assert(!memcmp(p + 4096 - MARK, zero, sizeof zero));
	ck_assert(!memcmp(p + 4086, "SWAPSPACE2", 10));
	only_changed(4096 - MARK, MARK);
}
END_TEST

START_TEST(set_refuses)
{
	for (int i = 0; i < 9; i++)
		for (size_t k = 1; k < sizeof signatures / sizeof signatures[0]; k++) {
			uint64_t start;
			uint32_t page;
			uint8_t *p = make_nth(i, &start, &page);

			memcpy(p + page - 10, signatures[k].signature, 10);
			remember();
			ck_assert_int_eq(set(start, page), E_FOREIGN);
			ck_assert(fault_text()[0]);
			untouched();
		}
}
END_TEST

START_TEST(set_refuses_twice)
{
	uint8_t *p = make_swap(0, 4096);

	ck_assert_int_eq(set(0, 4096), E_OK);
	remember();
	ck_assert_int_eq(set(0, 4096), E_FOREIGN);
	untouched();
	p[4096 - 40] ^= 1; /* damaged */
	remember();
	ck_assert_int_eq(set(0, 4096), E_FOREIGN);
	untouched();
}
END_TEST

START_TEST(set_refuses_other_page_size)
{
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++) {
			make_swap(0, sizes[i]);
			ck_assert_int_eq(set(0, sizes[k]), i == k ? E_OK : E_FOREIGN);
			if (i != k)
				untouched();
		}
}
END_TEST

START_TEST(set_fails)
{
	for (int i = 0; i < 9; i++)
		for (int sync = 0; sync < 2; sync++) {
			uint64_t start;
			uint32_t page;

			/* One failure: the old bytes are back, and durable. */
			make_nth(i, &start, &page);
			*(sync ? &d.fail_sync : &d.fail_write) = 1;
			d.good_again = 1;
			ck_assert_int_eq(set(start, page), E_IO);
			ck_assert(!memcmp(d.bytes, before, DISK) && !memcmp(d.synced, before, DISK));
			ck_assert_uint_ge(d.syncs, 1);
			ck_assert_uint_eq(d.writes, 2);
			ck_assert_int_eq(look(start).kind, MARK_SWAP);
			/* Two: nobody knows. */
			make_nth(i, &start, &page);
			*(sync ? &d.fail_sync : &d.fail_write) = 1;
			ck_assert_int_eq(set(start, page), E_POWER);
		}
}
END_TEST

/* ---- clearing ---- */

START_TEST(clear_foreign)
{
	for (int i = 0; i < 9; i++)
		for (size_t k = 1; k < sizeof signatures / sizeof signatures[0]; k++)
			for (int proves = 0; proves < 2; proves++) {
				uint64_t start;
				uint32_t page;
				uint8_t *p = make_nth(i, &start, &page);

				memcpy(p + page - 10, signatures[k].signature, 10);
				/* As uswsusp leaves it: where its image is, and the signature that was there. */
				memcpy(p + page - 20, "SWAPSPACE2", 10);
				remember();
				ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, proves), E_FOREIGN);
				untouched();
			}
}
END_TEST

START_TEST(clear_other_image)
{
	for (int i = 0; i < 9; i++)
		for (int b = 0; b < 16; b++) {
			uint64_t start;
			uint32_t page;
			id128 other = image;

			make_nth(i, &start, &page);
			ck_assert_int_eq(set(start, page), E_OK);
			remember();
			other.b[b] ^= 1;
			ck_assert_int_eq(mark_clear(&d.disk, start, scratch, other, false), E_FOREIGN);
			ck_assert_int_eq(mark_clear(&d.disk, start, scratch, other, true), E_FOREIGN);
			untouched();
		}
}
END_TEST

START_TEST(clear_needs_swap_header)
{
	for (int i = 0; i < 9; i++)
		for (int proves = 0; proves < 2; proves++) {
			uint64_t start;
			uint32_t page;
			uint8_t *p = make_nth(i, &start, &page);

			ck_assert_int_eq(set(start, page), E_OK);
			put_le32(p + 1024, 2);
			remember();
			ck_assert_int_eq(look(start).kind, MARK_OURS);
			ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, proves), E_FOREIGN);
			untouched();
		}
}
END_TEST

/* Makes the check hold for what stands in the mark now. */
static void seal(uint8_t *p, uint32_t page)
{
	uint8_t all[66];

	memcpy(all, p + 1036, 16);
	memcpy(all + 16, p + page - 72, 32);
	memcpy(all + 48, p + page - 28, 18);
	put_le64(p + page - 40, XXH3_64bits(all, sizeof all));
}

START_TEST(clear_needs_saved_signature)
{
	for (int i = 0; i < 9; i++)
		for (int sealed = 0; sealed < 2; sealed++)
			for (int proves = 0; proves < 2; proves++) {
				uint64_t start;
				uint32_t page;
				uint8_t *p = make_nth(i, &start, &page);

				ck_assert_int_eq(set(start, page), E_OK);
				p[page - 11] = '3';
				if (sealed)
					seal(p, page);
				remember();
				struct mark m = look(start);
				ck_assert_int_eq(m.kind, sealed ? MARK_OURS : MARK_DAMAGED);
				ck_assert(!m.saved_swap_signature);
				ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, proves), E_FOREIGN);
				untouched();
			}
}
END_TEST

/* What each bit of the mark counts for. */
static enum mark_kind kind_without(unsigned byte)
{
	if (byte < 8)
		return MARK_USWSUSP; /* no DORMOUSE: a foreign image */
	if (byte >= 48 && byte < 52)
		return MARK_OURS; /* reserved: not read */
	if (byte >= 70 && byte < 79)
		return MARK_NONE;
	return byte == 79 ? MARK_OURS : MARK_DAMAGED;
}

START_TEST(every_bit)
{
	for (int i = 0; i < 3; i++)
		for (unsigned bit = 0; bit < 8 * MARK; bit++) {
			uint8_t *p = make_swap(0, sizes[i]);
			enum mark_kind kind = kind_without(bit / 8);

			ck_assert_int_eq(set(0, sizes[i]), E_OK);
			p[sizes[i] - MARK + bit / 8] ^= (uint8_t)(1u << bit % 8);
			remember();
			struct mark m = look(0);
			ck_assert_msg(m.kind == kind, "bit %u: kind %d, not %d", bit, m.kind, kind);
			if (kind == MARK_OURS)
				continue;
			ck_assert_int_eq(mark_clear(&d.disk, 0, scratch, image, false), E_FOREIGN);
			untouched();
		}
}
END_TEST

START_TEST(damaged_but_proven)
{
	for (int i = 0; i < 9; i++) {
		uint64_t start;
		uint32_t page;
		uint8_t *p = make_nth(i, &start, &page);

		ck_assert_int_eq(set(start, page), E_OK);
		p[page - 30] = 9; /* reserved, so that it is put back too */
		p[page - 60] ^= 1;
		d.writes = 0;
		ck_assert_int_eq(look(start).kind, MARK_DAMAGED);
		ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, false), E_FOREIGN);
		ck_assert_uint_eq(d.writes, 0);
		ck_assert_int_eq(mark_clear(&d.disk, start, scratch, image, true), E_OK);
		ck_assert(!memcmp(d.bytes, before, DISK) && !memcmp(d.synced, before, DISK));
	}
}
END_TEST

START_TEST(copied_to_another_area)
{
	/* The same mark under another UUID, as when only the page's end was copied. */
	uint8_t *p = make_swap(0, 4096);

	ck_assert_int_eq(set(0, 4096), E_OK);
	p[1036] ^= 1;
	remember();
	ck_assert_int_eq(look(0).kind, MARK_DAMAGED);
	ck_assert_int_eq(mark_clear(&d.disk, 0, scratch, image, false), E_FOREIGN);
	untouched();
}
END_TEST

START_TEST(clear_fails)
{
	for (int sync = 0; sync < 2; sync++) {
		make_swap(0, 4096);
		ck_assert_int_eq(set(0, 4096), E_OK);
		remember();
		*(sync ? &d.fail_sync : &d.fail_write) = 1;
		ck_assert_int_eq(mark_clear(&d.disk, 0, scratch, image, false), E_IO);
		ck_assert(fault_text()[0]);
	}
}
END_TEST

/* ---- */

static void add_reading(TCase *t)
{
	tcase_add_test(t, every_signature);
	tcase_add_test(t, swap_header_read);
	tcase_add_test(t, header_no_good);
	tcase_add_test(t, bad_pages);
	tcase_add_test(t, past_the_end);
	tcase_add_test(t, read_errors);
}

static void add_setting(TCase *t)
{
	tcase_add_test(t, golden);
	tcase_add_test(t, check_covers);
	tcase_add_test(t, set_and_clear);
	tcase_add_test(t, clear_zeroes);
	tcase_add_test(t, set_refuses);
	tcase_add_test(t, set_refuses_twice);
	tcase_add_test(t, set_refuses_other_page_size);
	tcase_add_test(t, set_fails);
}

static void add_clearing(TCase *t)
{
	tcase_add_test(t, clear_foreign);
	tcase_add_test(t, clear_other_image);
	tcase_add_test(t, clear_needs_swap_header);
	tcase_add_test(t, clear_needs_saved_signature);
	tcase_add_test(t, every_bit);
	tcase_add_test(t, damaged_but_proven);
	tcase_add_test(t, copied_to_another_area);
	tcase_add_test(t, clear_fails);
}

static void add_case(Suite *s, const char *name, void (*add)(TCase *t))
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, open_disk, close_disk);
	tcase_set_timeout(t, 120);
	add(t);
	suite_add_tcase(s, t);
}

int main(void)
{
	Suite *s = suite_create("mark");

	add_case(s, "reading", add_reading);
	add_case(s, "setting", add_setting);
	add_case(s, "clearing", add_clearing);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
