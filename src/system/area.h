/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finding the swap area: which device, where on it, is it in use.
 * All of it runs before FREEZE and after the thaw, and in the initramfs; nothing here may be called while frozen.
 */
#ifndef DORMOUSE_SYSTEM_AREA_H
#define DORMOUSE_SYSTEM_AREA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { AREA_PATH = 256 };

/*
 * Resolves /dev/x, UUID=, LABEL=, PARTUUID=, PARTLABEL= (with or without udev's links, by libblkid and by
 * scanning /sys/class/block) or MAJOR:MINOR to a device node's path.  E_OK, E_DEVICE when there is no such device
 * now, E_CONF when @spec makes no sense.  A node missing for a known device number is looked for in /dev.
 */
int area_resolve(const char *spec, char path[AREA_PATH]);

/* area_resolve() again and again, at most @seconds; returns at once when it is there. */
int area_wait(const char *spec, unsigned seconds, char path[AREA_PATH]);

/* One line of /proc/swaps. */
enum { SWAPS_MAX = 64 }; /* as many as any kernel has */

struct swap_line {
	char path[AREA_PATH]; /* unescaped (\040) */
	bool is_file;	      /* a swap file rather than a device */
	uint64_t size_kib, used_kib;
	int priority;
};

/* Reads at most @max lines of @proc_swaps ("/proc/swaps"); the count, or -1 when it cannot be read. */
int swaps_read(const char *proc_swaps, struct swap_line *out, unsigned max);
/* Memory, not a disk. */
bool swap_is_zram(const struct swap_line *s);

/*
 * Where a swap file begins on its device: FIEMAP, or btrfs' own mapping.  Refuses holes in the header page, inline,
 * compressed, copy-on-write and unwritten extents with the cure (E_DEVICE).  @offset is in pages of @page_size.
 */
int swap_file_offset(const char *file, uint32_t page_size, dev_t *device, uint64_t *offset);

/* What the user asked for, made exact. */
struct area {
	char path[AREA_PATH]; /* the device's node */
	dev_t device;
	uint64_t start;		   /* of the area on the device, bytes */
	uint64_t size;		   /* of the device, bytes */
	bool active;		   /* swapped on now */
	bool is_file;		   /* a swap file lies there: writing the device past it goes */
	char swap_path[AREA_PATH]; /* what swapon and swapoff want: the device or the file */
	bool rotational;
};

/*
 * Finds the target of a save.  @spec: device as for area_resolve(), a swap file's path, or "" = the kernel's
 * resume= (/proc/cmdline), else the active swap with the highest priority that is no zram, no loop, no zvol, no
 * swap keyed from /dev/urandom (see area_key()).
 * @offset in pages of @page_size, used when @offset_set.  E_OK, E_DEVICE or E_CONF with the cure.
 * Refuses a configured offset at which no swap header stands, naming the right one when it can be found.
 */
int area_find(const char *spec, bool offset_set, uint64_t offset, uint32_t page_size, struct area *out);

/*
 * What @a's device is called at every boot: /dev/mapper/NAME, else UUID= of the swap area or of the file system that
 * holds a swap file, else PARTUUID=, else the node's path as it is now.
 */
void area_name(const struct area *a, char name[AREA_PATH]);

/* E_OK too when it is on already, which leaves @switched false: whoever switched it on may switch it off. */
int area_swapon(const struct area *a, bool *switched);
int area_swapoff(const struct area *a);

/*
 * Refuses (E_DEVICE with the cure) devices that vanish or hang while tasks are frozen: loop, nbd, ublk, zram, zvol,
 * iSCSI by user space, walked through /sys/dev/block/M:m/slaves.
 */
int area_check_stack(dev_t device);

/* How long the key lasts under which @device lies, as far as can be told; @mapping gets the name of the worst. */
enum { AREA_MAPPING = 128 };
enum area_key {
	AREA_KEY_KEPT,	 /* none, or LUKS */
	AREA_KEY_PLAIN,	 /* plain dm-crypt: the key is kept nowhere, so nobody knows */
	AREA_KEY_RANDOM, /* crypttab makes a new one at each boot */
};
enum area_key area_key(const char *root, dev_t device, char mapping[AREA_MAPPING]);

/*
 * E_MOUNTED with the mount point and device in fault_text() when any file system on a block device is mounted
 * (read-only too; by its source; squashfs, erofs, iso9660, udf pass), or a zpool is imported.
 * @mountinfo: "/proc/self/mountinfo".
 */
int mounts_check(const char *mountinfo);

#endif
