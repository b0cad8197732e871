"""Decodes events of the oracle and objections contracts, on any network."""

from collections.abc import Callable, Iterator, Mapping

from oracle.chain.decode.abi import AbiSignature, load_abi
from oracle.chain.decode.log_decoder import build_log_reader, build_struct_reader
from oracle.domain.events.contract_limits import ContractKickLimits, RootsLimits
from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    KickAccused,
    KickAllowed,
    KickCancelled,
    KickExecuted,
    KickLimitsSet,
    KickRefused,
    LimitsSet,
    NodeExpelled,
    NodeReadmitted,
    Objected,
    RoundAccepted,
    RoundsStruck,
    RulesSet,
    SignersSet,
)
from oracle.domain.logs import Log

# The name of the oracle contract, and the path of its ABI.
ORACLE_NAME = "QoSRoots"
ORACLE_CONTRACT = f"roots/{ORACLE_NAME}"

# The name of the objections contract, and the path of its ABI.
OBJECTIONS_NAME = "Objections"
OBJECTIONS_CONTRACT = f"roots/{OBJECTIONS_NAME}"

_NODE_INPUT = {"node": "node"}

# The event input of each field, by event class; a class has the name of its event.
ORACLE_EVENTS: Mapping[type[ContractEvent], Mapping[str, str]] = {
    RoundAccepted: {
        "round": "round",
        "as_of": "asOf",
        "as_of_hash": "asOfHash",
        "root": "root",
        "config": "config",
        "signer_bitmap": "signers",
    },
    RoundsStruck: {"first": "from", "last": "to"},
    KickAccused: {
        **_NODE_INPUT,
        "round": "round",
        "due_since": "dueSince",
        "evidence": "evidence",
        "ready_at": "readyAt",
    },
    KickCancelled: {**_NODE_INPUT, "by": "by", "why": "why"},
    KickAllowed: {**_NODE_INPUT, "due_since": "dueSince"},
    KickExecuted: {**_NODE_INPUT, "evidence": "evidence", "target": "target"},
    KickRefused: {**_NODE_INPUT, "target": "target", "reason": "reason"},
    NodeExpelled: _NODE_INPUT,
    NodeReadmitted: _NODE_INPUT,
    SignersSet: {"signers": "signers", "quorum": "quorum"},
    ConfigSet: {"count": "count", "digest": "config"},
    RulesSet: {"rules_hash": "rulesHash"},
}
_OBJECTION_INPUTS = {
    **_NODE_INPUT,
    "due_since": "dueSince",
    "reason": "reason",
    "seq": "seq",
    "text": "words",
}
# The struct of each event whose only input is a struct.
LIMITS_EVENTS: Mapping[type[ContractEvent], type] = {
    LimitsSet: RootsLimits,
    KickLimitsSet: ContractKickLimits,
}
# Only the constructor emits these events, so that the deployed code does not contain them.
CONSTRUCTOR_ONLY_EVENTS = frozenset({"NodeExpelled"})


def iterate_objection_event_readers() -> Iterator[
    tuple[AbiSignature, Callable[[Log], ContractEvent]]
]:
    """Yield the objection event, with the reader of its logs.

    The reader accepts any bytes as text, because a dead letter would prevent kickouts.
    """
    event = load_abi(OBJECTIONS_CONTRACT).get_event(Objected.__name__)
    yield event, build_log_reader(event, _OBJECTION_INPUTS, Objected)


def iterate_oracle_event_readers() -> Iterator[
    tuple[AbiSignature, Callable[[Log], ContractEvent]]
]:
    """Yield each oracle event that is indexed, with the reader of its logs.

    A reader raises ValueError for a log of another event, or for a malformed one.
    """
    abi = load_abi(ORACLE_CONTRACT)
    for event_class, input_by_field in ORACLE_EVENTS.items():
        event = abi.get_event(event_class.__name__)
        yield event, build_log_reader(event, input_by_field, event_class)
    for event_class, struct_class in LIMITS_EVENTS.items():
        event = abi.get_event(event_class.__name__)
        yield event, build_struct_reader(event, event_class, struct_class)
