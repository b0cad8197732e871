"""Creates random seeds for draws, which are committed before use and revealed afterwards.

Each epoch has one seed, and the hash of the seed is published in the previous epoch. The value of
a draw is the hash of the seed, the session and a counter, so a published value does not reveal any
other draw (docs/explanation/gateway.md#verifiable-draws). The caller passes the source of
randomness.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

_SEED_BYTES = 32
# Number of past epochs that are kept in memory and shown in responses. Older epochs are only in
# the database.
_MAX_SHOWN = 1_000


class DrawEpoch(NamedTuple):
    """An epoch from `start` to `end` in milliseconds since 1970.

    `start` is included, `end` is not.
    """

    start: int
    end: int
    seed: bytes

    @property
    def commitment(self) -> str:
        """The SHA-256 of the seed in hex, which is published before the epoch begins."""
        return sha256(self.seed).hexdigest()

    def compute_draw_value(self, session: str, counter: int) -> bytes:
        """Compute the value that decides a draw.

        Its first 8 bytes are a fraction of 2^64.
        """
        return sha256(self.seed + session.encode() + counter.to_bytes(8, "big")).digest()


class DrawSeeds:
    """Creates and keeps the epochs.

    `on_new_epoch` receives each epoch before its first draw.
    """

    def __init__(
        self,
        epoch_ms: int,
        random_bytes: Callable[[int], bytes],
        on_new_epoch: Callable[[DrawEpoch], None],
    ) -> None:
        self._epoch_ms = epoch_ms
        self._random_bytes = random_bytes
        self._on_new_epoch = on_new_epoch
        self._past_epochs: list[DrawEpoch] = []
        self._current_epoch: DrawEpoch | None = None
        self._next_epoch: DrawEpoch | None = None
        self._counter = 0

    def restore_past_epochs(self, past_epochs: list[DrawEpoch]) -> None:
        """Set the past epochs after a restart, oldest first.

        Their seeds are not used again.
        """
        self._past_epochs = past_epochs[-_MAX_SHOWN:]

    def reserve_counters(self, count: int, now: int) -> tuple[DrawEpoch, int]:
        """Reserve `count` counters in the current epoch.

        Return the epoch and the first counter.
        """
        epoch = self.get_or_create_epoch(now)
        first_counter = self._counter
        self._counter += count
        return epoch, first_counter

    def get_or_create_epoch(self, now: int) -> DrawEpoch:
        """Return the epoch at `now`, creating it if necessary."""
        current_epoch = self._current_epoch
        if current_epoch is not None and now < current_epoch.end:
            return current_epoch
        ended_epochs = [
            ended_epoch
            for ended_epoch in (current_epoch, self._next_epoch)
            if ended_epoch is not None and ended_epoch.end <= now
        ]
        self._past_epochs = [*self._past_epochs, *ended_epochs][-_MAX_SHOWN:]
        next_epoch = self._next_epoch
        if next_epoch is None or next_epoch.end <= now:
            next_epoch = self._create_epoch(now)
        self._current_epoch, self._counter = next_epoch, 0
        self._next_epoch = self._create_epoch(next_epoch.end)
        return next_epoch

    def list_ended_and_open_epochs(self, now: int) -> tuple[list[DrawEpoch], list[DrawEpoch]]:
        """Return the ended epochs and the other epochs, as two lists.

        The seeds of ended epochs may be revealed.
        """
        current_epoch = self.get_or_create_epoch(now)
        open_epochs = (
            [current_epoch] if self._next_epoch is None else [current_epoch, self._next_epoch]
        )
        return list(self._past_epochs), open_epochs

    def _create_epoch(self, start: int) -> DrawEpoch:
        seed = self._random_bytes(_SEED_BYTES)
        epoch = DrawEpoch(start, start + self._epoch_ms, seed)
        self._on_new_epoch(epoch)
        return epoch
