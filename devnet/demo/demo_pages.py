"""The pages over the database of a demonstration's daemon, and the act that is on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from oracle.daemon.config.loader import load
from oracle.daemon.web.played_act import PlayedAct


class DemoTold(NamedTuple):
    """What only the demonstration knows: the chain's newest block, its time, the act.

    Any thread may ask.
    """

    head: Callable[[], int]
    clock: Callable[[], int]
    act: Callable[[], PlayedAct]


@contextmanager
def demo_pages(configuration: Path, told: DemoTold) -> Iterator[str]:
    """Serve the pages of a daemon's database from here; yields their address.

    Not by the daemon: it knows of no demonstration, and what is played is told on the page.
    """
    # A server takes a second to import: the help of `demo` has to stay quick.
    from oracle.daemon.compose import open_reader  # noqa: PLC0415
    from oracle.daemon.records import open_records  # noqa: PLC0415
    from oracle.daemon.startup import read_api_of  # noqa: PLC0415
    from oracle.daemon.web.http_server import serving  # noqa: PLC0415

    with open_records(load(configuration)) as records:
        reader = open_reader(records.config)
        web = read_api_of(records, reader, told.head, clock=told.clock, act=told.act)
        with serving(web, records.config.api.listener) as address:
            yield address
