"""`--json` prints a model that HTTP could return, never a dictionary built for it.

A key of such a dictionary is in no schema, and the same fact soon has two keys
(docs/reference/read-api.md#conventions).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.product import ROOT, list_nodes, parse_package

ROOMS = ("oracle/cli", "oracle/queries")
# Formats with fixed bytes, which no model may change: the reason why each stays a dictionary.
FORMATS = {
    "oracle/queries/replay.py::_build_node_rows": "lines of `replay`, compared byte for byte",
    "oracle/queries/replay.py::_build_node_row": "lines of `replay`",
    "oracle/queries/replay.py::_build_legacy_rows": "lines of `replay`",
    "oracle/queries/replay.py::_build_group_row": "lines of `replay`",
    "oracle/queries/replay.py::_build_member_row": "lines of `replay`",
    "oracle/queries/replay.py::_build_anomaly_row": "lines of `replay`",
}
PRINTED_FORMATS = {
    "oracle/cli/inspect/rules_commands.py::show": "the rule file that `--rules FILE` reads",
}
TO_DO = (
    "Answer with a model of oracle/queries and print it by `print_model`; a byte format is named "
    "in FORMATS with its reason."
)
_MAPPINGS = {"dict", "Mapping", "MutableMapping", "OrderedDict"}
_ANY = {"object", "Any", "JsonValue"}


def functions(root: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield each function of the packages by its file and name."""
    for room in ROOMS:
        for path, tree in parse_package(root, room).items():
            name = path.relative_to(root)
            for node in list_nodes(tree):
                if isinstance(node, ast.FunctionDef):
                    yield f"{name}::{node.name}", node


def is_for_json(annotation: ast.expr | None) -> bool:
    """Return whether a type contains a mapping of names to values of any type, at any depth."""
    if annotation is None:
        return False
    for part in ast.walk(annotation):
        if (
            isinstance(part, ast.Subscript)
            and isinstance(part.slice, ast.Tuple)
            and ast.unparse(part.value).rpartition(".")[2] in _MAPPINGS
            and ast.unparse(part.slice.elts[-1]).rpartition(".")[2] in _ANY
        ):
            return True
    return False


def prints_json(function: ast.FunctionDef) -> bool:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any("print_json" in {getattr(f, "id", ""), getattr(f, "attr", "")} for f in calls)


def builders(root: Path) -> set[str]:
    return {name for name, function in functions(root) if is_for_json(function.returns)}


def printers(root: Path) -> set[str]:
    return {name for name, function in functions(root) if prints_json(function)}


def test_no_unlisted_function_returns_a_dictionary_for_json():
    assert builders(ROOT) - FORMATS.keys() == set(), TO_DO


def test_no_unlisted_command_prints_a_dictionary():
    assert printers(ROOT) - PRINTED_FORMATS.keys() == set(), TO_DO


def test_each_listed_format_still_exists():
    assert FORMATS.keys() - builders(ROOT) == set()
    assert PRINTED_FORMATS.keys() - printers(ROOT) == set()


@pytest.mark.parametrize(
    ("returns", "is_refused"),
    [
        ("dict[str, object]", True),
        ("Mapping[str, Any]", True),
        ("Iterator[dict[str, Any]]", True),
        ("tuple[int, list[dict[str, object]]]", True),
        ("dict[str, int]", False),
        ("ReportEntry", False),
        ("None", False),
    ],
)
def test_return_type_with_a_dictionary_of_any_is_detected(tmp_path, returns, is_refused):
    (tmp_path / "oracle" / "cli").mkdir(parents=True)
    (tmp_path / "oracle" / "cli" / "a.py").write_text(f"def f() -> {returns}: ...\n", "utf-8")
    assert builders(tmp_path) == ({"oracle/cli/a.py::f"} if is_refused else set())


def test_printed_dictionary_is_detected(tmp_path):
    (tmp_path / "oracle" / "cli").mkdir(parents=True)
    source = "def f():\n    print_json({'key': 1})\ndef g():\n    print_model(model)\n"
    (tmp_path / "oracle" / "cli" / "a.py").write_text(source, "utf-8")
    assert printers(tmp_path) == {"oracle/cli/a.py::f"}
