"""Chance with a seed: the same numbers on every machine and in every version of Python.

Streams of different names do not touch each other: who draws once more in one of them leaves the
others as they were, so that two strategies meet the same tasks.
"""

from random import Random

_BITS = 32


class Chance:
    """One stream of chance."""

    __slots__ = ("_bits",)

    def __init__(self, seed: int, *names: object) -> None:
        # Not for secrets: what matters is that it repeats.
        self._bits = Random(" ".join(map(str, (seed, *names)))).getrandbits  # noqa: S311

    def below(self, bound: int) -> int:
        """Return a whole number from 0 up to, not including, `bound`."""
        return self._bits(_BITS) * bound >> _BITS

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def is_hit(self, per_million: int) -> bool:
        """Tell whether something of this probability happens."""
        return self.below(1_000_000) < per_million
