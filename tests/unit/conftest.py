"""No test of one room sleeps, starts a process, or opens a socket to anything but a database."""

import socket
import subprocess
import threading
import time
from typing import Any

import pytest

_STAYS_QUIET = "a test in tests/unit may not {}: it belongs in tests/integration"


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid all three; PostgreSQL is spoken to by its own library, which asks nobody here."""
    if request.node.get_closest_marker("postgres"):
        # Its server is started once for the session, which is no doing of this test.
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
    """Return what stands for `known`; a thread that an earlier test left behind still has it.

    Refused in the middle of connecting, that thread would leave a socket open.
    """
    own = threading.current_thread()

    def refuse(*arguments: Any, **named: Any) -> Any:
        current = threading.current_thread()
        if current in earlier and current is not own:
            return original(*arguments, **named)
        raise AssertionError(_STAYS_QUIET.format(what))

    return refuse
