"""Checks that the configured addresses hold the contracts that the profile reads."""

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
    """An address holds no contract, or a different one than the profile reads."""


def check_code(endpoint: Endpoint, reader: EventReader) -> None:
    """Check that the code of each contract contains the topic of every event that is read.

    The bytecode of a contract contains the first topic of each event that it emits. Behind a proxy
    the code is at another address, so only its existence is checked.

    Raises:
        RpcError: no answer, or null, which proves nothing about the address.
        WrongContractError: an address holds no contract, or one that emits other events.
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
    """Return whether the deployed code emits the event, not only the constructor."""
    return reader.name_of(topic) not in SAID_WHEN_MADE


def _pushed(topic: str) -> str:
    """Return the topic as the bytecode pushes it: compilers omit leading zero bytes."""
    digits = topic[2:]
    while digits.startswith("00"):
        digits = digits[2:]
    return digits


_WORD = 64


class _Counter(NamedTuple):
    """A view function without arguments, and the index of the 32-byte word that is the count."""

    function: str
    word: int


# By contract, under the names that indexer.audit gives to the folded counts.
_COUNTERS: Mapping[str, Mapping[str, _Counter]] = MappingProxyType(
    {
        "TaskNetwork": {"members": _Counter("activeCount", 0)},
        # head(): round, asOf, pushedAt, pausedUntil, heldSeconds, nodeCount, …
        ORACLE: {"rounds": _Counter("head", 0), "indexes": _Counter("head", 5)},
    }
)


def counted(endpoint: Endpoint, reader: EventReader, block_hash: Hash) -> dict[str, int]:
    """Return the counts that the contracts report at the end of this block, by name.

    The result is empty if the profile has no contract with a counter.

    Raises:
        RpcError: no answer, or the endpoint does not know the block.
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
        # The endpoint can still serve the logs that are indexed.
        raise RpcError(endpoint.name, ErrorKind.UNSUPPORTED, error.words) from None


# Errors of endpoints without old state or EIP-1898, and of other contracts.
_NO_SUCH_CALL = {ErrorKind.INVALID, ErrorKind.UNKNOWN}


def _parse_word(endpoint: str, answer: str | None, place: int) -> int:
    digits = (answer or "0x")[2 + _WORD * place : 2 + _WORD * (place + 1)]
    try:
        if len(digits) == _WORD:
            return int(digits, 16)
    except ValueError:
        pass
    raise RpcError(endpoint, ErrorKind.INVALID, f"eth_call: {str(answer)[:80]!r} is no number")
