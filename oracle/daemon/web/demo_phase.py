"""The phase of a demonstration that the pages and the terminal show; needs no web server."""

from typing import NamedTuple


class DemoPhase(NamedTuple):
    """The current phase of a demonstration; its texts come from the demo, not from the index."""

    title: str
    caption: str
