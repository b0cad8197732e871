"""How a scripted chain writes its events into logs, and decodes them without the chain."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import msgspec
from typing_extensions import override

from oracle.chain.feed.relay_reader import RelayReader
from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.domain.events import network_events, oracle_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.events.oracle_events import ContractEvent, RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.logs import Call, DeadLetter, Log

NETWORK = Address("0x" + "4e" * 20)
ORACLE = Address("0x" + "0a" * 20)
TOPIC = "0x" + "70" * 32
Event = DomainEvent | ContractEvent


def encode_event(event: Event) -> str:
    text = type(event).__name__.encode() + b" " + msgspec.json.encode(event, enc_hook=str)
    return "0x" + text.hex()


def is_round_log(log: Log) -> bool:
    """Return whether a log is written for an accepted round."""
    return log.data.startswith("0x" + RoundAccepted.__name__.encode().hex())


def _decode_event(written: str) -> Event:
    name, _, text = bytes.fromhex(written[2:]).partition(b" ")
    kind = getattr(network_events, name.decode(), None) or getattr(oracle_events, name.decode())
    event: Event = msgspec.json.decode(text, type=kind)
    return event


class ScriptedReader(EventReader):
    """Decodes the logs of a scripted chain.

    Logs of `unreadable` events are dead letters, as after a change of the contract.
    """

    addresses = (NETWORK, ORACLE)
    topics = (TOPIC,)
    selectors: Mapping[Address, frozenset[str]] = MappingProxyType({})
    identity = "scripted"
    feed: RelayReader | None = None
    holds_kickouts = False

    def __init__(self, unreadable: Collection[type] = ()) -> None:  # no profile
        self.unreadable = frozenset(unreadable)

    @override
    def decode_rows(self, logs: Sequence[Log], calls: Sequence[Call]) -> DecodedEvents:
        decoded = DecodedEvents([], [])
        for log in logs:
            event = _decode_event(log.data)
            if type(event) in self.unreadable:
                decoded.dead_letters.append(_build_dead_letter(log, event))
                continue
            if log.address == NETWORK:
                decoded.events.append(event)  # type: ignore[arg-type]  # by its address
            else:
                decoded.contract_events.append(event)  # type: ignore[arg-type]
        return decoded


def _build_dead_letter(log: Log, event: Event) -> DeadLetter:
    return DeadLetter(
        block=log.block,
        block_hash=log.block_hash,
        time=log.time,
        tx=log.tx,
        index=log.index,
        address=log.address,
        name=type(event).__name__,
        error="made unreadable",
    )


class Unread(EventReader):
    """A reader for events that are already decoded."""

    addresses: tuple[Address, ...] = ()
    topics: tuple[str, ...] = ()
    selectors: Mapping[Address, frozenset[str]] = MappingProxyType({})
    identity = "unread"
    feed = None
    holds_kickouts = False

    def __init__(self) -> None:  # no profile
        pass

    @override
    def decode_rows(self, logs: Sequence[Log], calls: Sequence[Call]) -> DecodedEvents:
        assert not logs, "the events of these logs are already decoded"
        assert not calls, "the events of these calls are already decoded"
        return DecodedEvents([], [])
