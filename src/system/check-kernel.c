/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel and its drivers have to say. */
#include "system/check-parts.h"

#include "base/error.h"
#include "system/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the snapshot device ---- */

static bool locked_down(const struct check_facts *f)
{
	char text[128];

	return root_text(f, text, sizeof text, "/sys/kernel/security/lockdown") > 0 &&
	       (strstr(text, "[integrity]") || strstr(text, "[confidentiality]"));
}

/* Is @word one of the kernel's own command line? */
static bool boot_word(const struct check_facts *f, const char *word)
{
	char line[8192], *at = line, *w;

	if (root_text(f, line, sizeof line, "/proc/cmdline") < 0)
		return false;
	while ((w = strsep(&at, " \t\n")) && strcmp(w, "--"))
		if (!strcmp(w, word))
			return true;
	return false;
}

/* Why the kernel offers no hibernation at all. */
static void say_disabled(const struct check_facts *f, struct finding *out)
{
	if (locked_down(f)) {
		found_fail(out, E_KERNEL, "the kernel is locked down (Secure Boot), which forbids hibernation");
		found_cure(out, "switch Secure Boot off in the firmware's setup, or take lockdown= off the kernel "
				"command line");
	} else if (boot_word(f, "nohibernate") || boot_word(f, "hibernate=no")) {
		found_fail(out, E_KERNEL, "`nohibernate' on the kernel command line forbids hibernation");
		found_cure(out, "take `nohibernate' (or `hibernate=no') out of the boot loader's entry and boot again");
	} else {
		found_fail(out, E_KERNEL,
			   "the kernel forbids hibernation now: a process holds secret memory "
			   "(memfd_secret), or a CXL memory device is in use");
		found_cure(out, "end the process that uses memfd_secret, or boot with secretmem.enable=0");
	}
}

static void say_missing(const struct check_facts *f, struct finding *out)
{
	bool unset =
		kernel_config(f, "CONFIG_HIBERNATION_SNAPSHOT_DEV") == 0 || kernel_config(f, "CONFIG_HIBERNATION") == 0;

	found_fail(out, E_KERNEL, "%s is missing%s", f->snapshot_device,
		   unset ? ": the kernel was built without CONFIG_HIBERNATION_SNAPSHOT_DEV" : "");
	found_cure(out, "use a kernel with CONFIG_HIBERNATION=y and CONFIG_HIBERNATION_SNAPSHOT_DEV=y%s",
		   unset ? "" : "; if it has them, mknod /dev/snapshot c 10 231");
}

void check_snapshot(const struct check_facts *f, struct finding *out)
{
	char text[128];
	bool disabled = root_text(f, text, sizeof text, "/sys/power/disk") > 0 && strstr(text, "[disabled]");

	if (disabled || (f->snapshot_errno == EPERM && !geteuid()))
		say_disabled(f, out);
	else if (f->snapshot_errno == EBUSY) {
		found_fail(out, E_BUSY, "%s is in use: another hibernation is going on", f->snapshot_device);
		found_cure(out, "wait for it, or end the program that `fuser %s' shows", f->snapshot_device);
	} else if (f->snapshot_errno == EACCES || f->snapshot_errno == EPERM) {
		found_fail(out, E_PRIVILEGE, "%s may be opened by root only", f->snapshot_device);
		found_cure(out, "run it as root");
	} else if (f->snapshot_errno || !root_has(f, "%s", f->snapshot_device))
		say_missing(f, out);
	else
		found_ok(out, "%s can be used", f->snapshot_device);
}

/* ---- a test mode left on ---- */

void check_pm_test(const struct check_facts *f, struct finding *out)
{
	char text[128], *mode;

	if (root_text(f, text, sizeof text, "/sys/power/pm_test") < 0 || !(mode = strchr(text, '['))) {
		found_ok(out, "the kernel has no test modes for suspending");
		return;
	}
	mode++;
	mode[strcspn(mode, "]")] = 0;
	if (!strcmp(mode, "none")) {
		found_ok(out, "no test mode for suspending is set");
		return;
	}
	found_fail(out, E_KERNEL, "/sys/power/pm_test is `%.40s': the kernel would only act as if", mode);
	found_cure(out, "echo none > /sys/power/pm_test");
}

/* ---- the kernel that boots next ---- */

/* Modules of other kernels are there, but none of this one: it was replaced. */
static bool modules_gone(const struct check_facts *f)
{
	char path[PATH_MAX], below[PATH_MAX];
	bool others = false;
	struct dirent *e;
	DIR *d;

	if (root_has(f, "/lib/modules/%s", f->release) || !root_path(f, path, "/lib/modules") || !(d = opendir(path)))
		return false;
	while (!others && (e = readdir(d)))
		others = e->d_name[0] != '.' &&
			 snprintf(below, sizeof below, "%s/%s/modules.dep", path, e->d_name) < (int)sizeof below &&
			 !access(below, F_OK);
	closedir(d);
	return others;
}

void check_kernel(const struct check_facts *f, struct finding *out)
{
	char next[128] = "", path[PATH_MAX];
	struct boot_entry e;

	if (boot_entry_find(f, &e) && e.kernel[0] && root_path(f, path, "%s", e.kernel))
		kernel_release(path, next, sizeof next);
	if (next[0] && strcmp(next, f->release)) {
		found_fail(out, E_OTHERKERNEL,
			   "the boot loader (%.100s) starts kernel %.60s, this is %.60s: the image would be given up",
			   e.source, next, f->release);
		found_cure(out, "boot into kernel %.60s first, or make the boot loader start %.60s", next, f->release);
	} else if (modules_gone(f)) {
		found_fail(out, E_OTHERKERNEL,
			   "/lib/modules/%.60s is gone: the kernel was replaced since this boot, and another would "
			   "give the image up",
			   f->release);
		found_cure(out, "boot into the new kernel first");
	} else if (next[0])
		found_ok(out, "the boot loader starts this kernel, %.100s", next);
	else
		found_ok(out, "nothing says that another kernel than %.100s is started next", f->release);
}

/* ---- hardware watchdogs ---- */

static void look_at_watchdog(const struct check_facts *f, const char *name, double save, struct finding *out)
{
	char state[32], identity[64];
	uint64_t timeout;

	if (root_text(f, state, sizeof state, "/sys/class/watchdog/%s/state", name) < 0 || strcmp(state, "active") ||
	    !root_number(f, &timeout, "/sys/class/watchdog/%s/timeout", name))
		return;
	root_text(f, identity, sizeof identity, "/sys/class/watchdog/%s/identity", name);
	if (save <= 0) {
		found_warning(out,
			      "%.30s (%.60s) resets the machine after %llu s, and nobody can serve it while tasks are "
			      "frozen; how long a save takes is not known yet",
			      name, identity, (unsigned long long)timeout);
	} else if ((double)timeout <= save) {
		found_fail(out, E_UNSAFE,
			   "%.30s (%.60s) resets the machine after %llu s, but saving takes about %.0f s and nobody "
			   "can serve it while tasks are frozen",
			   name, identity, (unsigned long long)timeout, save);
	} else {
		found_ok(out, "%.30s resets the machine after %llu s, saving takes about %.0f s", name,
			 (unsigned long long)timeout, save);
		return;
	}
	found_cure(out, "raise RuntimeWatchdogSec= in /etc/systemd/system.conf to more than the save takes, or set it "
			"to off");
}

void check_watchdog(const struct check_facts *f, struct finding *out)
{
	char path[PATH_MAX];
	struct estimate e;
	struct dirent *entry;
	DIR *d = root_path(f, path, "/sys/class/watchdog") ? opendir(path) : NULL;

	check_estimate(f, &e);
	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			look_at_watchdog(f, entry->d_name, e.seconds, out);
	if (d)
		closedir(d);
	found_ok(out, "no hardware watchdog runs");
}

/* ---- graphics ---- */

static bool unit_wanted(const struct check_facts *f, const char *unit)
{
	static const char *const by[] = {"hibernate", "suspend-then-hibernate", "hybrid-sleep"};

	for (size_t i = 0; i < sizeof by / sizeof by[0]; i++)
		if (root_has(f, "/etc/systemd/system/systemd-%s.service.wants/%s", by[i], unit) ||
		    root_has(f, "/etc/systemd/system/systemd-%s.service.requires/%s", by[i], unit))
			return true;
	return false;
}

void check_gpu(const struct check_facts *f, struct finding *out)
{
	char params[8192];

	if (!root_has(f, "/proc/driver/nvidia/version")) {
		found_ok(out, "no proprietary graphics driver is loaded");
		return;
	}
	root_text(f, params, sizeof params, "/proc/driver/nvidia/params");
	/* This newer way needs neither the parameter nor the services. */
	if (strstr(params, "UseKernelSuspendNotifiers: 1")) {
		found_ok(out, "nvidia saves its video memory by itself");
		return;
	}
	if (!strstr(params, "PreserveVideoMemoryAllocations: 1")) {
		found_warning(out, "nvidia's driver would lose the contents of video memory");
		found_cure(out, "put `options nvidia NVreg_PreserveVideoMemoryAllocations=1' into "
				"/etc/modprobe.d/nvidia.conf, renew the initramfs and boot again");
	} else if (!unit_wanted(f, "nvidia-hibernate.service")) {
		found_warning(out, "nvidia's driver keeps video memory, but nvidia-hibernate.service, which tells it "
				   "when, is not enabled");
		found_cure(out, "systemctl enable nvidia-hibernate.service nvidia-resume.service");
	} else
		found_ok(out, "nvidia's driver keeps video memory, and its services are enabled");
}

/* ---- writing beside a mounted file system ---- */

void check_mounted_writes(const struct check_facts *f, struct finding *out)
{
	if (!f->area || !f->area->is_file) {
		found_ok(out, "the target is no swap file, so no mounted file system is in the way");
		return;
	}
	/* Kernels from before the option always allow it, and mention it nowhere. */
	if (kernel_config(f, "CONFIG_BLK_DEV_WRITE_MOUNTED") || boot_word(f, "bdev_allow_write_mounted=1") ||
	    boot_word(f, "bdev_allow_write_mounted")) {
		found_ok(out, "the kernel allows writing to a swap file's device");
		return;
	}
	found_fail(out, E_DEVICE,
		   "the kernel lets nobody write to %.100s while its file system is mounted "
		   "(CONFIG_BLK_DEV_WRITE_MOUNTED is off)",
		   f->area->path);
	found_cure(out, "put bdev_allow_write_mounted=1 on the kernel command line, or use a swap partition");
}

/* ---- suspending to RAM ---- */

void check_to_ram(const struct check_facts *f, struct finding *out)
{
	char text[128];

	if (root_text(f, text, sizeof text, "/sys/power/mem_sleep") > 0 && strstr(text, "deep")) {
		found_ok(out, "s2both can suspend to RAM (deep)");
		return;
	}
	if (!f->both) {
		found_ok(out,
			 "s2disk does without it, but s2both is refused: /sys/power/mem_sleep offers `%.60s', "
			 "not `deep'",
			 text);
		return;
	}
	found_fail(out, E_KERNEL, "cannot suspend to RAM: /sys/power/mem_sleep offers `%.60s', not `deep'", text);
	found_cure(out, "switch S3 (\"Linux sleep\") on in the firmware's setup if it has that, or use s2disk");
}
