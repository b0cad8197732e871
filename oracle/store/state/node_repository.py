"""Rows of the nodes: one per node, as of the cursor."""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from msgspec import json
from sqlalchemy import ColumnElement, Connection, func, select

from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Address
from oracle.domain.state.node import DownloadRequest, Membership, Node, Pending
from oracle.store.bulk import Row, fetch, upsert
from oracle.store.encoding import (
    amount_or_none,
    as_said,
    bounded,
    hexed,
    list_of,
    list_text,
    plain,
    position_or_none,
    position_text,
    range_of_prefix,
    raw,
    version_of,
    version_text,
    wei_or_none,
)
from oracle.store.tables.state_tables import node

_PAGE = 1_000
_ADDRESS_BYTES = 20
# Reliability 1 in units of 10^-18, and the seconds after which a penalty has healed
# (docs/reference/scoring-rules.md#numbers).
_WHOLE = 10**18
_HEALED_AFTER = 2**21
_COLUMNS = node.columns.keys()


class NodeRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def named(self, addresses: Iterable[Address]) -> dict[Address, Node]:
        """Return the stored nodes among these addresses."""
        rows = fetch(self._connection, node, map(raw, addresses))
        return {found.address: found for found in map(_node_of, rows)}

    def beginning(self, digits: str, limit: int) -> list[Address]:
        """Return up to `limit` addresses whose hex begins with `digits`, by address."""
        low, high = range_of_prefix(digits, _ADDRESS_BYTES)
        chosen = select(node.c.address).where(node.c.address.between(low, high))
        found = self._connection.execute(chosen.order_by(node.c.address).limit(limit))
        return [Address(hexed(address)) for (address,) in found]

    def save(self, nodes: Iterable[Node]) -> None:
        """Insert or replace the row of each node."""
        upsert(self._connection, node, [node_row(each) for each in nodes])

    def all(self) -> Iterator[Node]:
        """Yield every node, by address, in pages."""
        after: Address | None = None
        while page := self.page(after, _PAGE):
            yield from page
            after = page[-1].address

    def page(self, after: Address | None, limit: int) -> list[Node]:
        """Return up to `limit` nodes with an address above `after_address`, by address."""
        chosen = select(node).order_by(node.c.address).limit(limit)
        if after is not None:
            chosen = chosen.where(node.c.address > raw(after))
        return [_node_of(row) for row in self._connection.execute(chosen)]

    def changed_since(self, block: int) -> Iterator[Node]:
        """Yield the nodes whose row changed in a block above `block`."""
        yield from self._few(node.c.changed_at > block)

    def without_start_since(self, time: int) -> list[Node]:
        """Return the members without a task start since a block time, by address."""
        is_old = node.c.last_start.is_(None) | (node.c.last_start < time)
        is_member = node.c.membership == Membership.MEMBER.value
        chosen = select(node).where(is_member & is_old).order_by(node.c.address)
        return list(map(_node_of, self._connection.execute(chosen)))

    def recovering_at(self, time: int) -> Iterator[Node]:
        """Yield the nodes whose reliability was still healing at `time`, in seconds.

        Their base is below 1 and the penalty less than 2^21 seconds old
        (docs/reference/scoring-rules.md#numbers).
        """
        yield from self._few(node.c.recovers_until > time)

    def _few(self, condition: ColumnElement[bool]) -> Iterator[Node]:
        """Yield the nodes that an index finds, by address.

        Sorted in Python: given ORDER BY, SQLite reads the whole table in key order instead.
        """
        rows = self._connection.execute(select(node).where(condition)).all()
        yield from map(_node_of, sorted(rows, key=attrgetter("address")))

    def asked(self) -> list[Node]:
        """Return the nodes with requested downloads, by address."""
        chosen = select(node).where(node.c.downloads.is_not(None)).order_by(node.c.address)
        return [_node_of(row) for row in self._connection.execute(chosen)]

    def counts(self) -> dict[tuple[Membership, bool, bool], int]:
        """Count the nodes by membership, whether paused, and whether running a task."""
        busy = node.c.running > 0
        counted = select(node.c.membership, node.c.paused, busy, func.count()).group_by(
            node.c.membership, node.c.paused, busy
        )
        return {
            (Membership(membership), bool(paused), bool(runs)): int(number)
            for membership, paused, runs, number in self._connection.execute(counted)
        }


def nodes_as_of(
    connection: Connection, blocks: BlockRange, later: Mapping[bytes, Row | None]
) -> Iterator[Node]:
    """Yield the nodes that changed in these blocks, by address, as of the last block.

    `row_after_by_key` maps each node that changed later to its row after the last block, or to
    None if it had no row.
    """
    chosen = select(node).where(node.c.changed_at >= blocks.first).order_by(node.c.address)
    for row in connection.execute(chosen):
        before = later.get(row.address, tuple(row))
        if before is None:
            continue
        found = node_in(before)
        if blocks.first <= found.changed_at <= blocks.last:
            yield found


def node_row(each: Node) -> Row:
    """Encode the node as a row of its table."""
    recovers_until = each.since + _HEALED_AFTER if each.base < _WHOLE else None
    return (
        raw(each.address),
        each.membership.value,
        each.paused,
        each.running,
        wei_or_none(each.stake),
        plain(each.gpu_name),
        bounded(each.gpu_vram),
        version_text(each.version),
        list_text(each.models),
        list_text(each.in_use),
        bounded(each.timeout),
        each.pool,
        each.pool_sum,
        each.scored,
        each.base,
        each.since,
        each.excluded,
        each.prior,
        each.restarts,
        position_text(each.kickout_due_since),
        each.starts_anew,
        each.changed_at,
        recovers_until,
        each.window,
        each.window_sum,
        each.window_count,
        each.online_since,
        each.online_seconds,
        None if each.pending is None else each.pending.value,
        each.last_start,
        json.encode(each.downloads).decode() if each.downloads else None,
    )


def node_in(row: Row) -> Node:
    """Decode a node from a row's values in the table's column order."""
    return _node_of(SimpleNamespace(**dict(zip(_COLUMNS, row, strict=True))))


def _node_of(row: Any) -> Node:  # noqa: ANN401  a row of any driver
    return Node(
        address=Address(hexed(row.address)),
        membership=Membership(row.membership),
        paused=bool(row.paused),
        running=row.running,
        stake=amount_or_none(row.stake),
        gpu_name=as_said(row.gpu_name),
        gpu_vram=row.gpu_vram,
        version=version_of(row.version),
        models=list_of(row.models),
        in_use=list_of(row.in_use),
        timeout=row.timeout,
        pool=row.pool,
        pool_sum=row.pool_sum,
        scored=row.scored,
        base=row.base,
        since=row.since,
        excluded=bool(row.excluded),
        prior=row.prior,
        restarts=row.restarts,
        kickout_due_since=position_or_none(row.kickout_due_since),
        starts_anew=bool(row.starts_anew),
        changed_at=row.changed_at,
        window=row.window,
        window_sum=row.window_sum,
        window_count=row.window_count,
        online_since=row.online_since,
        online_seconds=row.online_seconds,
        pending=None if row.pending is None else Pending(row.pending),
        last_start=row.last_start,
        downloads=() if row.downloads is None else _downloads_of(row.downloads),
    )


def _downloads_of(text: str) -> tuple[DownloadRequest, ...]:
    return json.decode(text, type=tuple[DownloadRequest, ...])
