"""What one process remembers from turn to turn; a restart begins anew, and waits longer."""

from dataclasses import dataclass, field

_MOST = 10_000
# Signed bytes are sent again after so many blocks at first, and at last.
_FIRST_REBROADCAST_BLOCKS = 2
_MAX_REBROADCAST_BLOCKS = 8
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


@dataclass(slots=True)
class Rebroadcasts:
    """How many blocks to wait before signed bytes are sent again, by the id of the attempt."""

    _wait_blocks: dict[int, int] = field(default_factory=dict)

    def wait_blocks(self, attempt_id: int) -> int:
        """Return the blocks between the last broadcast of an attempt and the next."""
        return self._wait_blocks.get(attempt_id, _FIRST_REBROADCAST_BLOCKS)

    def double_wait(self, attempt_id: int) -> None:
        """Wait twice as long from now on: the endpoints answered as the last time."""
        if len(self._wait_blocks) > _MOST:
            self._wait_blocks.clear()
        doubled = 2 * self.wait_blocks(attempt_id)
        self._wait_blocks[attempt_id] = min(doubled, _MAX_REBROADCAST_BLOCKS)

    def reset_wait(self, attempt_id: int) -> None:
        """Begin again with the shortest wait: something has changed."""
        self._wait_blocks.pop(attempt_id, None)
