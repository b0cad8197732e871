"""The true chains: a story mined into real blocks, and the expected content of an index."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from devnet.fakechain.block_json import Block
from devnet.fakechain.tree import BlockTree, get_branch
from tests.faults.lies.expected import Content, Event, compute_expected_content
from tests.faults.lies.networks import NETWORKS, EncodedTransaction, Network
from tests.faults.lies.story import Story

CHAIN_ID = 31337
BUSY = 110
# Empty blocks after all others: the newest blocks are then no samples.
QUIET = 110
# Further empty blocks, with which the head becomes final.
SETTLING = 12
# Depth of finality; blocks above it are read with every header.
FINALITY = 8


@dataclass(frozen=True)
class TrueChain:
    """A chain, its blocks from the first one, and the expected content of an index."""

    network: Network
    tree: BlockTree
    blocks: Sequence[Block]
    content: Content

    @property
    def before_settling(self) -> int:
        """The height of the head before the chain continues."""
        return len(self.blocks) - 1 - SETTLING


@cache
def build_true_chain(profile: str, seed: int = 1, *, ends_quietly: bool = False) -> TrueChain:
    """Return the chain of a story; the same arguments give the same chain."""
    network = NETWORKS[profile]
    tree = BlockTree(CHAIN_ID)
    events: list[Event] = []
    for actions in Story(seed).blocks(BUSY, (QUIET if ends_quietly else 0) + SETTLING):
        written = [network.write(action) for action in actions]
        block = tree.mine([written_tx.tx for written_tx in written])
        events += _position_events(block, written)
    blocks = get_branch(tree.last_mined)
    return TrueChain(
        network, tree, blocks, compute_expected_content(blocks, network.watched, events)
    )


def _position_events(block: Block, written: Sequence[EncodedTransaction]) -> Iterator[Event]:
    """Yield the events of a block, with their positions."""
    index = 0
    for place, written_tx in enumerate(written):
        at = {"block": block.number, "tx": place, "time": block.time}
        # The event of a call precedes the logs of its transaction.
        for log, event in sorted(
            written_tx.events, key=lambda pair: -1 if pair[0] is None else pair[0]
        ):
            yield {**event, **at, "log": -1 if log is None else index + log}
        index += len(written_tx.tx.emitted_logs)
