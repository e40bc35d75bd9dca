# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad disks: errors, a full device, one that is slow, stuck or pulled out, at many places in both directions.

The swap disk is one of ours (nbd.py), so each fault has the number of the request that it hit. At the
next boot it is well again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import hostdisk
from guest import Guest
from hostdisk import IMAGE, SWAP
from machine import FS_DEVICE, RESUME, S2DISK, Failed, Machine, need
from nbd import EIO, ENOSPC, FLUSH, NAMES, NEVER_ENDS, READ, WRITE, Fault, FaultyDisk
from scenarios import CORRUPT, IO, MISSING, NO_IMAGE, STALE, frozen_image, goes_on, scenario, usable_after


# A size that leaves the kernel nothing to swap out: the faults shall strike the image.
SAVE = f"{S2DISK} -s 1024M"


@dataclass(frozen=True)
class Case:
    """A fault, told to the disk when the command begins."""

    name: str
    kind: int
    first: int = 1
    count: int = 1
    error: int = EIO
    what: str = "error"
    which: bytes = b""

    def fault(self) -> Fault:
        """A fresh one."""
        return Fault(self.kind, self.first, self.count, error=self.error, what=self.what, which=self.which)


def strike(machine: Machine, case: Case, command: str) -> tuple[Guest, Fault, int, str]:
    """Run a command on the disk that fails; its exit code and words."""
    guest, server = machine.guest, machine.server
    assert guest is not None and server is not None
    fault = case.fault()
    server.arm(fault)
    done = guest.run(command, 90)
    server.arm()
    need(fault.struck, f"{case.name}: the fault never struck")
    return guest, fault, done.status, done.text


def at(case: Case, fault: Fault) -> str:
    """Where it struck."""
    return f"{case.name} at {NAMES[case.kind]} {fault.struck[0]}"


def living(machine: Machine) -> Guest:
    """A guest that runs, with something to save."""
    fresh = machine.guest is None or not machine.proving
    guest = machine.live()
    if fresh:
        guest.check("fill 24 random")
    return guest


# Each of these passes; the machine goes on with a disk that is well again.
PASSING = [
    Case("first write", WRITE), Case("a write", WRITE, 9), Case("full", WRITE, 12, error=ENOSPC),
    Case("many writes", WRITE, 15, 5), Case("trailer", WRITE, which=b"DORMTRLR"), Case("state", WRITE, which=b"DORMSTAT"),
    Case("first sync", FLUSH), Case("header", WRITE, which=b"DORMHEAD"), Case("header's sync", FLUSH, 2),
    Case("mark", WRITE, which=IMAGE.encode()), Case("mark's sync", FLUSH, 3),
]


def save_fails(machine: Machine, cases: list[Case]) -> str:
    """Each fault ends the save with one message; the machine goes on and swap is as before."""
    told = []
    for case in cases:
        living(machine)
        _, fault, status, text = strike(machine, case, SAVE)
        need(status == IO, f"{case.name}: s2disk gave {status}: {text}")
        need(len(text.splitlines()) >= 1 and "/dev/vda" in text, f"{case.name}: it says {text!r}")
        try:
            usable_after(machine, case.name)
        except Failed as error:
            raise Failed(f"{at(case, fault)}: {error}") from error
        told.append(at(case, fault))
    return f"{len(cases)} faults: " + "; ".join(told)


@scenario("bad-disk")
def disk_fails_while_saving(machine: Machine) -> str:
    """Writes and syncs fail at four places of a save: the machine goes on."""
    return save_fails(machine, [PASSING[1], PASSING[7], PASSING[9], PASSING[10]])


@scenario("bad-disk", long=True)
def disk_fails_while_saving_everywhere(machine: Machine) -> str:
    """Writes and syncs fail at every step of a save, and at twelve places of its data."""
    more = [Case("a write", WRITE, n) for n in range(2, 38, 3)]
    return save_fails(machine, PASSING + more)


@scenario("bad-disk")
def disk_pulled_while_saving(machine: Machine) -> str:
    """The disk is pulled out in the middle of a save: the machine goes on without it."""
    told = []
    for case in (Case("pulled out", WRITE, 9, what="gone"), Case("pulled out", FLUSH, 2, what="gone")):
        guest = living(machine)
        _, fault, status, text = strike(machine, case, SAVE)
        need(status == IO, f"{case.name}: s2disk gave {status}: {text}")
        guest.check("state_check", 120)
        machine.cut_power()
        need(hostdisk.signature(machine.swap) == SWAP, "a signature is left on the disk")
        told.append(at(case, fault))
    return "; ".join(told)


@scenario("bad-disk", long=True)
def disk_pulled_at_the_mark(machine: Machine) -> str:
    """The disk is gone when the mark is written: nobody knows whether it stands, so the machine goes off."""
    told = []
    for case in (Case("pulled out", WRITE, which=IMAGE.encode(), what="gone"), Case("pulled out", FLUSH, 3, what="gone")):
        guest = living(machine)
        server = machine.server
        assert server is not None
        fault = case.fault()
        server.arm(fault)
        number = guest.send(SAVE)
        guest.wait(lambda: guest.event("SHUTDOWN") or guest.reply(number), 90, "power-off")
        need(guest.is_off(), f"{at(case, fault)}: the machine went on")
        machine.cut_power()
        marked = hostdisk.signature(machine.swap) == IMAGE
        guest = machine.boot()
        if not marked:
            machine.refuse(RESUME, NO_IMAGE)
        told.append(f"{at(case, fault)}: {'marked' if marked else 'not marked'}")
        machine.cut_power()
    return "; ".join(told)


@scenario("bad-disk", long=True)
def disk_slow(machine: Machine) -> str:
    """The disk answers nothing for fifteen seconds, in a save and in a load: it is waited for."""
    told = []
    living(machine)
    server = machine.server
    assert server is not None
    fault = Fault(WRITE, 9, what="slow", seconds=15)
    server.arm(fault)
    save = machine.save(SAVE)
    told.append(f"write {fault.struck[0]}")
    guest = machine.boot()
    server = machine.server
    assert server is not None
    fault = Fault(READ, 40, what="slow", seconds=15)
    server.arm(fault)
    number = guest.send(RESUME)
    machine.restored(save, number)
    machine.prove()
    told.append(f"read {fault.struck[0]}")
    return ", ".join(told)


def never_answers(machine: Machine, case: Case, command: str) -> tuple[FaultyDisk, Fault, Guest, int]:
    """Send a command to a disk that will stop answering for good."""
    guest, server = machine.guest, machine.server
    assert guest is not None and server is not None
    fault = case.fault()
    server.arm(fault)
    return server, fault, guest, guest.send(command)


@scenario("bad-disk", long=True)
def disk_never_answers_a_save(machine: Machine) -> str:
    """The disk stops answering in a save: the machine goes on after a while, and what is written late harms nothing."""
    told = []
    for case in (Case("no answer", WRITE, 9, NEVER_ENDS, what="stuck"), Case("no answer", FLUSH, 2, what="stuck")):
        living(machine)
        server, fault, guest, number = never_answers(machine, case, f"{SAVE} -P 'disk timeout = 8'")
        done = guest.wait_reply(number, 120)
        need(done.status == IO, f"{at(case, fault)}: s2disk gave {done}")
        guest.check("state_check", 120)
        need(guest.run("pidof s2disk").status == 0, f"{at(case, fault)}: nobody waits for the late answers")
        late = server.answer_all()
        need(late, "the disk owed nothing")
        guest.check("(for i in 1 2 3 4 5 6 7 8 9; do pidof s2disk > /dev/null || exit 0; sleep 1; done; exit 1)")
        usable_after(machine, case.name)
        told.append(f"{at(case, fault)}: {late} answers came late")
    return "; ".join(told)


@scenario("bad-disk", long=True)
def disk_never_answers_the_mark(machine: Machine) -> str:
    """Nobody knows whether the mark will stand: the machine does not go on, and goes off as soon as its drivers can."""
    told = []
    for case in (Case("no answer", WRITE, which=IMAGE.encode(), what="stuck"), Case("no answer", FLUSH, 3, what="stuck")):
        living(machine)
        server, fault, guest, number = never_answers(machine, case, f"{SAVE} -P 'disk timeout = 8'")
        guest.wait(lambda: fault.struck, 90, "fault")
        time.sleep(25)   # three times as long as it has patience
        need(not guest.reply(number), f"{at(case, fault)}: the machine went on")
        server.answer_all()
        guest.wait_off()
        need(not guest.reply(number), f"{at(case, fault)}: the machine went on")
        machine.cut_power()
        told.append(at(case, fault))
    return "; ".join(told)


@scenario("bad-disk", long=True)
def disk_never_answers_a_load(machine: Machine) -> str:
    """The disk stops answering in a load: the boot goes on after a while, and the image is stale then."""
    told = []
    for case in (Case("no answer", READ, 2, NEVER_ENDS, what="stuck"), Case("no answer", READ, 40, NEVER_ENDS, what="stuck"),
                 Case("no answer", FLUSH, what="stuck")):
        frozen_image(machine)
        machine.boot()
        server, fault, guest, number = never_answers(machine, case, f"{RESUME} -P 'disk timeout = 8'")
        done = guest.wait_reply(number, 120)
        need(done.status == IO and "/dev/vda" in done.text, f"{at(case, fault)}: resume gave {done}")
        guest.check(f"mount -t ext4 {FS_DEVICE} /mnt && echo new > /mnt/file && umount /mnt")
        server.answer_all()
        machine.cut_power()
        machine.boot()
        machine.refuse(RESUME, STALE)
        goes_on(machine)
        machine.cut_power()
        told.append(at(case, fault))
    return "; ".join(told)


def load_fails(machine: Machine, cases: list[Case]) -> str:
    """Each fault ends the load with one message; the boot goes on, and never with a part restored."""
    told = []
    for case in cases:
        frozen_image(machine)
        machine.boot()
        _, fault, status, text = strike(machine, case, RESUME)
        need(status in (IO, CORRUPT, MISSING), f"{at(case, fault)}: resume gave {status}: {text}")
        need("/dev/vda" in text, f"{at(case, fault)}: it says {text!r}")
        if hostdisk.signature(machine.swap) == IMAGE:
            # The first look failed, so nobody knows what lies there: the next boot looks again.
            need(case.first < 4 or case.count > 1, f"{at(case, fault)}: the image stands after {text!r}")
        else:
            goes_on(machine)
        told.append(f"{at(case, fault)}: {status}")
        machine.cut_power()
    return f"{len(cases)} faults: " + "; ".join(told)


@scenario("bad-disk")
def disk_fails_while_loading(machine: Machine) -> str:
    """Reads fail at three places of a load: the boot goes on, with one message and a code."""
    return load_fails(machine, [Case("read", READ, n) for n in (1, 12, 40)])


@scenario("bad-disk", long=True)
def disk_fails_while_loading_everywhere(machine: Machine) -> str:
    """Reads, writes and syncs fail at every step of a load."""
    cases = [Case("read", READ, n) for n in (*range(1, 16), *range(20, 90, 7))]
    cases += [Case("attempts", WRITE), Case("attempts' sync", FLUSH), Case("many reads", READ, 30, 20)]
    return load_fails(machine, cases)


@scenario("bad-disk")
def disk_pulled_while_loading(machine: Machine) -> str:
    """The disk is pulled out in a load, the boot goes on and writes; plugged in again, the image is stale."""
    frozen_image(machine)
    machine.boot()
    case = Case("pulled out", READ, 30, NEVER_ENDS, what="gone")
    guest, fault, status, text = strike(machine, case, RESUME)
    need(status in (IO, CORRUPT), f"resume gave {status}: {text}")
    guest.check(f"mount -t ext4 {FS_DEVICE} /mnt && echo new > /mnt/file && umount /mnt")
    machine.cut_power()
    need(hostdisk.signature(machine.swap) == IMAGE, "a disk that was gone was written to")
    machine.boot()
    machine.refuse(RESUME, STALE)
    goes_on(machine)
    machine.cut_power()
    return f"{at(case, fault)}: {status}"
