"""ERC-7730 descriptors show every call of the contracts' roles, with the types of the ABI.

Specification: https://github.com/ethereum/ERCs/blob/master/ERCS/erc-7730.md, version 2 of its
schema: keys are signatures with parameter names.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from oracle.chain.proofs.keccak import keccak
from tests.contracts.roots.objections_driver import FIELDS
from tests.support.evm.artifacts import ABI, load_artifact

FOLDER = ABI.parent / "contracts" / "descriptors"
ARTIFACTS = {
    "Objections": "roots/Objections",
    "QoSRoots": "roots/QoSRoots",
    "TimelockController": "TimelockController",
}
MESSAGE = "eip712-Objection"
# Token contracts call these when they send tokens to the timelock; no wallet signs them.
CALLBACKS = {"onERC721Received", "onERC1155Received", "onERC1155BatchReceived"}
# Calls of programs, which carry proofs and signatures. Anyone may send them.
OPEN_CALLS = {"push", "accuse", "executeKick", "clear", "objectFor"}
# The ABI types that a format shows.
TYPES = {
    "raw": re.compile(r"u?int\d+|bytes\d*|bool|string|address"),
    "addressName": re.compile(r"address"),
    "amount": re.compile(r"uint256"),
    "calldata": re.compile(r"bytes"),
    "date": re.compile(r"uint\d+"),
    "duration": re.compile(r"uint\d+"),
    "enum": re.compile(r"uint\d+"),
    "unit": re.compile(r"uint\d+"),
}
# The required and the permitted parameters of a format.
REQUIRED_PARAMS = {
    "date": {"encoding"},
    "enum": {"$ref"},
    "unit": {"base"},
    "calldata": {"calleePath"},
}
OPTIONAL_PARAMS = {
    "addressName": {"types", "sources"},
    "calldata": {"amountPath"},
    "unit": {"decimals", "prefix"},
}
MAX_LABEL = 48


@dataclass(frozen=True)
class Call:
    """A function of a contract, and the text that a wallet shows for it."""

    name: str
    signature: str
    types: dict[str, str]
    display_format: dict[str, Any]

    @property
    def fields(self) -> list[dict[str, Any]]:
        return list(self.display_format["fields"])


def format_parameter(parameter: dict[str, Any]) -> str:
    kind = parameter["type"]
    if kind.startswith("tuple"):
        parts = ", ".join(map(format_parameter, parameter["components"]))
        kind = f"({parts}){kind.removeprefix('tuple')}"
    return f"{kind} {parameter['name']}"


def iter_paths(parameters: list[dict[str, Any]], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of every value of a call; `.[]` is each entry of an array."""
    for parameter in parameters:
        kind = parameter["type"]
        path = prefix + parameter["name"]
        while kind.endswith("[]"):
            kind = kind.removesuffix("[]")
            path = f"{path}.[]"
        if kind == "tuple":
            yield from iter_paths(parameter["components"], f"{path}.")
        else:
            yield path, kind


def read_descriptor(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"calldata-{name}.json").read_text("utf-8")))


def iter_calls(name: str) -> Iterator[Call]:
    """Yield the functions that change something, with what their descriptor shows."""
    formats = read_descriptor(name)["display"]["formats"]
    for part in load_artifact(ARTIFACTS[name])["abi"]:
        if part["type"] != "function" or part["stateMutability"] in {"view", "pure"}:
            continue
        if part["name"] not in CALLBACKS:
            signature = f"{part['name']}({', '.join(map(format_parameter, part['inputs']))})"
            types = dict(iter_paths(part["inputs"]))
            yield Call(part["name"], signature, types, formats.get(signature, {"fields": []}))


CALLS = [
    pytest.param(call, id=f"{name}.{call.name}") for name in ARTIFACTS for call in iter_calls(name)
]


def test_every_descriptor_is_tested():
    names = {path.stem for path in FOLDER.glob("*")}
    assert names == {MESSAGE, *(f"calldata-{name}" for name in ARTIFACTS)}


@pytest.mark.parametrize("name", ARTIFACTS)
def test_descriptor_covers_exactly_the_calls_of_the_contract(name: str):
    formats = read_descriptor(name)["display"]["formats"]
    assert set(formats) == {call.signature for call in iter_calls(name)}


@pytest.mark.parametrize("name", ARTIFACTS)
def test_descriptor_has_required_sections(name: str):
    """An operator's own file includes it and adds the deployments, as for ERC-20."""
    descriptor = read_descriptor(name)
    assert descriptor["$schema"].endswith("erc7730-v2.schema.json")
    assert set(descriptor) == {"$schema", "$comment", "context", "metadata", "display"}
    assert descriptor["context"] == {"$id": name, "contract": {}}
    assert set(descriptor["metadata"]) - {"enums"} == {"contractName"}
    assert set(descriptor["display"]) == {"formats"}


@pytest.mark.parametrize("call", CALLS)
def test_descriptor_states_the_purpose_of_the_call(call: Call):
    assert set(call.display_format) == {"intent", "fields"}
    assert re.fullmatch(r"[A-Z][^{}]{3,70}[a-z]", call.display_format["intent"])


@pytest.mark.parametrize("call", CALLS)
def test_descriptor_has_one_labelled_field_per_call_argument(call: Call):
    paths = [field["path"] for field in call.fields]
    assert sorted(paths) == sorted(call.types)
    labels = [field["label"] for field in call.fields]
    assert len(set(labels)) == len(labels)
    assert max(map(len, labels), default=0) <= MAX_LABEL


@pytest.mark.parametrize("call", CALLS)
def test_display_format_fits_the_abi_type(call: Call):
    for field in call.fields:
        assert TYPES[field["format"]].fullmatch(call.types[field["path"]]), field
        params = set(field.get("params", ()))
        required = REQUIRED_PARAMS.get(field["format"], set())
        assert required <= params <= required | OPTIONAL_PARAMS.get(field["format"], set()), field


@pytest.mark.parametrize("call", CALLS)
def test_embedded_call_shows_contract_and_amount(call: Call):
    for field in call.fields:
        for param, kind in {"calleePath": "address", "amountPath": "uint256"}.items():
            if field["format"] == "calldata":
                path = field["params"][param]
                assert call.types[path] == kind
                assert path.count(".[]") == field["path"].count(".[]")


def test_documented_role_values_match_timelock():
    page = (FOLDER.parent / "README.md").read_text("utf-8")
    rows = dict(
        re.findall(r"^\| `([A-Z_]+_ROLE)` \|.*\| `0x([0-9a-f]{64})` \|$", page, re.MULTILINE)
    )
    getters = {
        part["name"] for part in load_artifact("TimelockController")["abi"] if "name" in part
    }
    assert set(rows) == {name for name in getters if name.endswith("_ROLE")}
    assert rows.pop("DEFAULT_ADMIN_ROLE") == bytes(32).hex()
    assert rows == {name: keccak(name.encode()).hex() for name in rows}


def render_message(descriptor: dict[str, Any], message: dict[str, Any]) -> list[str]:
    """Return the lines that a wallet shows for an objection, as the formats define them."""
    (display_format,) = descriptor["display"]["formats"].values()
    lines = [display_format["intent"]]
    for field in display_format["fields"]:
        value = message[field["path"]]
        if field["format"] == "date":
            value = datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M")
        if field["format"] == "enum":
            enum = field["params"]["$ref"].rpartition(".")[2]
            value = descriptor["metadata"]["enums"][enum][str(value)]
        if field["visible"] == "always":
            lines.append(f"{field['label']}: {value}")
    return lines


def test_message_descriptor_shows_readable_objection():
    descriptor = json.loads((FOLDER / f"{MESSAGE}.json").read_text("utf-8"))
    (type_text,) = descriptor["display"]["formats"]
    fields = ",".join(f"{field['type']} {field['name']}" for field in FIELDS)
    assert type_text == f"Objection({fields})"
    domain = descriptor["context"]["eip712"]["domain"]
    assert domain == {"name": "QoSObjections", "version": "1"}
    values = ("0x" + "ab" * 20, 1_700_000_000, 2, "It was not me.", 0, 1_700_086_400)

    message = dict(zip((field["name"] for field in FIELDS), values, strict=True))

    assert render_message(descriptor, message) == [
        "Object to a kickout",
        f"Node: {values[0]}",
        "Kickout due since: 2023-11-14 22:13",
        "Reason: The application's fault",
        "Explanation (public): It was not me.",
        "Expires: 2023-11-15 22:13",
    ]


def test_both_objection_descriptors_list_the_same_reasons():
    message = json.loads((FOLDER / f"{MESSAGE}.json").read_text("utf-8"))
    assert read_descriptor("Objections")["metadata"] == message["metadata"]


@pytest.mark.parametrize("call", CALLS)
def test_descriptors_of_role_calls_hide_no_value(call: Call):
    """Only computed values are hidden: proofs, signatures, the rest of a leaf."""
    hidden = {field["path"] for field in call.fields if field["visible"] == "never"}
    if call.name in OPEN_CALLS:
        assert hidden < set(call.types)
    else:
        assert hidden == set()
    assert {field["visible"] for field in call.fields} <= {"always", "optional", "never"}
