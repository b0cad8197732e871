"""The shipped contracts as web3 knows them: what they are told, what they answer and refuse.

web3 takes about a second to import: it writes what has arguments and reads events. Views without
arguments are asked and answers are read by eth_abi, which web3 itself reads by, so that `status`
does not wait for it. web3's `encode_abi` looks for the overload that takes the arguments, some
milliseconds a call; ours have none, so its codec is told the types.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
from eth_utils.abi import (
    collapse_if_tuple,
    function_abi_to_4byte_selector,
    get_abi_input_names,
    get_abi_input_types,
    get_abi_output_types,
)

from oracle.errors import FatalError
from oracle.resources import shipped

if TYPE_CHECKING:
    from eth_typing import ABIFunction
    from web3 import Web3
    from web3.contract import Contract

_SELECTOR_DIGITS = 10


def call_input(contract: str, function: str, *arguments: object) -> str:
    """Return the `0x` input that calls a function of a shipped contract."""
    found = _function(contract, function)
    kinds = get_abi_input_types(found)
    given = _web3().codec.encode(kinds, arguments) if kinds or arguments else b""
    return "0x" + (function_abi_to_4byte_selector(found) + given).hex()


def call_output(contract: str, function: str, answer: str) -> tuple[Any, ...]:
    """Read what a call of that function answered.

    Raises:
        ValueError, AttributeError: it is no such answer, or null.
    """
    raw = bytes.fromhex(answer.removeprefix("0x"))
    return decoded(get_abi_output_types(_function(contract, function)), raw)


def call_arguments(contract: str, function: str, calldata: str) -> Mapping[str, Any]:
    """Return what a call of that function was given, by the names of its inputs.

    Raises:
        ValueError: it was not given that.
    """
    found = _function(contract, function)
    raw = bytes.fromhex(calldata[_SELECTOR_DIGITS:])
    names = [name or "" for name in get_abi_input_names(found)]
    return dict(zip(names, decoded(get_abi_input_types(found), raw), strict=True))


def creation_code(contract: str, *arguments: object) -> str:
    """Return the `0x` code that creates a shipped contract with these constructor arguments."""
    artifact = contract_artifact(contract)
    inputs = [
        collapse_if_tuple(given)
        for entry in artifact["abi"]
        if entry["type"] == "constructor"
        for given in entry["inputs"]
    ]
    code: str = artifact["bytecode"]
    return "0x" + code.removeprefix("0x") + _web3().codec.encode(inputs, arguments).hex()


def decoded(kinds: Sequence[str], raw: bytes) -> tuple[Any, ...]:
    """Read values of these types.

    Raises:
        ValueError: they are not there.
    """
    from eth_abi.abi import decode  # noqa: PLC0415  a tenth of a second: an index needs none
    from eth_abi.exceptions import DecodingError  # noqa: PLC0415

    try:
        return tuple(decode(kinds, raw))
    except (DecodingError, OverflowError) as error:
        raise ValueError(str(error)) from error


def error_named(contract: str, answer: str) -> str:
    """Return the name of the error that a revert's output stands for, or its selector."""
    selector = answer[:_SELECTOR_DIGITS]
    name, _ = errors_of(contract).get(selector, (selector, []))
    return name


@lru_cache
def errors_of(contract: str) -> Mapping[str, tuple[str, list[str]]]:
    """Return name and types of every error of a contract, by its selector, `0x` hex."""
    return {
        "0x" + function_abi_to_4byte_selector(entry).hex(): (
            entry["name"],
            get_abi_input_types(entry),
        )
        for entry in contract_artifact(contract)["abi"]
        if entry["type"] == "error"
    }


@lru_cache
def contract_artifact(contract: str) -> dict[str, Any]:
    """Return the compiler's output that is shipped: ABI, code, places of immutables."""
    artifact: dict[str, Any] = msgspec.json.decode(shipped(f"abi/{contract}.json").read_bytes())
    return artifact


@lru_cache
def contract_object(contract: str) -> "type[Contract]":
    """Return web3's class of a shipped contract; it has no endpoint to ask."""
    made: type[Contract] = _web3().eth.contract(abi=contract_artifact(contract)["abi"])
    return made


def _web3() -> "Web3":
    from oracle.rpc.web3_provider import web3_offline  # noqa: PLC0415  it takes a second

    return web3_offline()


@lru_cache
def _function(contract: str, function: str) -> "ABIFunction":
    for entry in contract_artifact(contract)["abi"]:
        if entry["type"] == "function" and entry["name"] == function:
            return cast("ABIFunction", entry)
    raise FatalError(f"abi/{contract}.json has no function {function}: install again")
