"""Settles contests within their window, by the result of the second group.

The call that waits for the window's end is replaced in one commit by a call with the result, so
that a contest has one call at a time. See docs/explanation/dispatch.md#results.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oracle.bindings.contest_calls import (
    answer_of,
    contested_group,
    read_group,
    settle_contest_call,
)
from oracle.chain.heads import Heads
from oracle.dispatch.contest_settlement import SETTLE_CONTEST, SETTLED, open_contests
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.second_groups import NOT_OPEN, second_group_calls
from oracle.domain.ids import ZERO_HASH, GroupKey, Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, IntentState
from oracle.txmgr.context import StepResult, counted

# The reason of the call for the window's end where the second group has decided before.
DECIDED = "overtaken(the second group has decided, and the contest is settled by its verdict)"
# Honest nodes wait for their stakes: after the starts of tasks, before new orders.
_PRIORITY = 200
_ORDERED = frozenset({IntentState.MINED, IntentState.FINAL})


class _Decision(NamedTuple):
    """A contest whose second group has been compared.

    `call`: the call that waits for the window's end. `verdict`: the second group's, None if it has
    no majority.
    """

    call: Intent
    second: GroupKey
    verdict: Hash | None


def plan_decided_settlements(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the settlement of each contest that its second group has decided, once a block.

    Return None if no contest is decided. The second group was compared in a final block, so that
    no reorg changes its verdict.

    Raises:
        TransientError: no endpoint returns the state of a group.
    """
    if context.tx.is_stopped():
        return None
    with context.tx.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None or not context.tx.is_at_head(uow, heads):
            return None
        if context.checked_at.get(SETTLE_CONTEST) == cursor.hash:
            return None
        contests = list(_contests_with_second_group(uow, context, cursor.time))
    settled, decisions = _read_contests(context, heads, contests)
    with context.tx.store.reading() as uow:
        results = [_result_of(context, uow, decision) for decision in decisions]
    requests = [
        (decision.call, _request(decision, result))
        for decision, result in zip(decisions, results, strict=True)
        if result is not None
    ]
    context.checked_at[SETTLE_CONTEST] = cursor.hash
    if not settled and not requests:
        return None
    stamp = context.tx.stamp
    with context.tx.writing() as uow:
        for call in settled:
            uow.outbox.intents.end(call, IntentState.SUPERSEDED, SETTLED, stamp)
        for call, request in requests:
            uow.outbox.intents.end(call, IntentState.SUPERSEDED, DECIDED, stamp)
            uow.outbox.intents.add(request, stamp)
    calls = [*settled, *(call for call, _ in requests)]
    return StepResult("contests decided", calls[0].id, counted([SETTLE_CONTEST] * len(calls)))


def _contests_with_second_group(
    uow: UnitOfWork, context: DispatchContext, time: int
) -> Iterator[Intent]:
    """Yield the open contests whose second group was ordered, by this daemon or another."""
    calls = second_group_calls(uow, context.tx.account, time)
    ordered = {
        call.request.subject
        for call in calls
        if call.state in _ORDERED or call.error_text == NOT_OPEN
    }
    for contest in open_contests(uow, context.tx.account, time):
        if contest.request.subject in ordered:
            yield contest


def _read_contests(
    context: DispatchContext, heads: Heads, contests: Sequence[Intent]
) -> tuple[list[Intent], list[_Decision]]:
    """Return the settled contests, and those that can be settled, as of the final block."""
    lines, network = context.tx.lines(), context.tx.publisher.domain.contract
    block = hex(heads.final.number)
    settled, decisions = [], []
    for contest in contests:
        key, _ = contested_group(contest.request.calldata)
        group = read_group(lines, network, key, block)
        if group.is_settled:
            settled.append(contest)
        elif group.is_contested and group.peer is not None:
            second = read_group(lines, network, group.peer, block)
            if second.is_compared:
                decisions.append(_Decision(contest, group.peer, second.verdict))
    return settled, decisions


def _result_of(context: DispatchContext, uow: UnitOfWork, decision: _Decision) -> Hash | None:
    """Return the result that the contract accepts for this verdict, or None if it is unknown.

    Without a majority in the second group no node is slashed whatever the result, so that the
    stakes are released at once.
    """
    second, verdict = decision.second, decision.verdict
    if verdict is None or verdict == ZERO_HASH:
        return ZERO_HASH
    if context.results is None:
        return None
    _, tasks = contested_group(decision.call.request.calldata)
    members = [member.task for each in uow.results.of_group(second) for member in each.members]
    return next(
        (
            result
            for result in context.results.read_results([*members, *tasks])
            if answer_of(second, result) == verdict
        ),
        None,
    )


def _request(decision: _Decision, result: Hash) -> CallRequest:
    """Return the call that replaces the one for the window's end."""
    waiting = decision.call.request
    group, tasks = contested_group(waiting.calldata)
    return CallRequest(
        account=waiting.account,
        contract=waiting.contract,
        kind=SETTLE_CONTEST,
        # A contest is decided once: the outbox refuses a second call for ever.
        dedup_key=f"{waiting.dedup_key}:decided",
        calldata=settle_contest_call(group, tasks, result),
        subject=waiting.subject,
        priority=_PRIORITY,
        exclusive_key=waiting.dedup_key,
    )
