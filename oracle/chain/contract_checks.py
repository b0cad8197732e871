"""Makes sure that the addresses of the settings hold the contracts that we read."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from oracle.chain.decode.abi import load
from oracle.chain.decode.oracle_logs import CONTRACT as ORACLE, SAID_WHEN_MADE
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError


class NotTheContractError(InputError):
    """An address holds no contract, or another one than the profile reads."""


def check_code(endpoint: Endpoint, reader: EventReader) -> None:
    """Look for each event that we read in the code of its contract.

    The first topic of an event stands in the code that says it, as it is. Behind a proxy the
    code is elsewhere, so only that there is any is looked at.

    Raises:
        RpcError: no answer, or null, which says nothing of an address.
        NotTheContractError: an address holds no contract, or one that says other events.
    """
    addresses = list(reader.contracts)
    codes = endpoint.client.batch(
        "eth_getCode", [[address, "latest"] for address in addresses], str
    )
    for address, code in zip(addresses, codes, strict=True):
        contract, topics = reader.contracts[address]
        where = f"{contract} at {address}"
        if code is None:
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"{where}: null instead of its code")
        if code in {"", "0x"}:
            raise NotTheContractError(
                f"{where}: there is no contract at this address of this chain"
            )
        known = reader.profile.contracts.get(contract)
        if known is not None and known.is_proxy:
            continue
        lasting = topics if contract != ORACLE else [t for t in topics if _is_permanent(reader, t)]
        missing = [topic for topic in lasting if _pushed(topic) not in str(code).lower()]
        if missing:
            names = ", ".join(sorted(map(reader.name_of, missing)))
            raise NotTheContractError(
                f"{where}: another contract, or another version: never says {names}"
            )


def _is_permanent(reader: EventReader, topic: str) -> bool:
    """Tell whether an event is said by the code that stays, not by the constructor alone."""
    return reader.name_of(topic) not in SAID_WHEN_MADE


def _pushed(topic: str) -> str:
    """Return the topic as code holds it: compilers leave leading zero bytes out."""
    digits = topic[2:]
    while digits.startswith("00"):
        digits = digits[2:]
    return digits


_WORD = 64


class _Counter(NamedTuple):
    """A view without arguments, and which 32-byte word of its answer is the number."""

    function: str
    word: int


# By contract, under the names that indexer.audit gives to what was folded.
_COUNTERS: Mapping[str, Mapping[str, _Counter]] = MappingProxyType(
    {
        "TaskNetwork": {"members": _Counter("activeCount", 0)},
        # head(): round, asOf, pushedAt, pausedUntil, heldSeconds, nodeCount, …
        ORACLE: {"rounds": _Counter("head", 0), "indexes": _Counter("head", 5)},
    }
)


def counted(endpoint: Endpoint, reader: EventReader, block_hash: Hash) -> dict[str, int]:
    """Return what the reader's contracts count at the end of this block, by name.

    Empty where the profile names no contract that counts.

    Raises:
        RpcError: no answer, or it does not know the block.
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
        answers = endpoint.client.batch("eth_call", params, str) if params else []
        return {
            name: _parse_word(endpoint.name, answer, counter.word)
            for (name, _, _, counter), answer in zip(asked, answers, strict=True)
        }
    except RpcError as error:
        if error.kind not in _NO_SUCH_CALL:
            raise
        # It serves what we index by all the same.
        raise RpcError(endpoint.name, ErrorKind.UNSUPPORTED, error.words) from None


# How those answer that know no state of old blocks, or no EIP-1898, or have another contract.
_NO_SUCH_CALL = {ErrorKind.INVALID, ErrorKind.UNKNOWN}


def _parse_word(endpoint: str, answer: str | None, place: int) -> int:
    digits = (answer or "0x")[2 + _WORD * place : 2 + _WORD * (place + 1)]
    try:
        if len(digits) == _WORD:
            return int(digits, 16)
    except ValueError:
        pass
    raise RpcError(endpoint, ErrorKind.INVALID, f"eth_call: {str(answer)[:80]!r} is no number")
