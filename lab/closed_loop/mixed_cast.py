"""A realistic cast: most nodes are good, some are careless or slow, and some stop permanently.

See docs/how-to/backtest.md#closed-loop.
"""

from dataclasses import replace

from lab.closed_loop.chance import RandomStream
from lab.closed_loop.loop_plan import Cast, LoopPlan, create_applications, create_honest_nodes

# Percentage of nodes that are careless, that are slow, and that stop permanently.
_CARELESS_PERCENT, _SLOW_PERCENT, _STOPPING_PERCENT = 10, 5, 10
# Failures of careless nodes per million tasks; a slow node takes this many times as long.
_CARELESS_FAILURES, _SLOW_FACTOR = 80_000, 3
_SORT_KEY_BOUND = 1 << 32


def build_mixed_cast(plan: LoopPlan) -> Cast:
    """Return the cast of a plan.

    Half of the stopping nodes never answer; the others stop after a fifth of the loop.
    """
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
