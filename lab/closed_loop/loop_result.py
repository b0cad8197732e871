"""The result of a closed loop. Money is in gwei, times in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.backtest.intervals import HistoryRange
from lab.backtest.statistics import gini
from lab.closed_loop.players import HONEST_OWNER, LoopNode
from lab.closed_loop.running.loop_state import BEGIN, LoopState, Money
from oracle.domain.fixed_point import UNIT

GOOD = "good"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class OwnerResult:
    """The result of one owner's nodes and creators.

    `node_count`: addresses that joined. `start_count`: tasks that they were given.
    """

    money: Money
    nodes: int
    starts: int
    kicked: int
    slashed: int
    held: int


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The summary of one closed loop.

    `orders`, `failed`, `lies`: orders of honest applications that were judged, that had no result,
    and that had a false result. `excluded_seconds` of `present_seconds`: seconds in which good
    honest nodes were excluded. `kicked_good`: good honest nodes that were kicked out. `gini`: of
    their tasks, in units of 10^-18. `kickout_delays`: for each honest node that stopped
    permanently, the seconds until its kickout, None if it was never kicked out; `stay_durations`:
    the same, or the seconds to the end. `wasted`: tasks given to those nodes. `anomalies`: events
    that the fold treated as illegal or against the rules.
    """

    seconds: int
    tasks: int
    orders: int
    failed: int
    lies: int
    excluded: int
    present: int
    kicked_good: int
    slashed_good: int
    held_good: int
    gini: int
    wasted: int
    anomalies: int
    out_after: tuple[int | None, ...]
    stayed: tuple[int, ...]
    owners: Mapping[str, OwnerResult]

    def owner(self, name: str) -> OwnerResult:
        """Return the result of an owner, or an empty one if the owner did not take part."""
        return self.owners.get(name) or OwnerResult(Money(), 0, 0, 0, 0, 0)

    @property
    def failure_rate(self) -> int:
        """The number of orders in a million without a result or with a false one."""
        return (self.failed + self.lies) * _MILLION // max(1, self.orders)

    @property
    def excluded_rate(self) -> int:
        """The millionths of their time in which good honest nodes were excluded."""
        return self.excluded * _MILLION // max(1, self.present)


def sum_up(state: LoopState) -> LoopResult:
    """Return the summary of a finished loop."""
    for node in state.everybody:
        if node.joined_at is not None:
            node.present += state.now - node.joined_at
            node.joined_at = None
    good = [node for node in state.everybody if _is_good(node)]
    names = {node.address for node in good}
    whole = HistoryRange(0, BEGIN, state.now)
    intervals = state.exclusions.within(whole)
    out_after, stayed = _times_of_stopped(state)
    counts, key = state.counts, (HONEST_OWNER, GOOD)
    _host(state)
    return LoopResult(
        seconds=state.now - BEGIN,
        tasks=counts.tasks,
        orders=counts.orders,
        failed=counts.failed,
        lies=counts.lies,
        excluded=sum(each.seconds for each in intervals if each.node in names),
        present=sum(node.present for node in good),
        kicked_good=counts.kicked[key],
        slashed_good=counts.slashed[key],
        held_good=counts.held[key],
        gini=gini([node.starts for node in good]) or 0,
        wasted=counts.wasted,
        anomalies=counts.anomalies,
        out_after=tuple(out_after),
        stayed=tuple(stayed),
        owners={name: _owner(state, name) for name in sorted(state.money_of)},
    )


def _is_good(node: LoopNode) -> bool:
    return node.role.owner == HONEST_OWNER and node.role.kind == GOOD


def _host(state: LoopState) -> None:
    """Charge owners for their GPUs, from the first node of each to the end of the last.

    A node that leaves to come back pays for the time between, because its GPU is still there.
    """
    kept: dict[tuple[str, int, int], tuple[int, int]] = {}
    for node in state.everybody:
        key = (node.role.owner, node.card, node.role.cost)
        until = state.now if node.out_at is None else node.out_at
        first, last = kept.get(key, (node.entered, until))
        kept[key] = min(first, node.entered), max(last, until)
    for (owner, _, cost), (first, last) in kept.items():
        state.money(owner).hosting += state.economics.hosting(last - first) * cost // 1000


def _times_of_stopped(state: LoopState) -> tuple[list[int | None], list[int]]:
    out_after: list[int | None] = []
    stayed = []
    for node in state.everybody:
        stops_at = node.role.stops_at
        if node.role.owner == HONEST_OWNER and stops_at is not None:
            out = None if node.out_at is None else node.out_at - BEGIN - stops_at
            out_after.append(out)
            stayed.append(state.now - BEGIN - stops_at if out is None else out)
    return out_after, stayed


def _owner(state: LoopState, name: str) -> OwnerResult:
    own = [node for node in state.everybody if node.role.owner == name]
    counts = state.counts
    return OwnerResult(
        money=state.money_of[name],
        nodes=len(own),
        starts=sum(node.starts for node in own),
        kicked=sum(many for (owner, _), many in counts.kicked.items() if owner == name),
        slashed=sum(many for (owner, _), many in counts.slashed.items() if owner == name),
        held=sum(many for (owner, _), many in counts.held.items() if owner == name),
    )


def share_of(part: int, whole: int) -> int:
    """Return a part of a total in units of 10^-18; 0 if the total is 0."""
    return part * UNIT // whole if whole else 0
