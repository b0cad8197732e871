"""A realistic network: most nodes good, some careless, some slow, some that stop permanently.

See docs/how-to/backtest.md#closed-loop.
"""

from dataclasses import replace

from lab.closed_loop.chance import Chance
from lab.closed_loop.loop_plan import Cast, LoopPlan, applications, honest_nodes

# Nodes in a hundred that are careless, slow, or stop.
_CARELESS, _SLOW, _STOPPING = 10, 5, 10
# Failures of careless nodes in a million tasks, and the slowdown of slow nodes.
_FAILS, _TIMES = 80_000, 3
_LOTS = 1 << 32


def mixed_cast(plan: LoopPlan) -> Cast:
    """Return the cast; half of the stopping nodes never answer, the others stop after a while."""
    nodes = []
    chance = Chance(plan.seed, "kinds")
    order = sorted(range(plan.nodes), key=lambda _: chance.below(_LOTS))
    for number, role in enumerate(honest_nodes(plan)):
        place = order[number] * 100 // plan.nodes
        if place < _CARELESS:
            nodes.append(replace(role, failures=_FAILS, kind="careless"))
        elif place < _CARELESS + _SLOW:
            nodes.append(replace(role, speed=role.speed * _TIMES, kind="slow"))
        elif place < _CARELESS + _SLOW + _STOPPING:
            stops_at = _lasts(plan) // 5 if order[number] % 2 else 0
            nodes.append(replace(role, stops_at=stops_at, kind="stopped"))
        else:
            nodes.append(role)
    return Cast(nodes)


def _lasts(plan: LoopPlan) -> int:
    """Return the estimated duration of a loop, in seconds."""
    per_order = 100 + 2 * plan.groups
    return plan.tasks * 100 * applications(plan).gap // (per_order * 1000)
