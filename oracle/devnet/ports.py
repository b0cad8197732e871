"""Ports for programs that are told one before they start, and cannot take any free one."""

import itertools
import os
import socket

from oracle.errors import FatalError

# Linux gives out those from 32768 on, and other systems higher ones, to whoever takes any: one of
# them may be another's before a program has started.
_PORTS = range(20_000, 32_000)
# Two that start at once are far apart.
_STRIDE = 101
# None is given twice: the first program may not listen yet.
_asked = itertools.count()


def free_port() -> int:
    """Return a port of this machine that nobody listens on, and that nobody is given by chance.

    Raises:
        FatalError: all of them are taken.
    """
    first = os.getpid() * _STRIDE
    for _ in _PORTS:
        port = _PORTS[(first + next(_asked)) % len(_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise FatalError(f"every port from {_PORTS[0]} to {_PORTS[-1]} is taken")
