"""A reference implementation of dispatching: every block examines all tasks and nodes again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.blocks import BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, TaskKey
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.crynux.crynux_policy import evaluate_members, find_ineligibility_reason
from oracle.systems.crynux.requirements import build_requirement
from oracle.systems.policy import PolicyInput
from oracle.systems.task_queue import QueueItem, build_queue, is_waiting
from oracle.systems.weighted_draw import compute_draw_seed, draw_nodes
from tests.support.scripted import ScriptedChain, ScriptedReader


@dataclass
class PlainDispatch:
    """A fold in memory, and the draws at the end of each block."""

    settings: DispatchSettings
    fold: Fold
    active: dict[TaskKey, StoredDraw] = field(default_factory=dict)
    over: list[StoredDraw] = field(default_factory=list)
    armed: set[TaskKey] = field(default_factory=set)
    # By task and seed block.
    candidates_by_draw: dict[tuple[TaskKey, int], dict[Address, int]] = field(default_factory=dict)

    def block(self, block: BlockRef, events: Sequence[DomainEvent]) -> None:
        self.fold.fold_block(block.number, events, journal=False)
        if block.number < self.settings.start_block:
            return
        line = self._line()
        standing = {queued.task.key for queued in line if self._stands(queued, block.time)}
        for key in [key for key in self.active if key not in standing]:
            self.over.append(replace(self.active.pop(key), voided_block=block.number))
        place = 0
        for queue_item in [queued for queued in line if queued.task.key in self.armed]:
            candidates = self._candidates(queue_item, block.time)
            if candidates:
                seed = compute_draw_seed(block.hash, queue_item.task.key)
                (drawn,) = draw_nodes(candidates, seed, 1)
                key = queue_item.task.key
                self.candidates_by_draw[key, block.number] = dict(candidates)
                self.active[key] = StoredDraw(
                    key,
                    block.number,
                    block.hash,
                    block.time,
                    drawn.node,
                    None,
                    sum(weight for _, weight in candidates) or len(candidates),
                    len(candidates),
                    place,
                )
                place += 1
        waits = (queued for queued in line if queued.task.key not in self.active)
        self.armed = {queued.task.key for queued in waits if self._candidates(queued, block.time)}

    def _line(self) -> list[QueueItem]:
        tasks = self.fold.ledger.tasks.values()
        unscored = [task for task in tasks if task.scored_in is None]
        return build_queue(
            filter(is_waiting, tasks), unscored, self.settings.pricing.compute_value
        )

    def _stands(self, queue_item: QueueItem, time: int) -> bool:
        drawn = self.active.get(queue_item.task.key)
        if drawn is None or drawn.node in queue_item.sibling_nodes:
            return False
        network = self._network(frozenset(), time)
        return (
            find_ineligibility_reason(
                network.nodes[drawn.node], build_requirement(queue_item.task), network
            )
            is None
        )

    def _candidates(self, queue_item: QueueItem, time: int) -> list[tuple[Address, int]]:
        unavailable_nodes = queue_item.get_unavailable_nodes(
            frozenset(draw.node for draw in self.active.values())
        )
        network = self._network(unavailable_nodes, time)
        verdicts = evaluate_members(queue_item.task, network, self.settings.weighting)
        return [
            (verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None
        ]

    def _network(self, unavailable_nodes: frozenset[Address], time: int) -> PolicyInput:
        return PolicyInput(self.fold.ledger.nodes, self.settings.rules, time, unavailable_nodes)


def list_chain_events(chain: ScriptedChain) -> Iterator[tuple[BlockRef, list[DomainEvent]]]:
    for block in chain.blocks:
        yield block.ref, ScriptedReader().decode_rows(block.logs, []).events


def dispatched_plainly(settings: DispatchSettings, chain: ScriptedChain) -> PlainDispatch:
    plain = PlainDispatch(settings, Fold(settings.rules))
    for block, events in list_chain_events(chain):
        plain.block(block, events)
    return plain


def drawn_plainly(settings: DispatchSettings, chain: ScriptedChain) -> set[StoredDraw]:
    """Return all draws at the end of a chain."""
    plain = dispatched_plainly(settings, chain)
    return {*plain.active.values(), *plain.over}
