/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "system/kernel.h"

#include "base/error.h"
#include "image/format.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <linux/suspend_ioctls.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

static const char *const names[KERNEL_CALLS] = {
	[KERNEL_FREEZE] = "FREEZE",
	[KERNEL_UNFREEZE] = "UNFREEZE",
	[KERNEL_CREATE_IMAGE] = "CREATE_IMAGE",
	[KERNEL_ATOMIC_RESTORE] = "ATOMIC_RESTORE",
	[KERNEL_FREE_IMAGE] = "FREE",
	[KERNEL_FREE_SWAP_PAGES] = "FREE_SWAP_PAGES",
	[KERNEL_SET_SWAP_AREA] = "SET_SWAP_AREA",
	[KERNEL_IMAGE_SIZE] = "GET_IMAGE_SIZE",
	[KERNEL_PREF_SIZE] = "PREF_IMAGE_SIZE",
	[KERNEL_PLATFORM] = "PLATFORM_SUPPORT",
	[KERNEL_POWER_OFF] = "POWER_OFF",
	[KERNEL_S2RAM] = "S2RAM",
	[KERNEL_ALLOC_PAGE] = "ALLOC_SWAP_PAGE",
	[KERNEL_AVAIL_SWAP] = "AVAIL_SWAP_SIZE",
	[KERNEL_REBOOT] = "reboot",
	[KERNEL_PAUSE] = "pause",
};

const char *kernel_call_name(enum kernel_call c)
{
	return c < KERNEL_CALLS ? names[c] : "?";
}

static int fd_of(struct kernel *k)
{
	return ((struct snapshot *)k)->fd;
}

static int result(int r)
{
	return r < 0 ? errno : 0;
}

/* Some calls take a number by value, some a pointer to 64 bits, one a pointer to int. */
static int by_value(struct kernel *k, unsigned long request, unsigned long v)
{
	return result(ioctl(fd_of(k), request, v));
}

static int by_pointer(struct kernel *k, unsigned long request, uint64_t *out)
{
	int64_t v = 0;
	int r = result(ioctl(fd_of(k), request, &v));

	*out = (uint64_t)v;
	return r;
}

static int create_image(struct kernel *k, uint64_t *out)
{
	int v = 0;
	int r = result(ioctl(fd_of(k), SNAPSHOT_CREATE_IMAGE, &v));

	*out = (uint64_t)v;
	return r;
}

/* The kernel decodes the number as it does a user's dev_t of 32 bits. */
static int set_area(struct kernel *k, uint64_t device, uint64_t offset)
{
	struct resume_swap_area a = {.offset = (int64_t)offset};
	uint32_t major_ = major(device), minor_ = minor(device);

	a.dev = (minor_ & 0xff) | major_ << 8 | (minor_ & ~0xffu) << 12;
	return result(ioctl(fd_of(k), SNAPSHOT_SET_SWAP_AREA, &a));
}

static int power_switch(uint64_t method)
{
	return result(reboot(method == SHUTDOWN_REBOOT ? RB_AUTOBOOT : RB_POWER_OFF));
}

static int pause_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	return result(nanosleep(&t, NULL));
}

static int call(struct kernel *k, enum kernel_call c, uint64_t in, uint64_t *out)
{
	switch (c) {
	case KERNEL_FREEZE:
		return by_value(k, SNAPSHOT_FREEZE, 0);
	case KERNEL_UNFREEZE:
		return by_value(k, SNAPSHOT_UNFREEZE, 0);
	case KERNEL_CREATE_IMAGE:
		return create_image(k, out);
	case KERNEL_ATOMIC_RESTORE:
		return by_value(k, SNAPSHOT_ATOMIC_RESTORE, 0);
	case KERNEL_FREE_IMAGE:
		return by_value(k, SNAPSHOT_FREE, 0);
	case KERNEL_FREE_SWAP_PAGES:
		return by_value(k, SNAPSHOT_FREE_SWAP_PAGES, 0);
	case KERNEL_SET_SWAP_AREA:
		return set_area(k, in, *out);
	case KERNEL_IMAGE_SIZE:
		return by_pointer(k, SNAPSHOT_GET_IMAGE_SIZE, out);
	case KERNEL_PREF_SIZE:
		return by_value(k, SNAPSHOT_PREF_IMAGE_SIZE, in);
	case KERNEL_PLATFORM:
		return by_value(k, SNAPSHOT_PLATFORM_SUPPORT, in);
	case KERNEL_POWER_OFF:
		return by_value(k, SNAPSHOT_POWER_OFF, 0);
	case KERNEL_S2RAM:
		return by_value(k, SNAPSHOT_S2RAM, 0);
	case KERNEL_ALLOC_PAGE:
		return by_pointer(k, SNAPSHOT_ALLOC_SWAP_PAGE, out);
	case KERNEL_AVAIL_SWAP:
		return by_pointer(k, SNAPSHOT_AVAIL_SWAP_SIZE, out);
	case KERNEL_REBOOT:
		return power_switch(in);
	case KERNEL_PAUSE:
		return pause_ns(in);
	case KERNEL_CALLS:
		break;
	}
	return EINVAL;
}

static ssize_t snapshot_readv(struct kernel *k, const struct iovec *v, int n)
{
	return readv(fd_of(k), v, n);
}

static ssize_t snapshot_writev(struct kernel *k, const struct iovec *v, int n)
{
	return writev(fd_of(k), v, n);
}

static const struct kernel_ops ops = {call, snapshot_readv, snapshot_writev};

static bool locked_down(void)
{
	char text[128];
	int fd = open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, "[integrity]") || strstr(text, "[confidentiality]");
}

static int refused(const char *path, int e)
{
	switch (e) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return fault(
			E_KERNEL, 0,
			"%s is missing: the kernel was built without CONFIG_HIBERNATION_SNAPSHOT_DEV, or hibernation "
			"is off",
			path);
	case EBUSY:
		return fault(E_BUSY, 0, "%s is in use: another hibernation is going on", path);
	case EACCES:
		return fault(E_PRIVILEGE, 0, "%s may be opened by root only", path);
	case EPERM:
		if (geteuid())
			return fault(E_PRIVILEGE, 0, "%s may be opened by root only", path);
		if (locked_down())
			return fault(E_KERNEL, 0,
				     "the kernel is locked down (Secure Boot), which forbids hibernation; switch "
				     "Secure Boot "
				     "off to use it");
		return fault(E_KERNEL, 0,
			     "the kernel forbids hibernation: `nohibernate' on its command line, or a process holds "
			     "secret memory");
	default:
		return fault(E_KERNEL, e, "cannot open %s", path);
	}
}

int snapshot_open(struct snapshot *s, const char *path, bool to_load)
{
	struct stat st;

	s->kernel.ops = &ops;
	s->fd = open(path, (to_load ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	if (s->fd < 0)
		return refused(path, errno);
	if (fstat(s->fd, &st) == 0 && S_ISCHR(st.st_mode))
		return E_OK;
	close(s->fd);
	s->fd = -1;
	return fault(E_KERNEL, 0, "%s is not the kernel's snapshot device", path);
}

void snapshot_close(struct snapshot *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
