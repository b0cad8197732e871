"""Snapshots for the demo's screen: the daemon's database at one moment, as table rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from oracle.bindings.probe_calls import decode_probe_nodes
from oracle.dispatch.contest_settlement import SETTLE_CONTEST
from oracle.dispatch.second_groups import SECOND_GROUP
from oracle.domain.fold.working_set import KickoutDue, ReliabilityCause, ReliabilityChange
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import Kick
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE, NEVER_REPORTED, QOS_STEP
from oracle.domain.scoring.node_figures import NodeFigures
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.queries.population import Population, build_population, has_feed_cursor
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Account, IntentState
from oracle.store.reports.report_repository import ReportState
from oracle.systems.crynux.predownload import list_requests

_LANES_IN_QOS = 10_000
# More than a demo makes.
_CONTEST_CALLS = 20
_UNSENT = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
_SENT = (IntentState.LIVE, IntentState.MINED)


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One node; `chain_score` is its score as a consumer of the contract reads it."""

    name: str
    address: Address
    part: str
    scores: int
    figures: NodeFigures
    on_chain: str
    # State of each model download requested from the node in the last day.
    asked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """The state at the daemon's cursor; rows are ordered by falling QoS."""

    block: int
    time: int
    round: int
    # As-of block of the newest report that was accepted or skipped as empty.
    reported: int
    rows: tuple[SnapshotRow, ...]
    # Timeouts since the previous snapshot, oldest first.
    timeouts: tuple[ReliabilityChange, ...]
    due: tuple[KickoutDue, ...]
    kicks: tuple[Kick, ...]
    # Number of contested groups, and the nodes of each second group that was ordered.
    contests: int = 0
    second_groups: tuple[tuple[Address, ...], ...] = ()


class Names(Protocol):
    """Maps node addresses to the names of the cast."""

    def name_of(self, node: Address) -> str:
        """Return the name of a cast member, or the address if it is none of the cast."""
        ...


class SnapshotReader:
    """Reads snapshots repeatedly, and remembers which timeouts were already shown."""

    def __init__(self, store: Store, names: Names, rules: Rules, parts: dict[str, str]) -> None:
        self._store = store
        self._names = names
        self._rules = rules
        self._parts = parts
        self._since: dict[Address, int] = {}
        self._shown_up_to = -1

    def is_behind(self, head: int, dispatcher: Account) -> bool:
        """Return whether the daemon has blocks to fold, or task starts to send.

        A real chain would leave the daemon twelve seconds for that.
        """
        with self._store.read_transaction() as uow:
            cursor = uow.cursor.get()
            drawn = {(one.seed_block, one.seed_hash) for one in uow.draws.list_active()}
            waiting = uow.outbox.intents.list_in_states(dispatcher, _UNSENT) if drawn else []
            sent = uow.outbox.intents.list_in_states(dispatcher, _SENT) if drawn else []
        begun = {(one.request.as_of_block, one.request.as_of_hash) for one in sent}
        is_folded = cursor is not None and cursor.number >= head
        return not is_folded or bool(waiting) or not drawn <= begun

    def look(self) -> DemoSnapshot | None:
        """Return a snapshot of the database, or None before the daemon's first block."""
        with self._store.read_transaction() as uow:
            cursor = uow.cursor.get()
            if cursor is None:
                return None
            nodes = list(uow.nodes.iterate_all())
            rounds = uow.rounds.load()
            population = build_population(
                nodes, cursor.time, self._rules, rounds, uses_feed=has_feed_cursor(uow)
            )
            rows = [self._row(node, population) for node in nodes]
            return DemoSnapshot(
                block=cursor.number,
                time=cursor.time,
                round=rounds.head.round,
                reported=_reported(uow),
                rows=tuple(sorted(rows, key=lambda row: (-(row.figures.qos or -1), row.name))),
                timeouts=tuple(self._timeouts(uow, nodes, cursor.number)),
                due=tuple(uow.kickouts.list_open()),
                kicks=tuple(rounds.kicks.values()),
                contests=_contests(uow),
                second_groups=_second_groups(uow),
            )

    def _row(self, node: Node, population: Population) -> SnapshotRow:
        name, rounds = self._names.name_of(node.address), population.rounds
        return SnapshotRow(
            name=name,
            address=node.address,
            part=self._parts.get(name, ""),
            scores=len(node.pool),
            figures=population.compute_figures(node),
            on_chain=_spoken(rounds.get_node_lane(node.address)),
            asked={
                request.request.model: request.state
                for request in list_requests(node, population.time)
            },
        )

    def _timeouts(
        self, uow: UnitOfWork, nodes: Sequence[Node], block: int
    ) -> list[ReliabilityChange]:
        """Return the timeouts after the last shown block, of nodes whose reliability changed."""
        touched = [node.address for node in nodes if self._since.get(node.address) != node.since]
        self._since = {node.address: node.since for node in nodes}
        found = [
            change
            for address in touched
            for change in uow.reliability.list_for_node(address)
            if change.at.block > self._shown_up_to and change.cause is ReliabilityCause.TIMED_OUT
        ]
        self._shown_up_to = block
        return sorted(found, key=lambda change: change.at)


def floored(units: int) -> float:
    """Return units of 10^-18 as a fraction, truncated to four digits.

    The contract truncates as well, so equal scores look equal.
    """
    return units // QOS_STEP / _LANES_IN_QOS


def _contests(uow: UnitOfWork) -> int:
    calls = uow.outbox.intents.list_newest(_CONTEST_CALLS, kind=SETTLE_CONTEST)
    return len({call.request.subject for call in calls})


def _second_groups(uow: UnitOfWork) -> tuple[tuple[Address, ...], ...]:
    """Return the nodes of each second group that has started, the oldest first."""
    calls = uow.outbox.intents.list_newest(_CONTEST_CALLS, kind=SECOND_GROUP)
    begun = [call for call in calls if call.state in {IntentState.MINED, IntentState.FINAL}]
    return tuple(decode_probe_nodes(call.request.calldata) for call in reversed(begun))


def _reported(uow: UnitOfWork) -> int:
    done = (ReportState.LANDED, ReportState.SKIPPED)
    blocks = [one.report.as_of.number for one in uow.reports.list_latest() if one.state in done]
    return max(blocks, default=-1)


def _spoken(lane: int) -> str:
    if lane == NEVER_REPORTED:
        return "-"
    if lane == DO_NOT_SELECT:
        return "no"
    return f"{(lane - LOWEST_SCORE) / _LANES_IN_QOS:.4f}"
