# SPDX-License-Identifier: GPL-2.0-or-later
"""The set-ups of doc/set-ups.md: each way to hibernate, each maker of an initramfs, each kind of swap."""

from __future__ import annotations

import time

import hostdisk
from guest import Guest
from machine import ANY, Save, need
from system import BOOT, HIBERNATE, SYSTEMS, System, slept, system


def usual(machine: System) -> str:
    """systemctl hibernate, back in the same session, the sleep hooks called around it."""
    done = machine.cycle()
    machine.hooks_noted("hibernate")
    return f"saved in {done.save_seconds:.1f} s, back {done.load_seconds:.1f} s after power-on"


@system("initramfs-tools")
def initramfs_tools(machine: System) -> str:
    """systemctl hibernate with an initramfs by initramfs-tools."""
    return usual(machine)


@system("dracut-systemd")
def dracut_with_systemd(machine: System) -> str:
    """systemctl hibernate with an initramfs by dracut that systemd runs."""
    return usual(machine)


@system("dracut")
def dracut_without_systemd(machine: System) -> str:
    """systemctl hibernate with an initramfs by dracut without systemd."""
    return usual(machine)


@system(long=True)
def not_resumed(machine: System) -> str:
    """A boot with noresume gives the image up: the swap is in use again, and the next hibernation works."""
    machine.save(HIBERNATE, timeout=180)
    guest = machine.start("noresume")
    guest.check("grep ^/dev/vda /proc/swaps")
    failed = guest.check("systemctl --failed --plain --no-legend")
    need(not failed, f"units failed: {failed}")
    return usual(machine)


@system(long=True)
def never_enabled_swap(machine: System) -> str:
    """An image on an area that fstab does not name is marked by a boot that passes it over, and refused later."""
    machine.live().check("sed -i /swap/d /etc/fstab && sync")
    machine.save(HIBERNATE, timeout=180)
    guest = machine.start("noresume")
    need(hostdisk.signature(machine.swap) == hostdisk.IMAGE, "the image is gone, though nothing took the area")
    need("passed over" in guest.check("s2image info /dev/vda"), "the image is not marked as passed over")
    machine.start()
    need(hostdisk.signature(machine.swap) == hostdisk.SWAP, "the image that was passed over was not given up")
    return "given up by the second boot"


@system(long=True)
def hybrid_sleep(machine: System) -> None:
    """systemctl hybrid-sleep: woken, the machine goes on and the image is given up."""
    guest = machine.live()
    number = guest.send(slept("systemctl hybrid-sleep"))
    guest.wait(lambda: guest.event("SUSPEND") or guest.reply(number), 180, "sleep")
    guest.wake()
    done = guest.wait_reply(number, 60)
    need(done.status == 0, f"systemctl hybrid-sleep gave {done.status}: {done.text}")
    machine.hooks_noted("hybrid-sleep")
    machine.prove()
    need(hostdisk.signature(machine.swap) == hostdisk.SWAP, "the image was not given up")


@system(long=True)
def hybrid_sleep_without_power(machine: System) -> None:
    """systemctl hybrid-sleep: the power is cut in the sleep, and the image brings the session back."""
    guest = machine.live()
    number = guest.send(slept("systemctl hybrid-sleep"))
    guest.wait(lambda: guest.event("SUSPEND") or guest.reply(number), 180, "sleep")
    machine.cut_power()
    machine.restore(Save(number, "", 0.0, 0))
    machine.prove()
    machine.hooks_noted("hybrid-sleep")


@system(long=True)
def suspend_then_hibernate(machine: System) -> None:
    """systemctl suspend-then-hibernate: the alarm wakes the machine, which then hibernates."""
    machine.live().check("mkdir -p /etc/systemd/sleep.conf.d && "
                         "printf '[Sleep]\\nHibernateDelaySec=8s\\n' > /etc/systemd/sleep.conf.d/test.conf && sync")
    machine.cycle(slept("systemctl suspend-then-hibernate", 2))
    machine.hooks_noted("suspend-then-hibernate", "suspend", "hibernate")


@system(long=True)
def suspend_then_woken(machine: System) -> None:
    """systemctl suspend-then-hibernate: woken before the alarm, the machine goes on and no alarm is left."""
    guest = machine.live()
    number = guest.send(slept("systemctl suspend-then-hibernate"))
    guest.wait(lambda: guest.event("SUSPEND") or guest.reply(number), 120, "sleep")
    guest.wake()
    need(guest.wait_reply(number, 60).status == 0, "systemctl suspend-then-hibernate failed")
    guest.check("sleep 1; ! grep -q . /sys/class/rtc/rtc0/wakealarm")
    machine.prove()
    machine.hooks_noted("suspend-then-hibernate", "suspend")


@system(long=True)
def pm_hibernate(machine: System) -> None:
    """pm-hibernate, by our module and then by the one that pm-utils has for uswsusp."""
    pm_hibernate_command = "pm-hibernate || { tail -n 40 /var/log/pm-suspend.log; false; }"
    machine.cycle(pm_hibernate_command)
    guest = machine.live()
    need("performing hibernate" in guest.check("cat /var/log/pm-suspend.log"), "pm-utils noted no hibernation")
    guest.check("echo SLEEP_MODULE=uswsusp > /etc/pm/config.d/zz-test && sync")
    machine.cycle(pm_hibernate_command)


@system(long=True)
def swap_on_the_last_disk(machine: System) -> str:
    """UUID= finds the swap area wherever the disks were attached."""
    machine.order = ("root", "extra", "fs", "swap")
    return usual(machine)


@system(long=True)
def late_disk(machine: System) -> str:
    """The disk with the image appears eight seconds after the kernel started."""
    return late(machine)


@system("dracut-systemd", long=True)
def late_disk_with_systemd(machine: System) -> str:
    """The disk with the image appears late in an initramfs that systemd runs."""
    return late(machine)


@system("dracut", long=True)
def late_disk_without_systemd(machine: System) -> str:
    """The disk with the image appears late in dracut's own initramfs."""
    return late(machine)


def late(machine: System) -> str:
    """Save; plug the swap disk in at the next boot when its kernel has run for eight seconds."""
    # At the first boot too: a disk more or less changes the memory map that the firmware hands over.
    machine.late = "swap"

    def plug_in(guest: Guest) -> None:
        guest.expect("Linux version", 60, "console")
        time.sleep(8)
        guest.attach(0)

    guest = machine.boot()
    plug_in(guest)
    guest.expect("^@@ready", BOOT)
    guest.check("udevadm settle; grep -q /dev/vd /proc/swaps || swapon -a")
    done = machine.restore(machine.save(HIBERNATE, timeout=180), talk=plug_in)
    machine.prove()
    return f"back {done.load_seconds:.1f} s after power-on"


@system(long=True)
def lost_disk(machine: System) -> str:
    """The disk with the image never appears: the boot goes on within its limits."""
    machine.save(HIBERNATE, timeout=180)
    machine.late = "swap"
    guest = machine.start()
    return f"booted in {time.time() - guest.start:.0f} s"


@system(long=True)
def swap_on_lvm(machine: System) -> str:
    """Swap on a logical volume, put together in the initramfs."""
    guest = machine.live()
    guest.check("swapoff -a; pvcreate -qy /dev/vdc && vgcreate -q vg /dev/vdc && "
                "lvcreate -qy -W n -L 1400M -n swap vg && mkswap /dev/vg/swap && swapon /dev/vg/swap", 120)
    guest.check("echo 'resume device = /dev/mapper/vg-swap' > /etc/suspend.conf && sync")
    machine.take_initramfs()
    machine.cut_power()
    guest = machine.start()
    guest.check("vgchange -qay vg && { grep -q dm- /proc/swaps || swapon /dev/vg/swap; }")
    return usual_elsewhere(machine)


@system(long=True)
def swap_under_luks(machine: System) -> str:
    """Swap in a LUKS volume that the initramfs unlocks with a passphrase typed at the console."""
    guest = machine.live()
    guest.check("swapoff -a; echo -n secret | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "
                "/dev/vdc - && echo -n secret | cryptsetup open --key-file - /dev/vdc cswap && "
                "mkswap /dev/mapper/cswap && swapon /dev/mapper/cswap", 120)
    guest.check("echo \"cswap UUID=$(blkid -o value -s UUID /dev/vdc) none luks,initramfs\" > /etc/crypttab && "
                "echo 'resume device = /dev/mapper/cswap' > /etc/suspend.conf && sync")
    machine.take_initramfs()
    machine.cut_power()
    guest = machine.boot()
    guest.answer("unlock disk cswap", "secret\n", timeout=120)
    guest.expect("^@@ready", 240)
    guest.check("grep -q dm- /proc/swaps || swapon /dev/mapper/cswap")
    save = machine.save(HIBERNATE, timeout=180, signature=ANY)
    machine.restore(save, talk=lambda g: g.answer("unlock disk cswap", "secret\n", timeout=120))
    machine.prove()
    machine.hooks_noted("hibernate")
    return "unlocked and back"


@system(long=True)
def swap_file_on_ext4(machine: System) -> str:
    """A swap file by its path on the root file system; its place comes into the initramfs by our hook."""
    guest = machine.live()
    guest.check("swapoff -a; sed -i /swap/d /etc/fstab; dd if=/dev/zero of=/swapfile bs=1M count=700 2> /dev/null && "
                "chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile && echo '/swapfile none swap sw' >> /etc/fstab && "
                "echo 'resume device = /swapfile' > /etc/suspend.conf && sync", 180)
    page = int(guest.check("swap-offset /swapfile | grep -o '[0-9]*$'").splitlines()[-1])
    machine.take_initramfs()
    machine.cut_power()
    machine.start()
    machine.cycle(where=(machine.root, page))
    machine.hooks_noted("hibernate")
    return f"page {page}"


@system(long=True)
def swap_file_on_btrfs(machine: System) -> str:
    """A swap file on a btrfs of its own, by its path; the command line names its place to the initramfs."""
    guest = machine.live()
    guest.check("swapoff -a; mkfs.btrfs -qf /dev/vdc && mkdir -p /data && mount /dev/vdc /data && "
                "btrfs filesystem mkswapfile -s 700m /data/swap && swapon /data/swap && "
                "echo 'resume device = /data/swap' > /etc/suspend.conf && sync", 180)
    target = dict(line.split(" = ") for line in guest.check("s2disk --print-target").splitlines())
    machine.take_initramfs()
    guest.check("swapoff /data/swap; sync")
    # logind finds no swap file on btrfs by itself; told on the command line, it takes it.
    machine.append = f"resume={target['resume device']} resume_offset={target['resume offset']}"
    machine.cut_power()
    machine.start()
    machine.live().check("mkdir -p /data && mount /dev/vdc /data && swapoff -a && swapon /data/swap")
    machine.cycle(where=(machine.extra, int(target["resume offset"])))
    machine.hooks_noted("hibernate")
    return str(target)


def usual_elsewhere(machine: System) -> str:
    """A hibernation to an area that does not begin at a disk's first page, whose signature the host does not look at."""
    done = machine.cycle(signature=ANY)
    machine.hooks_noted("hibernate")
    return f"back {done.load_seconds:.1f} s after power-on"


@system(long=True)
def package_removed(machine: System) -> str:
    """The package is installed again over itself, then removed and purged: the machine boots without it; installed, it hibernates."""
    guest = machine.small_initramfs()
    guest.check("/usr/bin/dpkg -i /root/dormouse.deb > /run/again 2>&1 || { tail -5 /run/again; false; }", 600)
    need("s2disk --check says" in guest.check("cat /run/again"), "the package did not show its check")
    guest.check("/usr/bin/dpkg -r dormouse > /run/removed 2>&1 || { tail -5 /run/removed; false; }", 600)
    guest.check("! lsinitramfs /boot/initrd.img-* | grep -q dormouse")
    settings = "/etc/pm/config.d/dormouse"   # a configuration file, which only a purge takes
    guest.check(f"[ $(SLEEP_MODULE=auto; . {settings}; echo $SLEEP_MODULE) = auto ]")
    guest.check("/usr/bin/dpkg --purge dormouse > /run/purged 2>&1 || { cat /run/purged; false; }", 300)
    left = "find /usr /lib/systemd /etc -path /usr/share/doc -prune -o -name '*dormouse*' -print"
    guest.check(f"! {left} | grep -v dormouse.id")
    need("systemd-sleep" in guest.check("systemctl cat systemd-hibernate.service"), "systemd's own hibernation is not back")
    machine.take_initramfs()
    machine.cut_power()
    guest = machine.start()
    guest.check("/usr/bin/dpkg -i /root/dormouse.deb > /run/again 2>&1 || { tail -5 /run/again; false; }", 600)
    machine.take_initramfs()
    machine.cut_power()
    machine.start()
    return usual(machine)


@system(long=True, splash=True)
def plymouth(machine: System) -> str:
    """With a splash screen: plymouth shows the load's progress and message, and the session comes back."""
    machine.append = "splash quiet plymouth.ignore-serial-consoles"
    save = machine.save(HIBERNATE, timeout=180)
    machine.limit = 8_000_000   # so that there is something to see
    picture = machine.logs / "plymouth.png"

    def look(guest: Guest) -> None:
        time.sleep(1)
        for number in range(60):
            time.sleep(1)
            guest.screenshot(picture.with_name(f"screen-{number:02}.png"))
            if guest.reply(save.number):
                return

    machine.restore(save, talk=look)
    machine.prove()
    return f"pictures in {machine.logs}"
