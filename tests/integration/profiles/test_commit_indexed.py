"""A network with commit and disclosure under the legacy rules: the daemon's data equal the
ledger.

The driver keeps the ledger; the daemon sees the chain only through JSON-RPC. Compared are every
event, every run of every task, every node's membership, every score, and everything derived.
"""

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from tests.integration.profiles.commit_daemon import CommitDaemon, Row
from tests.integration.profiles.commit_ledger import At, Job, Ledger, Line, Member, Part, key
from tests.integration.profiles.commit_network import CommitNetwork, a_commit_network
from tests.integration.profiles.commit_reference import reference_of
from tests.integration.profiles.commit_walk import Walk

pytestmark = [pytest.mark.slow, pytest.mark.evm]

# The requests of a node are only in calls; no event shows their effect.
REQUESTED_CHANGES = {"node_pause_asked", "node_quit_asked"}
DONE = {"node_paused", "node_quit"}
KINDS = ["succeeded", "invalidated", "aborted", "timed_out"]


@pytest.fixture(scope="module")
def deployed() -> Iterator[CommitNetwork]:
    with a_commit_network() as network:
        yield network


@pytest.fixture
def network(deployed: CommitNetwork) -> Iterator[CommitNetwork]:
    with deployed.chain.undone():
        yield CommitNetwork(deployed.chain, deployed.node, deployed.task)


@pytest.fixture
def daemon(
    network: CommitNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> CommitDaemon:
    return CommitDaemon(network, tmp_path, capsys)


def list_ledger_events(ledger: Ledger) -> list[Line]:
    """Return the events without the log index,
    because only its order within a transaction is defined.
    """
    return [
        {name: value for name, value in line.items() if name != "log"}
        for line in ledger.lines
        if line["type"] not in DONE
    ]


def list_indexed_events(daemon: CommitDaemon) -> list[Row]:
    return [
        {"tx": 0, **{name: value for name, value in row.items() if name not in {"log", "sub"}}}
        for row in daemon.events()
        if row["type"] not in REQUESTED_CHANGES
    ]


def list_ledger_parts(job: Job) -> list[list[object]]:
    return [[p.round, p.node, *map(_place, _answers(job, p)), p.ending] for p in job.parts]


def _answers(job: Job, part: Part) -> list[At | None]:
    return [part.started, part.committed, part.disclosed, part.reported]


def _place(at: At | None) -> list[int] | None:
    return None if at is None else [at.block, at.tx]


def list_indexed_parts(row: Row) -> list[list[object]]:
    """Return the runs without the log index, because calls have none."""
    return [
        [number, node, *(at and at[:2] for at in (start, *answers)), ending]
        for number, node, start, _, *answers, ending in json.loads(row["runs"] or "[]")
    ]


def stats_of(member: Member) -> tuple[str, bool, str | None, bool]:
    """Return membership, pause, pending request, and whether a task runs."""
    membership = "member" if member.is_in else member.status
    request = {"paused": "pause", "quit": "quit", None: None}[member.request]
    return membership, member.status == "paused", request, member.job is not None


def assert_true(daemon: CommitDaemon) -> None:
    """Compare all data of the daemon with the ledger."""
    ledger = daemon.network.ledger
    assert daemon.rows("anomaly") == []
    assert daemon.rows("dead_letter") == []
    assert list_indexed_events(daemon) == list_ledger_events(ledger)

    tasks = {f"0x{row['key'].hex()}": row for row in daemon.rows("task")}
    assert tasks.keys() == {key(job) for job in ledger.jobs.values()}
    for job in ledger.jobs.values():
        assert list_indexed_parts(tasks[key(job)]) == list_ledger_parts(job)
        assert tasks[key(job)]["ending"] == job.ending

    nodes = {f"0x{row['address'].hex()}": row for row in daemon.rows("node")}
    stats_by_node = {
        name: (row["membership"], bool(row["paused"]), row["pending"], row["running"] > 0)
        for name, row in nodes.items()
    }
    assert stats_by_node == {name: stats_of(member) for name, member in ledger.members.items()}
    assert_scored(daemon)


def assert_scored(daemon: CommitDaemon) -> None:
    reference = reference_of(daemon.network.ledger.lines)
    scored = {
        (task["task"], row["node"], row["score"])
        for task in reference.shown_tasks()
        if task["scored"]
        for row in task["nodes"]
    }
    rows = daemon.rows("score")
    assert {(f"0x{r['task'].hex()}", f"0x{r['node'].hex()}", r["score"]) for r in rows} == scored
    assert len(rows) == len(scored)
    expected_rows = reference.shown_nodes(daemon.network.chain.time)
    for row in json.loads(daemon.read_output("nodes", "--json"))["nodes"]:
        expected = expected_rows[row["node"]]
        legacy = row["legacy"]
        # A non-member is not compared with other nodes.
        assert (legacy["Q"] is None) is (expected["Q"] is None)
        if legacy["Q"] is not None:
            assert {name: legacy[name] for name in expected.keys() & legacy.keys()} == {
                name: expected[name] for name in expected.keys() & legacy.keys()
            }
        assert row["kickout_due"] == expected["kickout_due"]
        assert row["qos"] == expected["Q"]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_indexed_state_matches_the_network_after_each_catch_up(
    network: CommitNetwork, daemon: CommitDaemon, seed: int
):
    walk = Walk(network, seed)
    for _ in range(3):
        walk.blocks(40)
        daemon.catch_up()
        assert_true(daemon)

    ledger = network.ledger
    endings = Counter(part.ending for job in ledger.jobs.values() for part in job.parts)
    assert all(endings[kind] >= 3 for kind in KINDS)
    event_counts = Counter(line["type"] for line in ledger.lines)
    assert all(
        event_counts[kind]
        for kind in ("node_paused", "node_quit", "node_slashed", "task_validated")
    )


def test_reorged_blocks_leave_no_trace_in_the_state(network: CommitNetwork, daemon: CommitDaemon):
    walk = Walk(network, 4)
    walk.blocks(40)
    daemon.catch_up()
    before = network.chain.rpc("evm_snapshot")
    ledger_before = deepcopy(network.ledger)
    # Fewer blocks than are final.
    walk.blocks(3)
    daemon.catch_up()
    gone = len(list_ledger_events(network.ledger)) - len(list_ledger_events(ledger_before))
    assert gone > 0

    network.chain.rpc("evm_revert", before)
    fork = CommitNetwork(network.chain, network.node, network.task, ledger_before)
    daemon.network = fork
    fork_walk = Walk(fork, 5)
    fork_walk.sealed = walk.sealed
    fork_walk.blocks(20)
    daemon.catch_up()

    assert_true(daemon)
    orphans = [row for row in daemon.rows("call") if not row["canonical"]]
    assert orphans


def test_rebuild_from_raw_rows_produces_the_same_state(
    network: CommitNetwork, daemon: CommitDaemon
):
    Walk(network, 6).blocks(60)
    daemon.catch_up()
    tables = ("task", "node", "score", "anomaly")
    before = [daemon.rows(table) for table in tables]

    rebuild_report = json.loads(daemon.read_output("resync", "rebuild", "--json"))

    assert rebuild_report["same_state"] is True
    assert [daemon.rows(table) for table in tables] == before


def leave_out_calls(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Serve a block without its calls; nothing proves them here."""
    fetch_window = ChainSource.fetch_window

    def fetch_incomplete_window(source: ChainSource, *args: Any, **options: Any) -> BlockWindow:
        window = fetch_window(source, *args, **options)
        calls = [call for call in window.calls if call.block != block]
        return replace(window, calls=calls, decoded=None)

    monkeypatch.setattr(ChainSource, "fetch_window", fetch_incomplete_window)


def test_backfill_restores_omitted_calls(network: CommitNetwork, daemon: CommitDaemon):
    network.join(*network.nodes[:3])
    network.mine()
    joined = network.chain.block
    Walk(network, 6).blocks(20)
    span = ("--from", str(joined), "--to", str(network.chain.block), "--json")
    with pytest.MonkeyPatch.context() as monkeypatch:
        leave_out_calls(monkeypatch, joined)
        daemon.catch_up()
    before = daemon.rows("call"), daemon.rows("node")

    planned = json.loads(daemon.read_output("resync", "backfill", *span, "--dry-run"))
    assert (daemon.rows("call"), daemon.rows("node")) == before
    restored = json.loads(daemon.read_output("resync", "backfill", *span))

    for answer in (planned, restored):
        assert [row["block"] for row in answer["missing_calls"]] == 3 * [joined]
        assert answer["missing_logs"] == []
    assert_true(daemon)


def test_commit_profile_is_valid_with_the_legacy_rules(
    network: CommitNetwork, daemon: CommitDaemon
):
    check_report = json.loads(daemon.read_output("config", "check", "--json"))
    assert check_report["faults"] == []
    assert not [warning for warning in check_report["warnings"] if "rules.set" in warning]
