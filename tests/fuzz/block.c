/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One block: record, check or seal, decoder.  The input: two bytes of the block's number, its record, its payload. */
#include "fuzz.h"

#include "base/error.h"
#include "image/block.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK = 64 << 10, GUARD = 64 << 10 /* as large a page as there is */ };

static uint8_t *raw_end, *packed_end;
static struct block_job job;
static struct block_worker worker;
static struct seal seal;

/* The end of a block's room; what lies behind it is not to be touched, not even by a library without sanitizers. */
static uint8_t *room_end(void)
{
	uint8_t *room =
		mmap(NULL, BLOCK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	fuzz_must(room != MAP_FAILED && mprotect(room + BLOCK, GUARD, PROT_NONE) == 0);
	return room + BLOCK;
}

/* A seal with some key, so that a tag is looked at; without encryption there is none. */
static void start_seal(void)
{
	static const struct bytes key = {"the bytes of a key file", 23};
	static const uint8_t header[RECORD_PAGE];
	struct recipient to;
	struct header h = {0};

	if (recipient_from_key_bytes(&to, CIPHER_OCB, key) == E_OK) {
		fuzz_must(seal_prepare(&seal, &to, 0) == E_OK && seal_new_key(&seal, &h) == E_OK);
		seal_header(&seal, header, 1);
	}
	fault_clear();
}

static void start(void)
{
	raw_end = room_end();
	packed_end = room_end();
	worker.size = codec_unpack_memory();
	worker.memory = aligned_alloc(64, (worker.size + 63) / 64 * 64);
	fuzz_must(worker.memory != NULL);
	start_seal();
}

static void put_payload(const uint8_t *data, size_t size)
{
	uint32_t stored = job.record.stored;
	size_t n = size < stored ? size : stored;

	job.packed = packed_end - stored;
	memcpy(job.packed, data, n);
	memset(job.packed + n, 0, stored - n);
}

/* Nobody seals by chance: what is not sealed is refused. */
static void try_sealed(void)
{
	static const id128 image;

	worker.seal = &seal;
	fuzz_must(block_unpack(&job, &worker, image) == E_CORRUPT);
	worker.seal = NULL;
	fault_clear();
}

FUZZ_TARGET(block)
{
	static const id128 image;

	if (size < 2 + BLOCK_RECORD)
		return 0;
	if (!raw_end)
		start();
	uint64_t number = (uint64_t)(data[0] | data[1] << 8);
	memcpy(job.bytes, data + 2, BLOCK_RECORD);
	data += 2 + BLOCK_RECORD;
	size -= 2 + BLOCK_RECORD;
	uint32_t raw = (uint32_t)(job.bytes[4] | job.bytes[5] << 8 | job.bytes[6] << 16);
	if (raw > BLOCK || block_record_get(&job.record, job.bytes, number, raw) != E_OK ||
	    job.record.codec == CODEC_CLOSING) {
		fault_clear();
		return 0;
	}
	fuzz_must(job.record.stored <= raw);
	job.raw = raw_end - raw;
	put_payload(data, size);
	/* Each codec, whichever the record names, and one that there is not: a fuzzer would need long to learn all. */
	for (uint8_t codec = 0; codec <= CODEC_COUNT; codec++) {
		job.record.codec = codec;
		block_unpack(&job, &worker, image);
		fault_clear();
	}
	if (seal.contexts)
		try_sealed();
	return 0;
}
