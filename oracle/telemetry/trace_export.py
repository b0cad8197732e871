"""Exports spans to an OpenTelemetry collector (the extra `otel`).

This module is imported only if `[tracing] endpoint` is set, because the packages are optional.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span as Traced, Status, StatusCode, set_span_in_context
from typing_extensions import override

from oracle import __version__
from oracle.telemetry.safe_text import redact_secrets
from oracle.telemetry.tracing import TraceSpan, set_span_exporter

_SERVICE = "qos-oracle"
_PREFIX = "qos."
# The largest signed 64-bit integer, which is the protocol's maximum.
_MAX_INTEGER = 2**63 - 1


class _RecordedTraceIds(RandomIdGenerator):
    """Assigns each exported trace its recorded id; several threads export traces."""

    def __init__(self) -> None:
        self._thread_values = threading.local()

    def set_next_trace_id(self, trace_id: int) -> None:
        """Set the trace id of the next root span that this thread exports."""
        self._thread_values.trace_id = trace_id

    @override
    def generate_trace_id(self) -> int:
        trace_id: int = self._thread_values.trace_id
        return trace_id


@contextmanager
def export_spans(endpoint: str) -> Iterator[None]:
    """Export spans to a collector (OTLP over HTTP), and send pending spans on exit."""
    with export_spans_to_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))):
        yield


@contextmanager
def export_spans_to_processor(processor: SpanProcessor) -> Iterator[None]:
    """Pass every finished span to the given span processor."""
    resource = Resource.create({"service.name": _SERVICE, "service.version": __version__})
    trace_ids = _RecordedTraceIds()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=trace_ids)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer(_SERVICE, __version__)

    def export_trace(spans: Sequence[TraceSpan]) -> None:
        otel_span_by_id: dict[int, Traced] = {}
        trace_ids.set_next_trace_id(spans[0].trace_id)
        for span in spans:
            parent = None if span.parent is None else otel_span_by_id[id(span.parent)]
            context = Context() if parent is None else set_span_in_context(parent, Context())
            otel_span_by_id[id(span)] = tracer.start_span(
                span.name, context, start_time=span.started_ns
            )
        for span in reversed(spans):
            _end_span(otel_span_by_id[id(span)], span)

    set_span_exporter(export_trace)
    try:
        yield
    finally:
        set_span_exporter(None)
        provider.shutdown()


def _end_span(otel_span: Traced, span: TraceSpan) -> None:
    for name, value in span.attributes.items():
        otel_span.set_attribute(f"{_PREFIX}{name}", _convert_to_attribute(value))
    if span.error is not None:
        otel_span.set_status(Status(StatusCode.ERROR, span.error))
    otel_span.end(span.ended_ns)


def _convert_to_attribute(value: object) -> bool | int | float | str:
    """Convert a value to a type that OTLP supports, and redact secrets."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _MAX_INTEGER else str(value)
    return redact_secrets(str(value))
