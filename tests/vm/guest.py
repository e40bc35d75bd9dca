# SPDX-License-Identifier: GPL-2.0-or-later
"""One QEMU guest: its console, its command line, its power switch.

The first serial line is the guest's console, the second a shell that runs one command at a time for
the host (see guest/shell). Both, and QEMU's control channel, are socket pairs read by one thread,
so every line carries the host's time and no line is lost. A guest never outlives its time limit, its
Guest object, or the process that started it.
"""

from __future__ import annotations

import itertools
import json
import re
import selectors
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from nbd import FaultyDisk

QEMU = "qemu-system-x86_64"
# Not "watchdog: BUG: soft lockup": a busy host stops the emulated processor that long; limits catch a real one.
PANIC = re.compile(r"Kernel panic|Oops: |(?<!watchdog: )BUG: |general protection fault|Image mismatch")
PROMPT = 90.0   # seconds until a freshly booted guest must answer
COMMANDS = itertools.count(1)   # unique over all guests: an answer may come out of a later boot


class GuestError(Exception):
    """The guest did not do what the test expected."""


@dataclass(frozen=True)
class Disk:
    """A raw disk image and how QEMU presents it."""

    path: Path
    limit: int = 0            # bytes a second, reads and writes together; 0: none
    limits: tuple[int, int] | None = None   # of writes and of reads, in its place
    cache: str = "unsafe"
    late: bool = False        # not there before Guest.attach
    server: FaultyDisk | None = None   # who serves the file; without, QEMU does

    def device(self, number: int) -> str:
        """QEMU's device model; always in the same slot, whenever it comes."""
        # A served disk's log shall show the guest's own requests.
        merging = "off" if self.server else "on"
        return f"virtio-blk-pci,drive=disk{number},id=slot{number},addr={0x10 + number:#x},werror=report," \
               f"rerror=report,request-merging={merging}"

    def option(self, number: int, served: dict[int, socket.socket]) -> str:
        """QEMU's -drive argument."""
        if number in served:
            return f"driver=raw,file.driver=nbd,file.server.type=fd,file.server.str={served[number].fileno()}," \
                   f"if=none,id=disk{number},cache=writeback"
        text = f"file={self.path},format=raw,if=none,id=disk{number},cache={self.cache}"
        if self.limits:
            return f"{text},throttling.bps-write={self.limits[0]},throttling.bps-read={self.limits[1]}"
        return text + (f",throttling.bps-total={self.limit}" if self.limit else "")


@dataclass(frozen=True)
class Shape:
    """The machine. Saving and resuming need the same memory, processors and disks."""

    memory: int = 512         # MiB
    cpus: int = 2
    disks: tuple[Disk, ...] = ()
    screen: bool = False      # a VGA card and a keyboard, with virtual terminals on them


@dataclass(frozen=True)
class Reply:
    """How a command in the guest ended."""

    status: int
    text: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """The host's time between the command's two marks."""
        return self.ended - self.began


@dataclass
class Stream:
    """Bytes from one socket, cut into lines with the host's time."""

    name: str
    sock: socket.socket
    log: Any
    rest: bytes = b""
    lines: list[tuple[float, str]] = field(default_factory=list)

    def feed(self, data: bytes, now: float, start: float) -> None:
        """Take more bytes."""
        *whole, self.rest = (self.rest + data).split(b"\n")
        for raw in whole:
            text = raw.decode(errors="replace").rstrip("\r")
            self.lines.append((now, text))
            self.log.write(f"{now - start:9.3f} {text}\n")
        self.log.flush()


def available() -> bool:
    """Can guests be run on this machine?"""
    return shutil.which(QEMU) is not None


class Guest:
    """A running guest; a context manager that leaves no process behind."""

    def __init__(self, shape: Shape, image: Path, initramfs: Path, logs: Path,
                 append: str = "", limit: float = 300.0) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.logs = logs
        self.shape = shape
        self.start = time.time()
        self.deadline = self.start + limit
        self.changed = threading.Condition()
        self.failure: str | None = None
        self.watch_panics = True
        self.heard = 0          # how much of the console's text a question was found in
        self.streams: dict[str, Stream] = {}
        far = [self._open(name) for name in ("console", "shell", "qmp")]
        served = {number: disk.server.connect() for number, disk in enumerate(shape.disks) if disk.server}
        command = self._command(shape, image, initramfs, append, [s.fileno() for s in far], served)
        far += served.values()
        self.errors = open(logs / "qemu.log", "w")
        self.process = subprocess.Popen(command, pass_fds=[s.fileno() for s in far],
                                        stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors)
        for sock in far:
            sock.close()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self._qmp("qmp_capabilities")

    def _open(self, name: str) -> socket.socket:
        near, far = socket.socketpair()
        self.streams[name] = Stream(name, near, open(self.logs / f"{name}.log", "w"))
        return far

    @staticmethod
    def _command(shape: Shape, image: Path, initramfs: Path, append: str, fds: list[int],
                 served: dict[int, socket.socket]) -> list[str]:
        line = f"console=ttyS0,115200 panic=-1 loglevel=7 printk.devkmsg=on {append}"
        if shape.screen:
            line = "console=tty0 " + line
        # setpriv: the kernel kills QEMU when the thread that started it is gone.
        command = ["setpriv", "--pdeathsig", "KILL", QEMU, "-nodefaults", "-no-reboot", "-no-shutdown",
                   "-display", "none", "-accel", "tcg,thread=multi", "-cpu", "max",
                   "-smp", str(shape.cpus), "-m", str(shape.memory),
                   "-kernel", str(image), "-initrd", str(initramfs), "-append", line.strip()]
        for name, fd in zip(("console", "shell", "qmp"), fds):
            command += ["-chardev", f"socket,id={name},fd={fd}"]
        command += ["-serial", "chardev:console", "-serial", "chardev:shell",
                    "-mon", "chardev=qmp,mode=control"]
        command += ["-vga", "std" if shape.screen else "none"]
        for number, disk in enumerate(shape.disks):
            command += ["-drive", disk.option(number, served)]
            command += [] if disk.late else ["-device", disk.device(number)]
        return command

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read(self) -> None:
        """Collect lines until QEMU is gone; enforce the time limit."""
        with selectors.DefaultSelector() as selector:
            for stream in self.streams.values():
                selector.register(stream.sock, selectors.EVENT_READ, stream)
            while selector.get_map():
                ready = selector.select(0.5)
                now = time.time()
                with self.changed:
                    for key, _ in ready:
                        self._take(selector, key.data, now)
                    self.changed.notify_all()
                if now > self.deadline and self.process.poll() is None:
                    self.failure = self.failure or "the guest's time limit passed"
                    self.process.kill()

    def _take(self, selector: selectors.BaseSelector, stream: Stream, now: float) -> None:
        try:
            data = stream.sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            selector.unregister(stream.sock)
            return
        known = len(stream.lines)
        stream.feed(data, now, self.start)
        if stream.name == "console" and self.watch_panics and not self.failure:
            for _, line in stream.lines[known:]:
                if PANIC.search(line):
                    self.failure = f"console: {line}"

    def wait(self, ready: Callable[[], Any], timeout: float, what: str) -> Any:
        """Wait until `ready` returns something true; raise with `what` when it does not."""
        end = time.time() + timeout
        with self.changed:
            while True:
                value = ready()
                if value:
                    return value
                if self.failure:
                    raise GuestError(f"{self.failure}, while waiting for {what}")
                if self.process.poll() is not None and not self.reader.is_alive():
                    raise GuestError(f"QEMU ended while waiting for {what}")
                if time.time() > end:
                    raise GuestError(f"no {what} within {timeout:.0f} s")
                self.changed.wait(0.5)

    def find(self, pattern: str, stream: str = "shell") -> tuple[float, re.Match[str]] | None:
        """First line that matches, with its time."""
        wanted = re.compile(pattern)
        for when, line in self.streams[stream].lines:
            found = wanted.search(line)
            if found:
                return when, found
        return None

    def expect(self, pattern: str, timeout: float, stream: str = "shell") -> float:
        """Wait for a line; return when it came."""
        return self.wait(lambda: self.find(pattern, stream), timeout, f'line "{pattern}"')[0]

    def booted(self) -> "Guest":
        """Wait until the guest takes commands."""
        self.expect("^@@ready", PROMPT)
        return self

    # --- commands ---

    def send(self, command: str) -> int:
        """Start a command; the answer may come in a later boot."""
        number = next(COMMANDS)
        line = f"{number} {command}\n".encode()
        if len(line) > 4000 or b"\n" in line[:-1]:
            raise ValueError("a command is one line of fewer than 4000 bytes")
        self.streams["shell"].sock.sendall(line)
        return number

    def reply(self, number: int) -> Reply | None:
        """The answer to command `number`, when it is there."""
        began = 0.0
        text: list[str] = []
        for when, line in self.streams["shell"].lines:
            if line.startswith("@@begin "):
                began, text = when, []
                continue
            end = re.match(r"@@end (\d+) (\d+)", line)
            if end and int(end.group(1)) == number:
                return Reply(int(end.group(2)), "\n".join(text).strip(), began, when)
            text.append(line)
        return None

    def text_since(self, number: int) -> str:
        """What a command has printed so far."""
        lines = [line for _, line in self.streams["shell"].lines]
        mark = f"@@begin {number}"
        return "\n".join(lines[lines.index(mark) + 1:]).strip() if mark in lines else ""

    def wait_reply(self, number: int, timeout: float = 60.0) -> Reply:
        """Wait for the answer to a command."""
        return self.wait(lambda: self.reply(number), timeout, f"answer to command {number}")

    def run(self, command: str, timeout: float = 60.0) -> Reply:
        """Run a command to its end."""
        return self.wait_reply(self.send(command), timeout)

    def check(self, command: str, timeout: float = 60.0) -> str:
        """Run a command that must succeed; return what it printed."""
        done = self.run(command, timeout)
        if done.status != 0:
            raise GuestError(f'"{command}" gave {done.status}: {done.text}')
        return done.text

    # --- the console, as a person sees it ---

    def console_send(self, data: bytes) -> None:
        """Type on the console."""
        self.streams["console"].sock.sendall(data)

    def console_text(self) -> str:
        """All that the console has shown, its unfinished line too."""
        console = self.streams["console"]
        return "\n".join([line for _, line in console.lines] + [console.rest.decode(errors="replace")])

    def hear(self, question: str, timeout: float = 60.0) -> None:
        """Wait until the console shows this after all that was heard before; a prompt has no line's end."""
        def asked() -> bool:
            at = self.console_text().find(question, self.heard)
            if at >= 0:
                self.heard = at + len(question)
            return at >= 0

        self.wait(asked, timeout, f'the console\'s "{question}"')

    def answer(self, question: str, keys: str, pause: float = 0.0, timeout: float = 60.0) -> None:
        """Wait for a question on the console and type, with a pause before each key."""
        self.hear(question, timeout)
        for key in keys if pause else [keys]:
            time.sleep(pause)
            self.console_send(key.encode())

    def progress(self, verb: str) -> int:
        """Per cent of the bar that the console shows; -1 when there is none yet."""
        found = re.findall(verb + r" +(\d+) %", self.console_text())
        return int(found[-1]) if found else -1

    # --- power and QEMU's control channel ---

    def press(self, key: str) -> None:
        """Press a key of the keyboard, by QEMU's name."""
        self._answer(self._qmp("send-key", keys=[{"type": "qcode", "data": key}]), f"key {key}")

    def screenshot(self, path: Path) -> None:
        """Keep what the screen shows."""
        self._answer(self._qmp("screendump", filename=str(path), format="png"), "screenshot")

    def wake(self) -> None:
        """Wake the machine from its sleep."""
        self._answer(self._qmp("system_wakeup"), "wake-up")

    def attach(self, number: int) -> None:
        """Plug a late disk in."""
        name, *options = self.shape.disks[number].device(number).split(",")
        arguments = dict(option.split("=") for option in options)
        self._answer(self._qmp("device_add", driver=name, **arguments), "device")

    def throttle(self, number: int, limit: int) -> None:
        """Let a disk do so many bytes a second from now on; 0: as fast as it can."""
        other = {key: 0 for key in ("bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr")}
        self._answer(self._qmp("block_set_io_throttle", device=f"disk{number}", bps=limit, **other), "throttle")

    def _answer(self, name: str, what: str, timeout: float = 10) -> Any:
        def answer() -> dict[str, Any] | None:
            for _, line in self.streams["qmp"].lines[::-1]:
                if f'"{name}"' in line:
                    return json.loads(line)
            return None

        message = self.wait(answer, timeout, what)
        if "error" in message:
            raise GuestError(f"{what}: {message['error']}")
        return message["return"]

    def _qmp(self, command: str, **arguments: Any) -> str:
        name = f"{command}-{next(COMMANDS)}"
        message = {"execute": command, "id": name, "arguments": arguments}
        try:
            self.streams["qmp"].sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass   # QEMU is gone; whoever waits for an answer will learn it
        return name

    def event(self, name: str) -> dict[str, Any] | None:
        """The first QEMU event of that name."""
        for _, line in self.streams["qmp"].lines:
            if f'"{name}"' in line:
                message = json.loads(line)
                if message.get("event") == name:
                    return message
        return None

    def wait_off(self, timeout: float = 120.0) -> tuple[str, float]:
        """Wait until the guest switches itself off; return QEMU's reason and the time."""
        event = self.wait(lambda: self.event("SHUTDOWN"), timeout, "power-off")
        stamp = event["timestamp"]
        return event["data"]["reason"], stamp["seconds"] + stamp["microseconds"] / 1e6

    def is_off(self) -> bool:
        """Has the guest switched itself off?"""
        with self.changed:
            return self.event("SHUTDOWN") is not None

    def disk_statistics(self) -> list[dict[str, int]]:
        """QEMU's counters for each disk, in order."""
        name = self._qmp("query-blockstats")
        return [device["stats"] for device in self._answer(name, "disk statistics")]

    def save_memory(self, path: Path) -> None:
        """Write the guest's physical memory to a file of the host."""
        size = self.shape.memory << 20
        self._answer(self._qmp("pmemsave", val=0, size=size, filename=str(path)), "memory", 60)
        if path.stat().st_size != size:
            raise GuestError("the memory was not written whole")

    def kill(self) -> None:
        """End QEMU at once, as when the power fails."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(5)
        for stream in self.streams.values():
            stream.sock.close()
            stream.log.close()
        self.errors.close()
