"""`report release`: an operator releases a report that the sanity gate holds."""

import json
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.daemon.lease_keeper import hold_lease
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH
from oracle.domain.reports.report import Report, ReportChange
from oracle.store.database import Store
from oracle.store.outbox.records import Stamp
from oracle.store.report_repository import ReportState
from tests.support.cli.local_network import write_config

PERIOD, WHY = 29_764_920, "60 of 100 members would change"


@pytest.fixture
def held(offline_settings, tmp_path: Path, sqlite_url: str) -> str:
    """Return a configuration whose database has a held report of one period."""
    offline_settings["database"]["url"] = sqlite_url
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        uow.holds.hold(PERIOD, WHY, {"members": 100}, Stamp(1_000, 1))
    return str(write_config(offline_settings, tmp_path / "config.toml"))


def test_held_reports_are_listed(held: str, capsys):
    assert run(["report", "release", "--config", held, "--json"]) == 0
    (gate,) = json.loads(capsys.readouterr().out)
    assert (gate["period"], gate["reason"], gate["facts"]["members"]) == (PERIOD, WHY, 100)


def test_disputed_reports_are_listed_in_one_line(held: str, capsys, sqlite_url: str):
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        for period in range(PERIOD + 1, PERIOD + 40):
            uow.holds.hold(period, "disagreement: 0x01 signed otherwise", {}, Stamp(1_000, 1))
    assert run(["report", "release", "--config", held]) == 0
    looks_wrong, disputed = capsys.readouterr().out.splitlines()
    assert looks_wrong == f"period {PERIOD}: {WHY}"
    assert disputed.startswith(f"period {PERIOD + 39} (and 38 before it, since period ")
    assert "with the other reporter's" in disputed


def test_releasing_a_report_records_the_operator(held: str, capsys, sqlite_url: str):
    command = ["report", "release", str(PERIOD), "--config", held]
    assert run([*command, "--dry-run"]) == 0
    assert "would be released" in capsys.readouterr().out
    assert run(command) == 0
    assert f"it was held: {WHY}" in capsys.readouterr().out

    with Store.open(sqlite_url) as store, store.read_transaction() as uow:
        gate = uow.holds.get(PERIOD)
        assert uow.holds.list_held() == []
    assert gate is not None
    assert gate.released_by
    assert run(command) == 2
    assert "was released already; held periods: none" in capsys.readouterr().err


def test_releasing_a_period_that_is_not_held_is_rejected(held: str, capsys):
    assert run(["report", "release", "7", "--config", held]) == 2
    message = capsys.readouterr().err
    assert message == (f"qos-oracle: the report of period 7 is not held; held periods: {PERIOD}\n")


@pytest.mark.parametrize("options", [[], ["--dry-run"]], ids=["release", "dry run"])
def test_releasing_a_false_report_is_rejected(
    held: str, capsys, sqlite_url: str, options: list[str]
):
    reason = "3 of its leaves differ from the nodes; it is never signed"
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        uow.holds.hold(PERIOD + 1, reason, {}, Stamp(1_000, 1))
    assert run(["report", "release", str(PERIOD + 1), "--config", held, *options]) == 2
    assert capsys.readouterr().err == (
        f"qos-oracle: the report of period {PERIOD + 1} cannot be released: {reason}; wait for "
        "the next report, which is computed again; if later reports are held for this reason, "
        "too, run `qos-oracle resync rebuild`\n"
    )
    with Store.open(sqlite_url) as store, store.read_transaction() as uow:
        assert [hold.period for hold in uow.holds.list_held()] == [PERIOD, PERIOD + 1]


def test_releasing_a_report_is_refused_while_the_daemon_holds_the_lease(
    held: str, capsys, sqlite_url: str
):
    with Store.open(sqlite_url) as store, hold_lease(store, "the daemon"):
        assert run(["report", "release", str(PERIOD), "--config", held]) == 1
    assert "another process works on this database: the daemon" in capsys.readouterr().err


def test_held_report_is_not_listed_after_a_later_report_lands(held: str, capsys, sqlite_url: str):
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        block = BlockRef(90, ZERO_HASH, ZERO_HASH, 60 * (PERIOD + 2))
        deadline = block.time + 600
        uow.reports.add(
            Report(
                *(PERIOD + 1, block, 3, ZERO_HASH, deadline, ZERO_HASH),
                ReportChange(),
                is_due=True,
            )
        )
        uow.reports.set_state(PERIOD + 1, ReportState.LANDED)

    assert run(["report", "release", "--config", held]) == 0
    assert capsys.readouterr().out == "no report is held\n"
