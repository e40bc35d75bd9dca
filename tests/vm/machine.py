# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with its disks, that lives through several boots.

A `Machine` outlives the QEMU processes that stand for its boots: it hibernates in one and goes on in
the next. Scenarios of a group share a machine, since a restored system is as good as a booted one
and costs less; a scenario that fails leaves a new machine to the next.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import hostdisk
from guest import Disk, Guest, GuestError, Reply, Shape
from kernel import Kernel
from nbd import FaultyDisk

SWAP_DEVICE = "/dev/vda"
FS_DEVICE = "/dev/vdb"
EXTRA_DEVICE = "/dev/vdc"
S2DISK = f"s2disk -r {SWAP_DEVICE}"
ANY = "any"   # signature: the host cannot see it, below a volume or a cipher
RESUME = f"resume {SWAP_DEVICE}"
Talk = Callable[[Guest], object]   # what a person does at the guest's console


class Failed(Exception):
    """A scenario's assertion does not hold."""


def need(condition: object, why: str) -> None:
    """Assert, with a reason for the reader."""
    if not condition:
        raise Failed(why)


@dataclass(frozen=True)
class Setup:
    """What machine a group of scenarios wants."""

    kernel: str = "6.1"
    cpus: int = 2
    memory: int = 448         # MiB
    swap: int = 1024          # MiB
    limit: int = 0            # bytes a second of the swap disk
    limits: tuple[int, int] | None = None   # bytes a second to write and to read, of the swap and the extra disk
    screen: bool = False
    file_system: str = "ext4"
    served: bool = False      # the swap disk is a FaultyDisk
    extra: int = 64           # MiB, the extra disk


@dataclass(frozen=True)
class Cycle:
    """A hibernation that was restored."""

    saved: str                # what the program printed until the power went off
    restored: str             # what it, and resume, printed in the second boot
    save_seconds: float
    load_seconds: float


class Machine:
    """The machine of one group of scenarios."""

    def __init__(self, setup: Setup, kernel: Kernel, initramfs: Path, folder: Path, logs: Path,
                 build: Path = Path(".")) -> None:
        self.setup = setup
        self.kernel = kernel
        self.initramfs = initramfs
        self.folder = folder
        self.logs = logs
        self.build = build
        self.guest: Guest | None = None
        self.proving = False   # the running guest has been through state_begin
        self.boots = 0
        self.served = setup.served   # from the next boot on
        self.server: FaultyDisk | None = None
        self.kept: Save | None = None   # the hibernation that the "images" scenarios copy
        self.swap = folder / "swap.img"
        self.fs = folder / "fs.img"
        self.extra = folder / "extra.img"

    # --- life ---

    def renew(self) -> None:
        """Make new disks; whatever ran is gone."""
        self.cut_power()
        self.folder.mkdir(parents=True, exist_ok=True)
        hostdisk.make_swap(self.swap, self.setup.swap)
        hostdisk.make_file_system(self.fs, self.setup.file_system)
        hostdisk.make_swap(self.extra, self.setup.extra)

    def cut_power(self) -> None:
        """End the running guest at once."""
        if self.guest:
            self.guest.kill()
        if self.server:
            self.server.close()
        self.guest = self.server = None
        self.proving = False

    def console_end(self, lines: int = 8) -> str:
        """The last that the running guest said on its console."""
        return "\n".join(self.guest.console_text().splitlines()[-lines:]) if self.guest else ""

    def close(self) -> None:
        """End the guest and remove the disks."""
        self.cut_power()
        shutil.rmtree(self.folder, ignore_errors=True)

    def boot(self, append: str = "", memory: int = 0, swap: Path | None = None,
             limit: float = 300.0) -> Guest:
        """Switch the machine on."""
        self.cut_power()
        if not self.swap.exists():
            self.renew()
        path = swap or self.swap
        self.server = FaultyDisk(path) if self.served else None
        limits = self.setup.limits
        disks = (Disk(path, self.setup.limit, limits, server=self.server), Disk(self.fs),
                 Disk(self.extra, limits=limits))
        self.boots += 1
        self.guest = Guest(Shape(memory or self.setup.memory, self.setup.cpus, disks, self.setup.screen),
                           self.kernel.image, self.initramfs, self.logs / f"boot-{self.boots:02}",
                           append, limit)
        return self.guest.booted()

    def live(self, append: str = "") -> Guest:
        """A running guest with swap on, a file system mounted and a state to prove."""
        if self.guest and self.proving:
            return self.guest
        self.renew()
        guest = self.boot(append)
        self.begin(guest)
        return guest

    def begin(self, guest: Guest, timeout: float = 60.0) -> None:
        """Have a guest that has just booted make a state to prove."""
        guest.check(f"swapon {SWAP_DEVICE} && {self.mount()} && state_begin", timeout)
        self.proving = True

    def mount(self, options: str = "rw") -> str:
        """The command that mounts the file system, in a guest that has just booted or any other."""
        kind = self.setup.file_system
        return f"modules_load {kind} && mount -t {kind} -o {options} {FS_DEVICE} /mnt"

    # --- hibernation ---

    def save(self, command: str = S2DISK, reason: str = "guest-shutdown", timeout: float = 120.0,
             where: tuple[Path, int] | None = None, signature: str = hostdisk.IMAGE,
             talk: Talk | None = None) -> "Save":
        """Hibernate the running guest, with somebody at its console; returns when the machine is off."""
        guest = self.live()
        number = guest.send(f"echo SAVE-BEGIN; {command}")
        if talk:
            talk(guest)
        guest.wait(lambda: guest.event("SHUTDOWN") or guest.reply(number), timeout,
                   f'power-off after "{command}"')
        answer = guest.reply(number)
        if answer:
            raise Failed(f'"{command}" came back with {answer.status}: {answer.text}')
        why, when = guest.wait_off()
        need(why == reason, f"QEMU ended by {why}, not {reason}")
        began = guest.expect("^SAVE-BEGIN", 5)
        text = guest.text_since(number)
        written = guest.disk_statistics()[0]["wr_bytes"]
        self.cut_power()
        path, page = where or (self.swap, 0)
        found = hostdisk.signature(path, page)
        need(signature in (found, ANY), f"the signature while off is {found!r}, not {signature!r}")
        return Save(number, text, when - began, written)

    def restore(self, save: "Save", command: str = RESUME, timeout: float = 120.0,
                append: str = "", talk: Talk | None = None) -> Cycle:
        """Boot again and resume; returns when the restored shell has answered."""
        guest = self.boot(append)
        number = guest.send(f"echo RESUME-BEGIN; {command}")
        if talk:
            talk(guest)
        answer = self.restored(save, number, command, timeout)
        need(answer.status == 0, f"the saving program ended with {answer.status}: {answer.text}")
        began = guest.expect("^RESUME-BEGIN", 5)
        return Cycle(save.text, answer.text, save.seconds, answer.ended - began)

    def restored(self, save: "Save", number: int, command: str = RESUME, timeout: float = 120.0) -> Reply:
        """Wait until the restored shell has answered; `number` is that of the command that loads."""
        guest = self.guest
        assert guest is not None
        guest.wait(lambda: guest.reply(number) or guest.reply(save.number), timeout,
                   f'restored system after "{command}"')
        failed = guest.reply(number)
        if failed:
            raise Failed(f'"{command}" came back with {failed.status}: {failed.text}')
        self.proving = True
        return guest.wait_reply(save.number, 5)

    def prove(self) -> None:
        """Let the restored system prove itself, and check its disks."""
        guest = self.live()
        guest.check("state_check", 120)
        guest.check(f"swap_check {SWAP_DEVICE} {hostdisk.swap_uuid(self.swap)}", 120)
        need(hostdisk.signature(self.swap) == hostdisk.SWAP, "the swap disk carries no swap signature")
        self.check_file_system()

    def check_file_system(self) -> None:
        """Take the guest's file system off, check it on the host, mount it again."""
        guest = self.live()
        guest.check("echo written > /mnt/after && sync && umount /mnt")
        wrong = hostdisk.fsck(self.fs, self.setup.file_system)
        need(not wrong, f"the file system is damaged: {wrong}")
        guest.check(self.mount())

    def cycle(self, command: str = S2DISK, resume: str = RESUME, talk: Talk | None = None,
              **options: object) -> Cycle:
        """A whole hibernation with its proof; `talk` is about the boot that resumes."""
        done = self.restore(self.save(command, **options), resume, talk=talk)  # type: ignore[arg-type]
        self.prove()
        return done

    def refuse(self, command: str, status: int, timeout: float = 60.0) -> Reply:
        """Run a command that must give `status`, in the guest that runs."""
        if self.guest is None:
            raise GuestError("no guest runs")
        done = self.guest.run(command, timeout)
        need(done.status == status, f'"{command}" gave {done.status}, not {status}: {done.text}')
        return done


@dataclass(frozen=True)
class Save:
    """A hibernation that waits to be restored."""

    number: int               # of the command that will answer when restored
    text: str
    seconds: float
    written: int              # bytes that the guest wrote to the swap disk, from its boot on
