"""Simulates attack strategies beside their baselines under rule sets, and computes their gain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lab.attack.known_findings import reason_of
from lab.attack.strategies import BASELINES, STRATEGIES, Strategy, strategy_named
from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.loop_jobs import LoopJob, play_all
from lab.closed_loop.loop_plan import Cast, LoopPlan
from lab.closed_loop.loop_result import LoopResult, share_of
from lab.closed_loop.players import ATTACKER, HONEST_OWNER
from oracle.domain.fixed_point import UNIT

_PERCENT = UNIT // 100
# Called with the number of finished loops and the total.
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """The simulation: each strategy, `runs` times with consecutive seeds.

    `limit`: the gain or harm, in percent, above which a strategy counts as a finding.
    """

    loop: LoopPlan
    strategies: Sequence[Strategy] = STRATEGIES
    runs: int = 1
    limit: int = 10
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One strategy under one system: each of its runs beside the same run of the baseline.

    Shares are in units of 10^-18; money is in gwei, summed over the runs.
    """

    column: SystemColumn
    strategy: Strategy
    attacks: tuple[LoopResult, ...]
    baselines: tuple[LoopResult, ...]

    @property
    def gain(self) -> int:
        """The profit beyond the baseline's, as a share of the baseline's fees."""
        return _gain(self.attacks, self.baselines)

    @property
    def band(self) -> tuple[int, int]:
        """The minimum and maximum gain of a single run."""
        pairs = zip(self.attacks, self.baselines, strict=True)
        gains = [_gain([one], [other]) for one, other in pairs]
        return min(gains), max(gains)

    @property
    def share(self) -> int:
        """How often the attacker's nodes were drawn, relative to the baseline."""
        return share_of(_starts(self.attacks), _starts(self.baselines))

    @property
    def earned(self) -> int:
        """The fees paid to the attacker's nodes."""
        return sum(one.owner(ATTACKER).money.earned for one in self.attacks)

    @property
    def spent(self) -> int:
        """Everything that the attacker paid or lost."""
        return sum(one.owner(ATTACKER).money.spent for one in self.attacks)

    @property
    def harm(self) -> int:
        """The profit that honest nodes lose, as a share of their fees in the baseline."""
        fees = sum(one.owner(HONEST_OWNER).money.earned for one in self.baselines)
        return share_of(self._lost, fees)

    @property
    def spoiled(self) -> int:
        """The additional share of honest orders with no result or a false one."""
        return (_failing(self.attacks) - _failing(self.baselines)) * UNIT // 1_000_000

    @property
    def kicked_good(self) -> int:
        """The number of honest nodes kicked out beyond the baseline."""
        return _more(self, lambda one: one.kicked_good)

    @property
    def held_good(self) -> int:
        """The number of honest nodes' kickouts held for a manual decision, beyond the baseline."""
        return _more(self, lambda one: one.held_good)

    @property
    def slashed_good(self) -> int:
        """The number of honest nodes slashed beyond the baseline."""
        return _more(self, lambda one: one.slashed_good)

    @property
    def out(self) -> int:
        """The number of the attacker's nodes that were kicked out or slashed."""
        own = [one.owner(ATTACKER) for one in self.attacks]
        return sum(each.kicked + each.slashed for each in own)

    @property
    def price(self) -> int | None:
        """The attacker's loss per gwei that honest nodes lost, in units of 10^-18.

        None if honest nodes lost nothing; negative if the attacker gained.
        """
        gave = _profit(self.baselines, ATTACKER) - _profit(self.attacks, ATTACKER)
        return share_of(gave, self._lost) if self._lost > 0 else None

    def faults(self, limit: int) -> list[str]:
        """Return the faults beyond the limit, in percent.

        `gain`: the attacker earns more than in the baseline. `harm`: honest nodes earn less, and
        lose more than the attacker does. `kickouts`, `slashes`: of honest nodes.
        """
        most, price = limit * _PERCENT, self.price
        return [
            said
            for is_beyond, said in (
                (self.gain > most, "gain"),
                (self.harm > most and price is not None and price < UNIT, "harm"),
                (self.kicked_good > 0, "kickouts"),
                (self.slashed_good > 0, "slashes"),
            )
            if is_beyond
        ]

    def reason(self, fault: str) -> str | None:
        """Return why a fault is accepted under this rule set, or None if it is not."""
        return reason_of(self.column.rules.name, self.strategy.name, fault)

    def open_faults(self, limit: int) -> list[str]:
        """Return the faults that are not accepted."""
        return [fault for fault in self.faults(limit) if self.reason(fault) is None]

    @property
    def _lost(self) -> int:
        """The profit that honest nodes lost compared with the baseline."""
        return _profit(self.baselines, HONEST_OWNER) - _profit(self.attacks, HONEST_OWNER)


def _gain(attacks: Sequence[LoopResult], baselines: Sequence[LoopResult]) -> int:
    fees = sum(one.owner(ATTACKER).money.earned for one in baselines)
    return share_of(_profit(attacks, ATTACKER) - _profit(baselines, ATTACKER), fees)


def _starts(results: Sequence[LoopResult]) -> int:
    return sum(one.owner(ATTACKER).starts for one in results)


def _profit(results: Sequence[LoopResult], owner: str) -> int:
    return sum(one.owner(owner).money.profit for one in results)


def _failing(results: Sequence[LoopResult]) -> int:
    """Return the mean rate of failed orders, in millionths."""
    return sum(one.failure_rate for one in results) // len(results)


def _more(finding: Finding, count: Callable[[LoopResult], int]) -> int:
    return sum(map(count, finding.attacks)) - sum(map(count, finding.baselines))


@dataclass(frozen=True, slots=True)
class CastNamed:
    """A cast identified by the name of a strategy or baseline.

    Names can be sent to other processes.
    """

    name: str
    is_baseline: bool = False

    def __call__(self, plan: LoopPlan) -> Cast:
        """Return the cast for a plan."""
        if self.is_baseline:
            return BASELINES[self.name](plan)
        return strategy_named(self.name).cast(plan)


def find(
    columns: Sequence[SystemColumn], plan: AttackPlan, told: Told = lambda *_: None
) -> list[Finding]:
    """Simulate every strategy under every system; findings are in that order.

    Raises:
        ValueError: a system cannot be simulated in the closed loop.
        FatalError: a worker process ended before its work was done.
    """
    pairs = [(column, strategy) for column in columns for strategy in plan.strategies]
    # Strategies share baselines, so each baseline is simulated once.
    jobs = dict.fromkeys(job for pair in pairs for job in chain(*_jobs_of(*pair, plan)))
    played = dict(zip(jobs, play_all(list(jobs), plan.jobs, told), strict=True))
    findings = []
    for column, strategy in pairs:
        own, base = _jobs_of(column, strategy, plan)
        findings.append(
            Finding(
                column,
                strategy,
                tuple(played[job] for job in own),
                tuple(played[job] for job in base),
            )
        )
    return findings


def _jobs_of(
    column: SystemColumn, strategy: Strategy, plan: AttackPlan
) -> tuple[list[LoopJob], list[LoopJob]]:
    """Return the jobs of a strategy and those of its baseline."""
    loop = strategy.network_of(plan.loop)
    loops = [replace(loop, seed=loop.seed + run) for run in range(plan.runs)]
    own, base = CastNamed(strategy.name), CastNamed(strategy.baseline, is_baseline=True)
    return [LoopJob(column, loop, own) for loop in loops], [
        LoopJob(column, loop, base) for loop in loops
    ]
