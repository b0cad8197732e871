"""The table of docs/explanation/incidents.md contains what the detector finds in the traffic."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.domain.incidents import Incident
from tests.support.task_traffic import (
    BEGIN,
    Attempt,
    Failure,
    TaskEnd,
    Traffic,
    never_fails,
)
from tests.unit.domain.incidents.traffic_incidents import detect_incidents, is_marked

_PAGE = Path(__file__).parents[4] / "docs/explanation/incidents.md"


def burst(attempt: Attempt) -> bool:
    return attempt.application == 3 and 6_000 <= attempt.seconds < 8_400


def outage(attempt: Attempt) -> bool:
    return 12_000 <= attempt.seconds < 12_300 and attempt.chance < 0.7


def take_site_down(node_count: int) -> Failure:
    """Return a failure of this number of nodes at one site, for 15 minutes."""
    first_node = Traffic().nodes - node_count
    return lambda attempt: attempt.node >= first_node and 6_000 <= attempt.seconds < 6_900


Run = tuple[list[Incident], list[TaskEnd]]


def run(failure: Failure, traffic: Traffic | None = None, *, runs: int = 2) -> list[Run]:
    return [detect_incidents(seed, failure, traffic or Traffic()) for seed in range(1, runs + 1)]


def format_run_row(name: str, runs: list[Run]) -> str:
    """Return the table row of runs whose timeouts have a special cause."""
    caused, marked, delays = [], [], []
    for incidents, timeouts in runs:
        caused_timeouts = [end for end in timeouts if end.is_caused]
        caused.append(str(len(caused_timeouts)))
        marked.append(str(sum(is_marked(incidents, end) for end in caused_timeouts)))
        first_time = BEGIN + min(end.seconds for end in caused_timeouts)
        delays += [f"{incident.found_time - first_time} s" for incident in incidents]
    return f"| {name} | {', '.join(caused)} | {', '.join(marked)} | {', '.join(delays) or '-'} |"


def format_site_row(node_count: int) -> str:
    """Return the table row of the nodes of one site that are down."""
    runs = run(take_site_down(node_count), runs=8)
    caused = sum(end.is_caused for _, timeouts in runs for end in timeouts)
    marked = [sum(is_marked(incidents, end) for end in timeouts) for incidents, timeouts in runs]
    marked_text = f"{sum(marked)}, in {sum(map(bool, marked))} runs" if any(marked) else "0"
    return (
        f"| {node_count} nodes of one site are down for 15 minutes, {len(runs)} runs "
        f"| {caused} | {marked_text} | - |"
    )


def format_calm_row(name: str, runs: list[Run]) -> str:
    """Return the table row of runs in which no timeout has a special cause."""
    marked = [sum(is_marked(incidents, end) for end in timeouts) for incidents, timeouts in runs]
    total = sum(len(timeouts) for _, timeouts in runs)
    return f"| {name}, {len(runs)} runs with {total:,} timeouts | 0 | {sum(marked)} | - |"


def list_rows() -> Iterator[str]:
    bursts = run(burst)
    outages = run(outage)
    yield format_run_row("one application fails for 40 minutes, 2 runs", bursts)
    yield format_run_row("an outage of 5 minutes, 7 of 10 tasks fail, 2 runs", outages)
    yield from map(format_site_row, (10, 15, 20, 30))
    yield format_calm_row("calm", run(never_fails, runs=4))
    yield format_calm_row(
        "12 sick nodes with 30 % timeouts", run(never_fails, Traffic(sick_nodes=12), runs=4)
    )
    yield format_calm_row("usual rate of 5 %", run(never_fails, Traffic(failures=50)))
    honest_marked = [
        str(sum(is_marked(incidents, end) for end in timeouts if not end.is_caused))
        for incidents, timeouts in [*bursts, *outages]
    ]
    yield (
        "Timeouts of other causes during an incident are marked too: "
        f"{' and '.join(honest_marked[:2])} in the bursts, {' and '.join(honest_marked[2:])} in "
        "the outages."
    )


# Thirty simulated runs. CI tests the detector itself (test_incident_detector.py).
@pytest.mark.slow
@pytest.mark.nightly
def test_measured_incidents_match_the_documented_table():
    page = " ".join(_PAGE.read_text().split("\n"))
    missing_rows = [row for row in list_rows() if row not in page]
    assert not missing_rows, f"{_PAGE.name} lacks:\n" + "\n".join(missing_rows)
