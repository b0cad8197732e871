"""Fetches the statements of other reporters in bounded space and time, and trusts none of them."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from typing_extensions import override

from oracle.domain.ids import Address
from oracle.quorum.wire_format import Told, is_genuine, read
from oracle.rpc.rpc_errors import RpcError
from oracle.rpc.transport import BoundedHttp, HttpAccess, shown
from oracle.telemetry import quorum_metrics

# Eight statements are five kilobytes.
_MOST_BYTES = 64 * 1024
_OK, _NONE = 200, 404
# Who let us wait is left alone for so many times as long, and for so many seconds at most.
_BACKOFF, _MOST_BACKOFF = 10, 60.0
# What was asked is asked about again after so many looks' time, once each; so many are noted.
_AGAIN, _MOST_NOTED = (10, 30), 64


class Peer:
    """Another reporter. Its URL may hold a secret: only scheme, host and port are ever shown."""

    def __init__(self, url: str, seconds: float, access: HttpAccess | None = None) -> None:
        """`seconds`: how long an answer may take. `access`: who we are, where it asks for that.

        Raises:
            InputError: it is no http(s) address.
        """
        self.name = shown(url, ("http", "https"), "[reporters] peers")
        self._http = BoundedHttp(url, name=self.name, max_bytes=_MOST_BYTES, access=access)
        self._seconds = seconds
        self._is_asked = False
        self._backoff_until = 0.0

    @override
    def __repr__(self) -> str:
        return f"Peer({self.name})"

    def close(self) -> None:
        """Let the connection go."""
        self._http.close()

    def asked(self, path: str) -> "Future[list[Told]] | None":
        """Start a fetch in a thread; return None if one is running or the peer is backing off."""
        if self._is_asked or time.monotonic() < self._backoff_until:
            return None
        self._is_asked = True
        answer = Future[list[Told]]()
        # Not waited for at the end of the process either: headers may come byte by byte.
        threading.Thread(target=self._answer, args=(path, answer), daemon=True).start()
        return answer

    def _answer(self, path: str, answer: "Future[list[Told]]") -> None:
        begun = time.monotonic()
        try:
            told = self.ask(path)
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            answer.set_exception(error)
            return
        finally:
            took = time.monotonic() - begun
            if took >= self._seconds / 2:
                self._backoff_until = time.monotonic() + min(_MOST_BACKOFF, _BACKOFF * took)
            self._is_asked = False
        answer.set_result(told)

    def ask(self, path: str) -> list[Told]:
        """Return the peer's genuine statements; others are only counted."""
        try:
            body = self._body(path)
            told = [] if body is None else read(body)
        except RpcError:
            return self._counted("none", [])
        except ValueError:
            return self._counted("bad", [])
        genuine = [one for one in told if is_genuine(one)]
        return self._counted("good" if len(genuine) == len(told) else "forged", genuine)

    def _body(self, path: str) -> bytes | None:
        """Return the answer; None: it has signed nothing of that.

        Raises:
            RpcError: no answer.
            ValueError: a redirection, another status, or too large an answer.
        """
        answer = self._http.get(path, self._seconds, self._seconds)
        if answer.status == _NONE:
            return None
        if answer.status != _OK:
            raise ValueError(f"status {answer.status}")
        if answer.is_cut:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        return answer.body

    def _counted(self, result: str, told: list[Told]) -> list[Told]:
        quorum_metrics.PEER_ANSWERS.labels(self.name, result).inc()
        return told


class PeerClients:
    """Every other reporter, asked at once, and not more often than every so many seconds."""

    def __init__(
        self,
        peers: Sequence[Peer],
        every_seconds: float,
        timeout_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout_seconds`: how long all of them together are waited for."""
        self.all = tuple(peers)
        self._every_seconds = every_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._asked: dict[str, float] = {}
        # How often each place was asked about again, and when it was last.
        self._again: dict[str, tuple[int, float]] = {}
        # Whom we told of: a reporter whose signer was removed shows what it signs all night.
        self._told_of: dict[tuple[str, Address], None] = {}

    @classmethod
    def of(
        cls,
        urls: Sequence[str],
        every_seconds: float,
        timeout_seconds: float,
        access: HttpAccess | None = None,
    ) -> "PeerClients":
        """Return the reporters behind these addresses.

        Raises:
            InputError: one is no http(s) address.
        """
        peers = [Peer(url, timeout_seconds, access) for url in urls]
        return cls(peers, every_seconds, timeout_seconds)

    def ask(self, path: str) -> list[tuple[str, Told]]:
        """Fetch statements from all peers, with their hosts; empty within the fetch interval."""
        now = self._clock()
        if not self.all or now - self._asked.get(path, -self._every_seconds) < self._every_seconds:
            return []
        # What was asked long ago is not asked again under that name.
        self._asked = {
            other: at for other, at in self._asked.items() if now - at < self._every_seconds
        } | {path: now}
        return self._told(path)

    def ask_again(self, path: str) -> list[tuple[str, Told]]:
        """Fetch statements of a settled path again, a few times in all."""
        now = self._clock()
        times, at = self._again.pop(path, (0, now))
        is_due = times < len(_AGAIN) and now - at >= _AGAIN[times] * self._every_seconds
        self._again[path] = (times + 1, now) if is_due else (times, at)
        for oldest in list(self._again)[:-_MOST_NOTED]:
            del self._again[oldest]
        return self._told(path) if is_due else []

    def is_news(self, host: str, signer: Address) -> bool:
        """Record an unknown signer of a host; return whether it is new."""
        is_news = (host, signer) not in self._told_of
        self._told_of[host, signer] = None
        for oldest in list(self._told_of)[:-_MOST_NOTED]:
            del self._told_of[oldest]
        return is_news

    def _told(self, path: str) -> list[tuple[str, Told]]:
        asked = [(peer, peer.asked(path)) for peer in self.all]
        begun = [answer for _, answer in asked if answer is not None]
        wait(begun, self._timeout_seconds)
        told: list[tuple[str, Told]] = []
        for peer, answer in asked:
            if answer is None or not answer.done():
                quorum_metrics.PEER_ANSWERS.labels(peer.name, "none").inc()
            else:
                told += [(peer.name, one) for one in answer.result()]
        return told

    def close(self) -> None:
        """Let all connections go."""
        for peer in self.all:
            peer.close()
