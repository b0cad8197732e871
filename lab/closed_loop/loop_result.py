"""The result of a closed loop.

Money is in gwei, times are in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.backtest.intervals import HistoryRange
from lab.backtest.statistics import compute_gini
from lab.closed_loop.players import HONEST_OWNER, LoopNode
from lab.closed_loop.running.loop_state import LOOP_START_TIME, LoopState, Money
from oracle.domain.fixed_point import UNIT

GOOD_KIND = "good"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class OwnerResult:
    """The result of an owner's nodes and creators.

    `node_count` is the number of addresses that joined. `start_count` is the number of tasks that
    started on them.
    """

    money: Money
    node_count: int
    start_count: int
    kicked_count: int
    slashed_count: int
    held_count: int


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The summary of a closed loop.

    Good nodes are the honest nodes of the kind "good".

    `orders` is the number of the honest applications' orders that were judged, `failed` the number
    of those without a result, and `lies` the number of those with a false result.
    `present_seconds` and `excluded_seconds` are the seconds in which good nodes were members, and
    in which they were excluded. `kicked_good_nodes` and `slashed_good_nodes` are the numbers of
    good nodes that were kicked out and slashed. `held_good_kickouts` is the number of due kickouts
    of good nodes that were held. `gini` is the Gini coefficient of the good nodes' tasks, in units
    of 10^-18. `kickout_delays` has, for each honest node that stopped permanently, the seconds
    until its kickout, or None if it was never kicked out. `stay_durations` has the same values,
    but the seconds to the end of the loop instead of None. `wasted` is the number of tasks that
    started on stopped nodes. `anomalies` is the number of events that the fold classified as
    illegal or against the rules.
    """

    seconds: int
    tasks: int
    orders: int
    failed: int
    lies: int
    excluded_seconds: int
    present_seconds: int
    kicked_good_nodes: int
    slashed_good_nodes: int
    held_good_kickouts: int
    gini: int
    wasted: int
    anomalies: int
    kickout_delays: tuple[int | None, ...]
    stay_durations: tuple[int, ...]
    owners: Mapping[str, OwnerResult]

    def get_owner_result(self, name: str) -> OwnerResult:
        """Return an owner's result.

        The result is empty if the owner did not take part.
        """
        return self.owners.get(name) or OwnerResult(Money(), 0, 0, 0, 0, 0)

    @property
    def failure_rate(self) -> int:
        """The number of orders per million with a wrong result or none."""
        return (self.failed + self.lies) * _MILLION // max(1, self.orders)

    @property
    def wrongful_exclusion_rate(self) -> int:
        """The share of time during which good nodes were excluded, in millionths."""
        return self.excluded_seconds * _MILLION // max(1, self.present_seconds)


def finalize_loop(state: LoopState) -> LoopResult:
    """End all memberships of a finished loop, charge for hosting and return the summary."""
    for node in state.all_nodes:
        if node.joined_at is not None:
            node.present_seconds += state.now - node.joined_at
            node.joined_at = None
    good_nodes = [node for node in state.all_nodes if _is_good_node(node)]
    good_addresses = {node.address for node in good_nodes}
    history_range = HistoryRange(0, LOOP_START_TIME, state.now)
    intervals = state.exclusions.list_intervals(history_range)
    kickout_delays, stay_durations = _collect_kickout_delays_and_stays(state)
    counts = state.counts
    owner_and_kind = (HONEST_OWNER, GOOD_KIND)
    _charge_hosting(state)
    return LoopResult(
        seconds=state.now - LOOP_START_TIME,
        tasks=counts.tasks,
        orders=counts.orders,
        failed=counts.failed,
        lies=counts.lies,
        excluded_seconds=sum(
            interval.seconds for interval in intervals if interval.node in good_addresses
        ),
        present_seconds=sum(node.present_seconds for node in good_nodes),
        kicked_good_nodes=counts.kicked[owner_and_kind],
        slashed_good_nodes=counts.slashed[owner_and_kind],
        held_good_kickouts=counts.held[owner_and_kind],
        gini=compute_gini([node.start_count for node in good_nodes]) or 0,
        wasted=counts.wasted,
        anomalies=counts.anomalies,
        kickout_delays=tuple(kickout_delays),
        stay_durations=tuple(stay_durations),
        owners={name: _build_owner_result(state, name) for name in sorted(state.money_by_owner)},
    )


def _is_good_node(node: LoopNode) -> bool:
    return node.role.owner == HONEST_OWNER and node.role.kind == GOOD_KIND


def _charge_hosting(state: LoopState) -> None:
    """Charge the owner of each GPU for hosting.

    The time is from the first join on the GPU to the last removal. A node that leaves and joins
    again also pays for the time in between, because its GPU stays online.
    """
    period_by_gpu: dict[tuple[str, int, int], tuple[int, int]] = {}
    for node in state.all_nodes:
        cost_group = (node.role.owner, node.gpu, node.role.cost)
        hosted_until = state.now if node.removed_at is None else node.removed_at
        first_time, last_time = period_by_gpu.get(cost_group, (node.first_joined_at, hosted_until))
        period_by_gpu[cost_group] = (
            min(first_time, node.first_joined_at),
            max(last_time, hosted_until),
        )
    for (owner, _, cost), (first_time, last_time) in period_by_gpu.items():
        state.get_income_and_expenses(owner).hosting += (
            state.economics.compute_hosting_cost(last_time - first_time) * cost // 1000
        )


def _collect_kickout_delays_and_stays(state: LoopState) -> tuple[list[int | None], list[int]]:
    """Return `kickout_delays` and `stay_durations` of a loop's result.

    These are fields of `LoopResult`.
    """
    kickout_delays: list[int | None] = []
    stay_durations = []
    for node in state.all_nodes:
        stops_at = node.role.stops_at
        if node.role.owner == HONEST_OWNER and stops_at is not None:
            kickout_delay = (
                None if node.removed_at is None else node.removed_at - LOOP_START_TIME - stops_at
            )
            kickout_delays.append(kickout_delay)
            stay_durations.append(
                state.now - LOOP_START_TIME - stops_at if kickout_delay is None else kickout_delay
            )
    return kickout_delays, stay_durations


def _build_owner_result(state: LoopState, name: str) -> OwnerResult:
    owner_nodes = [node for node in state.all_nodes if node.role.owner == name]
    counts = state.counts
    return OwnerResult(
        money=state.money_by_owner[name],
        node_count=len(owner_nodes),
        start_count=sum(node.start_count for node in owner_nodes),
        kicked_count=sum(count for (owner, _), count in counts.kicked.items() if owner == name),
        slashed_count=sum(count for (owner, _), count in counts.slashed.items() if owner == name),
        held_count=sum(count for (owner, _), count in counts.held.items() if owner == name),
    )


def compute_ratio(part: int, total: int) -> int:
    """Return `part / total` in units of 10^-18, or 0 if the total is 0."""
    return part * UNIT // total if total else 0
