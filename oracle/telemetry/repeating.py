"""Tells what repeats ever more rarely: one that goes on for ever fills no disk."""

import structlog


class Repeating:
    """Warnings about endpoints; the 1st, 2nd, 4th, 8th … of the same in a row are told."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._said: dict[str, tuple[str, int]] = {}

    def warn(self, endpoint: str, reason: str, instance: str | None = None) -> None:
        """Count the warning, and tell it if it is its turn; with an `instance` of it, if any."""
        before, count = self._said.get(endpoint, ("", 0))
        count = count + 1 if before == reason else 1
        self._said[endpoint] = reason, count
        if count & (count - 1) == 0:
            log = structlog.get_logger()
            facts = {} if instance is None else {"instance": instance}
            log.warning(self._event, endpoint=endpoint, reason=reason, in_a_row=count, **facts)
