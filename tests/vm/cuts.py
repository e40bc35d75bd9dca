# SPDX-License-Identifier: GPL-2.0-or-later
"""Power cuts: whatever the disk had kept when the power failed, the next boot resumes or is a normal one.

The swap disk is one of ours (nbd.py). A save, or a load, is run once with a log of all that the disk
was told to keep; then, for each cut, the disk is laid as a power failure at that place may leave it,
and a guest boots from it. What was written since the last flush is lost in whole, in part, or not at
all, so a sync too few shows.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import hostdisk
from hostdisk import IMAGE, SWAP
from machine import RESUME, S2DISK, Machine, Save, need
from nbd import FLUSH, NEVER_ENDS, READ, WRITE, Event, Fault, is_record, lay, survivors
from scenarios import NO_IMAGE, goes_on, scenario

LOST = ("all", "none", "all but the last", "some")


@dataclass(frozen=True)
class Cut:
    """Where the power fails: after so many events; what is lost of those that no flush covers."""

    where: str
    after: int
    lost: str


@dataclass
class Recording:
    """A save or a load with what the disk was told, and the disks as they were before."""

    log: list[Event]
    swap: Path
    fs: Path
    save: Save
    header: int               # which event writes it; 0 in a load
    mark: int                 # which sets it; in a load, which clears it
    marked: int               # the flush behind that

    def flushes(self) -> list[int]:
        """Which events are flushes."""
        return [n for n, event in enumerate(self.log) if event.kind == FLUSH]

    def rule(self, cut: Cut) -> tuple[str, ...]:
        """What the signature may be: before the mark's sync one or the other, where chance has a part in it."""
        if self.header and cut.after <= self.mark:
            return (SWAP,)
        if self.header and (cut.after > self.marked or cut.lost in ("none", "all but the last")):
            return (IMAGE,)
        return SWAP, IMAGE


def seed() -> int:
    """Of this run; printed, and taken from the environment to repeat it."""
    return int(os.environ.get("DORMOUSE_SEED") or random.randrange(1 << 32))


def find(log: list[Event], what: bytes, begin: int = 0) -> int:
    """The first write of that record, or of the mark."""
    return next(n for n, event in enumerate(log) if n >= begin and event.kind == WRITE and is_record(event.data, what))


def flush_after(log: list[Event], place: int) -> int:
    """The first flush behind an event."""
    return next(n for n, event in enumerate(log) if n > place and event.kind == FLUSH)


def record_save(machine: Machine) -> Recording:
    """Save once, and keep what the disk was told from the command on."""
    machine.cut_power()
    machine.served = True
    guest = machine.live()
    guest.check("echo old > /mnt/file; fill 24 random; sync")
    swap, fs = machine.folder / "before.img", machine.folder / "kept-fs.img"
    hostdisk.copy(machine.swap, swap)
    server = machine.server
    assert server is not None
    server.record()
    save = machine.save(S2DISK)
    log = server.log
    assert log is not None
    machine.served = False
    hostdisk.copy(machine.fs, fs)
    mark = find(log, IMAGE.encode())
    return Recording(log, swap, fs, save, find(log, b"DORMHEAD"), mark, flush_after(log, mark))


def record_load(machine: Machine, saved: Recording) -> Recording:
    """Load what was saved, and keep what the disk was told until the restored system goes on."""
    swap = machine.folder / "image.img"
    hostdisk.copy(saved.swap, machine.swap)
    lay(machine.swap, survivors(saved.log, len(saved.log), "none", random.Random()))
    hostdisk.copy(machine.swap, swap)
    hostdisk.copy(saved.fs, machine.fs)
    machine.served = True
    machine.boot()
    server = machine.server
    assert machine.guest is not None and server is not None
    server.record()
    server.arm()
    number = machine.guest.send(RESUME)
    machine.restored(saved.save, number)
    log = list(server.log or [])
    machine.cut_power()
    machine.served = False
    clear = find(log, SWAP.encode(), flush_after(log, 0))
    return Recording(log, swap, saved.fs, saved.save, 0, clear, flush_after(log, clear))


def try_cut(machine: Machine, done: Recording, cut: Cut, chance: random.Random) -> str:
    """Lay the disks as the cut leaves them and boot: resumed, or a normal boot."""
    machine.cut_power()
    hostdisk.copy(done.swap, machine.swap)
    lay(machine.swap, survivors(done.log, cut.after, cut.lost, chance))
    hostdisk.copy(done.fs, machine.fs)
    found = hostdisk.signature(machine.swap)
    need(found in done.rule(cut), f"the signature is {found!r}, not {' or '.join(done.rule(cut))}")
    if found == IMAGE:
        machine.restore(done.save)
        machine.prove()
        return "resumed"
    machine.boot()
    machine.refuse(RESUME, NO_IMAGE)
    goes_on(machine)
    return "booted"


def try_cuts(machine: Machine, done: Recording, cuts: list[Cut], number: int) -> str:
    """Try them all; the note says where each struck."""
    chance = random.Random(number)
    told = []
    for cut in cuts:
        try:
            how = try_cut(machine, done, cut, chance)
        except Exception as error:
            raise type(error)(f"power cut {cut.where} (event {cut.after} of {len(done.log)}, lost: {cut.lost}, "
                              f"DORMOUSE_SEED={number}): {error}") from error
        told.append(f"{cut.where} ({cut.after}, lost {cut.lost}): {how}")
    machine.cut_power()
    resumed = sum(line.endswith("resumed") for line in told)
    return f"DORMOUSE_SEED={number}: {len(cuts)} cuts of {len(done.log)} events, {resumed} resumed, " \
           f"{len(cuts) - resumed} booted; " + "; ".join(told)


def in_data(done: Recording, chance: random.Random) -> Cut:
    """Anywhere before the trailer."""
    return Cut("in the data", chance.randrange(1, find(done.log, b"DORMTRLR")), chance.choice(LOST))


def save_cuts(done: Recording, chance: random.Random, spread: int) -> list[Cut]:
    """Round each step that counts, and `spread` places in the data."""
    cuts = [in_data(done, chance) for _ in range(spread)]
    for flush in [f for f in done.flushes() if f <= done.marked]:
        cuts.append(Cut("before a sync", flush, "some"))
        cuts.append(Cut("after a sync", flush + 1, "all"))
    cuts += [Cut("at the header", done.header + 1, lost) for lost in LOST]
    cuts += [Cut("at the mark", done.mark + 1, lost) for lost in LOST]
    cuts.append(Cut("at the power-off", len(done.log), "all"))
    return cuts


@scenario("cuts")
def power_cuts(machine: Machine) -> str:
    """Power fails at eight places of a save, and what was not synced is lost: resumed, or a normal boot."""
    number = seed()
    chance = random.Random(number)
    done = record_save(machine)
    cuts = [in_data(done, chance), Cut("at the header", done.header + 1, "some")]
    cuts += [Cut("at the mark", done.mark + 1, lost) for lost in ("all", "all but the last")]
    cuts += [Cut("after a sync", flush + 1, "all") for flush in done.flushes() if flush <= done.marked][-3:]
    cuts.append(Cut("at the power-off", len(done.log), "all"))
    return try_cuts(machine, done, cuts, number)


@scenario("cuts", long=True)
def power_cuts_saving(machine: Machine) -> str:
    """Power fails at forty and more places of a save."""
    number = seed()
    chance = random.Random(number)
    done = record_save(machine)
    cuts = [Cut("before anything", 0, "all")] + save_cuts(done, chance, 24)
    return try_cuts(machine, done, cuts, number)


@scenario("cuts", long=True)
def power_cuts_loading(machine: Machine) -> str:
    """Power fails behind each thing that a load, and then the restored system, writes."""
    number = seed()
    done = record_load(machine, record_save(machine))
    cuts = [Cut("loading" if n < done.mark else "clearing the mark", n + 1, lost)
            for n in range(done.marked + 1) for lost in LOST]
    return try_cuts(machine, done, cuts, number)


@scenario("cuts", long=True)
def power_cuts_while_reading(machine: Machine) -> str:
    """Power fails at eleven places of the image's reading: each time the next boot resumes."""
    saved = record_save(machine)
    done = record_load(machine, saved)
    reads = done.log[done.mark].reads
    told = []
    for tenth in range(11):
        hostdisk.copy(done.swap, machine.swap)
        hostdisk.copy(done.fs, machine.fs)
        machine.served = True
        guest = machine.boot()
        server = machine.server
        assert server is not None
        fault = Fault(READ, max(1, reads * tenth // 10), NEVER_ENDS, what="stuck")
        server.arm(fault)
        number = guest.send(RESUME)
        guest.wait(lambda: fault.struck or guest.reply(number), 60, "a read")
        need(fault.struck, f"resume ended before read {fault.first}")
        time.sleep(0.2)
        machine.cut_power()
        machine.served = False
        machine.restore(saved.save)
        machine.prove()
        told.append(str(fault.struck[0]))
    machine.cut_power()
    return f"{len(told)} cuts at reads {', '.join(told)} of {reads}; each resumed"
