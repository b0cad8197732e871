"""Where and when an event was: what all of them have.

See docs/reference/events-and-jsonl.md#position-and-time.
"""

from dataclasses import dataclass, field

from oracle.domain.blocks import Position


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event at its position, with its block's time in whole seconds.

    `time_ms`: the same time in whole milliseconds, within that second; None: the source knows
    seconds only. Scores never look at it.
    """

    at: Position
    time: int
    time_ms: int | None = field(default=None, kw_only=True)

    @property
    def ms(self) -> int:
        """Return when it was, in milliseconds: to the second where no more is known."""
        return self.time * 1000 if self.time_ms is None else self.time_ms
