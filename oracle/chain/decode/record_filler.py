"""Makes frozen dataclasses quickly: millions of events are made in a backfill.

Their own `__init__` goes around the guard of each field; filling the slots takes half the time.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any


def filled(
    kind: type, values: Mapping[str, str], made: str = "made"
) -> tuple[dict[str, Any], list[str]]:
    """Return lines of Python that make a `kind` and call it `made`, and what their names mean.

    `kind` is a dataclass with slots, and does nothing after its making; `values` are expressions
    by the names of its fields, those with a default may be left out. Several of different names
    may stand in one function.

    Raises:
        ValueError: a field is missing, or there is no such field.
    """
    known: dict[str, Any] = {"_new": object.__new__, f"_{made}": kind}
    lines = [f"{made} = _new(_{made})"]
    named = {field.name: field for field in fields(kind)}
    strangers = values.keys() - named.keys()
    if strangers:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(strangers))}")
    for name, field in named.items():
        known[f"_{made}_{name}"] = getattr(kind, name).__set__
        value = values.get(name)
        if value is None:
            if field.default is MISSING:
                raise ValueError(f"{kind.__name__}: nothing for {name}")
            value = f"_{made}_default_{name}"
            known[value] = field.default
        lines.append(f"_{made}_{name}({made}, {value})")
    return known, lines
