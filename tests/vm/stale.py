# SPDX-License-Identifier: GPL-2.0-or-later
"""Stale images: whatever used the file systems after the save, the image is refused at the next boot."""

from __future__ import annotations

import hostdisk
from hostdisk import IMAGE
from machine import RESUME, SWAP_DEVICE, Failed, Machine, need
from scenarios import (NORESUME, NO_IMAGE, OTHER_MACHINE, OTHER_SYSTEM, SHIM, STALE, frozen_image, goes_on, says,
                       scenario)

LOG_TRIES = 8
READ_ONLY = "mounted read-only, its journal replayed"

# What a boot in between does, and whether it ever saw the image.
WAYS = {
    "mounted": "{rw} && echo new > /mnt/file && umount /mnt",
    READ_ONLY: "{ro} && umount /mnt",
    "from another medium": "{rw} && rm /mnt/file && echo new > /mnt/file && sync",
    "without the swap disk": "echo virtio0 > /sys/bus/virtio/drivers/virtio_blk/unbind && {rw} && "
                             "echo new > /mnt/file && umount /mnt",
}


def used_meanwhile(machine: Machine, command: str) -> None:
    """A boot that does not resume and uses the file system; its end is a power cut."""
    frozen_image(machine)
    guest = machine.boot()
    guest.check(command.format(rw=machine.mount(), ro=machine.mount("ro")))
    machine.cut_power()
    need(hostdisk.signature(machine.swap) == IMAGE, "the image is gone before it was looked at")


def refused_after(machine: Machine, *names: str) -> None:
    """Each of these ways to use the file system is seen, though swapon came before resume."""
    for name in names:
        used_meanwhile(machine, WAYS[name])
        guest = machine.boot()
        refused = guest.run(f"swapon {SWAP_DEVICE}")
        need(refused.status != 0, f"{name}: swapon took the image's area")
        done = machine.refuse(RESUME, STALE)
        need(machine.setup.file_system in done.text, f"{name}: the file system is not named: {done.text}")
        goes_on(machine)
        machine.refuse(RESUME, NO_IMAGE)
    machine.cut_power()


def each_way(machine: Machine, *ways: str) -> str:
    """All of these ways, and a boot with noresume."""
    refused_after(machine, *ways)
    frozen_image(machine)
    machine.boot("noresume")
    machine.refuse(RESUME, NORESUME)
    assert machine.guest is not None
    machine.guest.check(f"{machine.mount('ro')} && umount /mnt")
    machine.boot()
    says(machine.refuse(RESUME, STALE).text, "an earlier boot passed")
    goes_on(machine)
    machine.cut_power()
    return ", ".join([*ways, "noresume"])


@scenario("stale-ext4", long=True)
def stale_ext4(machine: Machine) -> str:
    """ext4 was used after the save, in five ways."""
    return each_way(machine, *WAYS)


@scenario("stale-xfs")
def stale_xfs_replayed(machine: Machine) -> None:
    """XFS was mounted read-only, which replayed its log: the image is dead."""
    refused_after(machine, "mounted read-only, its journal replayed")


@scenario("stale-btrfs", long=True)
def stale_btrfs_mounted(machine: Machine) -> None:
    """btrfs was mounted and written to: the image is dead."""
    refused_after(machine, "mounted")


@scenario("stale-xfs", long=True)
def stale_xfs(machine: Machine) -> str:
    """XFS was used after the save, in five ways."""
    return each_way(machine, *WAYS)


@scenario("stale-btrfs", long=True)
def stale_btrfs(machine: Machine) -> str:
    """btrfs was used after the save, in four ways; stale-btrfs-replayed is the fifth."""
    return each_way(machine, *(way for way in WAYS if way != READ_ONLY))


def with_log(machine: Machine) -> None:
    """An image made while a file is written and synced without end: btrfs's log is not empty on the disk."""
    for _ in range(LOG_TRIES):
        machine.cut_power()
        machine.renew()
        machine.live().check("mount -o remount,sync /mnt && (while :; do cat /bin/busybox > /mnt/log; done) &")
        machine.save()
        if hostdisk.btrfs_has_log(machine.fs):
            return
    raise Failed(f"btrfs's log was empty in each of {LOG_TRIES} images")


@scenario("stale-btrfs", long=True)
def stale_btrfs_replayed(machine: Machine) -> str:
    """btrfs was mounted read-only: when that replayed its log the image is dead, else nothing was written and it lives."""
    frozen_image(machine)
    need(not hostdisk.btrfs_has_log(machine.fs), "a log in spite of the sync before the save")
    before = hostdisk.digest(machine.fs)
    guest = machine.boot()
    guest.check(WAYS[READ_ONLY].format(ro=machine.mount("ro")))
    machine.cut_power()
    need(hostdisk.digest(machine.fs) == before, "mounted read-only without a log, btrfs wrote")
    assert machine.kept is not None
    machine.restore(machine.kept)
    machine.prove()

    with_log(machine)
    before = hostdisk.digest(machine.fs)
    guest = machine.boot()
    guest.check(WAYS[READ_ONLY].format(ro=machine.mount("ro")))
    machine.cut_power()
    need(hostdisk.digest(machine.fs) != before, "the log was not replayed")
    machine.boot()
    says(machine.refuse(RESUME, STALE).text, "btrfs")
    machine.cut_power()
    return "nothing to replay: resumed; replayed: refused"


@scenario("images")
def image_other_kernel(machine: Machine) -> None:
    """Another kernel, or another kind of processor, than the image's: refused, and both are named."""
    for variable, other in (("SHIM_RELEASE", "9.9.9-other"), ("SHIM_MACHINE", "riscv64")):
        frozen_image(machine)
        guest = machine.boot()
        real = guest.check("uname -r" if variable == "SHIM_RELEASE" else "uname -m")
        done = machine.refuse(f"{variable}={other} {SHIM} /guest/{RESUME}", OTHER_MACHINE)
        says(done.text, other, real)
        goes_on(machine)


@scenario("images")
def image_other_installation(machine: Machine) -> None:
    """Two installations share a swap area: the other one's image is named and left alone, and its owner resumes it."""
    name = "tr -d - < /proc/sys/kernel/random/uuid > /etc/dormouse.id"
    machine.renew()
    guest = machine.live()
    guest.check(f"{name} && cp /etc/dormouse.id /mnt/id && sync")
    save = machine.save()
    before = hostdisk.digest(machine.swap)
    guest = machine.boot()
    guest.check(name)
    says(machine.refuse(RESUME, OTHER_SYSTEM).text, "another installation", "left")
    guest.check(f"! swapon {SWAP_DEVICE}")
    machine.cut_power()
    need(hostdisk.digest(machine.swap) == before, "the other one's image was written to")
    # the owner's initramfs knows its id without mounting anything
    owner = hostdisk.file_of(machine.fs, "/id").decode().strip()
    machine.restore(save, f"echo {owner} > /etc/dormouse.id; {RESUME}")
    machine.prove()
