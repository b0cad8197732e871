"""Compares a relay's rows with each other and with the chain, and lists the contradictions.

See docs/reference/crynux-relay.md#contradictions.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oracle.chain.feed.relay_reader import why_unreadable
from oracle.chain.feed.relay_rows import arguments_of
from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import Address
from oracle.errors import InputError

# How long the relay may lag behind the chain, or the chain behind the relay.
PATIENCE_SECONDS = 3600
# The tolerated difference between the relay's clock and that of the chain's blocks.
_CLOCK_SECONDS = 60
_STAKED, _KICKED = "NodeStaking", "NodeKickedOut"
_BY_A_RUNNER = frozenset(
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
    """A confirmed contradiction: `row` is the id of the later row, `why` is a sentence."""

    kind: str
    row: int
    node: Address
    why: str


@dataclass(frozen=True, slots=True)
class ChainStakes:
    """The stakes on chain: by node, (time, wei from then on) in order of time.

    Times are seconds of blocks; `read_until` is the time of the last block that was read.
    `network`: the relay's name of this chain, or None if the relay serves a single chain.
    """

    read_until: int
    changes: Mapping[Address, Sequence[tuple[int, int]]]
    network: str | None = None


@dataclass(slots=True)
class RowContradictions:
    """The contradictions by row; `unjudged` counts rows that the chain does not reach yet."""

    found: list[RowContradiction] = field(default_factory=list)
    unjudged: int = 0


def contradictions(
    rows: Sequence[FeedRow], chain: ChainStakes | None, patience_seconds: int
) -> RowContradictions:
    """Return the contradictions of rows in the order of ids; without a chain, among rows alone.

    A stake in a row must be the chain's stake at that time or up to `max_lag_seconds` before; a
    node that is kicked out must have no stake that many seconds later. Rows whose time was not
    observed (`seen_to` 0) are not compared with the chain.

    Raises:
        InputError: the rows are of several networks, and the chain's network is not given.
    """
    made = RowContradictions(list(_other_nodes(rows)))
    if chain is not None:
        _refuse_several(rows, chain)
        for row in rows:
            if row.kind in (_STAKED, _KICKED) and _is_of(row, chain):
                _judge(made, row, chain, patience_seconds)
    made.found.sort(key=lambda one: one.row)
    return made


def _other_nodes(rows: Sequence[FeedRow]) -> Iterator[RowContradiction]:
    """Yield the tasks that one node started and another node answered or ended."""
    starters: dict[str, str] = {}
    for row in rows:
        task, node = row.task.lower(), row.node.lower()
        if why_unreadable(row) is not None:
            continue
        if row.kind == "TaskStarted":
            starters.setdefault(task, node)
        elif row.kind in _BY_A_RUNNER and starters.get(task, node) != node:
            why = f"{row.kind} of task {task[:10]}, which {starters[task]} had started"
            yield RowContradiction("other_node", row.id, Address(node), why)


def _refuse_several(rows: Sequence[FeedRow], chain: ChainStakes) -> None:
    named = sorted({told for row in rows if (told := _network(row)) is not None})
    if chain.network is None and len(named) > 1:
        raise InputError(
            f"rows are of the networks {', '.join(named)}: name the chain's, --network"
        )


def _is_of(row: FeedRow, chain: ChainStakes) -> bool:
    return chain.network is None or _network(row) in (None, chain.network)


def _network(row: FeedRow) -> str | None:
    if row.kind not in (_STAKED, _KICKED) or why_unreadable(row) is not None:
        return None
    told = arguments_of(row).get("network")
    return told if isinstance(told, str) else None


def _judge(
    made: RowContradictions, row: FeedRow, chain: ChainStakes, patience_seconds: int
) -> None:
    if why_unreadable(row) is not None:
        return
    is_kick = row.kind == _KICKED
    until = row.seen_to + _CLOCK_SECONDS + (patience_seconds if is_kick else 0)
    if not row.seen_to or chain.read_until < until:
        made.unjudged += 1
        return
    since = row.seen_from - _CLOCK_SECONDS - (0 if is_kick else patience_seconds)
    # Rows that existed before the observation began may be of any earlier time.
    since = since if row.seen_from < row.seen_to else 0
    node = Address(row.node.lower())
    stakes = _stakes_in(chain.changes.get(node, ()), since, until)
    if is_kick:
        wanted, kind = 0, "kick_without_unstake"
        why = f"kicked out, and still staked {patience_seconds} seconds later"
    else:
        wanted, kind = int(arguments_of(row)["staking_amount"]), "stake"
        why = f"a stake of {wanted} wei, which the chain does not have at that time"
    if wanted not in stakes:
        made.found.append(RowContradiction(kind, row.id, node, why))


def _stakes_in(changes: Sequence[tuple[int, int]], since: int, until: int) -> set[int]:
    """Return every stake that a node had between two times, without the 0 before its first one."""
    first = bisect_right(changes, since, key=lambda change: change[0])
    last = bisect_right(changes, until, key=lambda change: change[0])
    return {stake for _, stake in changes[max(0, first - 1) : last]} or {0}
