"""Defines the twelve nodes of the demo, which have different speeds and faults.

Times are chain seconds. A wave consists of one task for every node, all of them ordered at once.
"""

import random
from dataclasses import dataclass, replace

BLOCK_SECONDS = 12
# The time limit of a task, in seconds. When it has passed, any account may end the task.
TASK_TIMEOUT = 78
GROUP_SIZE = 3
# In this wave, an application orders tasks that no node can answer. They are so few that each is
# drawn to a different node.
BURST_WAVE = 28
BURST_GROUPS = 3
# The slowest answer within the time limit comes this many blocks after the start of the task.
_MAX_ANSWER_BLOCKS = 6


@dataclass(frozen=True, slots=True)
class DemoNode:
    """A simulated node.

    `name` and `role` are shown on the screen. `gpu_vram` is in GB. `min_answer_blocks` and
    `max_answer_blocks` bound the delay of an answer, in blocks after the start. The node does not
    answer in the waves `silent_waves`, and is paused in the waves `away_waves`. If `has_model` is
    set, the tasks' model is on the node's disk from the start; otherwise the node downloads it on
    request. If `lies_once` is set, its first answer in a group is garbage.
    """

    name: str
    role: str
    gpu_name: str
    gpu_vram: int
    min_answer_blocks: int
    max_answer_blocks: int
    silent_waves: frozenset[int] = frozenset()
    away_waves: frozenset[int] = frozenset()
    has_model: bool = True
    lies_once: bool = False

    def sample_answer_delay(self, wave: int, random_source: random.Random) -> int | None:
        """Return after how many blocks the node answers a task, or None if it never does."""
        delay_blocks = random_source.randint(self.min_answer_blocks, self.max_answer_blocks)
        return None if wave in self.silent_waves else delay_blocks


def _create_average_node(
    name: str, gpu_name: str, gpu_vram: int, away_waves: frozenset[int] = frozenset()
) -> DemoNode:
    return DemoNode(name, "average", gpu_name, gpu_vram, 2, 4, away_waves=away_waves)


SWIFT = DemoNode("swift", "fastest", "NVIDIA H100", 80, 1, 1)
TURTLE = DemoNode("turtle", "slow", "NVIDIA GTX 1070", 8, 5, 5)
MOODY = DemoNode(
    "moody",
    "timeouts in bursts",
    "NVIDIA RTX 3060",
    12,
    2,
    4,
    silent_waves=frozenset({*range(8, 12), *range(30, 34)}),
)
# The slowest node, which is silent in every sixth wave. If it were silent more often, it would be
# excluded before its pool is full. If it were silent less often, it would answer second in a few
# groups in which `MOODY` is silent. Its mean over 50 scores would then rise to the kickout
# threshold of 2.0. It is therefore silent in two of those waves, too.
HOPELESS = DemoNode(
    "hopeless",
    "slowest or silent",
    "NVIDIA GTX 1060",
    6,
    _MAX_ANSWER_BLOCKS,
    _MAX_ANSWER_BLOCKS,
    silent_waves=frozenset(range(2, 200, 6)),
)
# The disk of this node is empty, so the node is requested to download the model when the first
# tasks start.
GAUSS = DemoNode("gauss", "empty disk", "NVIDIA RTX 4070", 12, 2, 4, has_model=False)
# Two other groups contradict this node's first answer, so the node loses its stake.
DARWIN = DemoNode("darwin", "lies once", "NVIDIA RTX 3090", 24, 2, 4, lies_once=True)
# The node with the slowest of the three GPUs with enough memory for one of the applications. The
# node gets only tasks of this application, and the other two nodes are always faster. Its kickout
# therefore becomes due, and is held for the vetoer.
FERMI = _create_average_node("fermi", "NVIDIA RTX 4070", 12)
SINGLE_CREATOR_NODE = replace(
    FERMI,
    role="one application's",
    gpu_name="NVIDIA A40",
    gpu_vram=48,
    min_answer_blocks=_MAX_ANSWER_BLOCKS,
    max_answer_blocks=_MAX_ANSWER_BLOCKS,
    silent_waves=HOPELESS.silent_waves,
)
NIGHT_OWL = _create_average_node("nightowl", "NVIDIA RTX 4080", 16, frozenset(range(20, 26)))

DEMO_NODES = (
    SWIFT,
    _create_average_node("ada", "NVIDIA RTX 4090", 24),
    _create_average_node("boole", "NVIDIA RTX 4090", 24),
    _create_average_node("curie", "NVIDIA RTX 3090", 24),
    DARWIN,
    _create_average_node("euler", "NVIDIA RTX 4080", 16),
    FERMI,
    GAUSS,
    NIGHT_OWL,
    MOODY,
    TURTLE,
    HOPELESS,
)
