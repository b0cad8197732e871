"""Reads oracle/ as a graph of definitions: what each function, method and class mentions.

Read, not run: a definition reaches what its text names. `docs/explanation/fidelity.md#reach` says
what such a reading cannot see.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tests.house.product import PACKAGES, ROOT, SOURCES

Function = ast.FunctionDef | ast.AsyncFunctionDef
# A path from the top of the checkout and a name in it: `oracle/a.py::C.m`; "" is the module.
Place = tuple[str, str]


@dataclass(slots=True)
class Definition:
    """A function, a class (what runs as it is made), a constant, or a module (all the rest).

    `uses`: what it mentions by a name that says what is meant. `attributes`: what it mentions
    behind a dot, of whom nobody can tell. `fields`: of a class, its own annotated names.
    """

    place: Place
    uses: set[Place] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    bases: set[Place] = field(default_factory=set)
    methods: dict[str, Place] = field(default_factory=dict)
    fields: set[str] = field(default_factory=set)
    is_class: bool = False


class Module:
    """One file: the names at its top, and every definition in it."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.imported: set[str] = set()
        self.names: dict[str, Place] = {}
        self.definitions: dict[str, Definition] = {}
        self._bind(tree)
        self._define(tree.body, "", Definition((path, "")))

    def _bind(self, tree: ast.Module) -> None:
        for node in _imports(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    self._import(one.name, None, one.asname or one.name.partition(".")[0])
            elif node.module:
                for one in node.names:
                    self._import(node.module, one.name, one.asname or one.name)
        for statement in tree.body:
            for name in _bound_by(statement):
                self.names[name] = (self.path, name)

    def _import(self, module: str, name: str | None, bound: str) -> None:
        files = [file_of(module), None if name is None else file_of(f"{module}.{name}")]
        self.imported |= {file for file in files if file}
        if files[1]:
            self.names[bound] = (files[1], "")
        elif files[0]:
            self.names[bound] = (files[0], name or "")

    def _define(self, body: list[ast.stmt], prefix: str, owner: Definition) -> None:
        """Sort what stands here: what runs at once is the owner's, the rest has its own place."""
        self.definitions[prefix.rstrip(".")] = owner
        for statement in body:
            if isinstance(statement, Function):
                name = prefix + statement.name
                made = Definition((self.path, name))
                owner.methods[statement.name] = made.place
                self._read(made, statement.body)
                self._read(owner, [*statement.decorator_list, *_defaults(statement)])
                known = self.definitions.get(name)
                if known is not None:
                    # A property and its setter, the forms of an overload.
                    made.uses |= known.uses
                    made.attributes |= known.attributes
                self.definitions[name] = made
            elif isinstance(statement, ast.ClassDef):
                made = Definition((self.path, prefix + statement.name), is_class=True)
                self._read(owner, statement.decorator_list)
                self._read(made, statement.bases)
                made.bases = set(made.uses)
                self._define(statement.body, f"{prefix}{statement.name}.", made)
            elif owner.is_class or not [*_bound_by(statement)]:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    owner.fields.add(statement.target.id)
                self._read(owner, [statement])
            else:
                # A constant counts where it is mentioned: a list of all systems is made by
                # whoever imports it, and runs none of them.
                made = Definition((self.path, ""))
                self._read(made, [statement])
                for name in _bound_by(statement):
                    self.definitions[name] = replace(made, place=(self.path, name))

    def _read(self, into: Definition, nodes: list[ast.stmt] | list[ast.expr]) -> None:
        for node in nodes:
            for part in _parts(node):
                if isinstance(part, ast.Name) and part.id in self.names:
                    into.uses.add(self.names[part.id])
                elif isinstance(part, ast.Attribute):
                    found = self._dotted(part)
                    if found is None:
                        into.attributes.add(part.attr)
                    else:
                        into.uses.add(found)

    def _dotted(self, node: ast.Attribute) -> Place | None:
        """Return what `module.name` means; None: the name before the dot is no module of ours."""
        if not isinstance(node.value, ast.Name):
            return None
        path, name = self.names.get(node.value.id, ("", "?"))
        return (path, node.attr) if not name else None


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield those in functions too; an expression holds none, and is most of a tree."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.stmt):
            yield from _imports(node)


def _bound_by(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, Function | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (
            part.id for one in targets for part in ast.walk(one) if isinstance(part, ast.Name)
        )


def _defaults(node: Function) -> list[ast.expr]:
    return [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Go through all of it but annotations and questions after a type: those call nothing."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        skipped = _called_by_nobody(part)
        waiting += [one for one in ast.iter_child_nodes(part) if one not in skipped]


def _called_by_nobody(node: ast.AST) -> Sequence[ast.AST | None]:
    found: Sequence[ast.AST | None] = ()
    match node:
        case ast.AnnAssign() | ast.arg():
            found = [node.annotation]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            found = [node.returns]
        case ast.ExceptHandler():
            found = [node.type]
        case ast.MatchClass():
            found = [node.cls]
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
            found = node.args[1:]
    return found


def file_of(module: str) -> str | None:
    """Return the file of a module of ours, None: it is somebody else's, or no module."""
    base = module.replace(".", "/")
    if base.partition("/")[0] not in PACKAGES:
        return None
    known = (path for path in (f"{base}.py", f"{base}/__init__.py") if (ROOT / path).is_file())
    return next(known, None)


@cache
def modules() -> dict[str, Module]:
    """Return every source file of the product, by path."""
    return {
        str(path.relative_to(ROOT)): Module(
            str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8"))
        )
        for path in SOURCES
    }
