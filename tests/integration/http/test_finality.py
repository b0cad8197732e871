"""Final by the tag, by blocks and by seconds: always the lowest of them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, strategies as st

from devnet.fakechain.block_json import Block
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serving
from devnet.fakechain.tree import Tree, branch
from oracle.chain.finality import Finality
from oracle.chain.heads import read_heads
from oracle.domain.blocks import BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.endpoint import Endpoint
from tests.support.examples import examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Provider, Endpoint]]:
    """An endpoint that shows whatever chain a test gives it."""
    with ExitStack() as until_the_end:
        provider = Provider(Tree(31337))
        url = until_the_end.enter_context(serving(provider)).url
        endpoint = Endpoint(JsonRpcClient(url))
        until_the_end.callback(endpoint.close)
        yield provider, endpoint


def final(
    served: tuple[Provider, Endpoint], head: Block, finality: Finality, before: BlockRef | None
) -> BlockRef:
    provider, endpoint = served
    provider.tags, endpoint.tags, endpoint.finalized = {}, (), None
    provider.head = head
    return read_heads(endpoint, finality, before).final


def expected(head: Block, finality: Finality, before: BlockRef | None) -> int:
    """By looking at every block."""
    blocks = branch(head)
    deep = max(0, head.number - finality.depth)
    floor = 0 if before is None else before.number
    old = [b.number for b in blocks if b.time <= head.time - finality.seconds]
    return max(floor, min(deep, max(old, default=0)))


@examples(40)
@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=60),
    st.integers(1, 20),
    st.integers(0, 600),
)
def test_final_is_the_newest_block_that_is_deep_and_old_enough(served, gaps, depth, seconds):
    """Asked for twice: from nothing, and from what was final some blocks before."""
    tree, finality = Tree(31337), Finality(depth, seconds)
    middle = None
    for place, gap in enumerate(gaps):
        tree.mine(seconds=gap)
        if place == len(gaps) // 2:
            middle = tree.last
    assert middle is not None
    served[0]._blocks = tree.blocks

    first = final(served, middle, finality, None)
    second = final(served, tree.last, finality, first)

    assert first.number == expected(middle, finality, None)
    assert second.number == expected(tree.last, finality, first)


def test_from_one_look_to_the_next_it_costs_two_questions(served: tuple[Provider, Endpoint]):
    tree, finality = Tree(31337), Finality(4, 600)
    tree.mine_many(500)
    served[0]._blocks = tree.blocks
    before = final(served, tree.last, finality, None)
    tree.mine()
    asked = len(served[0].asked)

    assert final(served, tree.last, finality, before).number == before.number + 1
    # The newest, what the depth says, the next one, and the one after it.
    assert len(served[0].asked) - asked <= 4
