"""Remembers at which block each planned call was seen first: from there its turn is counted."""

from dataclasses import dataclass, field

_MOST = 10_000


@dataclass(slots=True)
class Turns:
    """By the outbox's number of the call. A restart counts anew: then it waits a little longer."""

    _began: dict[int, int] = field(default_factory=dict)

    def began(self, intent_id: int, block: int) -> int:
        """Return the head at which this call was looked at first; a fork may lie below it."""
        if len(self._began) > _MOST:
            self._began.clear()
        self._began[intent_id] = min(block, self._began.get(intent_id, block))
        return self._began[intent_id]
