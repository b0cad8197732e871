"""Decodes events of the oracle contract, the objections contract and a timelock.

A timelock may call any contract, but only its calls of `setRules` of the oracle contract yield
events.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from oracle.chain.decode.abi import SELECTOR_DIGITS, AbiSignature, load_abi
from oracle.chain.decode.log_decoder import (
    Decoder,
    build_log_decoder,
    build_log_reader,
    build_struct_reader,
)
from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    ContractKickLimits,
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
    OperationCancelled,
    OperationSalted,
    PausedUntil,
    RootsLimits,
    RoundAccepted,
    RoundsStruck,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
    SignersSet,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log

# The name of the oracle contract, and the path of its ABI.
ORACLE_NAME = "QoSRoots"
ORACLE_CONTRACT = f"roots/{ORACLE_NAME}"

# The name of the objections contract, and the path of its ABI.
OBJECTIONS_NAME = "Objections"
OBJECTIONS_CONTRACT = f"roots/{OBJECTIONS_NAME}"

_NODE_INPUT = {"node": "node"}

# For each event class, the contract input that fills each field. The class is named like the
# event.
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
    PausedUntil: {"until": "until"},
}
_OBJECTION_INPUTS = {
    **_NODE_INPUT,
    "due_since": "dueSince",
    "reason": "reason",
    "seq": "seq",
    "text": "words",
}
# Each of these events has a single input, a struct of the given type.
LIMITS_EVENTS: Mapping[type[ContractEvent], type] = {
    LimitsSet: RootsLimits,
    KickLimitsSet: ContractKickLimits,
}
# Only the constructor emits these events, so their topics are missing from the deployed code.
CONSTRUCTOR_ONLY_EVENTS = frozenset({"NodeExpelled"})


def iterate_objection_event_readers() -> Iterator[
    tuple[AbiSignature, Callable[[Log], ContractEvent]]
]:
    """Yield the objection event, with a reader for its logs.

    The reader accepts any bytes as the text of an objection. Otherwise a malformed text would be a
    dead letter, which prevents kickouts.
    """
    event = load_abi(OBJECTIONS_CONTRACT).get_event(Objected.__name__)
    yield event, build_log_reader(event, _OBJECTION_INPUTS, Objected)


def iterate_oracle_event_readers() -> Iterator[
    tuple[AbiSignature, Callable[[Log], ContractEvent]]
]:
    """Yield each indexed event of the oracle contract, with a reader for its logs.

    A reader raises ValueError for a log of another event, or for a malformed one.
    """
    abi = load_abi(ORACLE_CONTRACT)
    for event_class, input_by_field in ORACLE_EVENTS.items():
        event = abi.get_event(event_class.__name__)
        yield event, build_log_reader(event, input_by_field, event_class)
    for event_class, struct_class in LIMITS_EVENTS.items():
        event = abi.get_event(event_class.__name__)
        yield event, build_struct_reader(event, event_class, struct_class)


TIMELOCK_NAME = "TimelockController"

_WORD_DIGITS = 64
# A proposer can choose any delay, so the time of a scheduled call is capped here.
_MAX_TIME = 2**53 - 1

EventReaders = Iterator[tuple[AbiSignature, Callable[[Log], Sequence[ContractEvent]]]]


def iterate_timelock_event_readers(oracle: Address) -> EventReaders:
    """Yield each indexed event of the timelock, with a reader for its logs.

    A reader raises ValueError for a log of another event, or for a malformed one.
    """
    abi = load_abi(TIMELOCK_NAME)
    set_rules_selector = load_abi(ORACLE_CONTRACT).functions["setRules"].selector
    for event_name, input_names, build_events in (
        (
            "CallScheduled",
            ("id", "target", "value", "data", "delay"),
            _build_rules_scheduled_event,
        ),
        ("CallExecuted", ("id", "target", "value", "data"), _build_rules_executed_event),
    ):
        event = abi.get_event(event_name)
        decode = build_log_decoder(event, input_names)
        yield event, _build_rules_call_reader(decode, oracle, set_rules_selector, build_events)
    salt_event = abi.get_event("CallSalt")
    cancelled_event = abi.get_event("Cancelled")
    decode_salt = build_log_decoder(salt_event, ("id", "salt"))
    decode_cancelled = build_log_decoder(cancelled_event, ("id",))
    yield (
        salt_event,
        lambda log: [OperationSalted(_get_position(log), log.time, *decode_salt(log))],
    )
    yield (
        cancelled_event,
        lambda log: [OperationCancelled(_get_position(log), log.time, *decode_cancelled(log))],
    )


def _build_rules_call_reader(
    decode: Decoder,
    oracle: Address,
    selector: str,
    build_event: Callable[..., ContractEvent],
) -> Callable[[Log], Sequence[ContractEvent]]:
    """Return a reader for timelock logs whose call sets the oracle contract's rules.

    The reader yields no event for other calls.
    """

    def read_rules_call(log: Log) -> Sequence[ContractEvent]:
        operation, target, value, data, *delay = decode(log)
        arguments = data[SELECTOR_DIGITS:]
        if target != oracle or data[:SELECTOR_DIGITS] != selector:
            return ()
        # The oracle contract would revert such a call, so it cannot change the rules.
        if value or len(arguments) < _WORD_DIGITS:
            return ()
        return [build_event(log, operation, Hash("0x" + arguments[:_WORD_DIGITS]), *delay)]

    return read_rules_call


def _build_rules_scheduled_event(
    log: Log, operation: Hash, rules_hash: Hash, delay: int
) -> RulesScheduled:
    ready_at = min(log.time + delay, _MAX_TIME)
    return RulesScheduled(_get_position(log), log.time, operation, rules_hash, ready_at)


def _build_rules_executed_event(log: Log, operation: Hash, rules_hash: Hash) -> RulesExecuted:
    return RulesExecuted(_get_position(log), log.time, operation, rules_hash)


def _get_position(log: Log) -> Position:
    return Position(log.block, log.tx, log.index)
