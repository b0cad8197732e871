"""A websocket that says "look now" when there is a new block, and nothing else.

What it tells is never believed, and nothing waits for it: without it every block comes with the
next poll. A silent one is found out by the head that polling sees, and is given up.
See docs/explanation/ingest.md#heads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from typing import NamedTuple

import msgspec
import structlog
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from oracle.rpc.replies import is_of
from oracle.rpc.transport import shown
from oracle.telemetry.rpc_metrics import NEW_HEADS, WEBSOCKET_FAILURES

# Silence is this many block times, and at least so many seconds (ponder #2264: 7 days).
_SILENT_BLOCKS = 3
_LEAST_SILENCE_SECONDS = 20.0
# After so many failures in a row it is left alone for a while.
_FAILURES = 2
PAUSE_SECONDS = 300.0
_OPEN_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
# How often a connection without news looks whether it should end.
_LOOK_SECONDS = 1.0
_MOST_BYTES = 1024 * 1024
_ID = 1
_SUBSCRIBE = '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'


class _SocketMessage(msgspec.Struct):
    """What comes over the websocket: an answer to our question, or a message."""

    id: object = None
    method: str = ""
    error: object = None

    @property
    def is_ours(self) -> bool:
        """Whether it is a message, or the answer to our one question, and no refusal of it."""
        is_answer = not self.method
        return self.error is None and not (is_answer and not is_of(self.id, _ID, is_error=False))


class PolledHead(NamedTuple):
    """What polling knows: the newest block, and how long blocks take, in seconds."""

    newest: int
    block_seconds: float


@dataclass(slots=True)
class SubscriptionWatchdog:
    """Decides when a websocket is silent, and when to try one; times are seconds of any clock."""

    _failures: int = 0
    _paused_until: float = 0.0
    _received_at: float = 0.0
    # The newest block that polling saw when the last message came.
    _newest: int = -1

    def may_connect(self, now: float) -> bool:
        """Tell whether to try; not for five minutes after two failures."""
        return now >= self._paused_until

    def connected(self, polled: PolledHead, now: float) -> None:
        """Begin to listen."""
        self._received_at, self._newest = now, polled.newest

    def received(self, polled: PolledHead, now: float) -> None:
        """Note a message: the websocket works."""
        self._received_at, self._newest, self._failures = now, polled.newest, 0

    def is_silent(self, polled: PolledHead, now: float) -> bool:
        """Tell whether blocks came, seen by polling, and no message for too long."""
        bearable = max(_SILENT_BLOCKS * polled.block_seconds, _LEAST_SILENCE_SECONDS)
        return polled.newest > self._newest and now - self._received_at > bearable

    def failed(self, now: float) -> None:
        """Note that it was given up."""
        self._failures += 1
        if self._failures >= _FAILURES:
            self._failures, self._paused_until = 0, now + PAUSE_SECONDS


class NewHeadSubscription:
    """Calls `wake` in a thread of its own whenever a websocket tells of a new block.

    `look` gives what polling knows; `clock` counts seconds.

    Raises:
        InputError: the URL is no ws(s) address.
    """

    def __init__(
        self,
        url: str,
        wake: Callable[[], None],
        look: Callable[[], PolledHead],
        clock: Callable[[], float],
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._url = url
        self.name = shown(url, ("ws", "wss"), "[chain] websocket")
        self._wake = wake
        self._look = look
        self._clock = clock
        self._look_seconds = look_seconds
        self._watchdog = SubscriptionWatchdog()
        self._over = Event()
        self._thread = Thread(target=self._run, name="wakeups", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Let the connection go, and wait for the thread; it ends within two looks."""
        self._over.set()
        self._thread.join(2 * self._look_seconds + _CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._over.is_set():
            if self._watchdog.may_connect(self._clock()):
                reason = self._listen_once()
                if reason is not None:
                    self._give_up(reason)
            # Also after a connection that ended well: no server is asked without a pause.
            self._over.wait(self._look_seconds)

    def _listen_once(self) -> str | None:
        """Listen until the connection ends; return why it failed, None: it did not."""
        try:
            with connect(
                self._url,
                open_timeout=_OPEN_SECONDS,
                close_timeout=_CLOSE_SECONDS,
                max_size=_MOST_BYTES,
            ) as line:
                self._watchdog.connected(self._look(), self._clock())
                line.send(_SUBSCRIBE)
                return self._listen(line)
        except ConnectionClosed:
            return "closed"
        except (OSError, WebSocketException):
            # Its own words hold the URL.
            return "refused"

    def _listen(self, line: ClientConnection) -> str | None:
        while not self._over.is_set():
            try:
                said = line.recv(timeout=self._look_seconds, decode=False)
            except TimeoutError:
                if self._watchdog.is_silent(self._look(), self._clock()):
                    return "silent"
                continue
            told = _read(said)
            if told is None or not told.is_ours:
                return "refused"
            if told.method == "eth_subscription":
                self._watchdog.received(self._look(), self._clock())
                NEW_HEADS.inc()
                self._wake()
        return None

    def _give_up(self, reason: str) -> None:
        self._watchdog.failed(self._clock())
        WEBSOCKET_FAILURES.labels(reason).inc()
        structlog.get_logger().warning("websocket_closed", endpoint=self.name, reason=reason)


def _read(said: bytes | str) -> _SocketMessage | None:
    try:
        return msgspec.json.decode(said, type=_SocketMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
