"""Random histories of the oracle contract of roots, and the complete content of a folded state."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    ContractKickLimits,
    KickAccused,
    KickAllowed,
    KickCancelled,
    KickExecuted,
    KickLimitsSet,
    KickRefused,
    LimitsSet,
    NodeExpelled,
    NodeReadmitted,
    Objected,
    OperationCancelled,
    OperationSalted,
    PausedUntil,
    RootsLimits,
    RoundAccepted,
    RoundsStruck,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
    SignersSet,
)
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash
from oracle.domain.reports.contract_state import ContractSettings, ContractState
from oracle.domain.reports.node_kicks import NodeKick
from tests.support.rounds import make_address

KEPT = 4
AT = Position(0, 0, 0)


def get_root(state: ContractState, number: int) -> Hash | None:
    """Return the root of a round, or None if it is not kept, was struck, or does not exist."""
    root = state._roots.get(number, ZERO_HASH)
    return None if root == ZERO_HASH else root


TIME = 0
SIGNERS = tuple(make_address(number) for number in (7, 3, 9))
CONFIG, NEXT_CONFIG = (Hash(f"0x{digit * 64}") for digit in "cd")
MAX_EVENTS = 40


@dataclass(frozen=True)
class ContractView:
    """The complete content of a contract's state, in a form in which two states are compared."""

    head: RoundAccepted | None
    previous_root: Hash
    roots: dict[int, Hash | None]
    kicks: dict[Address, NodeKick]
    settings: ContractSettings

    @classmethod
    def of(cls, state: ContractState) -> "ContractView":
        rounds = range(state.head_round + 2)
        return cls(
            head=state.head,
            previous_root=state.previous_root,
            roots={number: get_root(state, number) for number in rounds},
            kicks=dict(state.kicks),
            settings=state.settings,
        )


def make_root(number: int) -> Hash:
    return Hash(f"0x{number:064x}")


def build_accepted_round(
    number: int, *, config: Hash = CONFIG, bitmap: int = 0b101
) -> RoundAccepted:
    """Return the event of a round in the block of the same number."""
    return RoundAccepted(
        at=Position(number, 0, 0),
        time=10 * number,
        round=number,
        as_of=number - 1,
        as_of_hash=ZERO_HASH,
        root=make_root(number),
        config=config,
        signer_bitmap=bitmap,
    )


_nodes = st.sampled_from([make_address(number) for number in (1, 2, 3)])
# What the reader of logs leaves of a stranger's bytes.
_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
_times = st.integers(1, 50)
_hashes = st.sampled_from([make_root(number) for number in (1, 2)])
_limits = st.lists(st.integers(0, 9), min_size=7, max_size=7)


def _build_struck_rounds(head: int, share: float) -> list[ContractEvent]:
    first = max(1, head - int(share * KEPT))
    return [RoundsStruck(AT, TIME, first, head)] if head else []


def _kick_events(event_type: type, *values: st.SearchStrategy[object]) -> st.SearchStrategy:
    drawn = st.tuples(_nodes, *values)
    return drawn.map(lambda fields: lambda _head: [event_type(AT, TIME, *fields)])


# Each makes the events that the contract could emit after so many rounds.
_steps: st.SearchStrategy[Callable[[int], list[ContractEvent]]] = st.one_of(
    _hashes.map(lambda config: lambda head: [build_accepted_round(head + 1, config=config)]),
    _hashes.map(lambda config: lambda head: [build_accepted_round(head + 1, config=config)]),
    st.floats(0, 1).map(lambda share: lambda head: _build_struck_rounds(head, share)),
    _kick_events(KickAccused, _times, _times, _hashes, _times),
    _kick_events(KickCancelled, st.sampled_from([ZERO_ADDRESS, make_address(9)]), _hashes),
    _kick_events(KickAllowed, _times),
    _kick_events(KickExecuted, _hashes, st.just(make_address(8))),
    _kick_events(KickRefused, st.just(make_address(8)), _hashes),
    _kick_events(NodeExpelled),
    _kick_events(NodeReadmitted),
    _kick_events(Objected, _times, st.integers(0, 9), st.integers(0, 9), _texts),
    _limits.map(lambda values: lambda _head: [LimitsSet(AT, TIME, RootsLimits(*values))]),
    _limits.map(
        lambda values: lambda _head: [KickLimitsSet(AT, TIME, ContractKickLimits(*values[:5]))]
    ),
    st.permutations(SIGNERS).map(
        lambda signers: lambda _head: [SignersSet(AT, TIME, tuple(signers), 2)]
    ),
    st.tuples(st.integers(1, 9), _hashes).map(
        lambda fields: lambda _head: [ConfigSet(AT, TIME, *fields)]
    ),
    _times.map(lambda until: lambda _head: [PausedUntil(AT, TIME, until)]),
    _hashes.map(lambda rules: lambda _head: [RulesSet(AT, TIME, rules)]),
    st.tuples(_hashes, _hashes, _times).map(
        lambda fields: lambda _head: [RulesScheduled(AT, TIME, *fields)]
    ),
    st.tuples(_hashes, _hashes).map(
        lambda fields: lambda _head: [OperationSalted(AT, TIME, *fields)]
    ),
    _hashes.map(lambda operation: lambda _head: [OperationCancelled(AT, TIME, operation)]),
    st.tuples(_hashes, _hashes).map(
        lambda fields: (
            lambda _head: [
                RulesSet(AT, TIME, fields[1]),
                RulesExecuted(AT, TIME, *fields),
            ]
        )
    ),
)


@st.composite
def contract_histories(draw: st.DrawFn) -> list[ContractEvent]:
    """Return events in order of their positions, in blocks of some events each."""
    events: list[ContractEvent] = []
    block, head = 1, 0
    for make in draw(st.lists(_steps, max_size=MAX_EVENTS)):
        block += draw(st.integers(0, 1))
        made = make(head)
        head += any(isinstance(event, RoundAccepted) for event in made)
        events += [
            replace(event, at=Position(block, 0, log), time=10 * block)
            for log, event in enumerate(made, len(events))
        ]
    return events
