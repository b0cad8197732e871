"""Orders a second group for each open contest, ends its tasks, and settles by its verdict.

A contest is open while its `settle_contest` call waits for the end of its window. The contested
group is in a final block. The ids of the second group are derived from the contested group, so
that the contract refuses a duplicate. When the second group has decided, the call that waits for
the end of the window is replaced in one commit by a call with the result, so that a contest never
has two calls. See docs/explanation/dispatch.md#second-groups and
docs/explanation/dispatch.md#results.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from oracle.bindings.contest_calls import (
    compute_answer,
    decode_settle_contest_call,
    encode_settle_contest_call,
    fetch_group_record,
    fetch_min_task_fee,
)
from oracle.bindings.probe_calls import decode_probe_nodes, encode_second_group_call
from oracle.chain.heads import Heads
from oracle.dispatch.assigner import load_active_draws
from oracle.dispatch.contest_settlement import SETTLED_REASON, find_open_contests
from oracle.dispatch.dispatch_calls import DispatchContext, enqueue_calls, find_pending_call_keys
from oracle.dispatch.probe_wants import find_due_end_calls
from oracle.domain.ids import ZERO_HASH, Address, GroupKey, Hash
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    END_SECOND_GROUP,
    FAILED_STATES,
    PROBE,
    SECOND_GROUP,
    SETTLE_CONTEST,
    UNFINISHED_STATES,
    Account,
    CallRequest,
    Intent,
    IntentState,
)
from oracle.store.state.cursor_repository import Cursor
from oracle.systems.crynux.requirements import (
    build_requirement,
    find_misfit_reason,
    find_unavailability_reason,
)
from oracle.txmgr.context import StepResult, format_name_counts
from oracle.txmgr.deferral import find_held_subjects

# The reason stored when a call is superseded because its contest is over or another account
# ordered the second group.
NOT_OPEN_REASON = "overtaken(the contest is over, or has its second group)"
# A call that could not be sent within this many blocks is replaced by one with newly drawn nodes.
MAX_DRAW_AGE_BLOCKS = 32
_END_PRIORITY, _START_PRIORITY = 251, 252
_DAY_SECONDS = 86_400
# The tasks of a second group end within this many days. The window takes one day and the longest
# timeout another day; the rest is margin.
_DAYS_BACK = 4
_UNSENT_STATES = frozenset({*FAILED_STATES, IntentState.CANCELLED})
# The reason stored when a call that waits for the end of the window is superseded.
DECIDED_REASON = (
    "overtaken(the second group has decided, and the contest is settled by its verdict)"
)
# Decided settlements are sent after the starts of tasks but before new orders, because honest
# nodes are waiting for their stakes.
_DECISION_PRIORITY = 200
_ORDERED = frozenset({IntentState.MINED, IntentState.FINAL})


class PlannedSecondGroup(NamedTuple):
    """A contested group, one of its tasks, and the nodes that repeat the work.

    `window_end` is the last second of the window, in block time.
    """

    group: GroupKey
    task: Task
    nodes: tuple[Address, ...]
    window_end: int


def plan_second_groups(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan second groups, and calls that end their tasks, once per block.

    The result is None if nothing is planned.

    Raises:
        TransientError: no endpoint returns the minimum fee.
    """
    if context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        cursor = context.get_cursor_unless_checked(uow, heads, SECOND_GROUP)
        if cursor is None:
            return None
        contests = find_open_contests(uow, context.account_context.account, cursor.time)
        calls = load_second_group_calls(uow, context.account_context.account, cursor.time)
        planned_groups = (
            list(_iter_planned_second_groups(context, uow, contests, calls)) if contests else []
        )
        requests = list(_build_end_requests(context, uow, calls, cursor.time))
    requests += [
        _build_start_request(context, cursor, planned_group) for planned_group in planned_groups
    ]
    context.checked_at[SECOND_GROUP] = cursor.hash
    return enqueue_calls(context, "second groups planned", requests)


def load_second_group_calls(uow: UnitOfWork, account: Account, time: int) -> list[Intent]:
    """Return the second-group calls whose tasks may still be open at a block time."""
    first_day = time // _DAY_SECONDS - _DAYS_BACK
    return uow.outbox.intents.list_intents_from_period(account, SECOND_GROUP, first_day)


def find_due_second_group_ends(uow: UnitOfWork, account: Account, time: int) -> Mapping[str, str]:
    """Return the calldata of each due call that ends second-group tasks.

    The result maps the subject of a call to its calldata.
    """
    return find_due_end_calls(
        uow, load_second_group_calls(uow, account, time), account.address, time
    )


def is_group_start_still_due(uow: UnitOfWork, call: Intent, rules: Rules, cursor: Cursor) -> bool:
    """Return whether an unsent start is recent and all its nodes are still available."""
    request = call.request
    if cursor.number - (request.as_of_block or 0) > MAX_DRAW_AGE_BLOCKS:
        return False
    nodes = decode_probe_nodes(request.calldata)
    node_by_address = uow.nodes.get_many(nodes)
    drawn_nodes = set(load_active_draws(uow).values())
    return all(
        node in node_by_address
        and node not in drawn_nodes
        and find_unavailability_reason(node_by_address[node], cursor.time, rules) is None
        for node in nodes
    )


def _iter_planned_second_groups(
    context: DispatchContext, uow: UnitOfWork, contests: Sequence[Intent], calls: Sequence[Intent]
) -> Iterator[PlannedSecondGroup]:
    """Yield a second group for each contest that lacks one, if enough nodes are idle."""
    cursor = uow.cursor.get()
    account = context.account_context.account
    ordered_subjects = {call.request.subject for call in calls if _is_second_group_ordered(call)}
    ordered_subjects |= {
        subject for kind, subject in find_held_subjects(uow, account) if kind == SECOND_GROUP
    }
    unordered_contests = [
        contest for contest in contests if contest.request.subject not in ordered_subjects
    ]
    if cursor is None or not unordered_contests:
        return
    reserved_nodes = set(load_active_draws(uow).values())
    for call in uow.outbox.intents.list_in_states(account, UNFINISHED_STATES):
        if call.request.kind in {PROBE, SECOND_GROUP}:
            reserved_nodes.update(decode_probe_nodes(call.request.calldata))
    rules = context.settings.rules
    idle_nodes = [
        node
        for node in uow.nodes.iterate_all()
        if find_unavailability_reason(node, cursor.time, rules) is None
    ]
    for contest in unordered_contests:
        group, keys = decode_settle_contest_call(contest.request.calldata)
        task_by_key = uow.tasks.get_many(keys)
        contested_tasks = [task_by_key[key] for key in keys if key in task_by_key]
        if len(contested_tasks) < len(keys) or not _has_order_hash_fields(contested_tasks[0]):
            continue
        ineligible_nodes = reserved_nodes | {
            task.node for task in contested_tasks if task.node is not None
        }
        candidates = [node for node in idle_nodes if node.address not in ineligible_nodes]
        nodes = choose_nodes(candidates, contested_tasks[0], len(keys), group + cursor.hash)
        if nodes:
            reserved_nodes.update(nodes)
            window_end = (contest.request.not_before or 0) - 1
            yield PlannedSecondGroup(group, contested_tasks[0], nodes, window_end)


def choose_nodes(
    idle_nodes: Iterable[Node], task: Task, count: int, seed: str
) -> tuple[Address, ...]:
    """Draw `count` nodes that can run the task, using the seed.

    The result is empty if there are too few. Nodes with the task's models on disk are preferred.
    """
    requirement = build_requirement(task)
    fitting_nodes = [node for node in idle_nodes if find_misfit_reason(node, requirement) is None]
    fitting_nodes.sort(
        key=lambda node: (
            not set(requirement.models).issubset(node.models),
            sha256(f"{seed}{node.address}".encode()).digest(),
        )
    )
    if len(fitting_nodes) < count:
        return ()
    return tuple(node.address for node in fitting_nodes[:count])


def _is_second_group_ordered(call: Intent) -> bool:
    return call.state not in _UNSENT_STATES or call.error_text == NOT_OPEN_REASON


def _has_order_hash_fields(task: Task) -> bool:
    """Return whether all task fields covered by the order hash are known."""
    return None not in (task.kind, task.size, task.timeout, task.version)


def _build_end_requests(
    context: DispatchContext, uow: UnitOfWork, calls: Sequence[Intent], time: int
) -> Iterator[CallRequest]:
    account = context.account_context.account
    pending_keys = find_pending_call_keys(uow, account)
    for subject, calldata in find_due_end_calls(uow, calls, account.address, time).items():
        if (END_SECOND_GROUP, subject) not in pending_keys:
            yield CallRequest(
                account=account,
                contract=context.account_context.sender_account.domain.contract,
                kind=END_SECOND_GROUP,
                dedup_key=f"{END_SECOND_GROUP}:{subject}",
                calldata=calldata,
                subject=subject,
                priority=_END_PRIORITY,
                exclusive_key=f"{END_SECOND_GROUP}:{subject}",
            )


def _build_start_request(
    context: DispatchContext, cursor: Cursor, planned_group: PlannedSecondGroup
) -> CallRequest:
    synced_pool_view = context.account_context.get_synced_pool_view()
    task_network = context.account_context.sender_account.domain.contract
    subject = f"group={planned_group.group}"
    fee = fetch_min_task_fee(synced_pool_view, task_network, planned_group.task)
    return CallRequest(
        account=context.account_context.account,
        contract=task_network,
        kind=SECOND_GROUP,
        dedup_key=f"{SECOND_GROUP}:{subject}",
        calldata=encode_second_group_call(
            planned_group.task, fee, planned_group.nodes, planned_group.group
        ),
        subject=subject,
        period=cursor.time // _DAY_SECONDS,
        as_of_block=cursor.number,
        as_of_hash=cursor.hash,
        priority=_START_PRIORITY,
        deadline=planned_group.window_end,
        exclusive_key=f"{SECOND_GROUP}:{subject}",
    )


def plan_decided_contest_settlements(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan settlements of contests that a second group has decided, once per block.

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
    settled_contests, decided_contests = _classify_contests(context, heads, contests)
    context.checked_at[SETTLE_CONTEST] = cursor.hash
    if not settled_contests and not decided_contests:
        return None
    stamp = context.account_context.stamp
    with context.account_context.write_transaction() as uow:
        for call in settled_contests:
            uow.outbox.intents.end_unsent_intent(
                call, IntentState.SUPERSEDED, SETTLED_REASON, stamp
            )
        for call, request in decided_contests:
            uow.outbox.intents.end_unsent_intent(
                call, IntentState.SUPERSEDED, DECIDED_REASON, stamp
            )
            uow.outbox.intents.add(request, stamp)
    calls = [*settled_contests, *(call for call, _ in decided_contests)]
    return StepResult(
        "contests decided", calls[0].id, format_name_counts([SETTLE_CONTEST] * len(calls))
    )


def _find_contests_with_second_group(
    uow: UnitOfWork, context: DispatchContext, time: int
) -> Iterator[Intent]:
    """Yield the open contests for which any account has ordered a second group."""
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
    """Return the settled and the decided contests as of the final block.

    A contest is decided if its second group has been compared, and a result that the contract
    accepts for the verdict is known. A decided contest is returned with the call that replaces the
    waiting call.
    """
    synced_pool_view = context.account_context.get_synced_pool_view()
    task_network = context.account_context.sender_account.domain.contract
    block_tag = hex(heads.final.number)
    settled_contests, decided_contests = [], []
    for contest in contests:
        key, _ = decode_settle_contest_call(contest.request.calldata)
        group = fetch_group_record(synced_pool_view, task_network, key, block_tag)
        if group.is_settled:
            settled_contests.append(contest)
        elif group.is_contested and group.peer is not None:
            second_group = fetch_group_record(
                synced_pool_view, task_network, group.peer, block_tag
            )
            result = (
                _find_accepted_result(context, contest, group.peer, second_group.verdict)
                if second_group.has_compared_answers
                else None
            )
            if result is not None:
                decided_contests.append((contest, _build_request(contest.request, result)))
    return settled_contests, decided_contests


def _find_accepted_result(
    context: DispatchContext, contest: Intent, second_group: GroupKey, verdict: Hash | None
) -> Hash | None:
    """Return the result that the contract accepts for this verdict, if it is known.

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
    """Build the settlement call that replaces a call waiting for the window's end."""
    group, tasks = decode_settle_contest_call(waiting_request.calldata)
    return CallRequest(
        account=waiting_request.account,
        contract=waiting_request.contract,
        kind=SETTLE_CONTEST,
        # A contest is decided only once, so this key is unique in the outbox.
        dedup_key=f"{waiting_request.dedup_key}:decided",
        calldata=encode_settle_contest_call(group, tasks, result),
        subject=waiting_request.subject,
        priority=_DECISION_PRIORITY,
        exclusive_key=waiting_request.dedup_key,
    )
