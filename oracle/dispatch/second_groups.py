"""Orders the second group of each open contest, and ends its tasks.

An open contest is a `settle_contest` call that waits for its window's end. Its group is in a final
block, and the second group's ids follow from it, so that the contract refuses a duplicate.
`contest_decisions` settles the contest by the second group's verdict. See
docs/explanation/dispatch.md#second-groups.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from oracle.bindings.contest_calls import contested_group, least_fee
from oracle.bindings.probe_calls import probe_nodes, second_group_call
from oracle.chain.heads import Heads
from oracle.dispatch.assigner import active_draws_in
from oracle.dispatch.contest_settlement import open_contests
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.probe_wants import PROBE, ends_wanted
from oracle.domain.ids import Address, GroupKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    FAILED,
    UNFINISHED,
    Account,
    CallRequest,
    Intent,
    IntentState,
)
from oracle.store.state.cursor_repository import Cursor
from oracle.systems.crynux.requirements import misfit_reason, requirement_of, unavailability_reason
from oracle.txmgr.context import StepResult, counted
from oracle.txmgr.deferral import held_back

# The kinds of these calls in the outbox.
SECOND_GROUP, END_SECOND_GROUP = "second_group", "end_second_group"
# The reason of a call whose contest is over, or has a second group of another account.
NOT_OPEN = "overtaken(the contest is over, or has its second group)"
# A call that was not sent for this many blocks is replaced by one with newly drawn nodes.
DRAWN_FOR_BLOCKS = 32
_END, _START = 251, 252
_DAY = 86_400
# The tasks of a second group end within this many days: the window is a day, and the longest
# timeout is another.
_DAYS_BACK = 4
_UNSENT = frozenset({*FAILED, IntentState.CANCELLED})


class SecondGroupWant(NamedTuple):
    """A contested group, one of its tasks, and the nodes that repeat the work.

    `window_end`: the last second of the window, block time.
    """

    group: GroupKey
    task: Task
    nodes: tuple[Address, ...]
    end: int


def plan_second_groups(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan second groups and the ends of their tasks, once a block; return None if nothing is due.

    Raises:
        TransientError: no endpoint returns the minimum fee.
    """
    if context.tx.is_stopped():
        return None
    with context.tx.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None or not context.tx.is_at_head(uow, heads):
            return None
        if context.checked_at.get(SECOND_GROUP) == cursor.hash:
            return None
        contests = open_contests(uow, context.tx.account, cursor.time)
        calls = second_group_calls(uow, context.tx.account, cursor.time)
        wants = list(_wants(context, uow, contests, calls)) if contests else []
        requests = list(_ends(context, uow, calls, cursor.time))
    requests += [_request(context, cursor, want) for want in wants]
    context.checked_at[SECOND_GROUP] = cursor.hash
    if not requests:
        return None
    stamp = context.tx.stamp
    with context.tx.writing() as uow:
        added = [uow.outbox.intents.add(_numbered(uow, request), stamp) for request in requests]
    kinds = [request.kind for request in requests]
    return StepResult("second groups planned", added[0], counted(kinds))


def second_group_calls(uow: UnitOfWork, account: Account, time: int) -> list[Intent]:
    """Return the calls for second groups whose tasks may be open at a block time."""
    first_day = time // _DAY - _DAYS_BACK
    return uow.outbox.intents.of_periods(account, SECOND_GROUP, first_day)


def second_group_ends(uow: UnitOfWork, account: Account, time: int) -> Mapping[str, str]:
    """Return, by subject, the calldata of every due end of the tasks of second groups."""
    return ends_wanted(uow, second_group_calls(uow, account, time), account.address, time)


def can_start(uow: UnitOfWork, call: Intent, rules: Rules, at: Cursor) -> bool:
    """Return whether the nodes of a call that was not sent can still be given the work."""
    request = call.request
    if at.number - (request.as_of_block or 0) > DRAWN_FOR_BLOCKS:
        return False
    nodes = probe_nodes(request.calldata)
    rows, drawn = uow.nodes.named(nodes), set(active_draws_in(uow).values())
    return all(
        node in rows
        and node not in drawn
        and unavailability_reason(rows[node], at.time, rules) is None
        for node in nodes
    )


def _wants(
    context: DispatchContext, uow: UnitOfWork, contests: Sequence[Intent], calls: Sequence[Intent]
) -> Iterator[SecondGroupWant]:
    """Yield a second group for each contest without one, if enough nodes are idle."""
    cursor, account = uow.cursor.get(), context.tx.account
    ordered = {call.request.subject for call in calls if _is_ordered(call)}
    ordered |= {subject for kind, subject in held_back(uow, account) if kind == SECOND_GROUP}
    unordered = [contest for contest in contests if contest.request.subject not in ordered]
    if cursor is None or not unordered:
        return
    reserved = set(active_draws_in(uow).values())
    for call in uow.outbox.intents.in_states(account, UNFINISHED):
        if call.request.kind in {PROBE, SECOND_GROUP}:
            reserved.update(probe_nodes(call.request.calldata))
    rules = context.settings.rules
    idle = [
        node for node in uow.nodes.all() if unavailability_reason(node, cursor.time, rules) is None
    ]
    for contest in unordered:
        group, keys = contested_group(contest.request.calldata)
        rows = uow.tasks.named(keys)
        tasks = [rows[key] for key in keys if key in rows]
        if len(tasks) < len(keys) or not _is_order_known(tasks[0]):
            continue
        ineligible = reserved | {task.node for task in tasks if task.node is not None}
        candidates = [node for node in idle if node.address not in ineligible]
        nodes = choose_nodes(candidates, tasks[0], len(keys), group + cursor.hash)
        if nodes:
            reserved.update(nodes)
            end = (contest.request.not_before or 0) - 1
            yield SecondGroupWant(group, tasks[0], nodes, end)


def choose_nodes(idle: Iterable[Node], task: Task, count: int, seed: str) -> tuple[Address, ...]:
    """Return `count` nodes that can run the task, drawn by the seed, or none if there are fewer.

    Nodes with the task's models on disk come first.
    """
    requirement = requirement_of(task)
    candidates = [node for node in idle if misfit_reason(node, requirement) is None]
    candidates.sort(
        key=lambda node: (
            not set(requirement.models).issubset(node.models),
            sha256(f"{seed}{node.address}".encode()).digest(),
        )
    )
    if len(candidates) < count:
        return ()
    return tuple(node.address for node in candidates[:count])


def _is_ordered(call: Intent) -> bool:
    return call.state not in _UNSENT or call.error_text == NOT_OPEN


def _is_order_known(task: Task) -> bool:
    """Return whether the database has every field of the task that the order hash covers."""
    return None not in (task.kind, task.size, task.timeout, task.version)


def _ends(
    context: DispatchContext, uow: UnitOfWork, calls: Sequence[Intent], time: int
) -> Iterator[CallRequest]:
    account = context.tx.account
    unfinished = uow.outbox.intents.unfinished(account)
    planned = {(call.request.kind, call.request.subject) for call in unfinished}
    planned |= held_back(uow, account)
    for subject, calldata in ends_wanted(uow, calls, account.address, time).items():
        if (END_SECOND_GROUP, subject) not in planned:
            yield CallRequest(
                account=account,
                contract=context.tx.publisher.domain.contract,
                kind=END_SECOND_GROUP,
                dedup_key="",
                calldata=calldata,
                subject=subject,
                priority=_END,
                exclusive_key=f"{END_SECOND_GROUP}:{subject}",
            )


def _request(context: DispatchContext, cursor: Cursor, want: SecondGroupWant) -> CallRequest:
    lines, network = context.tx.lines(), context.tx.publisher.domain.contract
    subject = f"group={want.group}"
    fee = least_fee(lines, network, want.task)
    return CallRequest(
        account=context.tx.account,
        contract=network,
        kind=SECOND_GROUP,
        dedup_key="",
        calldata=second_group_call(want.task, fee, want.nodes, want.group),
        subject=subject,
        period=cursor.time // _DAY,
        as_of_block=cursor.number,
        as_of_hash=cursor.hash,
        priority=_START,
        deadline=want.end,
        exclusive_key=f"{SECOND_GROUP}:{subject}",
    )


def _numbered(uow: UnitOfWork, request: CallRequest) -> CallRequest:
    """Return the request with the number of its try in its dedup key."""
    tries = uow.outbox.intents.tries(request.account, request.kind, request.subject, None)
    return replace(request, dedup_key=f"{request.kind}:{request.subject}:try={tries + 1}")
