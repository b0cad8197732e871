"""Every path that the daemon answers, by the docstring of its function."""

import inspect

from fastapi.routing import APIRoute

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web import build
from oracle.quorum.board import Board
from oracle.store.database import Store
from reference.markdown import head, table

_ABOUT = """\
All are read-only; there is no password, so keep `web.host` private.
"""


def routes() -> list[tuple[str, str]]:
    """Return each path and what its function says of itself, "" where it says nothing."""
    application = build(DaemonHealth(JobLiveness(lambda: 0.0)), _no_store, Board())
    return [
        (route.path, " ".join(inspect.cleandoc(route.endpoint.__doc__ or "").split()))
        for route in application.routes
        if isinstance(route, APIRoute)
    ]


def _no_store() -> Store:
    raise NotImplementedError("nothing is asked here")


def page() -> str:
    """Return the page."""
    rows = [(f"`{path}`", about) for path, about in routes()]
    return (
        head("HTTP", "`oracle/daemon/web.py`", about=_ABOUT)
        + "\n"
        + table(("GET", "answers"), rows)
    )
