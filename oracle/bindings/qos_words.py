"""The contract QoSWords, from which consumers read scores without a proof: its words and calls.

Anyone writes words here, sixteen lanes each, by a proof against a root of the oracle.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracle.bindings.codec import encode_call
from oracle.bindings.contract_views import (
    DeployedContract,
    ViewCall,
    call_views,
    fetch_contract_code,
)
from oracle.bindings.qos_roots import build_leaf_values
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.domain.roots.proofs import NodeProof
from oracle.rpc.fanout import PoolView

CONTRACT = "roots/QoSWords"
# The contract takes up to this many words in one call.
MAX_RUN_WORDS = 2048


@dataclass(frozen=True, slots=True)
class StoredWord:
    """Sixteen lanes in the contract and the round from which they are; round 0: never written."""

    lanes: int
    round: int


@dataclass(frozen=True, slots=True)
class FallLimit:
    """The lanes that fell today by words of the last round, and the maximum of a day (UTC).

    A word that would exceed the maximum is left out; words of the round LAG rounds before the last
    one have no limit.
    """

    falls: int
    max_falls: int


@dataclass(frozen=True, slots=True)
class WordsConfiguration:
    """The contract's code and immutables; shares and QoS are in steps of 0.0001."""

    code: str
    oracle: Address
    lag_rounds: int
    fall_share: int
    big_fall: int
    max_rounds: int


class WordsContract:
    """Reads the contract at an address; every read is pinned to one block."""

    def __init__(self, pool_view: PoolView, address: Address) -> None:
        self._pool_view = pool_view
        self.address = address

    def get_words(self, first: int, count: int, block: BlockRef) -> list[StoredWord]:
        """Return `count` words from index `first` on, at a block.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        calls = [ViewCall("wordsAt", (first, count)), ViewCall("roundsAt", (first, count))]
        (lane_words,), (rounds,) = call_views(self._pool_view, self._contract, block, calls)
        return [
            StoredWord(lanes, round_number)
            for lanes, round_number in zip(lane_words, rounds, strict=True)
        ]

    def get_fall_limit(self, block: BlockRef) -> FallLimit:
        """Return how many lanes fell today, and how many may, at a block.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        (fall_numbers,) = call_views(
            self._pool_view, self._contract, block, [ViewCall("fallsToday")]
        )
        return FallLimit(*fall_numbers)

    def get_configuration(self, block: BlockRef) -> WordsConfiguration:
        """Return the contract's code and settings, which never change.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        views = ("ORACLE", "LAG", "FALL_SHARE", "BIG_FALL", "MAX_ROUNDS")
        calls = [ViewCall(name) for name in views]
        results = call_views(self._pool_view, self._contract, block, calls)
        oracle, lag, fall_share, big_fall, max_rounds = (result[0] for result in results)
        return WordsConfiguration(
            code=fetch_contract_code(self._pool_view, self._contract, block),
            oracle=Address(oracle.lower()),
            lag_rounds=lag,
            fall_share=fall_share,
            big_fall=big_fall,
            max_rounds=max_rounds,
        )

    @property
    def _contract(self) -> DeployedContract:
        return DeployedContract(CONTRACT, self.address, "its address")


def find_outdated_words(
    stored_words: Sequence[StoredWord], lane_words: Sequence[int], round_number: int
) -> list[int]:
    """Return the indexes of the words that differ from a round's and are from an older round.

    Both lists begin with word 0. A word without a node is 0, which the contract never stores.
    """
    return [
        index
        for index, (stored, lanes) in enumerate(zip(stored_words, lane_words, strict=True))
        if lanes and stored.round < round_number and stored.lanes != lanes
    ]


def group_word_runs(
    indexes: Iterable[int], max_words: int = MAX_RUN_WORDS
) -> list[tuple[int, int]]:
    """Group indexes of words into runs that one call can bring: (first index, number of words).

    A run has 2^k words and begins at a multiple of its length. A run holds no other word, and the
    runs are as long as possible.
    """
    runs: list[tuple[int, int]] = []
    for index in sorted(indexes):
        runs.append((index, 1))
        # Two neighbouring runs of the same length are one run if the first one is aligned.
        while (
            len(runs) > 1
            and runs[-2][1] == runs[-1][1] <= max_words // 2
            and sum(runs[-2]) == runs[-1][0]
            and runs[-2][0] % (2 * runs[-1][1]) == 0
        ):
            first, count = runs[-2]
            runs[-2:] = [(first, 2 * count)]
    return runs


def encode_bring_call(
    round_number: int, first: int, lane_words: Sequence[int], hashes: Sequence[bytes]
) -> str:
    """Return the calldata that writes a run of words of a round, by their proof."""
    return encode_call(CONTRACT, "bring", round_number, first, lane_words, hashes)


def encode_bind_call(proofs: Sequence[NodeProof]) -> str:
    """Return the calldata that binds nodes to their seats.

    The proofs are of the round LAG rounds before the last one.
    """
    leaves = [build_leaf_values(proof.leaf) for proof in proofs]
    return encode_call(CONTRACT, "bind", leaves, [proof.hashes for proof in proofs])
