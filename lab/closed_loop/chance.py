"""Seeded random numbers that are the same on all machines and Python versions.

Streams with different names are independent, so an additional draw from one stream does not change
the numbers of the others. Two strategies can therefore be simulated with the same tasks.
"""

from random import Random

_BITS = 32


class RandomStream:
    """A stream of random numbers determined by the seed and the names."""

    __slots__ = ("_bits",)

    def __init__(self, seed: int, *names: object) -> None:
        # The numbers must be repeatable. They are not secret.
        self._bits = Random(" ".join(map(str, (seed, *names)))).getrandbits  # noqa: S311

    def draw_below(self, bound: int) -> int:
        """Return a random integer of at least 0 and below `bound`."""
        return self._bits(_BITS) * bound >> _BITS

    def draw_between(self, minimum: int, maximum: int) -> int:
        """Return a random integer from `minimum` to `maximum`.

        Both are included.
        """
        return minimum + self.draw_below(maximum - minimum + 1)

    def draw_bool(self, per_million: int) -> bool:
        """Return True with a probability of `per_million` in a million."""
        return self.draw_below(1_000_000) < per_million
