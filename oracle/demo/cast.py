"""Who plays in the demo: twelve nodes with different speeds and faults.

Times are chain seconds. A wave is one task for every node: eight blocks of twelve seconds.
"""

import random
from dataclasses import dataclass

BLOCK_SECONDS = 12
WAVE_BLOCKS = 8
# A node has this long; after it anyone may end the task. Its last block is the wave's last.
TASK_TIMEOUT = 78
GROUP_SIZE = 3
# The slowest answer that is still in time, in blocks after the start.
SLOWEST = 6


@dataclass(frozen=True, slots=True)
class Character:
    """One node: `name` and `part` for the audience, and how it behaves.

    `fastest` and `slowest` bound its answers, in blocks after the start. It answers nothing at
    all in the waves of `silent`, and pauses for those of `away`.
    """

    name: str
    part: str
    gpu_name: str
    gpu_vram: int
    fastest: int
    slowest: int
    silent: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()

    def answers_after(self, wave: int, chance: random.Random) -> int | None:
        """Return the blocks from the start to its answer; None: it never answers."""
        blocks = chance.randint(self.fastest, self.slowest)
        return None if wave in self.silent else blocks


def _average(name: str, gpu_name: str, gpu_vram: int, away: frozenset[int]) -> Character:
    return Character(name, "average", gpu_name, gpu_vram, 2, 5, away=away)


def _nobody() -> frozenset[int]:
    return frozenset()


SWIFT = Character("swift", "fastest", "NVIDIA H100", 80, 1, 1)
TURTLE = Character("turtle", "always last", "NVIDIA GTX 1070", 8, SLOWEST, SLOWEST)
MOODY = Character(
    "moody",
    "timeouts in bursts",
    "NVIDIA RTX 3060",
    12,
    2,
    5,
    silent=frozenset({*range(8, 12), *range(30, 34)}),
)
# Always last, and now and then silent: never long enough to be excluded, so the pool fills.
HOPELESS = Character(
    "hopeless",
    "last or silent",
    "NVIDIA GTX 1060",
    6,
    SLOWEST,
    SLOWEST,
    silent=frozenset(range(3, 200, 9)),
)
NIGHT_OWL = _average("nightowl", "NVIDIA RTX 4080", 16, frozenset(range(20, 26)))

CAST = (
    SWIFT,
    _average("ada", "NVIDIA RTX 4090", 24, _nobody()),
    _average("boole", "NVIDIA RTX 4090", 24, _nobody()),
    _average("curie", "NVIDIA RTX 3090", 24, _nobody()),
    _average("darwin", "NVIDIA RTX 3090", 24, _nobody()),
    _average("euler", "NVIDIA RTX 4080", 16, _nobody()),
    _average("fermi", "NVIDIA RTX 4070", 12, _nobody()),
    _average("gauss", "NVIDIA RTX 4070", 12, _nobody()),
    NIGHT_OWL,
    MOODY,
    TURTLE,
    HOPELESS,
)

# No two of them meet in a group: each is to show its own story.
SOLOISTS = (TURTLE, HOPELESS, MOODY)


def groups_of_three(present: list[Character], chance: random.Random) -> list[list[Character]]:
    """Deal the nodes into groups of three; what is left over rests for this wave.

    At most one soloist stands in a group.
    """
    count = len(present) // GROUP_SIZE
    soloists = [one for one in present if one in SOLOISTS][:count]
    others = [one for one in present if one not in SOLOISTS]
    chance.shuffle(others)
    groups = [[one] for one in soloists] + [[] for _ in range(count - len(soloists))]
    for group in groups:
        while len(group) < GROUP_SIZE:
            group.append(others.pop())
        chance.shuffle(group)
    return groups
