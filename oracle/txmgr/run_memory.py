"""What one process remembers from turn to turn; a restart begins anew, and waits longer."""

from dataclasses import dataclass, field

_MOST = 10_000
# At last a nonce is searched for again after so many final blocks.
_MOST_BLOCKS = 64


@dataclass(slots=True)
class FirstSeen:
    """At which block each planned call was seen first: from there its turn is counted."""

    _began: dict[int, int] = field(default_factory=dict)

    def began(self, intent_id: int, block: int) -> int:
        """Return the head at which this call was looked at first; a fork may lie below it."""
        if len(self._began) > _MOST:
            self._began.clear()
        self._began[intent_id] = min(block, self._began.get(intent_id, block))
        return self._began[intent_id]


@dataclass(slots=True)
class Searches:
    """Of each nonce that was searched for in the blocks in vain: when to search again.

    That is a final block, and how many to wait after it.
    """

    _again: dict[int, tuple[int, int]] = field(default_factory=dict)

    def is_due(self, nonce: int, final: int) -> bool:
        """Tell whether to search now: at once, then after 1, 2, 4 … final blocks."""
        return final >= self._again.get(nonce, (0, 1))[0]

    def was_in_vain(self, nonce: int, final: int) -> None:
        """Note that nothing came of it."""
        blocks = self._again.get(nonce, (0, 1))[1]
        self._again[nonce] = (final + blocks, min(2 * blocks, _MOST_BLOCKS))
