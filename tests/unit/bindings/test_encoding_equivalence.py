"""The product encodes and decodes exactly like web3 and eth-account."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from oracle.bindings import qos_roots, qos_words
from oracle.bindings.codec import (
    build_creation_code,
    decode_result,
    encode_call,
    get_errors_by_selector,
)
from oracle.bindings.contract_errors import decode_refusal
from oracle.domain.ids import Address
from oracle.resources import find_shipped_path
from oracle.signing.typed_data import Domain, ReportStatement
from tests.integration.evm.test_typed_data import REPORTS, integers_of_bits
from tests.support.examples import examples
from tests.support.signing import abi_reference

CONTRACTS = (qos_roots.CONTRACT, qos_words.CONTRACT, "TaskNetwork")
ENTRIES = {
    name: msgspec.json.decode(find_shipped_path(f"abi/{name}.json").read_bytes())["abi"]
    for name in CONTRACTS
}
FUNCTIONS = [
    pytest.param(name, entry, id=f"{name}.{entry['name']}")
    for name in CONTRACTS
    for entry in ENTRIES[name]
    if entry["type"] == "function"
]
ERRORS = [
    (name, entry) for name in CONTRACTS for entry in ENTRIES[name] if entry["type"] == "error"
]
ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())


def values(parameter: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a parameter; addresses are in lower case."""
    kind: str = parameter["type"]
    if kind.endswith("[]"):
        return st.lists(values({**parameter, "type": kind[:-2]}), max_size=3)
    if kind == "tuple":
        return st.tuples(*(values(part) for part in parameter["components"]))
    if kind.startswith("uint"):
        return st.integers(0, 2 ** int(kind[4:]) - 1)
    if kind.startswith("bytes") and kind != "bytes":
        return st.binary(min_size=int(kind[5:]), max_size=int(kind[5:]))
    simple: dict[str, st.SearchStrategy[Any]] = {
        "address": ADDRESSES,
        "bool": st.booleans(),
        "bytes": st.binary(max_size=80),
        "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    }
    return simple[kind]


@pytest.mark.parametrize(("contract", "entry"), FUNCTIONS)
@examples(10)
@given(drawn=st.data())
def test_calldata_matches_reference_encoding(
    contract: str, entry: dict[str, Any], drawn: st.DataObject
):
    arguments = [drawn.draw(values(parameter)) for parameter in entry["inputs"]]

    assert encode_call(contract, entry["name"], *arguments) == abi_reference.encode_call_input(
        entry, arguments
    )


@pytest.mark.parametrize("length", [0, 31, 33])
def test_fixed_bytes_of_wrong_length_are_rejected(length: int):
    with pytest.raises(ValueError, match=r"bytes"):
        encode_call(qos_roots.CONTRACT, "setRules", bytes(length))


@pytest.mark.parametrize("function", ["head", "limits", "kickLimits", "bucket", "signers"])
@examples(20)
@given(drawn=st.data())
def test_call_outputs_match_reference_decoding(function: str, drawn: st.DataObject):
    entry = next(
        abi_entry for abi_entry in ENTRIES[qos_roots.CONTRACT] if abi_entry.get("name") == function
    )
    output_values = [drawn.draw(values(parameter)) for parameter in entry["outputs"]]
    answer = abi_reference.encode_call_input(
        {"name": "x", "inputs": entry["outputs"]}, output_values
    )
    answer = "0x" + answer[10:]

    assert decode_result(qos_roots.CONTRACT, function, answer) == abi_reference.decode_call_output(
        entry, answer
    )


@pytest.mark.parametrize("contract", CONTRACTS)
def test_error_selectors_and_types_match_reference(contract: str):
    assert get_errors_by_selector(contract) == abi_reference.list_errors_by_selector(
        ENTRIES[contract]
    )


@pytest.mark.parametrize(("contract", "entry"), ERRORS)
@examples(5)
@given(drawn=st.data())
def test_revert_arguments_match_reference_decoding(
    contract: str, entry: dict[str, Any], drawn: st.DataObject
):
    arguments = [drawn.draw(values(parameter)) for parameter in entry["inputs"]]

    refusal = decode_refusal(abi_reference.encode_call_input(entry, arguments))

    assert (refusal.name, list(refusal.arguments)) == (entry["name"], arguments)


def test_creation_code_ends_with_the_constructor_arguments():
    network = Address("0x" + "4e" * 20)
    entry = next(
        abi_entry for abi_entry in ENTRIES["TaskNetwork"] if abi_entry["type"] == "constructor"
    )
    kinds = [parameter["type"] for parameter in entry["inputs"]]
    assert kinds[0] == "address"
    arguments = [network, *(_least(parameter) for parameter in entry["inputs"][1:])]

    code = build_creation_code("TaskNetwork", *arguments)

    written = abi_reference.encode_call_input({**entry, "name": "x"}, arguments)
    bytecode = msgspec.json.decode(find_shipped_path("abi/TaskNetwork.json").read_bytes())[
        "bytecode"
    ]
    assert code == "0x" + bytecode.removeprefix("0x") + written[10:]


def _least(parameter: dict[str, Any]) -> Any:
    if parameter["type"] == "tuple":
        return tuple(_least(part) for part in parameter["components"])
    return "0x" + "00" * 20 if parameter["type"] == "address" else 0


@examples(50)
@given(REPORTS, integers_of_bits(62), ADDRESSES)
def test_report_digest_matches_reference(statement: ReportStatement, chain: int, contract: str):
    field_values = (
        *(_raw(statement.config), statement.round, _raw(statement.prev), statement.as_of),
        *(_raw(statement.as_of_hash), statement.deadline, _raw(statement.root)),
    )

    digest = statement.compute_digest(Domain(chain, Address(contract)))

    assert digest == abi_reference.compute_report_digest(chain, contract, field_values)


def _raw(digest: str) -> bytes:
    return bytes.fromhex(digest[2:])
