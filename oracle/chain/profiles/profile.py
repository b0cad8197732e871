"""A profile: which events and calls of which contracts we read, and what each means in our words.

It is data: a TOML file, shipped or a user's own (docs/how-to/add-a-network.md);
`profile_loader` reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oracle.chain.decode.abi import AbiSignature
from oracle.domain.events.network_events import DomainEvent

# What a field is made of where it is no argument: of the transaction of a call.
SENDER = "@sender"
AMOUNT = "@value"
# A word of an enum that means: the field is not there.
ABSENT = "absent"

# A number, a truth or a text that a profile writes down.
Literal = bool | int | str


@dataclass(frozen=True, slots=True)
class Value:
    """What a field takes: arguments, or a constant.

    Several `arguments`, or one where `is_list`, become a list. `enum` names the table that turns
    a number or text into one of our words. A constant has no arguments; it is of our own kind.
    """

    arguments: tuple[str, ...] = ()
    is_list: bool = False
    constant: object = None
    enum: str | None = None
    zero_is_absent: bool = False


@dataclass(frozen=True, slots=True)
class EventMapping:
    """One thing that an event or a call says, where its arguments are as `when` says.

    `key` is where it stands in the file. `says` None: nothing, and that is known. `when` lists
    the values that an argument must have, `unless` those that it must not.
    """

    key: str
    says: type[DomainEvent] | None
    values: Mapping[str, Value]
    when: Mapping[str, tuple[Literal, ...]] = field(default_factory=dict)
    unless: Mapping[str, tuple[Literal, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Enum:
    """Our words for a contract's numbers or texts, each table from a block on, ascending.

    `otherwise` is the word for everything else, or ABSENT; None: it cannot be read.
    """

    key: str
    tables: tuple[tuple[int, Mapping[Literal, str]], ...]
    otherwise: str | None


class CompiledMapping(NamedTuple):
    """A reader of one event or function: it returns an event of ours, or a list where `many`.

    It raises ValueError for what cannot be read. `digits`: how long the data of such a log is,
    in characters; None where that varies.
    """

    read: Callable[..., Any]
    many: bool
    digits: int | None


class ContractVocabulary(NamedTuple):
    """An event or a function with all that it may say, in order, and what reads it."""

    signature: AbiSignature
    readings: tuple[EventMapping, ...]
    compiled: CompiledMapping


@dataclass(frozen=True, slots=True)
class Contract:
    """What we read of one contract; `address` and `start_block` where the profile knows them.

    `is_proxy`: its code is elsewhere, and not looked at.
    """

    name: str
    events: tuple[ContractVocabulary, ...]
    calls: tuple[ContractVocabulary, ...]
    address: str | None = None
    start_block: int | None = None
    is_proxy: bool = False

    @property
    def readings(self) -> list[EventMapping]:
        """Every reading of it."""
        return [reading for speech in (*self.events, *self.calls) for reading in speech.readings]


@dataclass(frozen=True, slots=True)
class Token:
    """The unit that a network's fees and stakes are shown in; `decimals` as of ERC-20."""

    symbol: str = "tokens"
    decimals: int = 18


DEFAULT_TOKEN = Token()


@dataclass(frozen=True, slots=True)
class Profile:
    """How the contracts of one kind of network are read.

    `identity` changes with whatever changes what is read; it is part of the rules id.
    `has_rounds`: several nodes share a task, commit and disclose.
    `options` are as they stand, `origin` is the file.
    """

    name: str
    identity: str
    origin: str
    contracts: Mapping[str, Contract]
    options: Mapping[str, Literal]
    has_rounds: bool = False
    token: Token = DEFAULT_TOKEN

    @property
    def says(self) -> frozenset[type[DomainEvent]]:
        """Every type of event that it can make."""
        return frozenset(
            reading.says
            for contract in self.contracts.values()
            for reading in contract.readings
            if reading.says is not None
        )

    @property
    def tells(self) -> dict[type[DomainEvent], frozenset[str]]:
        """Which fields it fills of every type of event that it can make."""
        told: dict[type[DomainEvent], frozenset[str]] = {}
        for contract in self.contracts.values():
            for reading in contract.readings:
                if reading.says is not None:
                    known = told.get(reading.says, frozenset())
                    told[reading.says] = known | reading.values.keys()
        return told

    @property
    def reads_calls(self) -> bool:
        """Whether whole blocks are needed: some of it stands in the input of calls only."""
        return any(contract.calls for contract in self.contracts.values())
