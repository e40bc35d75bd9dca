# SPDX-License-Identifier: GPL-2.0-or-later
"""Little memory, refused memory, signals, a second instance: correct work, or one sentence and a machine that goes on."""

from __future__ import annotations

from guest import Guest
from machine import RESUME, S2DISK, SWAP_DEVICE, Machine, need
from scenarios import BUSY, MEMORY, POWER_OFF, SHIM, freezes, scenario, timed_cycle, usable_after

STAYING = f"SHIM_STAY=1 {SHIM} /guest/s2disk -r {SWAP_DEVICE} -P 'threads = 2'"


def number_of(guest: Guest, name: str) -> int:
    """A line of /proc/meminfo, in KiB."""
    return int(guest.check(f"sed -n 's/^{name}: *//p' /proc/meminfo").split()[0])


@scenario("memory")
def memory_full_of_pages_read(machine: Machine) -> str:
    """All that is free is page cache, the swap device's own first page in it: what resume sees is the disk."""
    guest = machine.live()
    guest.check(f"cat {SWAP_DEVICE} {SWAP_DEVICE} > /dev/null", 120)
    free = number_of(guest, "MemFree")
    note = timed_cycle(machine)
    need(free < 64 << 10, f"{free >> 10} MiB were free")
    return f"{free >> 10} MiB free, {note}"


@scenario("large-swap", long=True)
def memory_full_of_processes(machine: Machine) -> str:
    """Anonymous memory fills the machine and three quarters of its swap."""
    guest = machine.live()
    total = number_of(guest, "MemAvailable") + number_of(guest, "SwapFree") * 3 // 4
    guest.check(f"/guest/hog {total >> 10} > /run/hog & hog=$!; until grep -q full /run/hog; do sleep 1; done", 300)
    free = number_of(guest, "SwapFree")
    save = machine.save(S2DISK, timeout=300)
    machine.restore(save, timeout=300)
    guest = machine.live()
    guest.check("kill -USR1 $hog; until grep -q -e sound -e not /run/hog; do sleep 1; done; grep sound /run/hog", 300)
    guest.check("kill $hog; wait $hog; rm /run/hog; true")
    machine.prove()
    return f"{total >> 10} MiB held, {free >> 10} MiB of swap free, saved in {save.seconds:.1f} s"


@scenario("faults")
def memory_limited(machine: Machine) -> str:
    """s2disk in a control group: with too little memory it ends before anything is frozen, with enough it works."""
    guest = machine.live()
    guest.check("mkdir -p /run/group && mount -t cgroup2 none /run/group && "
                "echo +memory > /run/group/cgroup.subtree_control && mkdir /run/group/small")
    told = []
    for limit in ("6M", "20M", "96M"):
        frozen = freezes(guest)
        done = guest.run(f"echo {limit} > /run/group/small/memory.max; "
                         f"(echo 0 > /run/group/small/cgroup.procs; {STAYING})")
        after = freezes(guest)
        need(done.status in (MEMORY, POWER_OFF, 137), f"in {limit} s2disk gave {done.status}: {done.text}")
        need(done.status == POWER_OFF or after == frozen, f"in {limit} tasks were frozen before it failed: {done.text}")
        usable_after(machine, f"a limit of {limit}")
        told.append(f"{limit}: {done.status}")
    guest.check("rmdir /run/group/small && umount /run/group")
    need(told[-1].endswith(str(POWER_OFF)), f"it never worked: {told}")
    return ", ".join(told)


@scenario("faults")
def memory_refused_at_any_step(machine: Machine) -> str:
    """An allocation fails, the first or a later one: one sentence, or a save that can do without; never a crash."""
    guest = machine.live()
    guest.check(f"SHIM_LOG=/run/counts {STAYING}; true")
    counts = dict(line.split() for line in guest.check("cat /run/counts").splitlines())
    told: dict[int, int] = {}
    for call in ("ALLOC", "MMAP"):
        most = int(counts[call])
        need(most > 0, f"there is no {call} to fail")
        for nth in sorted({1, 2, 3, *(most * n // 12 for n in range(1, 13))} - {0}):
            done = guest.run(f"SHIM_FAIL='{call}:{nth}:ENOMEM' {STAYING}")
            need(done.status < 20, f"{call} {nth} of {most}: s2disk gave {done.status}: {done.text}")
            need(done.text or done.status == POWER_OFF, f"{call} {nth}: nothing was said")
            told[done.status] = told.get(done.status, 0) + 1
    usable_after(machine, "refused memory")
    return f"{sum(told.values())} of {counts['ALLOC']} allocations and {counts['MMAP']} maps; by exit code: {told}"


@scenario("faults")
def signals_at_any_time(machine: Machine) -> str:
    """SIGTERM, SIGINT and SIGHUP at twelve moments after the start: aborted, or saved; the machine goes on."""
    guest = machine.live()
    told: dict[int, int] = {}
    for number in range(12):
        name = ("TERM", "INT", "HUP")[number % 3]
        done = guest.run(f"{STAYING} & pid=$!; usleep {number * 25000}; kill -{name} $pid; wait $pid")
        need(done.status in (0, 13, 14) or done.status > 128, f"SIG{name} after {number * 25} ms gave {done.status}: {done.text}")
        told[done.status] = told.get(done.status, 0) + 1
        if number % 3 == 2:
            usable_after(machine, f"SIG{name} after {number * 25} ms")
    return f"by exit code: {told}"


@scenario("faults")
def two_at_once(machine: Machine) -> str:
    """Two instances at the same time: one of them works, the other says that it is busy."""
    guest = machine.live()
    done = guest.run(f"{STAYING} > /run/one 2>&1 & one=$!; {STAYING} > /run/two 2>&1; two=$?; wait $one; "
                     "echo $? $two; cat /run/one /run/two")
    codes = sorted(int(code) for code in done.text.splitlines()[0].split())
    need(codes in ([BUSY, POWER_OFF], [POWER_OFF, POWER_OFF]), f"they gave {codes}: {done.text}")
    usable_after(machine, "two at once")
    return str(codes)


@scenario("faults")
def hostile_environment(machine: Machine) -> None:
    """A small stack, no PATH, a umask of 0777, strange locales, closed descriptors: it works all the same."""
    save = machine.save("ulimit -s 128; umask 777; cd /; PATH=/nowhere LC_ALL=xx_YY.broken TZ=:/nowhere COLUMNS=-1 TERM= "
                        f"MALLOC_PERTURB_=165 /guest/s2disk -r {SWAP_DEVICE} <&- >&-")
    machine.restore(save, f"(ulimit -s 128; umask 777; PATH=/nowhere LC_ALL=xx_YY TERM= /guest/{RESUME})")
    machine.live().check("umask 22; ulimit -s unlimited")
    machine.prove()
