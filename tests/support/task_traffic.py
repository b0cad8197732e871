"""Made-up traffic of a network: tasks of many applications on many nodes, with known failures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import (
    DomainEvent,
    TaskCreated,
    TaskStarted,
    TaskSubmitted,
    TaskTimedOut,
)
from oracle.domain.ids import Address
from tests.support.histories import History, make_node_address, make_task_key

BEGIN = 1_800_000_000
TIMEOUT_SECONDS = 180
# A node that timed out twice in a row is given no task for half an hour.
_REST_SECONDS = 1800
# Of 1,000 tasks of a sick node, as many time out.
_SICK_RATE = 300


class Attempt(NamedTuple):
    """A task that starts on a node; `seconds` is the time since the beginning of the traffic."""

    seconds: int
    application: int
    node: int
    chance: float


# Returns whether a task fails for another reason than the usual failures of nodes.
Failure = Callable[[Attempt], bool]


def never_fails(_attempt: Attempt) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Traffic:
    """Numbers of the network; `failures` of every 1,000 tasks time out for no special reason."""

    tasks: int = 12_000
    nodes: int = 60
    applications: int = 20
    gap_seconds: float = 1.6
    failures: int = 5
    sick_nodes: int = 0


class TaskEnd(NamedTuple):
    """The end of a task at a node; `is_caused` means that it failed for a special reason."""

    seconds: int
    number: int
    application: int
    node: int
    is_timeout: bool
    is_caused: bool


def make_application_address(number: int) -> Address:
    return make_node_address(f"app{number}")


def make_numbered_node_address(number: int) -> Address:
    return make_node_address(f"n{number}")


class _Network:
    def __init__(self, seed: int, traffic: Traffic, failure: Failure) -> None:
        self.random = Random(seed)  # noqa: S311  made-up traffic
        self.traffic, self.failure = traffic, failure
        self.running = list[TaskEnd]()
        self.free = list(range(traffic.nodes))
        self.resting = list[tuple[int, int]]()
        self.streaks = [0] * traffic.nodes

    def end_tasks(self, seconds: int) -> Iterator[TaskEnd]:
        while self.running and self.running[0].seconds <= seconds:
            end = heappop(self.running)
            self.streaks[end.node] = self.streaks[end.node] + 1 if end.is_timeout else 0
            rest = _REST_SECONDS if self.streaks[end.node] >= 2 else 0
            heappush(self.resting, (end.seconds + rest, end.node))
            yield end
        while self.resting and self.resting[0][0] <= seconds:
            self.free.append(heappop(self.resting)[1])

    def start_task(self, seconds: int, number: int) -> TaskEnd:
        place = self.random.randrange(len(self.free))
        self.free[place], self.free[-1] = self.free[-1], self.free[place]
        runner = self.free.pop()
        application = self.random.randrange(self.traffic.applications)
        is_caused = self.failure(Attempt(seconds, application, runner, self.random.random()))
        is_sick = runner < self.traffic.sick_nodes
        rate = _SICK_RATE if is_sick else self.traffic.failures
        is_timeout = is_caused or self.random.randrange(1000) < rate
        duration = TIMEOUT_SECONDS if is_timeout else self.random.randint(10, 60)
        end = TaskEnd(seconds + duration, number, application, runner, is_timeout, is_caused)
        heappush(self.running, end)
        return end


def iter_starts_and_ends(
    seed: int, traffic: Traffic, failure: Failure = never_fails
) -> Iterator[tuple[int, TaskEnd]]:
    """Yield every start and every end of a task, each with its time in seconds."""
    network = _Network(seed, traffic, failure)
    clock = 0.0
    for number in range(traffic.tasks):
        clock += network.random.expovariate(1 / traffic.gap_seconds)
        seconds = int(clock)
        for end in network.end_tasks(seconds):
            yield end.seconds, end
        if network.free:
            yield seconds, network.start_task(seconds, number)
    for end in network.end_tasks(1 << 62):
        yield end.seconds, end


def iter_traffic_events(
    seed: int, traffic: Traffic, failure: Failure = never_fails
) -> Iterator[DomainEvent]:
    """Yield the events of the traffic; one block lasts one second."""
    for log, (seconds, end) in enumerate(iter_starts_and_ends(seed, traffic, failure)):
        at = Position(seconds, log, 2 * log)
        time = BEGIN + seconds
        key = make_task_key(f"t{end.number}")
        if seconds < end.seconds:
            yield TaskCreated(at, time, key, make_application_address(end.application))
            yield TaskStarted(
                at._replace(log=2 * log + 1), time, key, make_numbered_node_address(end.node)
            )
        else:
            kind = TaskTimedOut if end.is_timeout else TaskSubmitted
            yield kind(at, time, key, make_numbered_node_address(end.node))


BURST_NODES = 12


def build_open_burst() -> History:
    """Return a history in which every node times out on the tasks of one application.

    The incident is found at the tenth timeout, and is open at the end.
    """
    names = [f"n{number}" for number in range(BURST_NODES)]
    history = (
        History()
        .joins(*names)
        .creates("late", creator=make_node_address("calm"))
        .starts("late", "n0")
    )
    for name in names:
        history.creates(f"fine {name}", creator=make_node_address("calm")).starts(
            f"fine {name}", name
        )
        history.after(2).submits(f"fine {name}").succeeds(f"fine {name}")
        history.creates(f"bad {name}", creator=make_node_address("burst")).starts(
            f"bad {name}", name
        )
    history.after(200)
    for name in names:
        history.after(5).times_out(f"bad {name}")
    return history


def add_burst_end(history: History) -> History:
    """Let the task of the calm application end half an hour later, so that the burst is over."""
    return history.after(1800).submits("late").succeeds("late")


def build_burst_history() -> History:
    """Return the history of a burst from its beginning to its end, the last submission."""
    return add_burst_end(build_open_burst())


def add_zero_scores(history: History, number: int, creator: str) -> History:
    """Let the node `n0` time out in a creator's groups, which two other nodes answer."""
    for _ in range(number):
        name = f"{creator} {len(history.events)}"
        tasks = [f"{name} {member}" for member in range(3)]
        history.creates(*tasks, of=name, creator=make_node_address(creator))
        for member, task_name in enumerate(tasks):
            history.starts(task_name, f"n{member}")
        history.after(5).submits(tasks[1]).submits(tasks[2]).times_out(tasks[0])
        history.judges(name, *tasks, right=tasks[1:])
    return history
