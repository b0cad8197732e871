"""The base class of all events, which holds their position and time.

See docs/reference/events-and-jsonl.md#position-and-time.
"""

from dataclasses import dataclass, field

from oracle.domain.blocks import Position


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event at its position, with the time of its block in whole seconds.

    `time_ms` is the time in whole milliseconds, within the second `time`, or None if the source
    reports seconds only. Scores never use it.
    """

    at: Position
    time: int
    time_ms: int | None = field(default=None, kw_only=True)

    @property
    def timestamp_ms(self) -> int:
        """Return the event's time in milliseconds; without `time_ms`, the start of its second."""
        return self.time * 1000 if self.time_ms is None else self.time_ms
