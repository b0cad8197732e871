"""Trace spans of the daemon's steps and their parts, if an exporter is set.

Nothing is recorded without an exporter (`[tracing]` is off). A tick without work is discarded,
because there are many per second. The exporter is in `trace_export.py`.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracle.telemetry.safe_text import without_secrets

# Values worth searching for: block numbers, hashes, nonces; nothing of keys.
Ids = Mapping[str, object]


@dataclass(slots=True)
class TraceSpan:
    """One timed piece of work, in nanoseconds of the wall clock; `parent` is None at the top.

    `error`: the exception that ended it, without secrets. `is_idle`: there was no work, so it is
    discarded with all its parts.
    """

    name: str
    parent: "TraceSpan | None"
    ids: dict[str, object]
    began_ns: int = field(default_factory=time.time_ns)
    ended_ns: int = 0
    fault: str | None = None
    is_idle: bool = False

    def did(self, facts: Ids | None) -> None:
        """Record the result's attributes; None means that there was no work."""
        self.is_idle = facts is None
        self.ids.update(facts or {})


Exporter = Callable[[Sequence[TraceSpan]], None]


class _Open(threading.local):
    """Spans of one thread: those still open, outermost first, and all of the current trace."""

    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []
        self.ended: list[TraceSpan] = []


class _Tracing:
    """The exporter, which gets a whole trace at a time, and the spans in progress."""

    def __init__(self) -> None:
        self.exporter: Exporter | None = None
        self.open = _Open()


_tracing = _Tracing()


def export_to(exporter: Exporter | None) -> None:
    """Set the exporter of spans; None records none."""
    _tracing.exporter = exporter


@contextmanager
def span(name: str, **ids: object) -> Iterator[TraceSpan]:
    """Time a piece of work; spans started within it, in the same thread, are its children."""
    if _tracing.exporter is None:
        yield TraceSpan(name, None, ids, 0)
        return
    now = _tracing.open
    one = TraceSpan(name, now.spans[-1] if now.spans else None, ids)
    now.spans.append(one)
    now.ended.append(one)
    try:
        yield one
    except BaseException as error:
        one.fault = without_secrets(f"{type(error).__name__}: {error}")
        raise
    finally:
        one.ended_ns = time.time_ns()
        now.spans.pop()
        if not now.spans:
            _give(now)


def _give(now: _Open) -> None:
    """Export the finished trace, unless it was idle."""
    whole, now.ended = now.ended, []
    exporter = _tracing.exporter
    if exporter is not None and not (whole[0].is_idle and whole[0].fault is None):
        exporter(whole)
