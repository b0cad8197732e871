"""What contracts count themselves, asked at one block, to compare with what we counted (L6).

The block is named by its hash (EIP-1898): an endpoint on another fork says so instead of
answering for another block.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from oracle.chain.decode.abi import load
from oracle.chain.decode.oracle_logs import CONTRACT as ORACLE
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.ids import Hash
from oracle.rpc.client import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

_WORD = 64


class _Counter(NamedTuple):
    """A view without arguments, and which 32-byte word of its answer is the number."""

    function: str
    word: int


# By contract, under the names that services/integrity/counting.py gives to what was folded.
_COUNTERS: Mapping[str, Mapping[str, _Counter]] = MappingProxyType(
    {
        "TaskNetwork": {"members": _Counter("activeCount", 0)},
        # head(): round, asOf, pushedAt, pausedUntil, nodeCount, …
        ORACLE: {"rounds": _Counter("head", 0), "indexes": _Counter("head", 4)},
    }
)


def counted(endpoint: Endpoint, reader: EventReader, block_hash: Hash) -> dict[str, int]:
    """Return what the reader's contracts count at the end of this block, by name.

    Empty where the profile names no contract that counts.

    Raises:
        EndpointError: no answer, or it does not know the block.
    """
    asked = [
        (name, address, contract, counter)
        for address, (contract, _) in reader.contracts.items()
        for name, counter in _COUNTERS.get(contract, {}).items()
    ]
    at = {"blockHash": block_hash}
    params = [
        [{"to": address, "data": load(contract).functions[counter.function].digest[:10]}, at]
        for _, address, contract, counter in asked
    ]
    try:
        answers = endpoint.batch("eth_call", params, str) if params else []
        return {
            name: _word(endpoint.name, answer, counter.word)
            for (name, _, _, counter), answer in zip(asked, answers, strict=True)
        }
    except RpcError as error:
        if error.kind not in _NO_SUCH_CALL:
            raise
        # It serves what we index by all the same.
        raise RpcError(endpoint.name, ErrorKind.UNSUPPORTED, error.words) from None


# How those answer that know no state of old blocks, or no EIP-1898, or have another contract.
_NO_SUCH_CALL = {ErrorKind.INVALID, ErrorKind.UNKNOWN}


def _word(endpoint: str, answer: str | None, place: int) -> int:
    digits = (answer or "0x")[2 + _WORD * place : 2 + _WORD * (place + 1)]
    try:
        if len(digits) == _WORD:
            return int(digits, 16)
    except ValueError:
        pass
    raise RpcError(endpoint, ErrorKind.INVALID, f"eth_call: {str(answer)[:80]!r} is no number")
