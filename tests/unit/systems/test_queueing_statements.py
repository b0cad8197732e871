"""What the current dispatching document says of queue, dispatch and downloads.

docs/fidelity/ says which statement is shown by which test.
See docs/reference/sources.md#crynux-dispatching.
"""

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction

import pytest

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.domain.state.task import Task
from oracle.systems.assignment import (
    NOTHING_PLANNED,
    AssignmentPlan,
    Choice,
    InLine,
    line_of,
    next_plan,
    queue_of,
)
from oracle.systems.crynux.crynux_policy import SEED_POLICY, why_not
from oracle.systems.crynux.crynux_queue import is_waiting
from oracle.systems.crynux.crynux_rule_sets import SEED
from oracle.systems.crynux.predownload import predownloads
from oracle.systems.crynux.requirements import requirement_of
from oracle.systems.crynux.selection_weight import SEED_WEIGHTING
from oracle.systems.policy import PolicyInput
from oracle.systems.weighted_draw import draw
from tests.support.histories import History, folded, node, task


@dataclass(frozen=True)
class Town:
    """The nodes at the end of a block, as the policy sees them."""

    policy_input: PolicyInput

    def candidates(self, task: Task, taken: AbstractSet[Address]) -> Sequence[tuple[Address, int]]:
        policy_input = PolicyInput(
            self.policy_input.nodes, SEED, self.policy_input.time, frozenset(taken)
        )
        said = SEED_POLICY.follow().verdicts(task, policy_input)
        return [(one.node, one.weight) for one in said if one.weight is not None]

    def suffices(self, one: InLine, taken: AbstractSet[Address]) -> bool:
        return bool(self.candidates(one.task, taken))

    def draw(self, one: InLine, seed: bytes, taken: AbstractSet[Address]) -> Choice:
        candidates = self.candidates(one.task, taken)
        return Choice(draw(candidates, seed, 1), candidates)

    def is_eligible(self, task: Task, node: Address) -> bool:
        return (
            why_not(self.policy_input.nodes[node], requirement_of(task), self.policy_input) is None
        )


class Dispatch:
    """Plays a history block by block; `goes_on` ends a block and says who was drawn for what."""

    def __init__(self) -> None:
        self.history = History()
        self.plan: AssignmentPlan = NOTHING_PLANNED
        self.waits: list[str] = []

    def goes_on(self) -> dict[str, str]:
        fold, _ = folded(self.history)
        ledger, number = fold.ledger, self.history.block
        waiting = [known for known in ledger.tasks.values() if is_waiting(known)]
        line = line_of(waiting, {}, lambda known: Fraction(known.fee or 0))
        hashed = Hash(f"0x{number:064x}")
        block = BlockRef(number, hashed, hashed, self.history.time)
        turn = next_plan(self.plan, block, line, Town(PolicyInput(ledger.nodes, SEED, block.time)))
        self.plan = turn.plan
        self.waits = [named(one.task.key) for one in queue_of(line, self.plan, number)]
        drawn = {named(one.task): named(one.node) for one in turn.drawn}
        for key, runner in drawn.items():
            self.history.starts(key, runner)
        self.history.after(1)
        return drawn


def named(key: str) -> str:
    return bytes.fromhex(key[2:]).lstrip(b"\0").decode()


def busy_town() -> Dispatch:
    """One member, `A`, that runs a task, and two that wait for it, worth 3 and 9."""
    town = Dispatch()
    town.history.joins("A", gpu_vram=16, stake=1).starts("first", "A")
    town.history.creates("poor", fee=3).creates("rich", fee=9)
    assert town.goes_on() == {}
    return town


def settled(town: Dispatch) -> dict[str, str]:
    """One block for a node to be seen, one to draw by its hash."""
    return town.goes_on() or town.goes_on()


# The queue and who takes from it


def test_a_task_without_a_candidate_waits():
    town = busy_town()
    assert settled(town) == {}
    assert town.waits == ["rich", "poor"]


@pytest.mark.parametrize("frees", ["finishes", "joins", "resumes"])
def test_a_node_that_becomes_available_takes_the_most_valuable_task(frees):
    town = busy_town()
    match frees:
        case "finishes":
            town.history.succeeds("first")
        case "joins":
            town.history.joins("B", stake=1)
        case _:
            town.history.pauses("A").succeeds("first")
            assert settled(town) == {}
            town.history.resumes("A")
    assert list(settled(town)) == ["rich"]
    assert town.waits == ["poor"]


def test_a_new_task_is_dispatched_while_others_wait_for_other_nodes():
    town = Dispatch()
    town.history.joins("small", gpu_vram=8, stake=1).creates("large", fee=9, min_vram=24)
    assert settled(town) == {}
    town.history.creates("new", fee=1)
    assert settled(town) == {"new": "small"}
    assert town.waits == ["large"]


def test_a_node_is_drawn_for_one_task_only():
    town = Dispatch()
    town.history.joins("A", "B", stake=1).creates("1", "2", "3", fee=1)
    drawn = settled(town)
    assert len(drawn) == 2
    assert set(drawn.values()) == {"A", "B"}


# Model pre-download


def asked_with(holders: int, others: int) -> dict[str, int]:
    """How many nodes are asked for the model as a task starts, that many free ones having it."""
    history = History().joins("runner", stake=1, models=("base",))
    for n in range(holders):
        history.joins(f"has {n}", stake=1, models=("base",))
    for n in range(others):
        history.joins(f"lacks {n}", stake=1)
    history.creates("t", models=("base",)).starts("t", "runner")
    fold, _ = folded(history)
    policy_input = PolicyInput(fold.ledger.nodes, SEED, history.time)
    asked = predownloads(fold.ledger.tasks[task("t")], policy_input, SEED_WEIGHTING)
    assert all(node("runner") not in one.nodes for one in asked)
    return {one.model: len(one.nodes) for one in asked if one.nodes}


@pytest.mark.parametrize(
    ("holders", "others", "asked"),
    [(3, 20, {}), (2, 20, {"base": 8}), (0, 20, {"base": 10}), (0, 4, {"base": 4}), (0, 0, {})],
)
def test_fewer_than_three_free_holders_of_a_model_bring_others_up_to_ten(holders, others, asked):
    assert asked_with(holders, others) == asked
