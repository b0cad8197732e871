"""From the start of a task to its answer: delays, timeouts, and waiting for other members."""

from lab.closed_loop.economics import Gas
from lab.closed_loop.players import ERROR, AppOrder, LoopNode, LoopTask
from lab.closed_loop.running import endings
from lab.closed_loop.running.judgement import judge_order
from lab.closed_loop.running.loop_state import BEGIN, LoopState
from oracle.domain.events.network_events import TaskErrorReported, TaskSubmitted

# Time that a creator takes to judge, in seconds.
_JUDGES_IN = 2


def begin(state: LoopState, task: LoopTask, node: LoopNode) -> None:
    """Let a node decide what to do with a task that it was given."""
    role, timeout = node.role, task.order.shape.timeout
    late = state.now + timeout + 1
    if role.stops_at is not None and state.now - BEGIN >= role.stops_at:
        state.counts.wasted += 1
        state.agenda.add(late, _time_out, state, task)
        return
    if node.chance.is_hit(role.failures):
        _compute(state, node, min(task.seconds, timeout))
        state.agenda.add(late, _time_out, state, task)
        return
    intention = role.behaviour.begin(task)
    if intention.after is not None and intention.after <= timeout:
        state.agenda.add(state.now + intention.after, _answer, state, task)
    elif intention.after is None and intention.fellows:
        task.waits_for = intention.fellows
        state.agenda.add(late - 1, _answer, state, task)
        _wake(state, task)
    else:
        if intention.after is not None:
            _compute(state, node, timeout)
        state.agenda.add(late, _time_out, state, task)


def _compute(state: LoopState, node: LoopNode, seconds: int) -> None:
    state.money(node.role.owner).computing += (
        state.economics.gpu_second * seconds * node.role.cost // 1000
    )


def _answer(state: LoopState, task: LoopTask) -> None:
    node = task.node
    if task.is_settled or node is None or task.started is None:
        return
    said = node.role.behaviour.finish(task)
    _compute(state, node, said.computed)
    if said.answer is None:
        late = task.started + task.order.shape.timeout + 1
        state.agenda.add(max(late, state.now), _time_out, state, task)
        return
    task.answer, task.answered, task.opens = said.answer, state.now, said.opens
    kind = TaskErrorReported if said.answer == ERROR else TaskSubmitted
    state.network.say(kind, task.key, node.address)
    in_group = task.order.group is not None
    state.pay_gas(node.role.owner, Gas.ANSWER_IN_GROUP if in_group else Gas.ANSWER)
    for fellow in task.fellows:
        _wake(state, fellow)
    settled(state, task.order)


def _wake(state: LoopState, task: LoopTask) -> None:
    """Schedule the answer of a waiting task, if enough other members have answered."""
    if not task.waits_for or task.is_settled:
        return
    if sum(fellow.answer is not None for fellow in task.fellows) >= task.waits_for:
        task.waits_for = 0
        state.agenda.add(state.now + 1, _answer, state, task)


def _time_out(state: LoopState, task: LoopTask) -> None:
    if not task.is_settled:
        endings.time_out(state, task)


def settled(state: LoopState, order: AppOrder) -> None:
    """Schedule the judgement of an order if all of its tasks are settled."""
    if not order.is_judged and all(task.is_settled for task in order.tasks):
        order.is_judged = True
        state.agenda.add(state.now + _JUDGES_IN, judge_order, state, order)
