"""Ports that a reporter keeps while it is down."""

import socket


def held_port() -> socket.socket:
    """Reserve a port of this machine: it is bound, so that no other program gets it."""
    port_socket = socket.socket()
    port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port_socket.bind(("127.0.0.1", 0))
    return port_socket
