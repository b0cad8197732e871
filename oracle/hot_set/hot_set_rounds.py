"""The rounds whose words can be written to the hot set, and how far it lags behind them."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.bindings.qos_words import StoredWord, WordsContract, find_outdated_words
from oracle.domain.blocks import BlockRef
from oracle.domain.reports.lanes import pack_lane_words
from oracle.domain.roots.pieces import PiecedRound
from oracle.errors import TransientError
from oracle.indexer.round_leaves import LeafCache, load_pieced_round, load_round_lanes
from oracle.store.database import Store
from oracle.telemetry.outbox_counts import MAX_LAG_ROUNDS, HotSetLag


@dataclass(frozen=True, slots=True)
class HotSetRound:
    """An accepted round with stored leaves, and its words in the hot set."""

    pieced_round: PiecedRound
    lane_words: Sequence[int]

    def find_outdated_indexes(
        self, stored_words: Sequence[StoredWord], min_round: int = 0
    ) -> list[int]:
        """Return the indexes of the contract's words that differ from this round.

        See `find_outdated_words`.
        """
        lane_words = self.lane_words[: len(stored_words)]
        round_number = self.pieced_round.summary.round
        return find_outdated_words(
            stored_words[: len(lane_words)], lane_words, round_number, min_round
        )


def load_hot_set_round(
    store: Store, leaf_cache: LeafCache, round_number: int
) -> HotSetRound | None:
    """Load an accepted round.

    The result is None if its root was withdrawn or its leaves are not stored.
    """
    with store.read_transaction() as uow:
        accepted_round = uow.rounds.find_accepted_round(round_number)
        if accepted_round is None or uow.rounds.is_struck(round_number):
            return None
        pieced_round = load_pieced_round(uow, leaf_cache, accepted_round)
        if pieced_round is None:
            return None
        lanes = load_round_lanes(uow, leaf_cache, accepted_round)
    return HotSetRound(pieced_round, pack_lane_words(lanes))


def measure_hot_set_lag(
    store: Store, leaf_cache: LeafCache, contract: WordsContract, block: BlockRef
) -> HotSetLag | None:
    """Return how far the hot set lags behind the last round accepted up to a block.

    The result is None (unknown) if the root of this round was withdrawn, if its leaves are not
    stored, or if no endpoint returns the words in the contract.
    """
    with store.read_transaction() as uow:
        accepted_round = uow.rounds.find_last_provable_round(up_to_block=block.number)
    if accepted_round is None:
        return None
    last_round = load_hot_set_round(store, leaf_cache, accepted_round.round)
    if last_round is None:
        return None
    try:
        stored_words = contract.fetch_words(0, len(last_round.lane_words), block)
    except TransientError:
        return None
    outdated_word_count = len(last_round.find_outdated_indexes(stored_words))
    rounds_behind = 0
    checked_round: HotSetRound | None = last_round
    while (
        checked_round is not None
        and rounds_behind < MAX_LAG_ROUNDS
        and checked_round.find_outdated_indexes(stored_words)
    ):
        rounds_behind += 1
        checked_round = load_hot_set_round(store, leaf_cache, accepted_round.round - rounds_behind)
    return HotSetLag(rounds_behind, outdated_word_count)
