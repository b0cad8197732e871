"""Makes events quickly: millions of them are made in a backfill."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick(kind: type[T]) -> Callable[..., T]:
    """Return a function that makes what `kind(...)` makes, in half the time.

    `kind` is a dataclass, frozen, with slots and nothing done after its making. Its own
    `__init__` goes around the guard of each field; this one fills the slots directly.
    """
    named = fields(kind)  # type: ignore[arg-type]  # a TypeVar cannot ask for a dataclass
    known: dict[str, Any] = {"_new": object.__new__, "_kind": kind}
    given, lines = [], ["_made = _new(_kind)"]
    for field in named:
        known[f"_set_{field.name}"] = getattr(kind, field.name).__set__
        known[f"_default_{field.name}"] = field.default
        has_default = field.default is not MISSING
        given.append(f"{field.name}=_default_{field.name}" if has_default else field.name)
        lines.append(f"_set_{field.name}(_made, {field.name})")
    body = "".join(f"    {line}\n" for line in [*lines, "return _made"])
    text = f"def make({', '.join(given)}):\n{body}"
    # The text is made of the names of our own fields.
    exec(compile(text, f"<maker of {kind.__name__}>", "exec"), known)  # noqa: S102
    make: Callable[..., T] = known["make"]
    return make
