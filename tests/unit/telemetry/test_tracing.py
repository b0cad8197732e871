"""Spans: complete, in order, and without secrets."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from oracle.daemon.scheduler import Job, run_measured_tick
from oracle.telemetry.metrics import render_metrics
from oracle.telemetry.safe_text import REDACTED, register_secret
from oracle.telemetry.trace_export import export_spans_to_processor
from oracle.telemetry.tracing import start_span

TOKEN = "a-token-that-nobody-sees"  # noqa: S105 - a test's own


@pytest.fixture
def taken() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    with export_spans_to_processor(SimpleSpanProcessor(exporter)):
        yield exporter


def test_nested_spans_share_trace(taken):
    with start_span("index step"):
        with start_span("fetch", first=1, last=9):
            pass
        with start_span("commit"), start_span("fold"):
            pass
    span_by_name = {span.name: span for span in taken.get_finished_spans()}
    step = span_by_name["index step"]
    assert step.parent is None
    assert {span.context.trace_id for span in span_by_name.values()} == {step.context.trace_id}
    assert span_by_name["fetch"].parent.span_id == step.context.span_id
    assert span_by_name["fold"].parent.span_id == span_by_name["commit"].context.span_id
    assert dict(span_by_name["fetch"].attributes) == {"qos.first": 1, "qos.last": 9}
    assert step.start_time <= span_by_name["fetch"].start_time <= span_by_name["fetch"].end_time


def test_span_of_an_idle_job_is_dropped_with_its_children(taken):
    with start_span("publish step") as step:
        with start_span("report"):
            pass
        step.record_result(None)
    assert taken.get_finished_spans() == ()


def test_failed_span_has_redacted_error_status(taken):
    register_secret(TOKEN)
    with pytest.raises(ValueError, match="no answer"), start_span("index step"):
        raise ValueError(f"no answer of https://rpc.example.org/{TOKEN} to {TOKEN}")
    (span,) = taken.get_finished_spans()
    description = f"ValueError: no answer of https://rpc.example.org to {REDACTED}"
    assert (span.status.is_ok, span.status.description) == (False, description)
    assert span.events == ()


def test_span_attributes_are_redacted(taken):
    register_secret(TOKEN)
    with start_span("send", endpoint=f"https://user:{TOKEN}@rpc.example.org/v3", key=[TOKEN]):
        pass
    (span,) = taken.get_finished_spans()
    assert dict(span.attributes) == {
        "qos.endpoint": "https://rpc.example.org",
        "qos.key": f"['{REDACTED}']",
    }


def test_oversized_number_is_exported_as_text(taken):
    with start_span("send", fee=2**200, nonce=7):
        pass
    (span,) = taken.get_finished_spans()
    assert dict(span.attributes) == {"qos.fee": str(2**200), "qos.nonce": 7}


def test_metric_exemplar_links_to_the_trace_of_the_tick(taken):
    """The exemplar of the metric is the exported trace; an idle tick has none."""
    job = Job("exemplar", 1.0, lambda: {"blocks": 1})
    idle_job = Job("exemplar_of_nothing", 1.0, lambda: None)
    for each_job in (job, idle_job):
        run_measured_tick(each_job)
    body, media_type = render_metrics("application/openmetrics-text; version=1.0.0")
    (span,) = taken.get_finished_spans()
    exemplars = {
        sample.labels["step"]: sample.exemplar.labels
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if family.name == "oracle_step_seconds" and sample.exemplar is not None
    }
    assert media_type.startswith("application/openmetrics-text")
    assert exemplars["exemplar"] == {"trace_id": f"{span.context.trace_id:032x}"}
    assert "exemplar_of_nothing" not in exemplars


def test_metric_of_a_failed_tick_has_an_exemplar(taken):
    def fail() -> None:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        run_measured_tick(Job("failing_exemplar", 1.0, fail))
    (span,) = taken.get_finished_spans()
    assert span.name == "failing_exemplar step"
    body, _ = render_metrics("application/openmetrics-text")
    assert f"{span.context.trace_id:032x}" in body.decode()
