"""The field widths in the network's views are those of the compiler's packing."""

import json
import re
from pathlib import Path

import pytest

from tests.contracts.audit.layouts import KEPT
from tests.support.evm.artifacts import load_artifact

ROOT = Path(__file__).resolve().parents[3]
NETWORK = ROOT / "contracts" / "network"
# A field begins the next slot.
NEXT = 0x80


def widths(name: str) -> bytes:
    """Return the constant that a view uses, from the source that defines it."""
    sources = "".join(path.read_text("utf-8") for path in sorted(NETWORK.glob("*.sol")))
    (fields_hex,) = re.findall(
        rf'{name}_FIELDS =\s*bytes32\(bytes\d+\(hex"([0-9a-f]+)"\)\)', sources
    )
    return bytes.fromhex(fields_hex)


def width_of(kind: str) -> int:
    """Return the size of a value of this Solidity type in bytes."""
    if kind.startswith(("bool", "enum")):
        return 1
    bits = re.fullmatch(r"uint(\d+)", kind)
    return int(bits[1]) // 8 if bits else {"address": 20, "bytes32": 32}[kind]


def laid_out(struct: str) -> bytes:
    """Return the widths by the compiler's layout, which `make slither` keeps."""
    lines = json.loads(KEPT.read_text("utf-8"))["TaskNetwork"]
    place = rf"{re.escape(struct)}\.\w+: slot (\d+), byte (\d+), (\S+).*"
    fields = [field_match for line in lines if (field_match := re.fullmatch(place, line))]
    ordered = sorted(
        (int(field_match[1]), int(field_match[2]), field_match[3]) for field_match in fields
    )
    slots = [-1, *(slot for slot, _, _ in ordered)]
    return bytes(
        width_of(kind) | (NEXT if slot > max(before, 0) else 0)
        for before, (slot, _, kind) in zip(slots, ordered, strict=False)
    )


@pytest.mark.parametrize(
    ("struct", "view"),
    [
        ("Members.Node", "nodeOf"),
        ("Tasks.Task", "taskOf"),
        ("Tasks.Group", "groupOf"),
        ("Administration.Settings", "settings"),
        ("Floors.Floor", "floorOf"),
    ],
)
def test_view_field_widths_match_the_storage_layout_of_the_compiler(struct: str, view: str):
    fields = widths(struct.rsplit(".", maxsplit=1)[-1].upper())
    abi = load_artifact("TaskNetwork")["abi"]
    (components,) = (part["outputs"][0]["components"] for part in abi if part.get("name") == view)
    assert fields == laid_out(struct)
    assert len(fields) == len(components)
