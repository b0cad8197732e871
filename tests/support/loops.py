"""Closed loops for tests: a system by name, a small network, and a strategy with its baseline."""

from collections.abc import Sequence

from lab.attack.attack import AttackPlan, Finding, simulate_attacks
from lab.attack.strategies import get_strategy
from lab.backtest.system_columns import SystemBase, SystemColumn
from lab.closed_loop.economics import Economics
from lab.closed_loop.loop_plan import LoopPlan


def build_column_from_text(text: str = "crynux") -> SystemColumn:
    """Return the column of a system, which is given by a name and changes as in `--rules`."""
    name, *changes = text.split()
    basis = SystemBase.from_name(name).with_changes(changes)
    return basis.build_column(basis.full_name, {})


def build_small_plan(*changes: str, tasks: int = 600, nodes: int = 12, **plan: int) -> LoopPlan:
    """Return the plan of a small network; `changes` are as in `--network`."""
    economics = Economics().with_changes(dict(change.split("=") for change in changes))
    return LoopPlan(tasks=tasks, nodes=nodes, economics=economics, **plan)


def simulate_strategy(name: str, rules: str, loop: LoopPlan, runs: int = 1) -> Finding:
    """Simulate one strategy in this process, and return its finding."""
    (finding,) = simulate_attacks(
        [build_column_from_text(rules)], AttackPlan(loop, [get_strategy(name)], runs)
    )
    return finding


def simulate_strategies(names: Sequence[str], rules: str, loop: LoopPlan) -> dict[str, Finding]:
    """Simulate several strategies, and each baseline once; return the findings by name."""
    plan = AttackPlan(loop, [get_strategy(name) for name in names])
    return {
        finding.strategy.name: finding
        for finding in simulate_attacks([build_column_from_text(rules)], plan)
    }
