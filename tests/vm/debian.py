# SPDX-License-Identifier: GPL-2.0-or-later
"""Make a Debian system to boot in the guests: a root file system and what starts it.

The packages come from Debian's archive by mmdebstrap and are kept, as one tar file, in the cache
where the kernels are; what is under test is installed, and its initramfs made inside, each time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import hostdisk
import kernel

RELEASE = "bookworm"
PACKAGES = ("systemd-sysv", "udev", "dbus", "kmod", "busybox-static", "procps", "util-linux", "initramfs-tools",
            "linux-image-amd64", "dracut-core", "cryptsetup-initramfs", "lvm2", "pm-utils", "btrfs-progs",
            "bash-completion", "kbd", "liblzo2-2", "liblz4-1", "libzstd1", "libxxhash0", "libgcrypt20", "libblkid1")
# For a boot with a splash screen: plymouth, a theme that shows messages, and the emulated card's driver.
SPLASH = ("plymouth", "plymouth-themes", "plymouth-label", "fonts-dejavu-core")
SPLASH_DRIVERS = ("tiny/bochs", "drm", "drm_kms_helper", "drm_vram_helper", "drm_ttm_helper", "ttm/ttm")
# Drivers of no use in a guest; they would only make the root large.
LEFT_OUT = ("drivers/gpu", "drivers/net", "drivers/media", "drivers/infiniband", "drivers/iio", "drivers/scsi",
            "drivers/usb", "drivers/staging", "drivers/hwmon", "drivers/isdn", "sound", "net")
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
          "e2scrub_reap.service", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-timesyncd.service")
LABEL = "dormouse-root"
SWAP_UUID = "5afe0000-d0d0-4000-8000-0000000000a1"
HERE = Path(__file__).resolve().parent

SHELL_SERVICE = """[Unit]
Description=The host's shell
After=multi-user.target
[Service]
Type=idle
ExecStart=/guest/bin/sh /guest/shell
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/guest/bin HOME=/root
StandardInput=tty
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
[Install]
WantedBy=multi-user.target
"""

HOOK = """#!/bin/sh
# Notes each call; the guest's proof reads it.
echo "$1 $2 ${SYSTEMD_SLEEP_ACTION-}" >> /var/log/sleep-hooks
"""


class NoDebian(Exception):
    """No Debian system can be made on this machine."""


@dataclass(frozen=True)
class Root:
    """A root file system, whole, and the folder with its kernel and the initramfs files made in it."""

    image: Path
    boot: Path

    @property
    def kernel(self) -> Path:
        """The kernel's image."""
        return next(self.boot.glob("vmlinuz-*"))

    def initramfs(self, name: str) -> Path:
        """An initramfs by the name it was given in `make`."""
        return self.boot / f"initrd-{name}"


def run(*command: object, **options: object) -> str:
    """Run a command; its last words become the error when it fails."""
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE,  # type: ignore[call-overload]
                          stderr=subprocess.STDOUT, timeout=900, **options)
    if done.returncode != 0:
        last = " / ".join(done.stdout.strip().splitlines()[-3:])
        raise NoDebian(f"{' '.join(str(c) for c in command[:3])} gave {done.returncode}: {last}")
    return str(done.stdout)


def packages(splash: bool = False) -> Path:
    """The tar file with the packages' root, made if it is not in the cache."""
    names = PACKAGES + (SPLASH if splash else ())
    for name in ("mmdebstrap", "chroot", "mke2fs"):
        if not shutil.which(name, path=hostdisk.SBIN):
            raise NoDebian(f"{name} is not installed")
    if os.geteuid() != 0:
        raise NoDebian("only root can make it")
    folder = kernel.cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(repr((RELEASE, names, LEFT_OUT)).encode()).hexdigest()[:12]
    target = folder / f"debian-{RELEASE}-{key}.tar"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            print(f"# making {target} of Debian's packages, once", flush=True)
            part = target.with_suffix(".part.tar")
            excludes = [f"--dpkgopt=path-exclude=/lib/modules/*/kernel/{name}/*" for name in LEFT_OUT]
            excludes += [f"--dpkgopt=path-include=/lib/modules/*/kernel/drivers/gpu/drm/{name}.ko"
                         for name in SPLASH_DRIVERS if splash]
            excludes += ["--dpkgopt=force-confold", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
                         "--dpkgopt=path-exclude=/usr/share/man/*"]
            # The initramfs is made when what is under test is there.
            early = '--essential-hook=mkdir -p "$1/etc/initramfs-tools"; ' \
                    'echo update_initramfs=no > "$1/etc/initramfs-tools/update-initramfs.conf"'
            run("mmdebstrap", "--variant=minbase", "--aptopt=Acquire::Check-Valid-Until false",
                f"--include={','.join(names)}", *excludes, early, RELEASE, part)
            part.rename(target)
    return target


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a small file of the root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def furnish(tree: Path) -> None:
    """What the tests need in the root: the host's shell, a sleep hook, no passwords, no timers."""
    for name in ("lib.sh", "shell"):
        (tree / "guest").mkdir(exist_ok=True)
        shutil.copy(HERE / "guest" / name, tree / "guest" / name)
    (tree / "guest/bin").mkdir(exist_ok=True)
    for applet in ("sh", "usleep", "xxd", "nc"):
        (tree / "guest/bin" / applet).symlink_to("/bin/busybox")
    for name in ("s2disk", "s2both", "s2image", "s2bench", "swap-offset", "suspend-keygen"):
        (tree / "guest" / name).symlink_to(f"/usr/sbin/{name}")
    (tree / "guest/resume").symlink_to("/usr/lib/dormouse/resume")
    write(tree / "etc/fstab", f"LABEL={LABEL} / ext4 errors=remount-ro 0 1\nUUID={SWAP_UUID} none swap sw,nofail 0 0\n")
    write(tree / "etc/hostname", "guest\n")
    write(tree / "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    write(tree / "etc/systemd/system/host-shell.service", SHELL_SERVICE)
    write(tree / "usr/lib/systemd/system-sleep/note", HOOK, 0o755)
    write(tree / "etc/initramfs-tools/conf.d/small", "COMPRESS=zstd\nRESUME=none\n")
    write(tree / "etc/initramfs-tools/update-initramfs.conf", "update_initramfs=yes\n")
    if (tree / "usr/share/plymouth/themes/spinner").exists():
        write(tree / "etc/plymouth/plymouthd.conf", "[Daemon]\nTheme=spinner\nShowDelay=0\n")
        write(tree / "etc/initramfs-tools/conf.d/splash", "FRAMEBUFFER=y\n")
        write(tree / "etc/initramfs-tools/modules", "bochs\n")
    wants = tree / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "host-shell.service").symlink_to("/etc/systemd/system/host-shell.service")
    for unit in MASKED:
        (tree / "etc/systemd/system" / unit).symlink_to("/dev/null")


def make_initramfs(tree: Path, release: str) -> None:
    """Install the package, and make one initramfs by initramfs-tools and by dracut in both of its ways."""
    def inside(*command: str) -> None:
        run("chroot", tree, *command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"})

    dracut = ["dracut", "--force", "--no-hostonly", "--no-early-microcode", "--quiet", "--zstd", "--kver", release]
    drivers = "virtio_blk virtio_pci ext4 crc32c_generic"
    inside("mount", "-t", "proc", "proc", "/proc")
    try:
        inside("dpkg", "-i", "/root/dormouse.deb")
        inside("update-initramfs", "-c", "-k", release)
        inside(*dracut, "--modules", "systemd systemd-initrd dracut-systemd base rootfs-block fs-lib "
               "udev-rules usrmount shutdown dm lvm crypt dormouse", "--add-drivers", drivers,
               "/boot/initrd-dracut-systemd")
        inside(*dracut, "--modules", "base rootfs-block fs-lib udev-rules usrmount shutdown dm lvm "
               "crypt dormouse", "--add-drivers", drivers, "/boot/initrd-dracut")
    finally:
        inside("umount", "/proc")


def make(archive: Path, package: Path, folder: Path) -> Root:
    """A root of `archive` with `package` installed and configured, and its initramfs files."""
    tree = folder / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    tree.mkdir(parents=True)
    run("tar", "-C", tree, "--exclude=./dev/*", "-xf", archive)
    furnish(tree)
    write(tree / "etc/suspend.conf", f"resume device = UUID={SWAP_UUID}\n")
    shutil.copy(package, tree / "root/dormouse.deb")
    release = next((tree / "lib/modules").iterdir()).name
    make_initramfs(tree, release)
    boot = folder / "boot"
    boot.mkdir()
    for path in (tree / "boot").glob("initrd-*"):
        shutil.move(path, boot / path.name)
    shutil.copy(tree / "boot" / f"vmlinuz-{release}", boot)
    shutil.copy(tree / "boot" / f"initrd.img-{release}", boot / "initrd-initramfs-tools")
    image = folder / "root.img"
    hostdisk.make_blank(image, 2048)
    run(hostdisk.tool("mke2fs"), "-q", "-F", "-t", "ext4", "-L", LABEL, "-d", tree, image)
    shutil.rmtree(tree)
    return Root(image, boot)
