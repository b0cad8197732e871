"""Where a reporter shows what it signed: memory, written by the worker, read by the HTTP server.

No answer from here waits for a database or an endpoint.
"""

from collections.abc import Mapping
from types import MappingProxyType

from oracle.quorum.wire_format import MOST_STATEMENTS, Told, ToldReport

# Rounds and nodes that are shown at most; the oldest go first.
_MOST = 256


class Board:
    """The newest statements, by where they are shown (`report/7`, `kick/0x…`)."""

    def __init__(self) -> None:
        self._shown: Mapping[str, tuple[Told, ...]] = MappingProxyType({})

    def put(self, told: Told) -> None:
        """Show a statement, in front of older ones of its round or node."""
        place = place_of(told)
        # A new mapping each time: whoever looks meanwhile sees the old one whole.
        shown = dict(self._shown)
        earlier = tuple(one for one in shown.pop(place, ()) if one.digest != told.digest)
        shown[place] = (told, *earlier)[:MOST_STATEMENTS]
        for oldest in list(shown)[:-_MOST]:
            del shown[oldest]
        self._shown = MappingProxyType(shown)

    def at(self, place: str) -> list[Told]:
        """Return what is shown at a place, the newest first; any thread may look."""
        return list(self._shown.get(place.lower(), ()))


def place_of(told: Told) -> str:
    """Return where a statement is shown; under `/v1/` by HTTP."""
    return f"report/{told.round}" if isinstance(told, ToldReport) else f"kick/{told.node}"
