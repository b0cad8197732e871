"""A POST of one message, signed; how to check it is in docs/how-to/notifications.md#webhook."""

import hashlib
import hmac
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import msgspec

from oracle.errors import TransientError
from oracle.notify.target import Message, NotDeliveredError, NoticeChoice
from oracle.rpc.transport import BoundedHttp, HttpAccess, shown

_SCHEMES = ("http", "https")
# What it says does not matter, beyond its status.
_MOST_BYTES = 4 * 1024
_OK = range(200, 300)
_NAT64, _NAT64_LOCAL = IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48")


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
        access = HttpAccess(
            choose_address=None if address.may_be_private else self._public_address
        )
        self._http = BoundedHttp(
            address.url, name=self._host, max_bytes=_MOST_BYTES, access=access
        )

    def send(self, message: Message) -> None:
        """Send it once. Raises NotDeliveredError: no answer, or its status is not of 200 to 299.

        A redirection is not followed: nobody else is shown what is said here.
        """
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

    def _public_address(self, host: str, port: int) -> str:
        """Return the address to connect to: a webhook stays out of our own network.

        The connection goes to the address that was checked: a name may resolve to another one a
        moment later.

        Raises:
            NotDeliveredError: the name is not found, or one of its addresses is not public.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NotDeliveredError(f"{self._host}: is not found") from error
        addresses = [str(address[0]) for *_, address in found]
        if not addresses or not all(map(is_public, addresses)):
            raise NotDeliveredError(
                f"{self._host}: is not a public address; allow_private lets it be"
            )
        return addresses[0]


def is_public(address: str) -> bool:
    """Return whether an address lies in the public internet, and every address that it embeds.

    NAT64 (RFC 6052), 6to4, Teredo and mapped addresses lead to the IPv4 address that they hold.
    """
    found = ip_address(address.partition("%")[0])
    if not found.is_global or found.is_multicast:
        return False
    return all(inner.is_global and not inner.is_multicast for inner in _embedded(found))


def _embedded(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inner.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _NAT64_LOCAL:
        # Of whoever runs the translator; where it leads is theirs to say (RFC 8215).
        inner.append(IPv4Address(0))
    return [one for one in inner if one is not None]
