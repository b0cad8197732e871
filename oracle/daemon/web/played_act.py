"""What a demonstration tells of itself on the page; without a server, as its screen wants it."""

from typing import NamedTuple


class PlayedAct(NamedTuple):
    """What a demonstration plays now, in its own words: nothing that the index says."""

    title: str
    caption: str
