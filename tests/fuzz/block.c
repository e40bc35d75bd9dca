/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One block: record, check, decoder.  The input: two bytes of the block's number, its record, its payload. */
#include "fuzz.h"

#include "base/arena.h"
#include "base/error.h"
#include "image/block.h"

#include <string.h>

enum { BLOCK = 64 << 10 };

static struct arena arena;
static struct block_job job;
static struct block_worker worker;

static void carve(void)
{
	block_job_carve(&job, &arena, BLOCK);
	worker.size = codec_unpack_memory();
	worker.memory = arena_take(&arena, worker.size, 64);
}

static void start(void)
{
	arena_count(&arena);
	carve();
	size_t size = arena.used;
	fuzz_must(arena_open(&arena, size, 0) == E_OK);
	carve();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const id128 image;

	if (size < 2 + BLOCK_RECORD)
		return 0;
	if (!arena.base)
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
	memset(job.packed, 0, job.record.stored);
	memcpy(job.packed, data, size < job.record.stored ? size : job.record.stored);
	/* Each codec, whichever the record names: a fuzzer would need long to learn them all. */
	for (uint8_t codec = 0; codec < CODEC_COUNT; codec++) {
		job.record.codec = codec;
		memset(job.raw + raw, 0xa5, BLOCK - raw);
		block_unpack(&job, &worker, image);
		for (uint32_t at = raw; at < BLOCK && at < raw + 64; at++)
			fuzz_must(job.raw[at] == 0xa5);
		fault_clear();
	}
	return 0;
}
