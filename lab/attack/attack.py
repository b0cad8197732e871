"""Simulates attack strategies and their baselines, and computes gain and harm.

The simulations run under several rule sets. Some findings are accepted, each for a stated reason
why the rules are not changed because of it (docs/explanation/attacks.md#known-findings).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType

from lab.attack.strategies import BASELINES, STRATEGIES, Strategy, get_strategy
from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.closed_loop import LoopJob, run_jobs
from lab.closed_loop.loop_plan import LoopPlan, Participants
from lab.closed_loop.loop_result import LoopResult, compute_ratio
from lab.closed_loop.players import ATTACKER, HONEST_OWNER
from oracle.domain.fixed_point import UNIT

_TOLL_REASON = (
    "occupying nodes costs only the minimum fee, and the toll does not go to the nodes that "
    "worked; the minimum fee, which the network sets, limits the harm"
)
_RELAY_EXCLUSION_REASON = (
    "the relay excludes a node for an hour after a few timeouts, so a creator that causes "
    "timeouts has fewer competitors; the rule set shows what the relay does"
)
# Reasons for findings under every rule set, by (strategy, fault).
REASON_BY_FINDING: Mapping[tuple[str, str], str] = MappingProxyType({
    ("split-stake", "gain"): "the weight depends on the root of the stake, which favours many "
    "small stakes; each node needs its own GPU and the minimum stake",
    ("split-stake", "harm"): "more nodes share the same amount of work",
    ("big-stake", "gain"): "the draw is meant to favour a larger stake, and the stake is locked "
    "in return",
    ("fake-alone", "gain"): "nobody compares the result of a single task; a creator that needs "
    "certainty orders a group",
    ("collusion", "slashes"): "two groups with two colluding nodes each slash an honest node; "
    "nine of 39 nodes lose all their stakes for one such chance",
    ("new-address", "gain"): "a kickout returns the stake, and a new address costs almost "
    "nothing; the node earns less than with honest work",
    ("trap-groups", "harm"): _TOLL_REASON,
    ("trap-groups-many", "harm"): _TOLL_REASON,
    ("trap-alone", "harm"): _TOLL_REASON,
})  # fmt: skip
# Reasons for findings under only one rule set, by rule set and then by (strategy, fault).
REASONS_BY_RULE_SET: Mapping[str, Mapping[tuple[str, str], str]] = MappingProxyType({
    "relay": MappingProxyType({
        ("garbage-first-lapsed", "gain"): "under the relay's rules a wrong answer keeps the score "
        "of its rank; in the relay itself a slash follows at once",
        ("leave-and-return", "gain"): "a join restores reliability in the relay; the rule set "
        "shows what the relay does",
        ("trap-groups", "gain"): _RELAY_EXCLUSION_REASON,
        ("trap-groups-many", "gain"): _RELAY_EXCLUSION_REASON,
        ("trap-alone", "gain"): _RELAY_EXCLUSION_REASON,
    }),
})  # fmt: skip


def find_acceptance_reason(rules: str, strategy: str, fault: str) -> str | None:
    """Return why a fault of a strategy is accepted, or None if it is open.

    The reason depends on the rule set.
    """
    rule_set_reasons = REASONS_BY_RULE_SET.get(rules, {})
    return rule_set_reasons.get((strategy, fault)) or REASON_BY_FINDING.get((strategy, fault))


_PERCENT = UNIT // 100
# A function that is called with the number of finished loops and the total.
ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """The plan of attack simulations.

    Each strategy runs `runs` times with consecutive seeds. A gain or harm of more than `limit`
    percent counts as a finding.
    """

    loop: LoopPlan
    strategies: Sequence[Strategy] = STRATEGIES
    runs: int = 1
    limit: int = 10
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """The results of a strategy under one system, and those of its baseline.

    Both have the same seeds. Shares are in units of 10^-18. Money is in gwei, summed over the
    runs.
    """

    column: SystemColumn
    strategy: Strategy
    attacks: tuple[LoopResult, ...]
    baselines: tuple[LoopResult, ...]

    @property
    def gain(self) -> int:
        """The attacker's extra profit over the baseline, as a share of the baseline's fees."""
        return _compute_gain(self.attacks, self.baselines)

    @property
    def gain_range(self) -> tuple[int, int]:
        """The smallest and the largest gain of a single run."""
        attacked_and_baseline = zip(self.attacks, self.baselines, strict=True)
        gains = [
            _compute_gain([attack_run], [baseline_run])
            for attack_run, baseline_run in attacked_and_baseline
        ]
        return min(gains), max(gains)

    @property
    def task_ratio(self) -> int:
        """The number of tasks of the attacker's nodes, divided by that of the baseline."""
        return compute_ratio(
            _sum_attacker_starts(self.attacks), _sum_attacker_starts(self.baselines)
        )

    @property
    def attacker_earnings(self) -> int:
        """The fees paid to the attacker's nodes, in gwei."""
        return sum(result.get_owner_result(ATTACKER).money.earned for result in self.attacks)

    @property
    def attacker_expenses(self) -> int:
        """Everything that the attacker paid or lost, in gwei."""
        return sum(result.get_owner_result(ATTACKER).money.expenses for result in self.attacks)

    @property
    def harm(self) -> int:
        """The profit lost by honest nodes, as a share of their fees in the baseline."""
        baseline_fees = sum(
            result.get_owner_result(HONEST_OWNER).money.earned for result in self.baselines
        )
        return compute_ratio(self._honest_loss, baseline_fees)

    @property
    def failure_rate_increase(self) -> int:
        """The increase of the failure rate of honest orders over the baseline.

        A failed order has no result or a wrong one.
        """
        return (
            (_compute_mean_failure_rate(self.attacks) - _compute_mean_failure_rate(self.baselines))
            * UNIT
            // 1_000_000
        )

    @property
    def kicked_good_node_increase(self) -> int:
        """The number of good nodes kicked out, minus that of the baseline."""
        return _compute_increase(self, lambda result: result.kicked_good_nodes)

    @property
    def held_good_kickout_increase(self) -> int:
        """The number of held kickouts of good nodes, minus that of the baseline."""
        return _compute_increase(self, lambda result: result.held_good_kickouts)

    @property
    def slashed_good_node_increase(self) -> int:
        """The number of good nodes slashed, minus that of the baseline."""
        return _compute_increase(self, lambda result: result.slashed_good_nodes)

    @property
    def removed_attacker_node_count(self) -> int:
        """The number of the attacker's nodes that were kicked out or slashed."""
        owner_results = [result.get_owner_result(ATTACKER) for result in self.attacks]
        return sum(
            owner_result.kicked_count + owner_result.slashed_count
            for owner_result in owner_results
        )

    @property
    def loss_per_harm(self) -> int | None:
        """The attacker's loss for each gwei lost by honest nodes.

        The unit is 10^-18. The value is None if honest nodes lost nothing, and negative if the
        attacker gained.
        """
        profit_loss = _sum_profit(self.baselines, ATTACKER) - _sum_profit(self.attacks, ATTACKER)
        return compute_ratio(profit_loss, self._honest_loss) if self._honest_loss > 0 else None

    def list_faults(self, limit: int) -> list[str]:
        """Return the names of the faults caused by the strategy.

        `limit` is the limit of gain and harm in percent.

        `gain` means that the attacker's gain is above the limit. `harm` means that the harm is
        above the limit, and that honest nodes lose more than the attacker does. `kickouts` and
        `slashes` mean that more honest nodes are kicked out or slashed than in the baseline.
        """
        max_gain = limit * _PERCENT
        loss_per_harm = self.loss_per_harm
        return [
            fault
            for is_beyond, fault in (
                (self.gain > max_gain, "gain"),
                (
                    self.harm > max_gain and loss_per_harm is not None and loss_per_harm < UNIT,
                    "harm",
                ),
                (self.kicked_good_node_increase > 0, "kickouts"),
                (self.slashed_good_node_increase > 0, "slashes"),
            )
            if is_beyond
        ]

    def find_acceptance_reason(self, fault: str) -> str | None:
        """Return why a fault is accepted under this rule set, or None if it is open."""
        return find_acceptance_reason(self.column.rules.name, self.strategy.name, fault)

    def list_open_faults(self, limit: int) -> list[str]:
        """Return the names of the strategy's open faults.

        `limit` is as in `list_faults`.
        """
        return [
            fault
            for fault in self.list_faults(limit)
            if self.find_acceptance_reason(fault) is None
        ]

    @property
    def _honest_loss(self) -> int:
        """The profit that honest nodes lost compared to the baseline, in gwei."""
        return _sum_profit(self.baselines, HONEST_OWNER) - _sum_profit(self.attacks, HONEST_OWNER)


def _compute_gain(attacks: Sequence[LoopResult], baselines: Sequence[LoopResult]) -> int:
    baseline_fees = sum(result.get_owner_result(ATTACKER).money.earned for result in baselines)
    return compute_ratio(
        _sum_profit(attacks, ATTACKER) - _sum_profit(baselines, ATTACKER), baseline_fees
    )


def _sum_attacker_starts(results: Sequence[LoopResult]) -> int:
    return sum(result.get_owner_result(ATTACKER).start_count for result in results)


def _sum_profit(results: Sequence[LoopResult], owner: str) -> int:
    return sum(result.get_owner_result(owner).money.profit for result in results)


def _compute_mean_failure_rate(results: Sequence[LoopResult]) -> int:
    """Return the mean share of failed orders over all runs, in millionths."""
    return sum(result.failure_rate for result in results) // len(results)


def _compute_increase(finding: Finding, count_of: Callable[[LoopResult], int]) -> int:
    return sum(map(count_of, finding.attacks)) - sum(map(count_of, finding.baselines))


@dataclass(frozen=True, slots=True)
class NamedParticipants:
    """Builds the participants of the strategy or baseline with a given name.

    Unlike a strategy's own function, an instance can be sent to other processes.
    """

    name: str
    is_baseline: bool = False

    def __call__(self, plan: LoopPlan) -> Participants:
        """Build the participants for a plan."""
        if self.is_baseline:
            return BASELINES[self.name](plan)
        return get_strategy(self.name).build_participants(plan)


def simulate_attacks(
    columns: Sequence[SystemColumn],
    plan: AttackPlan,
    on_progress: ProgressCallback = lambda *_: None,
) -> list[Finding]:
    """Simulate every strategy under every system.

    The findings are ordered by system, then by strategy.

    Raises:
        ValueError: a system cannot be simulated in the closed loop.
        FatalError: a worker process ended before its work was done.
    """
    columns_and_strategies = [
        (column, strategy) for column in columns for strategy in plan.strategies
    ]
    # Several strategies have the same baseline. `dict.fromkeys` drops equal jobs, so that each
    # runs once.
    jobs = dict.fromkeys(
        job
        for column_and_strategy in columns_and_strategies
        for job in chain(*_build_attack_and_baseline_jobs(*column_and_strategy, plan))
    )
    result_by_job = dict(zip(jobs, run_jobs(list(jobs), plan.jobs, on_progress), strict=True))
    findings = []
    for column, strategy in columns_and_strategies:
        attack_jobs, baseline_jobs = _build_attack_and_baseline_jobs(column, strategy, plan)
        findings.append(
            Finding(
                column,
                strategy,
                tuple(result_by_job[job] for job in attack_jobs),
                tuple(result_by_job[job] for job in baseline_jobs),
            )
        )
    return findings


def _build_attack_and_baseline_jobs(
    column: SystemColumn, strategy: Strategy, plan: AttackPlan
) -> tuple[list[LoopJob], list[LoopJob]]:
    loop_plan = strategy.apply_to_plan(plan.loop)
    loop_plans = [replace(loop_plan, seed=loop_plan.seed + run) for run in range(plan.runs)]
    attack_participants = NamedParticipants(strategy.name)
    baseline_participants = NamedParticipants(strategy.baseline, is_baseline=True)
    return [LoopJob(column, loop_plan, attack_participants) for loop_plan in loop_plans], [
        LoopJob(column, loop_plan, baseline_participants) for loop_plan in loop_plans
    ]
