"""Plays strategies beside their baselines under rule sets, and says what each gains."""

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
# Loops done, and how many there are.
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """What is played: each strategy, `runs` times with seeds one after the other.

    `limit`: what a strategy may gain or harm, in percent, before it counts as found.
    """

    loop: LoopPlan
    strategies: Sequence[Strategy] = STRATEGIES
    runs: int = 1
    limit: int = 10
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One strategy under one system: every run of it beside the same run of its baseline.

    Parts are in units of 10^-18; money in gwei, added up over the runs.
    """

    column: SystemColumn
    strategy: Strategy
    attacks: tuple[LoopResult, ...]
    baselines: tuple[LoopResult, ...]

    @property
    def gain(self) -> int:
        """Return the profit beyond the baseline's, as a part of the fees that it earned there."""
        return _gain(self.attacks, self.baselines)

    @property
    def band(self) -> tuple[int, int]:
        """Return the least and the greatest gain of a single run."""
        pairs = zip(self.attacks, self.baselines, strict=True)
        gains = [_gain([one], [other]) for one, other in pairs]
        return min(gains), max(gains)

    @property
    def share(self) -> int:
        """Return how often its nodes were drawn, by the baseline's."""
        return share_of(_starts(self.attacks), _starts(self.baselines))

    @property
    def earned(self) -> int:
        """Return the fees that its nodes were paid."""
        return sum(one.owner(ATTACKER).money.earned for one in self.attacks)

    @property
    def spent(self) -> int:
        """Return everything that the attacker paid or lost."""
        return sum(one.owner(ATTACKER).money.spent for one in self.attacks)

    @property
    def harm(self) -> int:
        """Return what honest nodes' profit is smaller by, as a part of their fees otherwise."""
        fees = sum(one.owner(HONEST_OWNER).money.earned for one in self.baselines)
        return share_of(self._lost, fees)

    @property
    def spoiled(self) -> int:
        """Return how many more honest orders came to nothing or to a lie, as a part of all."""
        return (_failing(self.attacks) - _failing(self.baselines)) * UNIT // 1_000_000

    @property
    def kicked_good(self) -> int:
        """Return how many honest nodes were kicked out, beyond those of the baseline."""
        return _more(self, lambda one: one.kicked_good)

    @property
    def held_good(self) -> int:
        """Return how many kickouts of honest nodes waited for a person, likewise."""
        return _more(self, lambda one: one.held_good)

    @property
    def slashed_good(self) -> int:
        """Return how many honest nodes lost their stake, likewise."""
        return _more(self, lambda one: one.slashed_good)

    @property
    def out(self) -> int:
        """Return how many of the attacker's nodes were kicked out or slashed."""
        own = [one.owner(ATTACKER) for one in self.attacks]
        return sum(each.kicked + each.slashed for each in own)

    @property
    def price(self) -> int | None:
        """Return what the attacker gave up for each gwei that honest nodes lost, as a part.

        None: they lost nothing. Below 0: the attacker was even better off.
        """
        gave = _profit(self.baselines, ATTACKER) - _profit(self.attacks, ATTACKER)
        return share_of(gave, self._lost) if self._lost > 0 else None

    def faults(self, limit: int) -> list[str]:
        """Say what is beyond the limit, in percent.

        `gain`: the attacker has more than by the baseline. `harm`: honest nodes have less, and
        have lost more than the attacker. `kickouts`, `slashes`: of honest nodes.
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
        """Return why a fault is accepted under this rule set; None: it is not."""
        return reason_of(self.column.rules.name, self.strategy.name, fault)

    def open_faults(self, limit: int) -> list[str]:
        """Return the faults that nobody has accepted."""
        return [fault for fault in self.faults(limit) if self.reason(fault) is None]

    @property
    def _lost(self) -> int:
        """Return what honest nodes have less than beside the baseline."""
        return _profit(self.baselines, HONEST_OWNER) - _profit(self.attacks, HONEST_OWNER)


def _gain(attacks: Sequence[LoopResult], baselines: Sequence[LoopResult]) -> int:
    fees = sum(one.owner(ATTACKER).money.earned for one in baselines)
    return share_of(_profit(attacks, ATTACKER) - _profit(baselines, ATTACKER), fees)


def _starts(results: Sequence[LoopResult]) -> int:
    return sum(one.owner(ATTACKER).starts for one in results)


def _profit(results: Sequence[LoopResult], owner: str) -> int:
    return sum(one.owner(owner).money.profit for one in results)


def _failing(results: Sequence[LoopResult]) -> int:
    """Return the mean rate of failure, in millionths."""
    return sum(one.failure_rate for one in results) // len(results)


def _more(finding: Finding, count: Callable[[LoopResult], int]) -> int:
    return sum(map(count, finding.attacks)) - sum(map(count, finding.baselines))


@dataclass(frozen=True, slots=True)
class CastNamed:
    """A cast by the name of its strategy or baseline: names can be sent to other processes."""

    name: str
    is_baseline: bool = False

    def __call__(self, plan: LoopPlan) -> Cast:
        """Return the cast."""
        if self.is_baseline:
            return BASELINES[self.name](plan)
        return strategy_named(self.name).cast(plan)


def find(
    columns: Sequence[SystemColumn], plan: AttackPlan, told: Told = lambda *_: None
) -> list[Finding]:
    """Play every strategy under every system; the findings stand in that order.

    Raises:
        ValueError: a system that cannot be played in the loop.
        FatalError: a process ended before its work was done.
    """
    pairs = [(column, strategy) for column in columns for strategy in plan.strategies]
    # Many strategies have one baseline, which is played once.
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
    """Return the loops of a strategy, and those of its baseline."""
    loop = strategy.network_of(plan.loop)
    loops = [replace(loop, seed=loop.seed + run) for run in range(plan.runs)]
    own, base = CastNamed(strategy.name), CastNamed(strategy.baseline, is_baseline=True)
    return [LoopJob(column, loop, own) for loop in loops], [
        LoopJob(column, loop, base) for loop in loops
    ]
