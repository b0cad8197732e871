"""What a compiled contract can say and be told: its ABI, read from the shipped artifacts."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec
from eth_utils.crypto import keccak

from oracle.errors import FatalError
from oracle.shipped import shipped


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input of an event or function; `kind` is the canonical Solidity type."""

    name: str
    kind: str
    indexed: bool


@dataclass(frozen=True)
class Signature:
    """An event or a function: its name and inputs."""

    name: str
    inputs: tuple[Parameter, ...]

    @cached_property
    def digest(self) -> str:
        """Return keccak256 of the canonical signature, `0x` hex: an event's first topic."""
        kinds = ",".join(parameter.kind for parameter in self.inputs)
        return "0x" + keccak(text=f"{self.name}({kinds})").hex()


@dataclass(frozen=True, slots=True)
class Abi:
    """The events and functions of one contract, by name; ours have no overloads."""

    contract: str
    events: dict[str, Signature]
    functions: dict[str, Signature]

    def event(self, name: str) -> Signature:
        """Return the event.

        Raises:
            FatalError: the shipped artifact does not know it.
        """
        if name not in self.events:
            raise FatalError(f"abi/{self.contract}.json has no event {name}: install again")
        return self.events[name]


@lru_cache
def load(contract: str) -> Abi:
    """Return the ABI of a shipped contract.

    Raises:
        FatalError: the installation does not hold it.
    """
    written = msgspec.json.decode(shipped(f"abi/{contract}.json").read_bytes())
    return parse(contract, written["abi"])


def parse(contract: str, entries: list[dict[str, Any]]) -> Abi:
    """Read the entries of a JSON ABI."""
    named = {
        kind: {entry["name"]: _signature(entry) for entry in entries if entry["type"] == kind}
        for kind in ("event", "function")
    }
    return Abi(contract, named["event"], named["function"])


def _signature(entry: dict[str, Any]) -> Signature:
    inputs = tuple(
        Parameter(given["name"], _canonical(given), given.get("indexed", False))
        for given in entry["inputs"]
    )
    return Signature(entry["name"], inputs)


def _canonical(given: dict[str, Any]) -> str:
    """Spell a tuple by its parts, as signatures do; every other type is spelled already."""
    kind: str = given["type"]
    if not kind.startswith("tuple"):
        return kind
    parts = ",".join(_canonical(part) for part in given["components"])
    return f"({parts}){kind.removeprefix('tuple')}"
