"""Orders the second group of each open contest, and ends its tasks.

An open contest is a `settle_contest` call that waits for its window's end. Its group lies in a
final block, and the second group's ids follow from it, so that the contract refuses another one.
`contest_decisions` settles the contest by what the second group found.
See docs/explanation/dispatch.md#second-groups.
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
from oracle.systems.crynux.requirements import misfit, requirement_of, unavailable
from oracle.txmgr.context import StepResult, counted
from oracle.txmgr.deferral import held_back

# How the outbox names them.
SECOND_GROUP, END_SECOND_GROUP = "second_group", "end_second_group"
# The reason of a call whose contest is over, or has a second group that we did not order.
NOT_OPEN = "overtaken(the contest is over, or has its second group)"
# Nodes that could not be given the work for so many blocks are drawn anew.
DRAWN_FOR_BLOCKS = 32
_END, _START = 251, 252
_DAY = 86_400
# The tasks of a second group have ended so many days after it was planned: the window is a day,
# and the longest timeout is another one.
_DAYS_BACK = 4
_UNSENT = frozenset({*FAILED, IntentState.CANCELLED})


class SecondGroupWant(NamedTuple):
    """A contested group, one of its tasks, and who is to do the work over again.

    `end`: the last second of the window, block time.
    """

    group: GroupKey
    task: Task
    nodes: tuple[Address, ...]
    end: int


def plan_second_groups(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan second groups and the ends of their tasks, once a block; None: there is nothing.

    Raises:
        TransientError: no endpoint returns the least fee.
    """
    if context.tx.is_stopped():
        return None
    with context.tx.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None or not context.tx.is_at_head(uow, heads):
            return None
        if context.contests_looked.at == cursor.hash:
            return None
        contests = open_contests(uow, context.tx.account, cursor.time)
        calls = second_group_calls(uow, context.tx.account, cursor.time)
        wants = list(_wants(context, uow, contests, calls)) if contests else []
        requests = list(_ends(context, uow, calls, cursor.time))
    requests += [_request(context, cursor, want) for want in wants]
    context.contests_looked.at = cursor.hash
    if not requests:
        return None
    stamp = context.tx.stamp
    with context.tx.writing() as uow:
        added = [uow.outbox.intents.add(_numbered(uow, each), stamp) for each in requests]
    kinds = [request.kind for request in requests]
    return StepResult("second groups planned", added[0], counted(kinds))


def second_group_calls(uow: UnitOfWork, account: Account, time: int) -> list[Intent]:
    """Return the calls for second groups whose tasks may be open at a block time."""
    first = time // _DAY - _DAYS_BACK
    return uow.outbox.intents.of_periods(account, SECOND_GROUP, first)


def second_group_ends(uow: UnitOfWork, account: Account, time: int) -> Mapping[str, str]:
    """Return the calldata of every end that tasks of second groups want, by its subject."""
    return ends_wanted(uow, second_group_calls(uow, account, time), account.address, time)


def can_start(uow: UnitOfWork, call: Intent, rules: Rules, at: Cursor) -> bool:
    """Tell whether the nodes of a call that was not sent can still be given the work."""
    request = call.request
    if at.number - (request.as_of_block or 0) > DRAWN_FOR_BLOCKS:
        return False
    nodes = probe_nodes(request.calldata)
    rows, drawn = uow.nodes.named(nodes), set(active_draws_in(uow).values())
    return all(
        node in rows and node not in drawn and unavailable(rows[node], at.time, rules) is None
        for node in nodes
    )


def _wants(
    context: DispatchContext, uow: UnitOfWork, contests: Sequence[Intent], calls: Sequence[Intent]
) -> Iterator[SecondGroupWant]:
    """Yield a second group for each contest that has none, where enough nodes are idle."""
    cursor, account = uow.cursor.get(), context.tx.account
    ordered = {one.request.subject for one in calls if _is_ordered(one)}
    ordered |= {subject for kind, subject in held_back(uow, account) if kind == SECOND_GROUP}
    lacking = [one for one in contests if one.request.subject not in ordered]
    if cursor is None or not lacking:
        return
    taken = set(active_draws_in(uow).values())
    for one in uow.outbox.intents.in_states(account, UNFINISHED):
        if one.request.kind in {PROBE, SECOND_GROUP}:
            taken.update(probe_nodes(one.request.calldata))
    rules = context.settings.rules
    idle = [n for n in uow.nodes.all() if unavailable(n, cursor.time, rules) is None]
    for contest in lacking:
        group, keys = contested_group(contest.request.calldata)
        rows = uow.tasks.named(keys)
        tasks = [rows[key] for key in keys if key in rows]
        if len(tasks) < len(keys) or not _is_known(tasks[0]):
            continue
        busy = taken | {task.node for task in tasks if task.node is not None}
        fit = [n for n in idle if n.address not in busy]
        nodes = choose_nodes(fit, tasks[0], len(keys), group + cursor.hash)
        if nodes:
            taken.update(nodes)
            end = (contest.request.not_before or 0) - 1
            yield SecondGroupWant(group, tasks[0], nodes, end)


def choose_nodes(idle: Iterable[Node], task: Task, count: int, seed: str) -> tuple[Address, ...]:
    """Return `count` nodes that can run the task, drawn by the seed; none where there are fewer.

    Those with its models on disk come first.
    """
    wanted = requirement_of(task)
    fit = [node for node in idle if misfit(node, wanted) is None]
    fit.sort(
        key=lambda node: (
            not set(wanted.models).issubset(node.models),
            sha256(f"{seed}{node.address}".encode()).digest(),
        )
    )
    return tuple(node.address for node in fit[:count]) if len(fit) >= count else ()


def _is_ordered(call: Intent) -> bool:
    return call.state not in _UNSENT or call.error_text == NOT_OPEN


def _is_known(task: Task) -> bool:
    """Tell whether all that the order hash covers is known of a task."""
    return None not in (task.kind, task.size, task.timeout, task.version)


def _ends(
    context: DispatchContext, uow: UnitOfWork, calls: Sequence[Intent], time: int
) -> Iterator[CallRequest]:
    account = context.tx.account
    unfinished = uow.outbox.intents.unfinished(account)
    busy = {(one.request.kind, one.request.subject) for one in unfinished}
    busy |= held_back(uow, account)
    for subject, calldata in ends_wanted(uow, calls, account.address, time).items():
        if (END_SECOND_GROUP, subject) not in busy:
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
    """Return the request under the number of its try, by which the outbox knows it for ever."""
    tries = uow.outbox.intents.tries(request.account, request.kind, request.subject, None)
    return replace(request, dedup_key=f"{request.kind}:{request.subject}:try={tries + 1}")
