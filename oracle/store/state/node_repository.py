"""Stores one row for each node, with its state as of the cursor."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from msgspec import json
from sqlalchemy import ColumnElement, Connection, bindparam, func, select, true

from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Address
from oracle.domain.state import DownloadRequest, Membership, Node, PendingLeave
from oracle.store.bulk import KEYS_PER_QUERY, Row, fetch_rows, stream_rows, upsert_rows
from oracle.store.encoding import (
    clamp_to_bigint,
    compute_prefix_range,
    decode_hex,
    decode_name_list,
    decode_optional_wei,
    encode_hex,
    encode_name_list,
    encode_optional_wei,
    escape_nul,
    format_position,
    format_version,
    parse_optional_position,
    parse_version,
    unescape_nul,
)
from oracle.store.tables.state_tables import node

if TYPE_CHECKING:
    from oracle.domain.roots.node_leaves import LeafRow

_PAGE_ROWS = 4_096
_ADDRESS_BYTES = 20
# Reliability 1 in units of 10^-18, and the seconds after which reliability has fully recovered
# from any penalty (docs/reference/scoring-rules.md#numbers).
_FULL_RELIABILITY = 10**18
_MAX_RECOVERY_SECONDS = 2**21


# This query is built once, because building it takes longer than running it. The `+ 0` in the
# condition stops SQLite from reading and sorting all seats by their index.
_HIGHEST_SEAT = (
    select(node.c.seat)
    .where(node.c.seat + 0 < bindparam("seat_count"))
    .order_by(node.c.address.desc())
    .limit(1)
)
_SEAT_AT_OR_BELOW = _HIGHEST_SEAT.where(node.c.address <= bindparam("address"))


_neighbor = node.alias("neighbor")
_new_node = node.alias("new_node")
_ASCENDING = select(_neighbor.c.address).order_by(_neighbor.c.address).limit(1)
_DESCENDING = select(_neighbor.c.address).order_by(_neighbor.c.address.desc()).limit(1)
# The addresses form a ring, in which the lowest address follows the highest.
_NEXT_ADDRESS = func.coalesce(
    _ASCENDING.where(_neighbor.c.address > node.c.address).scalar_subquery(),
    _ASCENDING.scalar_subquery(),
)
_PREDECESSORS_OF_NEW = select(
    func.coalesce(
        _DESCENDING.where(_neighbor.c.address < _new_node.c.address).scalar_subquery(),
        _DESCENDING.scalar_subquery(),
    )
).where(_new_node.c.seat >= bindparam("node_count"))
# The columns of `LeafRow`.
_LEAF_ROWS = select(
    node.c.seat,
    node.c.address,
    _NEXT_ADDRESS,
    node.c.membership == Membership.MEMBER.value,
    node.c.paused,
    node.c.excluded,
    node.c.base,
    node.c.since,
    node.c.pool,
    node.c.pool_sum,
    node.c.prior,
    node.c.last_scored_at,
    node.c.kickout_due_time,
)
_LEAF_ROWS_PER_BATCH = 4_096
# This mapping is ten times faster than calling the enumeration.
_MEMBERSHIP_BY_VALUE = {membership.value: membership for membership in Membership}


class NodeRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Node]:
        """Return the stored nodes among these addresses."""
        rows = fetch_rows(self._connection, node, map(decode_hex, addresses))
        return {stored_node.address: stored_node for stored_node in map(decode_node_row, rows)}

    def list_addresses_by_prefix(self, digits: str, limit: int) -> list[Address]:
        """Return up to `limit` addresses whose hex begins with `digits`, in order."""
        lowest_address, highest_address = compute_prefix_range(digits, _ADDRESS_BYTES)
        query = select(node.c.address).where(
            node.c.address.between(lowest_address, highest_address)
        )
        rows = self._connection.execute(query.order_by(node.c.address).limit(limit))
        return [Address(encode_hex(address)) for (address,) in rows]

    def get_address_by_seat(self, seats: Collection[int]) -> dict[int, Address]:
        """Return the addresses of nodes by their permanent numbers (seats)."""
        addresses: dict[int, Address] = {}
        sorted_seats = sorted(seats)
        for offset in range(0, len(sorted_seats), KEYS_PER_QUERY):
            query = select(node.c.seat, node.c.address).where(
                node.c.seat.in_(sorted_seats[offset : offset + KEYS_PER_QUERY])
            )
            for row in self._connection.execute(query):
                addresses[row.seat] = Address(encode_hex(row.address))
        return addresses

    def find_seat_at_or_below(self, address: Address, seat_count: int) -> int | None:
        """Return the permanent number (seat) of the node at or just below `address`.

        Only nodes with seats below `seat_count` are considered. If `address` is below all of their
        addresses, the seat of the highest address is returned, because the addresses in the tree
        of a round form a ring. The result is None if there is no node.
        """
        for query in (_SEAT_AT_OR_BELOW, _HIGHEST_SEAT):
            parameters = {"address": decode_hex(address), "seat_count": seat_count}
            seat: int | None = self._connection.execute(query, parameters).scalar_one_or_none()
            if seat is not None:
                return seat
        return None

    def save(self, nodes: Iterable[Node]) -> None:
        """Insert or replace the rows of these nodes."""
        upsert_rows(self._connection, node, [encode_node_row(entry) for entry in nodes])

    def iterate_all(self) -> Iterator[Node]:
        """Yield all nodes by address, reading them in pages."""
        last_address: Address | None = None
        while page := self.list_page(last_address, _PAGE_ROWS):
            yield from page
            last_address = page[-1].address

    def list_page(self, after_address: Address | None, limit: int) -> list[Node]:
        """Return up to `limit` nodes with addresses above `after_address`, by address."""
        query = select(node).order_by(node.c.address).limit(limit)
        if after_address is not None:
            query = query.where(node.c.address > decode_hex(after_address))
        batches = stream_rows(self._connection, query, limit)
        return [decode_node_row(row) for rows in batches for row in rows]

    def iterate_changed_since(self, block: int) -> Iterator[Node]:
        """Yield the nodes that changed after a block."""
        yield from self._iterate_matching_nodes(node.c.changed_at > block)

    def list_idle_since(self, time: int) -> list[Node]:
        """Return the members that have not started a task since block time `time`."""
        has_no_recent_start = node.c.last_start.is_(None) | (node.c.last_start < time)
        is_member = node.c.membership == Membership.MEMBER.value
        query = select(node).where(is_member & has_no_recent_start).order_by(node.c.address)
        return list(map(decode_node_row, self._connection.execute(query)))

    def iterate_leaf_rows(self) -> Generator[list["LeafRow"]]:
        """Yield the leaf rows of all nodes in batches, in any order.

        The caller closes the generator before the transaction ends.
        """
        yield from self._iterate_leaf_rows(true())

    def iterate_leaf_rows_of_seats(self, seats: range) -> Generator[list["LeafRow"]]:
        """Yield the leaf rows of nodes with consecutive permanent numbers (seats).

        Batches are in any order. The caller closes the generator before the transaction ends.
        """
        yield from self._iterate_leaf_rows(node.c.seat.between(seats[0], seats[-1]))

    def iterate_changed_leaf_rows(
        self,
        block: int,
        time: int | None,
        node_count: int,
        recovery_seconds: int = _MAX_RECOVERY_SECONDS,
    ) -> Generator[list["LeafRow"]]:
        """Yield the leaf rows that may have changed since a block or a time.

        These are the rows of nodes that changed after `block`, of nodes that were recovering at
        `time`, and of the predecessors of new nodes, because a leaf contains the next address.
        New nodes have the seats from `node_count` on. A node is recovering if its reliability was
        reduced less than `recovery_seconds` before (docs/reference/scoring-rules.md#numbers); if
        `time` is None, these nodes are left out. Batches are in any order, and may contain a node
        several times. The caller closes the generator before the transaction ends.
        """
        if time is not None:
            min_time = time + _MAX_RECOVERY_SECONDS - recovery_seconds
            yield from self._iterate_leaf_rows(node.c.recovers_until > min_time)
        yield from self._iterate_leaf_rows(node.c.changed_at > block)
        yield from self._iterate_leaf_rows(
            node.c.address.in_(_PREDECESSORS_OF_NEW.params(node_count=node_count))
        )

    def _iterate_leaf_rows(self, condition: ColumnElement[bool]) -> Generator[list["LeafRow"]]:
        query = _LEAF_ROWS.where(condition)
        for rows in stream_rows(self._connection, query, _LEAF_ROWS_PER_BATCH):
            yield cast("list[LeafRow]", rows)

    def _iterate_matching_nodes(self, condition: ColumnElement[bool]) -> Iterator[Node]:
        """Yield the nodes that satisfy a condition on an indexed column, by address.

        The rows are sorted in Python. With ORDER BY, SQLite would read the whole table in the
        order of the keys instead of using the index.
        """
        rows = self._connection.execute(select(node).where(condition)).all()
        yield from map(decode_node_row, sorted(rows, key=attrgetter("address")))

    def list_with_requested_downloads(self) -> list[Node]:
        """Return the nodes that were asked to download a model, by address."""
        query = select(node).where(node.c.downloads.is_not(None)).order_by(node.c.address)
        return [decode_node_row(row) for row in self._connection.execute(query)]

    def count_by_state(self) -> dict[tuple[Membership, bool, bool], int]:
        """Count the nodes by membership, paused or not, and running a task or not."""
        is_running = node.c.running > 0
        count_query = select(node.c.membership, node.c.paused, is_running, func.count()).group_by(
            node.c.membership, node.c.paused, is_running
        )
        return {
            (Membership(membership), bool(paused), bool(is_busy)): int(count)
            for membership, paused, is_busy, count in self._connection.execute(count_query)
        }


def iterate_nodes_as_of(
    connection: Connection, blocks: BlockRange, row_after_by_key: Mapping[bytes, Row | None]
) -> Iterator[Node]:
    """Yield the nodes that changed in these blocks, with their state after the last block.

    Nodes are ordered by address. `row_after_by_key` maps each node that changed later to its row
    after the last block, or to None if it had no row.
    """
    query = select(node).where(node.c.changed_at >= blocks.first).order_by(node.c.address)
    for row in connection.execute(query):
        row_values = row_after_by_key.get(row.address, tuple(row))
        if row_values is None:
            continue
        node_as_of = decode_node_row(row_values)
        if blocks.first <= node_as_of.changed_at <= blocks.last:
            yield node_as_of


def encode_node_row(entry: Node) -> Row:
    recovers_until = (
        entry.since + _MAX_RECOVERY_SECONDS if entry.base < _FULL_RELIABILITY else None
    )
    return (
        decode_hex(entry.address),
        entry.seat,
        entry.membership.value,
        entry.paused,
        entry.running,
        encode_optional_wei(entry.stake),
        escape_nul(entry.gpu_name),
        clamp_to_bigint(entry.gpu_vram),
        format_version(entry.version),
        encode_name_list(entry.models),
        encode_name_list(entry.in_use),
        clamp_to_bigint(entry.timeout),
        entry.pool,
        entry.pool_sum,
        entry.scored,
        entry.base,
        entry.since,
        entry.excluded,
        entry.prior,
        entry.restarts,
        format_position(entry.kickout_due_since),
        entry.kickout_due_time,
        entry.last_scored_at,
        entry.starts_anew,
        entry.changed_at,
        recovers_until,
        entry.window,
        entry.window_sum,
        entry.window_count,
        entry.online_since,
        entry.online_seconds,
        None if entry.pending is None else entry.pending.value,
        entry.last_start,
        json.encode(entry.downloads).decode() if entry.downloads else None,
    )


def decode_node_row(row: Row) -> Node:
    """Decode a node from a row's values in the table's column order."""
    # Unpacking takes a third of the time of reading values by name. All nodes are read at startup,
    # so this matters.
    (
        address,
        seat,
        membership,
        paused,
        running,
        stake,
        gpu_name,
        gpu_vram,
        version,
        models,
        in_use,
        timeout,
        pool,
        pool_sum,
        scored,
        base,
        since,
        excluded,
        prior,
        restarts,
        kickout_due_since,
        kickout_due_time,
        last_scored_at,
        starts_anew,
        changed_at,
        _,
        window,
        window_sum,
        window_count,
        online_since,
        online_seconds,
        pending,
        last_start,
        downloads,
    ) = row
    return Node(
        Address(encode_hex(address)),
        seat,
        _MEMBERSHIP_BY_VALUE[membership],
        bool(paused),
        running,
        decode_optional_wei(stake),
        unescape_nul(gpu_name),
        gpu_vram,
        parse_version(version),
        decode_name_list(models),
        decode_name_list(in_use),
        timeout,
        pool,
        pool_sum,
        scored,
        base,
        since,
        bool(excluded),
        prior,
        restarts,
        parse_optional_position(kickout_due_since),
        kickout_due_time,
        last_scored_at,
        bool(starts_anew),
        changed_at,
        window,
        window_sum,
        window_count,
        online_since,
        online_seconds,
        None if pending is None else PendingLeave(pending),
        last_start,
        () if downloads is None else _decode_downloads(downloads),
    )


def _decode_downloads(text: str) -> tuple[DownloadRequest, ...]:
    return json.decode(text, type=tuple[DownloadRequest, ...])
