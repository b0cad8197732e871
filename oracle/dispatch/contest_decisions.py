"""Settles contests by the verdict of the second group, before their window ends.

The planned call that waits for the end of the window is replaced in one commit by a call with the
result, so that a contest never has two calls. See docs/explanation/dispatch.md#results.
"""

from collections.abc import Iterator, Sequence

from oracle.bindings.contest_calls import (
    compute_answer,
    decode_settle_contest_call,
    encode_settle_contest_call,
    fetch_group_record,
)
from oracle.chain.heads import Heads
from oracle.dispatch.contest_settlement import SETTLED_REASON, find_open_contests
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.second_groups import NOT_OPEN_REASON, load_second_group_calls
from oracle.domain.ids import ZERO_HASH, GroupKey, Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.call_kinds import SETTLE_CONTEST
from oracle.store.outbox.records import CallRequest, Intent, IntentState
from oracle.txmgr.context import StepResult, format_name_counts

# The reason for which a call that waits for the end of the window is superseded.
DECIDED_REASON = (
    "overtaken(the second group has decided, and the contest is settled by its verdict)"
)
# These calls come after the starts of tasks, but before new orders, because honest nodes wait for
# their stakes.
_PRIORITY = 200
_ORDERED = frozenset({IntentState.MINED, IntentState.FINAL})


def plan_decided_contest_settlements(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the settlement of each contest that its second group has decided, once per block.

    The result is None if no contest is decided. The second group is read at the final block, so
    that no reorg changes its verdict.

    Raises:
        TransientError: no endpoint returns the state of a group.
    """
    if context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        cursor = context.get_cursor_unless_checked(uow, heads, SETTLE_CONTEST)
        if cursor is None:
            return None
        contests = list(_find_contests_with_second_group(uow, context, cursor.time))
    settled, decided = _classify_contests(context, heads, contests)
    context.checked_at[SETTLE_CONTEST] = cursor.hash
    if not settled and not decided:
        return None
    stamp = context.account_context.stamp
    with context.account_context.write_transaction() as uow:
        for call in settled:
            uow.outbox.intents.end_unsent_intent(
                call, IntentState.SUPERSEDED, SETTLED_REASON, stamp
            )
        for call, request in decided:
            uow.outbox.intents.end_unsent_intent(
                call, IntentState.SUPERSEDED, DECIDED_REASON, stamp
            )
            uow.outbox.intents.add(request, stamp)
    calls = [*settled, *(call for call, _ in decided)]
    return StepResult(
        "contests decided", calls[0].id, format_name_counts([SETTLE_CONTEST] * len(calls))
    )


def _find_contests_with_second_group(
    uow: UnitOfWork, context: DispatchContext, time: int
) -> Iterator[Intent]:
    """Yield the open contests whose second group was ordered by this daemon or another account."""
    calls = load_second_group_calls(uow, context.account_context.account, time)
    ordered_subjects = {
        call.request.subject
        for call in calls
        if call.state in _ORDERED or call.error_text == NOT_OPEN_REASON
    }
    for contest in find_open_contests(uow, context.account_context.account, time):
        if contest.request.subject in ordered_subjects:
            yield contest


def _classify_contests(
    context: DispatchContext, heads: Heads, contests: Sequence[Intent]
) -> tuple[list[Intent], list[tuple[Intent, CallRequest]]]:
    """Return the contests that are settled, and those that are decided, as of the final block.

    A contest is decided if its second group has been compared, and a result that the contract
    accepts for the verdict is known. A decided contest is returned with the call that replaces the
    waiting call.
    """
    endpoints = context.account_context.get_synced_pool_view()
    network = context.account_context.sender_account.domain.contract
    block = hex(heads.final.number)
    settled, decided = [], []
    for contest in contests:
        key, _ = decode_settle_contest_call(contest.request.calldata)
        group = fetch_group_record(endpoints, network, key, block)
        if group.is_settled:
            settled.append(contest)
        elif group.is_contested and group.peer is not None:
            second_group = fetch_group_record(endpoints, network, group.peer, block)
            result = (
                _find_accepted_result(context, contest, group.peer, second_group.verdict)
                if second_group.has_compared_answers
                else None
            )
            if result is not None:
                decided.append((contest, _build_request(contest.request, result)))
    return settled, decided


def _find_accepted_result(
    context: DispatchContext, contest: Intent, second_group: GroupKey, verdict: Hash | None
) -> Hash | None:
    """Return the result that the contract accepts for this verdict, or None if it is unknown.

    If the second group has no majority, no node is slashed, regardless of the result. The zero
    hash is then returned, so that the stakes are released at once.
    """
    if verdict is None or verdict == ZERO_HASH:
        return ZERO_HASH
    if context.results is None:
        return None
    _, tasks = decode_settle_contest_call(contest.request.calldata)
    with context.account_context.store.read_transaction() as uow:
        member_tasks = [
            member.task
            for group_result in uow.results.list_for_group(second_group)
            for member in group_result.members
        ]
    return next(
        (
            result
            for result in context.results.read_results([*member_tasks, *tasks])
            if compute_answer(second_group, result) == verdict
        ),
        None,
    )


def _build_request(waiting_request: CallRequest, result: Hash) -> CallRequest:
    """Return the settlement call that replaces the call waiting for the contest window's end."""
    group, tasks = decode_settle_contest_call(waiting_request.calldata)
    return CallRequest(
        account=waiting_request.account,
        contract=waiting_request.contract,
        kind=SETTLE_CONTEST,
        # The outbox never gets this key a second time, because a contest is decided only once.
        dedup_key=f"{waiting_request.dedup_key}:decided",
        calldata=encode_settle_contest_call(group, tasks, result),
        subject=waiting_request.subject,
        priority=_PRIORITY,
        exclusive_key=waiting_request.dedup_key,
    )
