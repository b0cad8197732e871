"""Unit tests must not sleep, start a process, or open a socket to anything but a database."""

import socket
import subprocess
import threading
import time
from typing import Any

import pytest

_STAYS_QUIET = "a test in tests/unit may not {}: it belongs in tests/integration"


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid sleeping, processes and sockets; the PostgreSQL driver uses its own sockets."""
    if request.node.get_closest_marker("postgres"):
        # The server is started once for the session, not by this test.
        request.getfixturevalue("postgresql_template")
    earlier = set(threading.enumerate())
    for owner, name, what in (
        (time, "sleep", "sleep"),
        (socket.socket, "connect", "open a socket"),
        (socket.socket, "bind", "open a socket"),
        (subprocess.Popen, "__init__", "start a process"),
    ):
        monkeypatch.setattr(owner, name, _forbidden(what, getattr(owner, name), earlier))


def _forbidden(what: str, original: Any, earlier: set[threading.Thread]) -> Any:
    """Return a replacement of `original` that raises; a thread of an earlier test still gets the
    original.

    If connecting were interrupted there, the thread would leave a socket open.
    """
    own = threading.current_thread()

    def refuse(*arguments: Any, **named: Any) -> Any:
        current = threading.current_thread()
        if current in earlier and current is not own:
            return original(*arguments, **named)
        raise AssertionError(_STAYS_QUIET.format(what))

    return refuse
