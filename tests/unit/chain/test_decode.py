"""The decoders return the same values as web3, and reject data that no contract emits."""

from collections.abc import Sequence
from typing import Any

import pytest
from eth_abi.abi import encode
from hypothesis import given, strategies as st
from hypothesis.strategies import SearchStrategy
from web3 import Web3
from web3.types import LogReceipt

from oracle.chain.decode.abi import AbiSignature, Parameter, load_abi
from oracle.chain.decode.log_decoder import build_log_decoder
from oracle.chain.decode.oracle_logs import ORACLE_CONTRACT
from oracle.chain.profiles.profile_loader import load_profile
from oracle.domain.logs import Log
from tests.support.chain.network_logs import NETWORK, make_hash
from tests.support.examples import examples

ADDRESS = "0x" + "4e" * 20
READ = [
    (contract.name, speech.signature.name)
    for contract in load_profile("reference").contracts.values()
    for speech in contract.events
]
READ += [
    (ORACLE_CONTRACT, name)
    for name in load_abi(ORACLE_CONTRACT).events
    if not name.endswith("LimitsSet")
]


# In the form of eth_abi. NUL has a separate test.
VARIABLE: dict[str, SearchStrategy[Any]] = {
    "string": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    "bytes": st.binary(max_size=80),
    "bool": st.booleans(),
    "address": st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex()),
}


def values_of(kind: str) -> SearchStrategy[Any]:
    """Return a strategy for the values of a Solidity type."""
    if kind in VARIABLE:
        return VARIABLE[kind]
    if kind.endswith("[]"):
        return st.lists(values_of(kind.removesuffix("[]")), max_size=4)
    size = int(kind.lstrip("uintbyes"))
    if kind.startswith("bytes"):
        return st.binary(min_size=size, max_size=size)
    min_value = 0 if kind.startswith("u") else -(2 ** (size - 1))
    return st.integers(min_value, min_value + 2**size - 1)


def decode_log(
    signature: AbiSignature,
    topics: Sequence[str],
    data: str,
    input_names: Sequence[str] | None = None,
) -> tuple[Any, ...]:
    """Decode a log with these topics and data."""
    log = Log(1, make_hash(1), 5, 0, make_hash(2), 0, NETWORK, tuple(topics), data)
    return build_log_decoder(signature, input_names)(log)


def encode_event(signature: AbiSignature, values: list[Any]) -> tuple[list[str], str]:
    """Return topics and data of an event as a contract emits them."""
    pairs = list(zip(signature.inputs, values, strict=True))
    topics = [signature.digest]
    topics += ["0x" + encode([p.abi_type], [v]).hex() for p, v in pairs if p.indexed]
    plain = [(p.abi_type, v) for p, v in pairs if not p.indexed]
    return topics, "0x" + encode([kind for kind, _ in plain], [value for _, value in plain]).hex()


def to_product_value(kind: str, value: Any) -> object:
    """Convert a value of web3 to the product's form."""
    if kind.endswith("[]"):
        return tuple(to_product_value(kind.removesuffix("[]"), part) for part in value)
    if kind == "address":
        return value.lower()
    return "0x" + value.hex() if isinstance(value, bytes) else value


def to_eth_abi_value(kind: str, value: Any) -> Any:
    """Convert a value of the product to eth_abi's form."""
    if kind.endswith("[]"):
        return [to_eth_abi_value(kind.removesuffix("[]"), part) for part in value]
    return bytes.fromhex(value[2:]) if kind.startswith("bytes") else value


def by_web3(contract: str, event: str, topics: list[str], data: str) -> dict[str, object]:
    abi = Web3().eth.contract(abi=_entries(contract))
    log: dict[str, Any] = {
        "address": Web3.to_checksum_address(ADDRESS),
        "topics": [bytes.fromhex(topic[2:]) for topic in topics],
        "data": bytes.fromhex(data[2:]),
        "blockNumber": 1,
        "blockHash": bytes(32),
        "transactionHash": bytes(32),
        "transactionIndex": 0,
        "logIndex": 0,
    }
    receipt: LogReceipt = log  # type: ignore[assignment]  # complete, but built in steps
    return dict(abi.events[event]().process_log(receipt)["args"])


def _entries(contract: str) -> list[Any]:
    signatures = load_abi(contract).events.values()
    return [
        {
            "type": "event",
            "name": signature.name,
            "anonymous": False,
            "inputs": [
                {"name": p.name, "type": p.abi_type, "indexed": p.indexed}
                for p in signature.inputs
            ],
        }
        for signature in signatures
        if "(" not in "".join(p.abi_type for p in signature.inputs)
    ]


@pytest.mark.parametrize(("contract", "event"), READ)
@examples(25)
@given(drawn=st.data())
def test_decoder_matches_web3(contract: str, event: str, drawn: st.DataObject):
    signature = load_abi(contract).get_event(event)
    values = [drawn.draw(values_of(parameter.abi_type)) for parameter in signature.inputs]
    topics, data = encode_event(signature, values)

    decoded = decode_log(signature, topics, data)

    web3_values = by_web3(contract, event, topics, data)
    assert decoded == tuple(
        to_product_value(p.abi_type, web3_values[p.name]) for p in signature.inputs
    )


KINDS = ["uint8", "uint64", "uint72", "int8", "int256", "bool", "address", "bytes4", "bytes32"]
KINDS += ["string", "bytes", "uint16[]", "int64[]", "bytes32[]", "string[]", "bytes[]"]


@examples(200)
@given(drawn=st.data(), kinds=st.lists(st.sampled_from(KINDS), max_size=5))
def test_any_combination_of_types_is_decoded(drawn: st.DataObject, kinds: list[str]):
    signature = AbiSignature("E", tuple(Parameter(f"p{n}", k, False) for n, k in enumerate(kinds)))
    values = [drawn.draw(values_of(kind)) for kind in kinds]
    topics, data = encode_event(signature, values)

    expected = tuple(
        to_product_value(kind, value) for kind, value in zip(kinds, values, strict=True)
    )
    assert decode_log(signature, topics, data) == expected


@examples(200)
@given(
    drawn=st.data(), kind=st.sampled_from(["uint8", "uint72", "int8", "bool", "address", "bytes4"])
)
def test_indexed_values_are_decoded(drawn: st.DataObject, kind: str):
    signature = AbiSignature("E", (Parameter("p", kind, True),))
    value = drawn.draw(values_of(kind))
    topics, _ = encode_event(signature, [value])

    assert decode_log(signature, topics, "0x") == (to_product_value(kind, value),)


@examples(300)
@given(drawn=st.data(), event=st.sampled_from([event for _, event in READ[:21]]))
def test_altered_data_is_rejected_or_reencodes_identically(drawn: st.DataObject, event: str):
    signature = load_abi("TaskNetwork").get_event(event)
    values = [drawn.draw(values_of(parameter.abi_type)) for parameter in signature.inputs]
    topics, data = encode_event(signature, values)
    if data == "0x":
        return
    at = 2 + 64 * drawn.draw(st.integers(0, (len(data) - 2) // 64 - 1))
    word = drawn.draw(st.integers(0, 600) | st.integers(0, 2**256 - 1))
    changed = data[:at] + f"{word:064x}" + data[at + 64 :]

    try:
        read = decode_log(signature, topics, changed)
    except ValueError:
        return
    back = [
        to_eth_abi_value(p.abi_type, value)
        for p, value in zip(signature.inputs, read, strict=True)
    ]
    # Invalid UTF-8 cannot be restored; everything else must be equal.
    assert "\ufffd" in repr(back) or encode_event(signature, back) == (topics, changed)


def of_created() -> tuple[AbiSignature, list[str], str]:
    signature = load_abi("TaskNetwork").get_event("TaskCreated")
    hashes = [bytes([n]) * 32 for n in (1, 2)]
    values = [hashes[0], ADDRESS, hashes[1], 1, 1, 8, "RTX", 24, ["a", "b"], 2, 5, 0, 1, 300, 3]
    return signature, *encode_event(signature, values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:-64], "the data is too short"),
        (lambda data: data + "00" * 32, "the data has the wrong length"),
        (lambda data: data[:66], "the data is too short"),
        (lambda data: data[:66] + "01" + data[68:], "unused bits"),
        (lambda data: data[: 2 + 64 * 3] + f"{32:064x}" + data[2 + 64 * 4 :], "gap"),
        (lambda data: data[:-1] + "1", "padding"),
        (lambda data: data[:-1], "Odd"),
        (lambda data: data[:-1] + "g", "hex"),
    ],
)
def test_noncanonical_encoding_is_rejected(change: Any, reason: str):
    signature, topics, data = of_created()

    with pytest.raises(ValueError, match=reason):
        decode_log(signature, topics, change(data))


def test_wrong_topic_count_is_rejected():
    signature, topics, data = of_created()

    with pytest.raises(ValueError, match="topics"):
        decode_log(signature, topics[:-1], data)


def test_indexed_address_with_dirty_high_bytes_is_rejected():
    signature, topics, data = of_created()

    with pytest.raises(ValueError, match="topic"):
        decode_log(signature, [*topics[:2], "0x01" + topics[2][4:], topics[3]], data)


def test_selected_inputs_are_decoded_in_the_requested_order():
    signature, topics, data = of_created()

    assert decode_log(signature, topics, data, ["timeout", "models"]) == (300, ("a", "b"))


def test_indexed_string_decodes_to_its_hash():
    signature = AbiSignature("E", (Parameter("p", "string", True),))

    assert decode_log(signature, [signature.digest, "0x" + "ab" * 32], "0x") == ("0x" + "ab" * 32,)


@pytest.mark.parametrize("written_by_a_node", [b"\xff\xfe", b"a\0b"])
def test_invalid_utf8_and_nul_are_replaced(written_by_a_node: bytes):
    signature = AbiSignature("E", (Parameter("p", "string", False),))
    data = "0x" + encode(["bytes"], [written_by_a_node]).hex()

    (read,) = decode_log(signature, [signature.digest], data)

    assert "\ufffd" in read
    assert "\0" not in read


def test_large_string_is_decoded():
    signature = AbiSignature("E", (Parameter("p", "string", False),))
    topics, data = encode_event(signature, ["é" * 50_000])

    assert decode_log(signature, topics, data) == ("é" * 50_000,)


def test_structs_and_nested_arrays_are_decoded():
    kinds = ["uint8[3]", "uint8[][]", "(uint8,string)[2]"]
    signature = AbiSignature("E", tuple(Parameter(f"p{n}", k, False) for n, k in enumerate(kinds)))
    topics, data = encode_event(signature, [[1, 2, 3], [[4], []], [(5, "a"), (6, "b")]])

    read = decode_log(signature, topics, data)

    assert read == ((1, 2, 3), ((4,), ()), ((5, "a"), (6, "b")))


def test_unsupported_type_is_rejected_at_construction():
    with pytest.raises(ValueError, match="no decoder"):
        build_log_decoder(AbiSignature("E", (Parameter("p", "uint", False),)))
