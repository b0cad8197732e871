"""The seeds of draws: committed to before use, and revealed after use.

An epoch has one seed, whose hash is public from the previous epoch on. The value of a draw is the
hash of that seed, the session and a counter, so that revealing a value discloses no other draw
(docs/explanation/gateway.md#repeating-a-draw). The source of randomness is an argument.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

_SEED_BYTES = 32
# The number of epochs whose seeds are served; older ones are in the database.
_MOST_SHOWN = 1_000


class DrawEpoch(NamedTuple):
    """An epoch from `start` to before `end`, in milliseconds since 1970."""

    start: int
    end: int
    seed: bytes

    @property
    def commitment(self) -> str:
        """The hash of the seed, public before the epoch begins."""
        return sha256(self.seed).hexdigest()

    def value(self, session: str, counter: int) -> bytes:
        """Return the value of one draw, the input of `oracle.systems.pocket.picking.unit_of`."""
        return sha256(self.seed + session.encode() + counter.to_bytes(8, "big")).digest()


class DrawSeeds:
    """The past, current and next epochs; `on_new_epoch` receives each epoch before it begins."""

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
        """Load the epochs from before a restart, oldest first; none of them is used again."""
        self._past = past[-_MOST_SHOWN:]

    def counters(self, many: int, now: int) -> tuple[DrawEpoch, int]:
        """Return the epoch, and the first of so many counters reserved for this draw."""
        epoch = self.epoch(now)
        first = self._counter
        self._counter += many
        return epoch, first

    def epoch(self, now: int) -> DrawEpoch:
        """Return the epoch of this time; starts it if necessary."""
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
        """Return the ended epochs, whose seeds may be revealed, and the other epochs."""
        current = self.epoch(now)
        open_ones = [current] if self._following is None else [current, self._following]
        return list(self._past), open_ones

    def _made(self, start: int) -> DrawEpoch:
        seed = self._random_bytes(_SEED_BYTES)
        epoch = DrawEpoch(start, start + self._epoch_ms, seed)
        self._written(epoch)
        return epoch
