"""Writes what a contract is told: the input of a call, or the code that creates it."""

from functools import lru_cache
from typing import Any

import msgspec
from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.abi import collapse_if_tuple, function_signature_to_4byte_selector

from oracle.errors import FatalError
from oracle.resources import shipped


def call_input(contract: str, function: str, *arguments: object) -> str:
    """Return the `0x` input that calls a function of a shipped contract."""
    inputs, _ = _function(contract, function)
    selector = function_signature_to_4byte_selector(f"{function}({','.join(inputs)})")
    return "0x" + (selector + encode(inputs, arguments)).hex()


def call_output(contract: str, function: str, answer: str) -> tuple[Any, ...]:
    """Read what a call of that function answered.

    Raises:
        ValueError, AttributeError: it is no such answer, or null.
    """
    _, outputs = _function(contract, function)
    try:
        return tuple(decode(outputs, bytes.fromhex(answer.removeprefix("0x"))))
    except (DecodingError, OverflowError) as error:
        raise ValueError(str(error)) from error


def creation_code(contract: str, *arguments: object) -> str:
    """Return the `0x` code that creates a shipped contract with these constructor arguments."""
    artifact = _artifact(contract)
    inputs = [
        collapse_if_tuple(given)
        for entry in artifact["abi"]
        if entry["type"] == "constructor"
        for given in entry["inputs"]
    ]
    code: str = artifact["bytecode"]
    return "0x" + code.removeprefix("0x") + encode(inputs, arguments).hex()


def error_named(contract: str, answer: str) -> str:
    """Return the name of the error that a revert's output stands for, or its selector."""
    for entry in _artifact(contract)["abi"]:
        if entry["type"] != "error":
            continue
        kinds = ",".join(collapse_if_tuple(given) for given in entry["inputs"])
        if answer.startswith(
            "0x" + function_signature_to_4byte_selector(f"{entry['name']}({kinds})").hex()
        ):
            return str(entry["name"])
    return answer[:10]


@lru_cache
def _artifact(contract: str) -> dict[str, Any]:
    artifact: dict[str, Any] = msgspec.json.decode(shipped(f"abi/{contract}.json").read_bytes())
    return artifact


@lru_cache
def _function(contract: str, function: str) -> tuple[list[str], list[str]]:
    for entry in _artifact(contract)["abi"]:
        if entry["type"] == "function" and entry["name"] == function:
            inputs = [collapse_if_tuple(given) for given in entry["inputs"]]
            return inputs, [collapse_if_tuple(given) for given in entry["outputs"]]
    raise FatalError(f"abi/{contract}.json has no function {function}: install again")
