"""A local chain with contracts, nodes and traffic, and configurations for it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devnet.anvil import CHAIN_ID, LocalChain, run_anvil
from devnet.demo.show import START_TIME, create_keys
from devnet.demo.stage import (
    ACCOUNTS,
    GAS,
    TIMELOCK_DELAY,
    ChainClock,
    DaemonRoles,
    Stage,
    deploy_demo_network,
)
from oracle.bindings.codec import encode_call
from oracle.bindings.timelock import TimelockedCall
from oracle.domain.ids import Address
from tests.support.cli.dealt_traffic import DealtTraffic, Transaction

Settings = dict[str, dict[str, Any]]


@dataclass
class LocalNetwork:
    """A local network.

    `play` makes eight blocks per wave; `settings` and `write` make a configuration for the chain.
    """

    stage: Stage
    clock: ChainClock
    keys: Path
    waves: int = 0
    _traffic: DealtTraffic = field(init=False)

    def __post_init__(self) -> None:
        # The creator also starts the tasks, because there is no daemon.
        self._traffic = DealtTraffic(self.stage, self.stage.creator, seed=20)

    @property
    def url(self) -> str:
        return self.stage.chain.url

    def play(self, waves: int) -> None:
        for _ in range(waves):
            for transactions in self.list_wave():
                self.stage.chain.mine(self.clock.advance(), transactions)

    def list_wave(self) -> list[list[Transaction]]:
        """Return the transactions of each of the eight blocks of the next wave."""
        blocks = list(self._traffic.wave(self.waves))
        self.waves += 1
        return blocks

    def mine(self, blocks: int) -> None:
        for _ in range(blocks):
            self.stage.chain.mine(self.clock.advance())

    def head(self) -> int:
        return int(self.stage.chain.make_request("eth_blockNumber"), 16)

    def administer(self, function: str, *arguments: object) -> None:
        """Change a setting of the oracle through the timelock that is its admin."""
        stage, clock = self.stage, self.clock
        proposer = str(stage.chain.make_request("eth_accounts")[0])
        calldata = encode_call("roots/QoSRoots", function, *arguments)
        change = TimelockedCall(stage.oracle, calldata, salt=self.head())
        to_timelock = {"from": proposer, "to": stage.timelock, "gas": GAS}
        scheduled = to_timelock | {"data": change.encode_schedule_call(TIMELOCK_DELAY)}
        stage.chain.mine_and_check_receipts(clock.advance(), [scheduled])
        clock.now += TIMELOCK_DELAY
        executed = to_timelock | {"data": change.encode_execute_call()}
        stage.chain.mine_and_check_receipts(clock.advance(), [executed])

    def settings(self, folder: Path) -> Settings:
        """Return complete settings for a daemon with its database in `folder`.

        Change, then `write`.
        """
        return {
            "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
            "chain": {
                "id": CHAIN_ID,
                "endpoints": [self.url],
                "finality_depth": 4,
                "poll_seconds": 0.05,
            },
            "network": {"contracts": {"TaskNetwork": self.stage.network}},
            "oracle": {
                "address": self.stage.oracle,
                "evidence_folder": str(folder / "evidence"),
            },
            "keys": {
                f"{role}_{part}": str(self.keys / f"{role}.{ending}")
                for role in ("signer", "transmitter")
                for part, ending in (("keystore", "json"), ("password_file", "password"))
            },
            "limits": {"confirmations": 4},
            "web": {"port": 0},
            "log": {"format": "json"},
        }


def write_config(settings: Settings, path: Path) -> Path:
    """Write a configuration that only its owner can read, because it may contain a password."""
    lines = []
    for section, values in settings.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_to_toml(value)}" for key, value in values.items()]
    path.touch(0o600)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _to_toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {_to_toml(element)}" for key, element in value.items())
        return "{ " + ", ".join(pairs) + " }"
    return json.dumps(value)


@contextmanager
def run_local_network(folder: Path) -> Iterator[LocalNetwork]:
    """Run a chain with contracts and twelve nodes; the keys for a daemon are in `folder`."""
    with run_anvil(port=0, accounts=ACCOUNTS, start_time=START_TIME) as url:
        chain = LocalChain(url)
        clock = ChainClock(START_TIME)
        keys = create_keys(folder)
        _, creator, *_ = chain.make_request("eth_accounts")
        signer = keys["signer"].address
        transmitter = keys["transmitter"].address
        roles = DaemonRoles(signer, transmitter, dispatcher=Address(creator.lower()))
        stage = deploy_demo_network(chain, clock, roles)
        try:
            yield LocalNetwork(stage, clock, folder)
        finally:
            chain.close()
