"""The statements of the legacy dispatching document that no other test covers.

docs/fidelity/ names the test of each statement. See
docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections import Counter
from fractions import Fraction
from hashlib import sha256

import pytest

from oracle.domain.events.network_events import TaskKind
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Task
from oracle.systems.legacy.legacy_policy import LEGACY_EQUAL_POLICY, LEGACY_POLICY, LegacyPolicy
from oracle.systems.policy import CandidateVerdict, PolicyInput
from oracle.systems.registry import build_rules
from tests.support.document.legacy_queue import LegacyQueue
from tests.support.histories import History, fold_history, make_task_key

GPUS = {"4090": 24, "4080": 16, "3080": 16, "3070": 12}
GPT, SD = TaskKind.LLM, TaskKind.SD
SEED = bytes(32)
RULES: Rules = build_rules(
    "legacy",
    {
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        "legacy.kickout_below": "2",
        "legacy.kickout_tasks": "3",
    },
)


def build_members(**gpus: int) -> History:
    """Return this number of nodes of each GPU, `_4090=3`: nodes `4090 0` to `4090 2`."""
    history = History()
    for gpu, count in gpus.items():
        model = gpu.removeprefix("_")
        for n in range(count):
            history.joins(f"{model} {n}", gpu_name=f"RTX {model}", gpu_vram=GPUS[model])
    return history


def decode_task_name(key: str) -> str:
    return bytes.fromhex(key[2:]).lstrip(b"\0").decode()


def build_policy_arguments(history: History) -> tuple[Task, PolicyInput]:
    fold, _ = fold_history(history, RULES)
    return fold.ledger.tasks[make_task_key("t")], PolicyInput(
        fold.ledger.nodes, RULES, history.time
    )


def verdicts(
    history: History, policy: LegacyPolicy = LEGACY_POLICY
) -> dict[str, CandidateVerdict]:
    return {
        decode_task_name(verdict.node): verdict
        for verdict in policy.create_evaluator().evaluate_candidates(
            *build_policy_arguments(history)
        )
    }


def candidates(history: History) -> set[str]:
    return {name for name, verdict in verdicts(history).items() if verdict.weight is not None}


# Candidates


def test_nodes_of_a_finished_task_become_candidates_again():
    history = build_members(_4090=3).creates("t", kind=SD)
    for place in range(3):
        history.starts("other", f"4090 {place}", place=place)
    assert candidates(history) == set()
    assert len(candidates(history.succeeds("other"))) == 3


def test_new_task_is_assigned_while_others_wait():
    history = build_members(_3070=3).creates("large", kind=SD, min_vram=24, fee=9).queues("large")
    choice = LEGACY_POLICY.draw_trio(
        *build_policy_arguments(history.creates("t", kind=SD, min_vram=8, fee=1)), SEED
    )
    assert choice is not None
    assert len(choice.nodes) == 3


def draw_trios(history: History, times: int) -> list[tuple[str, ...]]:
    """Return the three nodes that `legacy-equal` draws for the task `t`, with different seeds."""
    trio_task, policy_input = build_policy_arguments(history)
    seeds = (sha256(n.to_bytes(4, "big")).digest() for n in range(times))
    chosen_trios = [LEGACY_EQUAL_POLICY.draw_trio(trio_task, policy_input, seed) for seed in seeds]
    return [
        tuple(decode_task_name(node_draw.node) for node_draw in trio.nodes)
        for trio in chosen_trios
        if trio is not None
    ]


def test_image_task_can_be_drawn_on_nodes_of_different_gpus():
    trios = draw_trios(
        build_members(_4090=2, _4080=1, _3080=2, _3070=3).creates("t", kind=SD, min_vram=16), 64
    )
    assert {name for trio in trios for name in trio} == {
        "4090 0", "4090 1", "4080 0", "3080 0", "3080 1",
    }  # fmt: skip
    assert {frozenset(name.partition(" ")[0] for name in trio) for trio in trios} >= {
        frozenset({"4090", "4080", "3080"}),
        frozenset({"4090", "3080"}),
    }


def test_gpu_for_text_task_is_drawn_in_proportion_to_its_nodes():
    trios = draw_trios(build_members(_4090=3, _4080=6).creates("t", kind=GPT), 900)
    gpus = Counter(name.partition(" ")[0] for trio in trios for name in trio)
    # 600 and 300 of 900, within four standard deviations of 14.1 of the binomial; the seeds
    # are fixed.
    assert gpus["4080"] + gpus["4090"] == 2700
    assert abs(gpus["4080"] // 3 - 600) < 57


# How likely they are


def with_a_laggard() -> History:
    """Return three nodes of one GPU, of which `4090 2` has timed out on every task."""
    history = build_members(_4090=3)
    for n in range(2):
        for place in range(3):
            history.starts(f"old {n}", f"4090 {place}", place=place)
        for step in (history.commits, history.discloses):
            for place in range(2):
                step(f"old {n}", f"4090 {place}")
        history.times_out(f"old {n}", by="4090 2").succeeds(f"old {n}")
    return history.creates("t", kind=SD)


def test_node_that_timed_out_on_every_task_has_zero_weight():
    verdict_by_name = verdicts(with_a_laggard())
    assert verdict_by_name["4090 2"].weight == 0
    first, second = (verdict_by_name[name].weight or 0 for name in ("4090 0", "4090 1"))
    assert first == pytest.approx(2 * second)


def test_equal_policy_ignores_qos():
    candidate_verdicts = verdicts(with_a_laggard(), LEGACY_EQUAL_POLICY).values()
    assert {verdict.weight for verdict in candidate_verdicts} == {UNIT // 3}


# A freed node and the queue


def build_queue(*orders: tuple[str, TaskKind, int, int]) -> LegacyQueue:
    """Return a queue of tasks by name, kind, minimum VRAM and value, the oldest first."""
    history = History()
    for name, kind, vram, value in orders:
        history.after(1).creates(name, kind=kind, min_vram=vram, fee=value)
    fold, _ = fold_history(history, RULES)
    return LegacyQueue(
        lambda queued_task: Fraction(queued_task.fee or 0), fold.ledger.tasks.values()
    )


def list_offers(queue: LegacyQueue, freed: str, **gpus: int) -> list[str]:
    """Return the tasks that become possible with a freed node, the best first."""
    nodes = build_policy_arguments(build_members(**gpus).creates("t"))[1].nodes.values()
    (node,) = (candidate for candidate in nodes if decode_task_name(candidate.address) == freed)
    return [decode_task_name(offer.waiting.key) for offer in queue.offers_for(node, nodes)]


def test_three_equal_gpus_take_text_and_image_tasks_within_vram():
    queue = build_queue(("sd", SD, 8, 1), ("gpt", GPT, 16, 2), ("large", GPT, 24, 9))
    assert list_offers(queue, "4080 0", _4080=3) == ["gpt", "sd"]


def test_three_different_gpus_take_only_image_tasks():
    queue = build_queue(("sd", SD, 8, 1), ("gpt", GPT, 8, 9), ("large", SD, 24, 9))
    assert list_offers(queue, "4080 0", _4080=1, _3080=1, _4090=1) == ["sd"]
