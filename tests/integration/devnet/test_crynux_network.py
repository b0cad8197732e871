"""A network that is not ours, on the local chain: played, indexed, scored, and a node put out.

What happened the driver knows by itself; the daemon sees the chain alone.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oracle.bindings.codec import call_input
from oracle.cli.main import run
from oracle.devnet.anvil import LocalChain, anvil
from oracle.devnet.crynux.commit_traffic import CommitTraffic
from oracle.devnet.crynux.crynux_network import (
    ACCOUNTS,
    COMMIT,
    VSS,
    CrynuxNetwork,
    crynux_network,
)
from oracle.devnet.crynux.crynux_show import WITHOUT, settings_for, traffic_of
from oracle.devnet.crynux.kickout_end import adapter_for, kickout_on
from oracle.devnet.crynux.vss_traffic import VssTraffic
from oracle.devnet.demo.cast import CAST, HOPELESS, MOODY
from oracle.devnet.demo.daemon_process import write_configuration
from oracle.devnet.demo.show import START_TIME
from oracle.devnet.demo.stage import STAKE, Clock
from oracle.domain.ids import Address
from oracle.errors import InputError

pytestmark = [pytest.mark.evm, pytest.mark.slow]

Row = dict[str, Any]
WAVES = 10


@dataclass
class Played:
    """A network with its traffic; `mine` one block of it."""

    network: CrynuxNetwork
    clock: Clock
    traffic: VssTraffic | CommitTraffic
    config: Path

    def waves(self, count: int) -> None:
        while self.traffic.wave < count:
            head = int(self.network.chain.ask("eth_blockNumber"), 16)
            self.network.mine(self.clock, self.traffic.next_block(head))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[[str], Played]]:
    with anvil(port=0, accounts=ACCOUNTS, start_time=START_TIME) as url:
        chain, clock = LocalChain(url), Clock(START_TIME)

        def staged(profile: str) -> Played:
            network = crynux_network(chain, clock, profile)
            path = tmp_path / "demo.toml"
            write_configuration(path, settings_for(network, tmp_path), WITHOUT)
            traffic = traffic_of(network, 20)
            assert isinstance(traffic, VssTraffic | CommitTraffic)
            return Played(network, clock, traffic, path)

        try:
            yield staged
        finally:
            chain.close()


def says(capsys: pytest.CaptureFixture[str], config: Path, *command: str) -> str:
    capsys.readouterr()
    assert run([*command, "--config", str(config)]) == 0
    return capsys.readouterr().out


def indexed(capsys: pytest.CaptureFixture[str], played: Played) -> tuple[list[Row], list[Row]]:
    """The nodes as the daemon tells of them, and its events."""
    says(capsys, played.config, "run", "--once")
    nodes = json.loads(says(capsys, played.config, "nodes", "--json"))
    events = says(capsys, played.config, "export")
    return nodes, [json.loads(line) for line in events.splitlines()]


def unread(played: Played) -> dict[str, int]:
    """What the daemon could not read, or could not fit to what came before."""
    with closing(sqlite3.connect(played.config.with_name("oracle.sqlite"))) as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - our own names
            for table in ("dead_letter", "anomaly")
        }


def test_a_vss_network_is_scored_as_its_driver_knows(
    stage: Callable[[str], Played], capsys: pytest.CaptureFixture[str]
):
    played = stage(VSS)
    played.waves(WAVES)
    nodes, events = indexed(capsys, played)
    traffic = played.traffic
    assert isinstance(traffic, VssTraffic)

    types = Counter(event["type"] for event in events)
    groups = [group for group in traffic.groups if group.validated_at is not None]
    silent = [
        job
        for group in traffic.groups
        for job in group.jobs
        if job.aborted_at is not None and job.answered_at is None
    ]
    assert types["node_joined"] == len(CAST)
    assert types["group_validated"] == len(groups) > 3 * WAVES
    assert types["task_timed_out"] == len(silent) > 0

    scored: Counter[str] = Counter()
    for group in groups:
        scored.update(job.node.name for job in group.jobs if job.node is not None)
    told = {played.network.name_of(Address(row["node"])): row["task_scores"] for row in nodes}
    assert told == {one.name: scored[one.name] for one in CAST}
    assert unread(played) == {"dead_letter": 0, "anomaly": 0}


def test_a_commit_network_is_scored_under_the_rules_of_its_time(
    stage: Callable[[str], Played], capsys: pytest.CaptureFixture[str]
):
    played = stage(COMMIT)
    played.waves(WAVES)
    nodes, events = indexed(capsys, played)
    traffic = played.traffic
    assert isinstance(traffic, CommitTraffic)

    types = Counter(event["type"] for event in events)
    parts = [part for job in traffic.jobs for part in job.parts]
    assert types["node_joined"] == len(CAST)
    assert types["result_committed"] == sum(part.committed_at is not None for part in parts)
    assert types["result_disclosed"] == sum(part.disclosed_at is not None for part in parts)
    assert all("legacy" in row for row in nodes if row["status"] == "available")
    assert len(nodes) == len(CAST)
    assert unread(played) == {"dead_letter": 0, "anomaly": 0}


def test_the_networks_own_kickouts_are_its_own(
    stage: Callable[[str], Played], capsys: pytest.CaptureFixture[str]
):
    """Who is silent twice in three tasks, VSSTask's own rule puts out."""
    played = stage(VSS)
    played.waves(WAVES + 1)
    traffic = played.traffic
    assert isinstance(traffic, VssTraffic)
    assert traffic.gone == {MOODY.name}
    nodes, _ = indexed(capsys, played)
    (moody,) = (row for row in nodes if row["node"] == played.network.nodes[MOODY.name])
    assert moody["status"] == "kicked_out"


@pytest.mark.parametrize("profile", [VSS, COMMIT])
def test_a_kickout_through_the_adapter_is_told_by_the_network_and_the_stake_comes_back(
    stage: Callable[[str], Played], capsys: pytest.CaptureFixture[str], profile: str
):
    played = stage(profile)
    network, clock = played.network, played.clock
    node = network.nodes[HOPELESS.name]
    assert kickout_on(network, node).stake == STAKE
    # An account in the place of the oracle contract.
    adapter = adapter_for(network, clock, network.relay)
    told = call_input("IKickTarget", "kick", node, bytes(32))
    network.mine(
        clock, [{"from": network.relay, "to": adapter, "data": told, "gas": hex(3_000_000)}]
    )

    ended = kickout_on(network, node)
    assert ended.faults(HOPELESS.name) == []
    nodes, events = indexed(capsys, played)
    assert [event["node"] for event in events if event["type"] == "node_kicked_out"] == [node]
    (row,) = (one for one in nodes if one["node"] == node)
    assert row["status"] == "kicked_out"
    # The others go on working.
    played.waves(2)


def test_a_profile_without_stand_ins_is_refused(stage: Callable[[str], Played]):
    with pytest.raises(InputError, match="no stand-ins for reference; there are: crynux-vss"):
        stage("reference")
