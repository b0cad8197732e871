"""What the oracle contract says, of any network; a round's words come from the `push` call.

The contract takes a push only as the direct call of an account without code, so that the input
of its transaction is the input of the push (publishing.md 2).
"""

from eth_utils.crypto import keccak

from oracle.chain.abi import load
from oracle.chain.profiles import Meaning
from oracle.chain.tails import WORD, MalformedError, word_at
from oracle.domain.block import Position
from oracle.domain.contract_events import (
    IndexAssigned,
    IndexRetired,
    KickCancelled,
    KickExecuted,
    KickProposed,
    RoundAccepted,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call

CONTRACT = "QoSOracle"
ROUND_ACCEPTED = "RoundAccepted"

# What the decoder hands to `round_accepted`, in the order of ROUND.
_Accepted = tuple[int, int, Hash, Hash, Hash, int, Address]

_SELECTOR_DIGITS = 10
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
    push = load(CONTRACT).functions["push"]
    if not call.input.startswith(push.digest[:_SELECTOR_DIGITS]):
        raise MalformedError("the call is not a push")
    arguments = bytes.fromhex(call.input[_SELECTOR_DIGITS:])
    place = [parameter.name for parameter in push.inputs].index("data")
    start = word_at(arguments, WORD * place)
    records = arguments[start + WORD :][: word_at(arguments, start)]
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


def round_accepted(call: Call, at: Position, time: int, *said: *_Accepted) -> RoundAccepted:
    """Put together what the log said and what the call brought.

    Raises:
        MalformedError: they do not belong together.
    """
    counter, as_of, as_of_hash, data_hash, digest, rules, transmitter = said
    if call.sender != transmitter:
        raise MalformedError("the call has another sender")
    words = pushed_words(call, data_hash)
    return RoundAccepted(
        at, time, counter, as_of, as_of_hash, data_hash, digest, rules, transmitter, words
    )


ORACLE = (
    Meaning("NodeRegistered", ("node", "index"), IndexAssigned),
    Meaning("NodeIndexRetired", ("node", "index"), IndexRetired),
    Meaning("KickProposed", ("index", "node", "round", "evidence", "readyAt"), KickProposed),
    Meaning("KickCancelled", ("index", "by", "why"), KickCancelled),
    Meaning("KickExecuted", ("index", "node", "round", "evidence"), KickExecuted),
)
# RoundAccepted is read beside its call; these are the inputs that `round_accepted` takes.
ROUND = ("round", "asOf", "asOfHash", "dataHash", "digest", "rules", "transmitter")
