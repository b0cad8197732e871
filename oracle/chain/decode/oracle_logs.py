"""What the oracle contract says, of any network; a round's words come from the `push` call.

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
    ContractEvent,
    IndexAssigned,
    IndexRetired,
    KickCancelled,
    KickExecuted,
    KickProposed,
    RoleSet,
    RoundAccepted,
)
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log

CONTRACT = "QoSOracle"
ROUND_ACCEPTED = "RoundAccepted"

_ROUND = ("round", "asOf", "asOfHash", "digest", "rules", "dataHash", "transmitter")
_SELECTOR_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Meaning:
    """One event of the contract and ours: `inputs` names an input for each field of `kind`."""

    event: str
    kind: type[ContractEvent]
    inputs: Mapping[str, str]


# A record of a report: 3 bytes of word index, then the word.
_INDEX_BYTES = 3
_RECORD = _INDEX_BYTES + WORD


def pushed_words(call: Call, data_hash: Hash) -> tuple[tuple[int, int], ...]:
    """Return (word index, word) of the report that the call pushed, ascending.

    Reads the input as the EVM does, wherever its offsets point: whoever sends a report may lay
    out the call as he likes, the hash tells whether we found the bytes that were signed.

    Raises:
        MalformedError: it is no push, or not the one with this hash of its records.
    """
    records = _bytes_of(call.input, "push", "data")
    if "0x" + keccak(records).hex() != data_hash:
        raise MalformedError("the records of the call have another hash")
    if len(records) % _RECORD:
        raise MalformedError("a record is cut off")
    return tuple(
        (
            int.from_bytes(records[at : at + _INDEX_BYTES], "big"),
            int.from_bytes(records[at + _INDEX_BYTES : at + _RECORD], "big"),
        )
        for at in range(0, len(records), _RECORD)
    )


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
        counter, as_of, as_of_hash, digest, rules = said
        return RoundAccepted(
            Position(log.block, log.tx, log.index),
            log.time,
            counter,
            as_of,
            as_of_hash,
            data_hash,
            digest,
            rules,
            transmitter,
            pushed_words(call, data_hash),
        )

    return read


_INDEX = {"node": "node", "index": "index"}
_KICK = {**_INDEX, "round": "round", "evidence": "evidence"}

ORACLE = (
    Meaning("NodeRegistered", IndexAssigned, _INDEX),
    Meaning("NodeIndexRetired", IndexRetired, _INDEX),
    Meaning("KickProposed", KickProposed, {**_KICK, "ready_at": "readyAt"}),
    Meaning("KickCancelled", KickCancelled, {"index": "index", "by": "by", "why": "why"}),
    Meaning("KickExecuted", KickExecuted, _KICK),
    Meaning("RoleSet", RoleSet, {"role": "role", "who": "who"}),
)
