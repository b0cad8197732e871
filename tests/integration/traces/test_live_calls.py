"""Events that are only in calls, followed at the head: forks, failures, undecodable calldata."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from eth_abi.abi import encode

from devnet.fakechain.block_json import Block, Tx
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockTree
from oracle.domain.ids import Address
from oracle.domain.state import Membership
from tests.integration.traces.following import FINALITY, Follower, addresses, daemon, vss_reader

pytestmark = [pytest.mark.slow]

TASKS, NODES = (Address(addresses()["contracts"][name].lower()) for name in ("VSSTask", "Node"))
ONE, OTHER, THIRD = (Address("0x" + f"{number:02x}" * 20) for number in (13, 14, 15))
_KINDS = ["string", "uint256", "uint256[3]", "bytes", "string[]"]
JOIN = "0x66d02792" + encode(_KINDS, ["RTX", 24, [2, 5, 0], b"", ["sdxl"]]).hex()
PAUSE, QUIT = "0x8456cb59", "0xfc2b8cc3"
ENOUGH = 400 * 10**18

Follow = Callable[[Provider], Follower]


def sent(sender: str, calldata: str, to: str | None = NODES, **tx_fields: object) -> Tx:
    return Tx(sender, to, calldata, value=ENOUGH if calldata == JOIN else 0, **tx_fields)  # type: ignore[arg-type]  # fields of Tx


@pytest.fixture
def tree() -> BlockTree:
    tree = BlockTree()
    tree.mine_empty_blocks(3)
    return tree


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """Return a function that opens a daemon on an endpoint, each with a separate database."""
    with ExitStack() as until_the_end:

        def open_one(provider: Provider) -> Follower:
            url = f"sqlite:///{tmp_path / f'{len(list(tmp_path.iterdir()))}.sqlite'}"
            return until_the_end.enter_context(daemon(url, provider, vss_reader(), endpoints=2))

        yield open_one


def index_to(provider: Provider, follower: Follower, head: Block) -> None:
    provider.head = head
    follower.index()


def memberships(follower: Follower) -> dict[Address, str]:
    return {node.address: node.membership.value for node in follower.nodes().values()}


def calls(follower: Follower, *, canonical: bool = True) -> list[tuple[int, int, str, bool]]:
    with follower.store.read_transaction() as uow:
        return [
            (call.block, call.tx, call.input[:10], call.succeeded)
            for call in uow.calls.iterate_between(0, 10_000, canonical=canonical)
        ]


def digest(follower: Follower) -> str:
    with follower.store.read_transaction() as uow:
        return str(uow.projections.compute_digest())


def letters(follower: Follower, *, canonical: bool = True) -> list[tuple[int, str]]:
    with follower.store.read_transaction() as uow:
        dead_letters = uow.dead_letters.list_between(0, 10_000, canonical=canonical)
    return [(letter.index, letter.name) for letter in dead_letters]


def test_only_calls_of_the_canonical_chain_take_effect_after_a_reorg(
    tree: BlockTree, follow: Follow
):
    """One node joins only on the first fork, another only on the second,
    a third at another position.
    """
    base = tree.last_mined
    joins = [
        sent(ONE, JOIN, nonce=71),
        sent(OTHER, JOIN, nonce=72, succeeded=False),
        sent(THIRD, JOIN, nonce=73),
    ]
    first = tree.mine(joins, base)
    provider = Provider(tree, first)
    follower = follow(provider)
    follower.index()
    assert memberships(follower) == {ONE: "member", THIRD: "member"}

    second = tree.mine([sent(OTHER, JOIN, nonce=72)], base)
    third = tree.mine(
        [sent(THIRD, JOIN, nonce=73), sent(ONE, JOIN, nonce=71, succeeded=False)], second
    )
    index_to(provider, follower, third)

    assert first.tx_hashes[1] == second.tx_hashes[0]
    assert memberships(follower) == {OTHER: "member", THIRD: "member"}
    number = second.number
    join = JOIN[:10]
    assert calls(follower) == [
        (number, 0, join, True),
        (number + 1, 0, join, True),
        (number + 1, 1, join, False),
    ]
    assert calls(follower, canonical=False) == [
        (number, 0, join, True),
        (number, 1, join, False),
        (number, 2, join, True),
    ]
    fresh = follow(provider)
    fresh.index()
    assert digest(follower) == digest(fresh)

    # Back again: the first fork is the longer one.
    index_to(provider, follower, tree.mine_empty_blocks(3, first))
    assert memberships(follower) == {ONE: "member", THIRD: "member"}
    fresh = follow(provider)
    fresh.index()
    assert digest(follower) == digest(fresh)


def test_undecodable_call_is_orphaned_with_its_block(tree: BlockTree, follow: Follow):
    base = tree.last_mined
    broken = sent(ONE, JOIN[:-130])
    reverted = sent(OTHER, JOIN[:10], succeeded=False)
    provider = Provider(tree, tree.mine([broken, sent(THIRD, JOIN), reverted], base))
    follower = follow(provider)

    follower.index()

    assert letters(follower) == [(-1, "join")]
    assert memberships(follower) == {THIRD: "member"}
    index_to(provider, follower, tree.mine_empty_blocks(2, base))
    assert letters(follower) == []
    assert letters(follower, canonical=False) == [(-1, "join")]


@pytest.mark.parametrize("lacking", [(), ("eth_getBlockReceipts",)])
def test_watched_calls_are_selected_from_block_transactions(
    tree: BlockTree, follow: Follow, lacking: tuple[str, ...]
):
    """Creations whose code begins like a call, payments, other functions, other contracts."""
    provider = Provider(tree)
    provider.unsupported |= set(lacking)
    follower = follow(provider)
    block = [
        sent(ONE, JOIN, to=None),
        sent(OTHER, "0x", to=NODES),
        sent(OTHER, "0x66d0", to=NODES),
        sent(OTHER, JOIN, to=TASKS),
        sent(ONE, JOIN, tx_type=0),
        sent(OTHER, JOIN, tx_type=1),
        sent(ONE, PAUSE + "deadbeef"),
        sent(OTHER, QUIT),
    ]

    index_to(provider, follower, tree.mine(block))
    index_to(provider, follower, tree.mine_empty_blocks(FINALITY + 2))

    nodes = follower.nodes()
    assert memberships(follower) == {ONE: "member", OTHER: "quit"}
    assert (nodes[ONE].paused, nodes[ONE].stake) == (True, ENOUGH)
    assert nodes[OTHER].membership is Membership.QUIT
    assert [index for _, index, _, _ in calls(follower)] == [4, 5, 6, 7]
    requested_methods = {request.method for request in list(provider.received_requests)}
    assert ("eth_getTransactionReceipt" in requested_methods) is bool(lacking)
