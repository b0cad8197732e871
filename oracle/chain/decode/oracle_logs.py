"""Decodes events of the oracle contract, on any network, and the calldata of its `push` calls.

The contract accepts a push only as a direct call from an account without code, so the input of
the transaction is the input of the push (docs/reference/report-format.md#records).
"""

from collections.abc import Callable, Mapping

from oracle.chain.decode.abi import SELECTOR_DIGITS, AbiSignature, load_abi
from oracle.chain.decode.abi_values import WORD, MalformedError, read_uint
from oracle.chain.decode.log_decoder import build_log_decoder
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

ORACLE_CONTRACT = "QoSOracle"
ROUND_ACCEPTED = "RoundAccepted"

_ROUND_INPUTS = ("round", "asOf", "asOfHash", "digest", "config", "dataHash", "transmitter")


def decode_pushed_round(call: Call, data_hash: Hash) -> RoundData:
    """Return the registrations and the lane words of the report that a `push` call submitted.

    The input is decoded at the offsets that it contains, as the EVM does, because the sender may
    lay out the call in any way. The hash shows whether the data is what the signers signed.

    Raises:
        MalformedError: the call is not a push, or the hash of its data is not `data_hash`.
    """
    round_bytes = _decode_bytes_argument(call.input, "push", "data")
    if "0x" + keccak(round_bytes).hex() != data_hash:
        raise MalformedError("the hash of the call's data differs from the hash in the event")
    try:
        return decode_round(round_bytes)
    except ValueError as error:
        raise MalformedError(f"the call's data is malformed: {error}") from error


def decode_push_signatures(call: Call) -> bytes:
    """Return the signatures of a push, 65 bytes each.

    Raises:
        MalformedError: the call is not a push.
    """
    return _decode_bytes_argument(call.input, "push", "signatures")


def decode_proposal_signatures(calldata: str) -> bytes:
    """Return the signatures of a `proposeKick` call, 65 bytes each.

    Raises:
        MalformedError: the call is not a `proposeKick`.
    """
    return _decode_bytes_argument(calldata, "proposeKick", "signatures")


def _decode_bytes_argument(calldata: str, function: str, argument_name: str) -> bytes:
    """Return an argument of type `bytes` from the calldata of this function."""
    signature = load_abi(ORACLE_CONTRACT).functions[function]
    if not calldata.startswith(signature.selector):
        raise MalformedError(f"the call is not a call of {function}")
    arguments = bytes.fromhex(calldata[SELECTOR_DIGITS:])
    index = [parameter.name for parameter in signature.inputs].index(argument_name)
    start = read_uint(arguments, WORD * index)
    return arguments[start + WORD :][: read_uint(arguments, start)]


def build_round_reader(event: AbiSignature) -> Callable[[Call, Log], RoundAccepted]:
    """Return a reader that combines the log of a round with the data of its call.

    The reader raises ValueError if the log and the call do not belong together.
    """
    decode_log = build_log_decoder(event, _ROUND_INPUTS)

    def read_round(call: Call, log: Log) -> RoundAccepted:
        *round_values, data_hash, transmitter = decode_log(log)
        if call.sender != transmitter:
            raise MalformedError("the sender of the call is not the transmitter in the event")
        round_number, as_of, as_of_hash, digest, config = round_values
        round_data = decode_pushed_round(call, data_hash)
        return RoundAccepted(
            at=Position(log.block, log.tx, log.index),
            time=log.time,
            round=round_number,
            as_of=as_of,
            as_of_hash=as_of_hash,
            data_hash=data_hash,
            digest=digest,
            config=config,
            transmitter=transmitter,
            registrations=round_data.registrations,
            words=round_data.words,
        )

    return read_round


_NODE_INPUT = {"node": "node"}

# By event class: the input of each field. A class has the name of its event. Nodes are registered
# by accepted rounds; NodeRegistered is only compared with them.
ORACLE_EVENTS: Mapping[type[ContractEvent], Mapping[str, str]] = {
    NodeRegistered: {**_NODE_INPUT, "index": "index"},
    KickProposed: {
        **_NODE_INPUT,
        "round": "round",
        "evidence": "evidence",
        "ready_at": "readyAt",
        "dies_at": "diesAt",
    },
    KickCancelled: {**_NODE_INPUT, "by": "by", "why": "why"},
    KickExecuted: {**_NODE_INPUT, "evidence": "evidence", "target": "target"},
    KickRefused: {**_NODE_INPUT, "target": "target", "reason": "reason"},
    NodeExpelled: _NODE_INPUT,
    NodeReadmitted: _NODE_INPUT,
    RoleSet: {"role": "role", "who": "who"},
    ConfigSet: {"count": "count", "digest": "config"},
}
# Events that only the constructor emits, so that the deployed code does not contain them.
CONSTRUCTOR_ONLY_EVENTS = frozenset({"NodeExpelled"})
# The same for events whose only input is a struct: the member of each field.
LIMITS_EVENTS: Mapping[type[ContractEvent], Mapping[str, str]] = {
    LimitsSet: {
        "max_new_nodes": "maxNewNodes",
        "fall_share": "fallShare",
        "big_fall": "bigFall",
    },
    KickLimitsSet: {"kick_cooldown": "kickCooldown"},
}
