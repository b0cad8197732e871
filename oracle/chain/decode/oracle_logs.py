"""What the oracle contract says, of any network; nodes and words come from the `push` call.

The contract takes a push only as the direct call of an account without code, so that the input
of its transaction is the input of the push (docs/reference/report-format.md#records).
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
    """One event of the contract and ours: `inputs` names an input for each field of `kind`."""

    event: str
    kind: type[ContractEvent]
    inputs: Mapping[str, str]


def pushed_data(call: Call, data_hash: Hash) -> RoundData:
    """Return whom the report that the call pushed registers, and (word index, word), ascending.

    Reads the input as the EVM does, wherever its offsets point: whoever sends a report may lay
    out the call as he likes, the hash tells whether we found the bytes that were signed.

    Raises:
        MalformedError: it is no push, or not the one with this hash of its data.
    """
    blob = _bytes_of(call.input, "push", "data")
    if "0x" + keccak(blob).hex() != data_hash:
        raise MalformedError("the data of the call have another hash")
    try:
        return decode_round(blob)
    except ValueError as error:
        raise MalformedError(f"the data of the call: {error}") from error


def pushed_signatures(call: Call) -> bytes:
    """Return the signatures that came with a push, 65 bytes each.

    Raises:
        MalformedError: it is no push.
    """
    return _bytes_of(call.input, "push", "signatures")


def proposed_signatures(calldata: str) -> bytes:
    """Return the signatures that came with a call of `proposeKick`, 65 bytes each.

    Raises:
        MalformedError: it is none.
    """
    return _bytes_of(calldata, "proposeKick", "signatures")


def _bytes_of(calldata: str, function: str, name: str) -> bytes:
    """Return an argument of a call that is bytes."""
    called = load(CONTRACT).functions[function]
    if not calldata.startswith(called.digest[:_SELECTOR_DIGITS]):
        raise MalformedError(f"the call is no {function}")
    arguments = bytes.fromhex(calldata[_SELECTOR_DIGITS:])
    place = [parameter.name for parameter in called.inputs].index(name)
    start = word_at(arguments, WORD * place)
    return arguments[start + WORD :][: word_at(arguments, start)]


def round_reader(event: AbiSignature) -> Callable[[Call, Log], RoundAccepted]:
    """Return what puts together what the log of a round said and what its call brought.

    It raises ValueError where they do not belong together.
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
    """One event whose input is a struct; `parts` name a member for each field of `kind`."""

    event: str
    kind: Callable[..., ContractEvent]
    parts: tuple[str, ...]

    def reader(self, event: AbiSignature) -> Callable[[Log], ContractEvent]:
        """Return what reads its logs; ValueError: the log is no such event."""
        decode, kind = decoder_of(event), self.kind
        names = [part.name for part in event.inputs[0].parts]
        places = [names.index(name) for name in self.parts]

        def read(log: Log) -> ContractEvent:
            (limits,) = decode(log)
            at = Position(log.block, log.tx, log.index)
            return kind(at, log.time, *(limits[place] for place in places))

        return read


_NODE = {"node": "node"}

# Registered are nodes by accepted rounds: the event is there to be compared with them.
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
# The deployed code does not hold them.
SAID_WHEN_MADE = frozenset({"NodeExpelled"})
LIMITS = (
    LimitsMeaning("LimitsSet", LimitsSet, ("maxNewNodes", "fallShare", "bigFall")),
    LimitsMeaning("KickLimitsSet", KickLimitsSet, ("kickCooldown",)),
)
