"""Encodes folded state for snapshots: table rows as compressed msgpack."""

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.msgpack import decode, encode

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import LastEvent
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.contract_state import NodeIndex, RoundHead, Word
from oracle.domain.reports.kicks import Kick
from oracle.domain.state import Node, OpenGroup, Task
from oracle.store.state.cursor_repository import encode_last_event_row
from oracle.store.state.group_repository import decode_group_values, encode_group_row
from oracle.store.state.node_repository import decode_node_values, encode_node_row
from oracle.store.state.round_rows import (
    decode_index_values,
    decode_kick_values,
    decode_word_values,
    encode_index_row,
    encode_kick_row,
    encode_word_row,
)
from oracle.store.state.task_repository import decode_task_row, encode_task_row

# The fastest level, which reduces the size to a third.
_COMPRESSION = 1

FirstScores = list[tuple[Address, Position, int]]
FirstTimeouts = list[tuple[Address, Position]]


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
    first_scored: FirstScores
    first_timed_out: FirstTimeouts


def pack(state: PackedState) -> bytes:
    """Encode the state; equal states give equal bytes on every database."""
    parts = (
        sorted(map(encode_node_row, state.nodes)),
        sorted(map(encode_task_row, state.tasks)),
        sorted(map(encode_group_row, state.groups)),
        None if state.last is None else encode_last_event_row(state.last),
        state.head.round,
        state.head.as_of,
        state.head.digest,
        state.head.time,
        sorted(map(encode_index_row, state.indexes)),
        sorted(map(encode_word_row, state.words)),
        sorted(map(encode_kick_row, state.kicks)),
        sorted(state.first_scored),
        sorted(state.first_timed_out),
    )
    return zlib.compress(encode(parts), _COMPRESSION)


def unpack_state(body: bytes) -> PackedState:
    """Decode a state encoded by `pack`."""
    parts: list[Any] = decode(zlib.decompress(body))
    nodes, tasks, groups, last, number, as_of, digest, time, *trailing_parts = parts
    indexes, words, kicks, scored, timed_out = trailing_parts
    return PackedState(
        nodes=map(decode_node_values, nodes),
        tasks=map(decode_task_row, tasks),
        groups=map(decode_group_values, groups),
        last=None if last is None else LastEvent(Position(*last[1:5]), last[5]),
        head=RoundHead(number, as_of, Hash(digest), time),
        indexes=map(decode_index_values, indexes),
        words=map(decode_word_values, words),
        kicks=map(decode_kick_values, kicks),
        first_scored=[(Address(node), Position(*at), place) for node, at, place in scored],
        first_timed_out=[(Address(node), Position(*at)) for node, at in timed_out],
    )
