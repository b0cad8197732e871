"""Names the process that holds the lease, so that whoever finds it taken can tell if it is gone.

A process is gone where this kernel says so, of that process and of no later one with its number:
both see the same numbers (host, boot, namespaces of processes and of time), and there is none of
that number, or one that began at another tick of the clock. Linux alone tells so much. Of another
machine, another container or another system nothing is known (decision 0132).
"""

import os
import re
import socket
from enum import Enum
from hashlib import sha256
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
# Written behind the name: when the process began, in ticks since the boot, and where that counts.
_MARK = re.compile(r", process ([1-9]\d{0,8}) \(begun (\d{1,19}) at ([0-9a-f]{16})\)$")
_DIGITS = 16
# Of the fields of /proc/PID/stat that follow the name: the state, and when it began (proc(5)).
_STATE, _BEGUN = 0, 19
# Dead, and not yet noted by its parent.
_DEAD = {"Z", "X"}


class Fate(Enum):
    """What is known of a process. UNKNOWN: it may work."""

    LIVES = "lives"
    GONE = "gone"
    UNKNOWN = "unknown"


def holder_name(command: str) -> str:
    """Name this process for whoever finds the lease taken: `run on host, process 123 (…)`."""
    name = f"{command} on {socket.gethostname()}, process {os.getpid()}"
    place, seen = _process_namespace(), _process_state(os.getpid())
    return name if place is None or seen is None else f"{name} (begun {seen[1]} at {place})"


def fate_of(holder: str | None) -> Fate:
    """Tell what became of the process that was named so; where there is a doubt, UNKNOWN."""
    mark = None if holder is None else _MARK.search(holder)
    if mark is None or mark[3] != _process_namespace():
        return Fate.UNKNOWN
    number, begun = int(mark[1]), int(mark[2])
    try:
        # Nothing is sent; it is asked in our own namespace, whatever is mounted at /proc.
        os.kill(number, 0)
    except ProcessLookupError:
        return Fate.GONE
    except PermissionError:
        # It is somebody else's: /proc may tell.
        pass
    seen = _process_state(number)
    if seen is None:
        return Fate.UNKNOWN
    state, began = seen
    if began != begun:
        return Fate.GONE
    return Fate.GONE if state in _DEAD and _is_alone(number) else Fate.LIVES


def _process_namespace() -> str | None:
    """Return a digest of where our numbers of processes, and our ticks, mean what they mean."""
    try:
        if str((_PROC / "self").readlink()) != str(os.getpid()):
            # What is mounted there counts other processes than ours.
            return None
        parts = [
            socket.gethostname(),
            _BOOT.read_text("ascii").strip(),
            *(str((_PROC / "self/ns" / kind).readlink()) for kind in ("pid", "time")),
        ]
    except OSError:
        return None
    return sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def _process_state(number: int) -> tuple[str, int] | None:
    """Return the state of a process and when it began; None: it cannot be seen."""
    try:
        # Its name stands in brackets, and may hold anything.
        fields = (_PROC / str(number) / "stat").read_text("utf-8", "replace").rpartition(")")[2]
        told = fields.split()
        return told[_STATE], int(told[_BEGUN])
    except (OSError, ValueError, IndexError):
        return None


def _is_alone(number: int) -> bool:
    """Tell whether no thread of it is left: the first may die before the others."""
    try:
        return [one.name for one in (_PROC / str(number) / "task").iterdir()] == [str(number)]
    except OSError:
        return False
