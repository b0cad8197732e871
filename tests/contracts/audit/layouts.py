"""The storage layout of each contract, compared with `storage.json` by `make slither`.

No proxy depends on the layout. But a struct that grows out of its slot costs every caller gas, and
breaks programs that read the slots of a deployed contract.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("storage.json")
CONTRACTS = {
    "contracts/roots/QoSRoots.sol": "QoSRoots",
    "contracts/TaskNetwork.sol": "TaskNetwork",
}


def read_layouts(root: Path) -> dict[str, list[str]]:
    """Return each variable and each field of a struct, with slot, offset and type, as compiled."""
    contracts_by_path = json.loads((root / "out/build-info/audit.json").read_text("utf-8"))[
        "output"
    ]["contracts"]
    return {
        name: [*_variables(contracts_by_path[path][name]["storageLayout"])]
        for path, name in CONTRACTS.items()
    }


def find_moved_fields(root: Path) -> Iterator[str]:
    """Yield a line for each variable or field that differs from `storage.json`."""
    recorded: Mapping[str, list[str]] = json.loads(KEPT.read_text("utf-8"))
    for name, places in read_layouts(root).items():
        for place in sorted({*places} ^ {*recorded.get(name, [])}):
            yield f"{name} {place}: {'new' if place in places else 'gone'}"


def write(root: Path) -> None:
    """Write today's layout."""
    KEPT.write_text(f"{json.dumps(read_layouts(root), indent=1)}\n", "utf-8")


def _variables(layout: Mapping[str, Any]) -> Iterator[str]:
    types = layout["types"] or {}
    for variable in layout["storage"]:
        yield _place(variable, types)
    for struct in types.values():
        for member in struct.get("members", []):
            yield f"{struct['label'].removeprefix('struct ')}.{_place(member, types)}"


def _place(variable: Mapping[str, Any], types: Mapping[str, Any]) -> str:
    kind = types[variable["type"]]["label"]
    return f"{variable['label']}: slot {variable['slot']}, byte {variable['offset']}, {kind}"
