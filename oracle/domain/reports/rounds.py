"""The oracle contract's state, folded from its own events, not from what was sent."""

from collections.abc import Iterable
from dataclasses import replace

from oracle.domain.events.oracle_events import (
    VETOER,
    ConfigSet,
    ContractEvent,
    KickCancelled,
    KickExecuted,
    KickLimitsSet,
    KickProposed,
    KickRefused,
    LimitsSet,
    NodeExpelled,
    NodeReadmitted,
    NodeRegistered,
    RoleSet,
    RoundAccepted,
    SettingEvent,
)
from oracle.domain.ids import Address
from oracle.domain.reports.contract_state import (
    NodeIndex,
    RoundHead,
    RoundLimits,
    RoundsChanges,
    RoundsPreImages,
    Standing,
    Word,
)
from oracle.domain.reports.kicks import (
    FOR_EVER,
    Kick,
    KickState,
    initial_expulsion,
    kick_from_proposal,
    record_execution,
    record_refusal,
)
from oracle.domain.reports.lanes import (
    DO_NOT_SELECT,
    LANES_PER_WORD,
    NEVER_REPORTED,
    lane_in,
    lanes_of,
    word_of,
)
from oracle.errors import FatalError


class Rounds:
    """The contract's state at the fold's position; small enough to be kept in memory.

    100,000 nodes are 6,250 words and 100,000 indexes.
    """

    def __init__(
        self,
        *,
        head: RoundHead | None = None,
        indexes: Iterable[NodeIndex] = (),
        words: Iterable[Word] = (),
        kicks: Iterable[Kick] = (),
        standing: Standing | None = None,
    ) -> None:
        self.head = head or RoundHead()
        self.indexes = {entry.index: entry for entry in indexes}
        self.words = {word.index: word for word in words}
        self.kicks = {kick.node: kick for kick in kicks}
        self.standing = standing or Standing()
        self.index_by_node = {entry.node: entry.index for entry in self.indexes.values()}
        self._changes = RoundsChanges()
        self._block: RoundsPreImages | None = None
        # The indexes announced by the contract's events, and their transaction; its round must
        # agree.
        self._said: dict[int, Address] = {}
        self._said_in = (-1, -1)

    def block(self, number: int, events: list[ContractEvent], *, journal: bool) -> None:
        """Fold one block's events, in order; with `journal`, keep pre-images.

        Raises:
            FatalError: the announced indexes differ from those of the contract's rounds.
        """
        self._block = RoundsPreImages(number, {}, {}, {}, ()) if journal else None
        for event in events:
            self._apply(event)
        if self._block is not None and events:
            self._changes.pre_images.append(self._block)
        self._block = None

    def drain(self) -> RoundsChanges:
        """Return the changes since the last call, and start a new collection."""
        changes, self._changes = self._changes, RoundsChanges()
        return changes

    @property
    def limits(self) -> RoundLimits:
        """The limits of the next round."""
        said = self.standing.limits
        if said is None:
            return RoundLimits()
        return RoundLimits(said.max_new_nodes, said.fall_share, said.big_fall)

    @property
    def node_count(self) -> int:
        """The number of assigned indexes."""
        return len(self.indexes)

    def lane_at(self, index: int) -> int:
        """Return the lane in the contract, or 0 if it was never written."""
        word = self.words.get(word_of(index))
        return NEVER_REPORTED if word is None else lane_in(word.value, index)

    def lane_of_node(self, node: Address) -> int:
        """Return the lane of the node's index, or 0 if it has none."""
        index = self.index_by_node.get(node)
        return NEVER_REPORTED if index is None else self.lane_at(index)

    def live_kick_of(self, node: Address) -> Kick | None:
        """Return the node's kickout that waits for execution, or None."""
        kick = self.kicks.get(node)
        return kick if kick is not None and kick.state is KickState.LIVE else None

    def _apply(self, event: ContractEvent) -> None:
        match event:
            case RoundAccepted():
                self._accept(event)
            case NodeRegistered(node=node, index=index):
                self._note_said((event.at.block, event.at.tx), index, node)
            case RoleSet() | LimitsSet() | KickLimitsSet() | ConfigSet():
                self._stand(event)
            case KickCancelled(node=node, by=by):
                self._end_kick(node, self._cancelled_by(by))
            case _:
                self._kick(event)

    def _kick(self, event: ContractEvent) -> None:
        """Apply an event about a kickout."""
        match event:
            case KickProposed():
                self._set_kick(kick_from_proposal(event))
            case KickExecuted(node=node):
                known = self.standing.kick_limits
                cooldown = FOR_EVER if known is None else known.kick_cooldown
                before, head_round = self.kicks.get(node), self.head.round
                self._set_kick(
                    record_execution(before, event, head_round=head_round, cooldown=cooldown)
                )
            case KickRefused(node=node):
                self._set_kick(record_refusal(self.kicks.get(node), event, self.head.round))
            case NodeExpelled():
                self._set_kick(initial_expulsion(event))
            case NodeReadmitted(node=node):
                self._readmit(node)
            case _:
                pass

    def _accept(self, event: RoundAccepted) -> None:
        if self._block is not None and not self._block.head:
            self._block = replace(self._block, head=(self.head,))
        self._register(event)
        self.head = RoundHead(event.round, event.as_of, event.digest, event.time)
        self._changes.head = self.head
        self._changes.accepted.append(event)
        for index, value in event.words:
            word = Word(index, value, event.round, event.time)
            if self._block is not None:
                self._block.words.setdefault(index, self.words.get(index))
            before = self.words.get(index)
            self.words[index] = self._changes.words[index] = word
            self._note_closed(word, 0 if before is None else before.value)

    def _register(self, event: RoundAccepted) -> None:
        """Assign indexes by the round's input, which must match the contract's own events."""
        is_same = self._said_in == (event.at.block, event.at.tx)
        said, self._said = self._said if is_same else {}, {}
        try:
            given = event.registrations.placed(self.index_by_node, self.node_count)
        except ValueError as error:
            given, why = {}, f": {error}"
        else:
            why = ""
        if why or given != said:
            raise FatalError(
                f"round {event.round} in block {event.at.block} registers {len(given)} nodes, the "
                f"contract's events tell of {len(said)}, or of others{why}: a log is missing "
                "(`qos-oracle resync verify --repair`), or [chain] start_block lies after the "
                "contract's first round"
            )
        for index, node in given.items():
            held = self.indexes.get(index)
            if held is not None:
                del self.index_by_node[held.node]
                # The contract drops an expired proposal with the index.
                self._end_kick(held.node, KickState.CANCELLED)
            self.index_by_node[node] = index
            self._set_index(NodeIndex(index, node))

    def _note_said(self, place: tuple[int, int], index: int, node: Address) -> None:
        if self._said_in != place:
            # The announced indexes are of a round that could not be decoded.
            self._said, self._said_in = {}, place
        self._said[index] = node

    def _note_closed(self, word: Word, before: int) -> None:
        """Record since when the lanes of a written word are "do not select"."""
        if before == word.value:
            return
        pairs = zip(lanes_of(before), lanes_of(word.value), strict=True)
        for place, (old, new) in enumerate(pairs):
            entry = self.indexes.get(word.index * LANES_PER_WORD + place)
            if old == new or entry is None:
                continue
            closed_in = word.round if new == DO_NOT_SELECT else None
            if entry.closed_in != closed_in:
                self._set_index(replace(entry, closed_in=closed_in))

    def _set_index(self, entry: NodeIndex) -> None:
        if self._block is not None:
            self._block.indexes.setdefault(entry.index, self.indexes.get(entry.index))
        self.indexes[entry.index] = self._changes.indexes[entry.index] = entry

    def _stand(self, event: SettingEvent) -> None:
        match event:
            case RoleSet(role=role) if role == VETOER:
                self.standing = replace(self.standing, vetoer=event.who)
            case LimitsSet():
                self.standing = replace(self.standing, limits=event)
            case KickLimitsSet():
                self.standing = replace(self.standing, kick_limits=event)
            case ConfigSet():
                self.standing = replace(self.standing, config=event)
                for kick in list(self.kicks.values()):
                    self._end_kick(kick.node, KickState.OUTDATED)
            case _:
                return
        self._changes.set.append(event)

    def _cancelled_by(self, by: Address) -> KickState:
        """Return whether a cancellation was a veto, or a cleanup of an expired kickout by anyone.

        Only the vetoer can cancel a live kickout. If the vetoer is unknown, the cancellation
        counts as a veto, because in doubt no node is kicked out.
        """
        vetoer = self.standing.vetoer
        return KickState.VETOED if vetoer is None or by == vetoer else KickState.CANCELLED

    def _readmit(self, node: Address) -> None:
        kick = self.kicks.get(node)
        if kick is not None:
            self._set_kick(replace(kick, state=KickState.READMITTED))

    def _end_kick(self, node: Address, state: KickState) -> None:
        kick = self.live_kick_of(node)
        if kick is not None:
            self._set_kick(replace(kick, state=state))

    def _set_kick(self, kick: Kick) -> None:
        if self._block is not None:
            self._block.kicks.setdefault(kick.node, self.kicks.get(kick.node))
        self.kicks[kick.node] = self._changes.kicks[kick.node] = kick
