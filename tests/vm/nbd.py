# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk of our own for a guest: it keeps a log of what was written, and fails where it is told to.

QEMU reaches it by the NBD protocol over a Unix socket. Requests are served one after the other, in
the order in which they come, so "the third write" is the same thing for the log, for a fault and for
whoever reads the result.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

READ, WRITE, LEAVE, FLUSH, TRIM, ZEROES = 0, 1, 2, 3, 4, 6   # the protocol's numbers
NAMES = {READ: "read", WRITE: "write", FLUSH: "flush", TRIM: "trim", ZEROES: "zeroes"}
EIO, ENOSPC, EINVAL = 5, 28, 22
SECTOR = 512
NEVER_ENDS = 1 << 60

MAGIC = b"NBDMAGIC"
OPTION_MAGIC = b"IHAVEOPT"
OPTION_REPLY = 0x3e889045565a9
REQUEST, SIMPLE_REPLY = 0x25609513, 0x67446698
HAS_FLAGS, SEND_FLUSH, SEND_TRIM, SEND_ZEROES = 1, 4, 32, 64


@dataclass(frozen=True)
class Event:
    """One thing that the disk was asked to keep."""

    kind: int                 # WRITE, FLUSH, TRIM, ZEROES
    at: int = 0
    data: bytes = b""
    reads: int = 0            # how many came before it


@dataclass
class Fault:
    """What goes wrong: from the `first` request of `kind` on (counted from 1), for `count` of them.

    NEVER_ENDS stands for all that follow.
    """

    kind: int
    first: int = 1
    count: int = 1
    which: bytes = b""        # only writes of this record, or of the mark, count
    error: int = EIO
    what: str = "error"       # error; stuck: no answer; slow: an answer after `seconds`; gone: the disk is pulled out
    seconds: float = 0.0
    struck: list[int] = field(default_factory=list)   # the numbers of the requests that it hit

    met: int = 0

    def hits(self, kind: int, number: int, data: bytes) -> bool:
        """Is it this request's turn? Notes it."""
        if kind != self.kind or (self.which and not is_record(data, self.which)):
            return False
        self.met += 1
        if not self.first <= self.met < self.first + self.count:
            return False
        self.struck.append(number)
        return True


def is_record(data: bytes, which: bytes) -> bool:
    """Is that one of the image's records, or the mark? Their names may lie in the saved memory as well."""
    return len(data) <= 4096 and (data.startswith(which) or data[-10:].rstrip(b"\0") == which)


class FaultyDisk:
    """A server for one disk, in a thread of its own; `path` holds the disk's content, always up to date."""

    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size
        self.file = os.open(path, os.O_RDWR)
        self.log: list[Event] | None = None
        self.fault: Fault | None = None
        self.counts = {kind: 0 for kind in NAMES}
        self.gone = False
        self.owed: list[tuple[int, bytes, int, int, bytes]] = []   # what a stuck disk has not answered
        self.answering = threading.Lock()
        self.connection: socket.socket | None = None

    def connect(self) -> socket.socket:
        """The client's end of a new connection; the caller's to close."""
        self.connection, far = socket.socketpair()
        threading.Thread(target=self._serve, args=(self.connection,), daemon=True).start()
        return far

    def arm(self, fault: Fault | None = None) -> None:
        """From now on count anew, and fail as told."""
        self.counts = {kind: 0 for kind in NAMES}
        self.fault = fault

    def record(self) -> None:
        """From now on keep all that is written."""
        self.log = []

    def close(self) -> None:
        """End the server."""
        if self.connection:
            self.connection.close()
            self.connection = None

    # --- the protocol ---

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._greet(sock):
                while self._one(sock):
                    pass
        except (OSError, EOFError):
            pass   # the guest is gone
        sock.close()
        os.close(self.file)

    def _greet(self, sock: socket.socket) -> bool:
        """Agree with the client on what is served; true when it goes on to requests."""
        sock.sendall(MAGIC + OPTION_MAGIC + struct.pack(">H", 3))
        take(sock, 4)
        while True:
            magic, option, length = struct.unpack(">8sII", take(sock, 16))
            take(sock, length)
            if magic != OPTION_MAGIC:
                return False
            flags = HAS_FLAGS | SEND_FLUSH | SEND_TRIM | SEND_ZEROES
            if option == 1:             # EXPORT_NAME, the old way
                sock.sendall(struct.pack(">QH", self.size, flags))
                return True
            if option in (6, 7):        # INFO, GO
                reply(sock, option, 3, struct.pack(">HQH", 0, self.size, flags))
                reply(sock, option, 1)
                if option == 7:
                    return True
            elif option == 2:           # ABORT
                reply(sock, option, 1)
                return False
            else:
                reply(sock, option, 0x80000001)

    def _one(self, sock: socket.socket) -> bool:
        """Serve one request."""
        magic, _, kind, handle, at, length = struct.unpack(">IHH8sQI", take(sock, 28))
        data = take(sock, length) if kind == WRITE else b""
        if magic != REQUEST or kind == LEAVE:
            return False
        error = self._strike(kind, data)
        if error is None:
            self.owed.append((kind, handle, at, length, data))
            return True
        self._answer(sock, error, kind, handle, at, length, data)
        return True

    def _answer(self, sock: socket.socket, error: int, kind: int, handle: bytes, at: int, length: int,
                data: bytes) -> None:
        answer = b""
        with self.answering:
            if not error:
                error, answer = self._do(kind, at, length, data)
            sock.sendall(struct.pack(">II8s", SIMPLE_REPLY, error, handle) + answer)

    def answer_all(self) -> int:
        """From now on answer, and do first all that is owed; how much that was."""
        self.fault = None
        count = 0
        while self.owed:
            assert self.connection
            self._answer(self.connection, 0, *self.owed.pop(0))
            count += 1
        return count

    def _strike(self, kind: int, data: bytes) -> int | None:
        """Count the request, and fail it when its turn has come: an error, 0, or None for no answer at all."""
        if kind in self.counts:
            self.counts[kind] += 1
        fault = self.fault
        if self.gone:
            return EIO
        if not fault or not fault.hits(kind, self.counts.get(kind, 0), data):
            return 0
        if fault.what == "slow":
            time.sleep(fault.seconds)
            return 0
        if fault.what == "stuck":
            return None
        self.gone = fault.what == "gone"
        return fault.error

    def _do(self, kind: int, at: int, length: int, data: bytes) -> tuple[int, bytes]:
        if at + length > self.size:
            return EINVAL, bytes(length) if kind == READ else b""
        if kind == READ:
            return 0, os.pread(self.file, length, at).ljust(length, b"\0")
        if kind == WRITE:
            os.pwrite(self.file, data, at)
        elif kind in (TRIM, ZEROES):
            os.pwrite(self.file, bytes(length), at)
            data = bytes(length)
        elif kind != FLUSH:
            return EINVAL, b""
        if self.log is not None:
            self.log.append(Event(kind, at, data, self.counts[READ]))
        return 0, b""


def take(sock: socket.socket, length: int) -> bytes:
    """Read so many bytes."""
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        got = sock.recv_into(rest)
        if not got:
            raise EOFError
        rest = rest[got:]
    return bytes(data)


def reply(sock: socket.socket, option: int, kind: int, data: bytes = b"") -> None:
    """Answer an option of the greeting."""
    sock.sendall(struct.pack(">QIII", OPTION_REPLY, option, kind, len(data)) + data)


# --- what a power cut leaves ---

def survivors(log: list[Event], cut: int, lost: str, chance: random.Random) -> list[Event]:
    """What of the first `cut` events is on the disk after the power failed there.

    All before the last flush is; of what came later the disk kept what it liked. `lost` is `all`,
    `none`, `all but the last`, or `some`: each by chance, the last write then perhaps in part. A sector is whole or not there.
    """
    done = log[:cut]
    durable = max((n + 1 for n, event in enumerate(done) if event.kind == FLUSH), default=0)
    kept = [event for event in done[:durable] if event.kind != FLUSH]
    open_ = [event for event in done[durable:] if event.kind != FLUSH]
    if lost == "none":
        return kept + open_
    if lost == "all" or not open_:
        return kept
    if lost == "all but the last":
        return kept + open_[-1:]
    some = [event for event in open_[:-1] if chance.random() < 0.5]
    last = open_[-1]
    sectors = chance.randint(0, len(last.data) // SECTOR)
    return kept + some + [Event(last.kind, last.at, last.data[:sectors * SECTOR])]


def lay(path: Path, events: list[Event]) -> None:
    """Write these events to a disk image."""
    with open(path, "r+b") as file:
        for event in events:
            file.seek(event.at)
            file.write(event.data)
