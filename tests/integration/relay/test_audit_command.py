"""`audit relay`: its output and its exit codes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devnet.relay.relay_nodes import HONEST, RelayLies
from devnet.relay.stand_in_relay import RelayFault
from oracle.cli.inspect import audit_commands
from oracle.cli.main import run
from oracle.queries.relay_audit.relay_watch import WatchClock
from tests.integration.relay.watched_relay import START, WatchedRelay, history_of, rows_of

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow


@contextmanager
def a_relay(monkeypatch: pytest.MonkeyPatch, lies: RelayLies = HONEST) -> Iterator[str]:
    """Run a relay whose clock, like the auditor's, advances without waiting."""
    relay = WatchedRelay(history_of(7800, lies), START + 7200)
    clock = WatchClock(lambda: relay.now, relay.wait)
    monkeypatch.setattr(audit_commands, "WatchClock", lambda: clock)
    with relay.served() as url:
        yield url


def test_audit_of_an_honest_relay_reports_agreement(monkeypatch, capsys):
    with a_relay(monkeypatch) as url:
        assert run(["audit", "relay", "--url", url]) == 0

    stdout = capsys.readouterr().out
    assert "agrees" in stdout
    assert "differs" not in stdout
    assert "Rows that were never published cannot be detected" in stdout


def test_audit_of_a_lying_relay_fails_and_lists_differing_nodes(monkeypatch, capsys):
    with a_relay(monkeypatch, RelayLies(swapped_group=40)) as url:
        assert run(["audit", "relay", "--url", url, "--polls", "5", "--json"]) == 1

    printed = capsys.readouterr()
    nodes = json.loads(printed.out)["nodes"]
    kinds = [node["parting"]["kind"] for node in nodes if node["verdict"] == "differs"]
    assert set(kinds) == {"rank"}
    assert f"{len(kinds)} of 9 nodes differ" in printed.err


def test_audit_that_proves_no_node_has_its_own_exit_code(monkeypatch):
    history = history_of(1200)
    relay = WatchedRelay(history, START + 900)
    relay.faults.switch_on(RelayFault.RETENTION, 50)
    clock = WatchClock(lambda: relay.now, relay.wait)
    monkeypatch.setattr(audit_commands, "WatchClock", lambda: clock)
    with relay.served() as url:
        assert run(["audit", "relay", "--url", url]) == audit_commands.NOTHING_PROVEN_EXIT_CODE


def test_invalid_url_or_malformed_witness_raises_input_error(tmp_path: Path, capsys):
    assert run(["audit", "relay", "--url", "relay.example"]) == 2

    broken = tmp_path / "times.jsonl"
    broken.write_text('{"id": 1}\n', "utf-8")
    arguments = ["audit", "relay", "--url", "http://127.0.0.1:1", "--witness", str(broken)]
    assert run(arguments) == 2
    assert "line 1" in capsys.readouterr().err


def test_witness_increases_the_number_of_proven_nodes(monkeypatch, tmp_path: Path, capsys):
    history = history_of(7800)
    rows = {row.id: row.hash for row in rows_of(history)}
    times = tmp_path / "times.jsonl"
    lines = [
        json.dumps(
            {"id": timed_row.row.id, "t": int(timed_row.time), "hash": rows[timed_row.row.id]}
        )
        for timed_row in history.rows
    ]
    times.write_text("\n".join(lines), "utf-8")

    proven = []
    for more in ([], ["--witness", str(times)]):
        with a_relay(monkeypatch) as url:
            assert run(["audit", "relay", "--url", url, "--json", *more]) == 0
        nodes = json.loads(capsys.readouterr().out)["nodes"]
        proven.append(sum(node["verdict"] == "agrees" for node in nodes))

    assert proven[0] < proven[1]


def test_audit_fails_if_the_relay_returns_http_errors(monkeypatch, capsys):
    relay = WatchedRelay(history_of(600), START + 600)
    relay.faults.switch_on(RelayFault.SILENT)
    with relay.served() as url:
        assert run(["audit", "relay", "--url", url]) == 1
    assert "HTTP status 500" in capsys.readouterr().err
