"""Finds new facts in the database and stores them as notices, in one transaction.

See docs/how-to/notifications.md#kinds-of-notices.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.fold.working_set import (
    FALLS,
    MembershipChange,
    MembershipTransition,
    ReliabilityCause,
    ReliabilityChange,
)
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import EXPELLED
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership
from oracle.notify.notice_kinds import NoticeKind
from oracle.store.database import UnitOfWork
from oracle.store.notice_repository import NewNotice
from oracle.store.state.cursor_repository import Cursor

# Halts are rare; only the newest ones are examined.
_NEWEST = 20
# Bookmark: the newest halt that was already cleared when the first target was added.
_HISTORY = "notify_halt"


def begin_with_halts(uow: UnitOfWork) -> None:
    """Note the newest cleared halt: older halts get no notices."""
    over = [one.id for one in uow.halts.history(_NEWEST) if one.cleared is not None]
    uow.bookmarks.set(_HISTORY, max(over, default=0))


def halts_and_holds(uow: UnitOfWork, time: int) -> list[NewNotice]:
    """Return new notices of halts and held reports; `time` is the chain's, in seconds.

    Both last until an operator acts, so no fork retracts their notices.
    """
    history = uow.bookmarks.number(_HISTORY) or 0
    halts = {f"halt:{one.id}": one for one in reversed(uow.halts.history(_NEWEST))}
    told, told_over = (
        uow.notices.known(kind, halts.keys())
        for kind in (NoticeKind.HALTED, NoticeKind.HALT_CLEARED)
    )
    found = []
    for subject, one in halts.items():
        if one.cleared is not None and one.id <= history and subject not in told:
            continue
        if subject not in told:
            body = {"halt": one.name, "reason": one.reason, "block": one.since_block}
            found.append(NewNotice(NoticeKind.HALTED, None, time, body, subject=subject))
        if one.cleared is not None and subject not in told_over:
            body = {"by": one.cleared.by, "reason": one.cleared.reason, "halt": one.name}
            found.append(NewNotice(NoticeKind.HALT_CLEARED, None, time, body, subject=subject))
    return found + _holds(uow, time)


def _holds(uow: UnitOfWork, time: int) -> list[NewNotice]:
    holds = {f"hold:{one.period}": one for one in uow.holds.waiting()}
    known = uow.notices.known(NoticeKind.REPORT_HELD, holds.keys()) if holds else set()
    return [
        NewNotice(
            NoticeKind.REPORT_HELD,
            None,
            time,
            {"period": one.period, "reason": one.reason},
            subject=subject,
        )
        for subject, one in holds.items()
        if subject not in known
    ]


# Bookmarks: the last examined block and the last examined fork.
_THROUGH, _FORK = "notify_block", "notify_fork"
# Blocks per transaction, so that a long backlog does not hold the database for long.
_MOST_BLOCKS = 2_000
# Requests (to pause or to quit) are not notified; only transitions that took effect are.
_TURNS = {
    MembershipTransition.JOINED: NoticeKind.JOINED,
    MembershipTransition.PAUSED: NoticeKind.PAUSED,
    MembershipTransition.RESUMED: NoticeKind.RESUMED,
    MembershipTransition.QUIT: NoticeKind.LEFT,
    MembershipTransition.SLASHED: NoticeKind.LEFT,
    MembershipTransition.KICKED_OUT: NoticeKind.LEFT,
}
# Seconds of chain time after which notices are deleted: thirty days.
_KEPT_SECONDS = 30 * 86_400


@dataclass(slots=True)
class NoticeCollector:
    """Collects notices; all durable state is in the database, so replace it after a failure."""

    rules: Rules
    # Nodes last notified as excluded; None until loaded from the database.
    _excluded: set[Address] | None = None
    _epoch: int | None = None

    def is_due(self, uow: UnitOfWork) -> bool:
        """Return whether there may be new notices, without writing."""
        cursor = uow.cursor.get()
        if cursor is None:
            return False
        if uow.bookmarks.get(_THROUGH) is None:
            return True
        return cursor.epoch != self._epoch or bool(halts_and_holds(uow, cursor.time))

    def collect(self, uow: UnitOfWork, *, is_at_head: bool) -> bool:
        """Store new notices and return whether anything was examined.

        History is not notified: collection starts at the first call with `is_at_head`.
        """
        cursor = uow.cursor.get()
        if cursor is None:
            return False
        through = uow.bookmarks.number(_THROUGH)
        if through is None:
            return is_at_head and _mark_existing_as_notified(uow, cursor)
        through, has_gone_back = _retract_notices(uow, through, cursor)
        last = min(cursor.number, through + _MOST_BLOCKS)
        if self._excluded is None or has_gone_back:
            self._excluded = uow.notices.excluded()
        found = self._of_blocks(uow, last, cursor, through) if last > through else []
        uow.notices.append(found + halts_and_holds(uow, cursor.time))
        uow.bookmarks.set(_THROUGH, last)
        uow.notices.prune(cursor.time - _KEPT_SECONDS)
        # Blocks remain if the backlog is longer than one run.
        self._epoch = cursor.epoch if last == cursor.number else None
        return True

    def _of_blocks(
        self, uow: UnitOfWork, last: int, cursor: Cursor, through: int
    ) -> list[NewNotice]:
        blocks, sources = BlockRange(through + 1, last), uow.notices.sources
        excluded = self._excluded or set()
        self._excluded = excluded
        placed = [
            *_of_nodes(sources.changes(blocks), excluded, self.rules),
            *_of_turns(sources.turns(blocks)),
            *_of_kickouts(uow, blocks, cursor.time),
            *(
                (
                    one.at,
                    NewNotice(
                        NoticeKind.REPORT_ACCEPTED,
                        one.at.block,
                        one.time,
                        {"round": one.round, "as_of": one.as_of} | _place(one.at),
                    ),
                )
                for one in sources.rounds(blocks)
            ),
        ]
        found = [each for _, each in sorted(placed, key=lambda one: one[0])]
        return found + (self._healed(uow, cursor) if last == cursor.number else [])

    def _healed(self, uow: UnitOfWork, cursor: Cursor) -> list[NewNotice]:
        """Return notices of nodes that recovered by healing alone, without an event."""
        excluded = self._excluded or set()
        healed = [
            address
            for address, node in sorted(uow.nodes.named(sorted(excluded)).items())
            if node.membership is Membership.MEMBER
            and not is_excluded(node, cursor.time, self.rules)
        ]
        excluded.difference_update(healed)
        kind, body = NoticeKind.RECOVERED, {"block": cursor.number}
        return [NewNotice(kind, cursor.number, cursor.time, body, address) for address in healed]


def _of_nodes(
    changes: list[ReliabilityChange], excluded: set[Address], rules: Rules
) -> Iterator[tuple[Position, NewNotice]]:
    """Yield notices of timeouts, exclusions and recoveries; `excluded` is kept up to date."""
    for one in changes:
        said = {"before": str(one.before), "after": str(one.after), "task": one.task}
        kinds = []
        if one.node in excluded and max(one.before, one.after) >= rules.exclude_exit:
            excluded.discard(one.node)
            kinds.append(NoticeKind.RECOVERED)
        if one.cause is ReliabilityCause.TIMED_OUT:
            kinds.append(NoticeKind.TIMED_OUT)
        if one.cause in FALLS and one.node not in excluded and one.after < rules.exclude_enter:
            excluded.add(one.node)
            kinds.append(NoticeKind.EXCLUDED)
        for kind in kinds:
            body = said | _place(one.at)
            yield one.at, NewNotice(kind, one.at.block, one.time, body, one.node)


def _of_turns(turns: list[MembershipChange]) -> Iterator[tuple[Position, NewNotice]]:
    for one in turns:
        kind = _TURNS.get(one.turn)
        if kind is not None:
            body = {"how": one.turn.value.replace("_", " ")} | _place(one.at)
            yield one.at, NewNotice(kind, one.at.block, one.time, body, one.node)


def _mark_existing_as_notified(uow: UnitOfWork, cursor: Cursor) -> bool:
    uow.bookmarks.set(_THROUGH, cursor.number)
    uow.bookmarks.set(_FORK, uow.notices.sources.newest_fork())
    begin_with_halts(uow)
    # Halts that are open now are notified, because a new subscriber needs them.
    uow.notices.append(halts_and_holds(uow, cursor.time))
    return True


def _retract_notices(uow: UnitOfWork, through: int, cursor: Cursor) -> tuple[int, bool]:
    """Retract notices of blocks that a fork or an operator removed; return the last seen block.

    Blocks that are already folded again are covered too, because nothing else shows that they were
    removed. The second value is whether anything was retracted.
    """
    forks = uow.notices.sources.forks_after(uow.bookmarks.number(_FORK) or 0)
    left = [(fork.ancestor, fork.old_tip, fork.time) for fork in forks]
    lowest = min([ancestor for ancestor, _, _ in left], default=through)
    if cursor.number < min(through, lowest):
        left.append((cursor.number, through, cursor.time))
    for ancestor, old_tip, time in left:
        body = {"ancestor": ancestor, "old_tip": old_tip}
        seq = uow.notices.append([NewNotice(NoticeKind.REORG, None, time, body)])
        uow.notices.undo_above(ancestor, seq)
        through = min(through, ancestor)
    if forks:
        uow.bookmarks.set(_FORK, forks[-1].id)
    return through, bool(left)


def _of_kickouts(
    uow: UnitOfWork, blocks: BlockRange, time: int
) -> Iterator[tuple[Position, NewNotice]]:
    for due in uow.notices.sources.kickouts(blocks):
        for kind, at in (
            (NoticeKind.KICKOUT_DUE, due.opened_at),
            (NoticeKind.KICKOUT_OVER, due.closed_at),
        ):
            if at is not None and blocks.first <= at.block <= blocks.last:
                yield at, NewNotice(kind, at.block, time, _place(at), due.node)
    for kick in uow.rounds.kicks():
        at = kick.proposed_at
        if blocks.first <= at.block <= blocks.last:
            body = {"round": kick.round, "ready_at": kick.ready_at} | _place(at)
            yield at, NewNotice(NoticeKind.KICKOUT_PROPOSED, at.block, time, body, kick.node)
        gone = kick.expulsion if kick.state in EXPELLED else None
        if gone is not None and blocks.first <= gone.at.block <= blocks.last:
            body = {"round": gone.round, "until": gone.until} | _place(gone.at)
            yield (
                gone.at,
                NewNotice(NoticeKind.KICKOUT_EXECUTED, gone.at.block, time, body, kick.node),
            )


def _place(at: Position) -> dict[str, object]:
    return {"block": at.block, "position": ":".join(str(number) for number in at)}
