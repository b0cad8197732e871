"""The web pages over the database of the demo's daemon, with the current act."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from oracle.daemon.config.loader import read_config
from oracle.daemon.web.played_act import DemoAct


class DemoStatus(NamedTuple):
    """Values that only the demo has: the newest block, the chain's time, the act.

    All three functions may be called from any thread.
    """

    head: Callable[[], int]
    clock: Callable[[], int]
    act: Callable[[], DemoAct]


@contextmanager
def serve_demo_pages(configuration: Path, status: DemoStatus) -> Iterator[str]:
    """Serve the pages of a daemon's database from this process, and yield their URL.

    The daemon cannot serve them, because the pages also show the demo's current act.
    """
    # Imported here because the server takes a second to import, and `demo --help` must stay quick.
    from oracle.daemon.compose import open_reader  # noqa: PLC0415
    from oracle.daemon.records import open_records  # noqa: PLC0415
    from oracle.daemon.startup import open_read_api  # noqa: PLC0415
    from oracle.daemon.web.http_server import serve_app  # noqa: PLC0415

    with open_records(read_config(configuration)) as records:
        reader = open_reader(records.config)
        app = open_read_api(records, reader, status.head, clock=status.clock, get_act=status.act)
        section = records.config.api
        with serve_app(app, section, section.port) as address:
            yield address
