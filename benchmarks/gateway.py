"""Measure how fast nodes are selected for a gateway, in process and over HTTP.

Run: .venv/bin/python benchmarks/gateway.py [--seconds 60]
The baseline is the simple service of plain_gateway.py: it keeps all outcomes in lists, computes
everything again for each relay, and uses FastAPI over HTTP. Both must compute the same tickets,
which is checked. In process, a session of 24 nodes has 2,500 relays per second of relay time,
reported in batches of 100 ms; the figures are CPU time. Over HTTP, eight connections send one
request after the other, while another connection reports outcomes. Client and service share the
machine.
"""

import argparse
import gc
import socket
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.gateway_client import CHAIN, NODES, ServiceFigures, measure_service  # noqa: E402
from benchmarks.plain_gateway import PlainSelector  # noqa: E402
from gateway.gateway_records import ReportedOutcome  # noqa: E402
from gateway.gateway_rules import GatewayRules  # noqa: E402
from gateway.session_selector import SelectionRequest, SessionSelector  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome  # noqa: E402

MIN_SELECTIONS, MIN_OUTCOMES, MIN_REQUESTS, MAX_P99_MS = 100_000, 300_000, 3_000, 10.0
# Exit code of a run that succeeded but missed its target.
MISSED_EXIT_CODE = 3
BATCH_MS, RELAYS_PER_BATCH = 100, 250
START_MS = 1_700_000_000_000
# The plain selector is so slow that it processes only one relay in this many.
PLAIN_DIVISOR = 25


class Rates(NamedTuple):
    """Selections and outcomes per second."""

    selections: float
    outcomes: float


def create_outcome_batches(seconds: int) -> list[list[ReportedOutcome]]:
    """Return a batch of outcomes for each tenth of a second; latencies are about 50 to 350 ms."""
    random = Random(1)  # noqa: S311 - repeatable, no secret
    mean_latency_ms = {node: random.uniform(50, 350) for node in NODES}
    batches = []
    for number in range(seconds * 1000 // BATCH_MS):
        batch_ms = START_MS + number * BATCH_MS
        relay_times = sorted(
            batch_ms + random.randrange(BATCH_MS) for _ in range(RELAYS_PER_BATCH)
        )
        batches.append([draw_outcome(random, mean_latency_ms, time_ms) for time_ms in relay_times])
    return batches


def draw_outcome(
    random: Random, mean_latency_ms: dict[str, float], time_ms: int
) -> ReportedOutcome:
    node = random.choice(NODES)
    is_successful = random.random() > 0.001
    kind = OutcomeKind.OK if is_successful else OutcomeKind.TIMEOUT
    latency = round(mean_latency_ms[node] * random.uniform(0.8, 1.4), 1) if is_successful else 0.0
    return ReportedOutcome(RelayOutcome(Address(node), CHAIN, time_ms, kind, latency), "s")


def measure_in_process(
    batches: list[list[ReportedOutcome]], ranking_ms: int
) -> tuple[Rates, SessionSelector]:
    selector = SessionSelector(GatewayRules(ranking_ms=ranking_ms))
    request = SelectionRequest(CHAIN, "s", tuple(NODES))
    add_seconds = select_seconds = 0.0
    for batch in batches:
        batch_end_ms = batch[-1].outcome.t_ms
        add_start = time.process_time()
        selector.record_outcomes(batch, batch_end_ms)
        select_start = time.process_time()
        for report in batch:
            selector.select_nodes(request, report.outcome.t_ms + BATCH_MS)
        add_seconds += select_start - add_start
        select_seconds += time.process_time() - select_start
    relay_count = len(batches) * RELAYS_PER_BATCH
    return Rates(relay_count / select_seconds, relay_count / add_seconds), selector


def measure_plain_selector(batches: list[list[ReportedOutcome]]) -> tuple[Rates, PlainSelector]:
    """Measure the plain selector on the last relays, while its lists hold all outcomes."""
    selector = PlainSelector()
    reports = [report.outcome for batch in batches for report in batch]
    for report in reports:
        node_outcomes = selector.outcomes.setdefault(report.node, [])
        node_outcomes.append((report.t_ms, get_latency_seconds(report)))
    measured_reports = reports[-max(200, len(reports) // PLAIN_DIVISOR // 20) :]
    for report in measured_reports:
        selector.outcomes[report.node].pop()
    add_start = time.process_time()
    for report in measured_reports:
        selector.add_outcome(report.node, report.t_ms, get_latency_seconds(report))
    select_start = time.process_time()
    for report in measured_reports:
        selector.select_node(NODES, report.t_ms)
    select_seconds = time.process_time() - select_start
    return Rates(
        len(measured_reports) / select_seconds, len(measured_reports) / (select_start - add_start)
    ), selector


def get_latency_seconds(outcome: RelayOutcome) -> float | None:
    return outcome.latency_ms / 1000 if outcome.kind is OutcomeKind.OK else None


def check_same_tickets(selector: SessionSelector, plain: PlainSelector, now: int) -> None:
    """Assert that both selectors compute the same tickets.

    The plain selector does not exclude failing nodes.
    """
    ranking = selector.get_ranking(SelectionRequest(CHAIN, "checked", tuple(NODES)), now)
    plain_tickets = plain.compute_tickets(NODES, now)
    for row in ranking.ranking.rows:
        assert row.tickets == plain_tickets[row.node] or row.stats.failing, row


def measure_over_http(seconds: float, *, is_baseline: bool) -> ServiceFigures:
    with socket.create_server(("127.0.0.1", 0)) as probe_socket:
        port = probe_socket.getsockname()[1]
    if is_baseline:
        command = [sys.executable, str(ROOT / "benchmarks" / "plain_gateway.py"), str(port)]
        return measure_service(command, port, seconds)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "gateway.toml"
        config.write_text(
            f"[gateway]\nport = {port}\nrequests_per_second = 1000000\n"
            f'[database]\nurl = "sqlite:///{folder}/gateway.sqlite"\n'
        )
        command = [sys.executable, "-m", "oracle", "gateway", "--config", str(config)]
        return measure_service(command, port, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    batches = create_outcome_batches(seconds)
    gc.collect()
    gc.freeze()
    cached_rates, selector = measure_in_process(batches, 100)
    uncached_rates, _ = measure_in_process(batches[: max(1, len(batches) // PLAIN_DIVISOR)], 0)
    plain, plain_selector = measure_plain_selector(batches)
    check_same_tickets(selector, plain_selector, batches[-1][-1].outcome.t_ms)
    gc.unfreeze()
    http = measure_over_http(min(10.0, seconds / 3), is_baseline=False)
    plain_http = measure_over_http(min(10.0, seconds / 3), is_baseline=True)
    table = Table(title=f"24 nodes, {len(batches) * RELAYS_PER_BATCH:,} relays")
    for name in ("per second", "qos-oracle", "plain", "ratio", "target"):
        table.add_column(name, justify="left" if name == "per second" else "right")
    rows = (
        ("selections in process", cached_rates.selections, plain.selections, MIN_SELECTIONS),
        ("selections, ranked each time", uncached_rates.selections, plain.selections, 0),
        ("outcomes in process", cached_rates.outcomes, plain.outcomes, MIN_OUTCOMES),
        (
            "requests over HTTP",
            http.requests_per_second,
            plain_http.requests_per_second,
            MIN_REQUESTS,
        ),
        (
            "requests per CPU second of the service",
            http.requests_per_cpu_second,
            plain_http.requests_per_cpu_second,
            0,
        ),
    )
    for name, product, baseline, target in rows:
        target_text = f"{target:,}" if target else ""
        table.add_row(
            name, f"{product:,.0f}", f"{baseline:,.0f}", f"{product / baseline:,.1f}", target_text
        )
    table.add_row(
        "99th percentile, ms", f"{http.p99_ms:.1f}", f"{plain_http.p99_ms:.1f}",
        f"{plain_http.p99_ms / http.p99_ms:.1f}", f"{MAX_P99_MS:.0f}",
    )  # fmt: skip
    console = Console()
    console.print(table)
    is_reached = (
        all(product >= target for _, product, _, target in rows) and http.p99_ms <= MAX_P99_MS
    )
    console.print(f"targets (for a machine that runs nothing else): "
              f"{'reached' if is_reached else 'MISSED'}")  # fmt: skip
    return 0 if is_reached else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
