"""Sends messages to webhooks as signed POST requests.

See docs/how-to/notifications.md#webhook for how a receiver verifies the signature.
"""

import hashlib
import hmac
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import msgspec

from oracle.errors import TransientError
from oracle.notify.target import Message, NotDeliveredError, NoticeFilter
from oracle.rpc.transport import BoundedHttp, HttpAccess, redact_url

_SCHEMES = ("http", "https")
# Maximum number of bytes that are read of a response, because only its status matters.
_MAX_RESPONSE_BYTES = 4 * 1024
_SUCCESS_STATUSES = range(200, 300)
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")


def compute_webhook_signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Compute a message's signature: `v1=` and the HMAC-SHA256 of `id.timestamp.body` in hex."""
    signed_bytes = f"{message_id}.{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret, signed_bytes, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """A webhook's URL and secret; `timeout_seconds` limits the wait for a response.

    `allow_private` permits a host whose address is not public. `shown_as` replaces the host in
    errors; if it is None, the URL is the operator's, and its tokens are registered for redaction.
    """

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    timeout_seconds: float = 10.0
    allow_private: bool = False
    shown_as: str | None = None


class Webhook:
    """A target that receives messages by POST; only its URL's host is ever shown."""

    def __init__(
        self,
        name: str,
        notice_filter: NoticeFilter,
        endpoint: WebhookEndpoint,
        clock: Callable[[], float],
    ) -> None:
        """Create the target; raise InputError if the URL is not an http or https URL.

        `clock` returns unix seconds.
        """
        self.name = name
        self.notice_filter = notice_filter
        self._host = endpoint.shown_as or redact_url(endpoint.url, _SCHEMES, f"notify {name}: url")
        self._endpoint = endpoint
        self._clock = clock
        # `HttpAccess` also ignores proxies and credentials that the environment contains.
        access = HttpAccess(
            choose_address=None if endpoint.allow_private else self._resolve_public_address
        )
        self._http = BoundedHttp(
            endpoint.url, name=self._host, max_bytes=_MAX_RESPONSE_BYTES, access=access
        )

    def send(self, message: Message) -> None:
        """Send a message once; raise NotDeliveredError without a response of status 200-299.

        Redirects are not followed, so that no other host sees the message.
        """
        self._post(message)

    def send_challenge(self, message: Message, challenge: str) -> None:
        """Send a message whose response must contain `challenge`; otherwise raise an error.

        The response is the challenge alone, or a JSON object with the key `challenge`.
        """
        response_body = self._post(message)
        try:
            challenge_answer = msgspec.json.decode(response_body, type=dict[str, object]).get(
                "challenge"
            )
        except msgspec.DecodeError:
            challenge_answer = response_body.decode("utf-8", "replace")
        if challenge_answer != challenge:
            raise NotDeliveredError(f"{self._host}: the response does not contain the challenge")

    def _post(self, message: Message) -> bytes:
        body = msgspec.json.encode(dict(message.body))
        timestamp = int(self._clock())
        headers = {
            "X-QoS-Id": message.id,
            "X-QoS-Timestamp": str(timestamp),
            "X-QoS-Signature": compute_webhook_signature(
                self._endpoint.secret, message.id, timestamp, body
            ),
        }
        timeout_seconds = self._endpoint.timeout_seconds
        try:
            response = self._http.post(body, timeout_seconds, timeout_seconds, headers=headers)
        except TransientError as error:
            raise NotDeliveredError(str(error)) from None
        if response.status not in _SUCCESS_STATUSES:
            raise NotDeliveredError(f"{self._host}: HTTP status {response.status}; expected 2xx")
        return response.body

    def _resolve_public_address(self, host: str, port: int) -> str:
        """Resolve the host to a public IP address.

        No private network can be reached in this way. The connection must use the returned
        address, because the name may resolve to a different address a moment later.

        Raises:
            NotDeliveredError: the name cannot be resolved, or one of its addresses is not public.
        """
        try:
            address_infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NotDeliveredError(f"{self._host}: the host name cannot be resolved") from error
        addresses = [str(info[0]) for *_, info in address_infos]
        if not addresses or not all(map(is_public_address, addresses)):
            # An operator can change the setting, but a subscriber needs a different URL.
            advice = (
                "set allow_private = true to permit it"
                if self._endpoint.shown_as is None
                else "subscribe with the URL of a host that can be reached from the internet"
            )
            raise NotDeliveredError(
                f"{self._host}: the host has an address that is not public; {advice}"
            )
        return addresses[0]


def is_public_address(address: str) -> bool:
    """Return whether an IP address, and every address embedded in it, is public.

    Packets to a NAT64 (RFC 6052), 6to4, Teredo or IPv4-mapped address are forwarded to the IPv4
    address that is embedded in it.
    """
    ip = ip_address(address.partition("%")[0])
    if not ip.is_global or ip.is_multicast:
        return False
    return all(
        embedded_address.is_global and not embedded_address.is_multicast
        for embedded_address in _list_embedded_addresses(ip)
    )


def _list_embedded_addresses(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    embedded_addresses = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        embedded_addresses.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _NAT64_LOCAL:
        # The translator's operator decides which IPv4 address is reached (RFC 8215). The address
        # therefore does not count as public.
        embedded_addresses.append(IPv4Address(0))
    return [candidate for candidate in embedded_addresses if candidate is not None]
