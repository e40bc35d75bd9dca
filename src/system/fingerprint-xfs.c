/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XFS writes its superblock seldom and its log always, so the log's head is
 * what tells one mount from the next.  Offsets: struct xfs_dsb and struct
 * xlog_rec_header of fs/xfs/libxfs, big-endian.
 */
#include "system/fingerprint-fs.h"

#include "base/bytes.h"
#include "base/error.h"

#include <string.h>

enum {
	SB_BYTES = 512,
	SB_BLOCKSIZE = 4,
	SB_UUID = 32,
	SB_LOGSTART = 48,
	SB_AGBLOCKS = 84,
	SB_LOGBLOCKS = 96,
	SB_AGBLKLOG = 124,
	LOG_BLOCK = 512,
	LOG_MAGIC = 0xFEEDbabe,
	AROUND = 32 << 10, /* hashed before the head, and again from it on */
};

static int read_cycle(struct fs_reader *r, uint64_t start, uint32_t block, uint32_t *cycle)
{
	const uint8_t *b;
	int code = fs_read(r, start + (uint64_t)block * LOG_BLOCK, 8, &b);

	if (code == E_OK)
		*cycle = get_be32(b) == (uint32_t)LOG_MAGIC ? get_be32(b + 4) : get_be32(b);
	return code;
}

/*
 * As the kernel's xlog_find_head() begins: the log is written round and round, each block stamped with the number of
 * the round, so the blocks of this round come first and the head is where the last one's begin.
 */
int xfs_log_head(struct fs_reader *r, uint64_t start, uint32_t blocks, uint32_t *head)
{
	uint32_t first, last, cycle, low = 0, high = blocks - 1;
	int code = read_cycle(r, start, 0, &first);

	if (code == E_OK)
		code = read_cycle(r, start, high, &last);
	if (code != E_OK)
		return code;
	*head = blocks;
	if (first == last)
		return E_OK;
	/* low is not of the last block's cycle, high is */
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		code = read_cycle(r, start, middle, &cycle);
		if (code != E_OK)
			return code;
		if (cycle == last)
			high = middle;
		else
			low = middle;
	}
	*head = high;
	return E_OK;
}

/* @len bytes of the log from @from on, round its end. */
static int gather_round(struct fs_reader *r, uint64_t start, uint64_t size, uint64_t from, uint64_t len)
{
	uint64_t straight = min_u64(len, size - from);
	int code = fs_gather(r, start + from, straight);

	return code == E_OK && straight < len ? fs_gather(r, start, len - straight) : code;
}

static int gather_log(struct fs_reader *r, uint64_t start, uint64_t size)
{
	uint64_t len = min_u64(2 * AROUND, size);
	uint32_t head;
	int code = xfs_log_head(r, start, (uint32_t)(size / LOG_BLOCK), &head);

	if (code != E_OK)
		return code;
	return gather_round(r, start, size, ((uint64_t)head * LOG_BLOCK + size - len / 2) % size, len);
}

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

/* Where the log lies.  False when the superblock makes no sense; size 0 when the log is on another device. */
static bool find_log(const uint8_t *sb, uint64_t *start, uint64_t *size)
{
	uint32_t block = get_be32(sb + SB_BLOCKSIZE), group_blocks = get_be32(sb + SB_AGBLOCKS);
	uint64_t at = get_be64(sb + SB_LOGSTART), group;
	unsigned shift = sb[SB_AGBLKLOG];

	if (!is_power_of_two(block) || block < LOG_BLOCK || block > 65536 || !group_blocks || shift > 31)
		return false;
	*size = at ? (uint64_t)get_be32(sb + SB_LOGBLOCKS) * block : 0;
	group = at >> shift;
	if (group > UINT32_MAX || *size / LOG_BLOCK > UINT32_MAX / 2 || (at && !*size))
		return false;
	*start = (group * group_blocks + (at & ((UINT64_C(1) << shift) - 1))) * block;
	return *start <= INT64_MAX;
}

int fs_gather_xfs(struct fs_reader *r, id128 *uuid)
{
	uint64_t start, size;
	const uint8_t *sb;
	int code = fs_read(r, 0, SB_BYTES, &sb);

	if (code != E_OK)
		return code;
	if (memcmp(sb, "XFSB", 4) || !find_log(sb, &start, &size))
		return E_NOIMAGE;
	memcpy(uuid->b, sb + SB_UUID, sizeof uuid->b);
	code = fs_gather(r, 0, SB_BYTES);
	return code == E_OK && size ? gather_log(r, start, size) : code;
}
