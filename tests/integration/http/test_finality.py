"""The final block by the tag, by depth and by age: always the lowest."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, strategies as st

from devnet.fakechain.block_json import Block
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree, get_branch
from oracle.chain.heads import Finality, fetch_heads_in_batch
from oracle.domain.blocks import BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.endpoint import Endpoint
from tests.support.examples import examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Provider, Endpoint]]:
    """Yield an endpoint that serves any chain that a test sets."""
    with ExitStack() as until_the_end:
        provider = Provider(BlockTree(31337))
        url = until_the_end.enter_context(serve_endpoint(provider)).url
        endpoint = Endpoint(JsonRpcClient(url))
        until_the_end.callback(endpoint.close)
        yield provider, endpoint


def final(
    served: tuple[Provider, Endpoint], head: Block, finality: Finality, before: BlockRef | None
) -> BlockRef:
    provider, endpoint = served
    provider.tag_targets, endpoint.tags, endpoint.finalized = {}, (), None
    provider.head = head
    return fetch_heads_in_batch(endpoint, finality, before).final


def compute_expected_final(head: Block, finality: Finality, before: BlockRef | None) -> int:
    """Compute it by checking every block."""
    blocks = get_branch(head)
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
def test_final_block_is_the_newest_with_enough_depth_and_age(served, gaps, depth, seconds):
    """The block is computed twice: from nothing,
    and from the final block of some blocks before.
    """
    tree = BlockTree(31337)
    finality = Finality(depth, seconds)
    middle = None
    for place, gap in enumerate(gaps):
        tree.mine(seconds=gap)
        if place == len(gaps) // 2:
            middle = tree.last_mined
    assert middle is not None
    served[0]._blocks = tree.blocks

    first = final(served, middle, finality, None)
    second = final(served, tree.last_mined, finality, first)

    assert first.number == compute_expected_final(middle, finality, None)
    assert second.number == compute_expected_final(tree.last_mined, finality, first)


def test_updating_final_block_costs_at_most_four_requests(served: tuple[Provider, Endpoint]):
    tree = BlockTree(31337)
    finality = Finality(4, 600)
    tree.mine_empty_blocks(500)
    served[0]._blocks = tree.blocks
    before = final(served, tree.last_mined, finality, None)
    tree.mine()
    count_before = len(served[0].received_requests)

    assert final(served, tree.last_mined, finality, before).number == before.number + 1
    # The newest block, the one at the finality depth, and the two after it.
    assert len(served[0].received_requests) - count_before <= 4
