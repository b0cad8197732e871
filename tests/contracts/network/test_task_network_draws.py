"""A start that names its draw's seed block is rejected on any other history."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hexbytes import HexBytes
from web3 import Web3

from tests.support.evm.anvil import run_anvil
from tests.support.evm.artifacts import load_artifact
from tests.support.evm.chain import Chain, Receipt, RevertedError
from tests.support.evm.network import Network, Status

pytestmark = pytest.mark.evm

ARB_SYS = "0x" + 38 * "0" + "64"
# EIP-2935: the contract that returns block hashes beyond the last 256.
HISTORY = "0x0000F90827F1C53a10cb7A02335B175320002935"
# The first block number of the double.
ARBITRUM = 1_000_000


class Block(NamedTuple):
    number: int
    hash: bytes


@pytest.fixture
def network(busy: Network, chain: Chain) -> Network:
    return busy


@pytest.fixture
def brittle() -> Iterator[Network]:
    """Yield a network on a separate chain, because Anvil's snapshots do not survive a reorg."""
    with run_anvil() as url:
        chain = Chain(url)
        network = Network.deployed(chain)
        network.join(network.nodes[0])
        yield network
        chain.close()


def block(chain: Chain, number: int | None = None) -> Block:
    number = chain.block if number is None else number
    header = chain.rpc("eth_getBlockByNumber", hex(number), False)
    return Block(number, bytes(HexBytes(header["hash"])))


def start(network: Network, task: bytes, seed: Block, sender: str = "") -> Receipt:
    call = network.does.startTaskAsOf(task, network.nodes[0], seed.number, seed.hash)
    return network.by(sender or network.dispatcher, call)


def test_start_of_a_drawn_task_emits_its_draw_block_first(network: Network):
    task = network.create()
    seed = block(network.chain)
    receipt = start(network, task, seed)

    assert receipt.names == ["TaskDrawn", "TaskStarted"]
    assert receipt.only("TaskDrawn") == {
        "task": task,
        "node": network.nodes[0],
        "asOf": seed.number,
    }
    assert network.status(task) is Status.STARTED


def test_only_dispatcher_may_start_drawn_task(network: Network):
    task = network.create()
    with pytest.raises(RevertedError, match="NotDispatcher"):
        start(network, task, block(network.chain), network.creator)


def test_start_of_a_drawn_task_rejects_a_wrong_status_or_a_busy_node(network: Network):
    first = network.create()
    second = network.create()
    start(network, first, block(network.chain))
    with pytest.raises(RevertedError, match="WrongStatus"):
        start(network, first, block(network.chain))
    with pytest.raises(RevertedError, match="NodeBusy"):
        start(network, second, block(network.chain))


@pytest.mark.parametrize("wrong", [bytes(32), bytes(31) + b"\x01"])
def test_draw_with_a_wrong_block_hash_is_rejected(network: Network, wrong: bytes):
    task = network.create()
    seed = block(network.chain)
    with pytest.raises(RevertedError, match="Reorged") as caught:
        start(network, task, Block(seed.number, wrong))
    assert caught.value.values == (seed.number, wrong, seed.hash)


@pytest.mark.parametrize("ahead", [1, 2, 1000])
def test_draw_from_a_future_block_is_rejected(network: Network, ahead: int):
    task = network.create()
    late = network.chain.block + ahead
    with pytest.raises(RevertedError, match=rf"StaleAsOf\({late}\)"):
        start(network, task, Block(late, bytes(32)))


def test_draw_is_rejected_if_its_block_hash_is_no_longer_available(network: Network):
    task = network.create()
    chain = network.chain
    seed = block(chain)
    chain.mine(256)
    with chain.undone():
        start(network, task, seed)
        assert network.status(task) is Status.STARTED
    chain.rpc("anvil_setCode", HISTORY, "0x")
    with pytest.raises(RevertedError, match=rf"AsOfTooOld\({seed.number}\)"):
        start(network, task, seed)


def test_start_of_a_task_drawn_from_a_reorged_block_is_rejected(brittle: Network):
    chain = brittle.chain
    task = brittle.create()
    # A transaction that the reorg removes; an empty block would get the same hash again.
    brittle.create()
    seed = block(chain)
    chain.rpc("anvil_reorg", 1, [])
    assert block(chain, seed.number).hash != seed.hash
    with pytest.raises(RevertedError, match="Reorged"):
        start(brittle, task, seed)
    assert brittle.status(task) is Status.CREATED


def test_arbitrum_block_hashes_are_used_for_draws(fresh_chain: Chain):
    chain = fresh_chain
    with chain.undone():
        code = load_artifact("testing/ArbSysDouble")["deployedBytecode"]
        chain.rpc("anvil_setCode", ARB_SYS, code)
        network = Network.deployed(chain)
        network.join(network.nodes[0])
        task = network.create()
        number = ARBITRUM + chain.block
        abi_types = ["string", "uint256"]
        own = bytes(Web3.keccak(chain.web3.codec.encode(abi_types, ["arbitrum", number])))

        with pytest.raises(RevertedError, match="AsOfTooOld"):
            start(network, task, block(chain))
        with pytest.raises(RevertedError, match="AsOfTooOld"):
            start(network, task, Block(number - 256, own))
        assert start(network, task, Block(number, own)).only("TaskDrawn")["asOf"] == number
