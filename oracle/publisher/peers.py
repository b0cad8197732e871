"""Asks other reporters what they signed: in bounded space and time, believing nothing of it."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3
from typing_extensions import override

from oracle.chain.bodies import body_of
from oracle.chain.urls import shown
from oracle.publisher.statement_wire import Told, is_genuine, read
from oracle.telemetry import quorum_metrics

# Eight statements are five kilobytes.
_MOST_BYTES = 64 * 1024
_OK, _NONE = 200, 404


class Peer:
    """Another reporter. Its URL may hold a secret: only scheme, host and port are ever shown."""

    def __init__(self, url: str, seconds: float) -> None:
        """`seconds`: how long an answer may take.

        Raises:
            InputError: it is no http(s) address.
        """
        self.name = shown(url, ("http", "https"), "[reporters] peers")
        self._parts = urlsplit(url)
        self._seconds = seconds
        self._session = requests.Session()

    @override
    def __repr__(self) -> str:
        return f"Peer({self.name})"

    def close(self) -> None:
        """Let the connection go."""
        self._session.close()

    def ask(self, path: str) -> list[Told]:
        """Return what it says it signed, as far as that is genuine; what is not is counted."""
        try:
            body = self._body(path)
            told = [] if body is None else read(body)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            return self._counted("none", [])
        except ValueError:
            return self._counted("bad", [])
        genuine = [one for one in told if is_genuine(one)]
        return self._counted("good" if len(genuine) == len(told) else "forged", genuine)

    def _body(self, path: str) -> bytes | None:
        """Return the answer; None: it has signed nothing of that.

        Raises:
            ValueError: a redirection, another status, or too large an answer.
        """
        parts = self._parts
        url = urlunsplit(parts._replace(path=parts.path.rstrip("/") + path, fragment=""))
        until = time.monotonic() + self._seconds
        with self._session.get(
            url, timeout=self._seconds, allow_redirects=False, stream=True
        ) as answered:
            if answered.status_code == _NONE:
                return None
            if answered.status_code != _OK:
                raise ValueError(f"status {answered.status_code}")
            body = body_of(answered.raw, _MOST_BYTES, until)
        if len(body) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        return body

    def _counted(self, result: str, told: list[Told]) -> list[Told]:
        quorum_metrics.PEER_ANSWERS.labels(self.name, result).inc()
        return told


class Peers:
    """Every other reporter, asked at once, and not more often than every so many seconds."""

    def __init__(
        self,
        peers: Sequence[Peer],
        every_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.all = tuple(peers)
        self._every_seconds = every_seconds
        self._clock = clock
        self._asked: dict[str, float] = {}

    @classmethod
    def of(cls, urls: Sequence[str], every_seconds: float, timeout_seconds: float) -> "Peers":
        """Return the reporters behind these addresses.

        Raises:
            InputError: one is no http(s) address.
        """
        return cls([Peer(url, timeout_seconds) for url in urls], every_seconds)

    def ask(self, path: str) -> list[tuple[str, Told]]:
        """Return what they say, and which host says it; nothing where it is too early to ask."""
        now = self._clock()
        if not self.all or now - self._asked.get(path, -self._every_seconds) < self._every_seconds:
            return []
        # What was asked long ago is not asked again under that name.
        self._asked = {
            other: at for other, at in self._asked.items() if now - at < self._every_seconds
        } | {path: now}
        with ThreadPoolExecutor(len(self.all), "peers") as pool:
            answers = list(pool.map(lambda peer: peer.ask(path), self.all))
        return [
            (peer.name, told)
            for peer, answer in zip(self.all, answers, strict=True)
            for told in answer
        ]

    def close(self) -> None:
        """Let all connections go."""
        for peer in self.all:
            peer.close()
