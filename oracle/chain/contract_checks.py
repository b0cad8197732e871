"""Checks that the configured addresses hold the contracts described by the profile."""

from collections.abc import Mapping
from types import MappingProxyType

from oracle.chain.decode.abi import load_abi
from oracle.chain.decode.oracle_logs import (
    CONSTRUCTOR_ONLY_EVENTS,
    ORACLE_CONTRACT,
    ORACLE_NAME,
)
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError


class WrongContractError(InputError):
    """The contract at an address is not the one that the profile describes."""


def verify_contract_code(endpoint: Endpoint, reader: EventReader) -> None:
    """Check that each contract's code contains the topics of all events to read.

    The bytecode of a contract contains the first topic of each event that it emits. The code of a
    proxy's contract is at another address, so for a proxy only the existence of code is checked.

    Raises:
        RpcError: the endpoint does not answer or returns null, so nothing is known about the
            address.
        WrongContractError: an address has no contract, or a contract that emits other events.
    """
    addresses = list(reader.contracts)
    codes = endpoint.client.call_batch(
        "eth_getCode", [[address, "latest"] for address in addresses], str
    )
    for address, code in zip(addresses, codes, strict=True):
        contract, topics = reader.contracts[address]
        location = f"{contract} at {address}"
        if code is None:
            raise RpcError(
                endpoint.name, ErrorKind.INVALID, f"{location}: eth_getCode returned null"
            )
        if code in {"", "0x"}:
            raise WrongContractError(
                f"{location}: there is no contract at this address on this chain"
            )
        profile_contract = reader.profile.contracts.get(contract)
        if profile_contract is not None and profile_contract.is_proxy:
            continue
        expected_topics = (
            topics
            if contract != ORACLE_NAME
            else [
                event_topic
                for event_topic in topics
                if _is_topic_in_runtime_code(reader, event_topic)
            ]
        )
        missing_topics = [
            topic
            for topic in expected_topics
            if _format_push_operand(topic) not in str(code).lower()
        ]
        if missing_topics:
            event_names = ", ".join(sorted(map(reader.get_event_name, missing_topics)))
            raise WrongContractError(
                f"{location}: the contract's code does not emit {event_names}; it is a different "
                "contract or version"
            )


def _is_topic_in_runtime_code(reader: EventReader, topic: str) -> bool:
    """Return whether an event's topic is part of the deployed code.

    Some topics occur only in the constructor.
    """
    return reader.get_event_name(topic) not in CONSTRUCTOR_ONLY_EVENTS


def _format_push_operand(topic: str) -> str:
    """Return a topic's hex digits as in a PUSH instruction, without leading zero bytes."""
    hex_digits = topic[2:]
    while hex_digits.startswith("00"):
        hex_digits = hex_digits[2:]
    return hex_digits


_WORD = 64


# For each contract that keeps a counter, the name of the indexer's own count (indexer.audit), the
# path of the ABI, and a view function. The function takes no arguments, and its first value is the
# contract's count.
_COUNTERS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "TaskNetwork": ("members", "TaskNetwork", "activeCount"),
        ORACLE_NAME: ("rounds", ORACLE_CONTRACT, "head"),
    }
)


def fetch_contract_counters(
    endpoint: Endpoint, reader: EventReader, block_hash: Hash
) -> dict[str, int]:
    """Return the counters of the contracts at the end of a block, keyed by name.

    The result is empty if the profile has no contract with a counter.

    Raises:
        RpcError: the endpoint does not answer, or does not know the block.
    """
    names: list[str] = []
    params: list[list[object]] = []
    for address, (contract, _) in reader.contracts.items():
        if contract in _COUNTERS:
            name, abi_path, function = _COUNTERS[contract]
            names.append(name)
            selector = load_abi(abi_path).functions[function].selector
            params.append([{"to": address, "data": selector}, {"blockHash": block_hash}])
    try:
        counter_results = endpoint.client.call_batch("eth_call", params, str) if params else []
        return {
            name: _parse_first_word(endpoint.name, answer)
            for name, answer in zip(names, counter_results, strict=True)
        }
    except RpcError as error:
        if error.kind not in _UNSUPPORTED_CALL_ERRORS:
            raise
        # This is not raised as a refusal, because the endpoint can still serve logs.
        raise RpcError(endpoint.name, ErrorKind.UNSUPPORTED, error.detail) from None


# Endpoints return these errors if they lack old state or EIP-1898, or if the contract lacks the
# function.
_UNSUPPORTED_CALL_ERRORS = {ErrorKind.INVALID, ErrorKind.UNKNOWN}


def _parse_first_word(endpoint: str, result_hex: str | None) -> int:
    first_word_digits = (result_hex or "0x")[2 : 2 + _WORD]
    try:
        if len(first_word_digits) == _WORD:
            return int(first_word_digits, 16)
    except ValueError:
        pass
    raise RpcError(
        endpoint, ErrorKind.INVALID, f"eth_call: {str(result_hex)[:80]!r} is not a number"
    )
