"""The pages over the database of a demonstration's daemon, and the act that is on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from oracle.daemon.config.loader import read_config
from oracle.daemon.web.played_act import DemoAct


class DemoTold(NamedTuple):
    """What only the demonstration knows: the chain's newest block, its time, the act.

    Any thread may ask.
    """

    head: Callable[[], int]
    clock: Callable[[], int]
    act: Callable[[], DemoAct]


@contextmanager
def demo_pages(configuration: Path, told: DemoTold) -> Iterator[str]:
    """Serve the pages of a daemon's database from here; yields their address.

    Not by the daemon: it knows of no demonstration, and what is played is told on the page.
    """
    # A server takes a second to import: the help of `demo` has to stay quick.
    from oracle.daemon.compose import open_reader  # noqa: PLC0415
    from oracle.daemon.records import open_records  # noqa: PLC0415
    from oracle.daemon.startup import open_read_api  # noqa: PLC0415
    from oracle.daemon.web.http_server import serve_app  # noqa: PLC0415

    with open_records(read_config(configuration)) as records:
        reader = open_reader(records.config)
        web = open_read_api(records, reader, told.head, clock=told.clock, get_act=told.act)
        with serve_app(web, records.config.api.listener) as address:
            yield address
