"""Codec of folded state: rows of the tables as compressed msgpack."""

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.msgpack import decode, encode

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import LastEvent
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.contract_state import NodeIndex, RoundHead, Word
from oracle.domain.reports.kicks import Kick
from oracle.domain.state.group import OpenGroup
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.store.state.cursor_repository import last_row
from oracle.store.state.group_repository import group_in, group_row
from oracle.store.state.node_repository import node_in, node_row
from oracle.store.state.round_rows import (
    index_in,
    index_row,
    kick_in,
    kick_row,
    word_in,
    word_row,
)
from oracle.store.state.task_repository import task_of, task_row

# The fastest level; a third of the size.
_COMPRESSION = 1

FirstScored = list[tuple[Address, Position, int]]
FirstTimedOut = list[tuple[Address, Position]]


class PackedState(NamedTuple):
    """Everything a fold needs to continue after a block, except the contract's settings."""

    nodes: Iterable[Node]
    tasks: Iterable[Task]
    groups: Iterable[OpenGroup]
    last: LastEvent | None
    head: RoundHead
    indexes: Iterable[NodeIndex]
    words: Iterable[Word]
    kicks: Iterable[Kick]
    first_scored: FirstScored
    first_timed_out: FirstTimedOut


def pack(state: PackedState) -> bytes:
    """Encode the state; equal states give equal bytes on every database."""
    parts = (
        sorted(map(node_row, state.nodes)),
        sorted(map(task_row, state.tasks)),
        sorted(map(group_row, state.groups)),
        None if state.last is None else last_row(state.last),
        state.head.round,
        state.head.as_of,
        state.head.digest,
        state.head.time,
        sorted(map(index_row, state.indexes)),
        sorted(map(word_row, state.words)),
        sorted(map(kick_row, state.kicks)),
        sorted(state.first_scored),
        sorted(state.first_timed_out),
    )
    return zlib.compress(encode(parts), _COMPRESSION)


def unpack(body: bytes) -> PackedState:
    """Decode a state encoded by `pack`."""
    parts: list[Any] = decode(zlib.decompress(body))
    nodes, tasks, groups, last, number, as_of, digest, time, *rest = parts
    indexes, words, kicks, scored, timed_out = rest
    return PackedState(
        nodes=map(node_in, nodes),
        tasks=map(task_of, tasks),
        groups=map(group_in, groups),
        last=None if last is None else LastEvent(Position(*last[1:5]), last[5]),
        head=RoundHead(number, as_of, Hash(digest), time),
        indexes=map(index_in, indexes),
        words=map(word_in, words),
        kicks=map(kick_in, kicks),
        first_scored=[(Address(node), Position(*at), place) for node, at, place in scored],
        first_timed_out=[(Address(node), Position(*at)) for node, at in timed_out],
    )
