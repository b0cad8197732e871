"""Decodes stored logs and calls into events, by the profile of the network."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Self

from oracle.chain.decode.abi import load
from oracle.chain.decode.abi_tails import MalformedError
from oracle.chain.decode.log_decoder import log_reader
from oracle.chain.decode.oracle_logs import (
    CONTRACT,
    LIMITS,
    ORACLE,
    ROUND_ACCEPTED,
    round_reader,
)
from oracle.chain.feed.relay_reader import RelayReader
from oracle.chain.hex_names import HexNameError, parse_address
from oracle.chain.profiles.profile import Contract, ContractVocabulary, Literal, Profile
from oracle.chain.profiles.profile_loader import open_profile
from oracle.domain.coverage import IngestScope
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.events.oracle_events import ContractEvent
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, DeadLetter, Log
from oracle.errors import InputError

_SELECTOR_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Decoded:
    """The events decoded from logs and calls, each list in order of position."""

    events: list[DomainEvent]
    contract_events: list[ContractEvent]
    # Rows that could not be decoded, in order of position.
    dead: list[DeadLetter] = field(default_factory=list)


# The result of decoding a row: one domain event, a list of them, an event of the oracle contract,
# or one of its events that needs the call besides the log.
_ONE, _MANY, _ORACLE, _ROUND = range(4)


class _Route(NamedTuple):
    """The decoder of one event or function of one contract, and the kind of its result."""

    read: Callable[..., Any]
    comes: int
    name: str


_NOBODY: dict[Any, _Route] = {}


class EventReader:
    """Decodes the logs and calls of one network's contracts; never queries the chain.

    `addresses` and `topics` are lower case, as used in `eth_getLogs`. `selectors` are the
    functions whose calls are read, by contract: `0x` and 8 hex digits; empty if logs are
    sufficient.
    """

    def __init__(self, profile: Profile, placed: Mapping[Address, str]) -> None:
        """Create a reader; contracts are those of the profile, or the oracle contract."""
        self.profile = profile
        self._by_topic: dict[str, dict[Address, _Route]] = {}
        self._by_selector: dict[Address, dict[str, _Route]] = {}
        # By address: the contract's name, and the first topics of the events that are read.
        self.contracts: dict[Address, tuple[str, tuple[str, ...]]] = {}
        for address, name in placed.items():
            contract = profile.contracts.get(name)
            routes = dict(_routes_of_oracle()) if contract is None else _routes(contract)
            self.contracts[address] = (name, tuple(routes))
            for topic, route in routes.items():
                self._by_topic.setdefault(topic, {})[address] = route
            if contract is not None and contract.calls:
                self._by_selector[address] = _routes_of_calls(contract)
        # Changes with everything that affects the decoded events.
        self.identity = profile.identity
        self.feed: RelayReader | None = None
        self.addresses = tuple(self.contracts)
        self.topics = tuple(self._by_topic)
        self.selectors: Mapping[Address, frozenset[str]] = {
            address: frozenset(routes) for address, routes in self._by_selector.items()
        }
        # First topics of the logs for which `needs_call` may be true.
        self.call_topics = frozenset(
            topic
            for topic, routes in self._by_topic.items()
            if any(route.comes == _ROUND for route in routes.values())
        )

    @classmethod
    def open(
        cls,
        profile: str,
        contracts: Mapping[str, str],
        oracle: str | None,
        options: Mapping[str, Literal] | None = None,
    ) -> Self:
        """Return the reader of a profile (`load_profile`) for contracts at these addresses.

        Addresses that the profile itself contains may be left out.

        Raises:
            InputError: unknown or invalid profile, a contract without an address or an address
                without a contract, a duplicate address, or a malformed address.
        """
        known = open_profile(profile, options)
        placed = {
            name: address
            for name, contract in known.contracts.items()
            if (address := contracts.get(name) or contract.address) is not None
        }
        for name in sorted(known.contracts.keys() - placed.keys()):
            raise InputError(f"[network] contracts: {name} is missing")
        for name in sorted(contracts.keys() - placed.keys()):
            raise InputError(f"[network] contracts: {name} is no contract of {profile}")
        if oracle is not None:
            placed[CONTRACT] = oracle
        by_address = {_address(name, written): name for name, written in placed.items()}
        if len(by_address) < len(placed):
            raise InputError("[network] contracts: two contracts have the same address")
        return cls(known, by_address)

    def beside(self, feed: RelayReader) -> Self:
        """Return a copy of this reader that also has the reader of a feed."""
        beside = copy(self)
        beside.feed, beside.identity = feed, f"{self.identity} beside {feed.identity}"
        return beside

    def needs_call(self, log: Log) -> bool:
        """Return whether the log can only be decoded with the call that made it."""
        route = self._by_topic.get(log.topics[0], _NOBODY).get(log.address)
        return route is not None and route.comes == _ROUND

    def name_of(self, topic: str) -> str:
        """Return the name of a known event by its first topic."""
        return next(iter(self._by_topic[topic].values())).name

    def read(self, logs: Sequence[Log], calls: Sequence[Call]) -> Decoded:
        """Return the events of the logs and calls, in order of position; unknown rows are skipped.

        Reverted calls yield no event. Known rows that cannot be decoded are in `dead_letters`.
        """
        made_by = {(call.block_hash, call.tx_hash): call for call in calls}
        find = self._by_topic.get
        decoded = Decoded([], [])
        say, say_all = decoded.events.append, decoded.events.extend
        say_of_oracle = decoded.contract_events.append
        self._read_calls(calls, decoded)
        said_by_calls = bool(decoded.events)
        for log in logs:
            route = find(log.topics[0], _NOBODY).get(log.address)
            if route is None:
                continue
            read, comes, name = route
            try:
                if comes == _ONE:
                    say(read(log))
                elif comes == _MANY:
                    say_all(read(log))
                elif comes == _ORACLE:
                    say_of_oracle(read(log))
                else:
                    say_of_oracle(read(_call(made_by, log), log))
            except ValueError as error:
                decoded.dead.append(_dead(log, log.index, name, error))
        if said_by_calls:
            decoded.events.sort(key=attrgetter("at"))
        decoded.dead.sort(key=_place)
        return decoded

    def _read_calls(self, calls: Sequence[Call], decoded: Decoded) -> None:
        """Append the events of successful calls; a reverted call has no effect.

        See docs/explanation/crynux.md#vsstask-contracts.
        """
        if not self._by_selector:
            return
        for call in calls:
            routes = self._by_selector.get(call.to, _NOBODY)
            route = routes.get(call.input[:_SELECTOR_DIGITS])
            if route is None or not call.succeeded:
                continue
            try:
                said = route.read(call)
            except ValueError as error:
                decoded.dead.append(_dead(call, -1, route.name, error))
                continue
            decoded.events.extend(said if route.comes == _MANY else [said])


def _dead(row: Log | Call, index: int, name: str, error: ValueError) -> DeadLetter:
    address = row.to if isinstance(row, Call) else row.address
    block, block_hash, time, tx = row.block, row.block_hash, row.time, row.tx
    return DeadLetter(block, block_hash, time, tx, index, address, name, str(error))


def _place(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.block, letter.tx, letter.index


def _call(made_by: Mapping[tuple[Hash, Hash], Call], log: Log) -> Call:
    call = made_by.get((log.block_hash, log.tx_hash))
    if call is None:
        raise MalformedError("the call that made it is not there")
    return call


def _routes(contract: Contract) -> dict[str, _Route]:
    """Return the route of each event, by its first topic."""
    by_topic: dict[str, list[ContractVocabulary]] = {}
    for speech in contract.events:
        by_topic.setdefault(speech.signature.digest, []).append(speech)
    return {topic: _route(speeches) for topic, speeches in by_topic.items()}


def _route(speeches: Sequence[ContractVocabulary]) -> _Route:
    name = speeches[0].signature.name
    if len(speeches) == 1:
        compiled = speeches[0].compiled
        return _Route(compiled.read, _MANY if compiled.many else _ONE, name)
    return _Route(_told_apart(speeches), _MANY, name)


def _told_apart(speeches: Sequence[ContractVocabulary]) -> Callable[[Log], list[DomainEvent]]:
    """Return a reader of events that share a first topic but differ in topics or length.

    See tests/faults/ingest/cases.toml#64.
    """
    known = {
        (1 + sum(given.indexed for given in signature.inputs), compiled.digits): compiled
        for signature, _, compiled in speeches
    }

    def read(log: Log) -> list[DomainEvent]:
        topics = len(log.topics)
        compiled = known.get((topics, len(log.data))) or known.get((topics, None))
        if compiled is None:
            raise MalformedError("no event of this name has so many topics and so much data")
        said: Any = compiled.read(log)
        return said if compiled.many else [said]

    return read


def _routes_of_calls(contract: Contract) -> dict[str, _Route]:
    return {
        signature.selector: _Route(compiled.read, _MANY if compiled.many else _ONE, signature.name)
        for signature, _, compiled in contract.calls
    }


def _routes_of_oracle() -> Iterator[tuple[str, _Route]]:
    abi = load(CONTRACT)
    for meaning in ORACLE:
        event = abi.event(meaning.event)
        read = log_reader(event, meaning.inputs, meaning.kind)
        yield event.digest, _Route(read, _ORACLE, event.name)
    for limits in LIMITS:
        event = abi.event(limits.event)
        yield event.digest, _Route(limits.reader(event), _ORACLE, event.name)
    event = abi.event(ROUND_ACCEPTED)
    yield event.digest, _Route(round_reader(event), _ROUND, event.name)


def _address(contract: str, written: str) -> Address:
    try:
        return parse_address(written)
    except HexNameError as error:
        raise InputError(f"{contract}: {error}") from error


def part_of(reader: EventReader, scope: IngestScope) -> EventReader:
    """Return a copy of the reader that requests only this scope, but decodes everything.

    The copy is for fetching; the fetched rows are decoded and folded by the full reader.
    """
    part = copy(reader)
    part.addresses = tuple(each for each in reader.addresses if each in scope.addresses)
    part.topics = tuple(each for each in reader.topics if each in scope.topics)
    part.call_topics = reader.call_topics & frozenset(scope.topics)
    selectors: dict[Address, set[str]] = {}
    for each in scope.selectors:
        address, _, four_bytes = each.partition(":")
        selectors.setdefault(Address(address), set()).add(four_bytes)
    part.selectors = {to: frozenset(fours) for to, fours in selectors.items()}
    return part
