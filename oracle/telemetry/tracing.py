"""Spans of what the daemon does: its steps' turns and their parts, where somebody takes them.

Nothing is kept where nobody does (`[tracing]` is off). A turn that found nothing to do is
forgotten: there are many of those a second. Who takes them is in `trace_export.py`.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracle.telemetry.safe_text import without_secrets

# What is worth searching for: numbers of blocks, hashes, nonces; nothing of keys.
Ids = Mapping[str, object]


@dataclass(slots=True)
class TraceSpan:
    """One piece of work, in nanoseconds of the wall clock; `parent` None: it stands for itself.

    `fault`: what ended it, without secrets. `is_idle`: nothing was to be done, so it is forgotten
    with all its parts.
    """

    name: str
    parent: "TraceSpan | None"
    ids: dict[str, object]
    began_ns: int = field(default_factory=time.time_ns)
    ended_ns: int = 0
    fault: str | None = None
    is_idle: bool = False

    def did(self, facts: Ids | None) -> None:
        """Note what came of it; None: nothing was to be done."""
        self.is_idle = facts is None
        self.ids.update(facts or {})


Exporter = Callable[[Sequence[TraceSpan]], None]


class _Open(threading.local):
    """The spans of one thread: those that are open, the outermost first, and those that ended."""

    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []
        self.ended: list[TraceSpan] = []


class _Tracing:
    """Who takes spans, the whole of a piece of work at a time, each after its parent."""

    def __init__(self) -> None:
        self.exporter: Exporter | None = None
        self.open = _Open()


_tracing = _Tracing()


def export_to(exporter: Exporter | None) -> None:
    """From now on give spans to this; None: keep none."""
    _tracing.exporter = exporter


@contextmanager
def span(name: str, **ids: object) -> Iterator[TraceSpan]:
    """Time a piece of work; what is done within it, in the same thread, is part of it."""
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
    """Hand a whole piece of work on."""
    whole, now.ended = now.ended, []
    exporter = _tracing.exporter
    if exporter is not None and not (whole[0].is_idle and whole[0].fault is None):
        exporter(whole)
