"""Parses a contract's ABI, from compiler JSON or from human-readable signatures.

An example of a signature is `event TaskStarted(bytes32 indexed task, address node)`. Solidity
keywords between a type and a name (`calldata`, `payable` …) are permitted and ignored, and so is
everything after the inputs of a function.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.errors import FatalError
from oracle.resources import find_shipped_path

# The length of a selector: `0x` and the first four bytes of a call's input in hex.
SELECTOR_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input of an event or function.

    `abi_type` is the canonical Solidity type. `components` are the members of a struct, or of the
    structs in an array.
    """

    name: str
    abi_type: str
    indexed: bool
    components: tuple["Parameter", ...] = ()


@dataclass(frozen=True)
class AbiSignature:
    """The signature of an event, function or error.

    Only functions have outputs.
    """

    name: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...] = ()

    @property
    def input_types(self) -> list[str]:
        """Return the canonical types of the inputs."""
        return [parameter.abi_type for parameter in self.inputs]

    @cached_property
    def text(self) -> str:
        """Return the canonical signature, for example `transfer(address,uint256)`."""
        return f"{self.name}({','.join(self.input_types)})"

    @cached_property
    def digest(self) -> str:
        """Return the Keccak-256 hash of the canonical signature, as `0x` hex.

        The hash is an event's first topic.
        """
        return "0x" + keccak(self.text.encode()).hex()

    @property
    def selector(self) -> str:
        """Return the four-byte function selector, as `0x` hex."""
        return self.digest[:SELECTOR_DIGITS]


@dataclass(frozen=True, slots=True)
class Abi:
    """The events and functions of one shipped contract, by name.

    No name is overloaded.
    """

    contract_name: str
    events: dict[str, AbiSignature]
    functions: dict[str, AbiSignature]

    def get_event(self, name: str) -> AbiSignature:
        """Return the event with this name.

        Raises:
            FatalError: the shipped artifact does not contain the event.
        """
        if name not in self.events:
            raise FatalError(
                f"abi/{self.contract_name}.json has no event {name}; reinstall qos-oracle"
            )
        return self.events[name]

    def get_function(self, name: str) -> AbiSignature:
        """Return the function with this name.

        Raises:
            FatalError: the shipped artifact does not contain the function.
        """
        if name not in self.functions:
            raise FatalError(
                f"abi/{self.contract_name}.json: the function {name} is missing; reinstall "
                "qos-oracle"
            )
        return self.functions[name]


@lru_cache
def load_abi(contract: str) -> Abi:
    """Return the ABI of a shipped contract.

    Raises:
        FatalError: the installation does not contain the artifact.
    """
    artifact = msgspec.json.decode(find_shipped_path(f"abi/{contract}.json").read_bytes())
    return parse_abi(contract, artifact["abi"])


def parse_abi(contract: str, entries: Sequence[dict[str, Any]]) -> Abi:
    """Parse the entries of a JSON ABI."""
    events = {signature.name: signature for signature in parse_signatures(entries, "event")}
    functions = {signature.name: signature for signature in parse_signatures(entries, "function")}
    return Abi(contract, events, functions)


def parse_signatures(entries: Sequence[dict[str, Any]], entry_type: str) -> list[AbiSignature]:
    """Return all ABI entries of one kind, including overloads.

    The kind is `event`, `function`, `error` …
    """
    return [_parse_json_signature(entry) for entry in entries if entry["type"] == entry_type]


def _parse_json_signature(entry: dict[str, Any]) -> AbiSignature:
    return AbiSignature(
        # A constructor's entry has no name.
        entry.get("name", ""),
        tuple(map(_parse_json_parameter, entry["inputs"])),
        tuple(map(_parse_json_parameter, entry.get("outputs", ()))),
    )


def _parse_json_parameter(input_: dict[str, Any]) -> Parameter:
    components = tuple(
        _parse_json_parameter(component) for component in input_.get("components", ())
    )
    abi_type: str = input_["type"]
    if abi_type.startswith("tuple"):
        # A canonical signature spells out a tuple's components. All other types are already
        # canonical in the JSON.
        component_types_text = ",".join(component.abi_type for component in components)
        abi_type = f"({component_types_text}){abi_type.removeprefix('tuple')}"
    return Parameter(input_.get("name", ""), abi_type, bool(input_.get("indexed")), components)


_HEAD_PATTERN = re.compile(r"\s*(event|function)\s+([A-Za-z_$][\w$]*)\s*\(")
_TOKEN_PATTERN = re.compile(r"\s*([(),]|[A-Za-z_$][\w$]*|(?:\[\d*\])+)")
_IGNORED_KEYWORDS = {"calldata", "memory", "storage", "payable"}
_TYPE_ALIASES = {"uint": "uint256", "int": "int256", "byte": "bytes1"}
_ELEMENTARY_PATTERN = re.compile(r"address|bool|string|bytes(\d+)?|u?int(\d+)|function")
_BITS = {None, *range(8, 257, 8)}
_BYTES = {None, *range(1, 33)}


def parse_signature(text: str) -> tuple[str, AbiSignature]:
    """Parse a signature, and return its keyword (`event` or `function`) and its content.

    Raises:
        ValueError: the text is not a signature; the message gives the reason.
    """
    head_match = _HEAD_PATTERN.match(text)
    if head_match is None:
        raise ValueError("must begin with `event Name(` or `function name(`")
    tokens = _TokenStream(text, head_match.end())
    inputs = _parse_parameters(tokens)
    keyword, name = head_match.groups()
    if keyword == "function" and any(parameter.indexed for parameter in inputs):
        raise ValueError("`indexed` is only allowed for the inputs of an event")
    return keyword, AbiSignature(name, inputs)


class _TokenStream:
    """The tokens of a signature, starting at a given position of the text."""

    def __init__(self, text: str, start: int) -> None:
        self._iterator = self._tokenize(text, start)
        self.next = ""
        self.advance()

    @staticmethod
    def _tokenize(text: str, start: int) -> Iterator[str]:
        while (match := _TOKEN_PATTERN.match(text, start)) is not None:
            yield match[1]
            start = match.end()
        yield ""

    def advance(self) -> str:
        """Return the current token and advance to the next one."""
        token = self.next
        self.next = next(self._iterator, "")
        return token


def _parse_parameters(tokens: _TokenStream) -> tuple[Parameter, ...]:
    """Parse parameters up to the closing bracket.

    The opening bracket has been read already.
    """
    parameters: list[Parameter] = []
    while tokens.next != ")":
        if parameters and tokens.advance() != ",":
            raise ValueError(
                f"expected `,` or `)` after {parameters[-1].name or parameters[-1].abi_type}"
            )
        parameters.append(_parse_parameter(tokens))
    tokens.advance()
    return tuple(parameters)


def _parse_parameter(tokens: _TokenStream) -> Parameter:
    abi_type, components = _parse_type(tokens)
    name, is_indexed = "", False
    while re.match(r"[A-Za-z_$]", tokens.next):
        text = tokens.advance()
        if text == "indexed" and not is_indexed:
            is_indexed = True
        elif text not in _IGNORED_KEYWORDS:
            if name:
                raise ValueError(f"unexpected {text!r} after the name {name!r}")
            name = text
    return Parameter(name, abi_type, is_indexed, components)


def _parse_type(tokens: _TokenStream) -> tuple[str, tuple[Parameter, ...]]:
    type_text = tokens.advance()
    components = tuple[Parameter, ...]()
    if type_text == "tuple" and tokens.next == "(":
        type_text = tokens.advance()
    if type_text == "(":
        components = _parse_parameters(tokens)
        abi_type = f"({','.join(component.abi_type for component in components)})"
    else:
        abi_type = _parse_elementary_type(type_text)
    return abi_type + (tokens.advance() if tokens.next.startswith("[") else ""), components


def _parse_elementary_type(token: str) -> str:
    abi_type = _TYPE_ALIASES.get(token, token)
    match = _ELEMENTARY_PATTERN.fullmatch(abi_type)
    if match is None or abi_type == "function":
        raise ValueError(f"{token or 'end of the text'!r} is not a Solidity type")
    size, bits = (None if digits is None else int(digits) for digits in match.groups())
    if size not in _BYTES or bits not in _BITS:
        raise ValueError(f"{token!r} is not a Solidity type")
    return abi_type
