/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/swapfile.h"

#include "base/bytes.h"
#include "base/error.h"
#include "system/area.h"
#include "system/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { EXTENTS = 128, SEARCH_BYTES = 64 << 10, CHUNK_FIXED = 48, CHUNK_STRIPE = 32 };

static const char remake[] = "make it anew with fallocate (or dd), chmod 600 and mkswap";
static const char remake_btrfs[] = "make it anew with `btrfs filesystem mkswapfile'";

/* Extents */

const char *swap_extent_objection(const struct fiemap_extent *e, uint32_t page_size)
{
	bool first = !e->fe_logical;

	if (e->fe_flags & FIEMAP_EXTENT_DATA_INLINE)
		return "its data lies inside the file system's own blocks";
	if (e->fe_flags & (FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED))
		return "it is compressed or encrypted";
	if (e->fe_flags & FIEMAP_EXTENT_SHARED)
		return "it shares blocks with another file or a snapshot";
	if (e->fe_flags & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC))
		return "it has no place on disk yet";
	if (!first)
		return NULL;
	if (e->fe_flags & FIEMAP_EXTENT_UNWRITTEN)
		return "its first page was never written";
	if (e->fe_flags & FIEMAP_EXTENT_NOT_ALIGNED)
		return "it does not begin at a block's start";
	if (e->fe_length < page_size)
		return "its first page is not in one piece";
	return NULL;
}

/* Looks at the extents of one answer; *at moves behind them, *last is set at the end of the file. */
static int check_extents(const struct fiemap *map, const char *file, uint32_t page_size, uint64_t *at, bool *last,
			 uint64_t *start)
{
	for (unsigned i = 0; i < map->fm_mapped_extents; i++) {
		const struct fiemap_extent *e = &map->fm_extents[i];
		const char *why = swap_extent_objection(e, page_size);
		if (why)
			return fault(E_DEVICE, 0, "%s is no use as a swap file: %s; %s", file, why, remake);
		if (!e->fe_logical)
			*start = e->fe_physical;
		*last = e->fe_flags & FIEMAP_EXTENT_LAST || e->fe_logical + e->fe_length <= *at;
		*at = e->fe_logical + e->fe_length;
	}
	return E_OK;
}

static int read_extents(fiemap_call get, void *ctx, const char *file, uint32_t page_size, struct fiemap *map,
			uint64_t *start)
{
	uint64_t at = 0;
	bool last = false;
	int code = E_OK;

	while (!last && code == E_OK) {
		memset(map, 0, sizeof *map + EXTENTS * sizeof map->fm_extents[0]);
		map->fm_start = at;
		map->fm_length = FIEMAP_MAX_OFFSET - at;
		map->fm_flags = at ? 0 : FIEMAP_FLAG_SYNC;
		map->fm_extent_count = EXTENTS;
		if (get(ctx, map))
			return fault(E_DEVICE, errno, "%s: its file system does not tell where files lie; use another",
				     file);
		if (!at && (!map->fm_mapped_extents || map->fm_extents[0].fe_logical))
			return fault(E_DEVICE, 0, "%s has a hole where its header belongs; %s", file, remake);
		if (!map->fm_mapped_extents)
			return E_OK;
		code = check_extents(map, file, page_size, &at, &last, start);
	}
	return code;
}

int swap_extents_start(fiemap_call get, void *ctx, const char *file, uint32_t page_size, uint64_t *start)
{
	struct fiemap *map = calloc(1, sizeof *map + EXTENTS * sizeof map->fm_extents[0]);
	int code;

	if (!map)
		return fault(E_MEMORY, 0, "no memory to look at %s", file);
	code = read_extents(get, ctx, file, page_size, map, start);
	free(map);
	return code;
}

static int ask_fiemap(void *ctx, struct fiemap *map)
{
	return ioctl(*(const int *)ctx, FS_IOC_FIEMAP, map);
}

static int first_byte(int fd, const char *file, uint32_t page_size, uint64_t *start)
{
	return swap_extents_start(ask_fiemap, &fd, file, page_size, start);
}

/* btrfs: FIEMAP gives logical addresses, the chunk tree says where they are. */

int btrfs_chunk_get(struct btrfs_chunk_place *out, uint64_t logical, const uint8_t *item, size_t len)
{
	if (len < CHUNK_FIXED + CHUNK_STRIPE)
		return fault(E_IO, 0, "btrfs: a chunk item of only %zu bytes", len);
	*out = (struct btrfs_chunk_place){
		.logical = logical,
		.length = get_le64(item),
		.profile = get_le64(item + 24) & (BTRFS_BLOCK_GROUP_PROFILE_MASK),
		.stripes = get_le16(item + 44),
		.device_id = get_le64(item + CHUNK_FIXED),
		.physical = get_le64(item + CHUNK_FIXED + 8),
	};
	return E_OK;
}

int btrfs_chunk_map(const struct btrfs_chunk_place *c, uint64_t logical, uint64_t *physical)
{
	if (c->profile || c->stripes != 1)
		return fault(E_DEVICE, 0,
			     "the file system keeps data in more than one place (RAID or DUP); "
			     "use a swap partition, or a btrfs with the profile single");
	if (logical - c->logical >= c->length)
		return fault(E_IO, 0, "btrfs: no chunk holds the logical address %llu", (unsigned long long)logical);
	*physical = c->physical + (logical - c->logical);
	return E_OK;
}

/* Fills @args with chunk items from key offset @from to @to. */
static int search_chunks(int fd, struct btrfs_ioctl_search_args_v2 *args, uint64_t from, uint64_t to)
{
	memset(args, 0, sizeof *args);
	args->key = (struct btrfs_ioctl_search_key){
		.tree_id = BTRFS_CHUNK_TREE_OBJECTID,
		.min_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
		.max_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
		.min_type = BTRFS_CHUNK_ITEM_KEY,
		.max_type = BTRFS_CHUNK_ITEM_KEY,
		.min_offset = from,
		.max_offset = to,
		.max_transid = UINT64_MAX,
		.nr_items = UINT32_MAX,
	};
	args->buf_size = SEARCH_BYTES;
	if (!ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, args))
		return E_OK;
	if (errno == EPERM)
		return fault(E_PRIVILEGE, 0, "btrfs shows its chunk tree to root only");
	return fault(E_IO, errno, "btrfs: the chunk tree cannot be searched");
}

/* The last chunk that begins at or before @logical. */
static int find_chunk(int fd, struct btrfs_ioctl_search_args_v2 *args, uint64_t logical, struct btrfs_chunk_place *out)
{
	struct btrfs_ioctl_search_header h = {0};
	uint64_t from = 0;
	bool found = false;
	int code;

	while ((code = search_chunks(fd, args, from, logical)) == E_OK && args->key.nr_items) {
		const uint8_t *at = (const uint8_t *)args->buf;
		for (uint32_t i = 0; i < args->key.nr_items && code == E_OK; i++) {
			memcpy(&h, at, sizeof h);
			code = btrfs_chunk_get(out, h.offset, at + sizeof h, h.len);
			at += sizeof h + h.len;
		}
		if (code != E_OK)
			return code;
		found = true;
		if (h.offset >= logical)
			break;
		from = h.offset + 1;
	}
	if (code == E_OK && !found)
		return fault(E_IO, 0, "btrfs: no chunk holds the logical address %llu", (unsigned long long)logical);
	return code;
}

static int logical_to_physical(int fd, uint64_t *address, uint64_t *device_id)
{
	struct btrfs_ioctl_search_args_v2 *args = calloc(1, sizeof *args + SEARCH_BYTES);
	struct btrfs_chunk_place chunk = {.length = 0};
	int code;

	if (!args)
		return fault(E_MEMORY, 0, "no memory to search the btrfs chunk tree");
	code = find_chunk(fd, args, *address, &chunk);
	if (code == E_OK)
		code = btrfs_chunk_map(&chunk, *address, address);
	if (code == E_OK)
		*device_id = chunk.device_id;
	free(args);
	return code;
}

static int btrfs_device(int fd, uint64_t device_id, dev_t *device)
{
	struct btrfs_ioctl_fs_info_args fs = {0};
	struct btrfs_ioctl_dev_info_args dev = {.devid = device_id};
	struct stat st;

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &fs) || ioctl(fd, BTRFS_IOC_DEV_INFO, &dev))
		return fault(E_DEVICE, errno, "btrfs does not name its device");
	if (fs.num_devices != 1)
		return fault(E_DEVICE, 0,
			     "the file system lies on %llu devices; use a swap partition, or a btrfs on one",
			     (unsigned long long)fs.num_devices);
	if (stat((const char *)dev.path, &st) || !S_ISBLK(st.st_mode))
		return fault(E_DEVICE, errno, "the device %.100s of the btrfs is not there", (const char *)dev.path);
	*device = st.st_rdev;
	return E_OK;
}

static int check_nocow(int fd, const char *file)
{
	int flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags))
		return fault(E_DEVICE, errno, "%s: its flags cannot be read", file);
	if (!(flags & FS_NOCOW_FL))
		return fault(E_DEVICE, 0, "%s is copy-on-write, so it moves; %s", file, remake_btrfs);
	return E_OK;
}

static int btrfs_place(int fd, const char *file, uint64_t *address, dev_t *device)
{
	uint64_t device_id = 0;
	int code = check_nocow(fd, file);

	if (code == E_OK)
		code = logical_to_physical(fd, address, &device_id);
	if (code == E_OK)
		code = btrfs_device(fd, device_id, device);
	return code;
}

/* Others: the device the file system says it lies on. */

static bool on_realtime_device(int fd)
{
	struct fsxattr x;

	return !ioctl(fd, FS_IOC_FSGETXATTR, &x) && (x.fsx_xflags & FS_XFLAG_REALTIME);
}

static int plain_place(int fd, const char *file, const struct stat *st, dev_t *device)
{
	if (!major(st->st_dev))
		return fault(E_DEVICE, 0,
			     "%s does not lie on a block device of its own (overlay, tmpfs, network, ZFS); "
			     "put it on ext4, XFS or btrfs, or use a swap partition",
			     file);
	if (on_realtime_device(fd))
		return fault(E_DEVICE, 0, "%s lies on the realtime device of an XFS; put it elsewhere", file);
	*device = st->st_dev;
	return E_OK;
}

static int check_plain_file(int fd, const char *file, uint32_t page_size, struct stat *st)
{
	if (fstat(fd, st))
		return fault(E_DEVICE, errno, "%s", file);
	if (!S_ISREG(st->st_mode))
		return fault(E_DEVICE, 0, "%s is no file; a swap partition needs no offset", file);
	if ((uint64_t)st->st_size < 10 * (uint64_t)page_size)
		return fault(E_DEVICE, 0, "%s is too small for swap; %s", file, remake);
	return E_OK;
}

static int place_of(int fd, const char *file, uint32_t page_size, dev_t *device, uint64_t *address)
{
	struct statfs fs;
	struct stat st;
	int code = check_plain_file(fd, file, page_size, &st);

	if (code != E_OK)
		return code;
	if (fstatfs(fd, &fs))
		return fault(E_DEVICE, errno, "%s", file);
	bool btrfs = (uint32_t)fs.f_type == BTRFS_SUPER_MAGIC;
	if (!btrfs) {
		code = plain_place(fd, file, &st, device);
		return code == E_OK ? first_byte(fd, file, page_size, address) : code;
	}
	code = first_byte(fd, file, page_size, address);
	return code == E_OK ? btrfs_place(fd, file, address, device) : code;
}

int swap_file_offset(const char *file, uint32_t page_size, dev_t *device, uint64_t *offset)
{
	uint64_t address = 0;
	int code, fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return fault(errno == EACCES || errno == EPERM ? E_PRIVILEGE : E_DEVICE, errno, "%.200s", file);
	code = place_of(fd, file, page_size, device, &address);
	close(fd);
	if (code != E_OK)
		return code;
	if (address % page_size)
		return fault(E_DEVICE, 0,
			     "%s begins at byte %llu, inside a page of %u bytes; use a file system with blocks "
			     "of a whole page",
			     file, (unsigned long long)address, page_size);
	*offset = address / page_size;
	return E_OK;
}
