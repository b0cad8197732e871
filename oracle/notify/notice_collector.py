"""Finds new events in the database, and stores notices about them in the same transaction.

See docs/how-to/notifications.md#kinds-of-notices.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.fold.working_set import (
    MembershipChange,
    MembershipTransition,
    ReliabilityChange,
)
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import EXPELLED_STATES
from oracle.domain.reports.objections import ObjectionReason
from oracle.domain.scoring.kickout_forecast import (
    FAR_SCORES,
    forecast_kickout,
    is_kickout_near,
)
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.reliability import DECREASE_CAUSES, ReliabilityCause
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.notify.notice_kinds import NoticeKind
from oracle.store.database import UnitOfWork
from oracle.store.notice_repository import Notice
from oracle.store.state.cursor_repository import Cursor

# Maximum number of halts that are examined. Halts are rare, so the newest ones are enough.
_MAX_HALTS = 20
# Bookmark of the newest halt that had already been cleared when the first target was added.
_OLD_HALT_BOOKMARK = "notify_halt"
# Bookmarks of the last block and of the last fork that were examined.
_BLOCK_BOOKMARK, _FORK_BOOKMARK = "notify_block", "notify_fork"
# Maximum number of blocks per transaction. A transaction over a long backlog would lock the
# database for too long.
_MAX_BLOCKS = 2_000
# Only a transition that took effect causes a notice. A request to pause or quit does not.
_KIND_BY_TRANSITION = {
    MembershipTransition.JOINED: NoticeKind.JOINED,
    MembershipTransition.PAUSED: NoticeKind.PAUSED,
    MembershipTransition.RESUMED: NoticeKind.RESUMED,
    MembershipTransition.QUIT: NoticeKind.LEFT,
    MembershipTransition.SLASHED: NoticeKind.LEFT,
    MembershipTransition.KICKED_OUT: NoticeKind.LEFT,
}
# Time after which notices are deleted: thirty days of chain time.
_RETENTION_SECONDS = 30 * 86_400


def mark_cleared_halts_as_notified(uow: UnitOfWork) -> None:
    """Record the newest cleared halt, so that no halt up to it causes a notice."""
    cleared_ids = [
        halt.id for halt in uow.halts.list_newest_halts(_MAX_HALTS) if halt.cleared is not None
    ]
    uow.bookmarks.set(_OLD_HALT_BOOKMARK, max(cleared_ids, default=0))


def collect_halt_and_hold_notices(uow: UnitOfWork, time: int) -> list[Notice]:
    """Collect new notices about halts and held reports.

    `time` is the block time in unix seconds. A fork does not retract these notices, because halts
    and holds last until an operator acts.
    """
    last_old_id = uow.bookmarks.get_number(_OLD_HALT_BOOKMARK) or 0
    halt_by_subject = {
        f"halt:{halt.id}": halt for halt in reversed(uow.halts.list_newest_halts(_MAX_HALTS))
    }
    notified_halts, notified_cleared_halts = (
        uow.notices.filter_notified_subjects(kind, halt_by_subject.keys())
        for kind in (NoticeKind.HALTED, NoticeKind.HALT_CLEARED)
    )
    notices = []
    for subject, halt in halt_by_subject.items():
        if halt.cleared is not None and halt.id <= last_old_id and subject not in notified_halts:
            continue
        if subject not in notified_halts:
            body = {"halt": halt.name, "reason": halt.reason, "block": halt.since_block}
            notices.append(Notice(NoticeKind.HALTED, None, time, body, subject=subject))
        if halt.cleared is not None and subject not in notified_cleared_halts:
            body = {"by": halt.cleared.by, "reason": halt.cleared.reason, "halt": halt.name}
            notices.append(Notice(NoticeKind.HALT_CLEARED, None, time, body, subject=subject))
    return notices + _collect_hold_notices(uow, time)


def _collect_hold_notices(uow: UnitOfWork, time: int) -> list[Notice]:
    hold_by_subject = {f"hold:{hold.period}": hold for hold in uow.holds.list_awaiting_operator()}
    notified_holds = (
        uow.notices.filter_notified_subjects(NoticeKind.REPORT_HELD, hold_by_subject.keys())
        if hold_by_subject
        else set()
    )
    return [
        Notice(
            NoticeKind.REPORT_HELD,
            None,
            time,
            {"period": hold.period, "reason": hold.reason},
            subject=subject,
        )
        for subject, hold in hold_by_subject.items()
        if subject not in notified_holds
    ]


@dataclass(slots=True)
class NoticeCollector:
    """Collects notices about new events in the database.

    After a failure, create a new collector to continue from the database.
    """

    rules: Rules
    # Nodes whose last notice says that they are excluded, or None before they are loaded.
    _excluded_nodes: set[Address] | None = None
    # Nodes whose last notice says that a kickout is near. They are loaded together with
    # `_excluded_nodes`.
    _nodes_near_kickout: set[Address] = field(default_factory=set)
    _epoch: int | None = None

    def is_due(self, uow: UnitOfWork) -> bool:
        """Return whether there may be new notices, without writing to the database."""
        cursor = uow.cursor.get()
        if cursor is None:
            return False
        if uow.bookmarks.get(_BLOCK_BOOKMARK) is None:
            return True
        return cursor.epoch != self._epoch or bool(collect_halt_and_hold_notices(uow, cursor.time))

    def collect_notices(self, uow: UnitOfWork, *, is_at_head: bool) -> bool:
        """Store new notices, and return whether collection has started.

        Collection starts at the first call with `is_at_head`, so that the backfill of history
        causes no notices.
        """
        cursor = uow.cursor.get()
        if cursor is None:
            return False
        last_seen_block = uow.bookmarks.get_number(_BLOCK_BOOKMARK)
        if last_seen_block is None:
            return is_at_head and _start_collection_at_cursor(uow, cursor)
        last_seen_block, has_retracted = _retract_notices(uow, last_seen_block, cursor)
        last_block = min(cursor.number, last_seen_block + _MAX_BLOCKS)
        if self._excluded_nodes is None or has_retracted:
            self._excluded_nodes = uow.notices.list_nodes_in_state(
                NoticeKind.EXCLUDED, NoticeKind.RECOVERED
            )
            self._nodes_near_kickout = uow.notices.list_nodes_in_state(
                NoticeKind.KICKOUT_NEAR, NoticeKind.KICKOUT_FAR, NoticeKind.LEFT
            )
        notices = (
            self._collect_block_notices(uow, last_block, cursor, last_seen_block)
            if last_block > last_seen_block
            else []
        )
        uow.notices.append(notices + collect_halt_and_hold_notices(uow, cursor.time))
        uow.bookmarks.set(_BLOCK_BOOKMARK, last_block)
        uow.notices.prune_before(cursor.time - _RETENTION_SECONDS)
        # If a part of the backlog remains, the epoch is None. The next run is then due
        # immediately.
        self._epoch = cursor.epoch if last_block == cursor.number else None
        return True

    def _collect_block_notices(
        self, uow: UnitOfWork, last_block: int, cursor: Cursor, last_seen_block: int
    ) -> list[Notice]:
        blocks = BlockRange(last_seen_block + 1, last_block)
        sources = uow.notices.sources
        excluded_nodes = self._excluded_nodes or set()
        self._excluded_nodes = excluded_nodes
        positioned_notices = [
            *_build_reliability_notices(
                sources.list_reliability_changes(blocks), excluded_nodes, self.rules
            ),
            *_build_membership_notices(sources.list_membership_changes(blocks)),
            *_build_kickout_notices(uow, blocks, cursor.time),
            *_build_incident_notices(uow, blocks),
            *_build_rules_notices(uow, blocks),
            *_build_objection_notices(uow, blocks),
            *(
                (
                    accepted_round.at,
                    Notice(
                        NoticeKind.REPORT_ACCEPTED,
                        accepted_round.at.block,
                        accepted_round.time,
                        {"round": accepted_round.round, "as_of": accepted_round.as_of}
                        | _format_position(accepted_round.at),
                    ),
                )
                for accepted_round in uow.rounds.list_accepted_between(blocks.first, blocks.last)
            ),
        ]
        notices = [notice for _, notice in sorted(positioned_notices, key=lambda pair: pair[0])]
        self._nodes_near_kickout.difference_update(
            notice.node
            for notice in notices
            if notice.kind == NoticeKind.LEFT and notice.node is not None
        )
        notices += self._collect_forecast_notices(uow, blocks, cursor.time)
        return notices + (
            self._collect_recovery_notices(uow, cursor) if last_block == cursor.number else []
        )

    def _collect_forecast_notices(
        self, uow: UnitOfWork, blocks: BlockRange, time: int
    ) -> list[Notice]:
        """Collect notices about nodes that a new score moved near a kickout or away from it.

        Only members with a score in these blocks are examined. The forecast uses the node's row,
        which is as of the cursor. If the node has a newer score, the notice is therefore left to
        the blocks with this score. A notice belongs to the block of the node's newest score, so
        that a fork above this block does not retract it. A node gets no second notice before it
        has been away from a kickout again.
        """
        notices = []
        newest_scores = uow.notices.sources.get_newest_score_by_node(blocks)
        for address, node in sorted(uow.nodes.get_many(newest_scores).items()):
            block, seq = newest_scores[address]
            if node.membership is not Membership.MEMBER or node.scored != seq:
                continue
            forecast = forecast_kickout(node, time, self.rules)
            body: dict[str, object] = {"block": block}
            if address in self._nodes_near_kickout:
                if forecast is not None and forecast.scores <= FAR_SCORES:
                    continue
                self._nodes_near_kickout.discard(address)
                kind = NoticeKind.KICKOUT_FAR
            elif forecast is not None and is_kickout_near(node, time, self.rules):
                self._nodes_near_kickout.add(address)
                kind = NoticeKind.KICKOUT_NEAR
                body |= {"scores": forecast.scores, "recent_scores": forecast.recent_scores}
            else:
                continue
            notices.append(Notice(kind, block, node.last_scored_at or time, body, address))
        return notices

    def _collect_recovery_notices(self, uow: UnitOfWork, cursor: Cursor) -> list[Notice]:
        """Collect notices about nodes that became eligible again by recovery alone.

        These nodes are removed from the set of excluded nodes.
        """
        excluded_nodes = self._excluded_nodes or set()
        recovered_nodes = [
            address
            for address, node in sorted(uow.nodes.get_many(sorted(excluded_nodes)).items())
            if node.membership is Membership.MEMBER
            and not is_excluded(node, cursor.time, self.rules)
        ]
        excluded_nodes.difference_update(recovered_nodes)
        kind = NoticeKind.RECOVERED
        body = {"block": cursor.number}
        return [
            Notice(kind, cursor.number, cursor.time, body, address) for address in recovered_nodes
        ]


def _build_reliability_notices(
    changes: list[ReliabilityChange], excluded_nodes: set[Address], rules: Rules
) -> Iterator[tuple[Position, Notice]]:
    """Yield notices of timeouts, exclusions and recoveries.

    `excluded_nodes` is updated with the exclusions and recoveries.
    """
    for change in changes:
        change_details = {
            "before": str(change.before),
            "after": str(change.after),
            "task": change.task,
        }
        notice_kinds = []
        if (
            change.node in excluded_nodes
            and max(change.before, change.after) >= rules.exclude_exit
        ):
            excluded_nodes.discard(change.node)
            notice_kinds.append(NoticeKind.RECOVERED)
        if change.cause is ReliabilityCause.TIMED_OUT:
            notice_kinds.append(NoticeKind.TIMED_OUT)
        if (
            change.cause in DECREASE_CAUSES
            and change.node not in excluded_nodes
            and change.after < rules.exclude_enter
        ):
            excluded_nodes.add(change.node)
            notice_kinds.append(NoticeKind.EXCLUDED)
        for kind in notice_kinds:
            body = change_details | _format_position(change.at)
            yield change.at, Notice(kind, change.at.block, change.time, body, change.node)


def _build_membership_notices(
    changes: list[MembershipChange],
) -> Iterator[tuple[Position, Notice]]:
    for change in changes:
        kind = _KIND_BY_TRANSITION.get(change.transition)
        if kind is not None:
            body = {"how": change.transition.value.replace("_", " ")} | _format_position(change.at)
            yield change.at, Notice(kind, change.at.block, change.time, body, change.node)


def _start_collection_at_cursor(uow: UnitOfWork, cursor: Cursor) -> bool:
    uow.bookmarks.set(_BLOCK_BOOKMARK, cursor.number)
    uow.bookmarks.set(_FORK_BOOKMARK, uow.reorgs.get_newest_id())
    mark_cleared_halts_as_notified(uow)
    # Halts that are still open get a notice, because a new subscriber needs to know about them.
    uow.notices.append(collect_halt_and_hold_notices(uow, cursor.time))
    return True


def _retract_notices(uow: UnitOfWork, last_seen_block: int, cursor: Cursor) -> tuple[int, bool]:
    """Retract the notices of blocks removed by a fork or an operator's rewind.

    Return the last block whose notices are still valid, and whether any notices were retracted.
    The stored forks show which blocks were removed, even if the blocks that replaced them were
    folded since. An operator's rewind shows in a cursor below `last_seen_block`.
    """
    reorg_by_id = uow.reorgs.list_after(uow.bookmarks.get_number(_FORK_BOOKMARK) or 0)
    abandoned_branches = [
        (reorg.ancestor, reorg.old_tip, reorg.time) for reorg in reorg_by_id.values()
    ]
    lowest_ancestor = min(
        [ancestor for ancestor, _, _ in abandoned_branches], default=last_seen_block
    )
    if cursor.number < min(last_seen_block, lowest_ancestor):
        abandoned_branches.append((cursor.number, last_seen_block, cursor.time))
    for ancestor, old_tip, time in abandoned_branches:
        body = {"ancestor": ancestor, "old_tip": old_tip}
        reorg_notice_seq = uow.notices.append([Notice(NoticeKind.REORG, None, time, body)])
        uow.notices.retract_notices_above(ancestor, reorg_notice_seq)
        last_seen_block = min(last_seen_block, ancestor)
    if reorg_by_id:
        uow.bookmarks.set(_FORK_BOOKMARK, max(reorg_by_id))
    return last_seen_block, bool(abandoned_branches)


def _build_kickout_notices(
    uow: UnitOfWork, blocks: BlockRange, time: int
) -> Iterator[tuple[Position, Notice]]:
    for interval in uow.notices.sources.list_changed_kickouts(blocks):
        for kind, position in (
            (NoticeKind.KICKOUT_DUE, interval.opened_at),
            (NoticeKind.KICKOUT_OVER, interval.closed_at),
        ):
            if position is not None and blocks.first <= position.block <= blocks.last:
                yield (
                    position,
                    Notice(kind, position.block, time, _format_position(position), interval.node),
                )
    for kick in uow.rounds.list_kicks():
        accusation = kick.accusation
        if accusation is not None and blocks.first <= accusation.at.block <= blocks.last:
            body = {
                "round": accusation.round,
                "ready_at": accusation.ready_at,
            } | _format_position(accusation.at)
            yield (
                accusation.at,
                Notice(NoticeKind.KICKOUT_ACCUSED, accusation.at.block, time, body, kick.node),
            )
        expulsion = kick.expulsion if kick.state in EXPELLED_STATES else None
        if expulsion is not None and blocks.first <= expulsion.at.block <= blocks.last:
            body = {"round": expulsion.round, "until": expulsion.expires_at} | _format_position(
                expulsion.at
            )
            yield (
                expulsion.at,
                Notice(NoticeKind.KICKOUT_EXECUTED, expulsion.at.block, time, body, kick.node),
            )


def _build_incident_notices(
    uow: UnitOfWork, blocks: BlockRange
) -> Iterator[tuple[Position, Notice]]:
    for incident in uow.incidents.list_changed(blocks):
        body: dict[str, object] = {
            "incident": incident.number,
            "cause": "a network outage"
            if incident.creator is None
            else f"tasks of the application {incident.creator} time out",
            "nodes": incident.nodes,
            "timeouts": incident.timeouts,
            "since": incident.since,
        }
        for kind, position, time in (
            (NoticeKind.INCIDENT_BEGAN, incident.found_at, incident.found_time),
            (NoticeKind.INCIDENT_OVER, incident.over_at, incident.over_time),
        ):
            if position is None or time is None:
                continue
            if blocks.first <= position.block <= blocks.last:
                notice_body = body | _format_position(position)
                yield position, Notice(kind, position.block, time, notice_body)


def _build_rules_notices(uow: UnitOfWork, blocks: BlockRange) -> Iterator[tuple[Position, Notice]]:
    for change in uow.rounds.get_contract_settings().rules_changes:
        body: dict[str, object] = {"rules": change.rules_hash}
        if change.scheduled is not None:
            body["ready_at"] = change.scheduled.ready_at
        for kind, event in (
            (NoticeKind.RULES_ANNOUNCED, change.scheduled),
            (NoticeKind.RULES_CANCELLED, change.cancelled),
            (NoticeKind.RULES_SET, change.set_by),
        ):
            if event is not None and blocks.first <= event.at.block <= blocks.last:
                notice_body = body | _format_position(event.at)
                yield event.at, Notice(kind, event.at.block, event.time, notice_body)


def _build_objection_notices(
    uow: UnitOfWork, blocks: BlockRange
) -> Iterator[tuple[Position, Notice]]:
    """Yield a notice of each objection.

    The owner's text is left out, because it is untrusted.
    """
    for objection in uow.objections.list_between(blocks):
        body = {
            "objection": objection.seq,
            "due_since": objection.due_since,
            "reason": ObjectionReason.from_number(objection.reason).option,
        } | _format_position(objection.at)
        yield (
            objection.at,
            Notice(
                NoticeKind.OBJECTION_MADE,
                objection.at.block,
                objection.time,
                body,
                objection.node,
            ),
        )


def _format_position(position: Position) -> dict[str, object]:
    return {"block": position.block, "position": ":".join(str(number) for number in position)}
