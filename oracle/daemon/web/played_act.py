"""The act of a demonstration, as shown on the pages; without a server, for the terminal."""

from typing import NamedTuple


class DemoAct(NamedTuple):
    """The current act of a demonstration, in its own words; not derived from the index."""

    title: str
    caption: str
