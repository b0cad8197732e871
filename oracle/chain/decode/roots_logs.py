"""Decodes events of the oracle contract that accepts one Merkle root a round, on any network."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from oracle.chain.decode.abi import AbiSignature, load_abi
from oracle.chain.decode.log_decoder import build_log_reader, build_struct_reader
from oracle.domain.events.oracle_events import (
    ConfigSet,
    KickCancelled,
    KickExecuted,
    KickRefused,
    NodeExpelled,
    NodeReadmitted,
)
from oracle.domain.events.roots_events import (
    ContractEvent,
    KickAccused,
    KickAllowed,
    KickoutLimitsSet,
    RootAccepted,
    RoundLimitsSet,
    RoundsStruck,
    SignersSet,
)
from oracle.domain.logs import Log

ORACLE_CONTRACT = "roots/QoSRoots"

_NODE_INPUT = {"node": "node"}

_InputByField: TypeAlias = Mapping[str, str]

# By the name of the event: the class that it becomes, and the input of each field.
ORACLE_EVENTS: Mapping[str, tuple[type[ContractEvent], _InputByField]] = {
    "RoundAccepted": (
        RootAccepted,
        {
            "round": "round",
            "as_of": "asOf",
            "as_of_hash": "asOfHash",
            "root": "root",
            "config": "config",
            "signer_bitmap": "signers",
        },
    ),
    "RoundsStruck": (RoundsStruck, {"first": "from", "last": "to"}),
    "KickAccused": (
        KickAccused,
        {
            **_NODE_INPUT,
            "round": "round",
            "due_since": "dueSince",
            "evidence": "evidence",
            "ready_at": "readyAt",
        },
    ),
    "KickCancelled": (KickCancelled, {**_NODE_INPUT, "by": "by", "why": "why"}),
    "KickAllowed": (KickAllowed, {**_NODE_INPUT, "due_since": "dueSince"}),
    "KickExecuted": (
        KickExecuted,
        {**_NODE_INPUT, "evidence": "evidence", "target": "target"},
    ),
    "KickRefused": (KickRefused, {**_NODE_INPUT, "target": "target", "reason": "reason"}),
    "NodeExpelled": (NodeExpelled, _NODE_INPUT),
    "NodeReadmitted": (NodeReadmitted, _NODE_INPUT),
    "SignersSet": (SignersSet, {"signers": "signers", "quorum": "quorum"}),
    "ConfigSet": (ConfigSet, {"count": "count", "digest": "config"}),
}
# The same for events whose only input is a struct: the member of each field.
LIMITS_EVENTS: Mapping[str, tuple[type[ContractEvent], _InputByField]] = {
    "LimitsSet": (
        RoundLimitsSet,
        {
            "min_interval": "minInterval",
            "anchor_window": "anchorWindow",
            "max_age_seconds": "maxAgeSeconds",
            "kick_below": "kickBelow",
            "veto_delay": "vetoDelay",
            "kick_rounds": "kickRounds",
            "min_open": "minOpen",
        },
    ),
    "KickLimitsSet": (
        KickoutLimitsSet,
        {
            "kick_gas": "kickGas",
            "kick_cooldown": "kickCooldown",
            "bucket_most": "bucketMost",
            "bucket_per_frame": "bucketPerFrame",
            "bucket_frame": "bucketFrame",
        },
    ),
}
# Events that only the constructor emits, so that the deployed code does not contain them.
CONSTRUCTOR_ONLY_EVENTS = frozenset({"NodeExpelled"})


def iterate_event_readers() -> Iterator[tuple[AbiSignature, Callable[[Log], ContractEvent]]]:
    """Yield each event that is read, and the reader of its logs.

    A reader raises ValueError for a log of another event, or for a malformed one.
    """
    abi = load_abi(ORACLE_CONTRACT)
    for name, (event_class, input_by_field) in ORACLE_EVENTS.items():
        event = abi.get_event(name)
        yield event, build_log_reader(event, input_by_field, event_class)
    for name, (limits_class, member_by_field) in LIMITS_EVENTS.items():
        event = abi.get_event(name)
        yield event, build_struct_reader(event, member_by_field, limits_class)
