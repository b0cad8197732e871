"""The state of a running closed loop: agenda, network, participants, money and counts.

Scheduled actions of the same second run in the order in which they were scheduled.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from lab.backtest.intervals import ExclusionTracker
from lab.closed_loop.economics import Economics, GasAction
from lab.closed_loop.loop_plan import LoopPlan
from lab.closed_loop.players import AppOrder, LoopNode, LoopTask
from lab.closed_loop.running.folded_network import FoldedNetwork
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Membership

_Action = Callable[..., None]


class Agenda:
    """The scheduled actions of a simulation.

    Times are block times in seconds.
    """

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Action, tuple[Any, ...]]] = []
        self._count = 0

    def schedule(self, time: int, action: _Action, *arguments: Any) -> None:  # noqa: ANN401 - its own
        """Schedule a call of `action` with these arguments."""
        self._count += 1
        heappush(self._heap, (time, self._count, action, arguments))

    def drain_actions(self) -> Iterator[tuple[int, _Action, tuple[Any, ...]]]:
        """Yield all actions in order, including those scheduled in the meantime."""
        heap = self._heap
        while heap:
            time, _, action, arguments = heappop(heap)
            yield time, action, arguments


LOOP_START_TIME = 1_800_000_000


@dataclass(slots=True)
class Money:
    """The income and expenses of one owner, in gwei."""

    earned: int = 0
    paid: int = 0
    tolls: int = 0
    gas: int = 0
    computing: int = 0
    hosting: int = 0
    slashed: int = 0

    @property
    def expenses(self) -> int:
        return self.paid + self.tolls + self.gas + self.computing + self.hosting + self.slashed

    @property
    def profit(self) -> int:
        """Income minus expenses in gwei, which may be negative."""
        return self.earned - self.expenses


@dataclass(slots=True)
class LoopCounts:
    """Counts of several kinds of events in a closed loop.

    `orders` is the number of the honest applications' orders that were judged, `failed` the number
    of those without a result, and `lies` the number of those with a false result. `kicked` and
    `slashed` count removed nodes by owner and kind. `held` counts kickouts that were held for a
    manual decision, by owner and kind. `wasted` is the number of tasks that started on permanently
    stopped nodes. `anomalies` is the number of anomalies that the fold recorded.
    """

    tasks: int = 0
    orders: int = 0
    failed: int = 0
    lies: int = 0
    wasted: int = 0
    anomalies: int = 0
    kicked: Counter[tuple[str, str]] = field(default_factory=Counter)
    slashed: Counter[tuple[str, str]] = field(default_factory=Counter)
    held: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class LoopState:
    """The state of a closed loop.

    `queue` has the tasks without a node, oldest first. `contests` are the groups with a minority,
    for which a second group has to be ordered. `changed_orders` are the orders with a task that
    ended during the current action. `judged_orders` are the orders that were judged during the
    current action. `may_start_tasks` is set if a node may have become free for a waiting task.
    """

    plan: LoopPlan
    network: FoldedNetwork
    agenda: Agenda
    exclusions: ExclusionTracker
    node_by_address: dict[Address, LoopNode] = field(default_factory=dict)
    all_nodes: list[LoopNode] = field(default_factory=list)
    queue: deque[LoopTask] = field(default_factory=deque)
    contests: list[AppOrder] = field(default_factory=list)
    changed_orders: list[AppOrder] = field(default_factory=list)
    judged_orders: list[AppOrder] = field(default_factory=list)
    creator_by_task: dict[TaskKey, Address] = field(default_factory=dict)
    task_count_by_gpu: Counter[int] = field(default_factory=Counter)
    money_by_owner: dict[str, Money] = field(default_factory=dict)
    counts: LoopCounts = field(default_factory=LoopCounts)
    address_count: int = 0
    order_count: int = 0
    may_start_tasks: bool = False
    is_over: bool = False

    @property
    def now(self) -> int:
        """The current block time."""
        return self.network.time

    @property
    def economics(self) -> Economics:
        """The network's economic parameters."""
        return self.plan.economics

    def get_income_and_expenses(self, owner: str) -> Money:
        """Return an owner's income and expenses so far."""
        return self.money_by_owner.setdefault(owner, Money())

    def charge_gas(self, owner: str, action: GasAction) -> None:
        """Charge an owner for the gas of a transaction."""
        self.get_income_and_expenses(owner).gas += self.economics.compute_gas_cost(action)

    def create_address(self) -> Address:
        """Return an unused address."""
        self.address_count += 1
        # The multiplication scatters the addresses, so that their order does not reveal the order
        # of creation.
        return Address(f"0x{self.address_count * 0x9E3779B97F4A7C15 % (1 << 64):040x}")

    def is_member(self, node: LoopNode) -> bool:
        return self.network.get_node(node.address).membership is Membership.MEMBER

    def is_kickout_due(self, node: LoopNode) -> bool:
        return self.network.get_node(node.address).kickout_due_since is not None
