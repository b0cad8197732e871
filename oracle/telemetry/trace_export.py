"""Exports spans to an OpenTelemetry collector (the extra `otel`).

Imported only if `[tracing] endpoint` is set, because the packages are optional.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as Traced, Status, StatusCode, set_span_in_context

from oracle import __version__
from oracle.telemetry.safe_text import without_secrets
from oracle.telemetry.tracing import TraceSpan, export_to

_SERVICE = "qos-oracle"
_PREFIX = "qos."
# Signed 64 bits: the range of integers in the protocol.
_LARGEST = 2**63 - 1


@contextmanager
def exporting(endpoint: str) -> Iterator[None]:
    """Export spans to a collector (OTLP over HTTP); pending ones are sent at the end."""
    with exporting_by(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))):
        yield


@contextmanager
def exporting_by(processor: SpanProcessor) -> Iterator[None]:
    """Pass every span to this processor."""
    resource = Resource.create({"service.name": _SERVICE, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer(_SERVICE, __version__)

    def export(spans: Sequence[TraceSpan]) -> None:
        made: dict[int, Traced] = {}
        for one in spans:
            parent = None if one.parent is None else made[id(one.parent)]
            context = Context() if parent is None else set_span_in_context(parent, Context())
            made[id(one)] = tracer.start_span(one.name, context, start_time=one.began_ns)
        for one in reversed(spans):
            _end(made[id(one)], one)

    export_to(export)
    try:
        yield
    finally:
        export_to(None)
        provider.shutdown()


def _end(traced: Traced, one: TraceSpan) -> None:
    for name, value in one.ids.items():
        traced.set_attribute(f"{_PREFIX}{name}", _shown(value))
    if one.fault is not None:
        traced.set_status(Status(StatusCode.ERROR, one.fault))
    traced.end(one.ended_ns)


def _shown(value: object) -> bool | int | float | str:
    """Return a value as the protocol supports it, with secrets redacted."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST else str(value)
    return without_secrets(str(value))
