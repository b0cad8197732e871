"""The phase of a demonstration, as shown by the pages and the terminal."""

from typing import NamedTuple


class DemoPhase(NamedTuple):
    """The current phase of a demonstration; its texts come from the demo, not from the index."""

    title: str
    caption: str
