"""The product's contracts on one of the nodes, with traffic and a daemon that runs repeatedly."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devnet.demo.show import DemoKey
from devnet.demo.stage import ChainClock, DaemonRoles, Stage, deploy_demo_network
from oracle.cli.main import run
from oracle.domain.ids import Address
from tests.integration.clients.chains import NodeChain, Transaction
from tests.integration.clients.nodes import CHAIN_ID, NODES, START_TIME
from tests.support.cli.dealt_traffic import DealtTraffic
from tests.support.cli.local_network import write_config

# Less than the depth of any fork here; on Hardhat and Ganache the newest block is `finalized` at
# once.
FINALITY_DEPTH = 12


@dataclass(frozen=True)
class Network:
    """The chain of one node; `folder` contains the databases of the daemons that follow it."""

    chain: NodeChain
    clock: ChainClock
    stage: Stage
    keys: Mapping[str, DemoKey]
    folder: Path

    def wave(self, number: int, seed: int = 20) -> list[list[Transaction]]:
        """Return the transactions of the eight blocks of a wave."""
        creator = str(self.stage.creator)
        return list(DealtTraffic(self.stage, creator, seed).wave(number))

    def play(self, blocks: list[list[Transaction]]) -> None:
        for transactions in blocks:
            self.chain.mine(self.clock.advance(), transactions)

    def run(self, name: str = "daemon", *flags: str) -> Path:
        """Let a daemon catch up with the head and exit; return the file of its database.

        A daemon that only reads has two names of the node, because a fork needs two endpoints. A
        daemon that sends has one, because Ganache mines a transaction twice if it gets it twice.
        """
        database = self.folder / f"{name}.sqlite"
        names = [self.chain.url, self.chain.url.replace("127.0.0.1", "localhost")]
        settings = self._settings(database, names[:1] if flags else names)
        config = write_config(settings, self.folder / f"{name}.toml")
        assert run(["run", "--once", *flags, "--config", str(config)]) == 0, self.chain.kind
        return database

    def _settings(self, database: Path, endpoints: list[str]) -> dict[str, dict[str, Any]]:
        daemon = [self.keys["signer"], self.keys["transmitter"]]
        return {
            "database": {"url": f"sqlite:///{database}"},
            "chain": {
                "id": CHAIN_ID,
                "endpoints": endpoints,
                "providers": {"localhost": "second"} if len(endpoints) > 1 else {},
                "finality_depth": FINALITY_DEPTH,
            },
            "network": {"contracts": {"TaskNetwork": self.stage.network}},
            "oracle": {
                "address": self.stage.oracle,
                "evidence_folder": str(self.folder / "evidence"),
            },
            "keys": {
                f"{role}_{part}": str(getattr(key, part))
                for role, key in zip(("signer", "transmitter"), daemon, strict=True)
                for part in ("keystore", "password_file")
            },
            "log": {"format": "json"},
        }


@contextmanager
def a_network(kind: str, folder: Path, keys: Mapping[str, DemoKey]) -> Iterator[Network]:
    """Deploy the contracts on a new chain of this kind, and let twelve nodes join."""
    folder.mkdir()
    with NODES[kind]() as url:
        chain = NodeChain(kind, url)
        clock = ChainClock(START_TIME)
        _, creator, *_ = chain.make_request("eth_accounts")
        roles = DaemonRoles(
            keys["signer"].address, keys["transmitter"].address, Address(creator.lower())
        )
        stage = deploy_demo_network(chain, clock, roles)
        try:
            yield Network(chain, clock, stage, keys, folder)
        finally:
            chain.close()
