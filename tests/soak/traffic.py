"""The traffic of a large reference network, as transactions of valid blocks."""

from collections import deque
from collections.abc import Iterator
from random import Random

from benchmarks.ordinary_traffic import Network
from devnet.fakechain.block_json import FakeLog, Tx
from tests.support.chain.memory_chain import UnminedLog as Words
from tests.support.chain.network_logs import NETWORK
from tests.support.ingest.event_encoding import ANYBODY

# The events of one step of a group.
Stage = list[Words]


def blocks_of(events: int, random: Random, logs_a_block: int) -> Iterator[list[Tx]]:
    """Yield the transactions of each block, with about `events` logs in total.

    Every step of a group is one transaction; the last groups are finished. A block has at most
    `logs_a_block` logs, except for later steps of earlier groups.
    """
    network = Network(random)
    joins = network.build_joins()
    yield [_tx(joins)]
    log_count = len(joins)
    under_way: deque[list[Stage]] = deque()
    while log_count < events or under_way:
        block: list[Stage] = []
        for _ in range(len(under_way)):
            stages = under_way.popleft()
            block.append(stages.pop(0))
            if stages:
                under_way.append(stages)
        while (
            log_count + _logs(block) < events
            and _logs(block) < logs_a_block
            and len(network.free_nodes) > 3
        ):
            begun, *stages = network.build_group_stages()
            block.append(begun)
            under_way.append(stages)
        log_count += _logs(block)
        yield [_tx(stage) for stage in block]


def _logs(block: list[Stage]) -> int:
    return sum(map(len, block))


def _tx(stage: Stage) -> Tx:
    logs = tuple(FakeLog(log.address, log.topics, log.data) for log in stage)
    return Tx(ANYBODY, NETWORK, logs=logs)
