"""A network of Crynux's contracts on the local chain: played, indexed, scored, and a node kicked
out.

The driver keeps its own record; the daemon sees only the chain.
"""

import io
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devnet.anvil import LocalChain, run_anvil
from devnet.crynux.commit_traffic import CommitTraffic
from devnet.crynux.crynux_network import (
    ACCOUNTS,
    COMMIT,
    VSS,
    CrynuxNetwork,
    deploy_crynux_network,
)
from devnet.crynux.crynux_show import OMITTED_SECTIONS, build_settings, create_traffic
from devnet.crynux.kickout_end import deploy_adapter, fetch_kickout_result
from devnet.crynux.vss_traffic import VssTraffic
from devnet.demo.daemon_process import write_configuration
from devnet.demo.demo_nodes import DEMO_NODES, HOPELESS, MOODY
from devnet.demo.show import START_TIME
from devnet.demo.stage import STAKE, ChainClock
from oracle.bindings.codec import encode_call
from oracle.cli.main import run
from oracle.errors import InputError

pytestmark = [pytest.mark.evm, pytest.mark.slow]

Row = dict[str, Any]
WAVES = 10


@dataclass
class Played:
    """A network with its traffic, and the configuration of a daemon that indexes it."""

    network: CrynuxNetwork
    clock: ChainClock
    traffic: VssTraffic | CommitTraffic
    config: Path
    nodes: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)

    def waves(self, count: int) -> None:
        while self.traffic.wave < count:
            head = int(self.network.chain.make_request("eth_blockNumber"), 16)
            self.network.mine_transactions(self.clock, self.traffic.build_next_transactions(head))

    def index(self) -> None:
        """Let the daemon catch up, and keep its output."""
        self._says("run", "--once")
        self.nodes = json.loads(self._says("nodes", "--json"))["nodes"]
        self.events = [json.loads(line) for line in self._says("export").splitlines()]

    def _says(self, *command: str) -> str:
        with redirect_stdout(io.StringIO()) as printed:
            assert run([*command, "--config", str(self.config)]) == 0
        return printed.getvalue()

    @property
    def types(self) -> Counter[str]:
        return Counter(event["type"] for event in self.events)

    def row(self, name: str) -> Row:
        (node_row,) = (row for row in self.nodes if row["node"] == self.network.nodes[name])
        return node_row

    def unread(self) -> dict[str, int]:
        """Return the events that the daemon could not decode, or that were anomalies."""
        with closing(sqlite3.connect(self.config.with_name("oracle.sqlite"))) as connection:
            return {
                table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - our own names
                for table in ("dead_letter", "anomaly")
            }


@contextmanager
def deploy_network(profile: str, folder: Path) -> Iterator[Played]:
    """Deploy on a separate chain."""
    with run_anvil(port=0, accounts=ACCOUNTS, start_time=START_TIME) as url:
        chain = LocalChain(url)
        clock = ChainClock(START_TIME)
        try:
            network = deploy_crynux_network(chain, clock, profile)
            path = folder / "demo.toml"
            write_configuration(path, build_settings(network, folder), OMITTED_SECTIONS)
            traffic = create_traffic(network, 20)
            assert isinstance(traffic, VssTraffic | CommitTraffic)
            yield Played(network, clock, traffic, path)
        finally:
            chain.close()


@pytest.fixture(scope="module")
def vss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with deploy_network(VSS, tmp_path_factory.mktemp("vss")) as played:
        played.waves(WAVES + 1)
        played.index()
        yield played


def vss_traffic(played: Played) -> VssTraffic:
    assert isinstance(played.traffic, VssTraffic)
    return played.traffic


def test_indexed_vss_groups_and_timeouts_match_generated_traffic(vss: Played):
    groups = vss_traffic(vss).groups
    silent = [
        job
        for group in groups
        for job in group.jobs
        if job.aborted_at is not None and job.answered_at is None
    ]
    assert vss.types["node_joined"] == len(DEMO_NODES)
    compared = [group for group in groups if group.validated_at is not None]
    assert vss.types["group_validated"] == len(compared) > 3 * WAVES
    assert vss.types["task_timed_out"] == len(silent) > 0
    assert vss.unread() == {"dead_letter": 0, "anomaly": 0}


def test_every_member_of_a_compared_group_gets_a_score(vss: Played):
    scored: Counter[str] = Counter()
    for group in vss_traffic(vss).groups:
        if group.validated_at is not None:
            scored.update(job.node.name for job in group.jobs if job.node is not None)
    score_counts = {
        demo_node.name: vss.row(demo_node.name)["scores_in_pool"] for demo_node in DEMO_NODES
    }
    assert score_counts == {demo_node.name: scored[demo_node.name] for demo_node in DEMO_NODES}


def test_node_with_a_low_score_is_kicked_out_by_the_network(vss: Played):
    assert vss_traffic(vss).kicked_out_names == {MOODY.name}
    assert vss.row(MOODY.name)["status"] == "kicked_out"


def test_commit_network_is_scored_with_the_legacy_rules(tmp_path: Path):
    with deploy_network(COMMIT, tmp_path) as played:
        played.waves(WAVES)
        played.index()
        assert isinstance(played.traffic, CommitTraffic)
        parts = [part for job in played.traffic.jobs for part in job.assignments]
        types = played.types
        assert types["node_joined"] == len(played.nodes) == len(DEMO_NODES)
        assert types["result_committed"] == sum(part.committed_at is not None for part in parts)
        assert types["result_disclosed"] == sum(part.disclosed_at is not None for part in parts)
        assert all(row["legacy"] is not None for row in played.nodes)
        assert played.unread() == {"dead_letter": 0, "anomaly": 0}


@pytest.mark.parametrize("profile", [VSS, COMMIT])
def test_kickout_through_the_adapter_returns_the_stake(tmp_path: Path, profile: str):
    with deploy_network(profile, tmp_path) as played:
        network, clock = played.network, played.clock
        node = network.nodes[HOPELESS.name]
        assert fetch_kickout_result(network, node).stake == STAKE
        # An account at the address of the oracle contract.
        adapter = deploy_adapter(network, clock, network.relay)
        calldata = encode_call("IKickTarget", "kick", node, bytes(32))
        kick = {"from": network.relay, "to": adapter, "data": calldata, "gas": hex(3_000_000)}
        network.mine_transactions(clock, [kick])

        assert fetch_kickout_result(network, node).list_faults(HOPELESS.name) == []
        # The other nodes continue to work.
        played.waves(1)
        played.index()
        out = [event for event in played.events if event["type"] == "node_kicked_out"]
        assert [event["node"] for event in out] == [node]
        assert played.row(HOPELESS.name)["status"] == "kicked_out"


def test_profile_without_demo_contracts_is_rejected(tmp_path: Path):
    refusal = pytest.raises(
        InputError,
        match="reference: there are no stand-in contracts for this profile; expected one of",
    )
    with refusal, deploy_network("reference", tmp_path):
        pass
