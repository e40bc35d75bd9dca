/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel as hibernation sees it: /dev/snapshot's calls and the power
 * switch.  A table of functions, so that tests stand in for the kernel and not
 * for the logic.
 *
 * One thread at a time may use it: while one is inside readv(), another's call
 * can fail with EBUSY.
 */
#ifndef DORMOUSE_SYSTEM_KERNEL_H
#define DORMOUSE_SYSTEM_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum kernel_call {
	KERNEL_FREEZE,
	KERNEL_UNFREEZE,       /* does nothing while an image exists */
	KERNEL_CREATE_IMAGE,   /* *out: 1 in the system that made it, 0 in the restored one */
	KERNEL_ATOMIC_RESTORE, /* returns only when it failed */
	KERNEL_FREE_IMAGE,
	KERNEL_FREE_SWAP_PAGES,
	KERNEL_SET_SWAP_AREA, /* in: device number, *out (read): offset in pages */
	KERNEL_IMAGE_SIZE,    /* *out: bytes */
	KERNEL_PREF_SIZE,     /* in: bytes; overwrites /sys/power/image_size */
	KERNEL_PLATFORM,      /* in: 1 = power off through the firmware's S4 */
	KERNEL_POWER_OFF,     /* S4; returns only when refused */
	KERNEL_S2RAM,	      /* suspends to RAM with the image kept; returns when woken, or refused */
	KERNEL_ALLOC_PAGE,    /* *out: byte offset on the device */
	KERNEL_AVAIL_SWAP,    /* *out: bytes */
	KERNEL_REBOOT,	      /* in: enum shutdown_method (poweroff or reboot); returns only when refused */
	KERNEL_PAUSE,	      /* sleeps for in nanoseconds */
	KERNEL_CALLS,
};

struct kernel;

struct kernel_ops {
	/* 0 or an errno value. */
	int (*call)(struct kernel *k, enum kernel_call c, uint64_t in, uint64_t *out);
	/* As readv(2) and writev(2); -1 with errno. */
	ssize_t (*readv)(struct kernel *k, const struct iovec *v, int n);
	ssize_t (*writev)(struct kernel *k, const struct iovec *v, int n);
};

struct kernel {
	const struct kernel_ops *ops;
};

/* The name used in messages and test logs: "FREEZE". */
const char *kernel_call_name(enum kernel_call c);

/* The real one. */
struct snapshot {
	struct kernel kernel;
	int fd;
};

/*
 * Opens @path (/dev/snapshot), O_RDONLY to save or O_WRONLY to load.  Each way
 * the kernel refuses has its own sentence in fault_text(): E_KERNEL, E_BUSY,
 * E_PRIVILEGE.
 */
int snapshot_open(struct snapshot *s, const char *path, bool to_load);
void snapshot_close(struct snapshot *s);

#endif
