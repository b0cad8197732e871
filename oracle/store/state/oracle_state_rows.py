"""Conversion between the state of the oracle contract of roots and rows of its tables."""

import json
from typing import Any

from oracle.domain.events.oracle_events import ConfigSet
from oracle.domain.events.roots_events import (
    KickoutLimitsSet,
    RootAccepted,
    RoundLimitsSet,
    RoundsStruck,
    SettingEvent,
    SignersSet,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.node_kicks import Accusation, NodeKick, NodeKickState
from oracle.store.bulk import Row
from oracle.store.encoding import (
    decode_hex,
    decode_position,
    encode_hex,
    encode_wei,
    format_position,
    parse_position,
)
from oracle.store.state.round_rows import decode_expulsion_columns, encode_expulsion_columns

_EVENT_BY_SETTING: dict[str, type[RoundLimitsSet | KickoutLimitsSet | ConfigSet]] = {
    "limits": RoundLimitsSet,
    "kick_limits": KickoutLimitsSet,
    "config": ConfigSet,
}
_SIGNERS = "signers"


def encode_accepted_root_row(event: RootAccepted) -> Row:
    return (
        *event.at,
        event.time,
        event.round,
        event.as_of,
        decode_hex(event.as_of_hash),
        decode_hex(event.root),
        decode_hex(event.config),
        encode_wei(event.signer_bitmap),
    )


def decode_accepted_root_row(row: Any) -> RootAccepted:  # noqa: ANN401  a row of any driver
    return RootAccepted(
        at=decode_position(row),
        time=row.time,
        round=row.round,
        as_of=row.as_of,
        as_of_hash=Hash(encode_hex(row.as_of_hash)),
        root=Hash(encode_hex(row.root)),
        config=Hash(encode_hex(row.config)),
        signer_bitmap=int.from_bytes(row.signer_bitmap, "big"),
    )


def encode_strike_row(event: RoundsStruck) -> Row:
    return (*event.at, event.time, event.first, event.last)


def decode_strike_row(row: Any) -> RoundsStruck:  # noqa: ANN401  a row of any driver
    return RoundsStruck(decode_position(row), row.time, row.first_round, row.last_round)


def encode_node_kick_row(kick: NodeKick) -> Row:
    accusation = kick.accusation
    accusation_columns: Row = (None,) * 5
    if accusation is not None:
        accusation_columns = (
            format_position(accusation.at),
            accusation.round,
            accusation.due_since,
            accusation.ready_at,
            decode_hex(accusation.evidence),
        )
    return (
        decode_hex(kick.node),
        kick.state.value,
        kick.spared_until,
        kick.allowed,
        *accusation_columns,
        *encode_expulsion_columns(kick.expulsion),
    )


def decode_node_kick_row(row: Any) -> NodeKick:  # noqa: ANN401  a row of any driver
    return NodeKick(
        node=Address(encode_hex(row.node)),
        state=NodeKickState(row.state),
        accusation=None
        if row.accused_at is None
        else Accusation(
            at=parse_position(row.accused_at),
            round=row.accused_in,
            due_since=row.due_since,
            ready_at=row.ready_at,
            evidence=Hash(encode_hex(row.evidence)),
        ),
        expulsion=None if row.executed_at is None else decode_expulsion_columns(row),
        spared_until=row.spared_until,
        allowed=row.allowed,
    )


def encode_setting_row(event: SettingEvent) -> Row:
    """Encode a setting with the values of its event, in the order of its fields."""
    name, value = "", list[object]()
    match event:
        case RoundLimitsSet():
            name, value = (
                "limits",
                [
                    event.min_interval,
                    event.anchor_window,
                    event.max_age_seconds,
                    event.kick_below,
                    event.veto_delay,
                    event.kick_rounds,
                    event.min_open,
                ],
            )
        case KickoutLimitsSet():
            name, value = (
                "kick_limits",
                [
                    event.kick_gas,
                    event.kick_cooldown,
                    event.bucket_most,
                    event.bucket_per_frame,
                    event.bucket_frame,
                ],
            )
        case SignersSet():
            name, value = _SIGNERS, [list(event.signers), event.quorum]
        case ConfigSet():
            name, value = "config", [event.count, event.digest]
    return (*event.at, event.time, name, json.dumps(value))


def decode_setting_row(row: Any) -> SettingEvent:  # noqa: ANN401  a row of any driver
    position, value = decode_position(row), json.loads(row.value)
    if row.name == _SIGNERS:
        signers, quorum = value
        return SignersSet(position, row.time, tuple(map(Address, signers)), quorum)
    return _EVENT_BY_SETTING[row.name](position, row.time, *value)
