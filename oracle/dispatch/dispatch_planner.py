"""What the dispatcher wants on chain now: starts of drawn tasks, and words about the queue.

Looked at again before anything is signed: what is not wanted any more never leaves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oracle.bindings.task_network import drop_call, queue_call, start_as_of_call, start_call
from oracle.chain.heads import Heads
from oracle.dispatch.assigner import StoredNetworkView, standing_in
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.drawer import line_at
from oracle.domain.ids import Hash, TaskKey
from oracle.domain.state.node import Membership
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import ON_ITS_WAY, CallRequest, Intent, IntentKind
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.assignment import AssignmentPlan, queue_of
from oracle.systems.crynux.crynux_queue import room_for
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import held_back

STARTS = frozenset({IntentKind.START_TASK, IntentKind.QUEUE_TASK, IntentKind.DROP_TASK})

# Starts first; then room in the queue; then the mere word that a task waits.
_START, _DROP, _QUEUE = 100, 150, 200
# An old seed block that is final needs no checking; its hash may be out of the contract's reach.
_CHECKED_BLOCKS = 200


class CallKey(NamedTuple):
    """What a wish of the dispatcher is about; `subject` names it for ever."""

    kind: IntentKind
    subject: str


@dataclass(frozen=True, slots=True)
class _Want:
    """A call that makes sense now; `draw`: the one that it starts."""

    about: CallKey
    task: TaskKey
    priority: int
    draw: StoredDraw | None = None


def plan_dispatch(context: TxContext, heads: Heads) -> StepResult | None:
    """Plan what is wanted and not yet on its way, up to `max_in_flight`; None: nothing.

    History plans nothing: a draw that stands there may be over since.
    """
    if context.dispatch is None or context.is_stopped():
        return None
    with context.store.reading() as uow:
        if not context.is_at_head(uow, heads):
            return None
        wishes = list(_wishes(context, uow, heads, context.dispatch))
    if not wishes:
        return None
    stamp = context.stamp
    with context.writing() as uow:
        added = [uow.outbox.intents.add(wish, stamp) for wish in wishes]
    kinds = [wish.kind.value for wish in wishes]
    detail = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return StepResult("dispatch planned", added[0], detail)


def wanted_now(uow: UnitOfWork, settings: DispatchSettings) -> Mapping[CallKey, _Want]:
    """Return the calls that make sense at the cursor, in the order of their urgency."""
    wants = {}
    for draw in uow.draws.standing():
        about = CallKey(IntentKind.START_TASK, f"task={draw.task}:seed={draw.seed_hash}")
        wants[about] = _Want(about, draw.task, _START, draw)
    return wants | {want.about: want for want in _about_the_queue(uow, settings)}


def is_unwanted(context: TxContext, uow: UnitOfWork, intent: Intent) -> bool:
    """Tell whether a call of the dispatcher has no reason any more."""
    wish = intent.wish
    if wish.kind not in STARTS or context.dispatch is None:
        return False
    return _about(intent) not in wanted_now(uow, context.dispatch)


def is_as_wanted(intent: Intent, wanted: Mapping[CallKey, _Want], heads: Heads) -> bool:
    """Tell whether a call still has its reason, and is what we would plan now.

    A start that checks its seed block gives way to a plain one when that block is final and old.
    """
    if intent.wish.kind is IntentKind.NOOP:
        # It fills a nonce: others wait behind it.
        return True
    want = wanted.get(_about(intent))
    return want is not None and intent.wish.calldata == _calldata(want, heads)


def _about_the_queue(uow: UnitOfWork, settings: DispatchSettings) -> Iterator[_Want]:
    """Tell of the tasks that found no node, and drop those for which there is no room."""
    cursor = uow.cursor.get()
    if cursor is None:
        return
    plan = AssignmentPlan(standing_in(uow), frozenset())
    queue = queue_of(line_at(StoredNetworkView(uow), settings.pricing), plan, cursor.number)
    if not queue:
        return
    counts = uow.nodes.counts().items()
    members = sum(many for (standing, _, _), many in counts if standing is Membership.MEMBER)
    room = room_for(members, settings.alpha)
    for one in reversed(queue[room:]):
        about = CallKey(IntentKind.DROP_TASK, f"task={one.task.key}")
        yield _Want(about, one.task.key, _DROP)
    for one in queue[:room]:
        if not one.task.queued:
            about = CallKey(IntentKind.QUEUE_TASK, f"task={one.task.key}")
            yield _Want(about, one.task.key, _QUEUE)


def _wishes(
    context: TxContext, uow: UnitOfWork, heads: Heads, settings: DispatchSettings
) -> Iterator[CallRequest]:
    """Yield what is wanted, with its reason; words about the queue keep no start waiting."""
    intents = uow.outbox.intents.unfinished(context.account)
    given_up = _given_up(context, uow, heads)
    under_way = {_about(one) for one in intents if one.id not in given_up}
    under_way |= {CallKey(*one) for one in held_back(uow, context.account)}
    on_their_way = [one.wish.kind for one in intents if one.state in ON_ITS_WAY]
    for want in wanted_now(uow, settings).values():
        is_start = want.about.kind is IntentKind.START_TASK
        before = on_their_way.count(IntentKind.START_TASK) if is_start else len(on_their_way)
        if before < settings.max_in_flight and want.about not in under_way:
            on_their_way.append(want.about.kind)
            yield _wish(context, uow, want, heads)


def _given_up(context: TxContext, uow: UnitOfWork, heads: Heads) -> set[int]:
    """Return the calls that were mined and failed, 2, 4, 8 … blocks ago, with each try longer.

    What they were for may still be wanted, and a node and a task wait for it: not until the
    failure is final. Should a reorg let both succeed, the contract refuses the second.
    """
    given_up = set()
    for slot in uow.outbox.slots.watched(context.account):
        intent = uow.outbox.intents.named(slot.intent_id) if slot.succeeded is False else None
        if intent is not None and slot.block_number is not None:
            wish = intent.wish
            tries = uow.outbox.intents.tries(context.account, wish.kind, wish.subject, None)
            if heads.latest.number - slot.block_number >= 1 << tries:
                given_up.add(intent.id)
    return given_up


def _about(intent: Intent) -> CallKey:
    return CallKey(intent.wish.kind, intent.wish.subject)


def _wish(context: TxContext, uow: UnitOfWork, want: _Want, heads: Heads) -> CallRequest:
    kind, subject = want.about
    tries = uow.outbox.intents.tries(context.account, kind, subject, None)
    draw = want.draw
    return CallRequest(
        account=context.account,
        contract=context.publisher.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}:try={tries + 1}",
        calldata=_calldata(want, heads),
        subject=subject,
        as_of_block=None if draw is None else draw.seed_block,
        as_of_hash=None if draw is None else Hash(draw.seed_hash),
        priority=want.priority,
    )


def _calldata(want: _Want, heads: Heads) -> str:
    draw = want.draw
    if draw is None:
        is_drop = want.about.kind is IntentKind.DROP_TASK
        return drop_call(want.task) if is_drop else queue_call(want.task)
    is_old = heads.latest.number - draw.seed_block > _CHECKED_BLOCKS
    if is_old and draw.seed_block <= heads.final.number:
        return start_call(draw.task, draw.node)
    return start_as_of_call(draw.task, draw.node, draw.seed_block, draw.seed_hash)
