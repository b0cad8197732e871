"""Finds what a profile takes of an event or a call: `task`, `params.id`, `@sender`."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from oracle.chain.decode.abi import AbiSignature, Parameter
from oracle.chain.decode.call_arguments import array_of
from oracle.chain.decode.field_bounds import Given
from oracle.chain.decode.log_decoder import DecoderPlan
from oracle.chain.profiles.profile import AMOUNT, SENDER, Value

_OF_A_CALL = {SENDER: Given("log.sender", "address"), AMOUNT: Given("log.value", "uint256")}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What there is to take of one event or function, and the expressions of it."""

    signature: AbiSignature
    plan: DecoderPlan

    def taken(self, value: Value) -> Given:
        """Return what a value takes.

        Raises:
            ValueError: there is no such argument.
        """
        found = [self.argument(path) for path in value.arguments]
        if not value.is_list:
            return found[0]
        listed = "".join(f"{one.value}, " for one in found)
        return Given(f"({listed})", "", tuple(one.kind for one in found))

    def argument(self, path: str) -> Given:
        """Return an argument, a member of a struct, or a place of an array of fixed length.

        Raises:
            ValueError: there is no such thing.
        """
        if path.startswith("@"):
            return self._of_the_call(path)
        name, *steps = path.split(".")
        known = {parameter.name: parameter for parameter in self.signature.inputs}
        if name not in known:
            there = f" (there are: {', '.join(known) or 'none'})"
            what = f"{self.signature.text} has no argument {name}"
            raise ValueError(what + hint(name, known) + there)
        given, parameter = Given(self.plan.values[name], self.plan.kinds[name]), known[name]
        for step in steps:
            given, parameter = _inside(given, parameter, step)
        return given

    def _of_the_call(self, path: str) -> Given:
        if self.plan.is_log:
            raise ValueError(f"there is no {path} beside an event, only beside a call")
        if path not in _OF_A_CALL:
            raise ValueError(f"a call has no {path}, but {', '.join(_OF_A_CALL)}")
        return _OF_A_CALL[path]


def _inside(given: Given, parameter: Parameter, step: str) -> tuple[Given, Parameter]:
    element, length = array_of(given.kind) or ("", None)
    if length is not None and step.isdecimal() and int(step) < length:
        inner = Parameter("", element, indexed=False, parts=parameter.parts)
        return Given(f"{given.value}[{int(step)}]", element), inner
    for place, part in enumerate(() if element else parameter.parts):
        if part.name == step:
            return Given(f"{given.value}[{place}]", part.kind), part
    raise ValueError(f"there is no {step} in {given.shown}")


def hint(name: str, known: Iterable[str]) -> str:
    """Return `, but …` where something known is spelled nearly like this."""
    close = get_close_matches(name, list(known), 1)
    return f", but {close[0]}" if close else ""
