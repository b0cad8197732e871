"""`latch list`, `latch clear`, and what `status` and `/readyz` say while a latch is closed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from oracle.chain.heads import Heads
from oracle.cli.main import run
from oracle.daemon.daemon_health import READY_WITHIN_SECONDS, DaemonHealth
from oracle.daemon.lease.lease_keeper import leased
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web import build
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION
from oracle.store.database import Store
from oracle.store.ops.halts import HaltEvidence
from tests.entrypoints.local_network import write
from tests.entrypoints.refusal import refused

OURS, THEIRS = Hash("0x" + "0a" * 32), Hash("0x" + "0b" * 32)
HEAD = BlockRef(30, Hash("0x" + "1e" * 32), Hash("0x" + "1d" * 32), 1_000)


@pytest.fixture
def latched(sound, tmp_path: Path, sqlite_url: str) -> Path:
    """A configuration of a database whose latch is closed."""
    sound["database"]["url"] = sqlite_url
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        evidence = HaltEvidence(22, OURS, THEIRS)
        uow.latches.close(FINALITY_VIOLATION, (30, 1_000), "block 22 is another one", evidence)
    return write(sound, tmp_path / "config.toml")


def told(capsys, *arguments: object):
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_list_names_the_block_and_both_hashes(latched: Path, capsys):
    (latch,) = told(capsys, "latch", "list", "--config", latched)

    assert latch["closed"]
    assert (latch["block"], latch["our_hash"], latch["their_hash"]) == (22, OURS, THEIRS)


def test_a_latch_is_opened_by_hand_with_a_reason_that_stays(latched: Path, capsys):
    answer = told(capsys, "latch", "clear", "--reason", "ticket 12", "--config", latched)

    assert answer == {"latch": FINALITY_VIOLATION, "opened": True, "reason": "ticket 12"}
    (latch,) = told(capsys, "latch", "list", "--config", latched)
    assert not latch["closed"]
    assert latch["cleared_reason"] == "ticket 12"
    assert "operator" in latch["cleared_by"]
    line = refused(capsys, "latch", "clear", "--reason", "again", "--config", latched)
    assert "no latch finality_violation is closed" in line


@pytest.mark.parametrize("reason", ["", "  "])
def test_without_a_reason_nothing_is_opened(latched: Path, capsys, reason: str):
    line = refused(capsys, "latch", "clear", "--reason", reason, "--config", latched)

    assert "--reason: say why" in line
    (latch,) = told(capsys, "latch", "list", "--config", latched)
    assert latch["closed"]


@pytest.mark.slow
def test_a_dry_run_opens_nothing(latched: Path, capsys):
    arguments = ["latch", "clear", "--reason", "x", "--dry-run", "--config", str(latched)]
    assert run(arguments) == 0

    assert "would be open" in capsys.readouterr().out
    (latch,) = told(capsys, "latch", "list", "--config", latched)
    assert latch["closed"]


@pytest.mark.slow
def test_whoever_works_on_the_database_keeps_the_latch(latched: Path, sqlite_url: str, capsys):
    with Store.open(sqlite_url) as store, leased(store, "a daemon"):
        line = refused(capsys, "latch", "clear", "--reason", "x", "--config", latched, code=1)

    assert "a daemon" in line


def test_status_says_first_that_a_latch_is_closed(latched: Path, capsys):
    assert run(["status", "--config", str(latched)]) == 0

    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("LATCHED")
    assert "block 22 is another one" in first


@pytest.mark.slow
def test_a_list_without_latches_says_so(sound, sqlite_url: str, tmp_path: Path, capsys):
    sound["database"]["url"] = sqlite_url
    path = write(sound, tmp_path / "config.toml")

    assert run(["latch", "list", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "no latch was ever closed\n"


class Clock:
    """Seconds, as a test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def reasons(store: Store, watch: DaemonHealth) -> list[str]:
    """Why `/readyz` says 503."""
    answer = TestClient(build(watch, lambda: store)).get("/readyz")
    found = answer.json()["reasons"]
    assert answer.status_code == (503 if found else 200)
    assert isinstance(found, list)
    return found


def test_readyz_says_what_holds_the_index(sqlite_url: str):
    clock = Clock()
    with Store.open(sqlite_url) as store:
        watch = DaemonHealth(JobLiveness(clock))
        heads = Heads(HEAD, None, HEAD)
        watch.stands_at(HEAD)
        watch.saw(heads)
        assert reasons(store, watch) == []

        watch.latch = "latch finality_violation: block 22 is another one"
        assert reasons(store, watch) == [watch.latch]
        watch.latch, watch.is_in_doubt = None, True
        assert reasons(store, watch)[0].startswith("index: one endpoint alone")
        watch.is_in_doubt, watch.dispute = False, "A said that block 30 left, which B denies"
        (reason,) = reasons(store, watch)
        assert reason.startswith("index: A said that block 30 left, which B denies, and nothing")
        watch.dispute = None
        watch.saw(replace(heads, stalled=True))
        assert reasons(store, watch) == ["chain: no endpoint shows a new block"]

        watch.saw(heads)
        clock.now += READY_WITHIN_SECONDS + 1
        # The same look once more is no newer one.
        watch.saw(heads)
        assert reasons(store, watch)[0].startswith("heads: the last look that worked is 61 s old")
