"""The GPUs of the members, and how fast each answered in the newest groups, cached for a block."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, permutations
from statistics import median_low
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.state import Membership, Node
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# Number of the newest groups from which cards are compared.
MAX_GROUPS = 1_000


class Card(NamedTuple):
    """A GPU, with its video memory in GB if that is known."""

    gpu: str
    vram: int | None


class CardComparison(NamedTuple):
    """The times of a card compared with those of another, in the groups that both answered.

    `time_ratio` is the median of its time divided by the other's, over all pairs of answers in
    these groups, in units of 10^-18.
    """

    shared_groups: int
    time_ratio: int


class CardTable(NamedTuple):
    """The members with each card, and comparisons of cards, by `(other, card)`."""

    nodes_by_card: Mapping[Card, int]
    comparisons: Mapping[tuple[Card, Card], CardComparison]


def get_node_card(node: Node) -> Card | None:
    return None if node.gpu_name is None else Card(node.gpu_name, node.gpu_vram)


class CardTableCache:
    """A thread-safe cache of the newest table of cards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._table = CardTable({}, {})

    def load_card_table(
        self,
        uow: UnitOfWork,
        cursor: Cursor,
        nodes: Mapping[Address, Node],
        nodes_by_card: Mapping[Card, int],
    ) -> CardTable:
        """Return the card table as of the cursor of this snapshot.

        `nodes` are all nodes as of the cursor.
        """
        with self._lock:
            if self._epoch != cursor.epoch:
                groups = uow.results.list_newest_answer_times(MAX_GROUPS)
                self._table = CardTable(nodes_by_card, compare_cards(groups, nodes))
                self._epoch = cursor.epoch
            return self._table


def count_members_by_card(nodes: Iterable[Node]) -> Counter[Card]:
    """Count the members with each card; members whose card is unknown are left out."""
    return Counter(
        Card(node.gpu_name, node.gpu_vram)
        for node in nodes
        if node.membership is Membership.MEMBER and node.gpu_name is not None
    )


def compare_cards(
    groups: Sequence[Sequence[tuple[Address, int]]], nodes: Mapping[Address, Node]
) -> dict[tuple[Card, Card], CardComparison]:
    """Compare cards in groups, each given as the node and seconds of every ranked answer.

    Cards are those that the nodes have now.
    """
    ratios_by_pair: dict[tuple[Card, Card], list[list[int]]] = defaultdict(list)
    for answers in groups:
        times_by_card = defaultdict(list)
        for address, elapsed in answers:
            card = get_node_card(nodes[address]) if address in nodes else None
            if card is not None:
                times_by_card[card].append(elapsed)
        for other_card, card in permutations(times_by_card, 2):
            ratios_by_pair[other_card, card].append(
                [
                    elapsed * UNIT // other_elapsed
                    for elapsed in times_by_card[card]
                    for other_elapsed in times_by_card[other_card]
                ]
            )
    return {
        pair: CardComparison(len(ratios), median_low(chain.from_iterable(ratios)))
        for pair, ratios in ratios_by_pair.items()
    }
