"""Conversion between the oracle contract's state and rows of its tables."""

import json
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Table

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    ConfigSet,
    KickLimitsSet,
    LimitsSet,
    RoleSet,
    RoundAccepted,
    SettingEvent,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.registrations import NO_REGISTRATIONS
from oracle.domain.reports.contract_state import NodeIndex, Standing, Word
from oracle.domain.reports.kicks import Expulsion, Kick, KickState
from oracle.domain.reports.round_data import (
    RoundData,
    decode_round,
    encode_records,
    encode_round,
    find_word,
    records_in,
)
from oracle.store.bulk import Row
from oracle.store.encoding import hexed, position_of, position_text, raw, wei
from oracle.store.tables.round_tables import kick as kick_table, lane_word, node_index


def word_row(word: Word) -> Row:
    return (word.index, wei(word.value), word.round, word.time)


def word_of(row: Any) -> Word:  # noqa: ANN401  a row of any driver
    return Word(row.word_index, int.from_bytes(row.value, "big"), row.round, row.time)


def index_row(entry: NodeIndex) -> Row:
    return (entry.index, raw(entry.node), entry.closed_in)


def word_in(row: Row) -> Word:
    """Decode a word from a row's values in the table's column order."""
    return word_of(_named(lane_word, row))


def index_in(row: Row) -> NodeIndex:
    """Decode a lane from a row's values in the table's column order."""
    return index_of(_named(node_index, row))


def kick_in(row: Row) -> Kick:
    """Decode a kickout from a row's values in the table's column order."""
    return kick_of(_named(kick_table, row))


def _named(table: Table, row: Row) -> SimpleNamespace:
    return SimpleNamespace(**dict(zip(table.columns.keys(), row, strict=True)))


def index_of(row: Any) -> NodeIndex:  # noqa: ANN401  a row of any driver
    return NodeIndex(row.lane_index, Address(hexed(row.node)), row.closed_in)


def kick_row(kick: Kick) -> Row:
    gone = kick.expulsion
    expelled: Row = (None,) * 8
    if gone is not None:
        expelled = (
            position_text(gone.at),
            gone.round,
            gone.until,
            raw(gone.target),
            gone.tried_in,
            position_text(gone.tried_at),
            gone.refusals,
            raw(gone.reason),
        )
    return (
        raw(kick.node),
        kick.round,
        raw(kick.evidence),
        kick.ready_at,
        kick.dies_at,
        position_text(kick.proposed_at),
        kick.state.value,
        *expelled,
    )


def kick_of(row: Any) -> Kick:  # noqa: ANN401  a row of any driver
    return Kick(
        node=Address(hexed(row.node)),
        round=row.round,
        evidence=Hash(hexed(row.evidence)),
        ready_at=row.ready_at,
        dies_at=row.dies_at,
        proposed_at=position_of(row.proposed_at),
        state=KickState(row.state),
        expulsion=None if row.executed_at is None else _expulsion_of(row),
    )


def _expulsion_of(row: Any) -> Expulsion:  # noqa: ANN401  a row of any driver
    return Expulsion(
        at=position_of(row.executed_at),
        round=row.executed_in,
        until=row.expelled_until,
        target=Address(hexed(row.target)),
        tried_in=row.tried_in,
        tried_at=position_of(row.tried_at),
        refusals=row.refusals,
        reason=Hash(hexed(row.reason)),
    )


def accepted_row(accepted: RoundAccepted) -> Row:
    return (
        *accepted.at,
        accepted.time,
        accepted.round,
        accepted.as_of,
        raw(accepted.as_of_hash),
        raw(accepted.data_hash),
        raw(accepted.digest),
        raw(accepted.config),
        raw(accepted.transmitter),
        encode_round(accepted.registrations, encode_records(accepted.words)),
    )


def accepted_of(row: Any, only: int | None = None) -> RoundAccepted:  # noqa: ANN401  a row of any driver
    """Decode a round, with all words or only the one of `word_index`, if carried."""
    said = decode_round(row.data) if only is None else RoundData(NO_REGISTRATIONS, ())
    words = said.words if only is None else _only(records_in(row.data), only)
    return RoundAccepted(
        at=Position(row.block, row.tx, row.log, row.sub),
        time=row.time,
        round=row.round,
        as_of=row.as_of,
        as_of_hash=Hash(hexed(row.as_of_hash)),
        data_hash=Hash(hexed(row.data_hash)),
        digest=Hash(hexed(row.digest)),
        config=Hash(hexed(row.config)),
        transmitter=Address(hexed(row.transmitter)),
        registrations=said.registrations,
        words=words,
    )


def _only(records: bytes, index: int) -> tuple[tuple[int, int], ...]:
    word = find_word(records, index)
    return () if word is None else ((index, word),)


def setting_row(event: SettingEvent) -> Row:
    name, value = "", list[object]()
    match event:
        case RoleSet():
            name, value = "vetoer", [event.who]
        case LimitsSet():
            name, value = "limits", [event.max_new_nodes, event.fall_share, event.big_fall]
        case KickLimitsSet():
            name, value = "kick_limits", [event.kick_cooldown]
        case ConfigSet():
            name, value = "config", [event.count, event.digest]
    return (*event.at, event.time, name, json.dumps(value))


def standing_of(newest: dict[str, Any]) -> Standing:
    """Decode the contract's settings from the newest row of each name."""
    told = {name: (_when(row), json.loads(row.value)) for name, row in newest.items()}
    vetoer, limits = told.get("vetoer"), told.get("limits")
    kick_limits, config = told.get("kick_limits"), told.get("config")
    return Standing(
        vetoer=None if vetoer is None else Address(vetoer[1][0]),
        limits=None if limits is None else LimitsSet(*limits[0], *limits[1]),
        kick_limits=None
        if kick_limits is None
        else KickLimitsSet(*kick_limits[0], *kick_limits[1]),
        config=None if config is None else ConfigSet(*config[0], *config[1]),
    )


def config_in(row: Any) -> Hash:  # noqa: ANN401  a row of any driver
    """Decode the digest of a configuration from its row."""
    return Hash(json.loads(row.value)[1])


def _when(row: Any) -> tuple[Position, int]:  # noqa: ANN401  a row of any driver
    return Position(row.block, row.tx, row.log, row.sub), row.time
