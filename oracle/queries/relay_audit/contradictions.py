"""Finds contradictions within a relay's rows, and between the rows and the chain.

The stakes on chain, and the times at which rows were observed, are read from a daemon's database.
See docs/reference/crynux-relay.md#contradictions.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oracle.chain.feed.relay_reader import find_unreadable_reason
from oracle.chain.feed.relay_rows import parse_row_arguments
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRange
from oracle.domain.events.network_events import NodeUpdated
from oracle.domain.feed_rows import FeedRow, is_feed_position
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.indexer.stored_events import iterate_stored_events
from oracle.store.database import UnitOfWork

# Maximum number of seconds by which the relay may lag behind the chain, or the chain behind the
# relay.
MAX_LAG_SECONDS = 3600
# Tolerated difference between the relay's clock and block times, in seconds.
_CLOCK_TOLERANCE_SECONDS = 60
_STAKED, _KICKED = "NodeStaking", "NodeKickedOut"
_RUNNER_KINDS = frozenset(
    {
        "TaskScoreReady",
        "TaskErrorReported",
        "TaskValidated",
        "TaskEndSuccess",
        "TaskEndGroupSuccess",
        "TaskEndGroupRefund",
        "TaskEndInvalidated",
    }
)


@dataclass(frozen=True, slots=True)
class RowContradiction:
    """A confirmed contradiction; `row` is the later row's id, and `why` is a sentence."""

    kind: str
    row: int
    node: Address
    why: str


@dataclass(frozen=True, slots=True)
class ChainStakes:
    """The on-chain stakes of nodes; times are block times in seconds.

    `changes` has a list for each node, with pairs of a time and the stake in wei from then on, in
    order of time. `read_until` is the time of the last block that was read. `network` is the
    relay's name for this chain, or None if the relay serves a single chain.
    """

    read_until: int
    changes: Mapping[Address, Sequence[tuple[int, int]]]
    network: str | None = None


@dataclass(slots=True)
class RowContradictions:
    """The contradictions in row order, and the number of rows that cannot be judged yet."""

    found: list[RowContradiction] = field(default_factory=list)
    unjudged: int = 0


def find_contradictions(
    rows: Sequence[FeedRow], chain: ChainStakes | None, max_lag_seconds: int
) -> RowContradictions:
    """Return contradictions among the rows, and with the chain if `chain` is given.

    A stake in a row must equal the chain's stake at that time or up to `max_lag_seconds` before. A
    node that was kicked out must have no stake `max_lag_seconds` later. Rows whose time was not
    observed (`seen_to` 0) are not compared with the chain. Contradictions are in order of row ids.

    Raises:
        InputError: the rows are of several networks, and the chain's network is not given.
    """
    contradictions = RowContradictions(list(_find_rows_of_other_nodes(rows)))
    if chain is not None:
        _check_single_network(rows, chain)
        for row in rows:
            is_on_network = chain.network is None or _parse_network(row) in (None, chain.network)
            if row.kind in (_STAKED, _KICKED) and is_on_network:
                _compare_row_with_chain(contradictions, row, chain, max_lag_seconds)
    contradictions.found.sort(key=lambda contradiction: contradiction.row)
    return contradictions


def _find_rows_of_other_nodes(rows: Sequence[FeedRow]) -> Iterator[RowContradiction]:
    """Yield the rows in which a node answered or ended another node's task."""
    starters: dict[str, str] = {}
    for row in rows:
        task = row.task.lower()
        node = row.node.lower()
        if find_unreadable_reason(row) is not None:
            continue
        if row.kind == "TaskStarted":
            starters.setdefault(task, node)
        elif row.kind in _RUNNER_KINDS and starters.get(task, node) != node:
            contradiction_text = (
                f"{row.kind} of task {task[:10]}, which {starters[task]} had started"
            )
            yield RowContradiction("other_node", row.id, Address(node), contradiction_text)


def _check_single_network(rows: Sequence[FeedRow], chain: ChainStakes) -> None:
    networks = sorted({network for row in rows if (network := _parse_network(row)) is not None})
    if chain.network is None and len(networks) > 1:
        raise InputError(
            "--network: required, because the relay has several networks; choose the network of "
            f"the chain: {', '.join(networks)}"
        )


def _parse_network(row: FeedRow) -> str | None:
    if row.kind not in (_STAKED, _KICKED) or find_unreadable_reason(row) is not None:
        return None
    network = parse_row_arguments(row).get("network")
    return network if isinstance(network, str) else None


def _compare_row_with_chain(
    results: RowContradictions, row: FeedRow, chain: ChainStakes, max_lag_seconds: int
) -> None:
    if find_unreadable_reason(row) is not None:
        return
    is_kick = row.kind == _KICKED
    max_time = row.seen_to + _CLOCK_TOLERANCE_SECONDS + (max_lag_seconds if is_kick else 0)
    if not row.seen_to or chain.read_until < max_time:
        results.unjudged += 1
        return
    min_time = row.seen_from - _CLOCK_TOLERANCE_SECONDS - (0 if is_kick else max_lag_seconds)
    # If a row already existed when the observation began, it may have any earlier time.
    min_time = min_time if row.seen_from < row.seen_to else 0
    node = Address(row.node.lower())
    stakes = _collect_stakes(chain.changes.get(node, ()), min_time, max_time)
    if is_kick:
        expected_stake, kind = 0, "kick_without_unstake"
        contradiction_text = f"kicked out, and still staked {max_lag_seconds} seconds later"
    else:
        expected_stake = int(parse_row_arguments(row)["staking_amount"])
        kind = "stake"
        contradiction_text = (
            f"a stake of {expected_stake} wei, which the chain does not have at that time"
        )
    if expected_stake not in stakes:
        results.found.append(RowContradiction(kind, row.id, node, contradiction_text))


def _collect_stakes(changes: Sequence[tuple[int, int]], min_time: int, max_time: int) -> set[int]:
    """Return all stakes that a node had in a time span, or 0 if it had none yet."""
    first_index = bisect_right(changes, min_time, key=lambda change: change[0])
    end_index = bisect_right(changes, max_time, key=lambda change: change[0])
    return {stake for _, stake in changes[max(0, first_index - 1) : end_index]} or {0}


def load_observed_rows(
    uow: UnitOfWork, reader: EventReader, network: str | None
) -> tuple[dict[int, FeedRow], ChainStakes]:
    """Load a daemon's observed feed rows by id, and the nodes' on-chain stakes.

    `network` is the relay's name for the chain.

    Raises:
        InputError: the daemon has read no block, or no feed.
        FatalError: a stored log cannot be decoded.
    """
    cursor = uow.cursor.get()
    feed = uow.feed.get_cursor()
    if cursor is None or feed is None:
        missing_kind = "block" if cursor is None else "feed"
        raise InputError(f"--config: the daemon has not read any {missing_kind} yet")
    changes: dict[Address, list[tuple[int, int]]] = defaultdict(list)
    for event in iterate_stored_events(uow, reader, BlockRange(0, cursor.number)):
        if (
            isinstance(event, NodeUpdated)
            and event.stake is not None
            and not is_feed_position(event.at)
        ):
            changes[event.node].append((event.time, event.stake))
    rows = {row.id: row for row in uow.feed.iterate_settled_rows() if row.stream == feed.stream}
    return rows, ChainStakes(cursor.time, changes, network)
