"""Free ports for programs that need a port number before they start."""

import socket

import pytest

from devnet import anvil
from oracle.errors import FatalError


def test_free_ports_are_unique():
    ports = [anvil.find_free_port() for _ in range(3)]
    assert len(set(ports)) == len(ports)
    # From here on, Linux assigns ports to programs that request any free port.
    assert max(ports) < 32_768


def test_port_that_is_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(anvil, "_PORT_RANGE", range(port, port + 1))
        with pytest.raises(FatalError, match=f"every port from {port} to {port} is in use"):
            anvil.find_free_port()
