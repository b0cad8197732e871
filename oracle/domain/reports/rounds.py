"""The oracle contract's state, folded from the contract's events, not from sent transactions."""

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
    ContractSettings,
    NodeIndex,
    RoundHead,
    RoundLimits,
    RoundsChanges,
    RoundsPreImages,
    Word,
)
from oracle.domain.reports.expulsions import NEVER_EXPIRES
from oracle.domain.reports.kicks import (
    Kick,
    KickState,
    build_executed_kick,
    build_initial_expulsion,
    build_proposed_kick,
    build_refused_kick,
)
from oracle.domain.reports.lanes import (
    DO_NOT_SELECT,
    LANES_PER_WORD,
    NEVER_REPORTED,
    extract_lane,
    get_word_index,
    unpack_lanes,
)
from oracle.errors import FatalError


class Rounds:
    """The contract's state at the position of the fold, kept in memory.

    For 100,000 nodes there are 6,250 words and 100,000 indexes.
    """

    def __init__(
        self,
        *,
        head: RoundHead | None = None,
        indexes: Iterable[NodeIndex] = (),
        words: Iterable[Word] = (),
        kicks: Iterable[Kick] = (),
        settings: ContractSettings | None = None,
    ) -> None:
        self.head = head or RoundHead()
        self.indexes = {entry.index: entry for entry in indexes}
        self.words = {word.index: word for word in words}
        self.kicks = {kick.node: kick for kick in kicks}
        self.settings = settings or ContractSettings()
        self.index_by_node = {entry.node: entry.index for entry in self.indexes.values()}
        self._changes = RoundsChanges()
        self._pre_images: RoundsPreImages | None = None
        # The indexes that the contract's events announced, and the transaction of these events.
        # The round in that transaction must assign the same indexes.
        self._announced: dict[int, Address] = {}
        self._announced_in = (-1, -1)

    def fold_block(self, number: int, events: list[ContractEvent], *, journal: bool) -> None:
        """Fold one block's events, in order; with `journal`, keep pre-images.

        Raises:
            FatalError: the announced indexes differ from those that a round assigns.
        """
        self._pre_images = RoundsPreImages(number, {}, {}, {}, ()) if journal else None
        for event in events:
            self._apply_event(event)
        if self._pre_images is not None and events:
            self._changes.pre_images.append(self._pre_images)
        self._pre_images = None

    def drain_changes(self) -> RoundsChanges:
        """Return the changes since the last call, and start a new collection."""
        changes, self._changes = self._changes, RoundsChanges()
        return changes

    @property
    def limits(self) -> RoundLimits:
        """The contract's limits for the next round."""
        limits_event = self.settings.limits
        if limits_event is None:
            return RoundLimits()
        return RoundLimits(
            limits_event.max_new_nodes, limits_event.fall_share, limits_event.big_fall
        )

    @property
    def node_count(self) -> int:
        """The number of assigned indexes."""
        return len(self.indexes)

    def get_lane(self, index: int) -> int:
        """Return a lane as stored in the contract, or 0 if it was never written."""
        word = self.words.get(get_word_index(index))
        return NEVER_REPORTED if word is None else extract_lane(word.value, index)

    def get_node_lane(self, node: Address) -> int:
        """Return the lane of the node's index, or 0 if it has none."""
        index = self.index_by_node.get(node)
        return NEVER_REPORTED if index is None else self.get_lane(index)

    def get_live_kick(self, node: Address) -> Kick | None:
        """Return the node's kickout that waits for execution, or None."""
        kick = self.kicks.get(node)
        return kick if kick is not None and kick.state is KickState.LIVE else None

    def _apply_event(self, event: ContractEvent) -> None:
        match event:
            case RoundAccepted():
                self._accept_round(event)
            case NodeRegistered(node=node, index=index):
                self._record_announced_index((event.at.block, event.at.tx), index, node)
            case RoleSet() | LimitsSet() | KickLimitsSet() | ConfigSet():
                self._apply_setting(event)
            case KickCancelled(node=node, by=canceller):
                self._end_kick(node, self._get_cancelled_state(canceller))
            case _:
                self._apply_kick_event(event)

    def _apply_kick_event(self, event: ContractEvent) -> None:
        match event:
            case KickProposed():
                self._set_kick(build_proposed_kick(event))
            case KickExecuted(node=node):
                kick_limits = self.settings.kick_limits
                cooldown = NEVER_EXPIRES if kick_limits is None else kick_limits.kick_cooldown
                existing, head_round = self.kicks.get(node), self.head.round
                self._set_kick(
                    build_executed_kick(existing, event, head_round=head_round, cooldown=cooldown)
                )
            case KickRefused(node=node):
                self._set_kick(build_refused_kick(self.kicks.get(node), event, self.head.round))
            case NodeExpelled():
                self._set_kick(build_initial_expulsion(event))
            case NodeReadmitted(node=node):
                self._readmit_node(node)
            case _:
                pass

    def _accept_round(self, event: RoundAccepted) -> None:
        if self._pre_images is not None and not self._pre_images.head:
            self._pre_images = replace(self._pre_images, head=(self.head,))
        self._register_nodes(event)
        self.head = RoundHead(event.round, event.as_of, event.digest, event.time)
        self._changes.head = self.head
        self._changes.accepted.append(event)
        for index, value in event.words:
            word = Word(index, value, event.round, event.time)
            if self._pre_images is not None:
                self._pre_images.words.setdefault(index, self.words.get(index))
            before = self.words.get(index)
            self.words[index] = self._changes.words[index] = word
            self._record_closed_lanes(word, 0 if before is None else before.value)

    def _register_nodes(self, event: RoundAccepted) -> None:
        """Assign the indexes in the round's input, which must match the contract's own events."""
        is_same = self._announced_in == (event.at.block, event.at.tx)
        announced, self._announced = self._announced if is_same else {}, {}
        try:
            node_by_index = event.registrations.compute_assigned_indexes(
                self.index_by_node, self.node_count
            )
        except ValueError as error:
            node_by_index, error_detail = {}, f": {error}"
        else:
            error_detail = ""
        if error_detail or node_by_index != announced:
            raise FatalError(
                f"round {event.round} in block {event.at.block} registers {len(node_by_index)} "
                f"nodes, but the contract's events announce {len(announced)} nodes or different "
                f"addresses{error_detail}; a log is missing (`qos-oracle resync verify "
                "--repair`), or [chain] start_block is after the contract's first round"
            )
        for index, node in node_by_index.items():
            previous_entry = self.indexes.get(index)
            if previous_entry is not None:
                del self.index_by_node[previous_entry.node]
                # The contract drops an expired proposal with the index.
                self._end_kick(previous_entry.node, KickState.CANCELLED)
            self.index_by_node[node] = index
            self._set_index(NodeIndex(index, node))

    def _record_announced_index(
        self, transaction: tuple[int, int], index: int, node: Address
    ) -> None:
        if self._announced_in != transaction:
            # The earlier indexes belong to a round that could not be decoded.
            self._announced, self._announced_in = {}, transaction
        self._announced[index] = node

    def _record_closed_lanes(self, word: Word, old_word: int) -> None:
        """Update `closed_in` of the lanes in a written word."""
        if old_word == word.value:
            return
        pairs = zip(unpack_lanes(old_word), unpack_lanes(word.value), strict=True)
        for lane_offset, (old_lane, new_lane) in enumerate(pairs):
            entry = self.indexes.get(word.index * LANES_PER_WORD + lane_offset)
            if old_lane == new_lane or entry is None:
                continue
            closed_in = word.round if new_lane == DO_NOT_SELECT else None
            if entry.closed_in != closed_in:
                self._set_index(replace(entry, closed_in=closed_in))

    def _set_index(self, entry: NodeIndex) -> None:
        if self._pre_images is not None:
            self._pre_images.indexes.setdefault(entry.index, self.indexes.get(entry.index))
        self.indexes[entry.index] = self._changes.indexes[entry.index] = entry

    def _apply_setting(self, event: SettingEvent) -> None:
        match event:
            case RoleSet(role=role) if role == VETOER:
                self.settings = replace(self.settings, vetoer=event.who)
            case LimitsSet():
                self.settings = replace(self.settings, limits=event)
            case KickLimitsSet():
                self.settings = replace(self.settings, kick_limits=event)
            case ConfigSet():
                self.settings = replace(self.settings, config=event)
                for kick in list(self.kicks.values()):
                    self._end_kick(kick.node, KickState.OUTDATED)
            case _:
                return
        self._changes.settings.append(event)

    def _get_cancelled_state(self, canceller: Address) -> KickState:
        """Return VETOED if the vetoer cancelled the kickout, else CANCELLED.

        Only the vetoer can cancel a live kickout; anyone can cancel an expired one. If the vetoer
        is unknown, the cancellation counts as a veto, because no node should be kicked out in case
        of doubt.
        """
        vetoer = self.settings.vetoer
        return KickState.VETOED if vetoer is None or canceller == vetoer else KickState.CANCELLED

    def _readmit_node(self, node: Address) -> None:
        kick = self.kicks.get(node)
        if kick is not None:
            self._set_kick(replace(kick, state=KickState.READMITTED))

    def _end_kick(self, node: Address, state: KickState) -> None:
        kick = self.get_live_kick(node)
        if kick is not None:
            self._set_kick(replace(kick, state=state))

    def _set_kick(self, kick: Kick) -> None:
        if self._pre_images is not None:
            self._pre_images.kicks.setdefault(kick.node, self.kicks.get(kick.node))
        self.kicks[kick.node] = self._changes.kicks[kick.node] = kick
