"""No test of one room sleeps, starts a process, or opens a socket to anything but a database."""

import socket
import subprocess
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
    for owner, name, what in (
        (time, "sleep", "sleep"),
        (socket.socket, "connect", "open a socket"),
        (socket.socket, "bind", "open a socket"),
        (subprocess.Popen, "__init__", "start a process"),
    ):
        monkeypatch.setattr(owner, name, _forbidden(what))


def _forbidden(what: str) -> Any:
    def refuse(*_given: object, **_named: object) -> None:
        raise AssertionError(_STAYS_QUIET.format(what))

    return refuse
