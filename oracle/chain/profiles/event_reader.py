"""Decodes logs and calls into events, as defined by the network's profile."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Self

from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.chain.decode.abi_values import MalformedError
from oracle.chain.decode.oracle_logs import (
    OBJECTIONS_NAME,
    ORACLE_NAME,
    TIMELOCK_NAME,
    iterate_objection_event_readers,
    iterate_oracle_event_readers,
    iterate_timelock_event_readers,
)
from oracle.chain.feed.relay_reader import RelayReader
from oracle.chain.hex_names import HexNameError, parse_address
from oracle.chain.profiles.profile import Contract, Literal, MappedSignature, Profile
from oracle.chain.profiles.profile_loader import load_profile
from oracle.domain.coverage import IngestScope
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.events.oracle_events import ContractEvent
from oracle.domain.ids import Address
from oracle.domain.logs import Call, DeadLetter, Log
from oracle.errors import InputError


@dataclass(frozen=True, slots=True)
class DecodedEvents:
    """The events decoded from logs and calls.

    Each list is in order of position.
    """

    events: list[DomainEvent]
    contract_events: list[ContractEvent]
    # The rows that could not be decoded, in order of position.
    dead_letters: list[DeadLetter] = field(default_factory=list)


# A decoder returns one domain event, a list of them, or events of the oracle contract.
_SINGLE_EVENT, _EVENT_LIST, _ORACLE_EVENTS = range(3)


class _Route(NamedTuple):
    """The decoder of a contract's event or function, and the kind of its result."""

    decode: Callable[..., Any]
    result_kind: int
    name: str


_NO_ROUTES: dict[Any, _Route] = {}


class EventReader:
    """Decodes the logs and calls of one network's contracts.

    The reader never queries the chain. `addresses` and `topics` are in lower case, as in
    `eth_getLogs`. `selectors` are the selectors (`0x` and 8 hex digits) of the functions whose
    calls are read, by contract; the mapping is empty if logs are sufficient.
    """

    def __init__(self, profile: Profile, contract_by_address: Mapping[Address, str]) -> None:
        """Create a reader for named contracts at these addresses.

        They are the contracts of the profile, and if configured the oracle contract, its timelock
        and the objections contract.
        """
        self.profile = profile
        self._by_topic: dict[str, dict[Address, _Route]] = {}
        self._by_selector: dict[Address, dict[str, _Route]] = {}
        # The name of each contract and the first topics of its events, by address.
        self.contracts: dict[Address, tuple[str, tuple[str, ...]]] = {}
        for address, contract_name in contract_by_address.items():
            contract = profile.contracts.get(contract_name)
            if contract is not None:
                routes = _build_log_routes(contract)
            elif contract_name == TIMELOCK_NAME:
                routes = _build_timelock_routes(contract_by_address)
            else:
                routes = _build_oracle_routes(contract_name)
            self.contracts[address] = (contract_name, tuple(routes))
            for topic, route in routes.items():
                self._by_topic.setdefault(topic, {})[address] = route
            if contract is not None and contract.calls:
                self._by_selector[address] = _build_call_routes(contract)
        # The identity changes with everything that affects the decoded events.
        self.identity = profile.identity
        self.holds_kickouts = profile.holds_kickouts
        self.feed: RelayReader | None = None
        self.addresses = tuple(self.contracts)
        self.topics = tuple(self._by_topic)
        self.selectors: Mapping[Address, frozenset[str]] = {
            address: frozenset(routes) for address, routes in self._by_selector.items()
        }

    @classmethod
    def from_profile(
        cls,
        profile_name: str,
        address_by_contract: Mapping[str, str],
        oracle_address: str | None,
        options: Mapping[str, Literal] | None = None,
        timelock_address: str | None = None,
        objections_address: str | None = None,
    ) -> Self:
        """Create the reader of a profile (`load_profile`) for contracts at these addresses.

        Addresses that the profile itself contains may be left out. `timelock_address` is the
        timelock that administers the oracle contract, or None.

        Raises:
            InputError: the profile is unknown or invalid, a contract has no address, an address
                has no contract, or an address is malformed or used twice.
        """
        loaded_profile = load_profile(profile_name, options)
        placed_contracts = {
            name: address
            for name, contract in loaded_profile.contracts.items()
            if (address := address_by_contract.get(name) or contract.address) is not None
        }
        for name in sorted(loaded_profile.contracts.keys() - placed_contracts.keys()):
            raise InputError(f"[network] contracts: the address of {name} is missing")
        for name in sorted(address_by_contract.keys() - placed_contracts.keys()):
            raise InputError(f"[network] contracts: {profile_name} has no contract {name}")
        if oracle_address is not None:
            placed_contracts[ORACLE_NAME] = oracle_address
            if timelock_address is not None:
                placed_contracts[TIMELOCK_NAME] = timelock_address
            if objections_address is not None:
                placed_contracts[OBJECTIONS_NAME] = objections_address
        contract_by_address = {
            _parse_contract_address(name, address_text): name
            for name, address_text in placed_contracts.items()
        }
        if len(contract_by_address) < len(placed_contracts):
            raise InputError("[network] contracts: two contracts have the same address")
        return cls(loaded_profile, contract_by_address)

    def with_feed(self, feed: RelayReader) -> Self:
        """Return a copy of this reader that also reads a feed."""
        reader = copy(self)
        reader.feed = feed
        reader.identity = f"{self.identity} beside {feed.identity}"
        return reader

    def get_event_name(self, topic: str) -> str:
        """Return the name of a known event, given its first topic."""
        return next(iter(self._by_topic[topic].values())).name

    def decode_rows(self, logs: Sequence[Log], calls: Sequence[Call]) -> DecodedEvents:
        """Decode logs and calls to events, in order of position.

        Unknown rows are skipped. Reverted calls yield no event. Known rows that cannot be decoded
        are in `dead_letters`.
        """
        get_routes = self._by_topic.get
        decoded_events = DecodedEvents([], [])
        append_event, extend_events = decoded_events.events.append, decoded_events.events.extend
        extend_oracle_events = decoded_events.contract_events.extend
        self._decode_calls(calls, decoded_events)
        has_call_events = bool(decoded_events.events)
        for log in logs:
            route = get_routes(log.topics[0], _NO_ROUTES).get(log.address)
            if route is None:
                continue
            decode, result_kind, name = route
            try:
                if result_kind == _SINGLE_EVENT:
                    append_event(decode(log))
                elif result_kind == _EVENT_LIST:
                    extend_events(decode(log))
                else:
                    extend_oracle_events(decode(log))
            except ValueError as error:
                decoded_events.dead_letters.append(_build_dead_letter(log, log.index, name, error))
        if has_call_events:
            decoded_events.events.sort(key=attrgetter("at"))
        decoded_events.dead_letters.sort(key=attrgetter("block", "tx", "index"))
        return decoded_events

    def _decode_calls(self, calls: Sequence[Call], decoded_events: DecodedEvents) -> None:
        """Append the events of successful calls.

        Reverted calls have no effect. See docs/explanation/crynux.md#vsstask-contracts.
        """
        if not self._by_selector:
            return
        for call in calls:
            routes = self._by_selector.get(call.to, _NO_ROUTES)
            route = routes.get(call.input[:SELECTOR_DIGITS])
            if route is None or not call.succeeded:
                continue
            try:
                result = route.decode(call)
            except ValueError as error:
                decoded_events.dead_letters.append(_build_dead_letter(call, -1, route.name, error))
                continue
            decoded_events.events.extend(result if route.result_kind == _EVENT_LIST else [result])


def _build_dead_letter(row: Log | Call, index: int, name: str, error: ValueError) -> DeadLetter:
    address = row.to if isinstance(row, Call) else row.address
    block, block_hash, time, tx = row.block, row.block_hash, row.time, row.tx
    return DeadLetter(block, block_hash, time, tx, index, address, name, str(error))


def _build_log_routes(contract: Contract) -> dict[str, _Route]:
    """Return the route for each event, keyed by its first topic."""
    signatures_by_topic: dict[str, list[MappedSignature]] = {}
    for mapped_signature in contract.events:
        signatures_by_topic.setdefault(mapped_signature.signature.digest, []).append(
            mapped_signature
        )
    return {
        topic: _build_route(signatures_of_topic)
        for topic, signatures_of_topic in signatures_by_topic.items()
    }


def _build_route(mapped_signatures: Sequence[MappedSignature]) -> _Route:
    mapped_signature = mapped_signatures[0]
    name = mapped_signature.signature.name
    if len(mapped_signatures) == 1:
        return _Route(
            mapped_signature.decode,
            _EVENT_LIST if mapped_signature.returns_list else _SINGLE_EVENT,
            name,
        )
    return _Route(_build_overload_reader(mapped_signatures), _EVENT_LIST, name)


def _build_overload_reader(
    mapped_signatures: Sequence[MappedSignature],
) -> Callable[[Log], list[DomainEvent]]:
    """Return a reader for overloaded events, which have the same first topic.

    Their logs differ in the number of topics or in their length. See
    tests/faults/ingest/cases.toml#64.
    """
    signature_by_shape = {
        (
            1 + sum(parameter.indexed for parameter in mapped_signature.signature.inputs),
            mapped_signature.data_length,
        ): mapped_signature
        for mapped_signature in mapped_signatures
    }

    def decode_log(log: Log) -> list[DomainEvent]:
        topic_count = len(log.topics)
        mapped_signature = signature_by_shape.get(
            (topic_count, len(log.data))
        ) or signature_by_shape.get((topic_count, None))
        if mapped_signature is None:
            raise MalformedError(
                "no event of this name has this number of topics and this length of data"
            )
        result: Any = mapped_signature.decode(log)
        return result if mapped_signature.returns_list else [result]

    return decode_log


def _build_call_routes(contract: Contract) -> dict[str, _Route]:
    return {
        mapped_signature.signature.selector: _Route(
            mapped_signature.decode,
            _EVENT_LIST if mapped_signature.returns_list else _SINGLE_EVENT,
            mapped_signature.signature.name,
        )
        for mapped_signature in contract.calls
    }


def _build_oracle_routes(contract_name: str) -> dict[str, _Route]:
    is_objections = contract_name == OBJECTIONS_NAME
    readers = (
        iterate_objection_event_readers() if is_objections else iterate_oracle_event_readers()
    )
    return {
        event.digest: _Route(_wrap_in_list_reader(decode_log), _ORACLE_EVENTS, event.name)
        for event, decode_log in readers
    }


def _wrap_in_list_reader(
    decode_log: Callable[[Log], ContractEvent],
) -> Callable[[Log], list[ContractEvent]]:
    return lambda log: [decode_log(log)]


def _build_timelock_routes(contract_by_address: Mapping[Address, str]) -> dict[str, _Route]:
    """Return the routes for the oracle contract's timelock."""
    oracle = next(address for address, name in contract_by_address.items() if name == ORACLE_NAME)
    return {
        event.digest: _Route(read_log, _ORACLE_EVENTS, event.name)
        for event, read_log in iterate_timelock_event_readers(oracle)
    }


def _parse_contract_address(contract: str, address_text: str) -> Address:
    try:
        return parse_address(address_text)
    except HexNameError as error:
        raise InputError(f"{contract}: {error}") from error


def restrict_reader_to_scope(reader: EventReader, scope: IngestScope) -> EventReader:
    """Return a copy of the reader that is limited to this scope.

    The scope limits its addresses, topics and selectors. The copy is used only to fetch rows. The
    full reader decodes them.
    """
    restricted_reader = copy(reader)
    restricted_reader.addresses = tuple(
        entry for entry in reader.addresses if entry in scope.addresses
    )
    restricted_reader.topics = tuple(entry for entry in reader.topics if entry in scope.topics)
    selectors: dict[Address, set[str]] = {}
    for entry in scope.selectors:
        address, _, selector = entry.partition(":")
        selectors.setdefault(Address(address), set()).add(selector)
    restricted_reader.selectors = {
        contract_address: frozenset(address_selectors)
        for contract_address, address_selectors in selectors.items()
    }
    return restricted_reader
