"""A realistic network: most nodes good, some careless, some slow, some that stop permanently.

See docs/how-to/backtest.md#closed-loop.
"""

from dataclasses import replace

from lab.closed_loop.chance import RandomStream
from lab.closed_loop.loop_plan import Cast, LoopPlan, create_applications, create_honest_nodes

# Nodes in a hundred that are careless, slow, or stop.
_CARELESS_PERCENT, _SLOW_PERCENT, _STOPPING_PERCENT = 10, 5, 10
# Failures of careless nodes in a million tasks, and the slowdown of slow nodes.
_CARELESS_FAILURES, _SLOW_FACTOR = 80_000, 3
_SORT_KEY_BOUND = 1 << 32


def build_mixed_cast(plan: LoopPlan) -> Cast:
    """Return the cast; half of the stopping nodes never answer, the others stop after a while."""
    nodes = []
    random_stream = RandomStream(plan.seed, "kinds")
    order = sorted(range(plan.nodes), key=lambda _: random_stream.draw_below(_SORT_KEY_BOUND))
    for node_index, role in enumerate(create_honest_nodes(plan)):
        percentile = order[node_index] * 100 // plan.nodes
        if percentile < _CARELESS_PERCENT:
            nodes.append(replace(role, failures=_CARELESS_FAILURES, kind="careless"))
        elif percentile < _CARELESS_PERCENT + _SLOW_PERCENT:
            nodes.append(replace(role, speed=role.speed * _SLOW_FACTOR, kind="slow"))
        elif percentile < _CARELESS_PERCENT + _SLOW_PERCENT + _STOPPING_PERCENT:
            stops_at = _estimate_duration(plan) // 5 if order[node_index] % 2 else 0
            nodes.append(replace(role, stops_at=stops_at, kind="stopped"))
        else:
            nodes.append(role)
    return Cast(nodes)


def _estimate_duration(plan: LoopPlan) -> int:
    """Return the estimated duration of a loop, in seconds."""
    per_order = 100 + 2 * plan.groups
    return plan.tasks * 100 * create_applications(plan).gap_milliseconds // (per_order * 1000)
