# SPDX-License-Identifier: GPL-2.0-or-later
"""Find a kernel to boot in the test guests.

Debian's packaged kernels are used because that is what people run. A package is fetched with the
machine's own package manager, which checks its signature, and only the few files a guest needs are
kept in a cache. Without apt, or without a network, the kernel in /boot does as well.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

SERIES = ("6.1", "6.12")

# What a guest may load lies below these folders of lib/modules/RELEASE/kernel.
KEPT = ("arch/x86/crypto/", "crypto/", "drivers/block/", "drivers/md/", "drivers/virtio/",
        "fs/ext4/", "fs/jbd2/", "fs/mbcache", "fs/xfs/", "fs/btrfs/", "lib/", "mm/")
STAMP = ".complete-3"   # another number whenever KEPT changes


class NoKernel(Exception):
    """No kernel of the wanted series can be had on this machine."""


@dataclass(frozen=True)
class Kernel:
    """A bootable kernel image and the folder with its modules."""

    series: str
    release: str
    image: Path
    modules: Path

    def needed(self, names: list[str]) -> list[Path]:
        """Module files to load, in order, for `names` and all they depend on."""
        table = dependencies(self.modules)
        order: list[Path] = []
        for name in names:
            for path in table.get(name.replace("-", "_"), []):
                if path not in order:
                    order.append(path)
        return order


def dependencies(modules: Path) -> dict[str, list[Path]]:
    """Read modules.dep: module name -> files to load, dependencies first."""
    table: dict[str, list[Path]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        target, _, rest = line.partition(":")
        name = Path(target).name.split(".ko")[0].replace("-", "_")
        table[name] = [modules / p for p in reversed(rest.split())] + [modules / target]
    return table


def cache_folder() -> Path:
    """Where kernels are kept between runs."""
    own = os.environ.get("DORMOUSE_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dormouse"


def get(series: str) -> Kernel:
    """Return the kernel of `series`, from the cache, Debian's archive, or the running system."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = debian_package(series)
        if package and not (folder / package / STAMP).exists():
            try:
                fetch(package, folder)
            except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
                print(f"# kernel {series}: cannot fetch {package}: {error}")
        for name in ([package] if package else []) + cached(series, folder):
            if (folder / name / STAMP).exists():
                return unpacked(series, folder / name)
    installed = installed_kernel(series)
    if installed:
        return installed
    raise NoKernel(f"no kernel {series}: not in Debian's archive, the cache or /boot")


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command and return what it printed; raises when it fails."""
    done = subprocess.run(command, cwd=cwd, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=600)
    return done.stdout


def debian_package(series: str) -> str | None:
    """Name of the newest image package of `series` that apt knows, if any."""
    if not shutil.which("apt-cache") or not shutil.which("dpkg-deb"):
        return None
    wanted = re.compile(r"linux-image-" + re.escape(series) + r"\.[0-9][^ ,]*-amd64$")
    for meta in ("linux-image-amd64", f"linux-image-{series}-amd64"):
        try:
            lines = run("apt-cache", "depends", meta).splitlines()
        except subprocess.SubprocessError:
            continue
        for line in lines:
            name = line.strip().removeprefix("Depends: ")
            if wanted.match(name):
                return name
    return None


def fetch(package: str, folder: Path) -> None:
    """Download `package` and unpack what is needed; the result appears whole or not at all."""
    print(f"# fetching {package} into {folder}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as name:
        work = Path(name)
        if os.geteuid() == 0:
            work.chmod(0o777)  # apt drops its privileges to download
        run("apt-get", "-q", "download", package, cwd=work)
        archive = next(work.glob("*.deb"))
        tree = work / "tree"
        unpack(archive, tree)
        release = next((tree / "lib/modules").iterdir()).name
        run("depmod", "-b", str(tree), release)
        (tree / STAMP).touch()
        shutil.rmtree(folder / package, ignore_errors=True)
        tree.rename(folder / package)


def unpack(archive: Path, tree: Path) -> None:
    """Extract the kernel image and the modules in KEPT from a Debian package."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as source:
        with tarfile.open(fileobj=source.stdout, mode="r|") as tar:
            for member in tar:
                path = member.name.removeprefix("./").removeprefix("usr/")
                if member.isfile() and is_kept(path):
                    target = tree / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    content = tar.extractfile(member)
                    assert content is not None
                    target.write_bytes(content.read())
    if source.returncode != 0:
        raise OSError(f"{archive} is damaged")
    if not any((tree / "boot").glob("vmlinuz-*")):
        raise OSError(f"{archive} holds no kernel")


def is_kept(path: str) -> bool:
    """Is this file of the package of use in a guest?"""
    if path.startswith("boot/vmlinuz-"):
        return True
    found = re.match(r"lib/modules/[^/]+/(.*)", path)
    if not found:
        return False
    inner = found.group(1)
    return inner.startswith("modules.") or inner.startswith(tuple("kernel/" + k for k in KEPT))


def cached(series: str, folder: Path) -> list[str]:
    """Whole packages of `series` in the cache, newest first."""
    found = [p for p in folder.glob(f"linux-image-{series}.*") if (p / STAMP).exists()]
    return [p.name for p in sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)]


def unpacked(series: str, tree: Path) -> Kernel:
    """Describe a kernel in the cache."""
    modules = next((tree / "lib/modules").iterdir())
    return Kernel(series, modules.name, tree / "boot" / f"vmlinuz-{modules.name}", modules)


def installed_kernel(series: str) -> Kernel | None:
    """A kernel installed on this machine: of the series if possible, else the running one."""
    found = sorted(Path("/boot").glob("vmlinuz-*"))
    running = Path("/boot") / f"vmlinuz-{os.uname().release}"
    matching = [p for p in found if p.name.startswith(f"vmlinuz-{series}.")]
    for image in matching[::-1] + [running]:
        release = image.name.removeprefix("vmlinuz-")
        modules = Path("/lib/modules") / release
        if os.access(image, os.R_OK) and (modules / "modules.dep").exists():
            return Kernel(series, release, image, modules)
    return None
