"""Ports that a reporter keeps while it is down."""

import socket


def held_port() -> socket.socket:
    """A port of this machine, bound and not listened at: nobody else gets it."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", 0))
    return door
