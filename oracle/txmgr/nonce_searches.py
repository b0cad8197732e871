"""Remembers which nonces were searched for in the blocks in vain, so that not every turn does."""

from dataclasses import dataclass, field

# At last it is searched for again after so many final blocks.
_MOST_BLOCKS = 64


@dataclass(slots=True)
class Searches:
    """Of each nonce: from which final block on to search again, and how long to wait then."""

    _again: dict[int, tuple[int, int]] = field(default_factory=dict)

    def is_due(self, nonce: int, final: int) -> bool:
        """Tell whether to search now: at once, then after 1, 2, 4 … final blocks."""
        return final >= self._again.get(nonce, (0, 1))[0]

    def was_in_vain(self, nonce: int, final: int) -> None:
        """Note that nothing came of it."""
        blocks = self._again.get(nonce, (0, 1))[1]
        self._again[nonce] = (final + blocks, min(2 * blocks, _MOST_BLOCKS))
