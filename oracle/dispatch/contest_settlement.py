"""Settles contests after the window for a second group, to release the held stakes.

Only groups of final blocks are searched for contests, so that no reorg removes a contest. The call
is planned at once and waits in the outbox until the window closes. Meanwhile a second group may be
ordered and decide the contest (`second_groups`). See
docs/explanation/dispatch.md#contests.
"""

from collections.abc import Sequence

from typing_extensions import override

from oracle.bindings.contest_calls import encode_settle_contest_call, fetch_contest_end
from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.domain.state import GroupResult
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SETTLE_CONTEST, Account, CallRequest, Intent, IntentState
from oracle.txmgr.call_registry import CallKind, Decision
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import StepResult, format_name_counts

SETTLED_REASON = "overtaken(the contest is settled already)"
# Bookmark of the last block that was searched for contested groups.
_SCANNED_BOOKMARK = "contests_scanned"
_PRIORITY = 275
# The percentage of the budget reserved for starting tasks that others pay for.
_RESERVE_PERCENT = 50
# Maximum number of groups, and of open contests, per step. Each needs a request to the contract.
_MAX_PER_STEP = 20
_RETRY_SECONDS = 60
# If a group closed longer ago than this, its contest is left to the owners of the stakes.
_MAX_AGE_SECONDS = 30 * 86_400


def plan_contest_settlements(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan a settlement call for each contest in new final blocks.

    The result is None if there are no such contests.

    Raises:
        TransientError: no endpoint returns the state of a group.
    """
    if context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        scanned_through = uow.bookmarks.get_number(_SCANNED_BOOKMARK)
        if cursor is None or not context.account_context.is_at_head(uow, heads):
            return None
        first_block = (scanned_through or 0) + 1
        last_block = min(heads.final.number, cursor.number)
        if first_block > last_block:
            return None
        groups, last_block = _load_next_contested_groups(uow, first_block, last_block)
    requests = _build_requests(context, groups, cursor.time)
    with context.account_context.write_transaction() as uow:
        uow.bookmarks.set(_SCANNED_BOOKMARK, last_block)
        stamp = context.account_context.stamp
        intent_ids = [uow.outbox.intents.add(request, stamp) for request in requests]
    added_ids = [intent_id for intent_id in intent_ids if intent_id is not None]
    if not added_ids:
        return None
    return StepResult(
        "contests found", added_ids[0], format_name_counts([SETTLE_CONTEST] * len(added_ids))
    )


def find_open_contests(uow: UnitOfWork, account: Account, time: int) -> list[Intent]:
    """Return the settlement calls of contests that are still open at a block time.

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


def _load_next_contested_groups(
    uow: UnitOfWork, first: int, last: int
) -> tuple[list[GroupResult], int]:
    """Load the possibly contested groups of the next blocks, and the last of these blocks.

    The groups of a block are never split over two steps.
    """
    contested_results = uow.results.list_with_unaccepted_tasks(first, last, _MAX_PER_STEP)
    if len(contested_results) < _MAX_PER_STEP:
        return contested_results, last
    newest_block = contested_results[-1].closed_at.block
    if newest_block == first:
        return uow.results.list_with_unaccepted_tasks(first, first), first
    return [
        group for group in contested_results if group.closed_at.block < newest_block
    ], newest_block - 1


def _build_requests(
    context: DispatchContext, groups: Sequence[GroupResult], now: int
) -> list[CallRequest]:
    """Build a settlement call for each group whose stakes the contract holds."""
    synced_pool_view = context.account_context.get_synced_pool_view()
    task_network_address = context.account_context.sender_account.domain.contract
    requests = []
    for result in groups:
        if result.time < now - _MAX_AGE_SECONDS:
            continue
        # The last second of the contest's window in block time, or None if the group is not
        # contested.
        window_end = fetch_contest_end(synced_pool_view, task_network_address, result.group)
        if window_end is None:
            continue
        tasks = tuple(member.task for member in result.members)
        subject = f"group={result.group}"
        requests.append(
            CallRequest(
                account=context.account_context.account,
                contract=task_network_address,
                kind=SETTLE_CONTEST,
                # A group can be contested only once, so this key is unique in the outbox.
                dedup_key=f"{SETTLE_CONTEST}:{subject}",
                calldata=encode_settle_contest_call(result.group, tasks),
                subject=subject,
                priority=_PRIORITY,
                not_before=window_end + 1,
            )
        )
    return requests


class SettleContestCall(CallKind):
    """Settles a contest by the second group's verdict, or after the contest window."""

    name = SETTLE_CONTEST
    reserve_share = _RESERVE_PERCENT

    @override
    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        """End the call if its contest is over, or else let it wait.

        The contract refuses a wrong result, and any result before the second group was compared.
        After the window, the contract accepts the call and slashes no node.
        """
        name = "" if result.refusal is None else result.refusal.name
        if name == "NotContested":
            return Decision.end(IntentState.SUPERSEDED, SETTLED_REASON)
        retry_at = heads.latest.time + _RETRY_SECONDS
        return Decision.wait_until(retry_at, (name or "unknown", result.reason))
