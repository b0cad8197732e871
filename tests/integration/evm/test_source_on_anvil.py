"""The chain source on a real EVM: Anvil's responses are read completely,
and forks are detected.
"""

from collections.abc import Iterator

import pytest

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange, Position
from oracle.domain.events.network_events import (
    NodeJoined,
    TaskCreated,
    TaskKind,
    TaskStarted,
    TaskSubmitted,
    TaskSucceeded,
    TaskTimedOut,
    TaskValidated,
)
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address, TaskKey
from oracle.errors import InputError
from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import RootsOracle, deploy_roots
from tests.pools import source_on
from tests.support.evm.anvil import run_anvil
from tests.support.evm.chain import Chain
from tests.support.evm.network import FEE, GPU, MIN_STAKE, TIMEOUT, VERSION, VRAM, Network

pytestmark = pytest.mark.evm


@pytest.fixture(scope="module")
def fresh() -> Iterator[tuple[Chain, Network, RootsOracle]]:
    """Yield one Anvil with both contracts; the oracle belongs to a separate network."""
    with run_anvil() as url:
        chain = Chain(url)
        yield chain, Network.deployed(chain), deploy_roots(chain)
        chain.close()


@pytest.fixture
def both(fresh: tuple[Chain, Network, RootsOracle]) -> Iterator[tuple[Network, RootsOracle]]:
    chain, network, oracle = fresh
    with chain.undone():
        yield network, oracle


@pytest.fixture
def reader(both: tuple[Network, RootsOracle]) -> EventReader:
    network, oracle = both
    contracts = {"TaskNetwork": network.contract.address}
    return EventReader.from_profile("reference", contracts, oracle.contract.address)


@pytest.fixture
def source(both: tuple[Network, RootsOracle], reader: EventReader) -> Iterator[ChainSource]:
    source = source_on(reader, both[0].chain.url, depth=8)
    yield source
    source.close()


def window_to_the_head(source: ChainSource, first: int) -> BlockWindow:
    head = source.fetch_heads().latest.number
    return source.fetch_window(BlockRange(first, head), with_headers=True)


def test_decoded_task_lifecycle_matches_the_calls_on_chain(
    both: tuple[Network, RootsOracle], reader: EventReader, source: ChainSource
):
    network, _ = both
    node = network.nodes[0]
    creator = network.creator
    first = network.chain.block + 1
    network.join(node, models=["sdxl"])
    task = network.submitted(node, kind=1)
    network.by(creator, network.does.validateTask(task))

    window = window_to_the_head(source, first)

    key = TaskKey("0x" + task.hex())
    runner = Address(node.lower())
    events = reader.decode_rows(window.logs, window.calls).events
    times = {header.number: header.time for header in window.headers}
    assert [event.time for event in events] == [times[event.at.block] for event in events]
    joined, created, started, *_, succeeded = events
    at = Position(first, 0, 0)
    time = times[first]
    assert joined == NodeJoined(at, time, runner, MIN_STAKE, GPU, VRAM, VERSION, ("sdxl",))
    assert isinstance(created, TaskCreated)
    assert (created.task, created.creator, created.fee) == (key, creator.lower(), FEE)
    assert (created.kind, created.timeout, created.group) == (TaskKind.LLM, TIMEOUT, None)
    assert started == TaskStarted(started.at, started.time, key, runner)
    assert [type(event) for event in events[3:5]] == [TaskSubmitted, TaskValidated]
    assert succeeded == TaskSucceeded(succeeded.at, succeeded.time, key, runner)


def test_task_timeout_is_decoded_one_second_after_the_limit(
    both: tuple[Network, RootsOracle], reader: EventReader, source: ChainSource
):
    network, _ = both
    network.join(network.nodes[0])
    task = network.create_started_task(network.nodes[0])
    network.chain.at(network.time_limit(task) + 1)
    network.time_out(task)

    window = window_to_the_head(source, network.chain.block)

    (event,) = reader.decode_rows(window.logs, window.calls).events
    assert isinstance(event, TaskTimedOut)
    assert event.time == network.time_limit(task) + 1


def test_round_is_decoded_from_its_log_alone(
    both: tuple[Network, RootsOracle], reader: EventReader, source: ChainSource
):
    _, oracle = both
    first = oracle.chain.block + 1
    oracle.push_leaves(make_leaves(17))

    window = window_to_the_head(source, first)

    (accepted,) = reader.decode_rows(window.logs, window.calls).contract_events
    assert isinstance(accepted, RoundAccepted)
    assert (accepted.round, accepted.as_of) == (1, oracle.last_round.as_of)
    assert accepted.root == "0x" + oracle.last_round.root.hex()
    assert accepted.config == "0x" + bytes(oracle.read("configDigest")).hex()
    assert accepted.signer_bitmap == 0b011


def test_fork_is_detected_as_a_parent_mismatch(
    both: tuple[Network, RootsOracle], source: ChainSource
):
    network, _ = both
    network.chain.mine(2)
    # Empty blocks at the same time would be the same blocks again.
    network.chain.later(100)
    network.chain.mine(4)
    head = network.chain.block
    before = source.fetch_window(BlockRange(head - 5, head - 2), with_headers=True)
    network.chain.rpc("anvil_reorg", 4, [])

    after = source.fetch_window(BlockRange(head - 1, head), with_headers=True)

    assert after.first_parent != before.last.hash
    common = source.fetch_header(head - 4)
    assert common is not None
    assert common.hash == before.headers[1].hash


def test_configured_contracts_pass_the_startup_check(source: ChainSource):
    source.check_endpoints()


def test_address_without_contract_is_reported(both: tuple[Network, RootsOracle]):
    network, oracle = both
    reader = EventReader.from_profile(
        "reference", {"TaskNetwork": network.nodes[0]}, oracle.contract.address
    )
    source = source_on(reader, network.chain.url, depth=8)

    with pytest.raises(InputError, match="there is no contract"):
        source.check_endpoints()
    source.close()
