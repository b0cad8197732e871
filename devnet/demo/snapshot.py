"""Reads the daemon's database for the demo's screen, as table rows at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from oracle.bindings.probe_calls import decode_probe_nodes
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange
from oracle.domain.ids import Address
from oracle.domain.incidents import Incident
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE, NEVER_REPORTED, QOS_STEP
from oracle.domain.reports.node_kicks import NodeKick
from oracle.domain.scoring.kickout_forecast import is_kickout_near
from oracle.domain.scoring.node_figures import NodeScores
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.indexer.round_leaves import LeafCache
from oracle.queries.population import (
    Population,
    load_on_chain_scores,
    load_population,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import SECOND_GROUP, SETTLE_CONTEST, Account, IntentState
from oracle.store.report_repository import ReportState
from oracle.systems.crynux.predownload import list_download_requests

_LANE_STEPS = 10_000
# Maximum number of calls for second groups that are read. A demo makes fewer.
_MAX_CONTEST_CALLS = 20
# Maximum number of incidents that are read. A demo has fewer.
_MAX_INCIDENTS = 10
_UNSENT_STATES = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
_SENT_STATES = (IntentState.LIVE, IntentState.MINED)


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """The row of a node in the table.

    `chain_score` is its score in the last accepted round.
    """

    name: str
    address: Address
    role: str
    score_count: int
    node_scores: NodeScores
    chain_score: str
    # True if the node's score is close to the kickout threshold.
    is_kickout_near: bool = False
    # State of the download of each model that the node was requested to download in the last day.
    state_by_model: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """The state after the last processed block.

    Rows are ordered by descending QoS.
    """

    block: int
    time: int
    round_number: int
    # As-of block of the newest report that was either accepted or skipped because it was empty.
    reported_block: int
    rows: tuple[SnapshotRow, ...]
    # Timeouts since the previous snapshot. The oldest comes first.
    timeouts: tuple[ReliabilityChange, ...]
    due_kickouts: tuple[KickoutDue, ...]
    kicks: tuple[NodeKick, ...]
    # Number of contested groups, and the nodes of each second group that has been ordered.
    contest_count: int = 0
    second_groups: tuple[tuple[Address, ...], ...] = ()
    incidents: tuple[Incident, ...] = ()


class NodeNames(Protocol):
    """Maps node addresses to the names of the demo nodes."""

    def get_node_name(self, node: Address) -> str:
        """Return the name of a demo node, or the address of any other node."""
        ...


class SnapshotReader:
    """Reads one snapshot after another.

    It remembers which timeouts were already shown.
    """

    def __init__(
        self, store: Store, names: NodeNames, rules: Rules, role_by_name: dict[str, str]
    ) -> None:
        self._store = store
        self._names = names
        self._rules = rules
        self._role_by_name = role_by_name
        self._reliability_time_by_node: dict[Address, int] = {}
        self._last_shown_block = -1
        self._leaf_cache = LeafCache()

    def is_daemon_behind(self, head: int, dispatcher: Account) -> bool:
        """Return whether the daemon has to process blocks or to send starts of tasks.

        On a real chain, the daemon would have twelve seconds per block for this work.
        """
        with self._store.read_transaction() as uow:
            cursor = uow.cursor.get()
            drawn_seeds = {(draw.seed_block, draw.seed_hash) for draw in uow.draws.list_active()}
            unsent_calls = (
                uow.outbox.intents.list_in_states(dispatcher, _UNSENT_STATES)
                if drawn_seeds
                else []
            )
            sent_calls = (
                uow.outbox.intents.list_in_states(dispatcher, _SENT_STATES) if drawn_seeds else []
            )
        sent_seeds = {(call.request.as_of_block, call.request.as_of_hash) for call in sent_calls}
        is_folded = cursor is not None and cursor.number >= head
        return not is_folded or bool(unsent_calls) or not drawn_seeds <= sent_seeds

    def list_nodes_due_for_kickout(self) -> tuple[Address, ...]:
        """Return the nodes whose kickout is due at the daemon's last processed block."""
        with self._store.read_transaction() as uow:
            return tuple(interval.node for interval in uow.kickouts.list_open())

    def load_snapshot(self) -> DemoSnapshot | None:
        """Load a snapshot from the database, or return None before the daemon's first block."""
        with self._store.read_transaction() as uow:
            cursor = uow.cursor.get()
            if cursor is None:
                return None
            nodes = list(uow.nodes.iterate_all())
            contract_state = uow.rounds.load_contract_state()
            on_chain = load_on_chain_scores(uow, contract_state.head, self._leaf_cache)
            population = load_population(uow, nodes, cursor.time, self._rules, on_chain)
            rows = [self._build_row(node, population) for node in nodes]
            return DemoSnapshot(
                block=cursor.number,
                time=cursor.time,
                round_number=contract_state.head_round,
                reported_block=_load_reported_block(uow),
                rows=tuple(sorted(rows, key=lambda row: (-(row.node_scores.qos or -1), row.name))),
                timeouts=tuple(self._load_new_timeouts(uow, nodes, cursor.number)),
                due_kickouts=tuple(uow.kickouts.list_open()),
                kicks=tuple(contract_state.kicks.values()),
                contest_count=_count_contests(uow),
                second_groups=_load_second_groups(uow),
                incidents=tuple(uow.incidents.list_newest(_MAX_INCIDENTS)),
            )

    def _build_row(self, node: Node, population: Population) -> SnapshotRow:
        name = self._names.get_node_name(node.address)
        return SnapshotRow(
            name=name,
            address=node.address,
            role=self._role_by_name.get(name, ""),
            score_count=len(node.pool),
            node_scores=population.compute_node_scores(node),
            chain_score=_format_chain_score(population.on_chain.get_lane(node)),
            is_kickout_near=is_kickout_near(node, population.time, population.rules),
            state_by_model={
                request.model: state
                for request, state in list_download_requests(node, population.time)
            },
        )

    def _load_new_timeouts(
        self, uow: UnitOfWork, nodes: Sequence[Node], block_number: int
    ) -> list[ReliabilityChange]:
        """Load these nodes' timeouts since the previous snapshot, oldest first."""
        changed_nodes = [
            node.address
            for node in nodes
            if self._reliability_time_by_node.get(node.address) != node.since
        ]
        self._reliability_time_by_node = {node.address: node.since for node in nodes}
        timeouts = [
            change
            for address in changed_nodes
            for change in uow.reliability.list_for_node(address)
            if change.at.block > self._last_shown_block
            and change.cause is ReliabilityCause.TIMED_OUT
        ]
        self._last_shown_block = block_number
        return sorted(timeouts, key=lambda change: change.at)


def truncate_score(units: int) -> float:
    """Convert a score in units of 10^-18 to a fraction, truncated to four digits.

    The contract truncates as well, so equal scores look equal on the screen.
    """
    return units // QOS_STEP / _LANE_STEPS


def _count_contests(uow: UnitOfWork) -> int:
    calls = uow.outbox.intents.list_newest(_MAX_CONTEST_CALLS, kind=SETTLE_CONTEST)
    return len({call.request.subject for call in calls})


def _load_second_groups(uow: UnitOfWork) -> tuple[tuple[Address, ...], ...]:
    """Load the nodes of each second group that has started, oldest group first."""
    calls = uow.outbox.intents.list_newest(_MAX_CONTEST_CALLS, kind=SECOND_GROUP)
    started_calls = [
        call for call in calls if call.state in {IntentState.MINED, IntentState.FINAL}
    ]
    return tuple(decode_probe_nodes(call.request.calldata) for call in reversed(started_calls))


def _load_reported_block(uow: UnitOfWork) -> int:
    final_states = (ReportState.LANDED, ReportState.SKIPPED)
    reported_blocks = [
        record.report.as_of.number
        for record in uow.reports.list_newest()
        if record.state in final_states
    ]
    return max(reported_blocks, default=-1)


def _format_chain_score(lane: int) -> str:
    if lane == NEVER_REPORTED:
        return "-"
    if lane == DO_NOT_SELECT:
        return "no"
    return f"{(lane - LOWEST_SCORE) / _LANE_STEPS:.4f}"
