"""Conversion between the oracle contract's state and rows of its tables."""

import json
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Table

from oracle.domain.events.oracle_events import (
    NO_REGISTRATIONS,
    ConfigSet,
    KickLimitsSet,
    LimitsSet,
    RoleSet,
    RoundAccepted,
    SettingEvent,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.contract_state import ContractSettings, NodeIndex, Word
from oracle.domain.reports.expulsions import Expulsion
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.round_data import (
    RoundData,
    decode_round,
    encode_records,
    encode_round,
    extract_records,
    find_word,
)
from oracle.store.bulk import Row
from oracle.store.encoding import (
    decode_hex,
    decode_position,
    encode_hex,
    encode_wei,
    format_position,
    parse_position,
)
from oracle.store.tables.round_tables import kick as kick_table, lane_word, node_index


def encode_word_row(word: Word) -> Row:
    return (word.index, encode_wei(word.value), word.round, word.time)


def decode_word_row(row: Any) -> Word:  # noqa: ANN401  a row of any driver
    return Word(row.word_index, int.from_bytes(row.value, "big"), row.round, row.time)


def encode_index_row(entry: NodeIndex) -> Row:
    return (entry.index, decode_hex(entry.node), entry.closed_in)


def decode_word_values(row: Row) -> Word:
    """Decode a word from a row's values in the table's column order."""
    return decode_word_row(_build_row_namespace(lane_word, row))


def decode_index_values(row: Row) -> NodeIndex:
    """Decode a node's index from a row's values in the table's column order."""
    return decode_index_row(_build_row_namespace(node_index, row))


def decode_kick_values(row: Row) -> Kick:
    """Decode a kickout from a row's values in the table's column order."""
    return decode_kick_row(_build_row_namespace(kick_table, row))


def _build_row_namespace(table: Table, row: Row) -> SimpleNamespace:
    return SimpleNamespace(**dict(zip(table.columns.keys(), row, strict=True)))


def decode_index_row(row: Any) -> NodeIndex:  # noqa: ANN401  a row of any driver
    return NodeIndex(row.lane_index, Address(encode_hex(row.node)), row.closed_in)


def encode_expulsion_columns(expulsion: Expulsion | None) -> Row:
    """Encode the columns of an expulsion, which are all NULL if there is none."""
    if expulsion is None:
        return (None,) * 8
    return (
        format_position(expulsion.at),
        expulsion.round,
        expulsion.expires_at,
        decode_hex(expulsion.target),
        expulsion.tried_in,
        format_position(expulsion.tried_at),
        expulsion.refusals,
        decode_hex(expulsion.reason),
    )


def encode_kick_row(kick: Kick) -> Row:
    return (
        decode_hex(kick.node),
        kick.round,
        decode_hex(kick.evidence),
        kick.ready_at,
        kick.dies_at,
        format_position(kick.proposed_at),
        kick.state.value,
        *encode_expulsion_columns(kick.expulsion),
    )


def decode_kick_row(row: Any) -> Kick:  # noqa: ANN401  a row of any driver
    return Kick(
        node=Address(encode_hex(row.node)),
        round=row.round,
        evidence=Hash(encode_hex(row.evidence)),
        ready_at=row.ready_at,
        dies_at=row.dies_at,
        proposed_at=parse_position(row.proposed_at),
        state=KickState(row.state),
        expulsion=None if row.executed_at is None else decode_expulsion_columns(row),
    )


def decode_expulsion_columns(row: Any) -> Expulsion:  # noqa: ANN401  a row of any driver
    return Expulsion(
        at=parse_position(row.executed_at),
        round=row.executed_in,
        expires_at=row.expelled_until,
        target=Address(encode_hex(row.target)),
        tried_in=row.tried_in,
        tried_at=parse_position(row.tried_at),
        refusals=row.refusals,
        reason=Hash(encode_hex(row.reason)),
    )


def encode_accepted_row(accepted_round: RoundAccepted) -> Row:
    return (
        *accepted_round.at,
        accepted_round.time,
        accepted_round.round,
        accepted_round.as_of,
        decode_hex(accepted_round.as_of_hash),
        decode_hex(accepted_round.data_hash),
        decode_hex(accepted_round.digest),
        decode_hex(accepted_round.config),
        decode_hex(accepted_round.transmitter),
        encode_round(accepted_round.registrations, encode_records(accepted_round.words)),
    )


def decode_accepted_row(row: Any, word_index: int | None = None) -> RoundAccepted:  # noqa: ANN401  a row of any driver
    """Decode an accepted round with all words, or only with the word `word_index` if given."""
    round_data = decode_round(row.data) if word_index is None else RoundData(NO_REGISTRATIONS, ())
    words = (
        round_data.words
        if word_index is None
        else _find_single_word(extract_records(row.data), word_index)
    )
    return RoundAccepted(
        at=decode_position(row),
        time=row.time,
        round=row.round,
        as_of=row.as_of,
        as_of_hash=Hash(encode_hex(row.as_of_hash)),
        data_hash=Hash(encode_hex(row.data_hash)),
        digest=Hash(encode_hex(row.digest)),
        config=Hash(encode_hex(row.config)),
        transmitter=Address(encode_hex(row.transmitter)),
        registrations=round_data.registrations,
        words=words,
    )


def _find_single_word(records: bytes, index: int) -> tuple[tuple[int, int], ...]:
    word = find_word(records, index)
    return () if word is None else ((index, word),)


def encode_setting_row(event: SettingEvent) -> Row:
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


def decode_contract_settings(row_by_name: dict[str, Any]) -> ContractSettings:
    """Decode the contract's settings from the newest row of each name."""
    setting_by_name = {
        name: ((decode_position(row), row.time), json.loads(row.value))
        for name, row in row_by_name.items()
    }
    vetoer, limits = setting_by_name.get("vetoer"), setting_by_name.get("limits")
    kick_limits, config = setting_by_name.get("kick_limits"), setting_by_name.get("config")
    return ContractSettings(
        vetoer=None if vetoer is None else Address(vetoer[1][0]),
        limits=None if limits is None else LimitsSet(*limits[0], *limits[1]),
        kick_limits=None
        if kick_limits is None
        else KickLimitsSet(*kick_limits[0], *kick_limits[1]),
        config=None if config is None else ConfigSet(*config[0], *config[1]),
    )


def decode_config_digest(row: Any) -> Hash:  # noqa: ANN401  a row of any driver
    """Decode the digest of a configuration from its row."""
    return Hash(json.loads(row.value)[1])
