"""Turns stored logs and calls into events, by the profile of the network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oracle.domain.contract_events import ContractEvent
from oracle.domain.events import DomainEvent
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the logs say, each list in order of position."""

    events: list[DomainEvent]
    contract_events: list[ContractEvent]


class Reader:
    """Reads what the contracts of one network said; never asks the chain."""

    # Lower case; what `eth_getLogs` is asked for.
    addresses: tuple[Address, ...]
    topics: tuple[str, ...]

    @classmethod
    def open(cls, profile: str, contracts: Mapping[str, str], oracle: str | None) -> "Reader":
        """Return the reader of the profile (`reference`) for contracts at these addresses.

        Raises:
            InputError: unknown profile, a contract without an address or the other way round,
                or a malformed address.
        """
        raise NotImplementedError

    def needs_call(self, log: Log) -> bool:
        """Tell whether the log can only be read beside the call that made it."""
        raise NotImplementedError

    def read(self, logs: Sequence[Log], calls: Sequence[Call]) -> Decoded:
        """Return what the logs and calls say, in order of position.

        Raises:
            FatalError: a log of an event that we know cannot be read; the log is named.
        """
        raise NotImplementedError
