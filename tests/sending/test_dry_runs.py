"""A dry run sends nothing and asks no key for anything: the doors of both count.

A key that is another's than configured stops the daemon before it does anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oracle.entrypoints.cli import run
from oracle.publisher.keys import unlock
from oracle.services.confirming import confirm_next
from tests.entrypoints.local_network import Settings, write
from tests.office import CHAIN_ID, FINALITY, RULES, SETTINGS, Office
from tests.publisher.remote_signer import RemoteHost, served
from tests.sending.conftest import OpenProxy
from tests.sending.proxy import SEND, Proxy
from tests.services.test_kicking import bad_pool

ROLES = ("signer", "transmitter")


@dataclass
class Site:
    """A configuration on disk; the endpoint and the two hosts with keys that it names."""

    office: Office
    settings: Settings
    folder: Path
    endpoint: Proxy
    hosts: dict[str, RemoteHost]

    def run(self, *arguments: str) -> int:
        path = write(self.settings, self.folder / "config.toml")
        return run([*arguments, "--config", str(path)])

    @property
    def sent(self) -> int:
        return self.endpoint.count(SEND)

    @property
    def signed(self) -> int:
        return sum(len(host.asked) for host in self.hosts.values())


@pytest.fixture
def site(
    sqlite_office: Office,
    open_proxy: OpenProxy,
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Node 2 is to be kicked out and a report is due; the daemon has gone home."""
    monkeypatch.setattr("oracle.app.reading.rule_set", lambda *_: RULES)
    office = sqlite_office
    bad_pool(office)
    office.period()
    office.tick()
    office.mine(FINALITY + 1)
    office.index()
    office.repeat(confirm_next)
    office.period()
    office.index()
    with office.store.transaction() as unit:
        unit.lease.release(office.epoch)
    endpoint, keys = open_proxy(), office.premises.key_folder
    host = {
        role: RemoteHost("0x" + unlock(keys / f"{role}.json", keys / f"{role}.password").hex())
        for role in ROLES
    }
    with served(host["signer"]), served(host["transmitter"]):
        told: dict[str, Any] = {}
        for role, door in host.items():
            told |= {f"{role}_remote_url": door.url, f"{role}_address": door.address}
        settings: Settings = {
            "database": {"url": sqlite_url},
            "chain": {"id": CHAIN_ID, "endpoints": [endpoint.url], "finality_depth": FINALITY},
            "network": {"contracts": {"TaskNetwork": office.premises.network.contract.address}},
            "oracle": {
                "address": office.premises.address,
                "publish": True,
                "heartbeat_seconds": SETTINGS.heartbeat_seconds,
                "evidence_folder": str(tmp_path / "by-hand"),
            },
            "keys": told,
            "web": {"port": 0},
        }
        yield Site(office, settings, tmp_path, endpoint, host)


DRY = {
    "run": ("run", "--once", "--dry-run"),
    "report push": ("report", "push", "--dry-run"),
    "kickout propose": ("kickout", "propose", "NODE", "--dry-run"),
    "contract deploy": ("contract", "deploy", "--admin", "0x" + 40 * "1", "--dry-run"),
    "status": ("status",),
}


def words(site: Site, command: str) -> list[str]:
    node = site.office.premises.network.nodes[2].lower()
    return [node if word == "NODE" else word for word in DRY[command]]


@pytest.mark.parametrize("command", DRY)
def test_case_f71_a_dry_run_sends_nothing_and_asks_no_key(
    site: Site, command: str, capsys: pytest.CaptureFixture[str]
):
    # 2: the node is not due yet, which the dry run is asked for to say.
    codes = {0, 2} if command == "kickout propose" else {0}
    assert site.run(*words(site, command)) in codes, capsys.readouterr().err
    assert (site.sent, site.signed) == (0, 0)


def test_case_f71_the_same_run_without_dry_run_asks_both_keys_and_sends(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    assert site.run("run", "--once") == 0, capsys.readouterr().err
    assert site.sent > 0
    assert all(host.asked for host in site.hosts.values())


def keystores(site: Site) -> dict[str, str]:
    folder = site.office.premises.key_folder
    return {
        f"{role}_{part}": str(folder / f"{role}.{ending}")
        for role in ROLES
        for part, ending in (("keystore", "json"), ("password_file", "password"))
    }


@pytest.mark.parametrize("role", ROLES)
def test_case_f69_a_key_of_another_address_ends_the_start_with_one_line(
    site: Site, role: str, capsys: pytest.CaptureFixture[str]
):
    other = "0x" + 40 * "9"
    site.settings["keys"] = {**keystores(site), f"{role}_address": other}
    before = site.office.intents()

    assert site.run("run", "--once") == 2

    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"qos-oracle: keys.{role}_address: is {other}, and the key ")
    assert (site.sent, site.office.intents()) == (0, before)


def test_case_f69_the_addresses_that_are_meant_are_no_hindrance(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    meant = {f"{role}_address": host.address for role, host in site.hosts.items()}
    site.settings["keys"] = {**keystores(site), **meant}
    assert site.run("run", "--once") == 0, capsys.readouterr().err
    assert site.sent > 0
