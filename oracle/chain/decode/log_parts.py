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
    `part_index` is the index among the parts if the value is used without conversion.
    """

    getter: Getter
    abi_type: str
    abi_types: tuple[str, ...] = ()
    part_index: int | None = None

    @classmethod
    def at_index(cls, index: int, abi_type: str) -> "TypedValue":
        """Return the value at an index of the parts."""
        return cls(itemgetter(index), abi_type, (), index)

    def with_conversion(self, convert: Callable[[Any], Any]) -> Getter:
        """Return a getter that reads the value and converts it."""
        get_value, index = self.getter, self.part_index
        if index is None:
            return lambda parts: convert(get_value(parts))
        return lambda parts: convert(parts[index])

    @property
    def type_description(self) -> str:
        """The type as shown in error messages."""
        if self.abi_types:
            return f"a list of {', '.join(self.abi_types)}"
        return self.abi_type or "only the hash of a value"


def build_consecutive_values(
    parameters: Sequence[Parameter], first_index: int
) -> dict[str, TypedValue]:
    """Return the values of inputs with consecutive indexes, by input name."""
    return {
        parameter.name: TypedValue.at_index(index, parameter.abi_type)
        for index, parameter in enumerate(parameters, first_index)
    }
