# SPDX-License-Identifier: GPL-2.0-or-later
"""Look at, make and damage disk images from the host, while no guest has a say in it."""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import subprocess
from pathlib import Path

PAGE = 4096
SIGNATURE_AT = PAGE - 10
UUID_AT = 1036
SWAP = "SWAPSPACE2"
IMAGE = "ULSUSPEND"
KERNEL_IMAGE = "S1SUSPEND"
SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def tool(name: str) -> str:
    """Path of a system tool; those in sbin are not in everybody's PATH."""
    found = shutil.which(name, path=SBIN)
    if not found:
        raise FileNotFoundError(f"{name} is not installed")
    return found


def make_blank(path: Path, megabytes: int) -> None:
    """Make a sparse file of zeros."""
    path.unlink(missing_ok=True)
    with open(path, "wb") as file:
        file.truncate(megabytes << 20)


def make_swap(path: Path, megabytes: int, uuid: str = "") -> None:
    """Make a swap disk, with a UUID of its own or this one."""
    make_blank(path, megabytes)
    identity = ["-U", uuid] if uuid else []
    subprocess.run([tool("mkswap"), "-q", *identity, str(path)], check=True, stderr=subprocess.DEVNULL)


def make_file_system(path: Path, kind: str) -> None:
    """Make a disk with a file system, as small as its kind may be."""
    if kind == "ext4":
        make_ext4(path, 256)
        return
    make_blank(path, 320)
    subprocess.run([tool(f"mkfs.{kind}"), "-q", str(path)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_ext4(path: Path, megabytes: int) -> None:
    """Make a disk with an ext4 file system."""
    make_blank(path, megabytes)
    subprocess.run([tool("mke2fs"), "-q", "-F", "-t", "ext4", "-b", str(PAGE), str(path)], check=True)


def read_at(path: Path, offset: int, size: int) -> bytes:
    """Read some bytes."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def write_at(path: Path, offset: int, data: bytes) -> None:
    """Overwrite some bytes."""
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def signature(path: Path, page: int = 0) -> str:
    """The signature of the swap area that begins at `page`."""
    return read_at(path, page * PAGE + SIGNATURE_AT, 10).rstrip(b"\0").decode("latin-1")


def swap_uuid(path: Path, page: int = 0) -> str:
    """The swap area's UUID, as plain hexadecimal digits."""
    return read_at(path, page * PAGE + UUID_AT, 16).hex()


def fsck(path: Path, kind: str = "ext4") -> str:
    """Check a file system without changing it; what is wrong, or nothing."""
    name, *options = {"ext4": ("e2fsck", "-fn"), "xfs": ("xfs_repair", "-n"), "btrfs": ("btrfs", "check", "--readonly")}[kind]
    done = subprocess.run([tool(name), *options, str(path)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return "" if done.returncode == 0 else done.stdout.strip()


def file_of(path: Path, name: str) -> bytes:
    """A file's content, from an ext4 file system that nobody has mounted."""
    return subprocess.run([tool("debugfs"), "-R", f"cat {name}", str(path)], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def btrfs_has_log(path: Path) -> bool:
    """Is there something that the next mount replays, also a read-only one? (log_root of the superblock)"""
    return any(read_at(path, 65536 + 0x60, 8))


def copy(source: Path, target: Path) -> None:
    """Copy a disk image; holes stay holes."""
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True)


def digest(path: Path) -> str:
    """A checksum of the whole disk."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") \
            else hashlib.sha256(file.read()).hexdigest()


def holds(path: Path, *wanted: bytes) -> list[bytes]:
    """Which of these byte strings lie anywhere in the file."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [text for text in wanted if content.find(text) >= 0]


def data_runs(path: Path) -> list[tuple[int, int]]:
    """(start, end) of the parts of a sparse file that were written to."""
    runs: list[tuple[int, int]] = []
    with open(path, "rb") as file:
        end = 0
        while True:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                return runs
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            runs.append((start, end))


def flip_middle(path: Path, size: int = 64) -> int:
    """Invert some bytes in the middle of what is stored; return where."""
    runs = [r for r in data_runs(path) if r[1] > PAGE]
    total = sum(end - start for start, end in runs)
    left = total // 2
    for start, end in runs:
        if left < end - start:
            where = start + left
            write_at(path, where, bytes(b ^ 0xFF for b in read_at(path, where, size)))
            return where
        left -= end - start
    raise ValueError(f"{path} is empty")
