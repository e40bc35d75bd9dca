/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of swap_file_offset() that tests reach without a file system. */
#ifndef DORMOUSE_SYSTEM_SWAPFILE_H
#define DORMOUSE_SYSTEM_SWAPFILE_H

#include <stddef.h>
#include <stdint.h>

struct fiemap;
struct fiemap_extent;

/* FS_IOC_FIEMAP on a file: 0, or -1 with errno. */
typedef int (*fiemap_call)(void *ctx, struct fiemap *map);

/* The first byte's physical address, once all extents were found to be of use; as swap_file_offset(). */
int swap_extents_start(fiemap_call get, void *ctx, const char *file, uint32_t page_size, uint64_t *start);

/* Why a swap file's extent is unusable, with the cure, or NULL.  The first holds the header page. */
const char *swap_extent_objection(const struct fiemap_extent *e, uint32_t page_size);

/* One chunk of a btrfs: where its logical addresses lie. */
struct btrfs_chunk_place {
	uint64_t logical, length, profile, device_id, physical;
	uint16_t stripes;
};

/* Reads a chunk item of @len bytes for the key offset @logical.  E_OK or E_IO. */
int btrfs_chunk_get(struct btrfs_chunk_place *out, uint64_t logical, const uint8_t *item, size_t len);

/* E_OK and the physical address, or E_DEVICE with the cure for profiles that keep data in several places. */
int btrfs_chunk_map(const struct btrfs_chunk_place *c, uint64_t logical, uint64_t *physical);

#endif
