"""A TCP proxy of PostgreSQL that breaks the connection around a writer's COMMIT."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from threading import Event, Lock, Thread

from sqlalchemy.engine import make_url

_PART = 1 << 16
_PATIENCE_SECONDS = 60.0
# The driver sends these statements as text each time; other frequent statements are prepared.
_BEGIN, _READER, _COMMIT = b"BEGIN", b"READ ONLY", b"COMMIT"


class CommitLoss(Enum):
    """The moment at which the connection breaks."""

    ANSWER = "the server commits, and its answer never arrives"
    REQUEST = "the server never sees the COMMIT, and rolls back"
    LATE = "the server sees the COMMIT after the client is gone"


class LossyProxy:
    """Forwards everything, except for the COMMITs of writers that `lose` interrupts, one each.

    `hits` counts the lost COMMITs, and `commits` all COMMITs of writers.
    """

    def __init__(self, server: Path) -> None:
        self._server = server
        self._armed: list[CommitLoss] = []
        self._lock = Lock()
        self._spared = 0
        self.hits = self.commits = 0
        # Set when another writer waits for the lock of the delayed one.
        self._next_writer = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def lose(self, *losses: CommitLoss, spared: int = 0) -> None:
        """Lose the next COMMITs in these ways, after `spared` COMMITs that succeed."""
        with self._lock:
            self._armed += losses
            self._spared = spared

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                _Connection(self, client, server).start()

    def taken(self) -> CommitLoss | None:
        with self._lock:
            self.commits += 1
            if not self._armed:
                return None
            if self._spared:
                self._spared -= 1
                return None
            self.hits += 1
            return self._armed.pop(0)

    def writer_begins(self) -> None:
        self._next_writer.set()

    def await_next_writer(self) -> None:
        self._next_writer.clear()
        assert self._next_writer.wait(_PATIENCE_SECONDS)


class _Connection:
    def __init__(self, proxy: LossyProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._is_cut = False

    def start(self) -> None:
        for pump in (self._from_client, self._from_server):
            Thread(target=pump, daemon=True).start()

    def _from_client(self) -> None:
        is_writer = False
        with suppress(OSError):
            while data := self._client.recv(_PART):
                if _BEGIN in data:
                    is_writer = _READER not in data
                    if is_writer:
                        self._proxy.writer_begins()
                loss = self._proxy.taken() if is_writer and _COMMIT in data else None
                is_writer = is_writer and _COMMIT not in data
                if loss is not None:
                    self._cut(loss, data)
                    return
                self._server.sendall(data)
        _close_socket(self._server)

    def _cut(self, loss: CommitLoss, data: bytes) -> None:
        self._is_cut = True
        if loss is CommitLoss.ANSWER:
            self._server.sendall(data)
            # `_from_server` receives the response, and closes the client's connection instead.
            return
        if loss is CommitLoss.LATE:
            _close_socket(self._client)
            self._proxy.await_next_writer()
            self._server.sendall(data)
            return
        _close_socket(self._server)
        _close_socket(self._client)

    def _from_server(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(_PART):
                if self._is_cut:
                    break
                self._client.sendall(data)
        _close_socket(self._client)
        if self._is_cut:
            _close_socket(self._server)


def _close_socket(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        connection.close()


@contextmanager
def run_lossy_proxy(url: str) -> Iterator[tuple[LossyProxy, str]]:
    """Yield a proxy for the database at `url` (on a Unix socket), and the URL of the proxy."""
    parsed_url = make_url(url)
    folder = parsed_url.query["host"]
    assert isinstance(folder, str)
    proxy = LossyProxy(Path(folder) / ".s.PGSQL.5432")
    query = "sslmode=disable&gssencmode=disable"
    address = f"{parsed_url.username}@127.0.0.1:{proxy.port}/{parsed_url.database}"
    try:
        yield proxy, f"postgresql://{address}?{query}"
    finally:
        proxy.close()
