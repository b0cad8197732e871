"""Decodes the announcements of a timelock that administers an oracle contract.

A timelock may call any contract. Only its `setRules` calls of the oracle contract yield events.
"""

from collections.abc import Callable, Iterator, Sequence

from oracle.chain.decode.abi import SELECTOR_DIGITS, AbiSignature, load_abi
from oracle.chain.decode.log_decoder import Decoder, build_log_decoder
from oracle.chain.decode.oracle_logs import ORACLE_CONTRACT
from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    ContractEvent,
    OperationCancelled,
    OperationSalted,
    RulesExecuted,
    RulesScheduled,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log

TIMELOCK_NAME = "TimelockController"

_WORD_DIGITS = 64
# A proposer can choose any delay; a later time counts as never.
_MAX_TIME = 2**53 - 1

EventReaders = Iterator[tuple[AbiSignature, Callable[[Log], Sequence[ContractEvent]]]]


def iterate_timelock_event_readers(oracle: Address) -> EventReaders:
    """Yield each timelock event that is indexed, with the reader of its logs.

    A reader raises ValueError for a log of another event, or for a malformed one.
    """
    abi = load_abi(TIMELOCK_NAME)
    set_rules = load_abi(ORACLE_CONTRACT).functions["setRules"].selector
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
        yield event, _build_rules_call_reader(decode, oracle, set_rules, build_events)
    salted = abi.get_event("CallSalt")
    cancelled = abi.get_event("Cancelled")
    decode_salted = build_log_decoder(salted, ("id", "salt"))
    decode_cancelled = build_log_decoder(cancelled, ("id",))
    yield (
        salted,
        lambda log: [OperationSalted(_get_position(log), log.time, *decode_salted(log))],
    )
    yield (
        cancelled,
        lambda log: [OperationCancelled(_get_position(log), log.time, *decode_cancelled(log))],
    )


def _build_rules_call_reader(
    decode: Decoder,
    oracle: Address,
    selector: str,
    build_event: Callable[..., ContractEvent],
) -> Callable[[Log], Sequence[ContractEvent]]:
    """Return a reader that yields an event if the call sets the rules of the oracle contract."""

    def read_rules_call(log: Log) -> Sequence[ContractEvent]:
        operation, target, value, data, *delay = decode(log)
        arguments = data[SELECTOR_DIGITS:]
        if target != oracle or data[:SELECTOR_DIGITS] != selector:
            return ()
        # The contract reverts such a call, so it changes no rules.
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
