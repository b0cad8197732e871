"""The same network on Anvil, Hardhat's node and Ganache gives the same database."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from devnet.demo.demo_nodes import BLOCK_SECONDS
from devnet.demo.show import create_keys
from tests.integration.clients.ledgers import Ledger, canonical, ledger_of, list_orphaned_rows
from tests.integration.clients.networks import Network, a_network
from tests.integration.clients.nodes import NODES, install

# Three kinds of nodes, two of them from npm.
pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.evm]

OpenNetwork = Callable[[str], AbstractContextManager[Network]]


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    install()


@pytest.fixture
def network_on(tmp_path: Path) -> OpenNetwork:
    """Return a function that opens a network on a node;
    the daemon has the same keys on all of them.
    """
    (tmp_path / "keys").mkdir()
    keys = create_keys(tmp_path / "keys")
    return lambda kind: a_network(kind, tmp_path / kind, keys)


def assert_same(ledgers: dict[str, Ledger]) -> None:
    """Name the table and the first row that differ."""
    first, *other_kinds = ledgers
    for other_kind in other_kinds:
        for table, rows in ledgers[first].items():
            assert rows == ledgers[other_kind][table], (
                f"{table} differs between {first} and {other_kind}"
            )


def test_every_node_software_produces_the_same_database(
    network_on: OpenNetwork,
):
    ledgers = {}
    for kind in NODES:
        with network_on(kind) as network:
            for wave in range(5):
                network.play(network.wave(wave))
                network.run("daemon", "--publish")
                # A block for the daemon's own transactions.
                network.play([[]])
            ledgers[kind] = ledger_of(network.run("daemon", "--publish"))

    assert_same(ledgers)
    ledger = ledgers["anvil"]
    assert len(ledger["accepted_round"]) >= 2
    assert len(ledger["score"]) == 60
    assert len(ledger["log"]) > 300


@pytest.mark.parametrize("behind", [False, True])
def test_database_after_a_reorg_equals_a_fresh_index(network_on: OpenNetwork, *, behind: bool):
    """With `behind`, a daemon also runs while the reset chain is shorter than its index."""
    ledgers, orphans = {}, {}
    for kind in NODES:
        with network_on(kind) as network:
            first, second, third = (network.wave(wave) for wave in range(3))
            fork_wave = network.wave(1, seed=21)
            network.play(first)
            mark = network.chain.mark()
            network.play(second[:5])
            before = ledger_of(network.run())
            if behind and kind != "anvil":
                network.chain.go_back(mark)
                assert ledger_of(network.run()) == before
                mark = network.chain.mark()
            network.chain.replace(mark, fork_wave[:5])
            # The fork's tasks start at the mark's time, one block earlier than those of a wave.
            # Without this the slowest answer would come too late and its transaction would fail,
            # and a block of Ganache with a failed transaction is refused: Ganache encodes the
            # status of its receipt as a zero byte, so the receipts root is not the standard one.
            network.clock.now -= BLOCK_SECONDS
            network.play(fork_wave[5:])
            network.run()
            network.play(third)
            followed = ledger_of(network.run())
            afresh = ledger_of(network.run("afresh"))

        assert_same({"followed": canonical(followed), "afresh": canonical(afresh)})
        orphans[kind] = list_orphaned_rows(followed, "log")
        left = [{**row, "canonical": 0} for row in before["log"] if row["block"] > mark.number]
        assert orphans[kind] == left
        ledgers[kind] = followed
    assert_same(ledgers)
    assert len(orphans["anvil"]) > 30
