# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the initramfs that every guest boots: busybox, modules, the programs under test.

The archive is not compressed (unpacking costs more than loading in an emulator), and one archive
serves the boot that saves and the boot that resumes: the kernel refuses an image when the firmware's
memory map has moved, and the map moves with the initramfs's size.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import stat
import subprocess
from pathlib import Path

from kernel import Kernel

HERE = Path(__file__).resolve().parent
BOOT_MODULES = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "loop", "dm_mod"]
# For scenarios to load. Of those who keep swap in memory, 6.12 has no z3fold any more.
SPARE_MODULES = {"spare": ["zram"], "pools": ["zram", "zsmalloc", "z3fold", "zstd"], "ext4": [], "xfs": ["xfs"], "btrfs": ["btrfs"]}
PROGRAMS = ["s2disk", "resume", "s2image", "swap-offset", "s2bench", "suspend-keygen"]
APPLETS = ["dd", "insmod", "mkfifo", "mkswap", "mount", "pidof", "poweroff", "setsid", "sha256sum", "sh", "stty",
           "swapoff", "swapon", "timeout", "umount", "usleep", "xxd"]
FOLDERS = ["bin", "dev", "etc", "guest", "lib", "lib/modules", "lib64", "mnt", "proc", "run", "sbin",
           "sys", "tmp"]


class Archive:
    """Writer of a "newc" cpio archive, the form the kernel unpacks."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.seen: set[str] = set()
        self.number = 0

    def add(self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        """Append one entry with the folders it needs; a name is taken once only."""
        name = name.lstrip("/")
        if name in self.seen:
            return
        parent = str(Path(name).parent)
        if parent not in (".", "") and name != "TRAILER!!!":
            self.add(parent, stat.S_IFDIR | 0o755)
        self.seen.add(name)
        self.number += 1
        fields = (self.number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
        self.parts += [pad(header), pad(data)]

    def add_file(self, name: str, source: Path, executable: bool = True) -> None:
        """Append a file of the host."""
        self.add(name, stat.S_IFREG | (0o755 if executable else 0o644), source.read_bytes())

    def add_program(self, name: str, source: Path) -> None:
        """Append a program or a library, and every shared library it is linked against."""
        self.add_file(name, source)
        for library in shared_libraries(source):
            self.add_file(str(library), library)

    def write(self, target: Path) -> None:
        """Finish the archive and put it in place at once."""
        self.add("TRAILER!!!", 0)
        partial = target.with_suffix(".part")
        partial.write_bytes(b"".join(self.parts))
        partial.rename(target)


def pad(data: bytes) -> bytes:
    """Fill up to a multiple of four bytes, as the archive wants it."""
    return data + b"\0" * (-len(data) % 4)


def shared_libraries(program: Path) -> list[Path]:
    """The libraries and the loader that `program` needs; none when it is static."""
    done = subprocess.run(["ldd", str(program)], text=True, capture_output=True)
    if done.returncode != 0:
        return []
    return [Path(p) for p in re.findall(r"(?:=> |^\s*)(/\S+) \(", done.stdout, re.MULTILINE)]


def module_bytes(path: Path) -> bytes:
    """Content of a module, unpacked: busybox's insmod knows no compression."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", str(path)], check=True, stdout=subprocess.PIPE).stdout
    return path.read_bytes()


def find_busybox() -> Path | None:
    """A busybox with all that the guest's scripts call; distributions leave different parts out."""
    for name in ("busybox", "busybox.static", "busybox-static"):
        found = shutil.which(name)
        if found:
            done = subprocess.run([found, "--list"], text=True, capture_output=True)
            if set(APPLETS) <= set(done.stdout.split()):
                return Path(found)
    return None


def build_shim(folder: Path) -> Path:
    """Compile the library that makes system calls fail in the guest."""
    target = folder / "shim.so"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(target),
                    str(HERE / "shim.c"), "-ldl"], check=True)
    return target


def build_helper(folder: Path, name: str) -> Path:
    """Compile a small program for the guest."""
    target = folder / name
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(HERE / f"{name}.c")],
                   check=True)
    return target


def build(kernel: Kernel, programs: Path, target: Path, more: tuple[Path, ...] = ()) -> Path:
    """Make the archive for `kernel` with the programs found in the folder `programs`, and `more` of the host's."""
    busybox = find_busybox()
    if busybox is None:
        raise FileNotFoundError("no busybox with all its parts")
    archive = Archive()
    for folder in FOLDERS:
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add_program("bin/busybox", busybox)
    archive.add_file("init", HERE / "guest/init")
    for script in sorted((HERE / "guest").iterdir()):
        archive.add_file(f"guest/{script.name}", script)
    add_modules(archive, kernel)
    for name in PROGRAMS:
        if (programs / name).exists():
            archive.add_program(f"guest/{name}", programs / name)
    for program in more:
        archive.add_program(f"guest/{program.name}", program)
    archive.add("guest/s2both", stat.S_IFLNK | 0o777, b"s2disk")
    archive.add_program("guest/shim.so", build_shim(target.parent))
    for helper in ("vt-hold", "hog"):
        archive.add_program(f"guest/{helper}", build_helper(target.parent, helper))
    archive.write(target)
    return target


def add_modules(archive: Archive, kernel: Kernel) -> None:
    """Lay the modules flat into lib/modules, with lists of the order to load them in."""
    for file, modules in {"order": BOOT_MODULES, **SPARE_MODULES}.items():
        order = []
        for path in kernel.needed(modules):
            name = path.name.split(".ko")[0] + ".ko"
            archive.add(f"lib/modules/{name}", stat.S_IFREG | 0o644, module_bytes(path))
            order.append(name)
        archive.add(f"lib/modules/{file}", stat.S_IFREG | 0o644, "".join(n + "\n" for n in order).encode())
