"""Who plays in the demo: twelve nodes with different speeds and faults.

Times are chain seconds. A wave is one task for every node, ordered at once.
"""

import random
from dataclasses import dataclass

BLOCK_SECONDS = 12
# A node has this long; after it anyone may end the task.
TASK_TIMEOUT = 78
GROUP_SIZE = 3
# The slowest answer that is still in time, in blocks after the start.
_SLOWEST = 6


@dataclass(frozen=True, slots=True)
class DemoNode:
    """One node: `name` and `part` for the audience, and how it behaves.

    `fastest` and `slowest` bound its answers, in blocks after the start. It answers nothing at
    all in the waves of `silent`, and pauses for those of `away`. `has_model`: what the tasks need
    is on its disk from the start; else it downloads it when it is asked. `lies_once`: its first
    answer in a group is garbage.
    """

    name: str
    part: str
    gpu_name: str
    gpu_vram: int
    fastest: int
    slowest: int
    silent: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()
    has_model: bool = True
    lies_once: bool = False

    def answers_after(self, wave: int, chance: random.Random) -> int | None:
        """Return the blocks from the start to its answer; None: it never answers."""
        blocks = chance.randint(self.fastest, self.slowest)
        return None if wave in self.silent else blocks


def _average(name: str, gpu_name: str, gpu_vram: int, away: frozenset[int]) -> DemoNode:
    return DemoNode(name, "average", gpu_name, gpu_vram, 2, 4, away=away)


def _nobody() -> frozenset[int]:
    return frozenset()


SWIFT = DemoNode("swift", "fastest", "NVIDIA H100", 80, 1, 1)
TURTLE = DemoNode("turtle", "slow", "NVIDIA GTX 1070", 8, 5, 5)
MOODY = DemoNode(
    "moody",
    "timeouts in bursts",
    "NVIDIA RTX 3060",
    12,
    2,
    4,
    silent=frozenset({*range(8, 12), *range(30, 34)}),
)
# The slowest node, silent in every sixth wave. More silence would exclude it, and its pool would
# not fill. Less would lift its mean of 50 scores to the kickout line of 2.0 whenever it answers
# second in a few groups because `MOODY` is silent; in two such waves it is silent, too.
HOPELESS = DemoNode(
    "hopeless",
    "last or silent",
    "NVIDIA GTX 1060",
    6,
    _SLOWEST,
    _SLOWEST,
    silent=frozenset(range(2, 200, 6)),
)
# Comes with an empty disk: as the first tasks start it is asked to download their model.
GAUSS = DemoNode("gauss", "empty disk", "NVIDIA RTX 4070", 12, 2, 4, has_model=False)
# Two groups agree against its first answer, and it loses its stake.
DARWIN = DemoNode("darwin", "lies once", "NVIDIA RTX 3090", 24, 2, 4, lies_once=True)
NIGHT_OWL = _average("nightowl", "NVIDIA RTX 4080", 16, frozenset(range(20, 26)))

CAST = (
    SWIFT,
    _average("ada", "NVIDIA RTX 4090", 24, _nobody()),
    _average("boole", "NVIDIA RTX 4090", 24, _nobody()),
    _average("curie", "NVIDIA RTX 3090", 24, _nobody()),
    DARWIN,
    _average("euler", "NVIDIA RTX 4080", 16, _nobody()),
    _average("fermi", "NVIDIA RTX 4070", 12, _nobody()),
    GAUSS,
    NIGHT_OWL,
    MOODY,
    TURTLE,
    HOPELESS,
)
