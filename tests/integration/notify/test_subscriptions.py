"""Owners subscribe with a signature, and get the notices of their node until they end it."""

import json
import logging
import re
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from fastapi.testclient import TestClient
from hypothesis import given, strategies as st

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.domain.ids import Address
from oracle.notify.notice_kinds import OWNER_KINDS
from oracle.notify.subscriber_delivery import SubscriberDeliveries
from oracle.notify.subscriptions import (
    SubscriptionIntake,
    SubscriptionTerms,
    find_target_rejection_reason,
)
from tests.integration.notify.mailbox import receiving_mail
from tests.integration.notify.notified_daemon import NotifiedDaemon
from tests.support import histories
from tests.support.api import IndexedHistory
from tests.support.examples import examples

OWNER = Account.from_key("0x" + 64 * "1")
STRANGER = Account.from_key("0x" + 64 * "2")
NODE = Address(OWNER.address.lower())
SITE = "https://qos.example.org"
TERMS = SubscriptionTerms(
    site=SITE,
    max_per_node=2,
    max_total=3,
    requests_per_hour=100,
    max_failing_days=1,
    mail_url="mailto://127.0.0.1",
    allow_http=True,
    allow_private=True,
)


@dataclass
class Owner:
    """The owner of the node `A`, as a client of the read API of a daemon."""

    notified_daemon: NotifiedDaemon
    nonce: int = 0
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.notified_daemon.now = 1_800_000_000.0
        self.notified_daemon.receiver.returns_challenge = True
        source = IndexedHistory(
            self.notified_daemon.store, self.notified_daemon.follower.folder.rules
        ).source
        intake = SubscriptionIntake(
            self.notified_daemon.store, TERMS, lambda: self.notified_daemon.now
        )
        source = replace(source, subscriptions=intake)
        self.client = TestClient(create_read_api(source, streams=ApiSection()))
        self.restart()

    def restart(self, terms: SubscriptionTerms = TERMS) -> None:
        """Continue as another process would."""
        self.notified_daemon.restart([])
        self.notified_daemon.notifier.subscribers = SubscriberDeliveries(
            terms, self.notified_daemon.store, lambda: self.notified_daemon.now
        )

    def build_body(self, action: str, *, signer: Any = OWNER, **fields: Any) -> dict[str, Any]:
        self.nonce += 1
        data = self.client.get("/v1/subscriptions").json()["typed_data"]
        data["message"] |= {"service": SITE, "node": NODE, "action": action}
        data["message"] |= {
            "nonce": self.nonce,
            "deadline": int(self.notified_daemon.now) + 60,
            **fields,
        }
        signed = signer.sign_message(encode_typed_data(full_message=data))
        body: dict[str, Any] = data["message"] | {"signature": f"0x{signed.signature.hex()}"}
        return body

    def request(self, action: str, **fields: Any) -> Any:
        return self.client.post("/v1/subscriptions", json=self.build_body(action, **fields))

    def subscribe(self, **fields: Any) -> Any:
        fields = {"channel": "webhook", "target": self.notified_daemon.receiver.url} | fields
        return self.request("subscribe", **fields)

    @property
    def states(self) -> list[str]:
        return [entry["state"] for entry in self.request("list").json()["subscriptions"]]


@pytest.fixture
def owner(notified_daemon: NotifiedDaemon, monkeypatch: pytest.MonkeyPatch) -> Owner:
    make_node_address = histories.make_node_address
    monkeypatch.setattr(
        histories,
        "make_node_address",
        lambda name: NODE if name == "mine" else make_node_address(name),
    )
    notified_daemon.chain.mine(*histories.History().joins("mine").events)
    notified_daemon.run_until_idle()
    notified_daemon.receiver.got.clear()
    return Owner(notified_daemon)


def test_confirmed_subscriber_gets_only_notices_of_their_node(owner: Owner):
    created = owner.subscribe(kinds="timed_out,excluded").json()
    owner.notified_daemon.times_out("mine")
    owner.notified_daemon.run_until_idle()
    owner.notified_daemon.times_out("A")
    owner.notified_daemon.times_out("mine")
    owner.notified_daemon.run_until_idle()

    confirmation, *deliveries = owner.notified_daemon.receiver.got
    assert confirmation.decoded["kind"] == "confirm"
    assert [delivery.decoded["kind"] for delivery in deliveries] == ["timed_out", "excluded"]
    assert {delivery.decoded["node"] for delivery in deliveries} == {NODE}
    assert len(created["secret"]) == 64
    assert owner.states == ["active"]


def test_subscriber_gets_each_notice_once_despite_failures(owner: Owner):
    owner.subscribe()
    owner.notified_daemon.run_until_idle()
    owner.notified_daemon.receiver.statuses.extend([500, 500])
    owner.notified_daemon.times_out("mine", 2)
    owner.notified_daemon.run_until_idle()
    owner.restart()
    for _ in range(3):
        owner.notified_daemon.now += 3600
        owner.notified_daemon.run_until_idle()

    accepted = owner.notified_daemon.receiver.ids[3:]
    assert accepted == sorted(set(accepted), key=int)
    assert set(owner.notified_daemon.receiver.ids[1:3]) == {accepted[0]}
    assert len(accepted) >= 3


def test_webhook_that_fails_its_challenge_gets_no_notice(owner: Owner):
    owner.notified_daemon.receiver.returns_challenge = False
    owner.subscribe()
    owner.notified_daemon.times_out("mine")
    for _ in range(10):
        owner.notified_daemon.now += 600
        owner.notified_daemon.run_until_idle()

    assert set(owner.notified_daemon.receiver.kinds) == {"confirm"}
    (entry,) = owner.request("list").json()["subscriptions"]
    assert entry["state"] == "ended"
    assert "challenge" in entry["reason"]


INVALID: list[dict[str, Any]] = [
    {"signer": STRANGER},
    {"service": "https://other.example.org"},
    {"deadline": 1},
    {"deadline": 1_800_000_000 + 7200},
    {"node": STRANGER.address},
    {"kinds": "halted"},
    {"target": "ftp://example.org/x"},
    {"channel": "pager"},
]
CHANGES: list[dict[str, Any]] = [
    {"target": "https://example.org/b"},
    {"kinds": "excluded"},
    {"nonce": 1_000},
    {"deadline": 1_800_000_000 + 61},
    {"action": "list", "channel": "", "target": ""},
]


def test_invalid_or_unsigned_subscription_is_rejected(owner: Owner):
    for fields in INVALID:
        assert owner.subscribe(**fields).status_code in {403, 422}, fields
    body = owner.build_body("subscribe", channel="webhook", target="https://example.org/a")
    for fields in CHANGES:
        response = owner.client.post("/v1/subscriptions", json=body | fields)
        assert response.status_code == 403, fields
    assert owner.states == []


def test_subscription_request_cannot_be_replayed(owner: Owner):
    body = owner.build_body(
        "subscribe", channel="webhook", target=owner.notified_daemon.receiver.url
    )
    statuses = [owner.client.post("/v1/subscriptions", json=body).status_code for _ in range(2)]
    assert statuses == [200, 403]
    assert owner.states == ["new"]


def test_owner_can_end_subscription(owner: Owner):
    created = owner.subscribe().json()["created"]
    owner.notified_daemon.run_until_idle()
    assert owner.request("unsubscribe", target=created).status_code == 200
    owner.notified_daemon.times_out("mine")
    owner.notified_daemon.run_until_idle()
    assert owner.notified_daemon.receiver.kinds == ["confirm"]
    assert owner.states == ["ended"]


def test_unsubscribe_link_works_without_a_key(owner: Owner):
    owner.subscribe()
    owner.notified_daemon.run_until_idle()
    link = owner.notified_daemon.receiver.got[0].decoded["unsubscribe"]
    assert link.startswith(f"{SITE}/subscriptions/")
    path = urlsplit(link).path

    assert "Notices" in owner.client.get(path).text
    assert owner.states == ["active"]
    wrong_path = path[:-1] + ("0" if path[-1] != "0" else "1")
    assert owner.client.post(f"{wrong_path}/end").status_code == 404
    assert owner.client.post(f"{path}/end").status_code == 200
    assert owner.states == ["ended"]


def test_node_and_server_limits_are_enforced(owner: Owner):
    statuses = [
        owner.subscribe(target=f"https://example.org/{number}").status_code for number in range(3)
    ]
    assert statuses == [200, 200, 429]


def test_confirmations_per_target_are_limited_per_day(owner: Owner):
    statuses = []
    for _ in range(4):
        response = owner.subscribe()
        statuses.append(response.status_code)
        owner.request("unsubscribe", target=response.json().get("created") or "")
    assert statuses == [200, 200, 200, 429]


def test_subscriber_that_fails_for_days_is_removed_with_reason(owner: Owner):
    owner.subscribe()
    owner.notified_daemon.run_until_idle()
    owner.notified_daemon.times_out("mine")
    owner.notified_daemon.receiver.statuses.extend([500] * 100)
    for _ in range(60):
        owner.notified_daemon.now += 3600
        owner.notified_daemon.run_until_idle()

    (entry,) = owner.request("list").json()["subscriptions"]
    assert entry["state"] == "ended"
    assert "HTTP status 500" in entry["reason"]
    assert len(owner.notified_daemon.receiver.got) == 1 + TERMS.max_tries


def test_private_address_gets_no_challenge_unless_allowed(owner: Owner):
    owner.restart(replace(TERMS, allow_private=False))
    owner.subscribe()
    for _ in range(10):
        owner.notified_daemon.now += 3600
        owner.notified_daemon.run_until_idle()
    assert owner.notified_daemon.receiver.got == []
    (entry,) = owner.request("list").json()["subscriptions"]
    assert "not public" in entry["reason"]
    # The owner cannot change the operator's settings.
    assert "allow_private" not in entry["reason"]


def test_secret_parts_of_target_are_never_shown(owner: Owner, capfd, caplog):
    token = "kickout-token-of-the-owner"  # noqa: S105 - nobody's
    target = f"{owner.notified_daemon.receiver.url}/{token}"
    owner.notified_daemon.receiver.statuses.extend([500] * 20)
    # The daemon writes warnings of libraries, and nothing below (telemetry/logging_setup.py).
    with caplog.at_level(logging.WARNING):
        responses = [owner.subscribe(target=target).text]
        for _ in range(10):
            owner.notified_daemon.now += 3600
            owner.notified_daemon.run_until_idle()
        responses.append(owner.request("list").text)
    with owner.notified_daemon.store.read_transaction() as uow:
        responses += [repr(entry) for entry in uow.subscriptions.list_for_node(NODE)]
        responses += [str(progress) for progress in uow.notices.list_progress()]
    text = json.dumps(responses) + caplog.text + "".join(capfd.readouterr())
    assert len(owner.notified_daemon.receiver.got) > 2
    assert token not in text


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_mail_address_gets_notices_after_its_link_is_opened(owner: Owner, caplog):
    with receiving_mail() as mailbox:
        url = f"mailto://127.0.0.1:{mailbox.port}?from=qos@mailbox.test&to=operator@mailbox.test"
        owner.restart(replace(TERMS, mail_url=url))
        owner.subscribe(channel="mail", target="owner@example.net")
        owner.notified_daemon.times_out("mine")
        owner.notified_daemon.run_until_idle()
        assert (len(mailbox.mails), owner.states) == (1, ["unconfirmed"])

        (link,) = re.findall(rf"{SITE}(/subscriptions/\w+/\w+)", mailbox.texts[0])
        assert owner.client.post(f"{link}/confirm").status_code == 200
        owner.notified_daemon.times_out("mine")
        owner.notified_daemon.run_until_idle()
    assert len(mailbox.mails) > 1
    assert all(NODE in text and link in text for text in mailbox.texts)
    assert set(mailbox.recipients) == {"owner@example.net"}

    # The mail server is down, so Apprise logs a warning.
    owner.notified_daemon.times_out("mine")
    owner.notified_daemon.run_until_idle()
    assert caplog.text
    assert "owner@example.net" not in caplog.text


@given(st.text(max_size=60))
@examples(200)
def test_target_must_be_http_url_or_plain_mail_address(text: str):
    strict = replace(TERMS, allow_http=False)
    if find_target_rejection_reason(strict, "webhook", text) is None:
        assert text.startswith("https://")
    if find_target_rejection_reason(strict, "mail", text) is None:
        assert text.count("@") == 1
        assert not set(text) & set(" ,;<>\r\n?&/%")


def test_subscriber_cannot_select_operator_kinds():
    assert not OWNER_KINDS & {"halted", "report_held", "daemon_was_down", "condition_began"}
    assert {"kickout_near", "kickout_due", "incident_began", "rules_hit_you"} <= OWNER_KINDS
