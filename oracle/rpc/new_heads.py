"""A websocket subscription that triggers a poll for each new block.

The content of messages is not trusted, and nothing depends on the subscription, because the next
poll finds every new block anyway. If the polled head advances but the websocket is silent, it is
closed. See docs/explanation/ingest.md#heads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from oracle.rpc.replies import matches_request_id
from oracle.rpc.transport import redact_url
from oracle.telemetry.logger import get_logger
from oracle.telemetry.rpc_metrics import NEW_HEADS, WEBSOCKET_FAILURES

# A websocket is silent if it has sent nothing for this many block times, and for at least this
# many seconds. Ponder once had a websocket that was silent for 7 days (ponder #2264).
_SILENT_BLOCKS = 3
_MIN_SILENCE_SECONDS = 20.0
# Number of consecutive failures after which no connection is opened for `PAUSE_SECONDS`.
_MAX_FAILURES = 2
PAUSE_SECONDS = 300.0
_OPEN_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
# Interval at which a connection without messages checks whether it should stop.
_CHECK_SECONDS = 1.0
_MAX_MESSAGE_BYTES = 1024 * 1024
_REQUEST_ID = 1
_SUBSCRIBE = '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'
_CHAIN_ID = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
# Websocket scheme for each HTTP scheme, and Geth's default ports for HTTP and websockets.
_WEBSOCKET_SCHEMES = {"http": "ws", "https": "wss"}
_GETH_PORTS = (":8545", ":8546")


class _SocketMessage(msgspec.Struct):
    """A websocket message: a notification, or the response to the subscription."""

    id: object = None
    method: str = ""
    error: object = None
    result: object = None

    @property
    def is_accepted(self) -> bool:
        """Whether the message is a notification or confirms the subscription."""
        is_response = not self.method
        return self.error is None and not (
            is_response and not matches_request_id(self.id, _REQUEST_ID, is_error=False)
        )


class PolledHead(NamedTuple):
    """The newest block found by polling, and the usual time between two blocks in seconds."""

    newest_block: int
    block_seconds: float


@dataclass(slots=True)
class SubscriptionWatchdog:
    """Decides when a websocket is silent, and when to reconnect.

    Times are in seconds; any monotonic clock will do.
    """

    _failures: int = 0
    _paused_until: float = 0.0
    _received_at: float = 0.0
    # Number of the newest polled block at the time of the last message.
    _newest_block: int = -1

    def should_connect(self, now: float) -> bool:
        """Return whether to connect now.

        After two failures in a row, the result is False for five minutes.
        """
        return now >= self._paused_until

    def record_connection(self, polled_head: PolledHead, now: float) -> None:
        """Record that a connection was opened."""
        self._received_at, self._newest_block = now, polled_head.newest_block

    def record_message(self, polled_head: PolledHead, now: float) -> None:
        """Record a message, and reset the count of failures."""
        self._received_at, self._newest_block, self._failures = now, polled_head.newest_block, 0

    def is_silent(self, polled_head: PolledHead, now: float) -> bool:
        """Return whether polling found new blocks that the websocket did not announce.

        No message has arrived for too long.
        """
        max_silence_seconds = max(_SILENT_BLOCKS * polled_head.block_seconds, _MIN_SILENCE_SECONDS)
        return (
            polled_head.newest_block > self._newest_block
            and now - self._received_at > max_silence_seconds
        )

    def record_failure(self, now: float) -> None:
        """Record a failed connection, and pause after too many consecutive failures."""
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            self._failures = 0
            self._paused_until = now + PAUSE_SECONDS


class NewHeadSubscription:
    """Calls `wake` in its own thread whenever the websocket announces a new block.

    `get_polled_head` returns the newest polled block; `clock` returns seconds.

    Raises:
        InputError: the URL is not a ws(s) address.
    """

    def __init__(
        self,
        url: str,
        wake: Callable[[], None],
        get_polled_head: Callable[[], PolledHead],
        clock: Callable[[], float],
        check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        self._url = url
        self.name = redact_url(url, ("ws", "wss"), "[chain] websocket")
        self._wake = wake
        self._get_polled_head = get_polled_head
        self._clock = clock
        self._check_seconds = check_seconds
        self._watchdog = SubscriptionWatchdog()
        self._stop_requested = Event()
        self._thread = Thread(target=self._run, name="wakeups", daemon=True)

    def start(self) -> None:
        """Start the thread that receives messages."""
        self._thread.start()

    def stop(self) -> None:
        """Close the connection, and wait up to two seconds for the thread to end."""
        self._stop_requested.set()
        self._thread.join(2 * self._check_seconds + _CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stop_requested.is_set():
            if self._watchdog.should_connect(self._clock()):
                end_reason = self._listen_once()
                if end_reason is not None:
                    self._record_failure(end_reason)
            # Wait even after a clean close, so that the thread never reconnects immediately.
            self._stop_requested.wait(self._check_seconds)

    def _listen_once(self) -> str | None:
        """Listen until the connection ends, and return the reason if it failed.

        The result is None after a clean end.
        """
        try:
            with connect(
                self._url,
                open_timeout=_OPEN_SECONDS,
                close_timeout=_CLOSE_SECONDS,
                max_size=_MAX_MESSAGE_BYTES,
            ) as connection:
                self._watchdog.record_connection(self._get_polled_head(), self._clock())
                connection.send(_SUBSCRIBE)
                return self._receive_messages(connection)
        except ConnectionClosed:
            return "closed"
        except (OSError, WebSocketException):
            # The exception's message contains the URL, so it is not returned.
            return "refused"

    def _receive_messages(self, connection: ClientConnection) -> str | None:
        while not self._stop_requested.is_set():
            try:
                raw_message = connection.recv(timeout=self._check_seconds, decode=False)
            except TimeoutError:
                if self._watchdog.is_silent(self._get_polled_head(), self._clock()):
                    return "silent"
                continue
            message = _decode_message(raw_message)
            if message is None or not message.is_accepted:
                return "refused"
            if message.method == "eth_subscription":
                self._watchdog.record_message(self._get_polled_head(), self._clock())
                NEW_HEADS.inc()
                self._wake()
        return None

    def _record_failure(self, reason: str) -> None:
        self._watchdog.record_failure(self._clock())
        WEBSOCKET_FAILURES.labels(reason).inc()
        get_logger().warning("websocket_closed", endpoint=self.name, reason=reason)


def find_websocket_url(endpoint_url: str, chain_id: int) -> str | None:
    """Find a websocket at the endpoint's host that announces blocks, and return its URL.

    The result is None if there is none.
    """
    return next(
        (
            url
            for url in _list_likely_websocket_urls(endpoint_url)
            if _can_subscribe(url, chain_id)
        ),
        None,
    )


def _list_likely_websocket_urls(endpoint_url: str) -> list[str]:
    """Return likely websocket URLs of an endpoint.

    These are its path, a path below /ws, and Geth's port.
    """
    url_parts = urlsplit(endpoint_url.strip())
    scheme = _WEBSOCKET_SCHEMES.get(url_parts.scheme)
    if scheme is None:
        return []
    same_host_url = url_parts._replace(scheme=scheme)
    likely_urls = [same_host_url, same_host_url._replace(path=f"/ws{url_parts.path}")]
    http_port, websocket_port = _GETH_PORTS
    if url_parts.netloc.endswith(http_port):
        netloc = url_parts.netloc.removesuffix(http_port) + websocket_port
        likely_urls.append(same_host_url._replace(netloc=netloc))
    return [address.geturl() for address in likely_urls]


def _can_subscribe(url: str, chain_id: int) -> bool:
    """Return whether the websocket serves the chain and accepts a subscription.

    The subscription is for new blocks.
    """
    try:
        with connect(
            url,
            open_timeout=_OPEN_SECONDS,
            close_timeout=_CLOSE_SECONDS,
            max_size=_MAX_MESSAGE_BYTES,
        ) as connection:
            received_messages = []
            for request in (_CHAIN_ID, _SUBSCRIBE):
                connection.send(request)
                received_messages.append(
                    _decode_message(connection.recv(timeout=_OPEN_SECONDS, decode=False))
                )
    except (OSError, WebSocketException):
        return False
    chain_response, subscription = received_messages
    return (
        chain_response is not None
        and chain_response.result == hex(chain_id)
        and subscription is not None
        and subscription.is_accepted
    )


def _decode_message(raw_message: bytes | str) -> _SocketMessage | None:
    try:
        return msgspec.json.decode(raw_message, type=_SocketMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
