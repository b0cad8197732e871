"""The phase of a demonstration, which the pages and the terminal show."""

from typing import NamedTuple


class DemoPhase(NamedTuple):
    """The current phase of a demonstration, with texts that come from the demo, not the index."""

    title: str
    caption: str
