"""The parts of a log or call before its fields are decoded, as one flat tuple.

Topics come first, then the data words that are read, then values of dynamic size. Each input has
a fixed index, so that reading a field is a single step.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from oracle.chain.decode.abi import Parameter

Parts: TypeAlias = tuple[Any, ...]
Getter: TypeAlias = Callable[[Parts], Any]


class TypedValue(NamedTuple):
    """A decoded value: its getter and its canonical Solidity type.

    A list combined from several values has their types in `abi_types`, and no type of its own.
    `index` is the index among the parts if the value is used without conversion.
    """

    read: Getter
    kind: str
    kinds: tuple[str, ...] = ()
    place: int | None = None

    @classmethod
    def at(cls, place: int, kind: str) -> "TypedValue":
        """Return the value at an index of the parts."""
        return cls(itemgetter(place), kind, (), place)

    def then(self, fit: Callable[[Any], Any]) -> Getter:
        """Return a getter that reads the value and converts it."""
        read, place = self.read, self.place
        if place is None:
            return lambda parts: fit(read(parts))
        return lambda parts: fit(parts[place])

    @property
    def shown(self) -> str:
        """The type as shown in error messages."""
        if self.kinds:
            return f"a list of {', '.join(self.kinds)}"
        return self.kind or "only the hash of a value"


def in_a_row(parameters: Sequence[Parameter], first: int) -> dict[str, TypedValue]:
    """Return the values of inputs with consecutive indexes, by input name."""
    return {
        parameter.name: TypedValue.at(place, parameter.kind)
        for place, parameter in enumerate(parameters, first)
    }
