"""The structure of the codebase: unique public names,
and import exceptions that only get fewer.
"""

import ast
import importlib
import pkgutil
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.store.outbox.records import CALL_KINDS
from oracle.txmgr.call_registry import CallKind
from tests.house.error_texts import readers
from tests.house.product import PACKAGES, list_nodes, parse_sources

ROOT = Path(__file__).resolve().parents[2]
ORACLE = ROOT / "oracle"
ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")


def test_public_class_names_are_unique():
    places = defaultdict(list)
    for path, tree in parse_sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_module_calls_exec_eval_or_compile():
    called = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in parse_sources().items()
        for node in list_nodes(tree)
        if isinstance(node, ast.Name) and node.id in {"exec", "eval", "compile"}
    ]
    assert called == []


def test_import_contracts_have_no_exceptions():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {
        contract["id"]: contract for contract in pyproject["tool"]["importlinter"]["contracts"]
    }
    assert "ignore_imports" not in contracts["layers"]
    assert "ignore_imports" not in contracts["no-circles"]


# Packages of `oracle`, and those that the wheel ships beside it.
ROOMS = {path.parent.name for path in ORACLE.glob("*/__init__.py")} | set(PACKAGES) - {"oracle"}


@pytest.mark.parametrize(
    ("contract", "allowed"),
    [
        ("web3-rooms", {"bindings", "devnet", "signing", "rpc"}),
        ("one-rpc-stack", {"devnet", "rpc"}),
        ("sql-has-one-room", {"store"}),
    ],
)
def test_every_package_is_covered_by_each_import_contract(contract: str, allowed: set[str]):
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {entry["id"]: entry for entry in pyproject["tool"]["importlinter"]["contracts"]}
    named = {
        name.removeprefix("oracle.")
        for name in contracts[contract]["source_modules"]
        # Single modules of rpc are named.
        if name.removeprefix("oracle.").count(".") == 0
    }
    assert ROOMS - allowed - named == set()
    assert named & allowed == set()


def test_every_call_kind_is_registered_for_metrics_and_commands():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = next(
        contract
        for contract in pyproject["tool"]["importlinter"]["contracts"]
        if contract["id"] == "layers"
    )
    features = next(layer for layer in layers["layers"] if "reporting" in layer).split(" | ")
    for room in features:
        package = importlib.import_module(f"oracle.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    kinds = {
        vars(kind)["name"]
        for kind in _subclasses(CallKind)
        if kind.__module__.split(".")[1] in features and isinstance(vars(kind).get("name"), str)
    }
    assert len(kinds) >= len(features)
    assert kinds <= set(CALL_KINDS)


def _subclasses(kind: type[object]) -> Iterator[type[object]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


# Modules in which a library's errors differ only in their text (decision 0144).
READ_BY_WORDS = {
    "oracle/signing/keystore.py: unlock_keystore",
    "oracle/store/db_errors.py: _translate_sqlite_error",
}


def test_no_decision_depends_on_error_text():
    error_text_readers = {
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path, tree in parse_sources().items()
        for name in readers(tree)
    }
    assert error_text_readers <= READ_BY_WORDS


@pytest.mark.parametrize(
    ("decides", "source"),
    [
        (True, "try:\n  a()\n except E as e:\n  if 'x' in str(e): b()"),
        (True, "try:\n  a()\n except E as e:\n  said = str(e.orig).lower()\n  b(said == 'x')"),
        (False, "try:\n  a()\n except E as e:\n  raise F(str(e)) from e"),
        (False, "try:\n  a()\n except E as e:\n  why = str(e)\n b(why is None)"),
    ],
)
def test_decision_based_on_an_error_text_is_detected(*, decides: bool, source: str):
    assert list(readers(ast.parse(f"def f():\n {source}\n"))) == ["f"] * decides


def test_decision_based_on_the_text_of_an_error_argument_is_detected():
    source = "def f(e: RpcError): return e.words.endswith('x')\n"
    assert list(readers(ast.parse(source))) == ["f"]


NAMED = re.findall(r"`(\w[\w/]*\.py): ([\w.]+)`", ARCHITECTURE)


def test_class_or_function_named_in_the_architecture_exists():
    for place, name in NAMED:
        body = ast.parse((ORACLE / place).read_text("utf-8")).body
        for part in name.split("."):
            named = [node for node in body if getattr(node, "name", None) == part]
            assert named, f"{place}: {name}"
            body = getattr(named[0], "body", [])


def test_documented_log_and_transaction_paths_have_at_most_12_steps():
    paths = re.split(r"^## The path of ", ARCHITECTURE, flags=re.MULTILINE)[1:3]
    steps = [len(re.findall(r"^\| \d+ \|", path, re.MULTILINE)) for path in paths]
    assert len(steps) == 2
    assert all(0 < count <= 12 for count in steps)


def test_architecture_defines_exactly_ten_core_classes():
    section = ARCHITECTURE.split("## Core classes", 1)[1].split("\n## ", 1)[0]
    assert len(re.findall(r"^\| [\w ]+ \| `", section, re.MULTILINE)) == 10
