"""Runs a network in which the policy's own draws select the nodes, until all orders are in.

Fold, scores, kickout predicate and draw are those of the product, not a second implementation. See
docs/explanation/attacks.md.
"""

from lab.backtest.intervals import Exclusions
from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.loop_plan import Cast, LoopPlan, applications
from lab.closed_loop.loop_result import LoopResult, sum_up
from lab.closed_loop.running.agenda import Agenda
from lab.closed_loop.running.answers import settled
from lab.closed_loop.running.folded_network import FoldedNetwork
from lab.closed_loop.running.kickout_process import follow
from lab.closed_loop.running.loop_state import BEGIN, LoopState
from lab.closed_loop.running.membership import enter
from lab.closed_loop.running.orders import contest, open_stream, serve_queue
from oracle.systems.registry import get_policy

# Interval at which waiting tasks are tried again although no node was released, because nodes
# recover.
_LOOKS_EVERY = 15


def play(column: SystemColumn, plan: LoopPlan, cast: Cast) -> LoopResult:
    """Run one closed loop under a system; the same arguments give the same result.

    Raises:
        ValueError: the system scores no groups, or its policy does not exist.
    """
    refuse_unplayable(column)
    policy = get_policy(column.policy, column.tuning)
    network = FoldedNetwork(column.rules, policy, BEGIN)
    state = LoopState(plan, network, Agenda(), Exclusions(column.rules))
    for role in cast.nodes:
        enter(state, role)
    for number, creator in enumerate((applications(plan), *cast.creators)):
        open_stream(state, creator, number)
    state.agenda.add(BEGIN, _look, state)
    _run(state)
    return sum_up(state)


def refuse_unplayable(column: SystemColumn) -> None:
    """Check that a system scores groups of tasks with one node each.

    Raises:
        ValueError: the system scores otherwise.
    """
    if not column.has_rules or column.rules.legacy is not None:
        raise ValueError(f"{column.name}: scores no groups, so that it cannot be played here")


def _run(state: LoopState) -> None:
    for time, deed, arguments in state.agenda.each():
        state.network.time = time
        deed(*arguments)
        _settle(state)
        while state.contests:
            contest(state, state.contests.pop())
        if state.is_stirred:
            state.is_stirred = False
            if state.queue:
                serve_queue(state)
                _settle(state)
        if state.is_over:
            return


def _settle(state: LoopState) -> None:
    """Apply what the fold changed after the last action."""
    for order in state.touched:
        settled(state, order)
    state.touched.clear()
    changes = state.network.settle()
    for entry in changes.scores:
        state.nodes[entry.node].scored_for.append((state.creators[entry.task], entry.score))
    state.counts.anomalies += len(changes.anomalies)
    for change in changes.kickouts:
        follow(state, change)
    for order in state.done:
        keys = [task.key for task in order.tasks]
        state.network.forget(keys)
        for key in keys:
            del state.creators[key]
    state.done.clear()


def _look(state: LoopState) -> None:
    state.is_stirred = True
    state.agenda.add(state.now + _LOOKS_EVERY, _look, state)
