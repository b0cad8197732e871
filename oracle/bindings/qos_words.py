"""Reads and writes the contract QoSWords, where consumers read scores without a proof.

A word has sixteen lanes. Anyone may write words into this contract, with a proof against a root of
the oracle.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from oracle.bindings.codec import decode_error_name, decode_result, encode_call
from oracle.bindings.contract_views import (
    DeployedContract,
    ViewCall,
    call_views,
    fetch_contract_code,
)
from oracle.bindings.qos_roots import build_leaf_values
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.domain.roots.round_tree import NodeProof
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format
from oracle.rpc.rpc_errors import CallRefusedError, RevertError

CONTRACT = "roots/QoSWords"
# The contract takes at most this many words in one call.
MAX_RUN_WORDS = 2048
# Maximum number of words that one call reads. RPC nodes limit the gas of a call, and reading a
# word takes 2,100 gas.
_MAX_VIEWED_WORDS = 2048
# The fixed cost of a call equals the gas of this many words (docs/reference/gas.md#the-hot-set).
_CALL_COST_WORDS = 6


@dataclass(frozen=True, slots=True)
class StoredWord:
    """A stored word of sixteen encoded scores (lanes), and the round from which they come.

    The round is 0 if the word was never written.
    """

    lanes: int
    round: int


@dataclass(frozen=True, slots=True)
class WordsConfiguration:
    """The contract's code and immutables.

    Shares and QoS are in steps of 0.0001.
    """

    code: str
    oracle: Address
    lag_rounds: int
    fall_share: int
    big_fall: int
    max_rounds: int


class WordsContract:
    """Reads the QoSWords contract at an address.

    All values of a read are as of one block.
    """

    def __init__(self, pool_view: PoolView, address: Address) -> None:
        self._pool_view = pool_view
        self.address = address

    def fetch_words(self, first_index: int, count: int, block: BlockRef) -> list[StoredWord]:
        """Fetch consecutive words as stored at a block.

        There are `count` words, from the index `first_index` on.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        calls = [
            ViewCall(view, (start, min(_MAX_VIEWED_WORDS, first_index + count - start)))
            for start in range(first_index, first_index + count, _MAX_VIEWED_WORDS)
            for view in ("wordsAt", "roundsAt")
        ]
        results = call_views(self._pool_view, self._contract, block, calls)
        return [
            StoredWord(lanes, round_number)
            for (lane_words,), (rounds,) in zip(results[::2], results[1::2], strict=True)
            for lanes, round_number in zip(lane_words, rounds, strict=True)
        ]

    def fetch_seats(self, nodes: Sequence[Address], block: BlockRef) -> list[int | None]:
        """Fetch each node's seat number at a block, or None if it has no seat.

        The seat is the index of the node's lane.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        block_tag = hex(block.number)
        requests = [
            (
                "eth_call",
                ({"to": self.address, "data": encode_call(CONTRACT, "indexOf", node)}, block_tag),
            )
            for node in nodes
        ]

        def read_seats(endpoint: EndpointCaller) -> list[int | None]:
            results = endpoint.request_all_or_refusals(requests)
            with expect_response_format(f"indexOf of a QoSWords at {self.address}"):
                return [_decode_seat(result) for result in results]

        return self._pool_view.read_from_first(read_seats)

    def fetch_fall_counts(self, block: BlockRef) -> tuple[int, int]:
        """Fetch how many scores were lowered today (UTC) as of a block, and the daily maximum.

        Only words of the last round count. A word that would exceed the maximum is skipped. Words
        of the round that is LAG rounds older than the last round have no limit.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        ((fall_count, max_falls),) = call_views(
            self._pool_view, self._contract, block, [ViewCall("fallsToday")]
        )
        return fall_count, max_falls

    def fetch_configuration(self, block: BlockRef) -> WordsConfiguration:
        """Fetch the contract's code and settings, which never change.

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
        return DeployedContract(CONTRACT, self.address, "hot_set.address")


def _decode_seat(result: "Json | CallRefusedError") -> int | None:
    """Decode the seat that `indexOf` returned, or return None for a node without a seat."""
    if isinstance(result, RevertError):
        if decode_error_name(CONTRACT, result.data or "") != "NotRegistered":
            raise result
        return None
    if isinstance(result, CallRefusedError):
        raise result
    (seat_index,) = decode_result(CONTRACT, "indexOf", str(result))
    return int(seat_index)


def find_outdated_words(
    stored_words: Sequence[StoredWord],
    lane_words: Sequence[int],
    round_number: int,
    min_round: int = 0,
) -> list[int]:
    """Return the indexes of words that differ from a round or are too old.

    A word is too old if its round is below `min_round`. Both lists begin with the word 0. Words of
    this or a later round are not outdated. A word without nodes is 0, which the contract never
    stores.
    """
    return [
        index
        for index, (stored_word, lanes) in enumerate(zip(stored_words, lane_words, strict=True))
        if lanes
        and stored_word.round < round_number
        and (stored_word.lanes != lanes or stored_word.round < min_round)
    ]


def group_words_into_runs(
    indexes: Iterable[int], max_words: int = MAX_RUN_WORDS
) -> list[tuple[int, int]]:
    """Group words into the cheapest runs, as pairs (first index, number of words).

    A run has 2^k words, at most `max_words`, and begins at a multiple of its length. Because each
    call has a fixed cost, a run may include words that need not be written.
    """
    return [
        run
        for block, block_indexes in groupby(
            sorted(set(indexes)), key=lambda index: index // max_words
        )
        for run in _find_cheapest_runs(list(block_indexes), block * max_words, max_words)[1]
    ]


def _find_cheapest_runs(
    indexes: Sequence[int], first_index: int, count: int
) -> tuple[int, list[tuple[int, int]]]:
    """Find the cheapest runs that cover these indexes, and return their cost with them.

    The cost is in words. The sorted `indexes` lie in the aligned run of `count` words that begins
    at `first_index`.
    """
    if not indexes:
        return 0, []
    whole_cost = _CALL_COST_WORDS + count
    if count == 1:
        return whole_cost, [(first_index, 1)]
    half_count = count // 2
    split_index = bisect_left(indexes, first_index + half_count)
    left_cost, left_runs = _find_cheapest_runs(indexes[:split_index], first_index, half_count)
    right_cost, right_runs = _find_cheapest_runs(
        indexes[split_index:], first_index + half_count, half_count
    )
    if whole_cost <= left_cost + right_cost:
        return whole_cost, [(first_index, count)]
    return left_cost + right_cost, left_runs + right_runs


def encode_write_words_call(
    round_number: int, first_index: int, lane_words: Sequence[int], hashes: Sequence[bytes]
) -> str:
    """Encode the call that writes consecutive words of a round, with their proof."""
    return encode_call(CONTRACT, "bring", round_number, first_index, lane_words, hashes)


def encode_bind_seats_call(proofs: Sequence[NodeProof]) -> str:
    """Encode the call that binds nodes to their seats.

    The proofs are of the round that is LAG rounds older than the last round.
    """
    leaf_values = [build_leaf_values(proof.leaf) for proof in proofs]
    return encode_call(CONTRACT, "bind", leaf_values, [proof.hashes for proof in proofs])
