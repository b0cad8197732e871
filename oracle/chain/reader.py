"""Turns stored logs and calls into events, by the profile of the network."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from oracle.chain.abi import Abi, load
from oracle.chain.decode import log_reader
from oracle.chain.oracle_contract import (
    CONTRACT,
    ORACLE,
    ROUND_ACCEPTED,
    round_reader,
)
from oracle.chain.profiles import Meaning, Profile
from oracle.chain.reference import REFERENCE
from oracle.domain.contract_events import ContractEvent
from oracle.domain.events import DomainEvent
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, DeadLetter, Log
from oracle.errors import FatalError, InputError

_NOBODY: dict[Address, "_Route"] = {}

PROFILES: dict[str, Profile] = {REFERENCE.name: REFERENCE}


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the logs say, each list in order of position."""

    events: list[DomainEvent]
    contract_events: list[ContractEvent]
    # What could not be read, in order of position.
    dead: list[DeadLetter] = field(default_factory=list)


class _Route(NamedTuple):
    """What to make of one event of one contract, and in which list it ends."""

    read: Callable[..., Any]
    by_oracle: bool
    # Then `read` takes the call before the log.
    needs_call: bool


class Reader:
    """Reads what the contracts of one network said; never asks the chain.

    `addresses` and `topics` are lower case: what `eth_getLogs` is asked for.
    """

    def __init__(
        self, abis: Mapping[Address, Abi], meanings: Mapping[str, Sequence[Meaning]]
    ) -> None:
        self._routes = {
            address: _routes(abi, meanings[abi.contract]) for address, abi in abis.items()
        }
        self.addresses = tuple(self._routes)
        self._by_topic: dict[str, dict[Address, _Route]] = {}
        for address, routes in self._routes.items():
            for topic, route in routes.items():
                self._by_topic.setdefault(topic, {})[address] = route
        self.topics = tuple(self._by_topic)
        # Calls whose input we read, by contract: the first four bytes, `0x` and 8 hex digits.
        self.selectors: Mapping[Address, frozenset[str]] = {}
        # First topics of the logs for which `needs_call` may be true.
        self.call_topics = frozenset(
            topic
            for topic, routes in self._by_topic.items()
            if any(route.needs_call for route in routes.values())
        )
        self.contracts = {
            address: (abi.contract, tuple(self._routes[address])) for address, abi in abis.items()
        }

    @classmethod
    def open(cls, profile: str, contracts: Mapping[str, str], oracle: str | None) -> Self:
        """Return the reader of the profile (`reference`) for contracts at these addresses.

        Raises:
            InputError: unknown profile, a contract without an address or the other way round,
                one address twice, or a malformed address.
        """
        known = PROFILES.get(profile)
        if known is None:
            raise InputError(f"[network] profile: no {profile!r}; there is {', '.join(PROFILES)}")
        for name in sorted(known.contracts.keys() ^ contracts.keys()):
            what = "is missing" if name in known.contracts else f"is no contract of {profile}"
            raise InputError(f"[network] contracts: {name} {what}")
        placed = dict(contracts) if oracle is None else {**contracts, CONTRACT: oracle}
        abis = {_address(name, written): load(name) for name, written in placed.items()}
        if len(abis) < len(placed):
            raise InputError("[network] contracts: two contracts have the same address")
        return cls(abis, {**known.contracts, CONTRACT: ORACLE})

    def needs_call(self, log: Log) -> bool:
        """Tell whether the log can only be read beside the call that made it."""
        route = self._by_topic.get(log.topics[0], _NOBODY).get(log.address)
        return route is not None and route.needs_call

    def read(self, logs: Sequence[Log], calls: Sequence[Call]) -> Decoded:
        """Return what the logs and calls say, in order of position; other logs are passed over.

        Raises:
            FatalError: a log of an event that we know cannot be read; the log is named.
        """
        made_by = {(call.block_hash, call.tx_hash): call for call in calls}
        find = self._by_topic.get
        decoded = Decoded([], [])
        say, say_of_oracle = decoded.events.append, decoded.contract_events.append
        for log in logs:
            route = find(log.topics[0], _NOBODY).get(log.address)
            if route is None:
                continue
            read, by_oracle, needs_call = route
            try:
                if not by_oracle:
                    say(read(log))
                elif needs_call:
                    say_of_oracle(read(_call(made_by, log), log))
                else:
                    say_of_oracle(read(log))
            except ValueError as error:
                raise FatalError(f"cannot read {self._name(log)}: {error}") from error
        return decoded

    def _name(self, log: Log) -> str:
        contract, _ = self.contracts[log.address]
        return (
            f"log {log.index} of block {log.block} ({contract} at {log.address}, {log.topics[0]})"
        )


def _call(made_by: Mapping[tuple[Hash, Hash], Call], log: Log) -> Call:
    call = made_by.get((log.block_hash, log.tx_hash))
    if call is None:
        raise ValueError("the call that made it is not there")
    return call


def _routes(abi: Abi, meanings: Sequence[Meaning]) -> dict[str, _Route]:
    by_oracle = abi.contract == CONTRACT
    routes = {}
    for meaning in meanings:
        event = abi.event(meaning.event)
        read = log_reader(event, meaning.inputs, meaning.make)
        routes[event.digest] = _Route(read, by_oracle, needs_call=False)
    if by_oracle:
        event = abi.event(ROUND_ACCEPTED)
        routes[event.digest] = _Route(round_reader(event), by_oracle, needs_call=True)
    return routes


def _address(contract: str, written: str) -> Address:
    if re.fullmatch(r"0x[0-9a-fA-F]{40}", written) is None:
        raise InputError(f"{contract}: {written!r} is no address (0x and 40 hex digits)")
    return Address(written.lower())
