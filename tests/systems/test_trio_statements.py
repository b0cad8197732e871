"""What the legacy dispatching document says with rules and examples (seeds/004), each once.

docs/fidelity.md says which statement is shown by which test.
"""

from collections import Counter
from fractions import Fraction
from hashlib import sha256

import pytest

from oracle.domain.events import TaskKind
from oracle.domain.fixed_point import UNIT
from oracle.domain.rules import Rules
from oracle.domain.tasks import Task
from oracle.systems.legacy.choosing import Choice
from oracle.systems.legacy.grading import CardGroup, by_card, by_vram
from oracle.systems.legacy.policy import LEGACY_EQUAL_POLICY, LEGACY_POLICY, LegacyPolicy
from oracle.systems.legacy.task_queue import LegacyQueue, TaskGroup
from oracle.systems.legacy.trios import Combination, combinations
from oracle.systems.policy import Scene, Verdict
from oracle.systems.registry import rule_set
from tests.histories import History, folded, task

CARDS = {"4090": 24, "4080": 16, "3080": 16, "4000 Ada": 16, "3070": 12}
GPT, SD = TaskKind.LLM, TaskKind.SD
RULES: Rules = rule_set(
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


def joined(**cards: int) -> History:
    """So many nodes of each card, `_4090=3`: nodes `4090 0` to `4090 2`."""
    history = History()
    for card, count in cards.items():
        model = card.removeprefix("_").replace("_", " ")
        for n in range(count):
            history.joins(f"{model} {n}", gpu_name=f"RTX {model}", gpu_vram=CARDS[model])
    return history


def named(key: str) -> str:
    return bytes.fromhex(key[2:]).lstrip(b"\0").decode()


def seen(history: History) -> tuple[Task, Scene]:
    fold, _ = folded(history, RULES)
    return fold.ledger.tasks[task("t")], Scene(fold.ledger.nodes, RULES, history.time)


def verdicts(history: History, policy: LegacyPolicy = LEGACY_POLICY) -> dict[str, Verdict]:
    return {named(one.node): one for one in policy.follow().verdicts(*seen(history))}


def candidates(history: History) -> set[str]:
    return {name for name, one in verdicts(history).items() if one.weight is not None}


def chosen(history: History, number: int, policy: LegacyPolicy = LEGACY_POLICY) -> Choice | None:
    return policy.choose(*seen(history), sha256(number.to_bytes(4, "big")).digest())


def names(choice: Choice | None) -> list[str]:
    assert choice is not None
    return [named(drawn.node) for drawn in choice.nodes]


# Who is a candidate


def test_nodes_are_grouped_by_card_and_cards_by_vram():
    history = joined(_4090=1, _4080=1, _3080=1, _4000_Ada=1).creates("t")
    groups = by_card(seen(history)[1].nodes.values())
    assert list(groups) == [
        CardGroup(16, "RTX 3080"),
        CardGroup(16, "RTX 4000 Ada"),
        CardGroup(16, "RTX 4080"),
        CardGroup(24, "RTX 4090"),
    ]
    assert {vram: len(cards) for vram, cards in by_vram(groups).items()} == {16: 3, 24: 1}


def test_an_image_task_takes_any_three_cards_with_vram_enough():
    history = joined(_4090=1, _4080=1, _3080=1, _3070=2).creates("t", kind=SD, min_vram=16)
    assert candidates(history) == {"4090 0", "4080 0", "3080 0"}
    assert sorted(names(chosen(history, 1))) == ["3080 0", "4080 0", "4090 0"]


def test_a_text_task_takes_three_of_one_card():
    history = joined(_4090=3, _4080=2, _3080=4).creates("t", kind=GPT, min_vram=16)
    assert {name.partition(" ")[0] for name in candidates(history)} == {"4090", "3080"}
    for number in range(20):
        assert len({name.partition(" ")[0] for name in names(chosen(history, number))}) == 1


@pytest.mark.parametrize(
    ("kind", "cards"), [(SD, {"_4090": 2}), (GPT, {"_4090": 2, "_4080": 2, "_3080": 2})]
)
def test_without_three_suitable_nodes_a_task_has_to_wait(kind, cards):
    history = joined(**cards).creates("t", kind=kind, min_vram=8)
    assert candidates(history) == set()
    assert chosen(history, 1) is None


def test_busy_and_paused_nodes_are_not_available():
    history = joined(_4090=5).starts("other", "4090 0", place=0).pauses("4090 1")
    assert candidates(history.creates("t", kind=GPT)) == {"4090 2", "4090 3", "4090 4"}


def test_the_three_nodes_of_a_finished_task_are_free_again():
    history = joined(_4090=3).creates("t", kind=SD)
    for place in range(3):
        history.starts("other", f"4090 {place}", place=place)
    assert candidates(history) == set()
    assert len(candidates(history.succeeds("other"))) == 3


def test_a_new_task_is_chosen_for_while_others_wait_for_other_nodes():
    history = joined(_3070=3).creates("large", kind=SD, min_vram=24, fee=9).queues("large")
    assert len(names(chosen(history.creates("t", kind=SD, min_vram=8, fee=1), 1))) == 3


# How likely they are


def test_a_card_group_is_drawn_by_its_size_so_that_nodes_not_groups_are_equal():
    history = joined(_4090=3, _3080=9).creates("t", kind=GPT)
    found = verdicts(history, LEGACY_EQUAL_POLICY).values()
    assert len({one.weight for one in found}) == 1
    cards = Counter(names(chosen(history, n, LEGACY_EQUAL_POLICY))[0][:4] for n in range(400))
    # 100 of 400 are to be expected, with a deviation of 8.7.
    assert 65 <= cards["4090"] <= 135


def test_across_groups_image_tasks_give_every_node_the_same_chance():
    history = joined(_4090=1, _4080=2, _3080=5).creates("t", kind=SD, min_vram=16)
    found = verdicts(history, LEGACY_EQUAL_POLICY).values()
    assert {one.weight for one in found} == {UNIT // 8}


def with_a_laggard() -> History:
    """Three nodes of one card, of which `4090 2` has timed out on every task."""
    history = joined(_4090=3)
    for n in range(2):
        for place in range(3):
            history.starts(f"old {n}", f"4090 {place}", place=place)
        for step in (history.commits, history.discloses):
            for place in range(2):
                step(f"old {n}", f"4090 {place}")
        history.times_out(f"old {n}", by="4090 2").succeeds(f"old {n}")
    return history.creates("t", kind=SD)


def test_a_node_that_times_out_has_a_low_probability():
    found = verdicts(with_a_laggard())
    assert found["4090 2"].weight == 0
    first, second = (found[name].weight or 0 for name in ("4090 0", "4090 1"))
    assert first == pytest.approx(2 * second)


def test_where_chances_are_to_be_equal_qos_does_not_count():
    found = verdicts(with_a_laggard(), LEGACY_EQUAL_POLICY).values()
    assert {one.weight for one in found} == {UNIT // 3}


# A freed node and the queue


def threes(freed: str, **cards: int) -> dict[str, Combination]:
    """The combinations of a freed node, by `card` and `vram`."""
    nodes = {
        named(address): known
        for address, known in seen(joined(**cards).creates("t"))[1].nodes.items()
    }
    found = combinations(nodes[freed], nodes.values())
    return {"vram" if each.card is None else "card": each for each in found}


def queued(*orders: tuple[str, TaskKind, int, int]) -> LegacyQueue:
    """A queue of tasks by name, kind, least VRAM and value, the oldest first."""
    history = History()
    for name, kind, vram, value in orders:
        history.after(1).creates(name, kind=kind, min_vram=vram, fee=value)
    fold, _ = folded(history, RULES)
    return LegacyQueue(lambda known: Fraction(known.fee or 0), fold.ledger.tasks.values())


def offered(queue: LegacyQueue, freed: str, **cards: int) -> list[str]:
    """The tasks that a freed node brings into reach, the best first."""
    nodes = seen(joined(**cards).creates("t"))[1].nodes.values()
    (node,) = (each for each in nodes if named(each.address) == freed)
    return [named(offer.waiting.key) for offer in queue.offers_for(node, nodes)]


def test_two_more_of_its_card_make_a_text_task_possible():
    assert threes("4090 0", _4090=3, _3070=5)["card"].card == CardGroup(24, "RTX 4090")
    assert "card" not in threes("4090 0", _4090=2, _3070=5)


@pytest.mark.parametrize(
    ("freed", "cards", "least"),
    [
        ("4090 0", {"_4090": 1, "_4080": 2, "_3070": 4}, 16),
        ("4090 0", {"_4090": 2, "_4080": 1, "_3070": 4}, 16),
        ("3070 0", {"_4090": 4, "_3070": 1}, 12),
    ],
)
def test_the_three_with_the_largest_least_vram_have_the_freed_node_among_them(freed, cards, least):
    found = threes(freed, **cards)["vram"]
    assert named(found.freed.address) == freed
    assert found.vram == least
    assert all((partner.gpu_vram or 0) >= least for partner in found.partners)


def test_two_free_nodes_make_nothing_possible():
    assert threes("4090 0", _4090=2) == {}


def test_tasks_wait_in_groups_by_kind_and_then_by_vram_the_best_first():
    queue = queued(("a", SD, 16, 1), ("b", GPT, 24, 2), ("c", SD, 16, 3), ("d", GPT, 16, 4))
    assert {
        group: [named(waiting.key) for waiting in entries]
        for group, entries in queue.groups().items()
    } == {
        TaskGroup(gpt=False, vram=16): ["c", "a"],
        TaskGroup(gpt=True, vram=16): ["d"],
        TaskGroup(gpt=True, vram=24): ["b"],
    }
    assert [named(waiting.key) for waiting in queue.in_order()] == ["d", "c", "b", "a"]


def test_three_of_one_card_take_text_and_image_tasks_up_to_their_vram():
    queue = queued(("sd", SD, 8, 1), ("gpt", GPT, 16, 2), ("large", GPT, 24, 9))
    assert offered(queue, "4080 0", _4080=3) == ["gpt", "sd"]


def test_three_of_different_cards_take_image_tasks_alone():
    queue = queued(("sd", SD, 8, 1), ("gpt", GPT, 8, 9), ("large", SD, 24, 9))
    assert offered(queue, "4080 0", _4080=1, _3080=1, _4090=1) == ["sd"]


def test_the_worked_case_of_the_figure():
    groups = {
        (SD, 16): (40, 30, 20), (SD, 8): (30, 20, 10),
        (GPT, 40): (60, 50, 40), (GPT, 24): (40, 30, 20), (GPT, 16): (30, 20, 10),
    }  # fmt: skip
    queue = queued(*(
        (f"{kind} {vram} {value}", kind, vram, value)
        for (kind, vram), values in groups.items()
        for value in values
    ))  # fmt: skip
    assert offered(queue, "4090 0", _4090=3, _4080=0) == [
        "sd 16 40", "llm 24 40", "sd 8 30", "llm 16 30",
    ]  # fmt: skip


def test_a_full_queue_drops_its_least_valuable_task():
    queue = queued(("a", SD, 8, 5), ("b", GPT, 8, 3), ("new", SD, 8, 3))
    assert [named(waiting.key) for waiting in queue.overflow(2)] == ["new"]
    assert [named(waiting.key) for waiting in queue.overflow(1)] == ["new", "b"]
