"""`resync verify`, `gaps`, `dead-letters`, `export --fixture`, with a chain of valid blocks."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devnet.fakechain.recordings.recording import read_recording
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import get_branch
from oracle.cli.inspect.fixture_export import export_fixture
from oracle.cli.main import run
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.compose import get_checked_chain, open_index
from oracle.daemon.config.loader import read_config
from oracle.daemon.records import open_records
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from oracle.indexer.audit.contract_counters import compare_contract_counters
from oracle.store.database import Store
from tests.support.cli.local_network import write_config
from tests.support.ingest.daemons import build_daemon_settings, write_daemon_config
from tests.support.ingest.event_encoding import encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY

pytestmark = pytest.mark.slow


@pytest.fixture
def chain() -> Iterator[FakeChain]:
    """Yield two endpoints of 40 blocks, one of which contains a log that cannot be decoded."""
    with ExitStack() as until_the_end:
        served_chain = FakeChain(until_the_end)
        served_chain.serve()
        served_chain.serve()
        served_chain.live(30)
        served_chain.emit(replace(encode_task_created_log(901), data="0x"))
        served_chain.mine_empty(FINALITY + 1)
        yield served_chain


@pytest.fixture
def config(chain: FakeChain, tmp_path: Path) -> str:
    """Return the configuration of a database that has indexed the chain."""
    path = write_daemon_config(chain, tmp_path)
    assert run(["run", "--once", "--config", str(path)]) == 0
    return str(path)


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_complete_index_shows_verification_levels_and_no_gap(
    config: str, chain: FakeChain, capsys: pytest.CaptureFixture[str]
):
    report = run_json(capsys, "resync", "gaps", "--config", config)

    assert (report["from"], report["to"]) == (0, chain.head.number)
    assert sum(report["levels"].values()) == chain.head.number + 1
    assert [report[kind] for kind in ("unread", "headers", "mismatched_logs", "cursor")] == [
        []
    ] * 4
    assert run(["resync", "gaps", "--config", config]) == 0
    assert capsys.readouterr().out.endswith(f"blocks 0 to {chain.head.number}: no gap\n")


def test_gaps_command_exits_with_1_when_index_has_gap(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    with Store.open(url) as store, store.transaction() as uow:
        uow.coverage.delete_above(20)
    report = run_json(capsys, "resync", "gaps", "--config", config, code=1)
    assert [gap["from"] for gap in report["unread"]] == [21]


def change(folder: Path, statement: str) -> int:
    """Execute a statement that no command would; return the number of changed rows."""
    with closing(sqlite3.connect(folder / "oracle.sqlite")) as connection, connection:
        return connection.execute(statement).rowcount


def test_missing_log_row_is_detected_offline(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert change(tmp_path, "DELETE FROM log_row WHERE id = (SELECT min(id) FROM log_row)") == 1

    report = run_json(capsys, "resync", "gaps", "--config", config, code=1)
    assert len(report["damaged"]) == 1
    assert run(["resync", "gaps", "--config", config]) == 1
    assert capsys.readouterr().out.endswith("GAPS\n")
    # A fold of damaged rows proves nothing about the state.
    verified = run_json(capsys, "resync", "verify", "--half", "state", "--config", config, code=1)
    assert (len(verified["damaged"]), verified["state"]) == (1, None)
    assert run(["resync", "verify", "--half", "state", "--config", config]) == 1
    assert "repair the stored logs first" in capsys.readouterr().out


def test_missing_log_row_is_repaired_from_the_chain(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert change(tmp_path, "DELETE FROM log_row WHERE id = (SELECT min(id) FROM log_row)") == 1
    command = [
        "resync",
        "verify",
        "--half",
        "logs",
        "--from",
        "0",
        "--config",
        config,
    ]

    report = run_json(capsys, *command, code=1)
    assert (len(report["missing"]), report["state"]) == (1, None)
    run_json(capsys, *command, "--repair")
    run_json(capsys, "resync", "gaps", "--config", config)


def test_verify_state_finds_a_modified_row(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    count = change(tmp_path, "UPDATE node SET base = base + 7")
    assert count > 0

    report = run_json(capsys, "resync", "verify", "--half", "state", "--config", config, code=1)
    assert len(report["state"]["differing"]) == count
    assert run(["resync", "verify", "--half", "state", "--config", config]) == 1
    assert f"in {count} rows" in capsys.readouterr().out
    run_json(
        capsys,
        "resync",
        "verify",
        "--half",
        "logs",
        "--from",
        "0",
        "--config",
        config,
    )


def test_verify_reports_the_endpoint_and_the_differences(
    config: str, chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    with Store.open(url) as store, store.transaction() as uow:
        lost = next(iter(uow.logs.iterate_between(5, 40)))
        uow.logs.orphan([lost])
    second = chain.urls[1]
    arguments = ["resync", "verify", "--from", "0", "--to", "39", "--endpoint", second]

    report = run_json(capsys, *arguments, "--config", config, "--dry-run", code=1)

    assert report["endpoints"] == [second]
    assert [(row["block"], row["log"]) for row in report["missing"]] == [(lost.block, lost.index)]
    assert report["repaired"] is None
    repaired = run_json(capsys, *arguments, "--config", config, "--repair")
    assert repaired["repaired"]["block"] == chain.head.number
    assert run_json(capsys, *arguments, "--config", config)["missing"] == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--from", "5", "--to", "4"], "--from 5: above --to 4"),
        (["--from", "0", "--to", "4000"], "only blocks 0 to"),
        (["--from", "0", "--to", "4", "--endpoint", "http://nobody"], "http://nobody"),
    ],
)
def test_invalid_verify_arguments_fail_with_one_line_error(
    config: str,
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
):
    assert run(["resync", "verify", *arguments, "--config", config]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert "Traceback" not in error


def test_dead_letters_are_listed_and_retried(
    config: str, chain: FakeChain, capsys: pytest.CaptureFixture[str]
):
    (letter,) = run_json(capsys, "resync", "dead-letters", "list", "--config", config)
    assert (letter["block"], letter["name"]) == (31, "TaskCreated")
    assert run(["resync", "dead-letters", "list", "--config", config]) == 0
    assert "TaskCreated" in capsys.readouterr().out
    retried = run_json(capsys, "resync", "dead-letters", "retry", "--config", config, code=1)
    assert (retried["readable"], len(retried["left"])) == ([], 1)


def test_recorded_fixture_replays_to_the_same_state(
    config: str, chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "fixture.jsonl.gz"
    export = ["export", "--fixture", str(path), "--config", config]

    assert run_json(capsys, *export, "--dry-run")["lines"] is None
    assert not path.exists()
    assert run_json(capsys, *export)["to"] == chain.head.number
    assert run(export) == 2  # It is there already.

    provider = read_recording(path).create_provider()
    provider.tag_targets = chain.provider.tag_targets
    provider.code_by_address = chain.provider.code_by_address
    with serve_endpoint(provider) as served:
        again = build_daemon_settings(chain, tmp_path)
        again["chain"]["endpoints"] = [served.url]
        again["database"]["url"] = f"sqlite:///{tmp_path / 'again.sqlite'}"
        other_config = write_config(again, tmp_path / "again.toml")
        assert run(["run", "--once", "--config", str(other_config)]) == 0
    states = []
    for name in ("oracle", "again"):
        with (
            Store.open(f"sqlite:///{tmp_path / name}.sqlite") as store,
            store.read_transaction() as uow,
        ):
            states.append((uow.projections.compute_digest(), uow.cursor.get()))
    assert states[0][0] == states[1][0]


def test_interrupted_recording_can_be_resumed(
    config: str, chain: FakeChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    full_path = tmp_path / "whole.jsonl"
    partial_path = tmp_path / "parts.jsonl"
    assert run(["export", "--fixture", str(full_path), "--config", config]) == 0
    with open_checked_chain(read_config(Path(config))) as source:
        blocks = BlockRange(0, chain.head.number)
        real, reached = source.fetch_window_and_query, []

        def in_small_parts(block_range: Any, ask: Any) -> Any:
            reached.append(block_range.first)
            if len(reached) == 3:
                raise TransientError("interrupted")
            return real(
                type(block_range)(block_range.first, min(block_range.last, block_range.first + 9)),
                ask,
            )

        monkeypatch.setattr(source, "fetch_window_and_query", in_small_parts)
        with pytest.raises(TransientError):
            export_fixture(source, partial_path, blocks, lambda _block, _last: None)
        assert not partial_path.exists()
        done = export_fixture(source, partial_path, blocks, lambda _block, _last: None)
    assert done.resumed_at == 20
    assert partial_path.read_text("utf-8") == full_path.read_text("utf-8")


def test_recording_never_mixes_two_forks(config: str, chain: FakeChain, tmp_path: Path):
    path = tmp_path / "forked.jsonl"

    def interrupted(_block: int, _last: int) -> None:
        raise KeyboardInterrupt

    chain.live(90)
    with open_checked_chain(read_config(Path(config))) as source:
        blocks = BlockRange(0, chain.head.number)
        with pytest.raises(KeyboardInterrupt):
            export_fixture(source, path, blocks, interrupted)
        chain.live(60, on=chain.back(60))
        with pytest.raises(TransientError, match="recorded block 99 is no longer"):
            export_fixture(source, path, blocks, lambda _block, _last: None)
        assert not path.exists()
        assert export_fixture(source, path, blocks, lambda _block, _last: None).resumed_at is None
    assert [block.hash for block in get_branch(read_recording(path).head)] == [
        block.hash for block in get_branch(chain.head)
    ]


def test_recording_without_block_receipts_contains_all_logs(
    config: str, chain: FakeChain, tmp_path: Path
):
    for provider in chain.providers:
        provider.unsupported |= {"eth_getBlockReceipts"}
    path = tmp_path / "poor.jsonl"
    assert run(["export", "--fixture", str(path), "--config", config]) == 0
    recording = read_recording(path)
    logs = [
        (block.hash, int(log["logIndex"], 16))
        for block in recording.blocks.block_by_hash.values()
        for log in block.logs
    ]
    assert sorted(logs) == sorted(chain.logs())


@pytest.mark.evm
def test_contract_counters_equal_indexed_counts(indexed_config: Path):
    with open_records(read_config(indexed_config)) as records, open_index(records) as index:
        heads = get_checked_chain(index).fetch_heads()
        counts = compare_contract_counters(index.chain, index.store, heads)
    assert counts is not None
    assert counts.chain_counts.keys() == {"members", "rounds"}
    assert counts.chain_counts["members"] > 0
    assert counts.differing_counters == {}
