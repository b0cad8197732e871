"""A webhook is signed, goes nowhere else, and shows nothing of its address."""

import hashlib
import hmac
import sys

import pytest

from oracle.errors import InputError
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.target import NotDeliveredError, NoticeChoice, a_test_message
from oracle.notify.webhook import Webhook, WebhookAddress
from tests.integration.notify.told import SECRET, Told

MESSAGE = a_test_message(7)


def test_a_message_is_signed_with_its_id_and_the_time_of_sending(told: Told):
    told.webhook().send(MESSAGE)

    (got,) = told.receiver.got
    signed = b"%s.%d." % (got.headers["X-QoS-Id"].encode(), 5000) + got.body
    expected = "v1=" + hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
    assert got.headers["X-QoS-Timestamp"] == "5000"
    assert got.headers["X-QoS-Signature"] == expected


@pytest.mark.parametrize("status", [301, 307, 400, 410, 500])
def test_any_answer_but_a_success_is_a_failure_and_no_redirection_is_followed(
    told: Told, status: int
):
    told.receiver.statuses.append(status)

    with pytest.raises(NotDeliveredError, match=f"answered {status}"):
        told.webhook().send(MESSAGE)

    assert len(told.receiver.got) == 1


def test_a_webhook_into_our_own_network_is_refused_unless_it_is_allowed(told: Told):
    with pytest.raises(NotDeliveredError, match="not a public address"):
        told.webhook(private=False).send(MESSAGE)

    assert told.receiver.got == []


def test_nothing_of_a_webhooks_address_but_its_host_is_in_an_error_or_a_repr():
    address = WebhookAddress("http://127.0.0.1:1/a-token-in-the-path", SECRET, 1.0)
    webhook = Webhook("ours", NoticeChoice(), address, lambda: 0.0)

    with pytest.raises(NotDeliveredError) as raised:
        webhook.send(MESSAGE)

    shown = f"{raised.value} {address!r} {webhook!r}"
    assert "a-token" not in shown
    assert "a secret" not in shown


def test_without_apprise_other_addresses_are_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "apprise", None)

    with pytest.raises(InputError, match="qos-oracle\\[notify\\]"):
        AppriseTarget("chat", NoticeChoice(), "tgram://token-of-a-bot/chat")
