"""Converts between the state of the oracle contract and rows of its tables."""

import json
from collections.abc import Mapping
from dataclasses import astuple, fields
from typing import Any

from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractKickLimits,
    KickLimitsSet,
    LimitsSet,
    OperationCancelled,
    OperationSalted,
    PausedUntil,
    RootsLimits,
    RoundAccepted,
    RoundsStruck,
    RulesEvent,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
    SettingEvent,
    SignersSet,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.node_kicks import Accusation, Expulsion, KickState, NodeKick
from oracle.store.bulk import Row
from oracle.store.encoding import (
    decode_hex,
    decode_position,
    encode_hex,
    encode_wei,
    format_position,
    parse_position,
)

# Name of each rules event in the table of settings. The stored value contains the event's fields
# after position and time, which are all texts and numbers.
_NAME_BY_RULES_EVENT: Mapping[type[RulesEvent], str] = {
    RulesSet: "rules",
    RulesScheduled: "rules_scheduled",
    OperationSalted: "operation_salted",
    OperationCancelled: "operation_cancelled",
    RulesExecuted: "rules_executed",
}
_RULES_EVENT_BY_NAME = {name: event for event, name in _NAME_BY_RULES_EVENT.items()}
_POSITION_FIELDS = 2


def encode_kick_row(kick: NodeKick) -> Row:
    accusation, expulsion = kick.accusation, kick.expulsion
    accusation_columns: Row = (None,) * 5
    if accusation is not None:
        accusation_columns = (
            format_position(accusation.at),
            accusation.round,
            accusation.due_since,
            accusation.ready_at,
            decode_hex(accusation.evidence),
        )
    expulsion_columns: Row = (None,) * 8
    if expulsion is not None:
        expulsion_columns = (
            format_position(expulsion.at),
            expulsion.round,
            expulsion.expires_at,
            decode_hex(expulsion.target),
            expulsion.tried_in,
            format_position(expulsion.tried_at),
            expulsion.refusals,
            decode_hex(expulsion.reason),
        )
    return (
        decode_hex(kick.node),
        kick.state.value,
        kick.spared_until,
        kick.allowed,
        *accusation_columns,
        *expulsion_columns,
    )


def decode_kick_row(row: Any) -> NodeKick:  # noqa: ANN401  a row of any driver
    """Decode a kickout from a complete row of its table.

    The row is unpacked, because this takes a fraction of the time of reading columns by name, and
    in a mass outage thousands of rows are decoded in each tick.
    """
    node, state, spared_until, allowed, *columns = row
    accused_at, accused_in, due_since, ready_at, evidence, *columns = columns
    executed_at, executed_in, expelled_until, target, *columns = columns
    tried_in, tried_at, refusals, reason = columns
    return NodeKick(
        node=Address(encode_hex(node)),
        state=KickState(state),
        accusation=None
        if accused_at is None
        else Accusation(
            at=parse_position(accused_at),
            round=accused_in,
            due_since=due_since,
            ready_at=ready_at,
            evidence=Hash(encode_hex(evidence)),
        ),
        expulsion=None
        if executed_at is None
        else Expulsion(
            at=parse_position(executed_at),
            round=executed_in,
            expires_at=expelled_until,
            target=Address(encode_hex(target)),
            tried_in=tried_in,
            tried_at=parse_position(tried_at),
            refusals=refusals,
            reason=Hash(encode_hex(reason)),
        ),
        spared_until=spared_until,
        allowed=allowed,
    )


def encode_accepted_row(accepted_round_entry: RoundAccepted) -> Row:
    return (
        *accepted_round_entry.at,
        accepted_round_entry.time,
        accepted_round_entry.round,
        accepted_round_entry.as_of,
        decode_hex(accepted_round_entry.as_of_hash),
        decode_hex(accepted_round_entry.root),
        decode_hex(accepted_round_entry.config),
        encode_wei(accepted_round_entry.signer_bitmap),
    )


def decode_accepted_row(row: Any) -> RoundAccepted:  # noqa: ANN401  a row of any driver
    return RoundAccepted(
        at=decode_position(row),
        time=row.time,
        round=row.round,
        as_of=row.as_of,
        as_of_hash=Hash(encode_hex(row.as_of_hash)),
        root=Hash(encode_hex(row.root)),
        config=Hash(encode_hex(row.config)),
        signer_bitmap=int.from_bytes(row.signer_bitmap),
    )


def encode_strike_row(strike: RoundsStruck) -> Row:
    return (*strike.at, strike.time, strike.first, strike.last)


def decode_strike_row(row: Any) -> RoundsStruck:  # noqa: ANN401  a row of any driver
    return RoundsStruck(
        at=decode_position(row), time=row.time, first=row.first_round, last=row.last_round
    )


def encode_setting_row(event: SettingEvent) -> Row:
    name = ""
    values = list[object]()
    match event:
        case LimitsSet():
            name = "limits"
            values = [*astuple(event.limits)]
        case KickLimitsSet():
            name = "kick_limits"
            values = [*astuple(event.limits)]
        case SignersSet():
            name = "signers"
            values = [event.signers, event.quorum]
        case ConfigSet():
            name = "config"
            values = [event.count, event.digest]
        case PausedUntil():
            name = "paused_until"
            values = [event.until]
        case _:
            name = _NAME_BY_RULES_EVENT[type(event)]
            values = [getattr(event, field.name) for field in fields(event)[_POSITION_FIELDS:]]
    return (*event.at, event.time, name, json.dumps(values))


def decode_setting_row(row: Any) -> SettingEvent:  # noqa: ANN401  a row of any driver
    position = decode_position(row)
    value = json.loads(row.value)
    match row.name:
        case "limits":
            return LimitsSet(position, row.time, RootsLimits(*value))
        case "kick_limits":
            return KickLimitsSet(position, row.time, ContractKickLimits(*value))
        case "signers":
            signers, quorum = value
            return SignersSet(position, row.time, tuple(map(Address, signers)), quorum)
        case "config":
            count, digest = value
            return ConfigSet(position, row.time, count, Hash(digest))
        case "paused_until":
            return PausedUntil(position, row.time, *value)
        case name:
            return _RULES_EVENT_BY_NAME[name](position, row.time, *value)
