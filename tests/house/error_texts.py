"""Finds code that decides by the text of an error instead of its class."""

import ast
from collections.abc import Iterator

from tests.house.product import list_nodes

_READS = frozenset({"startswith", "endswith", "find", "index", "count", "search", "match"})


def readers(tree: ast.Module) -> Iterator[str]:
    """Yield the functions of a module that decide by an error's text."""
    for node in list_nodes(tree):
        if isinstance(node, ast.FunctionDef) and _reads(node):
            yield node.name


def _reads(function: ast.FunctionDef) -> bool:
    errors = set(_errors(function))
    if not errors:
        return False
    texts = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _is_text(node.value, errors, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return any(_decides(node, errors, texts) for node in ast.walk(function))


def _errors(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of a function's variables that hold caught errors or error arguments."""
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name is not None:
            yield node.name
        if isinstance(node, ast.arg) and _is_error(node.annotation):
            yield node.arg


def _is_error(annotation: ast.expr | None) -> bool:
    """Return whether a type annotation contains the name of an error class."""
    parts = () if annotation is None else ast.walk(annotation)
    names = (getattr(part, field, "") for part in parts for field in ("id", "attr", "value"))
    return any(
        isinstance(name, str) and ("Error" in name or "Exception" in name) for name in names
    )


def _decides(node: ast.AST, errors: set[str], texts: set[str]) -> bool:
    if isinstance(node, ast.Compare):
        if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return False
        return any(
            _is_text(expression, errors, texts) for expression in [node.left, *node.comparators]
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        read = [node.func.value, *node.args]
        return node.func.attr in _READS and any(
            _is_text(expression, errors, texts) for expression in read
        )
    return False


def _is_text(node: ast.expr, errors: set[str], texts: set[str]) -> bool:
    """Return whether an expression is the text of an error, possibly in lower case or stripped."""
    if isinstance(node, ast.Name):
        return node.id in texts
    if isinstance(node, ast.Attribute):
        is_error = isinstance(node.value, ast.Name) and node.value.id in errors
        return is_error and node.attr in {"words", "args"}
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return _is_text(node.func.value, errors, texts)
    is_str = isinstance(node.func, ast.Name) and node.func.id in {"str", "repr"}
    return is_str and any(_root(argument) in errors for argument in node.args)


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
