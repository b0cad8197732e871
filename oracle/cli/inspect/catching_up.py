"""How long the daemon takes to catch up, by how far it comes while `status` looks."""

import time
from collections.abc import Callable
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.queries.status_models import CatchingUp
from oracle.queries.text.human_numbers import blocks, span
from oracle.queries.text.text_tables import in_utc
from oracle.store.database import Store

# The indexer commits about every second: less would see no block at all, or one window.
_LOOK_SECONDS = 2.0


class Progress(NamedTuple):
    """`left` blocks up to the newest, of which `done` were folded in `seconds`."""

    left: int
    done: int
    seconds: float

    @property
    def remaining(self) -> int | None:
        """Seconds until it has caught up if it goes on so; None: it did not move."""
        return round(self.left * self.seconds / self.done) if self.done else None

    def text(self, now: int) -> str:
        """Say what is left and until when, by this machine's clock in unix seconds."""
        if self.remaining is None:
            return f"{blocks(self.left)} left, none folded within {self.seconds:.0f} s"
        until = in_utc(now + self.remaining, "%Y-%m-%d %H:%M UTC")
        rate = f"{self.done / self.seconds:,.0f} a second"
        return f"{blocks(self.left)} left at {rate}: {span(self.remaining)}, until about {until}"

    def view(self, now: int) -> CatchingUp:
        """Return the answer; `now` by this machine's clock in unix seconds."""
        return CatchingUp(
            blocks_left=self.left,
            blocks_per_second=self.done / self.seconds,
            until=None if self.remaining is None else now + self.remaining,
        )


def progress(
    store: Store, before: BlockRef, since: float, head: int, sleep: Callable[[float], None]
) -> Progress:
    """Look how far the cursor came since `before` was read, at `since` on the monotonic clock."""
    sleep(max(0.0, since + _LOOK_SECONDS - time.monotonic()))
    with store.reading() as uow:
        cursor = uow.cursor.get()
    number = before.number if cursor is None else cursor.number
    return Progress(
        max(0, head - number), max(0, number - before.number), time.monotonic() - since
    )
