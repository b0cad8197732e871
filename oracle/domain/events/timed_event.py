"""The base of all events: their position and time.

See docs/reference/events-and-jsonl.md#position-and-time.
"""

from dataclasses import dataclass, field

from oracle.domain.blocks import Position


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event at its position, with its block's time in whole seconds.

    `time_ms`: the same time in whole milliseconds, within that second; None if the source has
    seconds only. Scores never use it.
    """

    at: Position
    time: int
    time_ms: int | None = field(default=None, kw_only=True)

    @property
    def timestamp_ms(self) -> int:
        """Return the event's time in milliseconds, exact to the second if `time_ms` is unknown."""
        return self.time * 1000 if self.time_ms is None else self.time_ms
