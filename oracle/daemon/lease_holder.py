"""Builds the name of a process for the lease, by which others can check whether it still runs.

A process has ended if this kernel has no process with its number, or if the process with this
number started at another time. The comparison is valid only on Linux, and only if both processes
see the same process numbers (same host, boot, process namespace and time namespace). The state of
a process on another machine or in another container is unknown (decision 0132).
"""

import os
import re
import socket
from enum import Enum
from hashlib import sha256
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
# The suffix of the name contains the start of the process in clock ticks since boot, and a digest
# of the namespaces in which the process number is valid.
_HOLDER_SUFFIX = re.compile(r", process ([1-9]\d{0,8}) \(begun (\d{1,19}) at ([0-9a-f]{16})\)$")
_DIGEST_DIGITS = 16
# In /proc/PID/stat (proc(5)), the indexes of the state and the start time among the fields that
# follow the process's name.
_STATE_INDEX, _START_INDEX = 0, 19
# The states of processes that have ended and were not reaped by their parents yet.
_DEAD_STATES = {"Z", "X"}


class HolderState(Enum):
    """The state of a lease holder's process; UNKNOWN means that the process may still run."""

    ALIVE = "lives"
    GONE = "gone"
    UNKNOWN = "unknown"


def build_holder_name(command: str) -> str:
    """Return the name of this process for the lease: `run on host, process 123 (…)`."""
    name = f"{command} on {socket.gethostname()}, process {os.getpid()}"
    namespace = _read_namespace_digest()
    process_stat = _read_process_stat(os.getpid())
    if namespace is None or process_stat is None:
        return name
    return f"{name} (begun {process_stat[1]} at {namespace})"


def get_holder_state(holder: str | None) -> HolderState:
    """Return the state of the named process, or UNKNOWN if it cannot be determined."""
    suffix = None if holder is None else _HOLDER_SUFFIX.search(holder)
    if suffix is None or suffix[3] != _read_namespace_digest():
        return HolderState.UNKNOWN
    pid = int(suffix[1])
    start_ticks = int(suffix[2])
    try:
        # Signal 0 only tests whether the process exists. The test uses this process's own PID
        # namespace, even if /proc is mounted from another namespace.
        os.kill(pid, 0)
    except ProcessLookupError:
        return HolderState.GONE
    except PermissionError:
        # The process belongs to another user; /proc may still show its state.
        pass
    process_stat = _read_process_stat(pid)
    if process_stat is None:
        return HolderState.UNKNOWN
    process_state, actual_start_ticks = process_stat
    if actual_start_ticks != start_ticks:
        return HolderState.GONE
    if process_state in _DEAD_STATES and _has_single_thread(pid):
        return HolderState.GONE
    return HolderState.ALIVE


def _read_namespace_digest() -> str | None:
    """Return a digest of host, boot and namespaces, or None if they cannot be read.

    The numbers of two processes can be compared only if both have the same digest.
    """
    try:
        if str((_PROC / "self").readlink()) != str(os.getpid()):
            # The mounted /proc belongs to another process namespace.
            return None
        parts = [
            socket.gethostname(),
            _BOOT.read_text("ascii").strip(),
            *(
                str((_PROC / "self/ns" / namespace_kind).readlink())
                for namespace_kind in ("pid", "time")
            ),
        ]
    except OSError:
        return None
    return sha256("\n".join(parts).encode()).hexdigest()[:_DIGEST_DIGITS]


def _read_process_stat(pid: int) -> tuple[str, int] | None:
    """Return the state and the start ticks of a process, or None if they cannot be read."""
    try:
        # The process name is in parentheses and may contain any character.
        stat_tail = (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2]
        stat_fields = stat_tail.split()
        return stat_fields[_STATE_INDEX], int(stat_fields[_START_INDEX])
    except (OSError, ValueError, IndexError):
        return None


def _has_single_thread(pid: int) -> bool:
    """Return whether the main thread is the only thread of a process."""
    try:
        return [thread.name for thread in (_PROC / str(pid) / "task").iterdir()] == [str(pid)]
    except OSError:
        return False
