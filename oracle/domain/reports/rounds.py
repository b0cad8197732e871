"""The oracle contract's state, folded from its own events: what is on chain, not what we sent."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    VETOER,
    ContractEvent,
    IndexAssigned,
    IndexRetired,
    KickCancelled,
    KickExecuted,
    KickProposed,
    RoleSet,
    RoundAccepted,
)
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.lanes import NEVER_REPORTED, lane_in, word_of


@dataclass(frozen=True, slots=True)
class RoundHead:
    """The last accepted round; `round` 0 and a zero digest before the first.

    `time` is the time of the block that accepted it, 0 before the first.
    """

    round: int = 0
    as_of: int = 0
    digest: Hash = ZERO_HASH
    time: int = 0


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """One lane and whose it is; a retired one belongs to a node that was given another."""

    index: int
    node: Address
    retired: bool


@dataclass(frozen=True, slots=True)
class Word:
    """Sixteen lanes as the contract holds them; which round wrote them, and its block time."""

    index: int
    value: int
    round: int
    time: int


class KickState(StrEnum):
    """VETOED: by the vetoer of that time; CANCELLED: by anybody, when it was dead anyway."""

    LIVE = "live"
    CANCELLED = "cancelled"
    VETOED = "vetoed"
    EXECUTED = "executed"


@dataclass(frozen=True, slots=True)
class Kick:
    """The newest kickout proposed for a lane; `ready_at` in unix seconds."""

    index: int
    node: Address
    round: int
    evidence: Hash
    ready_at: int
    proposed_at: Position
    state: KickState


@dataclass(frozen=True, slots=True)
class RoundsPreImages:
    """What one block changed of the contract's state, as it was before; None: not there."""

    block: int
    words: dict[int, Word | None]
    indexes: dict[int, NodeIndex | None]
    kicks: dict[int, Kick | None]
    # The head before the block, in a tuple of one; empty when the block accepted no round.
    head: tuple[RoundHead, ...]


@dataclass(slots=True)
class RoundsChanges:
    """What has to be written down since the last `drain`."""

    words: dict[int, Word] = field(default_factory=dict)
    indexes: dict[int, NodeIndex] = field(default_factory=dict)
    kicks: dict[int, Kick] = field(default_factory=dict)
    head: RoundHead | None = None
    accepted: list[RoundAccepted] = field(default_factory=list)
    vetoers: list[RoleSet] = field(default_factory=list)
    pre_images: list[RoundsPreImages] = field(default_factory=list)


class Rounds:
    """The contract's state at the fold's position; small enough to be kept whole in memory.

    100,000 nodes are 6,250 words and 100,000 indexes.
    """

    def __init__(
        self,
        *,
        head: RoundHead | None = None,
        indexes: list[NodeIndex] | None = None,
        words: list[Word] | None = None,
        kicks: list[Kick] | None = None,
        vetoer: Address | None = None,
    ) -> None:
        self.head = head or RoundHead()
        self.indexes = {entry.index: entry for entry in indexes or []}
        self.words = {word.index: word for word in words or []}
        self.kicks = {kick.index: kick for kick in kicks or []}
        # None: the contract was there before the first block that we read.
        self.vetoer = vetoer
        self.index_by_node = {
            entry.node: entry.index for entry in self.indexes.values() if not entry.retired
        }
        self._changes = RoundsChanges()
        self._block: RoundsPreImages | None = None

    def block(self, number: int, events: list[ContractEvent], *, journal: bool) -> None:
        """Fold one block's events, in order; with `journal`, keep what they replace."""
        self._block = RoundsPreImages(number, {}, {}, {}, ()) if journal else None
        for event in events:
            self._apply(event)
        if self._block is not None and events:
            self._changes.pre_images.append(self._block)
        self._block = None

    def drain(self) -> RoundsChanges:
        """Hand over what has to be written down, and start anew."""
        changes, self._changes = self._changes, RoundsChanges()
        return changes

    def lane_at(self, index: int) -> int:
        """Return the lane as the contract holds it; 0 when never written."""
        word = self.words.get(word_of(index))
        return NEVER_REPORTED if word is None else lane_in(word.value, index)

    def lane_of_node(self, node: Address) -> int:
        """Return the lane of the node's current index; 0 when it has none or was never written."""
        index = self.index_by_node.get(node)
        return NEVER_REPORTED if index is None else self.lane_at(index)

    def live_kick_of(self, node: Address) -> Kick | None:
        """Return the kickout that waits for its execution against the node's current index."""
        index = self.index_by_node.get(node)
        kick = None if index is None else self.kicks.get(index)
        return kick if kick is not None and kick.state is KickState.LIVE else None

    def _apply(self, event: ContractEvent) -> None:
        match event:
            case RoundAccepted():
                self._accept(event)
            case IndexAssigned(node=node, index=index):
                self._set_index(NodeIndex(index, node, retired=False))
                self.index_by_node[node] = index
            case IndexRetired(node=node, index=index):
                self._set_index(NodeIndex(index, node, retired=True))
                self._end_kick(index, KickState.CANCELLED)
            case KickProposed():
                self._propose(event)
            case KickCancelled(index=index, by=by):
                self._end_kick(index, self._cancelled_by(by))
            case KickExecuted(index=index):
                self._end_kick(index, KickState.EXECUTED)
            case RoleSet(role=role) if role == VETOER:
                self.vetoer = event.who
                self._changes.vetoers.append(event)

    def _accept(self, event: RoundAccepted) -> None:
        if self._block is not None and not self._block.head:
            self._block = replace(self._block, head=(self.head,))
        self.head = RoundHead(event.round, event.as_of, event.digest, event.time)
        self._changes.head = self.head
        self._changes.accepted.append(event)
        for index, value in event.words:
            word = Word(index, value, event.round, event.time)
            if self._block is not None:
                self._block.words.setdefault(index, self.words.get(index))
            self.words[index] = self._changes.words[index] = word

    def _set_index(self, entry: NodeIndex) -> None:
        if self._block is not None:
            self._block.indexes.setdefault(entry.index, self.indexes.get(entry.index))
        self.indexes[entry.index] = self._changes.indexes[entry.index] = entry

    def _propose(self, event: KickProposed) -> None:
        self._set_kick(
            Kick(
                index=event.index,
                node=event.node,
                round=event.round,
                evidence=event.evidence,
                ready_at=event.ready_at,
                proposed_at=event.at,
                state=KickState.LIVE,
            )
        )

    def _cancelled_by(self, by: Address) -> KickState:
        """Tell a veto from what anybody may do to a dead kickout, its node before all.

        Only the vetoer can cancel one that is alive. Where we do not know who that was it counts
        as a veto: a doubt kicks nobody out.
        """
        is_veto = self.vetoer is None or by == self.vetoer
        return KickState.VETOED if is_veto else KickState.CANCELLED

    def _end_kick(self, index: int, state: KickState) -> None:
        kick = self.kicks.get(index)
        if kick is not None and kick.state is KickState.LIVE:
            self._set_kick(replace(kick, state=state))

    def _set_kick(self, kick: Kick) -> None:
        if self._block is not None:
            self._block.kicks.setdefault(kick.index, self.kicks.get(kick.index))
        self.kicks[kick.index] = self._changes.kicks[kick.index] = kick
