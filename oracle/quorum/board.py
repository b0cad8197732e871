"""The in-memory board of signed statements, written by the worker and read by the HTTP server.

Reading it waits for no database and no endpoint.
"""

from collections.abc import Mapping
from types import MappingProxyType

from oracle.quorum.wire_format import MOST_STATEMENTS, Told, ToldReport

# Rounds and nodes that are shown at most; the oldest go first.
_MOST = 256


class Board:
    """The newest statements, by HTTP path (`report/7`, `kick/0x…`)."""

    def __init__(self) -> None:
        self._shown: Mapping[str, tuple[Told, ...]] = MappingProxyType({})

    def put(self, told: Told) -> None:
        """Publish a statement, before older ones of its round or node."""
        place = place_of(told)
        # A new mapping each time: whoever looks meanwhile sees the old one whole.
        shown = dict(self._shown)
        earlier = tuple(one for one in shown.pop(place, ()) if one.digest != told.digest)
        shown[place] = (told, *earlier)[:MOST_STATEMENTS]
        for oldest in list(shown)[:-_MOST]:
            del shown[oldest]
        self._shown = MappingProxyType(shown)

    def at(self, place: str) -> list[Told]:
        """Return the statements at a path, newest first; safe from any thread."""
        return list(self._shown.get(place.lower(), ()))


def place_of(told: Told) -> str:
    """Return the HTTP path of a statement, below `/v1/`."""
    return f"report/{told.round}" if isinstance(told, ToldReport) else f"kick/{told.node}"
