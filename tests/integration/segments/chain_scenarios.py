"""Scenarios of the ingest cases about the chain itself, the writer and its database."""

from dataclasses import replace

from devnet.fakechain.block_json import FakeLog
from devnet.fakechain.faults.transport_faults import build_callback_fault
from tests.integration.segments.faulty_worlds import World
from tests.integration.segments.response_scenarios import Scenario
from tests.support.ingest.event_encoding import (
    build_transaction,
    encode_network_log,
    encode_task_created_log,
)
from tests.support.ingest.forked import encode_unknown_join_log
from tests.support.ingest.indexer import FINALITY, Indexer
from tests.support.traffic import make_address

# More blocks than a window of any scenario.
_MORE = 45
_MOST = 2**256 - 1


def fork_after_reading(depth: int, blocks: int, finality: int = FINALITY) -> Scenario:
    """Everything is read, then the chain replaces `depth` blocks by others."""

    def scenario(world: World) -> Indexer:
        for provider in world.chain.providers:
            provider.tag_targets = {"safe": 2, "finalized": finality}
        world.chain.live(_MORE)
        indexer = world.read(world.indexer(finality=finality))
        world.chain.live(blocks, on=world.chain.back(depth))
        world.read(indexer)
        world.chain.live(_MORE)
        return world.read(indexer)

    return scenario


def denied_by_all(world: World) -> Indexer:
    """All endpoints deny the final block: nothing is undone, and nothing more is ingested."""
    indexer = world.read(world.indexer())
    world.expected = world.chain.head
    world.chain.show(
        world.chain.tree.mine_empty_blocks(60, parent_block=world.chain.back(FINALITY + 3))
    )
    return world.read(indexer)


def denied_by_one(world: World) -> Indexer:
    """One endpoint denies the final block, and the other continues."""
    indexer = world.read(world.indexer())
    original_head = world.chain.head
    fork_head = world.chain.tree.mine_empty_blocks(60, parent_block=world.chain.back(FINALITY + 3))
    world.chain.providers[0].head = fork_head
    world.chain.following = world.chain.providers[1:]
    world.chain.live(_MORE, on=original_head)
    return world.read(indexer)


def gap_denied(world: World) -> Indexer:
    """The same in a gap of blocks without events."""
    world.chain.mine_empty(40)
    indexer = world.read(world.indexer())
    world.expected = world.chain.head
    world.chain.mine_empty(60, on=world.chain.back(FINALITY + 10))
    return world.read(indexer)


def forked_while_undoing(world: World) -> Indexer:
    """The chain forks again while a fork is undone."""
    indexer = world.read(world.indexer())
    original_head = world.chain.head
    first = world.chain.live(4, on=world.chain.back(3, original_head))
    second = world.chain.tree.mine_empty_blocks(
        _MORE, parent_block=world.chain.back(5, original_head)
    )
    world.chain.show(first)
    world.spoil_all(
        lambda: build_callback_fault(
            lambda _: world.chain.show(second), methods="eth_getBlockByNumber", times=1
        )
    )
    return world.read(indexer)


def forked_while_reading(world: World) -> Indexer:
    """The chain forks while history is being read."""
    fork_head = world.chain.tree.mine_empty_blocks(20, parent_block=world.chain.back(4))
    request_count = [0]

    def at_twentieth(_request: object) -> None:
        request_count[0] += 1
        if request_count[0] == 20:
            world.chain.show(fork_head)

    world.spoil(build_callback_fault(at_twentieth, methods="eth_getBlockReceipts"))
    return world.read(world.indexer())


def into_an_empty_height(world: World) -> Indexer:
    world.chain.mine_empty(3)
    indexer = world.read(world.indexer())
    world.chain.emit(encode_unknown_join_log(), on=world.chain.back(3))
    world.chain.live(_MORE)
    return world.read(indexer)


def only_event_gone(world: World) -> Indexer:
    world.chain.emit(encode_unknown_join_log())
    indexer = world.read(world.indexer())
    world.chain.mine_empty(1, on=world.chain.back(1))
    world.chain.mine_empty(_MORE)
    return world.read(indexer)


def included_again(world: World) -> Indexer:
    first = world.chain.emit(encode_unknown_join_log())
    indexer = world.read(world.indexer())
    between = world.chain.mine_empty(1, on=world.chain.back(1))
    paused = build_transaction(encode_network_log("NodePaused", node=make_address(0xF00)))
    world.chain.show(world.chain.tree.mine([paused, *first.txs], between))
    world.chain.live(_MORE)
    return world.read(indexer)


def there_and_back(world: World) -> Indexer:
    indexer = world.read(world.indexer())
    original_head = world.chain.head
    world.chain.live(3, on=world.chain.back(2))
    world.read(indexer)
    world.chain.live(_MORE, on=original_head)
    return world.read(indexer)


def forked_while_down(world: World) -> Indexer:
    indexer = world.read(world.indexer())
    world.chain.live(_MORE, on=world.chain.back(4))
    return world.read(world.resume(indexer))


def skipped_heights(world: World) -> Indexer:
    for skipped in (1, 3, 5, 25):
        last = world.chain.head
        world.chain.tree.mine(
            [build_transaction(encode_task_created_log(last.number))],
            number=last.number + 1 + skipped,
        )
        world.chain.live(10)
    return world.read(world.indexer())


def set_final_tags(*tags: object) -> Scenario:
    """`finalized` points to these blocks in turn, with history in between."""

    def scenario(world: World) -> Indexer:
        indexer = world.indexer()
        for tag in tags:
            for provider in world.chain.providers:
                provider.tag_targets = {"safe": 2, "finalized": tag}  # type: ignore[dict-item]
            world.chain.live(20)
            world.read(indexer)
        return indexer

    return scenario


def no_tag(world: World) -> Indexer:
    for provider in world.chain.providers:
        provider.tag_targets = {}
    return world.read(world.indexer())


def final_above_newest(world: World) -> Indexer:
    above = world.chain.tree.mine_empty_blocks(5)
    world.chain.tree.last_mined = world.chain.provider.head
    world.chain.provider.tag_targets = {"safe": 2, "finalized": above}
    return world.read(world.indexer())


def odd_times(world: World) -> Indexer:
    for seconds in (0, -5, 0, 1):
        world.chain.live(15, seconds=seconds)
    world.chain.live(_MORE)
    return world.read(world.indexer())


def add_odd_logs(*emitted_logs: FakeLog) -> Scenario:
    """Add these odd logs in the middle of history."""

    def scenario(world: World) -> Indexer:
        for log in emitted_logs:
            world.chain.emit(log)
            world.chain.live(4)
        world.chain.live(_MORE)
        return world.read(world.indexer())

    return scenario


def encode_odd_join(**changed: object) -> FakeLog:
    named = {"node": make_address(0xB16), "stake": 1, "gpuName": "", "gpuVram": 0}
    version = {"major": 0, "minor": 0, "patch": 0, "models": []}
    return encode_network_log("NodeJoined", **named | version | changed)


def _dirty(log: FakeLog) -> FakeLog:
    return replace(log, data="0x" + "ee" * 31 + log.data[2:])


def _odd_topics(log: FakeLog) -> FakeLog:
    return replace(log, topics=log.topics[:-1])


def two_in_one(world: World) -> Indexer:
    world.chain.show(
        world.chain.tree.mine(
            [
                build_transaction(
                    encode_unknown_join_log(),
                    encode_task_created_log(1),
                    encode_task_created_log(2),
                )
            ]
        )
    )
    world.chain.live(_MORE)
    return world.read(world.indexer())


CHAINS: dict[str, dict[str, Scenario]] = {
    "01": {"": fork_after_reading(1, 1)},
    "02": {"": fork_after_reading(64, 66, finality=80)},
    "03": {"": fork_after_reading(100, 105, finality=120)},
    "04": {"": denied_by_all},
    "05": {"": denied_by_one},
    "06": {"": forked_while_undoing},
    "07": {"": forked_while_reading},
    "08": {"": fork_after_reading(5, 2)},
    "09": {"": fork_after_reading(1, 2)},
    "10": {"": into_an_empty_height},
    "11": {"": only_event_gone},
    "12": {"": included_again},
    "13": {"": there_and_back},
    "14": {"": forked_while_down},
    "15": {"": skipped_heights},
    "16": {"": gap_denied},
    "17": {"unknown": no_tag, "null": set_final_tags(None)},
    "18": {"": set_final_tags(FINALITY, 40, FINALITY)},
    "19": {"": final_above_newest},
    "21": {"": odd_times},
    "63": {
        "": add_odd_logs(_dirty(encode_unknown_join_log()), _dirty(encode_task_created_log(902)))
    },
    "64": {
        "": add_odd_logs(
            _odd_topics(encode_unknown_join_log()), _odd_topics(encode_task_created_log(902))
        )
    },
    "65": {
        "": add_odd_logs(
            encode_odd_join(stake=_MOST, gpuName="x" * 100_000),
            encode_odd_join(node=make_address(0xB17), gpuName="\0a"),
            encode_task_created_log(903, fee=_MOST),
        )
    },
    "66": {"": two_in_one},
}
