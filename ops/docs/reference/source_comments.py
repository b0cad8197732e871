"""Reads the comments that stand directly above names in source code."""

import ast
import inspect
import re
from textwrap import dedent
from types import ModuleType

_COMMENT = re.compile(r"\s*# ?(.*)")


def read_field_comments(owner: type) -> dict[str, str]:
    """Read the comment above each field of a class, by field name.

    A field without a comment has "".
    """
    source = dedent(inspect.getsource(owner))
    (class_node,) = ast.parse(source).body
    if not isinstance(class_node, ast.ClassDef):
        raise TypeError(f"{owner}: not a class")
    return _collect_comments_above(class_node.body, source)


def read_name_comments(module: ModuleType) -> dict[str, str]:
    """Read the comment above each name that a module assigns, by name.

    A name without a comment has "".
    """
    source = inspect.getsource(module)
    return _collect_comments_above(ast.parse(source).body, source)


def _collect_comments_above(body: list[ast.stmt], source: str) -> dict[str, str]:
    lines = source.splitlines()
    return {
        target.id: _read_comment_before(lines, node.lineno - 1)
        for node in body
        for target in _get_targets(node)
        if isinstance(target, ast.Name)
    }


def _get_targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def _read_comment_before(lines: list[str], number: int) -> str:
    """Read the comment that ends just before a line.

    `number` is the number of this line, counted from 0.
    """
    comment_lines: list[str] = []
    while number and (comment := _COMMENT.fullmatch(lines[number - 1])):
        number -= 1
        comment_lines.insert(0, comment[1])
    return " ".join(comment_lines).strip()
