/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fingerprint of a file system that anybody may have made.  The input: its type, then its first bytes. */
#include "fuzz.h"

#include "base/error.h"
#include "system/fingerprint-fs.h"

#include <string.h>

static uint8_t window[FS_WINDOW], gathered[FS_GATHER];

static int read_bytes(const struct fs_reader *r, void *buf, size_t len, uint64_t at)
{
	const uint8_t *bytes = r->ctx;

	fuzz_must(at % FS_UNIT == 0 && at <= r->size && len <= r->size - at + FS_UNIT);
	memset(buf, 0, len);
	memcpy(buf, bytes + at, len < r->size - at ? len : r->size - at);
	return E_OK;
}

FUZZ_TARGET(filesystem)
{
	static const char *const types[] = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "zonefs"};
	struct fingerprint f = {0};

	if (size < 2)
		return 0;
	const char *type = types[data[0] % (sizeof types / sizeof types[0])];
	struct fs_reader r = {
		.read = read_bytes, .ctx = data + 1, .size = size - 1, .window = window, .gathered = gathered};
	fs_fingerprint(&r, type, &f);
	fuzz_must(r.gathered_len <= sizeof gathered);
	fault_clear();
	return 0;
}
