"""The packages that the wheel ships, as pyproject.toml names them, and their source files."""

import ast
import gc
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: tuple[str, ...] = tuple(
    _SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
)
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@cache
def parse_sources() -> dict[Path, ast.Module]:
    """Return the syntax tree of every source file."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in SOURCES}
    # A million permanent objects: without this, each later collection would visit them.
    gc.freeze()
    return trees


@cache
def list_nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return the nodes of a syntax tree, like `ast.walk`, from a cache.

    Walking all trees takes a second.
    """
    return tuple(ast.walk(tree))


def parse_package(root: Path, package: str) -> dict[Path, ast.Module]:
    """Return the syntax tree of each file of a package, in the product or in a test's folder."""
    if root == ROOT:
        return {
            path: tree for path, tree in parse_sources().items() if root / package in path.parents
        }
    paths = sorted((root / package).rglob("*.py"))
    return {path: ast.parse(path.read_text("utf-8")) for path in paths}
