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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.gateway_client import CHAIN, NODES, Served, served  # noqa: E402
from benchmarks.plain_gateway import PlainSelector  # noqa: E402
from gateway.gateway_records import ReportedOutcome  # noqa: E402
from gateway.gateway_rules import GatewayRules  # noqa: E402
from gateway.session_selector import SelectionRequest, SessionSelector  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome  # noqa: E402

SELECTIONS, OUTCOMES, REQUESTS, P99_MS = 100_000, 300_000, 3_000, 10.0
# The exit code of a run that succeeded but missed its target.
MISSED = 3
BATCH_MS, RELAYS = 100, 250
T0 = 1_700_000_000_000
# The plain way is slow, so its share of the work is smaller by this divisor.
PLAIN_SHARE = 25


class Rates(NamedTuple):
    """Selections and outcomes per second."""

    selections: float
    outcomes: float


def relays(seconds: int) -> list[list[ReportedOutcome]]:
    """Return the outcomes of each tenth of a second; latencies are about 50 to 350 ms."""
    chance = Random(1)  # noqa: S311 - repeatable, no secret
    speed = {node: chance.uniform(50, 350) for node in NODES}
    batches = []
    for number in range(seconds * 1000 // BATCH_MS):
        begin = T0 + number * BATCH_MS
        times = sorted(begin + chance.randrange(BATCH_MS) for _ in range(RELAYS))
        batches.append([outcome(chance, speed, t) for t in times])
    return batches


def outcome(chance: Random, speed: dict[str, float], t: int) -> ReportedOutcome:
    node = chance.choice(NODES)
    is_well = chance.random() > 0.001
    kind = OutcomeKind.OK if is_well else OutcomeKind.TIMEOUT
    latency = round(speed[node] * chance.uniform(0.8, 1.4), 1) if is_well else 0.0
    return ReportedOutcome(RelayOutcome(Address(node), CHAIN, t, kind, latency), "s")


def in_process(
    batches: list[list[ReportedOutcome]], ranking_ms: int
) -> tuple[Rates, SessionSelector]:
    selector = SessionSelector(GatewayRules(ranking_ms=ranking_ms))
    request = SelectionRequest(CHAIN, "s", tuple(NODES))
    telling = selecting = 0.0
    for batch in batches:
        now = batch[-1].outcome.t_ms
        begun = time.process_time()
        selector.add_outcomes(batch, now)
        began = time.process_time()
        for report in batch:
            selector.select_nodes(request, report.outcome.t_ms + BATCH_MS)
        telling += began - begun
        selecting += time.process_time() - began
    many = len(batches) * RELAYS
    return Rates(many / selecting, many / telling), selector


def plainly(batches: list[list[ReportedOutcome]]) -> tuple[Rates, PlainSelector]:
    """Measure the plain selector on the last relays, while its lists hold all outcomes."""
    selector = PlainSelector()
    warm = [report.outcome for batch in batches for report in batch]
    for report in warm:
        every = selector.outcomes.setdefault(report.node, [])
        every.append((report.t_ms, seconds_of(report)))
    measured = warm[-max(200, len(warm) // PLAIN_SHARE // 20) :]
    for report in measured:
        selector.outcomes[report.node].pop()
    begun = time.process_time()
    for report in measured:
        selector.take(report.node, report.t_ms, seconds_of(report))
    began = time.process_time()
    for report in measured:
        selector.select(NODES, report.t_ms)
    selecting = time.process_time() - began
    return Rates(len(measured) / selecting, len(measured) / (began - begun)), selector


def seconds_of(outcome: RelayOutcome) -> float | None:
    return outcome.latency_ms / 1000 if outcome.kind is OutcomeKind.OK else None


def check(selector: SessionSelector, plain: PlainSelector, now: int) -> None:
    """Assert that both selectors compute the same tickets.

    The plain selector does not exclude failing nodes.
    """
    ranking = selector.get_ranking(SelectionRequest(CHAIN, "checked", tuple(NODES)), now)
    plain_tickets = plain.tickets(NODES, now)
    for row in ranking.ranking.rows:
        assert row.tickets == plain_tickets[row.node] or row.stats.failing, row


def over_http(seconds: float, *, ours: bool) -> Served:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if not ours:
        command = [sys.executable, str(ROOT / "benchmarks" / "plain_gateway.py"), str(port)]
        return served(command, port, seconds)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "gateway.toml"
        config.write_text(
            f"[gateway]\nport = {port}\nrequests_per_second = 1000000\n"
            f'[database]\nurl = "sqlite:///{folder}/gateway.sqlite"\n'
        )
        command = [sys.executable, "-m", "oracle", "gateway", "--config", str(config)]
        return served(command, port, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    batches = relays(seconds)
    gc.collect()
    gc.freeze()
    quick, selector = in_process(batches, 100)
    anew, _ = in_process(batches[: max(1, len(batches) // PLAIN_SHARE)], 0)
    plain, plain_selector = plainly(batches)
    check(selector, plain_selector, batches[-1][-1].outcome.t_ms)
    gc.unfreeze()
    http = over_http(min(10.0, seconds / 3), ours=True)
    plain_http = over_http(min(10.0, seconds / 3), ours=False)
    table = Table(title=f"24 nodes, {len(batches) * RELAYS:,} relays")
    for name in ("per second", "qos-oracle", "plain", "ratio", "target"):
        table.add_column(name, justify="left" if name == "per second" else "right")
    rows = (
        ("selections in process", quick.selections, plain.selections, SELECTIONS),
        ("selections, ranked each time", anew.selections, plain.selections, 0),
        ("outcomes in process", quick.outcomes, plain.outcomes, OUTCOMES),
        ("requests over HTTP", http.rate, plain_http.rate, REQUESTS),
        ("requests per CPU second of the service", http.alone, plain_http.alone, 0),
    )
    for name, we, they, target in rows:
        target_text = f"{target:,}" if target else ""
        table.add_row(name, f"{we:,.0f}", f"{they:,.0f}", f"{we / they:,.1f}", target_text)
    table.add_row(
        "99th percentile, ms", f"{http.p99:.1f}", f"{plain_http.p99:.1f}",
        f"{plain_http.p99 / http.p99:.1f}", f"{P99_MS:.0f}",
    )  # fmt: skip
    out = Console()
    out.print(table)
    is_reached = all(we >= target for _, we, _, target in rows) and http.p99 <= P99_MS
    out.print(f"targets (for a machine that runs nothing else): "
              f"{'reached' if is_reached else 'MISSED'}")  # fmt: skip
    return 0 if is_reached else MISSED


if __name__ == "__main__":
    sys.exit(main())
