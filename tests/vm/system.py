# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole Debian systems that hibernate: the machine, and the ways that people take.

Here nothing is told to resume: the initramfs that the distribution's own maker made, with our hook in
it, does so by itself, or the boot becomes a cold one and the scenario fails.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import debian
import hostdisk
from guest import Disk, Guest, GuestError, Shape
from machine import Cycle, Failed, Machine, Save, Setup, need

def slept(command: str, sleeps: int = 1) -> str:
    """A command that ends when the sleeps that it asked for are over, or says why there were none."""
    return f"{command} && n=0 && until [ \"$(grep -c ^post /var/log/sleep-hooks)\" = {sleeps} ]; do sleep 0.2; n=$((n + 1)); " \
           "[ $n -lt 600 ] || { journalctl -b -n 15 --no-pager -o cat; break; }; done; [ $n -lt 600 ]; " \
           "code=$?; journalctl -b -u systemd-hibernate -u systemd-hybrid-sleep -u systemd-suspend-then-hibernate -n 6 --no-pager -o cat; [ $code = 0 ]"


BOOT = 240.0      # seconds until a whole system has booted, however busy the host
# systemctl comes back before the machine sleeps: the sleep hook's last call tells when it is over.
HIBERNATE = slept("systemctl hibernate")
# kvm's own start takes an emulated processor half a minute, in which the kernel calls it locked up.
ROOT_LINE = f"root=LABEL={debian.LABEL} ro modprobe.blacklist=kvm,kvm_amd,kvm_intel"
SOCKET = 7007




@dataclass(frozen=True)
class Entry:
    """One scenario."""

    name: str
    initramfs: str            # by whom it was made: initramfs-tools, dracut-systemd, dracut
    long: bool
    splash: bool              # plymouth is installed, and there is a screen
    summary: str
    body: Callable[["System"], object]


SYSTEMS: list[Entry] = []


def system(initramfs: str = "initramfs-tools", long: bool = False, splash: bool = False) -> Callable[..., object]:
    """Register a function as a scenario."""
    def register(body: Callable[["System"], object]) -> Callable[["System"], object]:
        summary = (body.__doc__ or "").strip().splitlines()[0]
        SYSTEMS.append(Entry(body.__name__.replace("_", "-"), initramfs, long, splash, summary, body))
        return body
    return register


class System(Machine):
    """A Debian system with a root disk, over its boots."""

    def __init__(self, entry: Entry, root: debian.Root, folder: Path, logs: Path) -> None:
        super().__init__(Setup(memory=1024, swap=1536, screen=entry.splash), None, root.initramfs(entry.initramfs),  # type: ignore[arg-type]
                         folder, logs)
        self.source = root
        self.root = folder / "root.img"
        self.order = ("swap", "fs", "extra", "root")   # of the disks, as the bus finds them
        self.append = ""
        self.limit = 0            # bytes a second of the swap disk
        self.late = ""            # a disk that is plugged in only when the guest runs

    def renew(self) -> None:
        """Make new disks; whatever ran is gone."""
        self.cut_power()
        self.folder.mkdir(parents=True, exist_ok=True)
        hostdisk.make_swap(self.swap, self.setup.swap, debian.SWAP_UUID)
        hostdisk.make_ext4(self.fs, 64)
        hostdisk.make_swap(self.extra, 1536)
        subprocess.run(["cp", "--sparse=always", str(self.source.image), str(self.root)], check=True)

    def boot(self, append: str = "", memory: int = 0, swap: Path | None = None, limit: float = 1500.0) -> Guest:
        """Switch the machine on; returns at once."""
        self.cut_power()
        if not self.root.exists():
            self.renew()
        files = {"swap": swap or self.swap, "fs": self.fs, "extra": self.extra, "root": self.root}
        disks = {name: Disk(path, self.limit if name == "swap" else 0, late=name == self.late)
                 for name, path in files.items()}
        self.boots += 1
        self.guest = Guest(Shape(memory or self.setup.memory, self.setup.cpus, tuple(disks[d] for d in self.order),
                                 self.setup.screen),
                           self.source.kernel, self.initramfs, self.logs / f"boot-{self.boots:02}",
                           f"{ROOT_LINE} {self.append} {append}", limit)
        return self.guest

    def start(self, append: str = "") -> Guest:
        """Boot a system that does not resume, up to its shell."""
        guest = self.boot(append)
        guest.expect("^@@ready", BOOT)
        return guest

    def live(self, append: str = "") -> Guest:
        """A running system with a state to prove: files, a process, a connection, a service."""
        if self.guest and self.proving:
            return self.guest
        guest = self.guest or self.start(append)
        guest.check("state_begin")
        # Nobody says when a listener listens: the connection is asked for until it stands.
        guest.check(f"nc -ll -p {SOCKET} -e cat & mkfifo /run/to; "
                    f"{{ until nc 127.0.0.1 {SOCKET}; do sleep 0.2; done; }} < /run/to > /run/from & "
                    f"exec 9> /run/to; echo before >&9; until grep -q before /run/from; do sleep 0.2; done", 60)
        guest.check("systemd-run --unit=ticker /guest/bin/sh -c "
                    "'while :; do echo x; sleep 1; done' && rm -f /var/log/sleep-hooks")
        self.proving = True
        return guest

    def restore(self, save: Save, command: str = "", timeout: float = BOOT, append: str = "",
                talk: Callable[[Guest], object] | None = None) -> Cycle:
        """Boot; the initramfs resumes. Returns when the restored shell has answered."""
        guest = self.boot(append)
        if talk:
            talk(guest)
        guest.wait(lambda: guest.reply(save.number) or guest.find("^@@ready"), timeout, "the restored system")
        answer = guest.reply(save.number)
        if not answer:
            raise Failed("the boot was a cold one")
        self.proving = True
        need(answer.status == 0, f"the saving program ended with {answer.status}: {answer.text}")
        return Cycle(save.text, answer.text, save.seconds, answer.ended - guest.start)

    def prove(self) -> None:
        """Let the restored system prove itself."""
        guest = self.live()
        guest.check("state_check", 120)
        # A restored system may have more to do at first than to carry a line to and fro.
        said = guest.check("proofs=$((proofs + 1)); echo after $proofs >&9; "
                           "for i in $(seq 200); do grep -qx \"after $proofs\" /run/from && break; sleep 0.2; done; "
                           "grep -cx -e before -e 'after [0-9]*' /run/from; tail -n 1 /run/from; echo $proofs", 120).split("\n")
        number = int(said[-1])
        need(said == [str(number + 1), f"after {number}", str(number)],
             f"the connection over loopback did not go on: it brought {said}")
        need(guest.run("systemctl is-active ticker").text == "active", "the service did not go on")
        guest.check("sync")

    def cycle(self, command: str = HIBERNATE, resume: str = "",  # type: ignore[override]
              talk: Callable[[Guest], object] | None = None, append: str = "", **options: object) -> Cycle:
        """A whole hibernation with its proof."""
        options.setdefault("timeout", 180.0)
        done = self.restore(self.save(command, **options), append=append, talk=talk)  # type: ignore[arg-type]
        self.prove()
        return done

    def small_initramfs(self) -> Guest:
        """Only the modules that this machine needs: most that there are would take an emulator minutes."""
        self.live().check("echo MODULES=dep > /etc/initramfs-tools/conf.d/modules")
        return self.live()

    def take_initramfs(self) -> None:
        """Have the guest make its initramfs anew, as its user would, and boot with that from now on."""
        guest = self.small_initramfs()
        size = int(guest.check("update-initramfs -u -k all > /run/made 2>&1 || { cat /run/made; false; } && "
                               "dd if=$(echo /boot/initrd.img-*) of=/dev/vdb bs=1M conv=fsync 2> /dev/null; "
                               "stat -c %s /boot/initrd.img-*", 400).splitlines()[-1])
        self.initramfs = self.folder / "initramfs"
        self.initramfs.write_bytes(hostdisk.read_at(self.fs, 0, size))

    def hooks_noted(self, action: str, *sleeps: str) -> None:
        """The sleep hook was called before and after each sleep, with systemd's own arguments."""
        noted = self.live().check("cat /var/log/sleep-hooks").splitlines()
        wanted = [f"{when} {action} {sleep}" for sleep in sleeps or (action,) for when in ("pre", "post")]
        need(noted == wanted, f"the sleep hooks were called as {noted}, not {wanted}")
