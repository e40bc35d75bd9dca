/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/fingerprint-fs.h"

#include "base/bytes.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum {
	EXT_AT = 1024,
	EXT_BYTES = 1024,
	EXT_MAGIC = 56,
	EXT_UUID = 104,

	BTRFS_AT = 65536,
	BTRFS_BYTES = 4096,
	BTRFS_FSID = 32,
	BTRFS_MAGIC_AT = 64,

	F2FS_AT = 1024,
	F2FS_BYTES = 3072,
	F2FS_LOG_BLOCK = 16,
	F2FS_LOG_SEGMENT = 20,
	F2FS_CHECKPOINT = 76,
	F2FS_UUID = 108,

	FAT_SECTOR = 11,
	FAT_CLUSTER = 13,
	FAT_RESERVED = 14,
	FAT_COUNT = 16,
	FAT_MEDIA = 21,
	FAT16_SIZE = 22,
	FAT16_ID = 39,
	FAT32_ID = 67,
};

#define F2FS_MAGIC 0xF2F52010u

/* Reading and gathering */

int fs_read(struct fs_reader *r, uint64_t at, size_t len, const uint8_t **out)
{
	uint64_t from = at / FS_UNIT * FS_UNIT;
	int code;

	if (len > FS_PIECE || at > r->size || len > r->size - at)
		return E_NOIMAGE;
	code = len ? r->read(r, r->window, (size_t)(round_up(at + len, FS_UNIT) - from), from) : E_OK;
	*out = r->window + (at - from);
	return code;
}

int fs_gather(struct fs_reader *r, uint64_t at, size_t len)
{
	const uint8_t *bytes;
	int code;

	if (r->gathered_len + len > FS_GATHER)
		return fault(E_INTERNAL, 0, "a fingerprint of more than %d bytes", FS_GATHER);
	code = fs_read(r, at, len, &bytes);
	if (code != E_OK)
		return code;
	memcpy(r->gathered + r->gathered_len, bytes, len);
	r->gathered_len += len;
	return E_OK;
}

/* The types */

static int gather_ext(struct fs_reader *r, id128 *uuid)
{
	const uint8_t *sb;
	int code = fs_read(r, EXT_AT, EXT_BYTES, &sb);

	if (code != E_OK)
		return code;
	if (get_le16(sb + EXT_MAGIC) != 0xEF53)
		return E_NOIMAGE;
	memcpy(uuid->b, sb + EXT_UUID, sizeof uuid->b);
	return fs_gather(r, EXT_AT, EXT_BYTES);
}

static int gather_btrfs(struct fs_reader *r, id128 *uuid)
{
	const uint8_t *sb;
	int code = fs_read(r, BTRFS_AT, BTRFS_BYTES, &sb);

	if (code != E_OK)
		return code;
	if (memcmp(sb + BTRFS_MAGIC_AT, "_BHRfS_M", 8))
		return E_NOIMAGE;
	memcpy(uuid->b, sb + BTRFS_FSID, sizeof uuid->b);
	return fs_gather(r, BTRFS_AT, BTRFS_BYTES);
}

/* Two checkpoint packs, a segment apart, are written by turns. */
static int gather_f2fs(struct fs_reader *r, id128 *uuid)
{
	uint32_t log_block, log_segment;
	uint64_t first, second;
	const uint8_t *sb;
	int code = fs_read(r, F2FS_AT, F2FS_BYTES, &sb);

	if (code != E_OK)
		return code;
	log_block = get_le32(sb + F2FS_LOG_BLOCK);
	log_segment = get_le32(sb + F2FS_LOG_SEGMENT);
	if (get_le32(sb) != F2FS_MAGIC || log_block < 12 || log_block > 16 || log_segment > 20)
		return E_NOIMAGE;
	memcpy(uuid->b, sb + F2FS_UUID, sizeof uuid->b);
	first = (uint64_t)get_le32(sb + F2FS_CHECKPOINT) << log_block;
	second = first + (UINT64_C(1) << (log_block + log_segment));
	code = fs_gather(r, F2FS_AT, F2FS_BYTES);
	if (code == E_OK)
		code = fs_gather(r, first, 4096);
	return code == E_OK ? fs_gather(r, second, 4096) : code;
}

static bool is_fat(const uint8_t *b)
{
	uint32_t sector = get_le16(b + FAT_SECTOR), cluster = b[FAT_CLUSTER];

	return get_le16(b + 510) == 0xAA55 && (sector == 512 || sector == 1024 || sector == 2048 || sector == 4096) &&
	       cluster && !(cluster & (cluster - 1)) && get_le16(b + FAT_RESERVED) &&
	       (b[FAT_COUNT] == 1 || b[FAT_COUNT] == 2) && b[FAT_MEDIA] >= 0xF0;
}

static int gather_fat(struct fs_reader *r, id128 *uuid)
{
	const uint8_t *b;
	uint32_t sector;
	uint64_t table;
	int code = fs_read(r, 0, 512, &b);

	if (code != E_OK)
		return code;
	if (!is_fat(b))
		return E_NOIMAGE;
	memcpy(uuid->b, b + (get_le16(b + FAT16_SIZE) ? FAT16_ID : FAT32_ID), 4);
	sector = get_le16(b + FAT_SECTOR);
	table = (uint64_t)get_le16(b + FAT_RESERVED) * sector;
	code = fs_gather(r, 0, 512);
	return code == E_OK ? fs_gather(r, table, sector) : code;
}

static const struct {
	const char *type;
	int (*gather)(struct fs_reader *r, id128 *uuid);
	uint32_t flags;
} types[] = {
	{"xfs", fs_gather_xfs, 0},
	{"ext4", gather_ext, 0},
	{"btrfs", gather_btrfs, 0},
	{"f2fs", gather_f2fs, 0},
	{"vfat", gather_fat, FINGERPRINT_WARN},
};

static int take_known(struct fs_reader *r, size_t i, struct fingerprint *out)
{
	int code;

	memset(out->uuid.b, 0, sizeof out->uuid.b);
	r->gathered_len = 0;
	code = types[i].gather(r, &out->uuid);
	if (code != E_OK)
		return code;
	snprintf(out->type, sizeof out->type, "%s", types[i].type);
	out->flags = types[i].flags;
	out->hash = XXH3_64bits(r->gathered, r->gathered_len);
	return E_OK;
}

static int take_other(struct fs_reader *r, const char *type, struct fingerprint *out)
{
	int code;

	memset(out->uuid.b, 0, sizeof out->uuid.b);
	r->gathered_len = 0;
	code = fs_gather(r, 0, (size_t)min_u64(FS_PIECE, r->size));
	if (code != E_OK)
		return code;
	snprintf(out->type, sizeof out->type, "%.16s", type);
	out->flags = 0;
	out->hash = XXH3_64bits(r->gathered, r->gathered_len);
	return E_OK;
}

/* ext2, ext3 and ext4 are one, and so are the kernel's names for FAT. */
static const char *canonical(const char *type)
{
	if (!strcmp(type, "ext2") || !strcmp(type, "ext3"))
		return "ext4";
	return strcmp(type, "msdos") ? type : "vfat";
}

int fs_fingerprint(struct fs_reader *r, const char *want, struct fingerprint *out)
{
	int code;

	memset(out, 0, sizeof *out);
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		if (want && strcmp(canonical(want), types[i].type))
			continue;
		code = take_known(r, i, out);
		if (code != E_NOIMAGE || want)
			return code;
	}
	return take_other(r, want ? want : "unknown", out);
}
