"""The current Crynux contracts on chain: the daemon's stakes equal those of NodeStaking."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web3.contract import Contract

from oracle.cli.main import run
from tests.support.cli.local_network import write_config
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil
from tests.support.evm.chain import Chain

pytestmark = [pytest.mark.slow, pytest.mark.evm]

STAKE = 400 * 10**18


class Staked:
    """NodeStaking with the number of credits in its events, and a daemon that indexes it."""

    def __init__(self, chain: Chain, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.chain, self.folder, self.capsys = chain, folder, capsys
        self.owner, self.relay, self.receiver, *self.nodes = chain.accounts
        self.staking: Contract = chain.deploy("testing/CrynuxStaking", self.receiver)
        chain.send(self.staking.functions.setParameterController(self.owner))
        chain.send(self.staking.functions.setAdminAddress(self.relay))

    def stake(self, node: str, more: int = STAKE, total: int = STAKE) -> None:
        self.chain.send(self.staking.functions.stake(total), sender=node, value=more)

    def by_relay(self, name: str, node: str) -> None:
        self.chain.send(self.staking.functions[name](node), sender=self.relay)

    def stake_on_chain(self, node: str) -> int:
        return int(self.staking.functions.getStakingInfo(node).call()[1])

    def index(self, **options: bool) -> None:
        written: dict[str, dict[str, Any]] = {
            "database": {"url": f"sqlite:///{self.folder / 'oracle.sqlite'}"},
            "chain": {"id": 31337, "endpoints": [self.chain.url], "finality_depth": 2},
            "network": {
                "profile": "crynux-staking",
                "contracts": {"NodeStaking": str(self.staking.address)},
                "options": {"credits": True, **options},
            },
            "web": {"port": 0},
            "log": {"format": "json"},
        }
        write_config(written, self.folder / "config.toml")
        self.read_output("run", "--once")

    def read_output(self, *command: str) -> str:
        assert run([*command, "--config", str(self.folder / "config.toml")]) == 0
        return self.capsys.readouterr().out

    def statuses(self) -> dict[str, str]:
        rows: list[dict[str, Any]] = json.loads(self.read_output("nodes", "--json"))["nodes"]
        return {row["node"]: row["status"] for row in rows}

    def stakes(self) -> dict[str, int]:
        """Return the last indexed stake of each node."""
        events = map(json.loads, self.read_output("export").splitlines())
        return {
            event["node"]: int(event["stake"])
            for event in events
            if event["type"] == "node_updated"
        }


@pytest.fixture
def staked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Staked]:
    with run_anvil(*FREE_BY_HAND) as url:
        chain = Chain(url)
        try:
            yield Staked(chain, tmp_path, capsys)
        finally:
            chain.close()


def test_staking_contract_does_not_set_membership_beside_a_feed(staked: Staked):
    first_node, second_node, third, last = staked.nodes[:4]
    for node in (first_node, second_node, third, last):
        staked.stake(node)
    staked.stake(first_node, total=3 * STAKE, more=2 * STAKE)
    staked.chain.send(staked.staking.functions.tryUnstake(), sender=second_node)
    staked.by_relay("unstake", second_node)
    staked.by_relay("slashStaking", third)
    staked.chain.mine(4)

    staked.index()

    assert set(staked.statuses().values()) == {"unknown"}
    assert staked.stakes() == {
        node.lower(): staked.stake_on_chain(node)
        for node in (first_node, second_node, third, last)
    }


def test_staked_node_is_a_member_if_no_feed_is_configured(staked: Staked):
    first_node, second_node, third = staked.nodes[:3]
    for node in (first_node, second_node, third):
        staked.stake(node)
    staked.by_relay("unstake", second_node)
    staked.by_relay("slashStaking", third)
    staked.chain.mine(4)

    staked.index(stake_is_membership=True)

    assert staked.statuses() == {
        first_node.lower(): "available",
        second_node.lower(): "quit",
        third.lower(): "slashed",
    }
