"""`/verify` in a browser: its headline is green only if the chain confirms what it states."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, ViewportSize

from oracle.daemon.web.pages.verify_page import build_verify_page
from tests.browser.chromium import axe_findings
from tests.integration.daemon.test_objection_checks import STRANGER, build_answered_objection
from tests.support.cli.bundled_network import ReaderEvidence, bundle_first_node
from tests.support.cli.local_network import LocalNetwork, run_local_network

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]

_PATIENCE_SECONDS = 120
_LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""
_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
_CONSISTENT = "consistent with itself, but not yet checked against the chain"
_PARTIAL = "has this leaf, and nothing contradicts it. Still open: All events."
_CONFIRMED = "✓ Confirmed: the contract that you entered has this leaf"


@pytest.fixture(scope="module")
def bundle(url) -> dict[str, Any]:
    """Return the bundle of the kicked out node, in the newest round that states its kickout."""
    rows = requests.get(f"{url}/v1/nodes", timeout=_PATIENCE_SECONDS).json()["nodes"]
    node = next(row["node"] for row in rows if row["state"] == "kicked_out")
    newest = requests.get(f"{url}/v1/rounds", timeout=_PATIENCE_SECONDS).json()["rounds"][0]
    for number in range(newest["round"], 0, -1):
        path = f"{url}/v1/nodes/{node}/bundle?round={number}"
        answer = requests.get(path, timeout=_PATIENCE_SECONDS).json()
        loaded: dict[str, Any] = answer["bundle"]
        if loaded["evidence"] is not None:
            return loaded
    raise AssertionError("no round states the kickout")


@pytest.fixture(params=[("light", 360), ("dark", 1440)], ids=["light-360", "dark-1440"])
def page(browser, request) -> Iterator[Page]:
    theme, width = request.param
    context = browser.new_context(
        viewport=ViewportSize(width=width, height=900), color_scheme=theme
    )
    opened = context.new_page()
    opened.add_init_script(_LISTEN)
    yield opened
    context.close()


def read_headline(page: Page) -> str:
    page.get_by_role("button", name="Check").click()
    headline = page.locator("#verdict p.card")
    headline.wait_for(timeout=1000 * _PATIENCE_SECONDS)
    return headline.inner_text()


def read_results(page: Page) -> dict[str, str]:
    """Return the sign of each check by its name."""
    items = page.locator(".checks li").all()
    return {item.locator("b").inner_text(): item.locator("span").inner_text() for item in items}


def test_verify_page_reports_the_served_bundle_as_consistent(page, url, bundle):
    messages: list[str] = []
    requested: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    query = f"node={bundle['node']}&round={bundle['signed_round']['round']}"
    page.goto(f"{url}/verify?{query}")
    assert not page.evaluate(_TOO_WIDE)
    assert axe_findings(page) == []

    # The pages of an oracle have no endpoint and no contract that the reader entered.
    assert _CONSISTENT in read_headline(page)
    assert "card calm" not in page.locator("#verdict").inner_html()
    results = read_results(page)
    assert {name for name, sign in results.items() if sign != "✓"} == {
        "All events", "Endpoint", "Network contracts", "Oracle contract",
    }  # fmt: skip
    assert {"Rules", "Signatures", "Proof", "Events", "Evidence", "Held"} < set(results)
    bundle_path = f"/v1/nodes/{bundle['node']}/bundle?round={bundle['signed_round']['round']}"
    expected = [f"{url}/verify?{query}", url + bundle_path]
    assert [path for path in requested if not path.endswith("favicon.ico")] == expected
    assert messages == []
    assert page.evaluate("window.violations") == []
    assert not page.evaluate(_TOO_WIDE)
    assert axe_findings(page) == []


def test_bundle_of_another_node_or_round_is_rejected(browser, url, bundle):
    page = browser.new_page()
    older = bundle["signed_round"]["round"] - 1
    page.route(
        "**/bundle?round=*",
        lambda route: route.fulfill(
            response=route.fetch(
                url=route.request.url.partition("?")[0] + f"?round={older}",
                timeout=1000 * _PATIENCE_SECONDS,
            )
        ),
    )
    page.goto(f"{url}/verify?node={bundle['node']}&round={bundle['signed_round']['round']}")
    assert "belongs to another node or round than you entered" in read_headline(page)
    page.close()


@pytest.fixture
def saved_page(browser, tmp_path: Path) -> Iterator[Page]:
    """Open the saved page in a browser without a network."""
    path = tmp_path / "verify.html"
    path.write_text(build_verify_page(), "utf-8")
    context = browser.new_context(offline=True)
    opened = context.new_page()
    opened.add_init_script(_LISTEN)
    opened.goto(path.as_uri())
    yield opened
    context.close()


def choose_bundle(page: Page, folder: Path, bundle: dict[str, Any]) -> None:
    path = folder / "bundle.json"
    path.write_text(json.dumps(bundle), "utf-8")
    page.locator("#files").set_input_files(path)


def test_saved_page_verifies_a_bundle_file_offline(saved_page, tmp_path, bundle):
    choose_bundle(saved_page, tmp_path, bundle)
    assert _CONSISTENT in read_headline(saved_page)
    # With a file alone, no request at all is allowed.
    blocked = "fetch('https://example.org/').then(() => 'sent', () => 'refused')"
    assert saved_page.evaluate(blocked) == "refused"
    assert saved_page.evaluate("window.violations") == ["connect-src: https://example.org/"]


def test_address_checksum_is_checked_only_in_mixed_case(saved_page, tmp_path, bundle):
    contract = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    choose_bundle(saved_page, tmp_path, bundle)

    def check_contract(text: str) -> str:
        saved_page.get_by_label("Oracle contract").fill(text)
        return read_headline(saved_page)

    for text in (contract, contract.lower(), "0x" + contract[2:].upper()):
        assert "checksum" not in check_contract(text)
    assert "wrong checksum" in check_contract(contract.replace("5aAeb", "5aaeb"))


def test_forged_score_is_reported(saved_page, tmp_path, bundle):
    evidence = json.loads(bundle["evidence"])
    evidence["entries"][0]["score"] += 1
    forged = {**bundle, "evidence": json.dumps(evidence, sort_keys=True, indent=1) + "\n"}
    choose_bundle(saved_page, tmp_path, forged)
    assert read_headline(saved_page).startswith("✗ ")
    wrong = {name for name, sign in read_results(saved_page).items() if sign == "✗"}
    assert wrong == {"Points", "Events", "Evidence"}


def test_forged_objection_answer_is_reported(saved_page, tmp_path, bundle):
    """The file states that a reporter answered, but another key signed the answer."""
    forged = build_answered_objection(answered_by=STRANGER)
    forged["answer"]["signer"] = bundle["signed_round"]["configuration"]["signers"][0]
    due_since = bundle["proof"]["leaf"]["kickout_due_since"]
    forged |= {"node": bundle["node"], "due_since": due_since, "signature": None}
    choose_bundle(saved_page, tmp_path, {**bundle, "objections": [forged]})
    assert "Answer to objection 0" in read_headline(saved_page)
    results = read_results(saved_page)
    assert (results["Objection 0"], results["Answer to objection 0"]) == ("○", "✗")
    assert [name for name, sign in results.items() if sign == "✗"] == ["Answer to objection 0"]


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Iterator[LocalNetwork]:
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def evidence(browser, network, tmp_path_factory) -> ReaderEvidence:
    return bundle_first_node(network, tmp_path_factory.mktemp("bundled"))


@pytest.fixture
def anchored_page(page: Page, network, evidence, tmp_path) -> Page:
    """Open the saved page with everything that a reader enters, in light and dark."""
    path = tmp_path / "verify.html"
    path.write_text(build_verify_page(), "utf-8")
    page.goto(path.as_uri())
    page.get_by_label("Oracle contract").fill(evidence.anchor["contract"])
    page.get_by_label("Chain id").fill(str(evidence.anchor["chain_id"]))
    page.get_by_label("Contracts of the network").fill(evidence.anchor["network_contracts"][0])
    page.get_by_label("RPC endpoints").fill(network.url)
    return page


def choose_evidence(page: Page, folder: Path, evidence: ReaderEvidence) -> None:
    """Choose the bundle, and all events if there are any."""
    bundle = folder / "bundle.json"
    events = folder / "events.jsonl"
    bundle.write_text(json.dumps(evidence.bundle), "utf-8")
    events.write_text("\n".join(map(json.dumps, evidence.events or ())), "utf-8")
    files = [bundle] if evidence.events is None else [bundle, events]
    page.locator("#files").set_input_files(files)


def test_headline_is_green_if_every_check_passes(anchored_page, evidence, tmp_path):
    choose_evidence(anchored_page, tmp_path, evidence)
    assert read_headline(anchored_page).startswith(_CONFIRMED)
    assert anchored_page.locator("#verdict p.calm").count() == 1
    assert set(read_results(anchored_page).values()) == {"✓"}
    assert not anchored_page.evaluate(_TOO_WIDE)
    assert axe_findings(anchored_page) == []


def test_headline_is_not_green_if_the_events_are_missing(anchored_page, evidence, tmp_path):
    choose_evidence(anchored_page, tmp_path, replace(evidence, events=None))
    assert _PARTIAL in read_headline(anchored_page)
    assert anchored_page.locator("#verdict p.calm").count() == 0


def test_bundle_of_another_contract_is_reported(anchored_page, evidence, tmp_path):
    """The reader entered the network's contract, but the bundle names another."""
    forged = json.loads(json.dumps(evidence.bundle))
    forged["signed_round"]["contract"] = "0x" + 40 * "5"
    choose_evidence(anchored_page, tmp_path, replace(evidence, bundle=forged))
    assert read_headline(anchored_page).startswith("✗ ")
    assert read_results(anchored_page)["Oracle contract"] == "✗"


def test_round_from_the_link_does_not_count_as_entered_by_the_reader(browser, url, bundle):
    """Only a round that the reader entered may be older than the newest."""
    page = browser.new_page()
    page.goto(f"{url}/verify?node={bundle['node']}&round=1")
    assert page.evaluate("readAnchor().chosen_round") is None
    page.get_by_label("Round").fill("2")
    assert page.evaluate("readAnchor().chosen_round") == 2
    page.get_by_label("Round").fill("1")
    assert page.evaluate("readAnchor().chosen_round") == 1
    page.close()


def test_invalid_bundle_file_is_rejected(saved_page, tmp_path):
    choose_bundle(saved_page, tmp_path, {"score": 1})
    assert "the file is not an evidence bundle" in read_headline(saved_page)
