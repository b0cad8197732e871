"""The ABI of a compiled contract, in the JSON that the compiler writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.errors import FatalError
from oracle.resources import find_shipped_path

# Length of a selector: `0x` and the first four bytes of a call's input.
SELECTOR_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input of an event or function; `abi_type` is the canonical Solidity type.

    `components` are the members of a struct, or of the structs in an array.
    """

    name: str
    abi_type: str
    indexed: bool
    components: tuple["Parameter", ...] = ()


@dataclass(frozen=True)
class AbiSignature:
    """The signature of an event or function: its name and inputs."""

    name: str
    inputs: tuple[Parameter, ...]

    @cached_property
    def text(self) -> str:
        """Return the canonical signature: name and types."""
        return f"{self.name}({','.join(parameter.abi_type for parameter in self.inputs)})"

    @cached_property
    def digest(self) -> str:
        """Return keccak256 of the canonical signature, `0x` hex: an event's first topic."""
        return "0x" + keccak(self.text.encode()).hex()

    @property
    def selector(self) -> str:
        """Return the first four bytes of a call of the function, `0x` hex."""
        return self.digest[:SELECTOR_DIGITS]


@dataclass(frozen=True, slots=True)
class Abi:
    """The events and functions of one shipped contract, by name; there are no overloads."""

    contract_name: str
    events: dict[str, AbiSignature]
    functions: dict[str, AbiSignature]

    def get_event(self, name: str) -> AbiSignature:
        """Return the event of this name.

        Raises:
            FatalError: the shipped artifact does not contain the event.
        """
        if name not in self.events:
            raise FatalError(
                f"abi/{self.contract_name}.json has no event {name}; reinstall qos-oracle"
            )
        return self.events[name]


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
    """Return every `event` or `function` of a JSON ABI, including overloads."""
    return [_parse_signature(entry) for entry in entries if entry["type"] == entry_type]


def _parse_signature(entry: dict[str, Any]) -> AbiSignature:
    return AbiSignature(
        entry["name"], tuple(_parse_parameter(input_) for input_ in entry["inputs"])
    )


def _parse_parameter(input_: dict[str, Any]) -> Parameter:
    components = tuple(_parse_parameter(component) for component in input_.get("components", ()))
    abi_type: str = input_["type"]
    if abi_type.startswith("tuple"):
        # Signatures spell a tuple by its components; all other types are canonical already.
        component_types = ",".join(component.abi_type for component in components)
        abi_type = f"({component_types}){abi_type.removeprefix('tuple')}"
    return Parameter(input_.get("name", ""), abi_type, bool(input_.get("indexed")), components)
