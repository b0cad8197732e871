"""Random short histories for the journal's tests, folded into a store without any service."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, groupby
from typing import Any

from hypothesis import strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events import network_events, oracle_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.events.oracle_events import ContractEvent, RoundAccepted
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import (
    Fold,
    collect_node_addresses,
    collect_open_group_keys,
    collect_open_group_task_keys,
    collect_task_keys,
)
from oracle.domain.ids import ZERO_ADDRESS
from oracle.domain.reports.contract_state import ContractState
from oracle.store.database import UnitOfWork
from tests.support.histories import NODE_ONLY_KINDS, build_changed_rules
from tests.support.rounds import build_accepted_round
from tests.unit.store.samples import address, block, group_key, make_hash, task_key

Event = DomainEvent | ContractEvent

# Groups of two close by themselves, and two scores fill a pool, so events are frequent.
QUICK = build_changed_rules(pool_size=2, close="terminal", group_size=2, kickout_below=6 * UNIT)
LAST_BLOCK = 12
NODES = range(1, 4)
STORIES = 7

# A story is a sequence of events, each at a drawn block.
Story = list[Event]
_NOWHERE = Position(0, 0, 0)
_NEVER = 0
_nodes = st.sampled_from([address(number) for number in NODES])


@st.composite
def histories(draw: st.DrawFn, first: int = 1, last: int = LAST_BLOCK) -> list[Event]:
    """Draw events in order from block `first` to `last`: interleaved stories,
    some of them cut short.
    """
    number = draw(st.integers(1, STORIES))
    stories = [draw(_stories(1000 * first + 10 * place)) for place in range(number)]
    numbered_events = [
        (block_number, event)
        for story in stories
        for block_number, event in zip(
            sorted(draw(_places(first, last, len(story)))),
            story,
            strict=False,
        )
    ]
    numbered_events.sort(key=lambda pair: pair[0])
    return [
        replace(event, at=Position(block_number, place, place), time=10 * block_number)
        for place, (block_number, event) in enumerate(numbered_events)
    ]


def _places(first: int, last: int, number: int) -> st.SearchStrategy[list[int]]:
    """Draw a block for every event of a story, which may end early."""
    blocks = st.integers(first, last)
    block_lists = st.lists(blocks, min_size=number, max_size=number)
    return st.one_of(block_lists, block_lists, block_lists, st.lists(blocks, max_size=number))


@st.composite
def _stories(draw: st.DrawFn, number: int) -> Story:
    """Draw a story; its names are `number` and the following ones."""
    kind = draw(st.sampled_from([_group, _group, _group, _lane, _member]))
    return kind(draw, number)


def _member(draw: st.DrawFn, _number: int) -> Story:
    node = draw(_nodes)
    kinds = draw(st.lists(st.sampled_from(NODE_ONLY_KINDS), max_size=4))
    return [
        network_events.NodeJoined(_NOWHERE, _NEVER, node, stake=10**18),
        *(kind(_NOWHERE, _NEVER, node) for kind in kinds),
        network_events.NodeJoined(_NOWHERE, _NEVER, node),
    ]


def _group(draw: st.DrawFn, number: int) -> Story:
    """Draw a group of two: both tasks are created, started and ended, one of them in time."""
    tasks = [task_key(number), task_key(number + 1)]
    group = group_key(number)
    runners = [draw(_nodes), draw(_nodes)]
    story: Story = [network_events.NodeJoined(_NOWHERE, _NEVER, node) for node in runners]
    story += [
        network_events.TaskCreated(_NOWHERE, _NEVER, task, group=group, fee=1) for task in tasks
    ]
    story += [
        network_events.TaskStarted(_NOWHERE, _NEVER, task, node)
        for task, node in zip(tasks, runners, strict=True)
    ]
    late = draw(st.booleans())
    story.append(network_events.TaskSubmitted(_NOWHERE, _NEVER, tasks[0], runners[0]))
    if not late:
        story.append(network_events.TaskSubmitted(_NOWHERE, _NEVER, tasks[1], runners[1]))
    story.append(network_events.TaskSucceeded(_NOWHERE, _NEVER, tasks[0]))
    ending = network_events.TaskTimedOut if late else network_events.TaskRefunded
    story.append(ending(_NOWHERE, _NEVER, tasks[1]))
    return story


def _lane(draw: st.DrawFn, number: int) -> Story:
    """Draw events of the contract: it accepts rounds; a node is accused, and possibly expelled."""
    kick: dict[str, Any] = {"at": _NOWHERE, "time": _NEVER, "node": draw(_nodes)}
    story: Story = [
        oracle_events.ConfigSet(_NOWHERE, _NEVER, number, make_hash(number)),
        _round(number),
        oracle_events.KickAccused(
            **kick, round=number, due_since=number, evidence=make_hash(number), ready_at=number + 9
        ),
        _round(number + 1),
    ]
    if draw(st.booleans()):
        executed = {**kick, "evidence": make_hash(number), "target": ZERO_ADDRESS}
        story.append(oracle_events.KickExecuted(**executed))
        refused = {**kick, "target": ZERO_ADDRESS, "reason": make_hash(number)}
        story.append(oracle_events.KickRefused(**refused))
    else:
        cancelled = {**kick, "by": ZERO_ADDRESS, "why": make_hash(0)}
        story.append(oracle_events.KickCancelled(**cancelled))
    return story


def _round(number: int) -> oracle_events.RoundAccepted:
    return replace(build_accepted_round(number), at=_NOWHERE)


def _number_rounds(events: list[ContractEvent], state: ContractState) -> list[ContractEvent]:
    """Return the events of a block, with their rounds numbered from the state's last round on."""
    numbers = count(state.head_round + 1)
    return [
        replace(event, round=next(numbers)) if isinstance(event, RoundAccepted) else event
        for event in events
    ]


def fold_into(uow: UnitOfWork, events: Sequence[Event], last: int, *, final: int) -> None:
    """Fold from the cursor up to block `last`, with a journal of the blocks above `final`."""
    cursor = uow.cursor.get()
    fold = Fold(QUICK)
    contract_state = uow.rounds.load_contract_state()
    fold.last = uow.last_event.get()
    _load_everything(uow, fold, events)
    for number, in_block in groupby(events, key=lambda event: event.at.block):
        mixed = list(in_block)
        journal = number > final
        network_events = [event for event in mixed if not isinstance(event, ContractEvent)]
        fold.fold_block(number, network_events, journal=journal)
        contract_events = [event for event in mixed if isinstance(event, ContractEvent)]
        contract_state.fold_block(
            number, _number_rounds(contract_events, contract_state), journal=journal
        )
        uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(QUICK))
        uow.rounds.save_changes(contract_state.drain_changes())
    uow.undo.prune_journal_to(min(final, last))
    uow.cursor.move_to(block(last), None, 0 if cursor is None else cursor.epoch)


def _load_everything(uow: UnitOfWork, fold: Fold, events: Sequence[Event]) -> None:
    network_events = [event for event in events if not isinstance(event, ContractEvent)]
    rows = fold.ledger
    rows.detector = uow.incidents.load_detector()
    rows.tasks.update(uow.tasks.get_many(collect_task_keys(network_events)))
    rows.groups.update(
        uow.groups.get_many(collect_open_group_keys(network_events, rows.tasks, QUICK))
    )
    rows.tasks.update(uow.tasks.get_many(collect_open_group_task_keys(rows.groups.values())))
    addresses = collect_node_addresses(network_events, rows.tasks)
    rows.nodes.update(uow.nodes.get_many(addresses))


def forget_everything(uow: UnitOfWork) -> None:
    uow.projections.clear()
    uow.cursor.clear()
