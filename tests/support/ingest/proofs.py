"""Runs `run --once` on a chain with valid headers, and compares the index with the chain."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.tree import get_branch
from oracle.chain.verification.calibration import HeaderFeature, get_feature_fact_name
from oracle.cli.main import run
from oracle.domain.coverage import VerificationLevel
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from oracle.store.database import Store
from tests.support.chain.network_logs import NETWORK
from tests.support.cli.local_network import write_config
from tests.support.ingest.daemons import build_daemon_settings
from tests.support.ingest.event_encoding import ANYBODY, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY

Row = tuple[int, str, int, str]

# An address of other contracts, whose logs are not indexed.
FOREIGN = Tx(ANYBODY, ANYBODY, logs=(FakeLog(ANYBODY, ("0x" + "11" * 32,)),))
FAILED = Tx(ANYBODY, NETWORK, succeeded=False)


def add_provable_blocks(chain: FakeChain, blocks: int = 60) -> list[Block]:
    """Add blocks with our logs, foreign logs and failures; return the blocks with our logs.

    In every part of the chain there are more than enough of them to prove the headers.
    """
    network_blocks = []
    for number in range(blocks):
        task_tx = Tx(ANYBODY, NETWORK, logs=(encode_task_created_log(10_000 + number),))
        network_blocks.append(chain.show(chain.tree.mine([task_tx, FOREIGN, FAILED])))
        chain.show(chain.tree.mine([FOREIGN]))
        chain.mine_empty(1)
    chain.mine_empty(FINALITY + 2)
    return network_blocks


@dataclass
class Site:
    """One configuration and its database; each `once` is a complete process."""

    chain: FakeChain
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def once(self, *places: int | str, **verify: object) -> tuple[int, str]:
        """Run `run --once` on these endpoints, given by index or URL.

        Return exit code and output.
        """
        path = self.configured(*places, **verify)
        self.capsys.readouterr()
        code = run(["run", "--once", "--config", str(path)])
        error_lines = [line for line in self.capsys.readouterr().err.splitlines() if line]
        return code, error_lines[-1] if error_lines and code else ""

    def tell(self, *arguments: str) -> tuple[int, str]:
        """Run another command; return the exit code and the output."""
        self.capsys.readouterr()
        code = run([*arguments, "--config", str(self.folder / "config.toml")])
        captured = self.capsys.readouterr()
        return code, captured.out + captured.err

    def configured(self, *places: int | str, **verify: object) -> Path:
        config = build_daemon_settings(self.chain, self.folder)
        config["chain"]["endpoints"] = [
            place if isinstance(place, str) else self.chain.urls[place] for place in places
        ]
        # Without reports, only the newest blocks are read like the head.
        del config["oracle"]
        if verify:
            config["verify"] = verify
        return write_config(config, self.folder / "config.toml")

    def rows(self) -> list[Row]:
        """Return every canonical log in the database: block, hash, index and data."""
        with self.open_store() as store, store.read_transaction() as uow:
            logs = list(uow.logs.iterate_between(0, 2**62))
            return [(log.block, log.block_hash, log.index, log.data) for log in logs]

    def truth(self) -> list[Row]:
        """Return every canonical log of the chain, in the form of `rows`."""
        return [
            (block.number, block.hash, int(log["logIndex"], 16), log["data"])
            for block in get_branch(self.chain.head)
            for log in block.logs
            if log["address"] == NETWORK
        ]

    def levels(self, last: int) -> set[VerificationLevel]:
        """Return the verification levels of the blocks up to `last`."""
        with self.open_store() as store, store.read_transaction() as uow:
            scope = uow.coverage.get_current_scope()
            assert scope is not None
            assert uow.coverage.list_gaps(scope.id, 0, last) == []
            return {span.level for span in uow.coverage.list_intervals(scope.id, 0, last)}

    def forget_feature(self, feature: HeaderFeature) -> None:
        """Delete the stored fact that a feature is proven, as if the process had not stored it."""
        with self.open_store() as store, store.transaction() as uow:
            assert uow.facts.get(CHAIN_FACTS_KEY, get_feature_fact_name(feature), 0) == "right"
            uow.facts.delete(CHAIN_FACTS_KEY, get_feature_fact_name(feature))

    def cursor(self) -> int:
        with self.open_store() as store, store.read_transaction() as uow:
            at = uow.cursor.get()
            return -1 if at is None else at.number

    def final(self) -> int | None:
        """Return the highest block that counts as final, or None."""
        with self.open_store() as store, store.read_transaction() as uow:
            at = uow.cursor.get()
            return None if at is None else at.final_number

    def open_store(self) -> "_Opened":
        """Return the database, which is open within a `with` block."""
        return _Opened(f"sqlite:///{self.folder / 'oracle.sqlite'}")


@dataclass
class _Opened:
    url: str

    def __enter__(self) -> Store:
        self.store = Store.open(self.url)
        return self.store

    def __exit__(self, *_: object) -> None:
        self.store.close()
