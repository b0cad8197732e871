"""Records trace spans of the daemon's steps if an exporter is set.

`[tracing]` sets the exporter, which is in `trace_export.py`. The trace of a tick without work is
discarded, because there are many such ticks per second.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import getrandbits

from oracle.telemetry.safe_text import redact_secrets

_TRACE_ID_BITS = 128
# Attributes are values worth searching for, such as block numbers, hashes and nonces. They are
# never keys.
SpanAttributes = Mapping[str, object]


@dataclass(slots=True)
class TraceSpan:
    """A timed piece of work; times are unix nanoseconds, and a root span has no `parent`.

    `trace_id` is the id under which a root span is exported, or 0 if nothing is exported. `error`
    is the exception that ended the work, without secrets. A span is idle if there was no work to
    do; an idle root span is discarded with its child spans.
    """

    name: str
    parent: "TraceSpan | None"
    attributes: dict[str, object]
    started_ns: int = field(default_factory=time.time_ns)
    ended_ns: int = 0
    error: str | None = None
    is_idle: bool = False
    trace_id: int = 0

    def build_exemplar(self) -> dict[str, str] | None:
        """Return the labels that link a metric to this trace, or None if it is discarded."""
        if self.is_idle or not self.trace_id:
            return None
        return {"trace_id": f"{self.trace_id:032x}"}

    def record_result(self, attributes: SpanAttributes | None) -> None:
        """Record attributes of the result; None means that no work was done."""
        self.is_idle = attributes is None
        self.attributes.update(attributes or {})


Exporter = Callable[[Sequence[TraceSpan]], None]


class _ThreadSpans(threading.local):
    """A thread's open spans, outermost first, and all spans of its current trace."""

    def __init__(self) -> None:
        self.open_spans: list[TraceSpan] = []
        self.recorded_spans: list[TraceSpan] = []


class _TracingState:
    """The exporter, which receives one complete trace at a time, and the open spans."""

    def __init__(self) -> None:
        self.exporter: Exporter | None = None
        self.thread_spans = _ThreadSpans()


_state = _TracingState()


def set_span_exporter(exporter: Exporter | None) -> None:
    """Set the exporter of spans; None stops the recording of spans."""
    _state.exporter = exporter


@contextmanager
def start_span(name: str, **attributes: object) -> Iterator[TraceSpan]:
    """Time a piece of work as a child of the span that is open in this thread."""
    if _state.exporter is None:
        yield TraceSpan(name, None, attributes, 0)
        return
    thread_spans = _state.thread_spans
    parent_span = thread_spans.open_spans[-1] if thread_spans.open_spans else None
    new_span = TraceSpan(name, parent_span, attributes)
    if parent_span is None:
        # An id of 0 is invalid (W3C Trace Context, section 3.2.2.3).
        new_span.trace_id = getrandbits(_TRACE_ID_BITS) or 1
    thread_spans.open_spans.append(new_span)
    thread_spans.recorded_spans.append(new_span)
    try:
        yield new_span
    except BaseException as error:
        new_span.error = redact_secrets(f"{type(error).__name__}: {error}")
        raise
    finally:
        new_span.ended_ns = time.time_ns()
        thread_spans.open_spans.pop()
        if not thread_spans.open_spans:
            _export_trace(thread_spans)


def _export_trace(thread_spans: _ThreadSpans) -> None:
    """Export the finished trace unless it was idle."""
    trace_spans, thread_spans.recorded_spans = thread_spans.recorded_spans, []
    exporter = _state.exporter
    if exporter is not None and not (trace_spans[0].is_idle and trace_spans[0].error is None):
        exporter(trace_spans)
