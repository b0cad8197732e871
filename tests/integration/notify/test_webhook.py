"""A webhook is signed, contacts no other address, and never reveals its URL."""

import hashlib
import hmac
import socket
import sys
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from oracle.errors import InputError
from oracle.notify import webhook
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.target import NotDeliveredError, NoticeFilter, build_test_message
from oracle.notify.webhook import Webhook, WebhookEndpoint, is_public_address
from tests.integration.notify.notified_daemon import SECRET, NotifiedDaemon
from tests.support.examples import examples

MESSAGE = build_test_message(7)


def test_webhook_signature_covers_id_and_send_time(notified_daemon: NotifiedDaemon):
    notified_daemon.webhook().send(MESSAGE)

    (delivery,) = notified_daemon.receiver.got
    signed = b"%s.%d." % (delivery.headers["X-QoS-Id"].encode(), 5000) + delivery.body
    expected = "v1=" + hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
    assert delivery.headers["X-QoS-Timestamp"] == "5000"
    assert delivery.headers["X-QoS-Signature"] == expected


@pytest.mark.parametrize("status", [301, 307, 400, 410, 500])
def test_non_success_status_counts_as_a_delivery_failure(
    notified_daemon: NotifiedDaemon, status: int
):
    notified_daemon.receiver.statuses.append(status)

    with pytest.raises(NotDeliveredError, match=f"HTTP status {status}"):
        notified_daemon.webhook().send(MESSAGE)

    assert len(notified_daemon.receiver.got) == 1


def test_webhook_to_private_address_is_rejected_unless_allowed(notified_daemon: NotifiedDaemon):
    with pytest.raises(NotDeliveredError, match="an address that is not public"):
        notified_daemon.webhook(private=False).send(MESSAGE)

    assert notified_daemon.receiver.got == []


NAME = "hook.example.test"
# A public address without a server: the anycast address of the abolished 6to4 relays (RFC 7526).
PUBLIC = "192.88.99.1"


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Let a name server return these addresses for NAME, one after the other;
    the last one remains.
    """
    original_getaddrinfo = socket.getaddrinfo
    remaining_answers = [*answers]
    resolved_addresses: list[str] = []

    def look_up(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host != NAME:
            return original_getaddrinfo(host, port, *more, **named)
        address = remaining_answers.pop(0) if len(remaining_answers) > 1 else remaining_answers[0]
        resolved_addresses.append(address)
        return original_getaddrinfo(address, port, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return resolved_addresses


def test_dns_rebinding_to_private_address_is_blocked(
    notified_daemon: NotifiedDaemon, monkeypatch: pytest.MonkeyPatch
):
    resolved_addresses = resolving(monkeypatch, PUBLIC, "127.0.0.1")
    url = notified_daemon.receiver.url.replace("127.0.0.1", NAME)
    address = WebhookEndpoint(url, SECRET, timeout_seconds=0.3)

    with pytest.raises(NotDeliveredError) as raised:
        Webhook("ours", NoticeFilter(), address, lambda: 0.0).send(MESSAGE)

    # The check passed, and the connection to exactly this address failed.
    assert "an address that is not public" not in str(raised.value)
    assert notified_daemon.receiver.got == []
    assert resolved_addresses == [PUBLIC]


def test_message_is_sent_to_checked_address_with_original_host_header(
    notified_daemon: NotifiedDaemon, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webhook, "is_public_address", lambda address: address == "127.0.0.1")
    resolved_addresses = resolving(monkeypatch, "127.0.0.1", PUBLIC)
    url = notified_daemon.receiver.url.replace("127.0.0.1", NAME)

    notified_daemon.webhook(private=False, url=url).send(MESSAGE)

    (delivery,) = notified_daemon.receiver.got
    assert delivery.headers["Host"] == urlsplit(url).netloc
    assert resolved_addresses == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("64:ff9b::808:808", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b:1::808:808", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:127.0.0.1", False),
        ("2002:a00:1::1", False),
        ("2002:7f00:1::1", False),
        ("fe80::1%eth0", False),
        ("::1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104  nobody listens there
        ("224.0.0.1", False),
        ("ff0e::1", False),
    ],
)
def test_address_is_public_only_if_embedded_addresses_are_public(address: str, expected: bool):  # noqa: FBT001
    assert is_public_address(address) is expected


@given(st.ip_addresses(v=4))
@examples(200)
def test_nat64_address_is_public_only_if_embedded_address_is(inner: IPv4Address):
    outer = IPv6Address(int(IPv6Address("64:ff9b::")) | int(inner))
    assert is_public_address(str(outer)) is is_public_address(str(inner))


def test_webhook_error_and_repr_show_only_host():
    address = WebhookEndpoint("http://127.0.0.1:1/a-token-in-the-path", SECRET, 1.0)
    target = Webhook("ours", NoticeFilter(), address, lambda: 0.0)

    with pytest.raises(NotDeliveredError) as raised:
        target.send(MESSAGE)

    printed = f"{raised.value} {address!r} {target!r}"
    assert "a-token" not in printed
    assert "a secret" not in printed


def test_missing_apprise_is_reported_with_install_instruction(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "apprise", None)

    with pytest.raises(InputError, match=r"Apprise is not installed; run .*apprise"):
        AppriseTarget("chat", NoticeFilter(), "tgram://token-of-a-bot/chat")
