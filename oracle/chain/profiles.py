"""A profile: which events of which contracts we read, and what each means in our words."""

from collections.abc import Callable
from dataclasses import dataclass

from oracle.domain.contract_events import ContractEvent
from oracle.domain.events import DomainEvent


@dataclass(frozen=True, slots=True)
class Meaning:
    """One event of a contract: `make(position, time, *inputs)` says it in our words.

    `inputs` names what we take of the event, by the names of its ABI, in the order of `make`.
    """

    event: str
    inputs: tuple[str, ...]
    make: Callable[..., DomainEvent | ContractEvent]


@dataclass(frozen=True, slots=True)
class Profile:
    """The contracts of one kind of network, by the name of their artifact under `abi/`.

    `has_rounds`: several nodes share a task, commit and disclose; `legacy` scores nothing else.
    """

    name: str
    contracts: dict[str, tuple[Meaning, ...]]
    has_rounds: bool = False
