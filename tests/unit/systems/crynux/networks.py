"""Hypothesis strategies for networks and tasks with few different values,
so that they often match.
"""

from typing import Any

from hypothesis import strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.state import Membership, Node, Task
from tests.support.examples import examples
from tests.unit.systems.crynux.scenes import NOW, a_node, a_task

# A network is slow to draw, so there are fewer examples.
quick = examples(40)

NAMES = "ABCDEFGHIJ"
MODELS = st.lists(st.sampled_from(["base:a", "base:b", "lora:c"]), max_size=3).map(tuple)
GPUS = st.sampled_from([None, "A100", "T4"])
MEMORY = st.sampled_from([None, 8, 16, 40])
VERSIONS = st.sampled_from([None, (1, 0, 0), (1, 2, 0), (2, 0, 0)])

# Most nodes' rows can be drawn.
ROWS = st.fixed_dictionaries({
    "membership": st.sampled_from([*[Membership.MEMBER] * 7, Membership.QUIT]),
    "paused": st.sampled_from([*[False] * 7, True]),
    "running": st.sampled_from([*[0] * 5, 1]),
    "stake": st.sampled_from([None, 0, 1, 57 * UNIT, 100 * UNIT, 401 * UNIT]),
    "gpu_name": GPUS,
    "gpu_vram": MEMORY,
    "version": VERSIONS,
    "models": MODELS,
    "in_use": MODELS,
    "pool": st.lists(st.sampled_from([0, 2, 5, 10]), max_size=4).map(bytes),
    "base": st.sampled_from([UNIT, UNIT, UNIT // 20, UNIT // 10, UNIT // 2, 3 * UNIT // 4]),
    "since": st.sampled_from([NOW - 900, NOW - 60, NOW, NOW + 10]),
    "excluded": st.booleans(),
})  # fmt: skip


def a_row(name: str) -> st.SearchStrategy[Node]:
    return ROWS.map(lambda values: a_node(name, **values))


def networks() -> st.SearchStrategy[list[Node]]:
    """Up to ten nodes, in any order."""
    names = st.lists(st.sampled_from(NAMES), unique=True, max_size=len(NAMES))
    return names.flatmap(lambda chosen: st.tuples(*map(a_row, chosen)).map(list))


def requests() -> st.SearchStrategy[Task]:
    """Draw a task that requires a GPU, or memory, or nothing."""
    field_strategies: dict[str, st.SearchStrategy[Any]] = {
        "required_gpu": st.sampled_from([None, None, "", "A100"]),
        "required_gpu_vram": st.sampled_from([None, 0, 40]),
        "min_vram": st.sampled_from([None, 0, 8, 16]),
        "version": VERSIONS,
        "models": MODELS,
    }
    return st.fixed_dictionaries(field_strategies).map(lambda values: a_task(**values))
