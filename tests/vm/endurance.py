# SPDX-License-Identifier: GPL-2.0-or-later
"""One machine that hibernates again and again, each time otherwise, and must be none the worse for it.

Every cycle draws its load and s2disk's options from a generator with a known seed. It proves the
machine, takes the load away, and measures what a leak would leave behind: swap pages, memory, slab,
threads and open files.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from dataclasses import astuple, dataclass, field
from typing import Callable

import hostdisk
from guest import GuestError
from hostdisk import SWAP
from machine import FS_DEVICE, SWAP_DEVICE, Failed, Machine, need
from scenarios import ABORTED, KEY_FILE, scenario

FILE_SYSTEM = 640     # MiB
SWAP_FILE = 320
NOISE = 48            # MiB of a file that is read into the page cache, and held as anonymous memory
SEED = 20100401
CODECS = ("auto", "auto", "lzo", "lz4", "zstd", "zstd:7", "none")
THREADS = ("y", "y", "0", "1", "2", "4")
SIZES = ("", "", "-s 96M", "-s 1024M", "-s 0")
# What the kernel does by itself, in KiB, KiB, tasks and files; a leak in every cycle would soon take more.
MEMORY_SLACK, SLAB_SLACK, THREAD_SLACK, FILE_SLACK = 16 << 10, 6 << 10, 16, 8


@dataclass(frozen=True)
class Plan:
    """What one cycle does."""

    codec: str
    threads: str
    size: str
    sealed: bool
    swap_file: bool
    abort: bool
    tmpfs: int        # MiB
    noise: bool       # of random bytes, not of programs
    anonymous: int    # MiB
    cache: bool       # the page cache is filled before

    def __str__(self) -> str:
        parts = [self.codec, f"threads {self.threads}", self.size or "size by the kernel",
                 "sealed" if self.sealed else "plain", "file" if self.swap_file else "partition",
                 f"tmpfs {self.tmpfs}{' random' if self.noise else ''}", f"anonymous {self.anonymous}"]
        return ", ".join(parts + ["cache"] * self.cache + ["stopped once"] * self.abort)

    def options(self) -> str:
        """For s2disk."""
        seal = f"-P 'encrypt = y' -P 'key file = {KEY_FILE}'" if self.sealed else ""
        return f"-v {self.size} -P 'compressor = {self.codec}' -P 'threads = {self.threads}' {seal}"


def draw(dice: random.Random, number: int) -> Plan:
    """The plan of a cycle; files, seals and keys come in turns, so that none is left out."""
    return Plan(dice.choice(CODECS), dice.choice(THREADS), dice.choice(SIZES), number % 3 == 1, number % 4 == 2,
                number % 5 == 3, dice.choice((0, 16, 48, 96, 140)), dice.random() < 0.4,
                dice.choice((0, 16, 32, NOISE)), dice.random() < 0.5)


@dataclass(frozen=True)
class Residue:
    """What is there when the load is gone."""

    available: int    # KiB
    slab: int         # KiB
    swap_used: int    # KiB
    swapped: int      # pages that the kernel has swapped out since its boot
    tasks: int
    files: int


@dataclass
class Endurance:
    """The machine under test and what its cycles gave."""

    machine: Machine
    tell: Callable[[str], object]
    seed: int = SEED
    offset: int = 0
    digest: str = ""
    raw: int = 0                                       # MB saved
    saves: list[float] = field(default_factory=list)   # seconds, from the command to power-off
    loads: list[float] = field(default_factory=list)
    aborts: int = 0
    residues: list[Residue] = field(default_factory=list)

    def begin(self) -> None:
        """A new machine, with a larger file system that has a swap file on it."""
        machine = self.machine
        machine.renew()
        hostdisk.make_ext4(machine.fs, FILE_SYSTEM)
        guest = machine.boot()
        machine.begin(guest, 120)
        guest.check(f"dd if=/dev/zero of=/mnt/swap bs=1M count={SWAP_FILE} 2> /dev/null && chmod 600 /mnt/swap && "
                    f"mkswap /mnt/swap > /dev/null && head -c {NOISE << 20} /dev/urandom > /mnt/noise && sync", 240)
        guest.check(f"mkfifo /run/held && (umask 077; head -c 32 /dev/urandom > {KEY_FILE})")
        self.offset = int(guest.check("swap_offset /mnt/swap").split("=")[1])
        self.residues.append(self.look())

    def look(self) -> Residue:
        """Measure, with all of the caches dropped; no s2disk may be left."""
        guest = self.machine.live()
        guest.check("sync; echo 3 > /proc/sys/vm/drop_caches; sleep 0.5; echo 3 > /proc/sys/vm/drop_caches")
        need(guest.run("pidof s2disk resume").status != 0, "a process of ours is left")
        text = guest.check("cat /proc/meminfo /proc/vmstat; echo tasks $(cut -d/ -f2 /proc/loadavg | cut -d' ' -f1); "
                           "echo files $(ls /proc/[0-9]*/fd 2> /dev/null | grep -c '^[0-9]')")

        def number(name: str) -> int:
            found = re.search(rf"^{name}:?\s+(\d+)", text, re.MULTILINE)
            assert found, name
            return int(found.group(1))

        return Residue(number("MemAvailable"), number("Slab"), number("SwapTotal") - number("SwapFree"),
                       number("pswpout"), number("tasks"), number("files"))

    # --- one cycle ---

    def take(self, plan: Plan) -> str:
        """Take memory as planned; what sha256sum says of what lies in files."""
        guest = self.machine.live()
        if plan.swap_file:
            guest.check(f"swapoff {SWAP_DEVICE} && swapon /mnt/swap")
        if plan.cache:
            guest.check("cat /mnt/noise > /dev/null", 120)
        if plan.tmpfs:
            guest.check(f"fill {plan.tmpfs} {'random' if plan.noise else ''}", 120)
        if plan.anonymous:
            # read wholly, then stuck at writing: nobody reads the pipe
            guest.check("{ sleep 1000000 < /run/held & } ; held_open=$!; { dd if=/mnt/noise "
                        f"bs={plan.anonymous}M count=1 iflag=fullblock 2> /dev/null > /run/held & }} ; "
                        "held=$!; sleep 1; kill -0 $held")
        return guest.check("cat /run/fill/* 2> /dev/null | sha256sum", 120)

    def release(self, plan: Plan, digest: str) -> None:
        """Everything must be as it was; then take it away."""
        guest = self.machine.live()
        need(guest.check("cat /run/fill/* 2> /dev/null | sha256sum", 120) == digest, "the files in memory are damaged")
        if plan.anonymous:
            wanted = guest.check(f"head -c {plan.anonymous << 20} /mnt/noise | sha256sum", 120)
            # the reader is opened first: with none, dd would be killed by SIGPIPE
            got = guest.check("exec 6< /run/held; kill $held_open; sha256sum <&6; exec 6<&-", 120)
            need(got == wanted, "anonymous memory is damaged")
        guest.check("rm -rf /run/fill")

    def stop_once(self, plan: Plan, command: str) -> None:
        """A save that a key ends."""
        guest = self.machine.live()
        guest.streams["console"].lines.clear()
        disk = 1 if plan.swap_file else 0
        guest.throttle(disk, 20_000_000)   # the kernel swaps out at this speed, before the bar comes
        number = guest.send(command)
        guest.wait(lambda: guest.progress("saving") >= 0 or guest.reply(number), 90, "bar")
        guest.throttle(disk, 2_000_000)
        guest.console_send(b"\x7f")
        guest.throttle(disk, 0)
        done = guest.wait_reply(number)
        need(done.status == ABORTED, f"stopped by a key, s2disk gave {done.status}: {done.text}")
        guest.check("state_check", 120)
        self.aborts += 1

    def cycle(self, number: int, plan: Plan) -> None:
        """Hibernate, resume, prove, and see whether anything is left."""
        machine = self.machine
        begun = time.time()
        digest = self.take(plan)
        if plan.swap_file:
            command, where = f"s2disk -r /mnt/swap {plan.options()}", (machine.fs, self.offset)
            resume = f"resume -o {self.offset} {FS_DEVICE}"
        else:
            command, where, resume = f"s2disk -r {SWAP_DEVICE} {plan.options()}", None, f"resume {SWAP_DEVICE}"
        if plan.sealed:
            key = machine.live().check(f"xxd -p -c 64 {KEY_FILE}")
            resume = f"(umask 077; echo {key} | xxd -p -r > {KEY_FILE}); {resume} -P 'key file = {KEY_FILE}'"
        if plan.abort:
            self.stop_once(plan, command)
        done = machine.restore(machine.save(command, where=where), resume)
        told = re.search(r"resumed: (\d+) MB saved as (\d+) MB in ([0-9.]+) s .*loaded in ([0-9.]+) s", done.restored)
        need(told, f"no figures: {done.restored}")
        assert told
        self.release(plan, digest)
        left = self.look()
        self.compare(left)
        if plan.swap_file:
            machine.live().check(f"swap_active /mnt/swap && swapoff /mnt/swap && swapon {SWAP_DEVICE}", 120)
            need(hostdisk.signature(machine.fs, self.offset) == SWAP, "the swap file carries no swap signature")
        machine.prove()   # swap is taken off, and on, in it
        used = self.look().swap_used
        need(used <= 1024, f"{used} KiB of swap are in use right after swapon")
        self.residues.append(left)
        self.raw += int(told.group(1))
        self.saves.append(done.save_seconds)
        self.loads.append(done.load_seconds)
        raw, stored, saved, loaded = told.groups()
        self.tell(f"cycle {number}: {plan}: {raw} MB as {stored}, saved in {saved} s, loaded in {loaded} s; then "
                  f"{left.available >> 10} MiB available, slab {left.slab >> 10} MiB, swap used "
                  f"{left.swap_used >> 10} MiB, {left.tasks} tasks, {left.files} files; {time.time() - begun:.0f} s")

    def compare(self, left: Residue) -> None:
        """Swap in use is what the kernel itself has swapped out, no page of the image."""
        before = self.residues[-1]
        swapped = (left.swapped - before.swapped) * 4
        need(left.swap_used <= swapped + 1024,
             f"{left.swap_used} KiB of swap are in use, the kernel swapped {swapped} out")

    def end(self) -> str:
        """After all: no trend in anything, beyond what the kernel's own noise is; the summary."""
        some = max(1, min(5, len(self.saves) // 2))
        first, last = self.middle(self.residues[1:1 + some]), self.middle(self.residues[-some:])
        for what, slack, grown in (("available memory", MEMORY_SLACK, first.available - last.available),
                                   ("slab", SLAB_SLACK, last.slab - first.slab),
                                   ("tasks", THREAD_SLACK, last.tasks - first.tasks),
                                   ("open files", FILE_SLACK, last.files - first.files)):
            need(grown <= slack, f"{what}: {grown} more are taken after {len(self.saves)} cycles; {first} -> {last}")
        return f"{len(self.saves)} cycles, {self.aborts} saves stopped by a key, {self.raw} MB saved; save median " \
               f"{statistics.median(self.saves):.1f} s, longest {max(self.saves):.1f} s; load median " \
               f"{statistics.median(self.loads):.1f} s, longest {max(self.loads):.1f} s; available memory " \
               f"{first.available} -> {last.available} KiB ({self.trend():+.1f} KiB a cycle), slab {first.slab} -> " \
               f"{last.slab} KiB, tasks {first.tasks} -> {last.tasks}, files {first.files} -> {last.files}"

    @staticmethod
    def middle(some: list[Residue]) -> Residue:
        """The medians of a few; the first cycle of all loads what later ones find, so it is no measure."""
        return Residue(*(int(statistics.median(values)) for values in zip(*(astuple(r) for r in some))))

    def trend(self) -> float:
        """Slope of the available memory over the cycles, by least squares, in KiB a cycle."""
        values = [r.available for r in self.residues[1:]]
        if len(values) < 2:
            return 0.0
        middle, mean = (len(values) - 1) / 2, statistics.mean(values)
        return sum((i - middle) * (v - mean) for i, v in enumerate(values)) / \
            sum((i - middle) ** 2 for i in range(len(values)))

    def run(self, cycles: int, seconds: float = float("inf")) -> str:
        """So many cycles, or as many as begin within the time."""
        dice = random.Random(self.seed)
        end = time.time() + seconds
        self.begin()
        for number in range(1, cycles + 1):
            if time.time() > end:
                break
            plan = draw(dice, number)
            try:
                self.cycle(number, plan)
            except (Failed, GuestError) as error:
                raise Failed(f"cycle {number} ({plan}): {error}") from error
        return self.end()


@scenario("endurance")
def endurance_short(machine: Machine) -> str:
    """Three cycles in a row under changing load and options leave nothing behind."""
    return Endurance(machine, lambda _: None).run(3)


@scenario("endurance", long=True)
def endurance(machine: Machine) -> str:
    """Fifty cycles in a row under changing load and options leave nothing behind."""
    return Endurance(machine, lambda text: print(f"# {text}", flush=True)).run(50)
