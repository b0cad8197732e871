"""`halt list`, `halt clear`, and the output of `status` and `/readyz` during a halt."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from oracle.chain.heads import Heads
from oracle.cli.main import run
from oracle.daemon.daemon_health import READY_WITHIN_SECONDS, DaemonHealth
from oracle.daemon.lease_keeper import hold_lease
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web.health_app import create_health_app
from oracle.domain.blocks import BlockRef
from oracle.domain.health import Severity
from oracle.domain.ids import Hash
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION
from oracle.queries.endpoint_view import EndpointView
from oracle.store.database import Store
from oracle.store.halts import HaltEvidence
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command

STORED_HASH = Hash("0x" + "0a" * 32)
CHAIN_HASH = Hash("0x" + "0b" * 32)
HEAD = BlockRef(30, Hash("0x" + "1e" * 32), Hash("0x" + "1d" * 32), 1_000)


@pytest.fixture
def halted(offline_settings, tmp_path: Path, sqlite_url: str) -> Path:
    """Return the configuration of a database that is halted."""
    offline_settings["database"]["url"] = sqlite_url
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        evidence = HaltEvidence(22, STORED_HASH, CHAIN_HASH)
        uow.halts.open_halt(
            FINALITY_VIOLATION,
            "block 22 is another one",
            evidence,
            since_block=30,
            since_time=1_000,
        )
    return write_config(offline_settings, tmp_path / "config.toml")


def run_json(capsys, *arguments: object):
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_halt_list_shows_block_and_both_hashes(halted: Path, capsys):
    (halt,) = run_json(capsys, "halt", "list", "--config", halted)

    assert halt["active"]
    assert (halt["block"], halt["our_hash"], halt["their_hash"]) == (22, STORED_HASH, CHAIN_HASH)


def test_cleared_halt_records_operator_and_reason(halted: Path, capsys):
    answer = run_json(capsys, "halt", "clear", "--reason", "ticket 12", "--config", halted)

    assert answer == {"halt": FINALITY_VIOLATION, "cleared": True, "reason": "ticket 12"}
    (halt,) = run_json(capsys, "halt", "list", "--config", halted)
    assert not halt["active"]
    assert halt["cleared_reason"] == "ticket 12"
    assert "operator" in halt["cleared_by"]
    line = run_refused_command(capsys, "halt", "clear", "--reason", "again", "--config", halted)
    assert "--name finality_violation: this halt is not active" in line


@pytest.mark.parametrize("reason", ["", "  "])
def test_halt_is_not_cleared_without_reason(halted: Path, capsys, reason: str):
    line = run_refused_command(capsys, "halt", "clear", "--reason", reason, "--config", halted)

    assert "--reason: must not be empty" in line
    (halt,) = run_json(capsys, "halt", "list", "--config", halted)
    assert halt["active"]


@pytest.mark.slow
def test_dry_run_does_not_clear_a_halt(halted: Path, capsys):
    arguments = ["halt", "clear", "--reason", "x", "--dry-run", "--config", str(halted)]
    assert run(arguments) == 0

    assert "would be cleared" in capsys.readouterr().out
    (halt,) = run_json(capsys, "halt", "list", "--config", halted)
    assert halt["active"]


@pytest.mark.slow
def test_halt_is_not_cleared_while_daemon_holds_lease(halted: Path, sqlite_url: str, capsys):
    with Store.open(sqlite_url) as store, hold_lease(store, "a daemon"):
        line = run_refused_command(
            capsys, "halt", "clear", "--reason", "x", "--config", halted, code=1
        )

    assert "a daemon" in line


def test_status_shows_an_active_halt_first(halted: Path, capsys):
    assert run(["status", "--config", str(halted)]) == Severity.DOWN

    health, first, *_ = capsys.readouterr().out.splitlines()
    assert health.startswith("health        down: HALTED")
    assert first.startswith("HALTED")
    assert "block 22 is another one" in first


@pytest.mark.slow
def test_empty_halt_list_is_reported(offline_settings, sqlite_url: str, tmp_path: Path, capsys):
    offline_settings["database"]["url"] = sqlite_url
    path = write_config(offline_settings, tmp_path / "config.toml")

    assert run(["halt", "list", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "no halts recorded\n"


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def reasons(store: Store, watch: DaemonHealth) -> list[str]:
    """Return the reasons of a 503 of `/readyz`."""
    answer = TestClient(create_health_app(watch, lambda: store)).get("/readyz")
    reason_texts = answer.json()["reasons"]
    assert answer.status_code == (503 if reason_texts else 200)
    assert isinstance(reason_texts, list)
    return reason_texts


def test_readyz_reports_why_indexing_is_blocked(sqlite_url: str):
    clock = Clock()
    with Store.open(sqlite_url) as store:
        watch = DaemonHealth(JobLiveness(clock))
        heads = Heads(HEAD, None, HEAD)
        watch.record_folded_block(HEAD)
        watch.record_heads(heads)
        assert reasons(store, watch) == []

        watch.halt_reason = "halt finality_violation: block 22 is another one"
        assert reasons(store, watch) == [f"HALTED: {watch.halt_reason}"]
        watch.halt_reason, watch.is_fork_in_doubt = None, True
        assert reasons(store, watch)[0].startswith("FORK-IN-DOUBT: a single endpoint")
        watch.is_fork_in_doubt, watch.dispute = False, "A said that block 30 left, which B denies"
        (reason,) = reasons(store, watch)
        assert reason.startswith("ENDPOINTS-DISAGREE: A said that block 30 left, which B")
        watch.dispute = None
        watch.record_heads(replace(heads, stalled=True))
        assert reasons(store, watch) == ["STALLED: no endpoint shows a new block"]

        watch.record_heads(heads)
        clock.now += READY_WITHIN_SECONDS + 1
        # A repeated check of the same block is not newer.
        watch.record_heads(heads)
        pause = "throttled: it requested a pause of 3600 s"
        watch.endpoints = [
            EndpointView(endpoint="http://a", head=HEAD.number, lag_blocks=0, state=pause),
            EndpointView(endpoint="http://b", head=1000, lag_blocks=0, state="ok"),
        ]
        assert reasons(store, watch)[0].startswith(
            f"NO-ENDPOINT: no endpoint has shown the head for 61 s; http://a: {pause}"
        )
        watch.record_heads(replace(heads, latest=HEAD._replace(number=1000)))
        assert reasons(store, watch)[0].endswith(
            f"; http://b shows block 1000, but the newest known block of http://a is {HEAD.number}"
        )
        watch.endpoints.append(
            EndpointView(endpoint="http://c", head=1001, lag_blocks=0, state="ok")
        )
        assert reasons(store, watch)[0].endswith(
            "; http://b shows block 1000, http://c shows block 1001, but the newest known block "
            f"of http://a is {HEAD.number}"
        )
