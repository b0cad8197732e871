"""Names the process that holds the lease, so that others can check whether that process is gone.

A process is gone if this kernel has no process of that number, or one that started at another
clock tick. The comparison is valid only where both processes see the same process numbers (same
host, boot, process namespace and time namespace), and on Linux only. For another machine,
container or system the state is unknown (decision 0132).
"""

import os
import re
import socket
from enum import Enum
from hashlib import sha256
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
# Suffix of the name: the start of the process in clock ticks since boot, and a digest of the
# namespaces in which that number is valid.
_MARK = re.compile(r", process ([1-9]\d{0,8}) \(begun (\d{1,19}) at ([0-9a-f]{16})\)$")
_DIGITS = 16
# Indexes of the state and the start time among the fields of /proc/PID/stat behind the name
# (proc(5)).
_STATE, _BEGUN = 0, 19
# States of processes that are dead and not yet reaped by their parents.
_DEAD = {"Z", "X"}


class Fate(Enum):
    """The state of a lease holder's process; UNKNOWN means that the process may still run."""

    LIVES = "lives"
    GONE = "gone"
    UNKNOWN = "unknown"


def holder_name(command: str) -> str:
    """Return this process's name for the lease: `run on host, process 123 (…)`."""
    name = f"{command} on {socket.gethostname()}, process {os.getpid()}"
    place, seen = _process_namespace(), _process_state(os.getpid())
    return name if place is None or seen is None else f"{name} (begun {seen[1]} at {place})"


def fate_of(holder: str | None) -> Fate:
    """Return the state of the process that this holder name denotes; UNKNOWN in case of doubt."""
    mark = None if holder is None else _MARK.search(holder)
    if mark is None or mark[3] != _process_namespace():
        return Fate.UNKNOWN
    number, begun = int(mark[1]), int(mark[2])
    try:
        # Signal 0 checks for the process and sends nothing; the check is in this process's own
        # namespace, whatever is mounted at /proc.
        os.kill(number, 0)
    except ProcessLookupError:
        return Fate.GONE
    except PermissionError:
        # The process belongs to another user; /proc may still show its state.
        pass
    seen = _process_state(number)
    if seen is None:
        return Fate.UNKNOWN
    state, began = seen
    if began != begun:
        return Fate.GONE
    return Fate.GONE if state in _DEAD and _is_alone(number) else Fate.LIVES


def _process_namespace() -> str | None:
    """Return a digest of the namespaces that make process numbers comparable, or None."""
    try:
        if str((_PROC / "self").readlink()) != str(os.getpid()):
            # The mounted /proc belongs to another process namespace.
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
    """Return the state and the start ticks of a process, or None if they cannot be read."""
    try:
        # The process name is in parentheses and may contain any character.
        fields = (_PROC / str(number) / "stat").read_text("utf-8", "replace").rpartition(")")[2]
        told = fields.split()
        return told[_STATE], int(told[_BEGUN])
    except (OSError, ValueError, IndexError):
        return None


def _is_alone(number: int) -> bool:
    """Return whether only one thread is left; the main thread may die before the others."""
    try:
        return [one.name for one in (_PROC / str(number) / "task").iterdir()] == [str(number)]
    except OSError:
        return False
