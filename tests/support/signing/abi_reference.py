"""Calldata, errors and digests encoded by eth_abi alone; the product must give the same bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

from eth_abi.abi import decode, encode
from eth_utils.abi import collapse_if_tuple, function_signature_to_4byte_selector
from eth_utils.crypto import keccak

_DOMAIN = "string name,string version,uint256 chainId,address verifyingContract"
_REPORT = (
    "bytes32 config,uint32 round,bytes32 prev,uint48 asOf,"
    "bytes32 asOfHash,uint40 deadline,bytes32 root"
)


def encode_call_input(entry: Mapping[str, Any], arguments: Sequence[object]) -> str:
    kinds = [collapse_if_tuple(parameter) for parameter in entry["inputs"]]
    return _compute_selector(entry["name"], kinds) + encode(kinds, arguments).hex()


def decode_call_output(entry: Mapping[str, Any], answer: str) -> tuple[Any, ...]:
    kinds = [collapse_if_tuple(parameter) for parameter in entry["outputs"]]
    return tuple(decode(kinds, bytes.fromhex(answer.removeprefix("0x"))))


def list_errors_by_selector(
    entries: Sequence[Mapping[str, Any]],
) -> dict[str, tuple[str, list[str]]]:
    named = [
        (entry["name"], [collapse_if_tuple(parameter) for parameter in entry["inputs"]])
        for entry in entries
        if entry["type"] == "error"
    ]
    return {_compute_selector(name, kinds): (name, kinds) for name, kinds in named}


def compute_report_digest(chain_id: int, contract: str, field_values: Sequence[object]) -> str:
    kinds = [member.split()[0] for member in _REPORT.split(",")]
    struct = encode(["bytes32", *kinds], [keccak(text=f"Report({_REPORT})"), *field_values])
    named = [keccak(text=f"EIP712Domain({_DOMAIN})"), keccak(text="QoSOracle"), keccak(text="3")]
    domain = encode(["bytes32"] * 3 + ["uint256", "address"], [*named, chain_id, contract])
    return "0x" + keccak(b"\x19\x01" + keccak(domain) + keccak(struct)).hex()


def _compute_selector(name: str, kinds: Sequence[str]) -> str:
    return "0x" + function_signature_to_4byte_selector(f"{name}({','.join(kinds)})").hex()
