"""Decodes events of the oracle contract, on any network, and the calldata of its `push` calls.

The contract accepts a push only as a direct call from an account without code, so the input of
the transaction is the input of the push (docs/reference/report-format.md#records).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oracle.chain.decode.abi import AbiSignature, load
from oracle.chain.decode.abi_tails import WORD, MalformedError, word_at
from oracle.chain.decode.log_decoder import decoder_of
from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    KickCancelled,
    KickExecuted,
    KickLimitsSet,
    KickProposed,
    KickRefused,
    LimitsSet,
    NodeExpelled,
    NodeReadmitted,
    NodeRegistered,
    RoleSet,
    RoundAccepted,
)
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log
from oracle.domain.reports.round_data import RoundData, decode_round

CONTRACT = "QoSOracle"
ROUND_ACCEPTED = "RoundAccepted"

_ROUND = ("round", "asOf", "asOfHash", "digest", "config", "dataHash", "transmitter")
_SELECTOR_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Meaning:
    """The mapping of one contract event; `input_by_field` names an input for each event field."""

    event: str
    kind: type[ContractEvent]
    inputs: Mapping[str, str]


def pushed_data(call: Call, data_hash: Hash) -> RoundData:
    """Return the registrations and the words by index of the report that the call pushed.

    The input is decoded like the EVM does, at the given offsets, because the sender may lay out
    the call in any way; the hash shows whether these are the signed bytes.

    Raises:
        MalformedError: the call is not a push, or its data has another hash.
    """
    blob = _bytes_of(call.input, "push", "data")
    if "0x" + keccak(blob).hex() != data_hash:
        raise MalformedError("the data of the call have another hash")
    try:
        return decode_round(blob)
    except ValueError as error:
        raise MalformedError(f"the data of the call: {error}") from error


def pushed_signatures(call: Call) -> bytes:
    """Return the signatures of a push, 65 bytes each.

    Raises:
        MalformedError: the call is not a push.
    """
    return _bytes_of(call.input, "push", "signatures")


def proposed_signatures(calldata: str) -> bytes:
    """Return the signatures of a `proposeKick` call, 65 bytes each.

    Raises:
        MalformedError: the call is not a `proposeKick`.
    """
    return _bytes_of(calldata, "proposeKick", "signatures")


def _bytes_of(calldata: str, function: str, name: str) -> bytes:
    """Return a bytes argument of a call."""
    called = load(CONTRACT).functions[function]
    if not calldata.startswith(called.digest[:_SELECTOR_DIGITS]):
        raise MalformedError(f"the call is no {function}")
    arguments = bytes.fromhex(calldata[_SELECTOR_DIGITS:])
    place = [parameter.name for parameter in called.inputs].index(name)
    start = word_at(arguments, WORD * place)
    return arguments[start + WORD :][: word_at(arguments, start)]


def round_reader(event: AbiSignature) -> Callable[[Call, Log], RoundAccepted]:
    """Return a reader that combines the log of a round with the data of its call.

    The reader raises ValueError if log and call do not belong together.
    """
    decode = decoder_of(event, _ROUND)

    def read(call: Call, log: Log) -> RoundAccepted:
        *said, data_hash, transmitter = decode(log)
        if call.sender != transmitter:
            raise MalformedError("the call has another sender")
        counter, as_of, as_of_hash, digest, config = said
        pushed = pushed_data(call, data_hash)
        return RoundAccepted(
            at=Position(log.block, log.tx, log.index),
            time=log.time,
            round=counter,
            as_of=as_of,
            as_of_hash=as_of_hash,
            data_hash=data_hash,
            digest=digest,
            config=config,
            transmitter=transmitter,
            registrations=pushed.registrations,
            words=pushed.words,
        )

    return read


@dataclass(frozen=True, slots=True)
class LimitsMeaning:
    """The mapping of an event with a struct input; `member_names` has one member per field."""

    event: str
    kind: Callable[..., ContractEvent]
    parts: tuple[str, ...]

    def reader(self, event: AbiSignature) -> Callable[[Log], ContractEvent]:
        """Return the reader of the event's logs; it raises ValueError for other logs."""
        decode, kind = decoder_of(event), self.kind
        names = [part.name for part in event.inputs[0].parts]
        places = [names.index(name) for name in self.parts]

        def read(log: Log) -> ContractEvent:
            (limits,) = decode(log)
            at = Position(log.block, log.tx, log.index)
            return kind(at, log.time, *(limits[place] for place in places))

        return read


_NODE = {"node": "node"}

# Nodes are registered by accepted rounds; NodeRegistered is only compared with them.
ORACLE = (
    Meaning("NodeRegistered", NodeRegistered, {**_NODE, "index": "index"}),
    Meaning(
        "KickProposed",
        KickProposed,
        {
            **_NODE,
            "round": "round",
            "evidence": "evidence",
            "ready_at": "readyAt",
            "dies_at": "diesAt",
        },
    ),
    Meaning("KickCancelled", KickCancelled, {**_NODE, "by": "by", "why": "why"}),
    Meaning("KickExecuted", KickExecuted, {**_NODE, "evidence": "evidence", "target": "target"}),
    Meaning("KickRefused", KickRefused, {**_NODE, "target": "target", "reason": "reason"}),
    Meaning("NodeExpelled", NodeExpelled, _NODE),
    Meaning("NodeReadmitted", NodeReadmitted, _NODE),
    Meaning("RoleSet", RoleSet, {"role": "role", "who": "who"}),
    Meaning("ConfigSet", ConfigSet, {"count": "count", "digest": "config"}),
)
# Events that only the constructor emits, so that the deployed code does not contain them.
SAID_WHEN_MADE = frozenset({"NodeExpelled"})
LIMITS = (
    LimitsMeaning("LimitsSet", LimitsSet, ("maxNewNodes", "fallShare", "bigFall")),
    LimitsMeaning("KickLimitsSet", KickLimitsSet, ("kickCooldown",)),
)
