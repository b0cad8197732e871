"""A dry run sends nothing and uses no key: the endpoint and the signers count requests.

A key other than the configured one stops the daemon before it does anything.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from oracle.domain.ids import Hash
from oracle.reporting.report_planner import plan_push
from oracle.signing.keystore import unlock_keystore
from oracle.store.outbox.records import PauseKind, Stamp
from oracle.store.report_repository import ReportState
from oracle.txmgr.confirmer import confirm_transactions
from tests.faults.sending.conftest import OpenProxy
from tests.integration.evm.test_kickout_on_chain import fill_bad_pool
from tests.support.cli.local_network import Settings, write_config
from tests.support.harness import CHAIN_ID, FINALITY, RULES, SETTINGS, Harness
from tests.support.sending.faults import respond_with
from tests.support.sending.in_flight import GWEI
from tests.support.sending.operator_commands import list_database_rows
from tests.support.sending.proxy import SEND, Proxy
from tests.support.sending.reporters import index_with_raised_scores
from tests.support.signing.remote_signer import RemoteHost, serve_host

ROLES = ("signer", "transmitter")


@dataclass
class Site:
    """A configuration file, its endpoint, and the two hosts with its keys."""

    harness: Harness
    settings: Settings
    folder: Path
    endpoint: Proxy
    hosts: dict[str, RemoteHost]

    def run(self, *arguments: str) -> int:
        path = write_config(self.settings, self.folder / "config.toml")
        return run([*arguments, "--config", str(path)])

    @property
    def sent(self) -> int:
        return self.endpoint.count(SEND)

    @property
    def signed(self) -> int:
        return sum(len(host.received_requests) for host in self.hosts.values())


@pytest.fixture
def site(
    sqlite_harness: Harness,
    open_proxy: OpenProxy,
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site where node 2's kickout and a report are due; no daemon runs."""
    monkeypatch.setattr("oracle.daemon.config.loader.build_rules", lambda *_: RULES)
    harness = sqlite_harness
    fill_bad_pool(harness)
    harness.period()
    harness.tick()
    harness.mine(FINALITY + 1)
    harness.index()
    harness.repeat(confirm_transactions)
    harness.period()
    harness.index()
    with harness.store.transaction() as uow:
        uow.lease.release(harness.epoch)
    endpoint = open_proxy()
    keys = harness.testbed.key_folder
    host = {
        role: RemoteHost(
            "0x" + unlock_keystore(keys / f"{role}.json", keys / f"{role}.password").hex()
        )
        for role in ROLES
    }
    with serve_host(host["signer"]), serve_host(host["transmitter"]):
        key_settings: dict[str, Any] = {}
        for role, remote_signer in host.items():
            key_settings |= {
                f"{role}_remote_url": remote_signer.url,
                f"{role}_address": remote_signer.address,
            }
        settings: Settings = {
            "database": {"url": sqlite_url},
            "chain": {"id": CHAIN_ID, "endpoints": [endpoint.url], "finality_depth": FINALITY},
            "network": {"contracts": {"TaskNetwork": harness.testbed.network.contract.address}},
            "oracle": {
                "address": harness.testbed.address,
                "publish": True,
                "heartbeat_seconds": SETTINGS.heartbeat_seconds,
                "evidence_folder": str(tmp_path / "by-hand"),
            },
            "keys": key_settings,
            "web": {"port": 0},
        }
        yield Site(harness, settings, tmp_path, endpoint, host)


DRY = {
    "run": ("run", "--once", "--dry-run"),
    "report push": ("report", "push", "--dry-run"),
    "kickout accuse": ("kickout", "accuse", "NODE", "--dry-run"),
    "contract deploy": ("contract", "deploy", "--dev", "--admin", "0x" + 40 * "1", "--dry-run"),
    "status": ("status",),
}


def build_command_line(site: Site, command: str) -> list[str]:
    node = site.harness.testbed.network.nodes[2].lower()
    return [node if argument == "NODE" else argument for argument in DRY[command]]


@pytest.mark.parametrize("command", DRY)
def test_case_f71_dry_run_sends_nothing_and_uses_no_key(
    site: Site, command: str, capsys: pytest.CaptureFixture[str]
):
    # 2: the node is not due yet, as the dry run reports.
    # 1: no daemon is running.
    codes = {"kickout accuse": {0, 2}, "status": {1}}.get(command, {0})
    assert site.run(*build_command_line(site, command)) in codes, capsys.readouterr().err
    assert (site.sent, site.signed) == (0, 0)


@pytest.mark.parametrize("command", [one for one in DRY if one != "run"])
def test_dry_run_changes_no_database_row(site: Site, command: str, sqlite_url: str):
    before = list_database_rows(sqlite_url)
    site.run(*build_command_line(site, command))
    assert list_database_rows(sqlite_url) == before
    assert not (site.folder / "by-hand").exists()


def test_case_f71_run_without_dry_run_sends_with_both_keys(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    assert site.run("run", "--once") == 0, capsys.readouterr().err
    assert site.sent > 0
    assert all(host.received_requests for host in site.hosts.values())


def mark_old_reports_missed(harness: Harness) -> None:
    """Mark the reports that can no longer land, and do nothing else."""
    with harness.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    harness.restart(epoch=epoch)
    step = plan_push(harness.reporting, harness.source.fetch_heads())
    assert step is not None
    assert step.action == "report missed"
    with harness.store.transaction() as uow:
        uow.lease.release(harness.epoch)


def index_with_wrong_leaves(site: Site) -> int:
    """Let a faulty process cut the only report that can still land, and return its period."""
    harness = site.harness
    with harness.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    harness.restart(epoch=epoch)
    assert epoch is not None
    # After the heartbeat, a report is due although little has changed.
    harness.testbed.chain.later(2 * SETTINGS.ttl_seconds)
    harness.testbed.chain.mine()
    harness.period()
    index_with_raised_scores(harness)
    with harness.store.transaction() as uow:
        uow.lease.release(epoch)
        *older, newest = uow.reports.list_due()
        for due in older:
            uow.reports.set_state(due.report.period, ReportState.MISSED)
    return newest.report.period


def hold_due_reports(site: Site) -> None:
    with site.harness.store.transaction() as uow:
        for due in uow.reports.list_due():
            uow.holds.hold(due.report.period, "too much at once", {}, Stamp(0, 1))


def open_halt(site: Site) -> None:
    with site.harness.store.transaction() as uow:
        uow.halts.open_halt(
            "finality_violation", "a final block changed", since_block=1, since_time=1
        )


def mine_unindexed_blocks(site: Site) -> None:
    site.harness.mine(FINALITY)


def pause_sender(site: Site) -> None:
    """Pause the sender after the signature, which needs no sender."""
    with site.harness.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    assert epoch is not None
    site.harness.restart(epoch=epoch)
    site.harness.repeat(plan_push)
    with site.harness.store.transaction() as uow:
        uow.outbox.accounts.pause(
            site.harness.context.account, PauseKind.OPERATOR, "a test", site.harness.context.stamp
        )
        uow.lease.release(epoch)


def change_configured_rules(site: Site) -> None:
    site.settings["oracle"]["heartbeat_seconds"] = SETTINGS.heartbeat_seconds + 1


def unmark_missed_reports(site: Site) -> None:
    """Set missed reports back to due, as after an absence of the daemon."""
    with site.harness.store.transaction() as uow:
        for stored in uow.reports.list_newest(100):
            if stored.state is ReportState.MISSED:
                uow.reports.set_state(stored.report.period, ReportState.DUE)


def change_nothing(_: Site) -> None:
    """Change nothing."""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (change_nothing, ""),
        (unmark_missed_reports, ""),
        (hold_due_reports, "is held: too much at once; see `qos-oracle report release "),
        (open_halt, "nothing is sent: "),
        (mine_unindexed_blocks, "nothing can be sent: the index is behind the head; run "),
        (pause_sender, "is paused: a test; fix what the reason names, then `outbox release "),
        (change_configured_rules, "the contract differs from the configuration: rulesHash"),
    ],
)
def test_push_dry_run_reports_the_revert_of_a_real_push(
    site: Site,
    change: Callable[[Site], None],
    complaint: str,
    sqlite_url: str,
    capsys: pytest.CaptureFixture[str],
):
    mark_old_reports_missed(site.harness)
    change(site)
    before = list_database_rows(sqlite_url)
    code = site.run("report", "push", "--dry-run", "--json")
    dry_run_text = capsys.readouterr()
    assert (list_database_rows(sqlite_url), site.sent, site.signed) == (before, 0, 0)

    assert site.run("report", "push", "--yes", "--json") == code, capsys.readouterr().err
    real = capsys.readouterr()
    assert real.err == dry_run_text.err
    assert complaint in real.err
    if not complaint:
        dry_run_answer = json.loads(dry_run_text.out)
        real_answer = json.loads(real.out)
        (would,), (done_step, *_) = dry_run_answer.pop("steps"), real_answer.pop("steps")
        assert dry_run_answer.pop("dry_run") is not real_answer.pop("dry_run")
        assert dry_run_answer == real_answer
        # Of the same round: "would be signed for" the contract, and "report signed round".
        assert would.startswith(
            f"the report in round {done_step.split()[3].rstrip(',')} would be signed"
        )


@pytest.mark.parametrize("has_digest", [False, True], ids=["unsigned", "signed_as_another_round"])
def test_push_dry_run_shows_that_the_report_would_be_held(
    site: Site, capsys: pytest.CaptureFixture[str], *, has_digest: bool
):
    period = index_with_wrong_leaves(site)
    if has_digest:
        # The statement of this digest expired with the previous round.
        with site.harness.store.transaction() as uow:
            uow.reports.set_signed_round(period, 1, Hash("0x" + 32 * "ab"))
    capsys.readouterr()

    assert site.run("report", "push", "--dry-run") == 0
    dry_run_text = capsys.readouterr().out
    assert site.run("report", "push", "--yes") == 0

    reason = "of its leaves differ from the nodes; it is never signed"
    assert reason in capsys.readouterr().out
    assert "the report would be held: " in dry_run_text
    assert reason in dry_run_text
    assert (site.sent, site.signed) == (0, 0)


def test_dry_run_rejects_a_deployment_above_the_cost_limit(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    site.settings["limits"] = {"max_cost_per_transaction_wei": 1}
    fees = {"oldestBlock": "0x0", "baseFeePerGas": [hex(GWEI)], "reward": [["0x0"]]}
    site.endpoint.rule("eth_feeHistory", respond_with(fees))
    complaints = []
    for flag in ("--dry-run", "--yes"):
        arguments = build_deploy_arguments(flag)
        assert site.run(*arguments) == 2
        complaints.append(capsys.readouterr().err)
    assert complaints[0] == complaints[1]
    assert "above limits.max_cost_per_transaction_wei 1" in complaints[0]
    assert site.sent == 0


def test_dry_run_rejects_a_rebuild_for_another_network(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    site.settings["chain"]["start_block"] = 1
    complaints = []
    for flag in ("--dry-run", "--yes"):
        assert site.run("outbox", "rebuild", "--from-chain", flag) == 2
        complaints.append(capsys.readouterr().err)
    assert complaints[0] == complaints[1]
    assert "this database was created for start block 0" in complaints[0]


def build_deploy_arguments(flag: str) -> list[str]:
    return [*DRY["contract deploy"][:-1], flag]


def build_keystore_settings(site: Site) -> dict[str, str]:
    folder = site.harness.testbed.key_folder
    return {
        f"{role}_{part}": str(folder / f"{role}.{ending}")
        for role in ROLES
        for part, ending in (("keystore", "json"), ("password_file", "password"))
    }


@pytest.mark.parametrize("role", ROLES)
def test_case_f69_mismatching_key_address_prevents_startup(
    site: Site, role: str, capsys: pytest.CaptureFixture[str]
):
    other_address = "0x" + 40 * "9"
    site.settings["keys"] = {**build_keystore_settings(site), f"{role}_address": other_address}
    before = site.harness.intents()

    assert site.run("run", "--once") == 2

    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(
        f"qos-oracle: keys.{role}_address: the setting is {other_address}, but the opened key "
    )
    assert (site.sent, site.harness.intents()) == (0, before)


def test_case_f69_matching_key_addresses_are_accepted(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    meant = {f"{role}_address": host.address for role, host in site.hosts.items()}
    site.settings["keys"] = {**build_keystore_settings(site), **meant}
    assert site.run("run", "--once") == 0, capsys.readouterr().err
    assert site.sent > 0
