"""Runs a simulated network in which the policy's own draws select the node of each task.

The loop ends when the planned number of tasks has been ordered. It uses the product's own code for
the fold, the scores, the kickout condition and the draw. See docs/explanation/attacks.md.
"""

from lab.backtest.intervals import ExclusionTracker
from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.loop_plan import Cast, LoopPlan, create_applications
from lab.closed_loop.loop_result import LoopResult, summarize_loop
from lab.closed_loop.running.agenda import Agenda
from lab.closed_loop.running.answers import schedule_judgement
from lab.closed_loop.running.folded_network import FoldedNetwork
from lab.closed_loop.running.kickout_process import handle_due_kickout
from lab.closed_loop.running.loop_state import LOOP_START_TIME, LoopState
from lab.closed_loop.running.membership import add_node
from lab.closed_loop.running.orders import order_second_group, serve_queue, start_stream
from oracle.systems.registry import get_policy

# Interval at which a node is drawn for waiting tasks again although no node was released: an
# excluded node may have recovered.
_QUEUE_CHECK_SECONDS = 15


def run_closed_loop(column: SystemColumn, plan: LoopPlan, loop_cast: Cast) -> LoopResult:
    """Run one closed loop under a system and return its result.

    The same arguments always give the same result.

    Raises:
        ValueError: the system does not score groups, or its policy does not exist.
    """
    check_can_simulate(column)
    policy = get_policy(column.policy, column.policy_changes)
    network = FoldedNetwork(column.rules, policy, LOOP_START_TIME)
    state = LoopState(plan, network, Agenda(), ExclusionTracker(column.rules))
    for role in loop_cast.nodes:
        add_node(state, role)
    for stream_number, creator in enumerate((create_applications(plan), *loop_cast.creators)):
        start_stream(state, creator, stream_number)
    state.agenda.schedule(LOOP_START_TIME, _schedule_queue_check, state)
    _run_agenda(state)
    return summarize_loop(state)


def check_can_simulate(column: SystemColumn) -> None:
    """Check that a system scores groups of tasks with one node for each task.

    Raises:
        ValueError: the system has no rules, or scores as the legacy system does.
    """
    if not column.has_rules or column.rules.legacy is not None:
        raise ValueError(
            f"{column.name}: does not score groups and cannot be simulated in a closed loop"
        )


def _run_agenda(state: LoopState) -> None:
    for time, action, arguments in state.agenda.iter_actions():
        state.network.time = time
        action(*arguments)
        _apply_changes(state)
        while state.contests:
            order_second_group(state, state.contests.pop())
        if state.may_start_tasks:
            state.may_start_tasks = False
            if state.queue:
                serve_queue(state)
                _apply_changes(state)
        if state.is_over:
            return


def _apply_changes(state: LoopState) -> None:
    """Process the orders, scores and kickouts that changed during the last action."""
    for order in state.changed_orders:
        schedule_judgement(state, order)
    state.changed_orders.clear()
    changes = state.network.take_changes()
    for entry in changes.scores:
        state.node_by_address[entry.node].recent_scores.append(
            (state.creator_by_task[entry.task], entry.score)
        )
    state.counts.anomalies += len(changes.anomalies)
    for change in changes.kickouts:
        handle_due_kickout(state, change)
    for order in state.judged_orders:
        keys = [task.key for task in order.tasks]
        state.network.drop_tasks(keys)
        for key in keys:
            del state.creator_by_task[key]
    state.judged_orders.clear()


def _schedule_queue_check(state: LoopState) -> None:
    state.may_start_tasks = True
    state.agenda.schedule(state.now + _QUEUE_CHECK_SECONDS, _schedule_queue_check, state)
