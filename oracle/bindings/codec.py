"""Encodes and decodes calldata, results and errors of the shipped contracts.

To import web3 takes about a second, so web3 is used only to decode events. Arguments and results
use eth_abi, the library under web3, with the types from the ABI. A command that only calls a
contract therefore does not wait for web3.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from oracle.chain.decode.abi import SELECTOR_DIGITS, load_abi, parse_signatures
from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Hash
from oracle.resources import find_shipped_path

if TYPE_CHECKING:
    from eth_abi.codec import ABICodec
    from web3.contract import Contract


def encode_call(contract: str, function: str, *arguments: object) -> str:
    """Encode the `0x` calldata for calling a function of a shipped contract.

    Raises:
        ValueError: an argument does not fit its type.
    """
    signature = load_abi(contract).get_function(function)
    types = signature.input_types
    encoded_arguments = _encode_values(types, arguments) if types or arguments else b""
    return signature.selector + encoded_arguments.hex()


def _encode_values(types: Sequence[str], values: Sequence[object]) -> bytes:
    from eth_abi.exceptions import EncodingError  # noqa: PLC0415  takes 0.1 s

    try:
        return _get_strict_codec().encode(types, values)
    except EncodingError as error:
        raise ValueError(str(error)) from error


@lru_cache
def _get_strict_codec() -> "ABICodec":
    from oracle.bindings.abi_codec import build_strict_codec  # noqa: PLC0415  takes 0.1 s

    return build_strict_codec()


def decode_result(contract: str, function: str, result_hex: str) -> tuple[Any, ...]:
    """Decode the `0x` hex result of an `eth_call` to a contract function.

    Raises:
        ValueError, AttributeError: the result is malformed or null.
    """
    encoded_result = bytes.fromhex(result_hex.removeprefix("0x"))
    outputs = load_abi(contract).get_function(function).outputs
    return decode_values([output.abi_type for output in outputs], encoded_result)


def decode_arguments(contract: str, function: str, calldata: str) -> Mapping[str, Any]:
    """Decode the arguments in a function's calldata, keyed by parameter name.

    Raises:
        ValueError: the calldata does not match the parameters of the function.
    """
    signature = load_abi(contract).get_function(function)
    values = decode_values(signature.input_types, bytes.fromhex(calldata[SELECTOR_DIGITS:]))
    return {
        parameter.name: value for parameter, value in zip(signature.inputs, values, strict=True)
    }


def build_creation_code(contract: str, *arguments: object) -> str:
    """Build the `0x` creation code of a shipped contract with constructor arguments.

    Raises:
        ValueError: an argument does not fit its type.
    """
    artifact = load_artifact(contract)
    types = [
        abi_type
        for constructor in parse_signatures(artifact["abi"], "constructor")
        for abi_type in constructor.input_types
    ]
    bytecode: str = artifact["bytecode"]
    return "0x" + bytecode.removeprefix("0x") + _encode_values(types, arguments).hex()


def decode_values(types: Sequence[str], encoded_values: bytes) -> tuple[Any, ...]:
    """Decode ABI-encoded values of the given types.

    Raises:
        ValueError: the bytes do not encode values of these types.
    """
    from eth_abi.abi import decode  # noqa: PLC0415  takes 0.1 s, and indexing never needs it
    from eth_abi.exceptions import DecodingError  # noqa: PLC0415

    try:
        return tuple(decode(types, encoded_values))
    except (DecodingError, OverflowError) as error:
        raise ValueError(str(error)) from error


def decode_error_name(contract: str, output: str) -> str:
    """Return the name of the error in a revert's output, or its selector if unknown."""
    selector = output[:SELECTOR_DIGITS]
    name, _ = get_errors_by_selector(contract).get(selector, (selector, []))
    return name


@lru_cache
def get_errors_by_selector(contract: str) -> Mapping[str, tuple[str, list[str]]]:
    """Return the name and argument types of each error of a contract, by selector.

    Selectors are `0x` hex.
    """
    errors = parse_signatures(load_artifact(contract)["abi"], "error")
    return {error.selector: (error.name, error.input_types) for error in errors}


@lru_cache
def load_artifact(contract: str) -> dict[str, Any]:
    """Load the compiler output of a shipped contract.

    The output has the ABI, the bytecode and the positions of immutables.
    """
    artifact: dict[str, Any] = msgspec.json.decode(
        find_shipped_path(f"abi/{contract}.json").read_bytes()
    )
    return artifact


def compute_code_hash(contract: str, code: str | None = None) -> Hash:
    """Return the Keccak-256 hash of deployed code with all immutables set to zero.

    If `code` is None, the shipped code is hashed.
    """
    artifact = load_artifact(contract)
    code_hex: str = artifact["deployedBytecode"] if code is None else code
    masked_code = bytearray(bytes.fromhex(code_hex.removeprefix("0x")))
    for positions in artifact["immutableReferences"].values():
        for position in positions:
            start = position["start"]
            length = position["length"]
            if start + length <= len(masked_code):
                masked_code[start : start + length] = bytes(length)
    return Hash("0x" + keccak(bytes(masked_code)).hex())


@lru_cache
def get_contract_class(contract: str) -> "type[Contract]":
    """Return web3's `Contract` class for a shipped contract, without an endpoint."""
    from oracle.rpc.offline_web3 import build_offline_web3  # noqa: PLC0415  it takes a second

    contract_class: type[Contract] = build_offline_web3().eth.contract(
        abi=load_artifact(contract)["abi"]
    )
    return contract_class
