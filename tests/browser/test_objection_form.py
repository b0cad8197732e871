"""The form on the page of a node: a wallet signs an objection, and the reporter stores it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from playwright.sync_api import Browser, Page, ViewportSize

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.domain.reports.kickout_policy import ObjectionTerms
from tests.browser.chromium import axe_findings
from tests.support.api import IndexedHistory
from tests.support.rounds import make_address
from tests.support.txmgr.stores import new_sqlite_store
from tests.unit.queries.api.test_posted_objections import KEY, indexed

__all__ = ["indexed", "new_sqlite_store"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# A wallet as seen by a page (EIP-1193); the key stays outside of the page.
WALLET = """
window.ethereum = {
  request: ({ method, params }) => window.askWallet(method, JSON.stringify(params ?? [])),
};
"""
_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def ask_wallet(method: str, params: str, account: str = KEY.address) -> Any:
    """Answer like a wallet with the key of the node."""
    if method == "eth_requestAccounts":
        return [account]
    assert method == "eth_signTypedData_v4"
    signer, typed_data = json.loads(params)
    assert signer == account
    message = encode_typed_data(full_message=json.loads(typed_data))
    return "0x" + Account.sign_message(message, bytes(31) + b"\x01").signature.hex()


@pytest.fixture
def url(browser: Browser, indexed: IndexedHistory) -> Iterator[str]:
    archive = replace(indexed.source.archive, objection_terms=ObjectionTerms(7200, 21_600, 0))
    source = replace(indexed.source, archive=archive)
    section = ApiSection()
    with serve_app(create_read_api(source, streams=section), section, 0) as address:
        yield address


@pytest.fixture(params=[("light", 1280), ("dark", 360)], ids=["light-1280", "dark-360"])
def page(browser: Browser, url: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    theme, width = request.param
    viewport = ViewportSize(width=width, height=900)
    context = browser.new_context(viewport=viewport, color_scheme=theme, base_url=url)
    yield context.new_page()
    context.close()


def open_with_wallet(page: Page, account: str = KEY.address) -> None:
    page.expose_function("askWallet", lambda method, params: ask_wallet(method, params, account))
    page.add_init_script(WALLET)
    page.goto(f"/nodes/{KEY.address}")


def sign_and_send(page: Page, words: str) -> str:
    """Fill the form, press its button, and return the verdict."""
    page.get_by_label("Reason").select_option("The application's fault")
    page.get_by_label("What happened").fill(words)
    page.get_by_role("button", name="Sign in your wallet").click()
    verdict = page.locator("#objections .verdict p.card")
    verdict.wait_for()
    return verdict.inner_text()


def test_objection_signed_by_wallet_is_stored_as_entered(page, indexed):
    console_messages: list[str] = []
    page.on("console", lambda message: console_messages.append(message.text))
    open_with_wallet(page)
    assert axe_findings(page) == []
    assert not page.evaluate(_TOO_WIDE)
    assert sign_and_send(page, "all ünswers hung").startswith("✓ Accepted: this reporter")
    with indexed.store.read_transaction() as uow:
        (posted,) = uow.objection_inbox.list_for_node(KEY.address)
    assert (posted.text, posted.reason, posted.seq) == ("all ünswers hung", 2, 0)
    assert axe_findings(page) == []
    assert console_messages == []


def test_rejected_objection_shows_its_calldata(page, indexed):
    open_with_wallet(page)
    settings = indexed.source.objection_intake.settings
    object.__setattr__(settings, "daily_gas", 0)
    assert "▲ Refused: this reporter pays for no more" in sign_and_send(page, "x")
    assert KEY.address[2:] in page.locator("#objections .verdict code").inner_text()
    assert not page.evaluate(_TOO_WIDE)


def test_wallet_of_another_account_signs_nothing(page):
    open_with_wallet(page, make_address(7))
    assert "has not offered the account of the node" in sign_and_send(page, "x")


def test_objection_form_is_hidden_without_wallet(page):
    page.goto(f"/nodes/{KEY.address}")
    assert not page.get_by_label("What happened").is_visible()
    assert page.get_by_text("No wallet was found in this browser").is_visible()
