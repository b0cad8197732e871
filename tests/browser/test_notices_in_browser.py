"""Browser notifications for watched nodes, and a subscription that a wallet signs."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from playwright.sync_api import BrowserContext, expect

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.wall_clock import unix_seconds
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.domain.ids import Address
from oracle.notify.subscriptions import SubscriptionIntake, SubscriptionTerms
from tests.support import histories
from tests.support.api import IndexedHistory
from tests.support.histories import History
from tests.support.txmgr.stores import new_sqlite_store

__all__ = ["new_sqlite_store"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OWNER = Account.from_key("0x" + 64 * "1")
NODE = Address(OWNER.address.lower())
# Records what a page shows, because a browser without a window shows nothing.
RECORD_NOTIFICATIONS = """
window.shown = [];
const Shown = window.Notification;
window.Notification = class extends Shown {
  constructor(title, options) { super(title, options); window.shown.push(options.body);
    document.documentElement.dataset.shown = options.body; }
};
"""
WALLET = f"""
window.ethereum = {{ request: ({{ method, params }}) => (
  method === "eth_requestAccounts" ? ["{NODE}"] : window.signWithTestKey(params[1])
) }};
"""


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> History:
    make_node_address = histories.make_node_address
    monkeypatch.setattr(
        histories,
        "make_node_address",
        lambda name: NODE if name == "A" else make_node_address(name),
    )
    return History().joins("A", "B").scores("A", 10, 0, 0).scores("B", 5)


@pytest.fixture
def indexed(new_sqlite_store, history: History) -> Iterator[IndexedHistory]:
    with new_sqlite_store() as store:
        yield IndexedHistory(store).whole(history)


@pytest.fixture
def context(browser, indexed: IndexedHistory) -> Iterator[BrowserContext]:
    terms = SubscriptionTerms(
        "https://qos.example.org",
        max_per_node=3,
        max_total=9,
        requests_per_hour=9,
        max_failing_days=1,
        mail_url="mailto://127.0.0.1",
    )
    intake = SubscriptionIntake(indexed.store, terms, unix_seconds)
    app = create_read_api(replace(indexed.source, subscriptions=intake), streams=ApiSection())
    section = ApiSection(port=0)
    with serve_app(app, section, 0) as url:
        context = browser.new_context(base_url=url, permissions=["notifications"])
        yield context
        context.close()


def test_notification_of_a_watched_node_is_shown_until_disabled(context, indexed, history):
    context.add_init_script(RECORD_NOTIFICATIONS)
    page = context.new_page()
    page.goto(f"/nodes/{NODE}")
    with page.expect_response(lambda response: "/v1/events" in response.url):
        page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("button", name="Notifying")).to_be_visible()

    done = len(history.events)
    history.after(30).starts("late", "A").after(9).times_out("late")
    history.starts("other", "B").after(9).times_out("other")
    indexed.index(history.events[done:], history.block, history.time)
    page.wait_for_selector("html[data-shown*='timed out']", state="attached")
    texts = page.evaluate("window.shown")
    assert all(text.startswith(NODE) for text in texts)

    page.get_by_role("button", name="Notifying").click()
    page.goto("/")
    assert page.evaluate("notifyStream") is None


def test_wallet_signs_subscription_on_node_page(context, indexed):
    def sign(text: str) -> str:
        signable = encode_typed_data(full_message=json.loads(text))
        return f"0x{OWNER.sign_message(signable).signature.hex()}"

    context.expose_function("signWithTestKey", sign)
    context.add_init_script(WALLET)
    page = context.new_page()
    page.goto(f"/nodes/{NODE}")
    page.get_by_label("URL or mail address").fill("https://hook.example.org/a-token")
    page.get_by_role("button", name="Sign and subscribe").click()
    expect(page.locator("#subscribe-state")).to_contain_text("Subscribed.")

    with indexed.store.read_transaction() as uow:
        (entry,) = uow.subscriptions.list_for_node(NODE)
    assert entry.target == "https://hook.example.org/a-token"
    assert entry.secret.hex() in page.locator("#subscribe-state").inner_text()
