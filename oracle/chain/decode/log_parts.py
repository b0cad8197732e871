"""What a log or a call is taken apart into before its fields are read: one flat tuple.

First the topics, then the words of the data that are wanted, then what has no fixed size: each
input stands at a place known beforehand, so that reading a field is one step.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from oracle.chain.decode.abi import Parameter

Parts: TypeAlias = tuple[Any, ...]
Getter: TypeAlias = Callable[[Parts], Any]


class TypedValue(NamedTuple):
    """A value of the chain: what reads it, and its canonical Solidity type.

    A list put together of several values has their types, in `kinds`, and none of its own.
    `place` where it stands among the parts as it is.
    """

    read: Getter
    kind: str
    kinds: tuple[str, ...] = ()
    place: int | None = None

    @classmethod
    def at(cls, place: int, kind: str) -> "TypedValue":
        """Return the value that stands at a place."""
        return cls(itemgetter(place), kind, (), place)

    def then(self, fit: Callable[[Any], Any]) -> Getter:
        """Return what reads the value and bends it."""
        read, place = self.read, self.place
        if place is None:
            return lambda parts: fit(read(parts))
        return lambda parts: fit(parts[place])

    @property
    def shown(self) -> str:
        """How its type is told to people."""
        if self.kinds:
            return f"a list of {', '.join(self.kinds)}"
        return self.kind or "only the hash of a value"


def in_a_row(parameters: Sequence[Parameter], first: int) -> dict[str, TypedValue]:
    """Return inputs that stand one after the other as they are, by their names."""
    return {
        parameter.name: TypedValue.at(place, parameter.kind)
        for place, parameter in enumerate(parameters, first)
    }
