# SPDX-License-Identifier: GPL-2.0-or-later
"""The set-ups of doc/set-ups.md: each way to hibernate, each maker of an initramfs, each kind of swap."""

from __future__ import annotations

import debian
import hostdisk
from machine import need
from system import SYSTEMS, System, system


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
