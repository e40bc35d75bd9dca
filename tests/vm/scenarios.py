# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenarios: what Dormouse must do, in a real kernel, when all goes well and when it does not.

A scenario is a function that gets its group's machine and raises when something is not as it must
be. Its name is the function's; its first doc line says what it is about. Groups run side by side,
the scenarios of one group one after the other on one machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from typing import Callable

import hostdisk
from guest import Guest, GuestError
from hostdisk import IMAGE, KERNEL_IMAGE, SWAP
from machine import (EXTRA_DEVICE, FS_DEVICE, RESUME, S2DISK, SWAP_DEVICE, Failed, Machine, Save, Setup, Talk,
                     need)

# Exit codes of the programs (src/base/error.h).
CONFIG, KERNEL = 3, 5
BUSY, MISSING, IO, TOO_SMALL, MEMORY, FREEZE, SNAPSHOT, POWER_OFF = 6, 7, 8, 9, 10, 11, 12, 13
NO_IMAGE, CORRUPT, OTHER_MACHINE, OTHER_SYSTEM, STALE, NORESUME, MOUNTED = 20, 21, 23, 24, 25, 28, 29
NO_KEY, NO_WAY_TO_ASK = 26, 27
RESTORE, FOREIGN, GIVEN_UP, DECLINED = 30, 31, 32, 34
ABORTED = 14

GROUPS = {
    "cycles": Setup(),
    "one-cpu": Setup(cpus=1),
    "four-cpus": Setup(cpus=4),
    "new-kernel": Setup(kernel="6.12"),
    "new-kernel-one-cpu": Setup(kernel="6.12", cpus=1),
    "new-kernel-four-cpus": Setup(kernel="6.12", cpus=4),
    "images": Setup(),
    "faults": Setup(),
    "checks": Setup(),
    "memory": Setup(swap=700),
    "large-swap": Setup(swap=2048),
    "slow": Setup(limit=20_000_000),
    "sealed": Setup(),
    "screen": Setup(limit=20_000_000, screen=True),
    "ram": Setup(),
    "cuts": Setup(memory=320),
    "bad-disk": Setup(served=True),
    "endurance": Setup(),
    "swaps": Setup(extra=256),
    "stale-ext4": Setup(),
    "stale-xfs": Setup(file_system="xfs"),
    "stale-btrfs": Setup(file_system="btrfs"),
}


@dataclass(frozen=True)
class Scenario:
    """One entry of the table that `run` works through."""

    name: str
    group: str
    long: bool
    needs_programs: bool
    summary: str
    body: Callable[[Machine], object]


SCENARIOS: list[Scenario] = []


def scenario(group: str, long: bool = False, needs_programs: bool = True) -> Callable[..., object]:
    """Register a function as a scenario; what it returns is shown with its result."""
    def register(body: Callable[[Machine], object]) -> Callable[[Machine], object]:
        name = body.__name__.replace("_", "-")
        summary = (body.__doc__ or "").strip().splitlines()[0]
        SCENARIOS.append(Scenario(name, group, long, needs_programs, summary, body))
        return body
    return register


# --- cycles: hibernate and resume ---

KERNEL_SAVE = "echo shutdown > /sys/power/disk; echo disk > /sys/power/state"
KERNEL_LOAD = "cat /sys/class/block/vda/dev > /sys/power/resume"


@scenario("cycles", needs_programs=False)
def kernel_own_cycle(machine: Machine) -> str:
    """The kernel's own hibernation passes: the harness itself works."""
    try:
        machine.cycle(KERNEL_SAVE, KERNEL_LOAD, signature=KERNEL_IMAGE)
        return ""
    except GuestError as error:
        # None of our code runs here: an emulated kernel that hung once says nothing of us, twice does of the host.
        first = f"at the second try: {error}; the console ended with: {machine.console_end(3)}"
    machine.cut_power()
    machine.cycle(KERNEL_SAVE, KERNEL_LOAD, signature=KERNEL_IMAGE)
    return " / ".join(first.splitlines())


@scenario("cycles")
def cycle(machine: Machine) -> str:
    """Hibernate and resume with two processors."""
    done = machine.cycle()
    return f"saved in {done.save_seconds:.1f} s, loaded in {done.load_seconds:.1f} s"


@scenario("cycles")
def second_cycle(machine: Machine) -> None:
    """A restored system hibernates again, right away."""
    machine.restore(machine.save())
    machine.cycle()


@scenario("one-cpu")
def cycle_one_cpu(machine: Machine) -> None:
    """Hibernate and resume with one processor."""
    machine.cycle()


@scenario("four-cpus")
def cycle_four_cpus(machine: Machine) -> None:
    """Hibernate and resume with four processors."""
    machine.cycle()


@scenario("new-kernel")
def cycle_new_kernel(machine: Machine) -> None:
    """Hibernate and resume on a kernel that leaves zero pages out itself."""
    machine.cycle()


@scenario("new-kernel-one-cpu", long=True)
def cycle_new_kernel_one_cpu(machine: Machine) -> None:
    """The newer kernel with one processor."""
    machine.cycle()


@scenario("new-kernel-four-cpus", long=True)
def cycle_new_kernel_four_cpus(machine: Machine) -> None:
    """The newer kernel with four processors."""
    machine.cycle()


def with_option(option: str) -> str:
    """The saving command with one configuration line."""
    return f"{S2DISK} -P '{option}'"


@scenario("cycles")
def codec_lzo(machine: Machine) -> None:
    """Compress with LZO."""
    machine.cycle(with_option("compressor = lzo"))


@scenario("cycles")
def codec_zstd(machine: Machine) -> None:
    """Compress with zstd at level 3."""
    machine.cycle(with_option("compressor = zstd:3"))


@scenario("cycles")
def codec_none(machine: Machine) -> None:
    """Store the pages as they are."""
    machine.cycle(with_option("compressor = none"))


@scenario("cycles")
def threads_none(machine: Machine) -> None:
    """Save and load without threads."""
    machine.cycle(with_option("threads = 0"), f"resume -P 'threads = 0' {SWAP_DEVICE}")


@scenario("cycles")
def method_shutdown(machine: Machine) -> None:
    """Power off without the firmware's help."""
    machine.cycle(with_option("shutdown method = shutdown"))


@scenario("cycles")
def method_reboot(machine: Machine) -> None:
    """Reboot instead of powering off."""
    machine.cycle(with_option("shutdown method = reboot"), reason="guest-reset")


@scenario("cycles")
def resume_from_command_line(machine: Machine) -> None:
    """The device comes from resume= on the kernel's command line."""
    machine.restore(machine.save(), "resume", append=f"resume={SWAP_DEVICE}")
    machine.prove()


@scenario("cycles")
def stdio_closed(machine: Machine) -> None:
    """Standard input, output and error are closed."""
    machine.cycle(f"{S2DISK} <&- >&- 2>&-")


@scenario("cycles")
def stdout_full_pipe(machine: Machine) -> None:
    """Standard output and error are a full pipe that nobody reads."""
    guest = machine.live()
    guest.check("mkfifo /run/pipe; sleep 100000 < /run/pipe & exec 8> /run/pipe; "
                "dd if=/dev/zero bs=4k >&8 2> /dev/null & sleep 1; kill $!")
    machine.cycle(f"{S2DISK} -v >&8 2>&8")
    machine.live().check("exec 8>&-; rm /run/pipe")


@scenario("cycles")
def console_stopped(machine: Machine) -> None:
    """Standard output and error are a terminal that was stopped with Control-S."""
    guest = machine.live()
    guest.check("exec 7<> /dev/ttyS0; stty -F /dev/ttyS0 ixon icanon")
    guest.console_send(b"\x13")
    time.sleep(0.5)
    filled = guest.run("yes stopped | timeout 2 dd bs=1k count=16 iflag=fullblock >&7")
    need(filled.status != 0, "the terminal did not stop")
    machine.restore(machine.save(f"{S2DISK} -v >&7 2>&7 <&7"))
    machine.live().console_send(b"\x11")
    machine.live().check("exec 7>&-")
    machine.prove()


@scenario("cycles")
def swap_inactive(machine: Machine) -> None:
    """The swap device is off before: it is switched on for the save, and off again after it."""
    machine.live().check(f"swapoff {SWAP_DEVICE}")
    machine.restore(machine.save())
    guest = machine.live()
    need(guest.run(f"swap_active {SWAP_DEVICE}").status != 0, "swap was left on")
    guest.check(f"swapon {SWAP_DEVICE}")
    machine.prove()


@scenario("cycles")
def swap_last_of_two(machine: Machine) -> None:
    """Another swap device stands first; the image still goes to the one that was named."""
    # without -p, which not every busybox has: each area gets a lower priority than the one before
    machine.live().check(f"swapoff {SWAP_DEVICE} && swapon {EXTRA_DEVICE} && swapon {SWAP_DEVICE}")
    machine.restore(machine.save())
    guest = machine.live()
    guest.check(f"swap_check {EXTRA_DEVICE} {hostdisk.swap_uuid(machine.extra)}")
    guest.check(f"swapoff {EXTRA_DEVICE}")
    machine.prove()


@scenario("cycles")
def measured(machine: Machine) -> str:
    """s2disk --measure and s2bench --live take snapshots, say what they took, and the system goes on."""
    guest = machine.live()
    told = guest.check(f"s2disk -r {SWAP_DEVICE} --measure=auto,lzo", 120)
    rows = {line.split()[0]: [float(n) for n in line.split()[1:]] for line in told.splitlines()[1:]}
    need(set(rows) == {"auto", "lzo"}, f"measured: {told}")
    for name, (image, stored, ratio, _, write, _, total) in rows.items():
        need(image > 20 and 0 < stored < image and ratio > 1 and 0 < write <= total, f"{name}: {told}")
    machine.prove()
    for store in ("", f"--no-bound --store {SWAP_DEVICE}"):
        guest.check(f"s2bench --live {store} -c auto,none --write-rate 200,0 --repeats 2 --json /run/live.json", 180)
        runs = json.loads(guest.check("cat /run/live.json"))["runs"]
        need(len(runs) == 4, f"s2bench --live {store}: {runs}")
        for run in runs:
            need(run["pages_file"] == "live" and run["raw_bytes"] > 20e6, f"{store}: {run}")
            need(store or run["bound_MBps"] > 0, f"no bound: {run}")
            need(run["compressor"] != "none" or run["stored_bytes"] >= run["raw_bytes"], f"{store}: {run}")
        machine.prove()
    return f"{rows['auto'][5]:.0f} MB/s, {rows['auto'][2]:.1f} : 1"


@scenario("cycles")
def swap_file(machine: Machine) -> None:
    """The image goes to a swap file on ext4, found by its offset."""
    guest = machine.live()
    guest.check("dd if=/dev/zero of=/mnt/swap bs=1M count=176 2> /dev/null && chmod 600 /mnt/swap && "
                f"mkswap /mnt/swap && sync && swapoff {SWAP_DEVICE} && swapon /mnt/swap")
    offset = int(guest.check("swap_offset /mnt/swap").split("=")[1])
    need(hostdisk.signature(machine.fs, offset) == SWAP, f"no swap header at page {offset}")
    save = machine.save(f"s2disk -r {FS_DEVICE} -o {offset}", where=(machine.fs, offset))
    machine.restore(save, f"resume -o {offset} {FS_DEVICE}")
    guest = machine.live()
    guest.check("swap_active /mnt/swap && swapoff /mnt/swap && swapon /mnt/swap && swapoff /mnt/swap")
    need(hostdisk.signature(machine.fs, offset) == SWAP, "the swap file carries no swap signature")
    guest.check(f"rm /mnt/swap && swapon {SWAP_DEVICE}")
    machine.prove()


@scenario("cycles")
def swap_file_passed_over(machine: Machine) -> None:
    """The late boot step finds the swap file by its path and marks the image; it is not resumed any more."""
    guest = machine.live()
    guest.check("dd if=/dev/zero of=/mnt/swap bs=1M count=176 2> /dev/null && chmod 600 /mnt/swap && "
                f"mkswap /mnt/swap && sync && swapoff {SWAP_DEVICE} && swapon /mnt/swap")
    offset = int(guest.check("swap_offset /mnt/swap").split("=")[1])
    machine.save("s2disk -r /mnt/swap", where=(machine.fs, offset))
    guest = machine.boot()
    guest.check(f"mount -t ext4 {FS_DEVICE} /mnt && echo 'resume device = /mnt/swap' > /etc/suspend.conf")
    says(machine.refuse("resume --passed-over", NORESUME).text, "passed over")
    guest.check("umount /mnt")
    says(machine.refuse(f"resume -o {offset} {FS_DEVICE}", STALE).text, "an earlier boot passed")
    machine.renew()


@scenario("cycles")
def no_console(machine: Machine) -> None:
    """There is neither a virtual terminal nor a console."""
    machine.live().check("mv /dev/console /dev/tty0 /run/")
    machine.restore(machine.save(), f"rm /dev/console /dev/tty0; {RESUME}")
    machine.live().check("mv /run/console /run/tty0 /dev/")
    machine.prove()


@scenario("cycles")
def one_line_in_the_log(machine: Machine) -> str:
    """After the resume the system's log has one line with the figures of both directions."""
    guest = machine.live()
    guest.check("syslogd -n -O /run/log & sleep 1; [ -S /dev/log ]")
    machine.restore(machine.save())
    lines = machine.live().check("sleep 1; grep 's2disk.*resumed:' /run/log; kill $!").splitlines()
    need(len(lines) == 1, f"{len(lines)} lines in the log: {lines}")
    need("MB saved as" in lines[0] and "loaded in" in lines[0], f"no figures in: {lines[0]}")
    machine.live().check("rm -f /dev/log")
    machine.prove()
    return lines[0].split("resumed: ")[1]


@scenario("cycles")
def device_late_and_renamed(machine: Machine) -> str:
    """The disks come in another order, the image's one last and eight seconds late: UUID= finds it."""
    save = machine.save()
    uuid = hostdisk.swap_uuid(machine.swap)
    name = "-".join(uuid[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
    late = "disks_off; disk_on 1; disk_on 2; (sleep 8; disk_on 0) &"
    done = machine.restore(save, f"{late} resume UUID={name}")
    machine.prove()
    need(done.load_seconds > 7, f"it did not wait: {done.load_seconds:.1f} s")
    return f"loaded {done.load_seconds:.1f} s after resume was started"


# --- images that must not be loaded ---

def frozen_image(machine: Machine) -> None:
    """Hibernate once, and lay the disks of that moment before the next boot, as often as asked for."""
    kept = (machine.folder / "kept-swap.img", machine.folder / "kept-fs.img")
    if not kept[0].exists():
        machine.renew()
        machine.live().check("echo old > /mnt/file")
        machine.kept = machine.save()
        for source, target in zip((machine.swap, machine.fs), kept):
            hostdisk.copy(source, target)
    machine.cut_power()
    for source, target in zip(kept, (machine.swap, machine.fs)):
        hostdisk.copy(source, target)


def goes_on(machine: Machine) -> None:
    """The machine that was not resumed boots normally: swap and file system are of use."""
    guest = machine.guest
    assert guest is not None
    need(hostdisk.signature(machine.swap) == SWAP, f"signature {hostdisk.signature(machine.swap)!r} is left")
    guest.check(f"swap_usable {SWAP_DEVICE} && swapoff {SWAP_DEVICE}")
    guest.check(f"{machine.mount()} && cat /mnt/file && umount /mnt")
    wrong = hostdisk.fsck(machine.fs, machine.setup.file_system)
    need(not wrong, f"the file system is damaged: {wrong}")


@scenario("images")
def image_copied(machine: Machine) -> None:
    """The image resumes from a copy of the disks: the other scenarios here start from a good one."""
    frozen_image(machine)
    assert machine.kept is not None
    machine.restore(machine.kept)
    machine.prove()


@scenario("images")
def image_corrupt(machine: Machine) -> None:
    """Bytes in the middle of the image are wrong: nothing is restored."""
    frozen_image(machine)
    hostdisk.flip_middle(machine.swap)
    machine.boot()
    machine.refuse(RESUME, CORRUPT)
    goes_on(machine)


@scenario("images")
def image_other_memory(machine: Machine) -> None:
    """The machine has less memory than when the image was made."""
    frozen_image(machine)
    machine.boot(memory=machine.setup.memory - 64)
    done = machine.refuse(RESUME, OTHER_MACHINE)
    need(done.text, "nothing was said")


@scenario("images")
def image_stale(machine: Machine) -> None:
    """A file system was written to after the image was made: the image is dead."""
    frozen_image(machine)
    guest = machine.boot()
    guest.check(f"mount -t ext4 {FS_DEVICE} /mnt && echo new > /mnt/file && umount /mnt")
    machine.refuse(RESUME, STALE)
    goes_on(machine)
    need(machine.guest and machine.refuse(RESUME, NO_IMAGE), "")


@scenario("images")
def image_mounted(machine: Machine) -> None:
    """A file system of the image is mounted while resume runs."""
    frozen_image(machine)
    guest = machine.boot()
    guest.check(f"mount -t ext4 {FS_DEVICE} /mnt")
    machine.refuse(RESUME, MOUNTED)
    guest.check("umount /mnt")


@scenario("images")
def image_noresume(machine: Machine) -> None:
    """A boot with noresume passes the image over, and no later boot takes it."""
    frozen_image(machine)
    machine.boot("noresume")
    machine.refuse(RESUME, NORESUME)
    guest = machine.guest
    assert guest is not None
    guest.check(f"mount -t ext4 {FS_DEVICE} /mnt && umount /mnt")
    machine.boot()
    machine.refuse(RESUME, STALE)
    goes_on(machine)


@scenario("images")
def image_foreign(machine: Machine) -> None:
    """An image of another program is named and not touched."""
    machine.renew()
    hostdisk.write_at(machine.swap, hostdisk.SIGNATURE_AT, IMAGE.encode().ljust(10, b"\0"))
    # uswsusp keeps the place of its header and the old signature in front of its own
    hostdisk.write_at(machine.swap, hostdisk.SIGNATURE_AT - 18, (65536).to_bytes(8, "little") + SWAP.encode())
    hostdisk.write_at(machine.swap, 65536, b"\x01\x00\x00\x00uswsusp's own header")
    before = hostdisk.digest(machine.swap)
    machine.boot()
    machine.refuse(RESUME, FOREIGN)
    machine.cut_power()
    need(hostdisk.digest(machine.swap) == before, "the disk was changed")


@scenario("images")
def image_none(machine: Machine) -> str:
    """Plain swap: resume says nothing and is quick about it."""
    machine.renew()
    machine.boot()
    done = machine.refuse(RESUME, NO_IMAGE)
    need(not done.text, f"it said: {done.text}")
    guest = machine.guest
    assert guest is not None
    timed = guest.run(f"time {RESUME}")
    return next((line for line in timed.text.splitlines() if line.startswith("real")), "")


@scenario("images")
def device_missing(machine: Machine) -> str:
    """A device that never comes is waited for, but not for long."""
    if machine.guest is None:
        machine.boot()
    done = machine.refuse("resume -P 'resume wait = 2' /dev/vdz", MISSING)
    need(1.5 < done.seconds < 20, f"it took {done.seconds:.1f} s")
    return f"waited {done.seconds:.1f} s"


# --- faults while saving ---

SHIM = "LD_PRELOAD=/guest/shim.so"
REFUSALS = ("FREEZE:1:EBUSY", "CREATE_IMAGE:1:ENOMEM", "SET_SWAP_AREA:1:ENODEV", "GET_IMAGE_SIZE:1:ENODATA",
            "PREF_IMAGE_SIZE:1:EINVAL", "AVAIL_SWAP_SIZE:1:EIO", "ALLOC_SWAP_PAGE:1:EIO",
            "ALLOC_SWAP_PAGE:*:ENOSPC", "ALLOC_SWAP_PAGE:500:ENOSPC", "PLATFORM_SUPPORT:1:ENOTTY", "SNAPREAD:1:EIO",
            "SNAPREAD:3:EIO", "WRITE:1:EIO", "WRITE:4:EIO", "SYNC:1:EIO", "SYNC:2:EIO", "POWER_OFF:*:EBUSY")
FATAL = ("FREEZE", "SET_SWAP_AREA", "SNAPREAD", "WRITE", "SYNC")   # no second try can do without these
KILLS = ("FREEZE:1", "CREATE_IMAGE:1", "SET_SWAP_AREA:1", "GET_IMAGE_SIZE:1", "ALLOC_SWAP_PAGE:1",
         "ALLOC_SWAP_PAGE:100", "SNAPREAD:2", "WRITE:3")


def usable_after(machine: Machine, what: str) -> None:
    """After a save that did not come about, the system is as before."""
    try:
        machine.prove()
    except Failed as error:
        raise Failed(f"after {what}: {error}") from error


@scenario("faults")
def save_refused_at_each_step(machine: Machine) -> str:
    """Whatever call fails while saving, the system goes on and the exit code tells."""
    notes = []
    for plan in REFUSALS:
        guest = machine.live()
        done = guest.run(f"SHIM_STAY=1 SHIM_FAIL='{plan}' {SHIM} /guest/s2disk -r {SWAP_DEVICE} -P 'threads = 2'")
        need(0 < done.status < 20, f"{plan} gave {done.status}: {done.text}")
        need(done.text, f"{plan}: nothing was said")
        # with the power switch refused, that code means that the save was taken for whole
        need(done.status != POWER_OFF or not plan.startswith(FATAL), f"{plan}: the error was overlooked")
        usable_after(machine, plan)
        notes.append(f"{plan}={done.status}")
    return " ".join(notes)


@scenario("faults")
def save_killed_at_each_step(machine: Machine) -> None:
    """SIGKILL at any step before the signature leaves a system that goes on."""
    for plan in KILLS:
        guest = machine.live()
        done = guest.run(f"SHIM_STAY=1 SHIM_KILL='{plan}' {SHIM} /guest/s2disk -r {SWAP_DEVICE}")
        need(done.status in (137, POWER_OFF), f"{plan} gave {done.status}: {done.text}")
        usable_after(machine, f"SIGKILL at {plan}")


@scenario("faults")
def freeze_refused(machine: Machine) -> str:
    """A task that cannot be frozen is named, and the system goes on."""
    guest = machine.live()
    # A write to a frozen file system waits in a state that the freezer cannot reach.
    guest.check("timeout=$(cat /sys/power/pm_freeze_timeout); echo 1000 > /sys/power/pm_freeze_timeout; sync; "
                "fsfreeze --freeze /mnt; (exec dd if=/dev/zero of=/mnt/stuck bs=4k count=1 2> /dev/null) & sleep 1")
    try:
        done = guest.run(S2DISK, 60)
    finally:
        guest.run("fsfreeze --unfreeze /mnt; wait $!; rm /mnt/stuck; echo $timeout > /sys/power/pm_freeze_timeout")
    need(done.status == FREEZE, f"s2disk gave {done.status}: {done.text}")
    named = [line for line in done.text.splitlines() if "task:dd" in line]
    need(named, f"the task is not named: {done.text}")
    machine.prove()
    return named[0][:60]


@scenario("faults")
def swap_too_small(machine: Machine) -> None:
    """The swap area cannot hold the image: the numbers are told and the system goes on."""
    guest = machine.live()
    guest.check(f"fill 128 random && swapoff {SWAP_DEVICE}")
    try:
        done = machine.refuse(f"s2disk -r {EXTRA_DEVICE}", TOO_SMALL, 120)
        need(sum(c.isdigit() for c in done.text) > 3, f"no numbers in: {done.text}")
    finally:
        guest.run(f"rm -r /run/fill; swapon {SWAP_DEVICE}")
    machine.prove()


@scenario("faults")
def power_off_refused(machine: Machine) -> None:
    """A wake-up event keeps the power on: the image is given up and the system goes on."""
    machine.live()
    machine.refuse(f"SHIM_STAY=1 {SHIM} /guest/s2disk -r {SWAP_DEVICE} -P 'shutdown method = platform'", POWER_OFF)
    usable_after(machine, "a refused power-off")


@scenario("faults")
def switch_off_by_hand(machine: Machine) -> None:
    """No way to power off works: the saved machine asks for a hand and touches nothing more."""
    guest = machine.live()
    number = guest.send(f"SHIM_STAY=1 {SHIM} /guest/s2disk -r {SWAP_DEVICE} -P 'shutdown method = shutdown'")
    guest.wait(lambda: guest.find("by hand", "console") or guest.find("by hand") or guest.reply(number), 60,
               "words about switching off by hand")
    time.sleep(1)
    need(guest.reply(number) is None, "the saved system went on")
    machine.cut_power()
    need(hostdisk.signature(machine.swap) == IMAGE, "the image is gone")
    machine.restore(Save(number, "", 0, 0))
    machine.prove()


@scenario("faults")
def nothing_allocates_while_frozen(machine: Machine) -> None:
    """No memory is taken and no file opened from the freeze to the thaw."""
    watched_cycle(machine, f"SHIM_TRAP=1 {SHIM} /guest/s2disk -r {SWAP_DEVICE}")


@scenario("faults")
def no_calls_for_memory_while_frozen(machine: Machine) -> None:
    """The same, watched by the kernel: no mmap, brk or open."""
    watched_cycle(machine, f"SHIM_SECCOMP=1 {SHIM} /guest/s2disk -r {SWAP_DEVICE}")


def watched_cycle(machine: Machine, command: str, resume: str = RESUME) -> None:
    """A cycle in which the shim has nothing to report: not in the boot that saves, nor in the other."""
    consoles = [machine.live().logs / "console.log"]
    machine.cycle(command, resume)
    consoles.append(machine.live().logs / "console.log")
    for log in consoles:
        hits = [line for line in log.read_text(errors="replace").splitlines() if "shim: trapped" in line]
        need(not hits, f"{len(hits)} calls while frozen, first: {hits[0] if hits else ''}")


@scenario("faults")
def clear_fails_once(machine: Machine) -> None:
    """The restored system's first write to the swap device fails; the next does not."""
    machine.cycle(f"SHIM_CLEAR_FAIL=1 {SHIM} /guest/s2disk -r {SWAP_DEVICE}")


@scenario("faults")
def clear_fails_always(machine: Machine) -> None:
    """A restored system that cannot clear the signature powers off rather than go on."""
    save = machine.save(f"SHIM_CLEAR_FAIL=1000000 {SHIM} /guest/s2disk -r {SWAP_DEVICE}")
    guest = machine.boot()
    number = guest.send(RESUME)
    guest.wait(lambda: guest.event("SHUTDOWN") or guest.reply(number) or guest.reply(save.number), 90,
               "power-off")
    need(guest.is_off(), "the restored system went on")
    machine.cut_power()


@scenario("faults")
def restore_refused(machine: Machine) -> None:
    """The kernel refuses the image at the last step: the boot goes on."""
    machine.save()
    guest = machine.boot()
    done = guest.run(f"SHIM_FAIL='ATOMIC_RESTORE:1:EPERM' {SHIM} /guest/resume {SWAP_DEVICE}")
    need(done.status == RESTORE, f"resume gave {done.status}: {done.text}")
    need(guest.check("swapon -s; echo alive").endswith("alive"), "the boot does not go on")
    machine.cut_power()


# --- what is told before anything is frozen ---

def says(text: str, *words: str) -> None:
    """All of these words are in a message."""
    for word in words:
        need(word in text, f"nothing is said of {word!r}: {text}")


CHECK = f"NO_COLOR=1 /guest/{S2DISK} --check"


@scenario("checks")
def check_good(machine: Machine) -> str:
    """--check finds nothing wrong with the guest, as lines and as JSON; a resume= that leads elsewhere is refused."""
    machine.cut_power()
    guest = machine.live(f"resume={SWAP_DEVICE}")
    lines = machine.refuse(CHECK, 0).text.splitlines()
    levels = [line.split()[0] for line in lines]
    need(len(levels) > 15 and set(levels) <= {"ok", "warning"}, f"it says: {lines}")
    found = json.loads(guest.check(f"{CHECK} --json"))
    need(found["code"] == 0 and len(found["checks"]) == len(levels), f"JSON: {found}")
    need(found["estimate"]["raw_bytes"] > 1 << 20, f"estimate: {found['estimate']}")
    said = machine.refuse(f"s2disk -r {EXTRA_DEVICE}", CONFIG).text
    says(said, f"the image goes to {EXTRA_DEVICE}", f"write resume={EXTRA_DEVICE}", "--force")
    machine.prove()
    return f"{len(levels)} checks"


def freezes(guest: Guest) -> int:
    """How often tasks were frozen so far."""
    return int(guest.check("dmesg | grep -c 'Freezing user space'; true"))


@scenario("checks")
def check_pm_test(machine: Machine) -> None:
    """A test mode of the kernel's is set: refused before anything is frozen, with the cure."""
    guest = machine.live()
    before = freezes(guest)
    guest.check("echo core > /sys/power/pm_test")
    try:
        says(machine.refuse(S2DISK, KERNEL).text, "pm_test", "echo none > /sys/power/pm_test")
        says(machine.refuse(CHECK, KERNEL).text, "fail", "echo none > /sys/power/pm_test")
    finally:
        guest.run("echo none > /sys/power/pm_test")
    need(freezes(guest) == before, "something was frozen")
    machine.prove()


@scenario("new-kernel", long=True)
def zram_before_disk(machine: Machine) -> str:
    """Swap in zram has the higher priority: the image goes to the disk all the same, and zram comes back whole."""
    guest = machine.live()
    # without -p, which not every busybox has, each area gets a lower priority than the one before
    guest.check(f"swapoff {SWAP_DEVICE}; modules_load spare; echo 96M > /sys/block/zram0/disksize && "
                "mkswap /dev/zram0 > /dev/null && { swapon -p 100 /dev/zram0 2> /dev/null || swapon /dev/zram0; } && "
                f"swapon {SWAP_DEVICE} && fill 160")
    digest = guest.check("sha256sum /run/fill/160.code")
    # a small image, so that the kernel has to swap out, and finds zram first
    machine.restore(machine.save("s2disk -s 96M"))
    guest = machine.live()
    used = int(guest.check("sed -n 's/^.dev.zram0 *[a-z]*[^0-9]*[0-9]*[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/swaps"))
    need(used > 4096, f"only {used} KiB went to zram")
    need(guest.check("sha256sum /run/fill/160.code") == digest, "what was swapped out is damaged")
    guest.check("rm -r /run/fill && swapoff /dev/zram0")
    machine.prove()
    return f"{used >> 10} MiB in zram"


def large_disk(machine: Machine) -> Guest:
    """A guest whose file system lies on a sparse disk of 6 GiB, the first 4 of them taken."""
    machine.renew()
    hostdisk.make_ext4(machine.fs, 6144)
    guest = machine.boot()
    machine.begin(guest, 120)
    guest.check("fallocate -l 4600000000 /mnt/taken")
    return guest


SWAP_FILE = ("dd if=/dev/zero of=/mnt/{0} bs=1M count=176 2> /dev/null && chmod 600 /mnt/{0} && mkswap /mnt/{0} && "
             "sync")


@scenario("checks")
def swap_file_far_and_new(machine: Machine) -> str:
    """A swap file beyond 4 GiB of its disk; once it is made anew, the configured offset is refused."""
    guest = large_disk(machine)
    guest.check(SWAP_FILE.format("swap"), 120)
    before = int(guest.check("swap_offset /mnt/swap").split("=")[1])
    need(before * hostdisk.PAGE > 1 << 32, f"it begins at page {before} only")
    guest.check(f"{SWAP_FILE.format('new')} && mv /mnt/new /mnt/swap && swapoff {SWAP_DEVICE} && swapon /mnt/swap", 120)
    offset = int(guest.check("swap_offset /mnt/swap").split("=")[1])
    need(offset != before and offset * hostdisk.PAGE > 1 << 32, f"the new one begins at page {offset}")
    said = machine.refuse(f"s2disk -r {FS_DEVICE} -o {before}", CONFIG).text
    says(said, str(before), f"resume offset = {offset}")
    save = machine.save("s2disk -r /mnt/swap", where=(machine.fs, offset))
    machine.restore(save, f"resume -o {offset} {FS_DEVICE}")
    guest = machine.live()
    guest.check(f"swapoff /mnt/swap && rm /mnt/swap && swapon {SWAP_DEVICE}")
    need(hostdisk.signature(machine.fs, offset) == SWAP, "the swap file carries no swap signature")
    machine.prove()
    return f"page {offset}"


@scenario("checks")
def check_nohibernate(machine: Machine) -> None:
    """A boot with nohibernate is told so before anything is done, and no force helps."""
    machine.renew()
    guest = machine.boot("nohibernate")
    guest.check(f"swapon {SWAP_DEVICE}")
    says(machine.refuse(S2DISK, KERNEL).text, "nohibernate", "boot loader")
    says(machine.refuse(f"{S2DISK} --force", KERNEL).text, "nohibernate")
    found = json.loads(machine.refuse(f"{CHECK} --json", KERNEL).text)
    failed = [check["name"] for check in found["checks"] if check["level"] == "fail"]
    need(failed == ["snapshot"], f"these fail: {failed}")
    machine.cut_power()


# --- memory ---

@scenario("memory")
def memory_nearly_full(machine: Machine) -> str:
    """Four fifths of the memory are in use."""
    guest = machine.live()
    total = int(guest.check("sed -n 's/^MemTotal: *//p' /proc/meminfo").split()[0])
    guest.check(f"fill_until {total // 5}")
    return timed_cycle(machine)


@scenario("memory")
def memory_full(machine: Machine) -> str:
    """Next to nothing is free; much must be swapped out for the image to fit."""
    guest = machine.live()
    guest.check("fill_until 32000")
    return timed_cycle(machine)


def timed_cycle(machine: Machine) -> str:
    """A cycle that gives its times; the memory is freed before the proof takes swap off."""
    done = machine.restore(machine.save(timeout=240), timeout=240)
    machine.live().check("rm -rf /run/fill")
    machine.prove()
    return f"saved in {done.save_seconds:.1f} s, loaded in {done.load_seconds:.1f} s"


@scenario("memory")
def swap_smaller_than_memory(machine: Machine) -> str:
    """The swap area holds the image only because it is compressed."""
    guest = machine.live()
    guest.check("mkdir -p /run/fill && yes dormouse | dd of=/run/fill/text bs=1M count=60 "
                "iflag=fullblock 2> /dev/null")
    save = machine.save(f"s2disk -r {EXTRA_DEVICE}", where=(machine.extra, 0))
    machine.restore(save, f"resume {EXTRA_DEVICE}")
    machine.live().check("rm -rf /run/fill")
    need(hostdisk.signature(machine.extra) == SWAP, "the signature is left")
    machine.prove()
    return f"{machine.extra.stat().st_size >> 20} MiB of swap"


# --- power cuts while loading; the disk is slow so that there is time to cut ---

def cut_while_loading(machine: Machine) -> None:
    """Start to resume and cut the power in the middle."""
    guest = machine.boot()
    number = start_loading(guest)
    done = guest.reply(number)
    need(done is None, f"resume gave {done.status}: {done.text}" if done else "")
    machine.cut_power()
    need(hostdisk.signature(machine.swap) == IMAGE, "the image is gone")


@scenario("slow")
def power_cut_while_loading(machine: Machine) -> None:
    """Power fails while the image is loaded: the next boot resumes."""
    machine.live().check("fill 64 random")
    save = machine.save()
    cut_while_loading(machine)
    machine.restore(save)
    machine.live().check("rm -rf /run/fill")
    machine.prove()


@scenario("slow", long=True)
def power_cut_again_and_again(machine: Machine) -> str:
    """Power fails each time the image is loaded: in the end the boot goes on without it."""
    machine.live().check("fill 64 random")
    machine.save()
    for attempt in range(1, 9):
        guest = machine.boot()
        number = start_loading(guest)
        done = guest.reply(number)
        if done:
            need(done.status == GIVEN_UP, f"resume gave {done.status}: {done.text}")
            need(attempt > 3, f"given up at attempt {attempt}")
            guest.check(f"swap_usable {SWAP_DEVICE}")
            machine.cut_power()
            return f"given up at attempt {attempt}"
        machine.cut_power()
    raise Failed("never given up")


def start_loading(guest: Guest) -> int:
    """Start to resume; returns the command's number when some MiB are read, or it has ended."""
    before = guest.disk_statistics()[0]["rd_bytes"]
    number = guest.send(RESUME)
    end = time.time() + 60
    while guest.reply(number) is None and guest.disk_statistics()[0]["rd_bytes"] < before + (4 << 20):
        need(time.time() < end, "nothing was read")
        time.sleep(0.1)
    return number


# --- sealed images; a person types on the serial console ---

PASSPHRASE = "vierzehn M\u00e4use schlafen 7 Monate"
FAST = "-P 'compressor = lz4'"
RAW = "-P 'compressor = none'"   # only sealing hides what lies in the image
KEY_FILE = "/run/dormouse-key"
PAIR = "/etc/dormouse.key"
QUESTION = "Passphrase for"
CHOICES = "power off"


def sealed(options: str = "") -> str:
    """The command that saves a sealed image from the console."""
    return f"at_console /guest/s2disk -r {SWAP_DEVICE} -P 'encrypt = y' {options}"


def unseal(options: str = "") -> str:
    """The command that resumes at the console."""
    return f"at_console /guest/resume {options} {SWAP_DEVICE}"


def type_new(guest: Guest) -> None:
    """Give the passphrase for a new image, twice."""
    guest.answer("New passphrase", PASSPHRASE + "\r")
    guest.answer("Again", PASSPHRASE + "\r")


def type_right(guest: Guest) -> None:
    """Open the image."""
    guest.answer(QUESTION, PASSPHRASE + "\r")


def type_wrong(guest: Guest, times: int = 3) -> None:
    """Give a wrong passphrase, again and again."""
    for number in range(times):
        guest.answer(QUESTION, f"wrong {number}\r")


def type_slowly(seconds: float) -> Talk:
    """Wrong twice, then right, with pauses that make the typing last for so long."""
    def talk(guest: Guest) -> None:
        type_wrong(guest, 2)
        guest.answer(QUESTION, PASSPHRASE + "\r", seconds / len(PASSPHRASE))
    return talk


def plant(guest: Guest) -> bytes:
    """Put bytes into the guest's memory that are nowhere else; typed as digits, they do not lie in a tty's buffer."""
    marker = os.urandom(64)
    guest.check(f"echo {marker.hex()} | xxd -p -r > /run/marker && [ $(wc -c < /run/marker) = 64 ]")
    return marker


def image_key(machine: Machine, *how: str, secret: bytes = b"") -> bytes:
    """The key of the image that stands on the swap disk, worked out anew by the product's own code."""
    done = subprocess.run([machine.build / "tests/vm/imagekey", *how, machine.swap], input=secret,
                          capture_output=True)
    need(done.returncode == 0, f"imagekey: {done.stderr.decode()}")
    key = bytes.fromhex(done.stdout.decode())
    need(len(key) == 32 and key != bytes(32), "no key")
    return key


def leaves_no_secret(machine: Machine, marker: bytes, *secrets: bytes) -> None:
    """None of these lie in the memory of the guest that runs, where the marker is, nor on its swap disk."""
    guest = machine.live()
    memory = machine.folder / "memory"
    guest.save_memory(memory)
    try:
        need(hostdisk.holds(memory, marker), "the marker is not found in memory: this test sees nothing")
        need(not hostdisk.holds(memory, *secrets), "a secret lies in memory")
    finally:
        memory.unlink()
    guest.check("sync")
    need(not hostdisk.holds(machine.swap, *secrets), "a secret lies on the swap disk")


@scenario("sealed")
def sealed_by_passphrase(machine: Machine) -> str:
    """Sealed by a passphrase that is typed: nothing of memory can be read on the disk, no secret is left anywhere."""
    marker = plant(machine.live())
    machine.save(with_option("compressor = none"))
    need(hostdisk.holds(machine.swap, marker), "a plain image does not show the marker: this test sees nothing")
    marker = plant(machine.live())
    save = machine.save(sealed(RAW), talk=type_new)
    need(not hostdisk.holds(machine.swap, marker), "a sealed image shows the marker")
    key = image_key(machine, "--passphrase", secret=PASSPHRASE.encode())
    done = machine.restore(save, unseal(), talk=type_right)
    leaves_no_secret(machine, marker, key, PASSPHRASE.encode())
    machine.prove()
    return f"saved in {done.save_seconds:.1f} s, loaded in {done.load_seconds:.1f} s"


@scenario("sealed")
def sealed_by_key_pair(machine: Machine) -> None:
    """Sealed by a key pair, which asks nothing; opened after two wrong passphrases and half a minute of typing."""
    machine.live().check(f"echo '{PASSPHRASE}' > /run/passphrase && "
                         f"suspend_keygen -o {PAIR} --passphrase-fd 3 3< /run/passphrase", 120)
    save = machine.save(with_option("encrypt = y"))
    need("assphrase" not in save.text, f"it asked: {save.text}")
    machine.restore(save, unseal("-v -P 'passphrase timeout = 10'"), talk=type_slowly(30))
    need(machine.live().find(r"\b\d{4,} KiB were read ahead"), "nothing was read while the passphrase was typed")
    machine.live().check(f"rm {PAIR}")
    machine.prove()


@scenario("sealed", long=True)
def sealed_slow_typing(machine: Machine) -> None:
    """Three minutes of typing, longer than the time allowed without any key."""
    save = machine.save(sealed(FAST), talk=type_new)
    machine.restore(save, unseal(), talk=type_slowly(180), timeout=240)
    machine.prove()


@scenario("sealed")
def sealed_by_key_file(machine: Machine) -> None:
    """Sealed by a file of key bytes; a boot without it loads nothing, one with it asks nothing."""
    content = os.urandom(32)
    put = f"(umask 077; echo {content.hex()} | xxd -p -r > {KEY_FILE})"
    marker = plant(machine.live())
    machine.live().check(put)
    option = f"-P 'key file = {KEY_FILE}'"
    save = machine.save(f"{S2DISK} -P 'encrypt = y' {option}")
    key = image_key(machine, "--key-file", secret=content)
    machine.restore(save, f"{put}; {RESUME} {option}")
    leaves_no_secret(machine, marker, key)
    machine.prove()
    machine.live().check(f"chmod 640 {KEY_FILE}")
    machine.refuse(f"{S2DISK} -P 'encrypt = y' {option}", CONFIG)
    machine.prove()


@scenario("sealed")
def sealed_kept_by_power_off(machine: Machine) -> None:
    """Nobody types, or wrong three times and power off: the image is kept, and the right passphrase opens it."""
    save = machine.save(sealed(FAST), talk=type_new)
    for option, talk in (("-P 'passphrase timeout = 5'", lambda guest: guest.hear(QUESTION)),
                         ("", lambda guest: (type_wrong(guest), guest.answer(CHOICES, "p")))):
        guest = machine.boot()
        guest.send(unseal(option))
        talk(guest)
        why, _ = guest.wait_off(60)
        need(why == "guest-shutdown", f"QEMU ended by {why}")
        machine.cut_power()
        need(hostdisk.signature(machine.swap) == IMAGE, "the image is gone")
    machine.restore(save, unseal(), talk=type_right)
    machine.prove()


@scenario("sealed")
def sealed_given_up(machine: Machine) -> None:
    """Wrong three times and the boot chosen: the image is given up, and stale wherever a copy of it is left."""
    machine.live().check("echo old > /mnt/file")
    machine.save(sealed(FAST), talk=type_new)
    copy = machine.folder / "copy.img"
    hostdisk.copy(machine.swap, copy)
    guest = machine.boot()
    number = guest.send(unseal())
    type_wrong(guest)
    guest.answer(CHOICES, "b")
    done = guest.wait_reply(number)
    need(done.status == DECLINED, f"resume gave {done.status}: {done.text}")
    guest.check(f"mount -t ext4 {FS_DEVICE} /mnt && echo new > /mnt/file && umount /mnt")
    machine.boot()
    machine.refuse(RESUME, NO_IMAGE)
    machine.cut_power()
    copy.rename(machine.swap)
    machine.boot()
    machine.refuse(RESUME, STALE)   # without a question: nobody is there to answer it
    goes_on(machine)


@scenario("sealed")
def sealed_allocates_nothing(machine: Machine) -> None:
    """Sealing takes no memory and opens no file while tasks are frozen."""
    machine.live().check(f"(umask 077; head -c 32 /dev/zero > {KEY_FILE})")
    command = f"/guest/s2disk -r {SWAP_DEVICE} -P 'encrypt = y' -P 'key file = {KEY_FILE}'"
    resume = f"(umask 077; head -c 32 /dev/zero > {KEY_FILE}); {RESUME} -P 'key file = {KEY_FILE}'"
    watched_cycle(machine, f"SHIM_TRAP=1 {SHIM} {command}", resume)
    watched_cycle(machine, f"SHIM_SECCOMP=1 {SHIM} {command}", resume)


@scenario("sealed")
def sealed_refused_without_key(machine: Machine) -> None:
    """With nobody to ask and no key, s2disk refuses; the system goes on as before."""
    machine.live()
    done = machine.refuse(f"setsid /guest/s2disk -r {SWAP_DEVICE} -P 'encrypt = y'", NO_WAY_TO_ASK)
    need("suspend-keygen" in done.text, f"no advice: {done.text}")
    usable_after(machine, "a refusal")


@scenario("sealed")
def sealed_is_wanted(machine: Machine) -> None:
    """Where sealing is configured, a plain image is not taken for one's own."""
    machine.save()
    machine.boot()
    done = machine.refuse(f"{RESUME} -P 'encrypt = y'", NO_KEY)
    need("not sealed" in done.text, f"nothing was said: {done.text}")
    need(hostdisk.signature(machine.swap) == SWAP, "the image stands")
    machine.cut_power()


@scenario("sealed")
def sealed_nobody_to_ask(machine: Machine) -> None:
    """No terminal at all at boot: the image is given up, and the boot goes on."""
    machine.save(sealed(FAST), talk=type_new)
    machine.boot()
    done = machine.refuse(f"rm /dev/console; setsid /guest/resume {SWAP_DEVICE}", NO_WAY_TO_ASK)
    need("given up" in done.text, f"nothing was said: {done.text}")
    need(hostdisk.signature(machine.swap) == SWAP, "the image stands")
    machine.cut_power()
# --- stopped by a key; the disk is slow so that there is time to press one ---

KEYS = {10: b"\x7f", 50: b"\x1b", 90: b"\x08"}   # at which per cent of the bar


def reach(machine: Machine, number: int, verb: str, percent: int) -> Guest:
    """Wait until the bar on the console has come that far; what is left then takes long enough for a key."""
    guest = machine.guest
    assert guest is not None
    # Up to a tenth of the image is under way between disk and bar.
    for limit, there in ((machine.setup.limit, max(1, percent - 18)), (2_000_000, percent)):
        guest.throttle(0, limit)
        guest.wait(lambda: guest.progress(verb) >= there or guest.reply(number), 90, f"bar at {there} %")
    done = guest.reply(number)
    need(done is None, f"it ended before it was at {percent} %: {done.text if done else ''}")
    return guest


@scenario("slow")
def stop_saving(machine: Machine) -> str:
    """Backspace or Escape at 10, 50 and 90 per cent of a save: the machine goes on, swap is as before."""
    notes = []
    for percent, key in KEYS.items():
        machine.live().check("[ -d /run/fill ] || fill 64 random")
        guest = machine.live()
        before = guest.check("cat /proc/swaps")
        guest.streams["console"].lines.clear()
        number = guest.send(S2DISK)
        reach(machine, number, "saving", percent)
        pressed = time.time()
        guest.console_send(key)
        guest.throttle(0, machine.setup.limit)
        done = guest.wait_reply(number)
        need(done.status == ABORTED, f"s2disk gave {done.status}: {done.text}")
        need("Backspace or Esc" in done.text, f"the reason is not told: {done.text}")
        guest.check("[ $(stty -F /dev/ttyS0 -a | grep -c -e -icanon) = 0 ]")
        need(guest.check("cat /proc/swaps").split()[:7] == before.split()[:7], "other swap areas than before")
        usable_after(machine, f"a stop at {percent} %")
        notes.append(f"{percent} %: {done.ended - pressed:.1f} s")
    machine.live().check("rm -rf /run/fill")
    return ", ".join(notes)


def stop_loading(machine: Machine, percent: int, answer: bytes) -> tuple[Guest, int]:
    """Boot, and answer the question that a key raises in the middle of the load."""
    guest = machine.boot()
    number = guest.send(RESUME)
    reach(machine, number, "loading", percent)
    guest.console_send(KEYS[percent])
    guest.expect("power off, the image stays", 30, "console")
    guest.throttle(0, machine.setup.limit)
    guest.console_send(answer)
    return guest, number


@scenario("slow")
def stop_loading_and_keep(machine: Machine) -> None:
    """A key at 10 and 50 per cent of a load: power off and keep the image; or go on with it all the same."""
    machine.live().check("fill 64 random")
    save = machine.save()
    guest, number = stop_loading(machine, 10, b"p")
    guest.wait(lambda: guest.event("SHUTDOWN") or guest.reply(number), 60, "power-off")
    need(guest.is_off(), "the boot went on")
    machine.cut_power()
    need(hostdisk.signature(machine.swap) == IMAGE, "the image is gone")
    guest, number = stop_loading(machine, 50, b"x")
    machine.restored(save, number, timeout=90)
    guest.check("rm -r /run/fill")
    machine.prove()


@scenario("slow")
def stop_loading_and_boot(machine: Machine) -> None:
    """A key at 90 per cent of a load: the image is given up and the boot goes on."""
    guest = machine.live()
    guest.check("echo old > /mnt/file && fill 64 random")
    machine.save()
    guest, number = stop_loading(machine, 90, b"b")
    done = guest.wait_reply(number)
    need(done.status == ABORTED, f"resume gave {done.status}: {done.text}")
    goes_on(machine)
    machine.cut_power()


@scenario("slow", long=True)
def plymouth_is_told(machine: Machine) -> str:
    """While loading, plymouth hears how far it is; s2disk's own figures are on the console."""
    machine.live().check("fill 64 random")
    save = machine.save()
    guest = machine.boot()
    guest.check(r"printf '#!/bin/sh\necho plymouth: $* > /dev/kmsg\n' > /bin/plymouth; chmod 755 /bin/plymouth")
    console = guest.streams["console"].lines
    number = guest.send(RESUME)
    machine.restored(save, number, timeout=90)
    said = [line.split("plymouth: ")[1] for _, line in console if "plymouth: " in line]
    need(said and said[0] == "--ping", f"it was not asked whether it is there: {said[:1]}")
    steps = [int(line.split("=")[1]) for line in said if line.startswith("system-update --progress=")]
    need(len(steps) > 2 and steps == sorted(steps), f"steps: {steps}")
    need([line for line in said if line.startswith("display-message --text=loading")], f"no words: {said}")
    need(said[-1] == "display-message --text=The saved machine goes on", f"last words: {said[-1]}")
    need(len(said) < 40, f"{len(said)} processes were started")
    guest.check("rm -r /run/fill")
    machine.prove()
    return f"{len(said)} times"


@scenario("screen")
def bar_on_the_screen(machine: Machine) -> str:
    """A virtual terminal of its own while saving: a key there stops it, and the old one comes back."""
    guest = machine.live()
    front = "cat /sys/class/tty/tty0/active"
    before = guest.check(front)
    guest.check("fill 64 random")
    number = guest.send(f"{S2DISK} -P 'suspend loglevel = 1'")
    guest.wait(lambda: guest.progress("saving") >= 40 or guest.reply(number), 90, "bar")
    picture = machine.logs / "saving.png"
    guest.screenshot(picture)
    reach(machine, number, "saving", 70)
    guest.press("esc")
    guest.throttle(0, machine.setup.limit)
    done = guest.wait_reply(number)
    need(done.status == ABORTED, f"s2disk gave {done.status}: {done.text}")
    need(guest.check(front) == before, f"{guest.check(front)} is in front, not {before}")
    save = machine.save(with_option("resume pause = 1"))
    machine.restore(save)
    need("resumed: " in machine.live().console_text(), "the figures are not on the console")
    need(machine.live().check(front) == before, f"the restored system's front is not {before}")
    machine.live().check("rm -rf /run/fill")
    machine.prove()
    return str(picture)


@scenario("screen", long=True)
def screen_held(machine: Machine) -> str:
    """Whoever holds the screen never lets go of it: s2disk does not wait for long, and saves all the same."""
    guest = machine.live()
    front = "cat /sys/class/tty/tty0/active"
    before = guest.check(front)
    guest.check(f"/guest/vt-hold /dev/{before} & usleep 300000; kill -0 $!")
    save = machine.save()
    need("saving" in guest.console_text(), "no bar on the console")
    machine.restore(save)
    guest = machine.live()
    need(guest.check(front) == before, f"{guest.check(front)} is in front, not {before}")
    guest.check("kill $!")
    machine.prove()
    return f"off {save.seconds:.1f} s after s2disk was started"


@scenario("screen")
def screen_held_at_boot(machine: Machine) -> None:
    """A splash screen holds the screen while resume runs, and is frozen then: the restore does not wait for it."""
    save = machine.save()
    hold = "/guest/vt-hold /dev/$(cat /sys/class/tty/tty0/active) & usleep 300000; kill -0 $!"
    machine.restore(save, f"{hold} && {RESUME}")
    machine.prove()


# --- suspend to RAM with the image on the disk ---

S2BOTH = f"s2both -r {SWAP_DEVICE}"


def asleep(machine: Machine) -> int:
    """Start s2both; returns its command's number when the machine sleeps with the image on its disk."""
    guest = machine.live()
    guest.streams["qmp"].lines.clear()   # of earlier sleeps
    number = guest.send(S2BOTH)
    guest.wait(lambda: guest.event("SUSPEND") or guest.reply(number), 90, "sleep")
    done = guest.reply(number)
    need(done is None, f"s2both gave {done.status}: {done.text}" if done else "")
    need(hostdisk.signature(machine.swap) == IMAGE, "there is no image on the disk")
    return number


@scenario("ram")
def both_woken(machine: Machine) -> str:
    """s2both sleeps and is woken: the image is given up, the machine goes on."""
    mode = machine.live().check("cat /sys/power/mem_sleep")
    number = asleep(machine)
    guest = machine.live()
    guest.wake()
    done = guest.wait_reply(number)
    need(done.status == 0, f"s2both gave {done.status}: {done.text}")
    need(guest.check("cat /sys/power/mem_sleep") == mode, "another way to sleep is selected than before")
    machine.prove()
    return done.text.splitlines()[-1]


@scenario("ram")
def both_without_power(machine: Machine) -> None:
    """The power fails while the machine sleeps: it is resumed from the disk."""
    guest = machine.live()
    guest.check("! grep -q s2idle /sys/power/mem_sleep || echo s2idle > /sys/power/mem_sleep")
    mode = guest.check("cat /sys/power/mem_sleep")
    number = asleep(machine)
    machine.cut_power()
    machine.restore(Save(number, "", 0, 0))
    need(machine.live().check("cat /sys/power/mem_sleep") == mode, "another way to sleep is selected than before")
    machine.prove()


@scenario("ram")
def both_cannot_sleep(machine: Machine) -> None:
    """The suspend to RAM fails: the machine is powered off with its image, and resumed."""
    machine.cycle(f"SHIM_FAIL='S2RAM:1:EBUSY' {SHIM} /guest/s2both -r {SWAP_DEVICE}")


@scenario("ram")
def both_refused(machine: Machine) -> None:
    """Without `deep' in /sys/power/mem_sleep s2both refuses before anything is stopped."""
    guest = machine.live()
    guest.check("dmesg -c > /dev/null; echo '[s2idle]' > /run/mem_sleep && "
                "mount --bind /run/mem_sleep /sys/power/mem_sleep")
    try:
        done = machine.refuse(S2BOTH, KERNEL)
        need("deep" in done.text, f"the reason is not told: {done.text}")
        need(not guest.run("dmesg | grep 'Freezing user space'").text, "tasks were frozen")
    finally:
        guest.run("umount /sys/power/mem_sleep")
    machine.prove()
