"""The seeds of draws: committed to before they are used, shown when they are used no more.

An epoch has one seed; the hash of it is public from the epoch before. A draw's own value is the
hash of that seed, the session and a counter, so that showing it gives away no other draw
(docs/explanation/gateway.md#verifiable-draws). Where the randomness comes from is an argument.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

_SEED_BYTES = 32
# Epochs whose seeds are shown; older ones are in the database.
_MOST_SHOWN = 1_000


class DrawEpoch(NamedTuple):
    """From `start` to before `end`, in milliseconds since 1970."""

    start: int
    end: int
    seed: bytes

    @property
    def commitment(self) -> str:
        """What is public of the seed from the beginning."""
        return sha256(self.seed).hexdigest()

    def value(self, session: str, counter: int) -> bytes:
        """Return the value of one draw; `oracle.systems.pocket.picking.unit_of` starts with it."""
        return sha256(self.seed + session.encode() + counter.to_bytes(8, "big")).digest()


class DrawSeeds:
    """`written` is told of each epoch before it begins."""

    def __init__(
        self,
        epoch_ms: int,
        random_bytes: Callable[[int], bytes],
        written: Callable[[DrawEpoch], None],
    ) -> None:
        self._epoch_ms = epoch_ms
        self._random_bytes = random_bytes
        self._written = written
        self._past: list[DrawEpoch] = []
        self._current: DrawEpoch | None = None
        self._following: DrawEpoch | None = None
        self._counter = 0

    def recall(self, past: list[DrawEpoch]) -> None:
        """Show the epochs of before a restart, the oldest first: none of them is used again."""
        self._past = past[-_MOST_SHOWN:]

    def counters(self, many: int, now: int) -> tuple[DrawEpoch, int]:
        """Return the epoch, and the first of so many counters that no other draw gets."""
        epoch = self.epoch(now)
        first = self._counter
        self._counter += many
        return epoch, first

    def epoch(self, now: int) -> DrawEpoch:
        """Return the epoch of this time, begun where it has not yet."""
        current = self._current
        if current is not None and now < current.end:
            return current
        over = [one for one in (current, self._following) if one is not None and one.end <= now]
        self._past = [*self._past, *over][-_MOST_SHOWN:]
        following = self._following
        if following is None or following.end <= now:
            following = self._made(now)
        self._current, self._counter = following, 0
        self._following = self._made(following.end)
        return following

    def shown(self, now: int) -> tuple[list[DrawEpoch], list[DrawEpoch]]:
        """Return the epochs that are over, whose seeds may be shown, and those that are not."""
        current = self.epoch(now)
        open_ones = [current] if self._following is None else [current, self._following]
        return list(self._past), open_ones

    def _made(self, start: int) -> DrawEpoch:
        seed = self._random_bytes(_SEED_BYTES)
        epoch = DrawEpoch(start, start + self._epoch_ms, seed)
        self._written(epoch)
        return epoch
