# SPDX-License-Identifier: GPL-2.0-or-later
"""Swap that is kept in memory, compressed: zswap and zram are saved with the memory and come back whole.

tests/bench/swap-setups hibernates such machines under load and measures; here are the corners.
"""

from __future__ import annotations

from guest import Guest
from machine import EXTRA_DEVICE, RESUME, SWAP_DEVICE, Machine, need
from scenarios import MEMORY, scenario

ZSWAP = "/sys/module/zswap/parameters"
ZRAM = "/sys/block/zram0"
DEBUG = "/sys/kernel/debug"
FILL = 112            # MiB of programs in memory
SAVE = "s2disk -s 32M"   # so small an image that the kernel has to swap out


def digest(guest: Guest) -> str:
    """Of what may be swapped out."""
    return guest.check(f"sha256sum /run/fill/{FILL}.code", 120)


def come_back(machine: Machine) -> Guest:
    """Hibernate with much to swap out; what was swapped out must be whole."""
    guest = machine.live()
    guest.check(f"fill {FILL}", 120)
    before = digest(guest)
    machine.restore(machine.save(SAVE), RESUME)
    guest = machine.live()
    need(digest(guest) == before, "what was swapped out is damaged")
    return guest


def zswap_full(machine: Machine, pool: str) -> str:
    """A pool of 5 %, which the swapping at the image's making fills."""
    guest = machine.live()
    guest.check(f"modules_load pools; mount -t debugfs debug {DEBUG}; echo {pool} > {ZSWAP}/zpool && "
                f"echo lzo > {ZSWAP}/compressor && echo 5 > {ZSWAP}/max_pool_percent && echo Y > {ZSWAP}/enabled && "
                f"[ $(cat {ZSWAP}/zpool) = {pool} ]")
    guest = come_back(machine)
    told = guest.check(f"cat {DEBUG}/zswap/pool_limit_hit {DEBUG}/zswap/stored_pages").split()
    hits, stored = (int(number) for number in told)
    need(hits > 0, "the pool was never full")
    guest.check(f"rm -r /run/fill && echo N > {ZSWAP}/enabled && umount {DEBUG}")
    machine.prove()
    return f"{stored >> 8} MiB in zswap, its pool was full {hits} times"


@scenario("swaps", long=True)
def zswap_full_zbud(machine: Machine) -> str:
    """zswap's pool (zbud, lzo) fills up while the image is made; all comes back, from pool and disk."""
    return zswap_full(machine, "zbud")


@scenario("swaps", long=True)
def zswap_full_z3fold(machine: Machine) -> str:
    """zswap's pool (z3fold, lzo) fills up while the image is made; all comes back, from pool and disk."""
    return zswap_full(machine, "z3fold")


@scenario("swaps", long=True)
def zram_written_back(machine: Machine) -> str:
    """zram has written pages back to a disk of its own before the save: the restored zram finds them there."""
    guest = machine.live()
    guest.check(f"swapoff {SWAP_DEVICE}; modules_load pools; echo lzo > {ZRAM}/comp_algorithm && "
                f"echo {EXTRA_DEVICE} > {ZRAM}/backing_dev && echo 192M > {ZRAM}/disksize && "
                "mkswap /dev/zram0 > /dev/null && { swapon -p 100 /dev/zram0 2> /dev/null || swapon /dev/zram0; } && "
                f"swapon {SWAP_DEVICE}")
    # the first save fills zram; at the second a part of it lies on the disk behind it
    guest = come_back(machine)
    before = digest(guest)
    guest.check(f"echo all > {ZRAM}/idle && echo idle > {ZRAM}/writeback", 120)
    behind = int(guest.check(f"cat {ZRAM}/bd_stat").split()[0])
    need(behind > 0, "nothing was written back")
    machine.restore(machine.save(SAVE), RESUME)
    guest = machine.live()
    guest.check("swapoff /dev/zram0", 240)
    need(int(guest.check(f"cat {ZRAM}/bd_stat").split()[1]) > 0, "nothing was read from the disk behind zram")
    need(digest(guest) == before, "what was written back is damaged")
    guest.check(f"rm -r /run/fill && echo 1 > {ZRAM}/reset")
    machine.prove()
    return f"{behind >> 8} MiB behind zram"


@scenario("swaps", long=True)
def zram_of_noise(machine: Machine) -> str:
    """zram holds what does not shrink, so that half of the memory cannot be emptied: s2disk says what helps, it does."""
    machine.renew()
    guest = machine.live()
    guest.check(f"swapoff {SWAP_DEVICE}; modules_load pools; echo lzo > {ZRAM}/comp_algorithm && "
                f"echo 512M > {ZRAM}/disksize && mkswap /dev/zram0 > /dev/null && "
                "{ swapon -p 100 /dev/zram0 2> /dev/null || swapon /dev/zram0; } && "
                f"swapon {SWAP_DEVICE} && fill 240 random", 240)
    noise = "sha256sum /run/fill/240.noise"
    before = guest.check(noise, 120)
    done = machine.refuse(f"s2disk -r {SWAP_DEVICE}", MEMORY, 240)
    need("swapoff /dev/zram0" in done.text, f"no advice: {done.text}")
    guest.check("state_check", 120)
    guest.check("swapoff /dev/zram0", 240)
    machine.restore(machine.save(timeout=240))
    guest = machine.live()
    need(guest.check(noise, 120) == before, "what was swapped out is damaged")
    guest.check(f"rm -r /run/fill && echo 1 > {ZRAM}/reset")
    machine.prove()
    return done.text.splitlines()[-1]
