"""Records which fields a process reads; `sitecustomize.py` of a recording starts it in each one.

Coverage knows lines, and `.timeout` may be a field of several classes. Here each cited field is
replaced by a property of its class, as its module is imported, that notes who reads it.
"""

import atexit
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from typing_extensions import override

VARIABLE = "QOS_FIDELITY_FIELDS"


def write_request(folder: Path, root: Path, fields: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Write what the processes of a recording load; return the environment that they need."""
    (folder / "sitecustomize.py").write_text(
        "from tests.house.reach.field_reads import start\n\nstart()\n", "utf-8"
    )
    request = {"root": str(root), "folder": str(folder), "fields": fields}
    return {VARIABLE: json.dumps(request)}


def read_fields(folder: Path, process: int) -> set[tuple[str, str]]:
    """Return the fields that a process has read, as (path, `Class.field`)."""
    path = folder / f"fields.{process}"
    return {(file, name) for file, name in json.loads(path.read_text("utf-8"))}


def start() -> None:
    """Watch the fields that the environment names, in this process, until it ends."""
    request = json.loads(os.environ[VARIABLE])
    watch = _Watch(request["root"], [(path, name) for path, name in request["fields"]])
    sys.meta_path.insert(0, watch)
    # By the process that ends: a forked one has a file of its own.
    atexit.register(lambda: watch.write(Path(request["folder"]) / f"fields.{os.getpid()}"))


class _Watch(MetaPathFinder):
    """Finds the modules with watched fields, and notes the fields that are read."""

    def __init__(self, root: str, fields: Sequence[tuple[str, str]]) -> None:
        self._root = root
        self._fields: dict[str, list[tuple[str, str]]] = {}
        for path, name in fields:
            module = path.removesuffix(".py").replace("/", ".")
            self._fields.setdefault(module, []).append((path, name))
        self.read: set[tuple[str, str]] = set()

    @override
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in self._fields:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _WatchingLoader(spec.loader, self)
        return spec

    def watch_fields(self, module: ModuleType) -> None:
        """Replace the fields of a module's classes by properties."""
        for field in self._fields[module.__name__]:
            owner, _, name = field[1].rpartition(".")
            kind = getattr(module, owner)
            setattr(kind, name, self._property(vars(kind)[name], field))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(sorted(self.read)), "utf-8")

    def _property(self, real: property, field: tuple[str, str]) -> property:
        """Return a property that does what `real`, a slot's or a tuple's descriptor, does."""

        def read(instance: object) -> object:
            # Not by comparisons and copies, whose code dataclasses made.
            if sys._getframe(1).f_code.co_filename.startswith(self._root):
                self.read.add(field)
            return real.__get__(instance, type(instance))

        # A tuple's descriptor sets nothing.
        return property(read, getattr(real, "__set__", None))


class _WatchingLoader(Loader):
    """Loads a module as its own loader does, and replaces the watched fields at the end."""

    def __init__(self, loader: Loader, watch: _Watch) -> None:
        self._loader = loader
        self._watch = watch

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    @override
    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._watch.watch_fields(module)
