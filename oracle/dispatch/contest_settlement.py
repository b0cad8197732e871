"""Ends contests: the held stakes are released when the window for a second group closes.

Contests are found among the groups of final blocks, so that no reorg removes one. The call is
planned at once and waits in the outbox until the window closes. Meanwhile a second group may be
ordered (`second_groups`) and decide the contest (`contest_decisions`). See
docs/explanation/dispatch.md#contests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from oracle.bindings.contest_calls import encode_settle_contest, get_contest_end
from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.state.group import GroupResult
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account, CallRequest, Intent, IntentState
from oracle.txmgr.call_registry import CallKind, Decision
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import StepResult, format_counts

# The kind of these calls in the outbox.
SETTLE_CONTEST = "settle_contest"
SETTLED_REASON = "overtaken(the contest is settled already)"
# The block up to which contested groups are in the outbox.
_SCANNED_BOOKMARK = "contests_scanned"
_PRIORITY = 275
# Percent of the budget that is kept for starts of tasks that others pay for.
_RESERVE_PERCENT = 50
# Groups, or open contests, of one step; each takes a request to the contract.
_MAX_PER_STEP = 20
_RETRY_SECONDS = 60
# Contests of older groups, in seconds since they closed, are left to the owners of the stakes.
_MAX_AGE_SECONDS = 30 * 86_400


class _Contest(NamedTuple):
    """A group whose stakes are held; `end`: the last second of the window, block time."""

    group: GroupKey
    tasks: tuple[TaskKey, ...]
    end: int


def plan_settlements(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the end of each contest that became final since the last check; None without one.

    Raises:
        TransientError: no endpoint returns the state of a group.
    """
    if context.tx.is_halted():
        return None
    with context.tx.store.read_transaction() as uow:
        cursor, scanned_through = uow.cursor.get(), uow.bookmarks.get_number(_SCANNED_BOOKMARK)
        if cursor is None or not context.tx.is_at_head(uow, heads):
            return None
        first, last = (scanned_through or 0) + 1, min(heads.final.number, cursor.number)
        if first > last:
            return None
        groups, last = _read_next_groups(uow, first, last)
    contests = _find_contests(context, groups, cursor.time)
    with context.tx.writing() as uow:
        uow.bookmarks.set(_SCANNED_BOOKMARK, last)
        stamp = context.tx.stamp
        intent_ids = [
            uow.outbox.intents.add(_build_request(context, contest), stamp) for contest in contests
        ]
    added_ids = [intent_id for intent_id in intent_ids if intent_id is not None]
    if not added_ids:
        return None
    return StepResult(
        "contests found", added_ids[0], format_counts([SETTLE_CONTEST] * len(added_ids))
    )


def find_open_contests(uow: UnitOfWork, account: Account, time: int) -> list[Intent]:
    """Return the calls that wait for the end of their window at a block time.

    Calls that settle by a verdict are left out, because their contest is decided.
    """
    planned_calls = uow.outbox.intents.list_in_states(account, [IntentState.PLANNED])
    waiting_calls = [
        call
        for call in planned_calls
        if call.request.dedup_key == f"{SETTLE_CONTEST}:{call.request.subject}"
        and (call.request.not_before or 0) > time + 1
    ]
    return waiting_calls[:_MAX_PER_STEP]


def _read_next_groups(uow: UnitOfWork, first: int, last: int) -> tuple[list[GroupResult], int]:
    """Return groups that may be contested, of whole blocks, and the last block checked."""
    groups = uow.results.list_outvoted(first, last, _MAX_PER_STEP)
    if len(groups) < _MAX_PER_STEP:
        return groups, last
    newest_block = groups[-1].closed_at.block
    if newest_block == first:
        return uow.results.list_outvoted(first, first), first
    return [group for group in groups if group.closed_at.block < newest_block], newest_block - 1


def _find_contests(
    context: DispatchContext, groups: Sequence[GroupResult], now: int
) -> list[_Contest]:
    """Return the groups whose stakes the contract holds."""
    endpoints, network = context.tx.get_synced_pool_view(), context.tx.publisher.domain.contract
    contests = []
    for result in groups:
        if result.time < now - _MAX_AGE_SECONDS:
            continue
        window_end = get_contest_end(endpoints, network, result.group)
        if window_end is not None:
            tasks = tuple(member.task for member in result.members)
            contests.append(_Contest(result.group, tasks, window_end))
    return contests


def _build_request(context: DispatchContext, contest: _Contest) -> CallRequest:
    subject = f"group={contest.group}"
    return CallRequest(
        account=context.tx.account,
        contract=context.tx.publisher.domain.contract,
        kind=SETTLE_CONTEST,
        # A group is contested once: the outbox refuses a second call for ever.
        dedup_key=f"{SETTLE_CONTEST}:{subject}",
        calldata=encode_settle_contest(contest.group, contest.tasks),
        subject=subject,
        priority=_PRIORITY,
        not_before=contest.end + 1,
    )


@dataclass(frozen=True, slots=True)
class SettleContestCall(CallKind):
    """The end of a contest, by the second group's verdict or after the window."""

    name: str = SETTLE_CONTEST
    reserve_share: int = _RESERVE_PERCENT

    @override
    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        """End the call if its contest is over, else let the call wait.

        The contract refuses a wrong result, and refuses any result before the second group was
        compared. After the window it accepts the call and slashes no node.
        """
        name = "" if result.refusal is None else result.refusal.name
        if name == "NotContested":
            return Decision.end(IntentState.SUPERSEDED, SETTLED_REASON)
        until = heads.latest.time + _RETRY_SECONDS
        return Decision.wait_until(until, (name or "unknown", result.reason))
