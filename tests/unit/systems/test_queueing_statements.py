"""The statements of the current dispatching document about queue, dispatch and downloads.

docs/fidelity/ names the test of each statement. See docs/reference/sources.md#crynux-dispatching.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

import pytest

from oracle.dispatch.drawer import BlockDrawer, load_queue_view
from oracle.domain.blocks import BlockRef
from oracle.domain.events.network_events import TaskKind
from oracle.domain.fold.working_set import WorkingSet
from oracle.domain.ids import GroupKey, Hash
from oracle.domain.state import Node, Task
from oracle.systems.assignment import filter_queued_items
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import CRYNUX_POLICY, CRYNUX_WEIGHTING
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.crynux.predownload import plan_predownloads
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.pocket.pocket_policy import PocketEvaluator
from oracle.systems.policy import PolicyInput
from oracle.systems.task_queue import is_waiting
from tests.support.histories import History, fold_history, make_node_address, make_task_key
from tests.support.txmgr.dispatch_harness import build_dispatch_settings
from tests.support.vectors import load_vector

# A second of work, so that a task's value is its fee.
ONE_SECOND = Pricing(dict.fromkeys(TaskKind, Fraction(1)), dict.fromkeys(TaskKind, Fraction(0)))


@dataclass(frozen=True)
class LedgerView:
    """The network at the end of a block, as read from the daemon's tables."""

    ledger: WorkingSet

    def get_waiting_tasks(self) -> Sequence[Task]:
        return [
            ledger_task for ledger_task in self.ledger.tasks.values() if is_waiting(ledger_task)
        ]

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for task in self.ledger.tasks.values() if task.group in groups]

    def pop_changed_tasks(self) -> Sequence[Task]:
        return list(self.ledger.tasks.values())

    def get_nodes_changed_since(self, _: int | None) -> Iterable[Node]:
        return self.ledger.nodes.values()

    def get_pocket_evaluator(self, _: int) -> PocketEvaluator:
        raise AssertionError("this policy remembers nothing")


class Dispatch:
    """Runs the daemon's drawer block by block; `goes_on` ends a block and returns its draws.

    `hashes`: a number for each block hash, so that one history has several draws.
    """

    def __init__(self, hashes: int = 0) -> None:
        self.history = History()
        self.drawer = BlockDrawer(
            build_dispatch_settings(self.history.block, rules=CRYNUX, pricing=ONE_SECOND)
        )
        self.waits: list[str] = []
        self._hashes = hashes

    def goes_on(self) -> dict[str, str]:
        fold, _ = fold_history(self.history)
        view = LedgerView(fold.ledger)
        number = self.history.block
        hashed = Hash(f"0x{self._hashes * 1000 + number:064x}")
        turn = self.drawer.draw_at_block(view, BlockRef(number, hashed, hashed, self.history.time))
        line = load_queue_view(view, self.drawer.settings).items
        self.waits = [
            decode_task_name(queue_item.task.key)
            for queue_item in filter_queued_items(line, self.drawer.plan, number)
        ]
        drawn = {
            decode_task_name(task_draw.task): decode_task_name(task_draw.node)
            for task_draw in turn.new_draws
        }
        for key, runner in drawn.items():
            self.history.starts(key, runner)
        self.history.after(1)
        return drawn


def decode_task_name(key: str) -> str:
    return bytes.fromhex(key[2:]).lstrip(b"\0").decode()


def build_busy_dispatch() -> Dispatch:
    """Return a member `A` that runs a task, and two tasks with the values 3
    and 9 that wait for it.
    """
    dispatch = Dispatch()
    dispatch.history.joins("A", gpu_vram=16, stake=1).starts("first", "A")
    dispatch.history.creates("poor", fee=3).creates("rich", fee=9)
    assert dispatch.goes_on() == {}
    return dispatch


def mine_two_blocks(dispatch: Dispatch) -> dict[str, str]:
    """Mine a block in which the node is noticed, and one whose hash decides the draw."""
    return dispatch.goes_on() or dispatch.goes_on()


# The queue, and nodes that take tasks from it


def test_task_without_candidate_waits():
    dispatch = build_busy_dispatch()
    assert mine_two_blocks(dispatch) == {}
    assert dispatch.waits == ["rich", "poor"]


@pytest.mark.parametrize("frees", ["finishes", "joins", "resumes"])
def test_available_node_takes_most_valuable_task(frees):
    dispatch = build_busy_dispatch()
    match frees:
        case "finishes":
            dispatch.history.succeeds("first")
        case "joins":
            dispatch.history.joins("B", stake=1)
        case _:
            dispatch.history.pauses("A").succeeds("first")
            assert mine_two_blocks(dispatch) == {}
            dispatch.history.resumes("A")
    assert list(mine_two_blocks(dispatch)) == ["rich"]
    assert dispatch.waits == ["poor"]


def test_new_task_is_dispatched_while_others_wait():
    dispatch = Dispatch()
    dispatch.history.joins("small", gpu_vram=8, stake=1).creates("large", fee=9, min_vram=24)
    assert mine_two_blocks(dispatch) == {}
    dispatch.history.creates("new", fee=1)
    assert mine_two_blocks(dispatch) == {"new": "small"}
    assert dispatch.waits == ["large"]


def test_node_is_drawn_for_only_one_task():
    dispatch = Dispatch()
    dispatch.history.joins("A", "B", stake=1).creates("1", "2", "3", fee=1)
    drawn = mine_two_blocks(dispatch)
    assert len(drawn) == 2
    assert set(drawn.values()) == {"A", "B"}


GPUS = {"4090": ("RTX 4090", 24), "4080": ("RTX 4080", 16), "3080": ("RTX 3080", 16)}


@pytest.mark.parametrize(("freed", "taken"), [("4080", "4080"), ("4090", "any 24")])
def test_freed_node_is_drawn_for_most_valuable_fitting_task(freed, taken):
    dispatch = Dispatch()
    dispatch.history.creates("any 24", fee=40, min_vram=24).creates("any 16", fee=20, min_vram=16)
    for gpu, fee in (("4080", 30), ("3080", 35)):
        name, vram = GPUS[gpu]
        dispatch.history.creates(gpu, fee=fee, required_gpu=name, required_gpu_vram=vram)
    assert mine_two_blocks(dispatch) == {}
    name, vram = GPUS[freed]
    dispatch.history.joins(freed, stake=1, gpu_name=name, gpu_vram=vram)
    assert mine_two_blocks(dispatch) == {taken: freed}


# Draws


def drawn_for(build: Callable[[History], object], times: int = 64) -> set[str]:
    """Return the nodes that are drawn for the task `t` of one history, with different hashes."""
    drawn_names = set()
    for hashes in range(times):
        dispatch = Dispatch(hashes)
        build(dispatch.history)
        drawn_names |= {who for name, who in mine_two_blocks(dispatch).items() if name == "t"}
    return drawn_names


def test_only_nodes_meeting_criteria_are_drawn():
    def build(history: History) -> None:
        history.joins("A", "B", gpu_vram=16, stake=1).joins("small", gpu_vram=8, stake=1)
        history.joins("paused", gpu_vram=16, stake=1).pauses("paused")
        history.creates("t", min_vram=16)

    assert drawn_for(build) == {"A", "B"}


def test_only_holder_of_all_models_is_drawn():
    def build(history: History) -> None:
        history.joins("one", "all", "none", stake=1).adds_model("one", "base")
        history.adds_model("all", "base").adds_model("all", "lora")
        history.creates("t", models=("base", "lora"))

    assert drawn_for(build) == {"all"}


def test_any_eligible_node_is_drawn_when_no_free_node_holds_all_models():
    def build(history: History) -> None:
        history.joins("busy", "one", "none", stake=1).adds_model("one", "base")
        history.adds_model("busy", "base").adds_model("busy", "lora").starts("other", "busy")
        history.creates("t", models=("base", "lora"))

    assert drawn_for(build) == {"one", "none"}


def test_draw_frequencies_follow_stake_and_score():
    history = History().joins("slow", "fast", "rich", "new", stake=100).updates("rich", stake=400)
    history.scores("slow", 2).scores("fast", 10).creates("t")
    fold, _ = fold_history(history)
    drawn_task = fold.ledger.tasks[make_task_key("t")]
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    for member_node in fold.ledger.nodes.values():
        pool.update_node(member_node)
    policy_input = PolicyInput(fold.ledger.nodes, CRYNUX, history.time)
    candidate_verdicts = CRYNUX_POLICY.create_evaluator().evaluate_candidates(
        drawn_task, policy_input
    )
    total = sum(verdict.weight or 0 for verdict in candidate_verdicts)
    draws = 4000
    wins = Counter(
        drawn.node
        for n in range(draws)
        for drawn in pool.draw_nodes(
            drawn_task, history.time, sha256(n.to_bytes(4, "big")).digest()
        )
    )
    expected = {
        verdict.node: draws * (verdict.weight or 0) / total for verdict in candidate_verdicts
    }
    # By chi-square, above four standard deviations of its mean; the seeds are fixed.
    freedom = len(expected) - 1
    far = sum((wins[who] - much) ** 2 / much for who, much in expected.items())
    assert far < freedom + 4 * (2 * freedom) ** 0.5
    assert (
        wins[make_node_address("slow")]
        < wins[make_node_address("new")]
        < min(wins[make_node_address("fast")], wins[make_node_address("rich")])
    )


# Model pre-download


def count_download_requests(holders: int, lacking_count: int) -> dict[str, int]:
    """Return how many nodes are asked for the model when a task starts,
    with this many free holders.
    """
    history = History().joins("runner", stake=1, models=("base",))
    for n in range(holders):
        history.joins(f"has {n}", stake=1, models=("base",))
    for n in range(lacking_count):
        history.joins(f"lacks {n}", stake=1)
    history.creates("t", models=("base",)).starts("t", "runner")
    fold, _ = fold_history(history)
    policy_input = PolicyInput(fold.ledger.nodes, CRYNUX, history.time)
    predownloads = plan_predownloads(
        fold.ledger.tasks[make_task_key("t")], policy_input, CRYNUX_WEIGHTING
    )
    assert all(
        make_node_address("runner") not in predownload.nodes for predownload in predownloads
    )
    return {
        predownload.model: len(predownload.nodes)
        for predownload in predownloads
        if predownload.nodes
    }


UP_TO_TEN = [
    (case["available_holders"], 20, {"base": case["extra_nodes"]} if case["extra_nodes"] else {})
    for case in load_vector("model_distribution/md-03 Gen B contract rule")["cases"]
]


@pytest.mark.parametrize(
    ("holders", "others", "requested"), [*UP_TO_TEN, (0, 4, {"base": 4}), (0, 0, {})]
)
def test_downloads_of_scarce_model_are_requested_to_reach_ten_holders(holders, others, requested):
    assert count_download_requests(holders, others) == requested
