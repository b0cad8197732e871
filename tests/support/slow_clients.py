"""Clients that never finish a request: `python -m tests.support.slow_clients PORT MANY SECONDS`.

Each client opens a connection, sends the beginning of a request, and then a byte per second. A
client that is disconnected returns a second later. The clients are a separate process, so that
their work does not count as the daemon's.
"""

import contextlib
import resource
import selectors
import socket
import sys
import time

BEGINNING = b"GET /livez HTTP/1.1\r\nHost: here\r\nX-Slow: "


class Crowd:
    def __init__(self, port: int, many: int) -> None:
        self.port = port
        self.connects = 0
        self._waiting = [(0.0, number) for number in range(many)]
        self._open: dict[socket.socket, float] = {}
        self._selector = selectors.DefaultSelector()

    def play(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            self._come(now)
            for key, _ in self._selector.select(0.05):
                self._check_connection(key.fileobj, time.monotonic())
            self._drip(time.monotonic())

    def _come(self, now: float) -> None:
        due = [place for place in self._waiting if place[0] <= now]
        self._waiting = [place for place in self._waiting if place[0] > now]
        for _ in due:
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", self.port))
            self.connects += 1
            self._open[sock] = 0.0
            self._selector.register(sock, selectors.EVENT_READ)

    def _check_connection(self, sock, now: float) -> None:
        """Handle a readable connection, which means that it was closed or rejected."""
        try:
            if sock.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._leave(sock, now)

    def _drip(self, now: float) -> None:
        for sock, at in list(self._open.items()):
            if now - at < 1.0:
                continue
            try:
                sock.send(b"x" if at else BEGINNING)
                self._open[sock] = now
            except BlockingIOError:
                continue
            except OSError as error:
                # A connection that is not established yet has no response.
                if not isinstance(error, ConnectionError) and error.errno == 107:
                    continue
                self._leave(sock, now)

    def _leave(self, sock: socket.socket, now: float) -> None:
        if self._open.pop(sock, None) is None:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)
        sock.close()
        self._waiting.append((now + 1.0, 0))


def main(port: int, many: int, seconds: float) -> None:
    _, max_open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_open_files, max_open_files))
    crowd = Crowd(port, many)
    crowd.play(seconds)
    print(f"{crowd.connects} connections")  # noqa: T201  for who reads the night's log


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
