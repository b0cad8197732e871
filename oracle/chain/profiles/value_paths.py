"""Resolves the value paths of a profile, such as `task`, `params.id` and `@sender`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import itemgetter

from oracle.chain.decode.abi import AbiSignature, Parameter
from oracle.chain.decode.call_arguments import array_of
from oracle.chain.decode.log_parts import Getter, TypedValue
from oracle.chain.profiles.profile import AMOUNT, SENDER, Value

# The parts after the arguments of a call are its sender, value and block.
_OF_A_CALL = {
    SENDER: TypedValue.at(-3, "address"),
    AMOUNT: TypedValue.at(-2, "uint256"),
}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The values that can be read of one event or function, by input name."""

    signature: AbiSignature
    known: Mapping[str, TypedValue]
    is_log: bool

    def taken(self, value: Value) -> TypedValue:
        """Return the typed value of a field value's arguments.

        Raises:
            ValueError: there is no such argument.
        """
        found = [self.argument(path) for path in value.arguments]
        if not value.is_list:
            return found[0]
        return TypedValue(_listed(found), "", tuple(one.kind for one in found))

    def argument(self, path: str) -> TypedValue:
        """Return an argument, a member of a struct, or an element of an array of fixed length.

        Raises:
            ValueError: there is no such value.
        """
        if path.startswith("@"):
            return self._of_the_call(path)
        name, *steps = path.split(".")
        known = {parameter.name: parameter for parameter in self.signature.inputs}
        if name not in known:
            there = f" (there are: {', '.join(known) or 'none'})"
            what = f"{self.signature.text} has no argument {name}"
            raise ValueError(what + hint(name, known) + there)
        given, parameter = self.known[name], known[name]
        for step in steps:
            given, parameter = _inside(given, parameter, step)
        return given

    def _of_the_call(self, path: str) -> TypedValue:
        if self.is_log:
            raise ValueError(f"there is no {path} beside an event, only beside a call")
        if path not in _OF_A_CALL:
            raise ValueError(f"a call has no {path}, but {', '.join(_OF_A_CALL)}")
        return _OF_A_CALL[path]


def arguments_in(paths: Iterable[str]) -> frozenset[str]:
    """Return the names of the arguments that these paths start with."""
    return frozenset(path.partition(".")[0] for path in paths)


def _listed(found: Sequence[TypedValue]) -> Getter:
    places = [one.place for one in found if one.place is not None]
    if len(places) == len(found) > 1:
        return itemgetter(*places)
    reads = [one.read for one in found]
    return lambda parts: tuple([read(parts) for read in reads])


def _inside(given: TypedValue, parameter: Parameter, step: str) -> tuple[TypedValue, Parameter]:
    element, length = array_of(given.kind) or ("", None)
    if length is not None and step.isdecimal() and int(step) < length:
        inner = Parameter("", element, indexed=False, parts=parameter.parts)
        return TypedValue(given.then(itemgetter(int(step))), element), inner
    for place, part in enumerate(() if element else parameter.parts):
        if part.name == step:
            return TypedValue(given.then(itemgetter(place)), part.kind), part
    raise ValueError(f"there is no {step} in {given.shown}")


def hint(name: str, known: Iterable[str]) -> str:
    """Return `, but …` with the closest known name, or an empty string."""
    close = get_close_matches(name, list(known), 1)
    return f", but {close[0]}" if close else ""
