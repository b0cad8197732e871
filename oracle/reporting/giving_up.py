"""Statements whose push was tried as often as it may be: nobody tries them again by himself."""

from typing import NamedTuple

from oracle.domain.ids import Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentKind, IntentState
from oracle.store.reports.report_repository import ReportState

# Pushes among which those of one statement are looked for, and how many there may be.
LOOKED_BACK, MOST_TRIES = 50, 5
# A push that was not sent, because its round was taken or its block was gone, may go again.
MAY_GO_AGAIN = frozenset({IntentState.SUPERSEDED, IntentState.EXPIRED})
# A round that another report took counts as missed, also where a fork gives it back.
_OPEN = frozenset({ReportState.DUE, ReportState.MISSED})


class GivenUp(NamedTuple):
    """A statement that could still land, and is not tried any more.

    `until`: chain time from which the next one may take its place. `why`: how its last try ended.
    """

    round: int
    period: int
    digest: Hash
    until: int
    why: str


def given_up(uow: UnitOfWork) -> list[GivenUp]:
    """Return the statements whose round is free and whose tries are used up, newest first."""
    by_digest: dict[Hash, list[Intent]] = {}
    for push in uow.outbox.intents.newest(LOOKED_BACK, kind=IntentKind.PUSH):
        if push.wish.digest is not None:
            by_digest.setdefault(push.wish.digest, []).append(push)
    found = (_given_up(uow, digest, pushes) for digest, pushes in by_digest.items())
    return [one for one in found if one is not None]


def _given_up(uow: UnitOfWork, digest: Hash, pushes: list[Intent]) -> GivenUp | None:
    newest = pushes[0]
    period, number, deadline = newest.wish.period, newest.wish.round, newest.wish.deadline
    if len(pushes) < MOST_TRIES or newest.state not in MAY_GO_AGAIN:
        return None
    if period is None or number is None or deadline is None:
        return None
    stored, cursor = uow.reports.at(period), uow.cursor.get()
    # Cut again since, on another block, it is another statement.
    if stored is None or stored.state not in _OPEN or stored.digest != digest:
        return None
    is_taken = uow.rounds.accepted_round(number) is not None
    if is_taken or (cursor is not None and cursor.time > deadline):
        return None
    return GivenUp(number, period, digest, deadline, newest.error_text or newest.state.value)
