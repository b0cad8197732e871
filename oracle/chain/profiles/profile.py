"""The data model of a profile, which maps contract events and calls to domain events.

A profile is a TOML file, either shipped or the user's own (docs/how-to/add-a-network.md).
`profile_loader` reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oracle.chain.decode.abi import AbiSignature
from oracle.domain.events.network_events import DomainEvent

# A field may also be filled from the sender or the value of the call's transaction.
SENDER = "@sender"
AMOUNT = "@value"
# Stands for an absent value in a profile's enums.
ABSENT = "absent"

# A literal in a profile: a number, boolean or string.
Literal = bool | int | str


@dataclass(frozen=True, slots=True)
class FieldValue:
    """The source of a field's value: arguments or a constant.

    Several `arguments`, or one argument with `is_list`, are combined into a list. `enum` is the
    name of the table that maps a number or text to an enumeration value. A constant has no
    arguments, and has the type of the field.
    """

    arguments: tuple[str, ...] = ()
    is_list: bool = False
    constant: object = None
    enum: str | None = None
    zero_is_absent: bool = False


@dataclass(frozen=True, slots=True)
class EventMapping:
    """A mapping from an event or a call to a domain event.

    The mapping applies if the arguments match its conditions. `key` is the position in the file.
    `event_type` is None if the mapping yields no event on purpose. `when` contains the permitted
    values of arguments, and `unless` the excluded values.
    """

    key: str
    event_type: type[DomainEvent] | None
    value_by_field: Mapping[str, FieldValue]
    when: Mapping[str, tuple[Literal, ...]] = field(default_factory=dict)
    unless: Mapping[str, tuple[Literal, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnumMapping:
    """Maps a contract's numbers or texts to enumeration values.

    The keys of `tables` are the blocks from which each table is valid. `otherwise` is the value
    for all other input, or ABSENT; if it is None, other input is an error.
    """

    key: str
    tables: tuple[tuple[int, Mapping[Literal, str]], ...]
    otherwise: str | None


class MappedSignature(NamedTuple):
    """An event or function with its mappings and their compiled decoder.

    The mappings are in order. `decode` returns one event, or a list if `returns_list`, and raises
    ValueError for a row that cannot be decoded. `data_length` is the length of the log's data in
    characters, or None if it varies.
    """

    signature: AbiSignature
    mappings: tuple[EventMapping, ...]
    decode: Callable[..., Any]
    returns_list: bool
    data_length: int | None


@dataclass(frozen=True, slots=True)
class Contract:
    """One contract of a profile.

    `address` and `start_block` are None if the profile lacks them. `is_proxy` is whether the
    contract's code is at another address, so that it cannot be checked.
    """

    name: str
    events: tuple[MappedSignature, ...]
    calls: tuple[MappedSignature, ...]
    address: str | None = None
    start_block: int | None = None
    is_proxy: bool = False

    @property
    def mappings(self) -> list[EventMapping]:
        """All mappings of the contract's events and calls."""
        return [
            mapping
            for mapped_signature in (*self.events, *self.calls)
            for mapping in mapped_signature.mappings
        ]


@dataclass(frozen=True, slots=True)
class Token:
    """The token in which a network shows fees and stakes.

    `decimals` is as in ERC-20.
    """

    symbol: str = "tokens"
    decimals: int = 18


DEFAULT_TOKEN = Token()


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules for reading the contracts of one kind of network.

    `identity` is part of the rules id, and changes with everything that affects decoding and with
    `holds_kickouts`. `has_rounds` is whether several nodes share a task, and commit to a result
    before they disclose it. `holds_kickouts` is whether every due kickout waits for an operator.
    `options` contains the value of each option, and `origin` is the path of the file.
    """

    name: str
    identity: str
    origin: str
    contracts: Mapping[str, Contract]
    options: Mapping[str, Literal]
    has_rounds: bool = False
    holds_kickouts: bool = False
    token: Token = DEFAULT_TOKEN

    @property
    def event_types(self) -> frozenset[type[DomainEvent]]:
        """Every type of event that the profile can produce."""
        return frozenset(
            mapping.event_type
            for contract in self.contracts.values()
            for mapping in contract.mappings
            if mapping.event_type is not None
        )

    @property
    def fields_by_event_type(self) -> dict[type[DomainEvent], frozenset[str]]:
        """The fields that the profile fills, for each type of event that it can produce."""
        fields_by_type: dict[type[DomainEvent], frozenset[str]] = {}
        for contract in self.contracts.values():
            for mapping in contract.mappings:
                if mapping.event_type is not None:
                    known_fields = fields_by_type.get(mapping.event_type, frozenset())
                    fields_by_type[mapping.event_type] = (
                        known_fields | mapping.value_by_field.keys()
                    )
        return fields_by_type

    @property
    def reads_calls(self) -> bool:
        """Whether whole blocks must be read, because some data occurs only in calls."""
        return any(contract.calls for contract in self.contracts.values())
