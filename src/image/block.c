/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "image/block.h"

#include "base/error.h"

enum { PROBE_LEVEL = 8 /* lz4's acceleration */ };

void block_job_carve(struct block_job *j, struct arena *a, uint32_t block_size)
{
	j->raw = arena_take(a, block_size, 4096);
	j->packed = arena_take(a, codec_room(block_size), 64);
}

int block_worker_open(struct block_worker *w, const struct rung *rung, uint32_t block_size)
{
	int r = rung->codec->pack_open(w->memory, w->size, rung->level, block_size);

	w->ready = r == E_OK ? rung : NULL;
	return r;
}

int block_pack(struct block_job *j, struct block_worker *w, const struct rung *rung, uint32_t block_size, id128 image)
{
	struct block_record *b = &j->record;

	if (w->ready != rung) {
		int r = block_worker_open(w, rung, block_size);
		if (r != E_OK)
			return r;
	}
	size_t n = rung->codec->pack(w->memory, rung->level, j->raw, b->raw, j->packed, b->raw - 1);
	b->codec = n ? rung->codec->id : CODEC_NONE;
	b->stored = n ? (uint32_t)n : b->raw;
	b->level = n ? (uint16_t)rung->level : 0;
	b->flags = 0;
	w->dense = !n && (w->dense || rung->codec != &codec_none);
	j->payload = n ? j->packed : j->raw;
	if (!w->seal) {
		block_record_put(j->bytes, b, j->payload, image);
		return E_OK;
	}
	const uint8_t *in = j->payload;
	j->payload = j->packed;
	return seal_block(w->seal, w->context, b, in, j->packed, j->bytes);
}

size_t block_probe_memory(uint32_t block_size)
{
	return codec_built_in(&codec_lz4) ? codec_lz4.pack_memory(PROBE_LEVEL, block_size) : 0;
}

bool block_dense(struct block_job *j, struct block_worker *w)
{
	uint32_t raw = j->record.raw;

	return w->dense && w->probe && !codec_lz4.pack(w->probe, PROBE_LEVEL, j->raw, raw, j->packed, raw - raw / 32);
}

int block_unpack(struct block_job *j, struct block_worker *w, id128 image)
{
	const struct block_record *b = &j->record;
	int r = w->seal ? seal_unblock(w->seal, w->context, b, j->bytes, j->packed)
			: block_payload_check(j->bytes, j->packed, b->stored, b->number, image);

	if (r != E_OK)
		return r;
	const struct codec *c = codec_by_id(b->codec);
	if (!c || !codec_built_in(c))
		return fault(E_UNSUPPORTED, 0, "block %llu is packed with %s, which this program was built without",
			     (unsigned long long)b->number, c ? c->name : "an unknown codec");
	if (!c->unpack(w->memory, w->size, j->packed, b->stored, j->raw, b->raw))
		return fault(E_CORRUPT, 0, "block %llu does not expand to its length", (unsigned long long)b->number);
	return E_OK;
}
