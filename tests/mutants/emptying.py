"""Empties a cited function of docs/fidelity/: a patch that removes the body of one function.

The function is empty while a test runs, and complete while modules are loaded: a function that is
called at import would break every test alike, and show nothing. Processes that a test starts find
it empty, too.
"""

import ast
import difflib
import re
from pathlib import Path

from tests.house.pages.fidelity import Place, is_ours
from tests.house.product import ROOT
from tests.mutants.patches import Mutant

_EMPTY = 'if "PYTEST_CURRENT_TEST" in __import__("os").environ: return'
# A field keeps its position in the row, without a value.
_SILENT = """

def _silent(real):
    def get(self):
        told = __import__("os").environ
        return None if "PYTEST_CURRENT_TEST" in told else real.__get__(self, type(self))

    return property(get, lambda self, value: real.__set__(self, value))


{owner}.{field} = _silent({owner}.__dict__["{field}"])
"""


def write_emptying_patch(place: Place, tests: tuple[str, ...], folder: Path) -> Mutant:
    """Write the patch that empties a cited function, as a mutant that these tests must notice.

    Raises:
        ValueError: it is nothing that can be emptied: a constant, a whole class.
    """
    path, name = place
    changes = {path: _emptied_python(path, name)} if is_ours(path) else _emptied_contract(name)
    patch = folder / f"{re.sub(r'[^a-z0-9]+', '-', f'{path}-{name}'.lower())}.patch"
    patch.write_text("".join(_diff(*change) for change in changes.items()), "utf-8")
    return Mutant(
        path=patch,
        defence=f"{path}::{name}",
        room="fidelity",
        tests=tests,
        cases=(),
        rules=(),
        is_quick=False,
        build=None if is_ours(path) else _built_as(path),
    )


def _diff(path: str, text: str) -> str:
    old = (ROOT / path).read_text("utf-8").splitlines(keepends=True)
    new = text.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))


def _emptied_python(path: str, name: str) -> str:
    text = (ROOT / path).read_text("utf-8")
    node = _definition(ast.parse(text).body, name.split("."))
    lines = text.splitlines(keepends=True)
    if isinstance(node, ast.FunctionDef):
        first = node.body[1] if len(node.body) > 1 and ast.get_docstring(node) else node.body[0]
        lines.insert(_line_of(first) - 1, f"{first.col_offset * ' '}{_EMPTY}\n")
        return "".join(lines)
    owner, _, field = name.rpartition(".")
    if owner and isinstance(node, ast.AnnAssign):
        return text + _SILENT.format(owner=owner, field=field)
    raise ValueError(f"{path}::{name}: a function, a method or a field can be emptied")


def _definition(body: list[ast.stmt], names: list[str]) -> ast.stmt | None:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == names[0]:
            inner = node.body if isinstance(node, ast.ClassDef) else []
            return _definition(inner, names[1:]) if names[1:] else node
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == names[0]:
            return node
    return None


def _line_of(node: ast.stmt) -> int:
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
        return node.decorator_list[0].lineno
    return node.lineno


def _emptied_contract(name: str) -> dict[str, str]:
    """Return the contract files in which a function does nothing, or an event is not emitted."""
    changed_files = {}
    for path in sorted((ROOT / "contracts").rglob("*.sol")):
        text = path.read_text("utf-8")
        less = re.sub(rf"\bemit {name}\([^;]*;", "", text)
        for start in [
            function_match.start() for function_match in re.finditer(rf"\bfunction {name}\(", less)
        ]:
            less = _without_body(less, start)
        if less != text:
            changed_files[str(path.relative_to(ROOT))] = less
    if not changed_files:
        raise ValueError(f"{name}: no contract has a function or emits an event of that name")
    return changed_files


def _without_body(text: str, start: int) -> str:
    opening = text.find("{", start)
    end = text.find(";", start)
    if opening < 0 or 0 <= end < opening:
        # Of an interface.
        return text
    depth = 1
    at = opening + 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return f"{text[: opening + 1]}{text[at - 1 :]}"


def _built_as(path: str) -> str:
    """Return the name of the contract to compile: the deployed one that contains this file."""
    if "/roots/core/" in path:
        return "QoSWords" if path.endswith("/Lanes.sol") else "QoSRoots"
    return Path(path).stem if "/roots/" in path else "TaskNetwork"
