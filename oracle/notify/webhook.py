"""A POST of one message, signed; how to check it stands in docs/how-to/be-told.md#webhook."""

import hashlib
import hmac
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from oracle.errors import TransientError
from oracle.notify.target import Message, NotDeliveredError, NoticeChoice
from oracle.rpc.transport import BoundedHttp, HttpAccess, shown

_SCHEMES = ("http", "https")
# What it says does not matter, beyond its status.
_MOST_BYTES = 4 * 1024
_OK = range(200, 300)


def signature_of(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message: `v1=` and HMAC-SHA256 of `id.timestamp.body`, in hex."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret, signed, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """Where to, signed with which secret; `seconds`: how long an answer may take.

    `may_be_private`: it may resolve to an address that is not public.
    """

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    seconds: float = 10.0
    may_be_private: bool = False


class Webhook:
    """An address that takes messages by POST; what the URL holds but its host is never shown."""

    def __init__(
        self, name: str, choice: NoticeChoice, address: WebhookAddress, clock: Callable[[], float]
    ) -> None:
        """`clock`: unix seconds, of the signature. Raises InputError: it is no http(s) address."""
        self.name = name
        self.choice = choice
        self._host = shown(address.url, _SCHEMES, f"notify {name}: url")
        self._address = address
        self._clock = clock
        # Neither proxies nor passwords of the environment.
        self._http = BoundedHttp(
            address.url, name=self._host, max_bytes=_MOST_BYTES, access=HttpAccess()
        )

    def send(self, message: Message) -> None:
        """Send it once. Raises NotDeliveredError: no answer, or its status is not of 200 to 299.

        A redirection is not followed: nobody else is shown what is said here.
        """
        if not self._address.may_be_private:
            self._refuse_private()
        body, timestamp = msgspec.json.encode(dict(message.body)), int(self._clock())
        headers = {
            "X-QoS-Id": message.id,
            "X-QoS-Timestamp": str(timestamp),
            "X-QoS-Signature": signature_of(self._address.secret, message.id, timestamp, body),
        }
        seconds = self._address.seconds
        try:
            answer = self._http.post(body, seconds, seconds, headers=headers)
        except TransientError as error:
            raise NotDeliveredError(str(error)) from None
        if answer.status not in _OK:
            raise NotDeliveredError(f"{self._host}: answered {answer.status}")

    def _refuse_private(self) -> None:
        """Keep a webhook out of our own network; what it resolves to may change later."""
        at = urlsplit(self._address.url)
        try:
            found = socket.getaddrinfo(at.hostname, at.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NotDeliveredError(f"{self._host}: is not found") from error
        for *_, address in found:
            if not ip_address(str(address[0]).partition("%")[0]).is_global:
                raise NotDeliveredError(
                    f"{self._host}: is not a public address; allow_private lets it be"
                )
