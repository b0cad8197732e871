"""The traces of a run on a real chain, from a block to a report on chain,
as a collector gets them.
"""

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from oracle.cli.main import run
from oracle.telemetry.trace_export import export_spans_to_processor
from tests.support.cli.local_network import run_local_network, write_config
from tests.support.leaks import watch

pytestmark = [pytest.mark.evm, pytest.mark.slow]

# Anvil ignores the token.
TOKEN = "a-token-that-nobody-sees"  # noqa: S105 - a test's own


@pytest.fixture(scope="module")
def traced(tmp_path_factory) -> dict[str, list[ReadableSpan]]:
    """Return the spans of two runs by name: a report is sent in the first,
    and lands in the second.
    """
    folder = tmp_path_factory.mktemp("traced")
    exporter = InMemorySpanExporter()
    with run_local_network(folder) as network:
        network.play(3)
        settings = network.settings(folder)
        settings["chain"]["endpoints"] = [network.url.replace("://", f"://user:{TOKEN}@")]
        path = write_config(settings, folder / "config.toml")
        with export_spans_to_processor(SimpleSpanProcessor(exporter)):
            assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
            network.mine(1)
            assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
    spans_by_name: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        spans_by_name.setdefault(span.name, []).append(span)
    return spans_by_name


def of(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_every_block_is_traced_from_fetch_to_commit(traced):
    (commit, *_) = traced["commit"]
    first = of(commit)["qos.first"]
    last = of(commit)["qos.last"]
    for name in ("fetch", "verify"):
        windows = [(of(span)["qos.first"], of(span)["qos.last"]) for span in traced[name]]
        assert (first, last) in windows
    folded = {span.parent.span_id for span in traced["fold"] if span.parent is not None}
    assert commit.context.span_id in folded
    hashes = [of(span)["qos.last_hash"] for span in traced["verify"]]
    assert of(commit)["qos.last_hash"] in hashes


def test_report_is_traced_from_creation_to_its_mined_transaction(traced):
    (report, *_) = traced["report"]
    assert of(report)["qos.round"] == 1
    (send, *_) = traced["send"]
    sent = of(send)["qos.transactions"]
    landed = [of(span) for span in traced["confirm"] if of(span).get("qos.did") == "mined"]
    assert sent in [attributes["qos.transactions"] for attributes in landed]
    assert {attributes["qos.nonces"] for attributes in landed} >= {of(send)["qos.nonces"]}


def test_traces_contain_no_secret(traced):
    """`leaks` knows the secrets, and fails a test that shows one."""
    spans_json = "\n".join(span.to_json() for spans in traced.values() for span in spans)
    watch.record_text("a trace", spans_json)
    assert TOKEN not in spans_json


@pytest.mark.nightly
def test_tracing_sdk_is_not_imported_unless_tracing_is_enabled():
    script = (
        "import sys; import oracle.cli.run_commands; "
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
