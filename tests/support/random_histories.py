"""Hypothesis strategies for histories: arbitrary events, and legal life only."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events import network_events
from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    DownloadRequested,
    FeeShared,
    LastStatus,
)
from tests.support.histories import (
    GENESIS_TIME,
    NODE_ONLY_KINDS,
    History,
    make_group_key,
    make_node_address,
    make_task_key,
)
from tests.support.reference import NODE_ONLY_EVENTS

NODES = ("A", "B", "C", "D")
TASKS = ("1", "2", "3", "4", "5", "6")
GROUPS = ("g", "h")
_GAPS = (0, 0, 0, 1, 10, 300, 1800, 6000)
# The clock of some chains goes back.
_WILD_GAPS = (*_GAPS, -40)

_a_node = st.sampled_from(NODES)
_a_task = st.sampled_from(TASKS)
_wei = st.none() | st.integers(0, 2**256 - 1)
_models = st.none() | st.lists(st.sampled_from(("x", "y")), max_size=2).map(tuple)


def _of_node(kind: type[DomainEvent]) -> st.SearchStrategy[DomainEvent]:
    return _a_node.map(lambda name: kind(at=_NOWHERE, time=0, node=make_node_address(name)))  # type: ignore[call-arg]


_NOWHERE = Position(0, 0, 0)
_PLACE = {"at": st.just(_NOWHERE), "time": st.just(0)}
_tasks = {"task": _a_task.map(make_task_key)}
_by = {"node": _a_node.map(make_node_address)}
_maybe_by = {"node": st.none() | _a_node.map(make_node_address)}
_status = {"last_status": st.none() | st.sampled_from(LastStatus)}

_joined = st.builds(
    network_events.NodeJoined,
    **_PLACE,
    **_by,
    stake=_wei,
    gpu_name=st.none() | st.text(max_size=5),
    gpu_vram=st.none() | st.integers(0, 2**32 - 1),
    version=st.none() | st.tuples(*3 * [st.integers(0, 9)]),
    models=_models,
    timeout=st.none() | st.integers(0, 2**63 - 1),
)
_created = st.builds(
    network_events.TaskCreated,
    **_PLACE,
    **_tasks,
    creator=st.none() | _a_node.map(make_node_address),
    fee=_wei,
    models=_models,
    required_gpu=st.none() | st.just(""),
    size=st.none() | st.integers(1, 2**63 - 1),
    group=st.none() | st.sampled_from(GROUPS).map(make_group_key),
    group_size=st.none() | st.integers(1, 2**63 - 1),
)
_groups = st.builds(
    network_events.GroupValidated,
    **_PLACE,
    group=st.sampled_from(GROUPS).map(make_group_key),
    tasks=st.lists(_a_task.map(make_task_key), min_size=1, max_size=4).map(tuple),
)
_started = st.builds(network_events.TaskStarted, **_PLACE, **_tasks, **_by)
_frees = {"frees": st.none() | st.booleans()}
_submitted = st.builds(network_events.TaskSubmitted, **_PLACE, **_tasks, **_by, **_frees)
_timed_out = st.builds(network_events.TaskTimedOut, **_PLACE, **_tasks, **_maybe_by, **_status)

# Repeated events, for effects that need many events of one kind.
_ORDINARY = (
    _joined,
    _joined,
    *(
        _of_node(kind)
        for kind in NODE_ONLY_KINDS
        if network_events.NAME_BY_TYPE[kind] in NODE_ONLY_EVENTS
    ),
    _of_node(network_events.NodeQuitAsked),
    st.builds(network_events.NodeUpdated, **_PLACE, **_by, gpu_vram=st.integers(1, 80)),
    st.builds(network_events.ModelAdded, **_PLACE, **_by, model=st.sampled_from(("x", "y", "z"))),
    st.builds(
        DownloadRequested,
        **_PLACE,
        **_by,
        model=st.sampled_from(("x", "y")),
        until=st.integers(0, 10_000),
    ),
    _created,
    _created,
    st.builds(network_events.TaskQueued, **_PLACE, **_tasks),
    _started,
    _started,
    _started,
    _submitted,
    _submitted,
    _submitted,
    st.builds(network_events.TaskErrorReported, **_PLACE, **_tasks, **_by),
    st.builds(network_events.TaskValidated, **_PLACE, **_tasks),
    st.builds(network_events.TaskSucceeded, **_PLACE, **_tasks, **_maybe_by),
    st.builds(network_events.TaskRefunded, **_PLACE, **_tasks, **_maybe_by),
    st.builds(network_events.TaskInvalidated, **_PLACE, **_tasks, **_maybe_by),
    _timed_out,
    _timed_out,
    st.builds(
        network_events.TaskAborted,
        **_PLACE,
        **_tasks,
        **_maybe_by,
        **_status,
        reason=st.none() | st.sampled_from(AbortReason),
    ),
    _groups,
    _groups,
)
_UNORDINARY = (
    *(
        _of_node(kind)
        for kind in NODE_ONLY_KINDS
        if network_events.NAME_BY_TYPE[kind] not in NODE_ONLY_EVENTS
    ),
    st.builds(network_events.TaskStarted, **_PLACE, **_tasks, **_by, round=st.integers(0, 2)),
    st.builds(network_events.TaskStarted, **_PLACE, **_tasks, **_by, round=st.integers(0, 2)),
    st.builds(network_events.ResultCommitted, **_PLACE, **_tasks, **_by),
    st.builds(network_events.ResultDisclosed, **_PLACE, **_tasks, **_by),
    st.builds(FeeShared, **_PLACE, **_tasks, **_by, fee=st.integers(0, 2**100)),
)
# Events that `Reference` supports, and all events.
ordinary_events = st.one_of(_ORDINARY)
any_events = st.one_of(_ORDINARY + _UNORDINARY)


def any_histories(
    events: st.SearchStrategy[DomainEvent] = any_events, max_size: int = 80
) -> st.SearchStrategy[list[DomainEvent]]:
    """Return histories that mostly break the rules, sorted by position."""
    step = st.tuples(events, st.sampled_from(_WILD_GAPS), st.booleans())
    sized = st.integers(0, max_size).flatmap(
        lambda size: st.lists(step, min_size=size, max_size=size)
    )
    return sized.map(_assign_positions)


def _assign_positions(steps: list[tuple[DomainEvent, int, bool]]) -> list[DomainEvent]:
    """Give every event the next position, or one after a gap or in a new block."""
    placed = []
    block, time, log = 1, GENESIS_TIME, 0
    for event, gap, fresh in steps:
        if gap or fresh:
            block = block + 1
            time = time + gap
            log = 0
        placed.append(replace(event, at=Position(block, log // 2, log), time=time))
        log += 1
    return placed


@dataclass
class _Life:
    """The events that may legally come next, from a record that is independent of the fold."""

    history: History = field(default_factory=History)
    members: set[str] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)
    running: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    grouped: list[str] = field(default_factory=list)
    created: int = 0

    def options(self) -> list[Callable[[], object]]:
        """Return the actions that are possible now."""
        free = self.members - set(self.running.values()) - set(self.stopped.values())
        options: list[Callable[[], object]] = [self._create]
        options += [lambda n=n: self._join(n) for n in NODES if n not in self.members]  # type: ignore[misc]
        options += [lambda n=n: self._quit(n) for n in sorted(free)]  # type: ignore[misc]
        if self.waiting:
            options += [lambda n=n: self._start(n) for n in sorted(free)] * 4
        options += [lambda t=t: self._submit(t) for t in self.running] * 4
        options += [lambda t=t: self._time_out(t) for t in self.running]  # type: ignore[misc]
        if self.grouped:
            options += [self._close]
        return options

    def _create(self) -> None:
        self.created += 1
        self.history.creates(str(self.created), of=f"g{self.created // 3}")
        self.waiting.append(str(self.created))

    def _join(self, name: str) -> None:
        self.history.joins(name)
        self.members.add(name)

    def _quit(self, name: str) -> None:
        self.history.quits(name)
        self.members.remove(name)

    def _start(self, name: str) -> None:
        key = self.waiting.pop(0)
        self.history.starts(key, name)
        self.running[key] = name

    def _submit(self, key: str) -> None:
        self.history.submits(key)
        self.stopped[key] = self.running.pop(key)
        self.grouped.append(key)

    def _time_out(self, key: str) -> None:
        self.history.times_out(key, by=self.running.pop(key))
        self.grouped.append(key)

    def _close(self) -> None:
        members = self.grouped[:3]
        self.grouped = self.grouped[3:]
        self.history.closes(f"v{members[0]}", *members)
        for key in members:
            if key in self.stopped:
                self.history.validates(key).is_refunded(key, by=self.stopped.pop(key))


def legal_histories(max_size: int = 60) -> st.SearchStrategy[list[DomainEvent]]:
    """Return legal histories: nodes come and go, tasks run, and groups are validated."""
    return _lives(st.nothing(), max_size)


def disturbed_histories(
    events: st.SearchStrategy[DomainEvent] = any_events, max_size: int = 60
) -> st.SearchStrategy[list[DomainEvent]]:
    """Return legal histories with arbitrary events in between; later events may become illegal."""
    return _lives(events, max_size)


@st.composite
def _lives(
    draw: st.DrawFn, disturbances: st.SearchStrategy[DomainEvent], max_size: int
) -> list[DomainEvent]:
    life = _Life()
    for _ in range(draw(st.integers(0, max_size))):
        gap = draw(st.sampled_from(_GAPS))
        if gap:
            life.history.after(gap)
        if not disturbances.is_empty and draw(st.integers(0, 3)) == 0:
            life.history.adds(draw(disturbances))
        else:
            draw(st.sampled_from(life.options()))()
    return life.history.events
