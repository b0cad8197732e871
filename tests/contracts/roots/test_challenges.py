"""QoSChallenge: errors that a root's own leaves prove; a correct root proves none."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from web3.contract import Contract

from oracle.chain.proofs.keccak import keccak
from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE, QOS_STEP
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, hash_leaf
from oracle.domain.roots.merkle_tree import MerkleTree, hash_pair
from oracle.domain.scoring.node_scores import compute_pool_mean
from oracle.systems.registry import get_rules
from tests.contracts.roots.root_rounds import RootRound, make_leaves
from tests.contracts.roots.roots_driver import RootsOracle
from tests.contracts.roots.test_qos_words import get_error_name
from tests.support.evm.chain import Receipt

RULES = get_rules("crynux")
COUNT = 16


@dataclass(frozen=True)
class Challenge:
    roots: RootsOracle
    contract: Contract

    def push(self, leaves: Sequence[NodeLeaf]) -> RootRound:
        self.roots.push_leaves(leaves)
        return self.roots.last_round

    def send(self, name: str, *args: Any) -> Receipt:
        return self.roots.chain.send(getattr(self.contract.functions, name)(*args))

    def two_leaves(self, source: RootRound, seat: int, other: int) -> Receipt:
        proofs = (*source.proven(seat), *source.proven(other))
        return self.send("twoLeaves", source.round, *proofs)

    def wrong_lane(self, source: RootRound, seat: int) -> Receipt:
        return self.send("wrongLane", source.round, *source.proven(seat))

    def wrong_pool(self, source: RootRound, seat: int, pool: bytes) -> Receipt:
        return self.send("wrongPool", source.round, *source.proven(seat), pool)

    def is_wrong(self, source: RootRound) -> bool:
        call = self.contract.functions.isWrong(source.round)
        return bool(call.call(block_identifier="latest"))


@pytest.fixture
def challenge(roots: RootsOracle) -> Challenge:
    contract = roots.chain.deploy("roots/QoSChallenge", roots.contract.address, RULES.q_max)
    return Challenge(roots, contract)


@pytest.mark.parametrize("change", ["node", "seat"])
def test_challenge_of_a_round_with_two_leaves_of_one_node_succeeds(
    challenge: Challenge, change: str
) -> None:
    leaves = make_leaves(COUNT)
    tree_of = list(leaves)
    if change == "node":
        tree_of[5] = replace(leaves[5], node=leaves[2].node)
        source = challenge.push(tree_of)
    else:
        # The leaf is at index 5 of the tree and names seat 2: RoundTree uses the seat as
        # index.
        source = push_at_places(challenge, [*leaves[:5], replace(leaves[5], seat=2), *leaves[6:]])
    receipt = challenge.two_leaves(source, 2, 5)
    event = receipt.only("RoundWrong")
    assert (event["round"], event["reason"].rstrip(b"\0")) == (source.round, b"two leaves")
    assert challenge.is_wrong(source)
    assert get_error_name(lambda: challenge.two_leaves(source, 2, 5)) == "NothingWrong"


def push_at_places(challenge: Challenge, leaves: Sequence[NodeLeaf]) -> RootRound:
    roots = challenge.roots
    roots.chain.mine(2)
    candidate = roots.make_round(leaves)
    source = PlacedLeaves(
        leaves, candidate.chain_id, candidate.oracle, candidate.round, candidate.as_of
    )
    report = roots.report(source.root, as_of=source.as_of)
    roots.chain.later(20)
    roots.push(report)
    return source


@dataclass(frozen=True)
class PlacedLeaves(RootRound):
    """A round whose leaves are in the order of the list, whatever their seats are."""

    @property
    def sound(self) -> RootRound:
        placed = [replace(leaf, seat=place) for place, leaf in enumerate(self.leaves)]
        return RootRound(placed, self.chain_id, self.oracle, self.round, self.as_of)

    @property
    def hashes(self) -> MerkleTree:
        return MerkleTree(
            b"".join(hash_leaf(leaf.encode(), keccak) for leaf in self.leaves), keccak
        )

    @property
    def root(self) -> bytes:
        trees = hash_pair(self.hashes.root, self.sound.words_root, keccak)
        return hash_pair(hash_leaf(self.sound.summary.encode(), keccak), trees, keccak)

    def proof(self, seat: int) -> list[bytes]:
        return [*self.hashes.build_proof(seat), *self.sound.proof(0)[-2:]]


def test_challenge_of_a_round_with_a_leaf_in_the_gap_of_another_succeeds(
    challenge: Challenge,
) -> None:
    leaves = make_leaves(COUNT)
    ascending = sorted(leaves, key=lambda leaf: leaf.node)
    for place in (4, COUNT - 1):  # in the middle, and around the highest address
        first, hidden, last = (ascending[(place + step) % COUNT] for step in range(3))
        skipping = list(leaves)
        skipping[first.seat] = replace(first, next_node=last.node)
        source = challenge.push(skipping)
        # The skipped leaf could be proven to be absent.
        assert (
            get_error_name(
                lambda source=source, hidden=hidden, last=last: challenge.two_leaves(
                    source, hidden.seat, last.seat
                )
            )
            == "NothingWrong"
        )
        challenge.two_leaves(source, first.seat, hidden.seat)
        assert challenge.is_wrong(source)


def test_correct_round_withstands_a_challenge_with_two_leaves(challenge: Challenge) -> None:
    source = challenge.push(make_leaves(COUNT))
    for seat in range(COUNT):
        for other in (seat, (seat + 1) % COUNT, (seat + 5) % COUNT):
            assert (
                get_error_name(
                    lambda seat=seat, other=other: challenge.two_leaves(source, seat, other)
                )
                == "NothingWrong"
            )
    assert not challenge.is_wrong(source)


def make_random_leaves(count: int) -> list[NodeLeaf]:
    """Return leaves whose lanes the daemon's own rules compute from random pools."""
    chooser = random.Random(9)  # noqa: S311 -- the same leaves in each run
    states = [LeafFlag.MEMBER] * 3 + [
        LeafFlag.MEMBER | LeafFlag.HELD,
        LeafFlag.MEMBER | LeafFlag.PAUSED,
        LeafFlag.MEMBER | LeafFlag.EXCLUDED,
        LeafFlag(0),
        LeafFlag.HELD,
    ]
    by_seat: dict[int, dict[str, Any]] = {}
    for seat in range(count):
        pool = bytes(chooser.choice((0, 2, 5, 10)) for _ in range(chooser.randrange(51)))
        reliability = chooser.choice((UNIT, chooser.randrange(UNIT + 1)))
        flags = chooser.choice(states)
        qos = multiply_fixed_point(compute_pool_mean(pool, None, RULES), reliability)
        is_open = flags in {LeafFlag.MEMBER, LeafFlag.MEMBER | LeafFlag.HELD}
        by_seat[seat] = {
            "score_count": len(pool),
            "score_sum": sum(pool),
            "pool_hash": keccak(pool),
            "reliability": reliability,
            "flags": flags,
            "lane": qos // QOS_STEP + LOWEST_SCORE if is_open else DO_NOT_SELECT,
        }
    return make_leaves(count, by_seat)


def test_lane_challenge_succeeds_only_if_the_lane_differs_from_its_leaf(
    challenge: Challenge,
) -> None:
    leaves = make_random_leaves(64)
    source = challenge.push(leaves)
    for seat in range(64):
        assert (
            get_error_name(lambda seat=seat: challenge.wrong_lane(source, seat)) == "NothingWrong"
        )
    assert not challenge.is_wrong(source)
    judged = [
        leaf.seat
        for leaf in leaves
        if leaf.score_sum or not leaf.flags & LeafFlag.MEMBER or leaf.flags & 6
    ]
    for seat in judged[:12]:
        lane = leaves[seat].lane
        other = lane + 1 if lane < 10_002 else lane - 1
        changed = list(leaves)
        changed[seat] = replace(leaves[seat], lane=other)
        source = challenge.push(changed)
        assert challenge.wrong_lane(source, seat).only("RoundWrong")["reason"][:4] == b"lane"
        assert challenge.is_wrong(source)


@pytest.mark.parametrize("pool", [b"", bytes(50)])
def test_challenge_of_a_pool_without_a_positive_score_is_rejected(
    challenge: Challenge, pool: bytes
) -> None:
    by_seat = {3: {"score_count": len(pool), "score_sum": 0, "lane": 5_002}}
    source = challenge.push(make_leaves(COUNT, by_seat))
    assert get_error_name(lambda: challenge.wrong_lane(source, 3)) == "NothingWrong"


@pytest.mark.parametrize(("count_error", "sum_error"), [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])
def test_pool_challenge_succeeds_only_if_the_sum_or_count_is_wrong(
    challenge: Challenge, count_error: int, sum_error: int
) -> None:
    pool = bytes(place % 11 for place in range(50))
    by_seat = {
        3: {
            "score_count": len(pool) + count_error,
            "score_sum": sum(pool) + sum_error,
            "pool_hash": keccak(pool),
        }
    }
    source = challenge.push(make_leaves(COUNT, by_seat))
    # Other bytes are not the pool of the leaf.
    assert get_error_name(lambda: challenge.wrong_pool(source, 3, pool[:-1])) == "NothingWrong"
    if (count_error, sum_error) == (0, 0):
        assert get_error_name(lambda: challenge.wrong_pool(source, 3, pool)) == "NothingWrong"
    else:
        assert challenge.wrong_pool(source, 3, pool).only("RoundWrong")["reason"][:4] == b"pool"
    assert challenge.is_wrong(source) == ((count_error, sum_error) != (0, 0))


def test_challenge_with_a_leaf_of_another_round_is_rejected(challenge: Challenge) -> None:
    wrong = make_leaves(COUNT, {3: {"lane": 1}})
    source = challenge.push(make_leaves(COUNT))
    forged = RootRound(wrong, *challenge.roots.domain, source.round, source.as_of)
    assert get_error_name(lambda: challenge.wrong_lane(forged, 3)) == "NotProven"
    assert get_error_name(lambda: challenge.wrong_pool(forged, 3, b"")) == "NotProven"
    assert get_error_name(lambda: challenge.two_leaves(forged, 3, 4)) == "NotProven"
    assert (
        get_error_name(
            lambda: challenge.send("twoLeaves", source.round, *source.proven(4), *forged.proven(3))
        )
        == "NotProven"
    )
    later = replace_round(source, source.round + 1)
    assert get_error_name(lambda: challenge.wrong_lane(later, 3)) == "NoRoot"


def replace_round(source: RootRound, number: int) -> RootRound:
    return RootRound(source.leaves, source.chain_id, source.oracle, number, source.as_of)


@pytest.mark.parametrize("q_max", [0, 256])
def test_best_score_above_255_is_rejected(challenge: Challenge, q_max: int) -> None:
    arguments = (challenge.roots.contract.address, q_max)
    assert (
        get_error_name(lambda: challenge.roots.chain.deploy("roots/QoSChallenge", *arguments))
        == "BadMaxScore"
    )
