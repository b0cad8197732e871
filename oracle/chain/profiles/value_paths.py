"""Resolves value paths of a profile, such as `task`, `params.id` and `@sender`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import itemgetter

from oracle.chain.decode.abi import AbiSignature, Parameter
from oracle.chain.decode.call_arguments import parse_array_type
from oracle.chain.decode.decoder_plan import Getter, TypedValue
from oracle.chain.profiles.profile import AMOUNT, SENDER, FieldValue

# The parts of a call are its arguments, then the sender, the value and the block number.
_CALL_VALUES = {
    SENDER: TypedValue.at_index(-3, "address"),
    AMOUNT: TypedValue.at_index(-2, "uint256"),
}


@dataclass(frozen=True, slots=True)
class InputValues:
    """The values that can be read from one event or function, keyed by input name."""

    signature: AbiSignature
    value_by_input: Mapping[str, TypedValue]
    is_log: bool

    def resolve_value(self, value: FieldValue) -> TypedValue:
        """Return the typed value of the arguments to which a field value refers.

        Raises:
            ValueError: there is no such argument.
        """
        typed_values = [self.resolve_path(path) for path in value.arguments]
        if not value.is_list:
            return typed_values[0]
        return TypedValue(
            _build_list_getter(typed_values),
            "",
            tuple(typed_value.abi_type for typed_value in typed_values),
        )

    def resolve_path(self, path: str) -> TypedValue:
        """Return the argument, struct member or array element at a path.

        Raises:
            ValueError: there is no such value.
        """
        if path.startswith("@"):
            return self._resolve_call_value(path)
        name, *steps = path.split(".")
        parameter_by_name = {parameter.name: parameter for parameter in self.signature.inputs}
        if name not in parameter_by_name:
            available_note = f" (available: {', '.join(parameter_by_name) or 'none'})"
            fault_text = f"{self.signature.text} has no argument {name}"
            raise ValueError(
                fault_text + format_name_suggestion(name, parameter_by_name) + available_note
            )
        typed_value = self.value_by_input[name]
        parameter = parameter_by_name[name]
        for step in steps:
            typed_value, parameter = _resolve_member(typed_value, parameter, step)
        return typed_value

    def _resolve_call_value(self, path: str) -> TypedValue:
        if self.is_log:
            raise ValueError(f"{path} is only available for calls, not for events")
        if path not in _CALL_VALUES:
            raise ValueError(f"a call has no {path}; expected one of {', '.join(_CALL_VALUES)}")
        return _CALL_VALUES[path]


def collect_argument_names(paths: Iterable[str]) -> frozenset[str]:
    """Return the argument names with which paths begin."""
    return frozenset(path.partition(".")[0] for path in paths)


def _build_list_getter(typed_values: Sequence[TypedValue]) -> Getter:
    indexes = [value.part_index for value in typed_values if value.part_index is not None]
    if len(indexes) == len(typed_values) > 1:
        return itemgetter(*indexes)
    getters = [typed_value.getter for typed_value in typed_values]
    return lambda parts: tuple([get_value(parts) for get_value in getters])


def _resolve_member(
    typed_value: TypedValue, parameter: Parameter, step: str
) -> tuple[TypedValue, Parameter]:
    element_type, length = parse_array_type(typed_value.abi_type) or ("", None)
    if length is not None and step.isdecimal() and int(step) < length:
        element_parameter = Parameter(
            "", element_type, indexed=False, components=parameter.components
        )
        return TypedValue(
            typed_value.build_converting_getter(itemgetter(int(step))), element_type
        ), element_parameter
    for index, component in enumerate(() if element_type else parameter.components):
        if component.name == step:
            return TypedValue(
                typed_value.build_converting_getter(itemgetter(index)), component.abi_type
            ), component
    raise ValueError(f"there is no {step} in {typed_value.type_description}")


def format_name_suggestion(name: str, known_names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the closest known name.

    The result is empty if no name is close.
    """
    matches = get_close_matches(name, list(known_names), 1)
    return f"; did you mean {matches[0]}?" if matches else ""
