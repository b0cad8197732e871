"""Pages check proofs in the browser: true for the server's proof, false for any changed byte."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, Route, ViewportSize

from tests.browser.chromium import axe_findings

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]

ABSENT = "0x" + 40 * "7"
OTHER_ROOT = "0x" + 64 * "5"
_PATIENCE_SECONDS = 120
_LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""
_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"

Proof = dict[str, Any]


@pytest.fixture(params=[("light", 1280), ("dark", 360)], ids=["light-1280", "dark-360"])
def page(browser, url, request) -> Iterator[Page]:
    theme, width = request.param
    context = browser.new_context(
        viewport=ViewportSize(width=width, height=900), color_scheme=theme, base_url=url
    )
    opened = context.new_page()
    opened.add_init_script(_LISTEN)
    yield opened
    context.close()


@pytest.fixture
def desktop(browser, url) -> Iterator[Page]:
    context = browser.new_context(viewport=ViewportSize(width=1280, height=900), base_url=url)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def node(url) -> str:
    rows = requests.get(f"{url}/v1/nodes", timeout=_PATIENCE_SECONDS).json()["nodes"]
    return str(rows[0]["node"])


@pytest.fixture(scope="module")
def proof(url, node) -> Proof:
    """Return the server's proof of the node in the newest round."""
    answer = requests.get(f"{url}/v1/nodes/{node}/proof", timeout=_PATIENCE_SECONDS).json()
    return dict(answer["proof"])


def read_verdict(page: Page, path: str, other_root: str = "") -> str:
    """Open a page, check its proof with the keyboard, and return the verdict."""
    page.goto(path)
    page.get_by_label("Root from another source").fill(other_root)
    page.get_by_label("Root from another source").press("Enter")
    return read_shown_verdict(page)


def read_shown_verdict(page: Page) -> str:
    verdict = page.get_by_role("status").locator("p.card")
    verdict.wait_for()
    return verdict.inner_text()


def answer_with(page: Page, alter: Callable[[Proof], object]) -> None:
    """Let the server return a proof that was changed on its way."""

    def alter_response(route: Route) -> None:
        response = route.fetch()
        answer = response.json()
        alter(answer["proof"])
        route.fulfill(response=response, body=json.dumps(answer))

    page.route("**/proof?round=*", alter_response)


def change_last_digit(text: str) -> str:
    return text[:-1] + ("1" if text[-1] == "0" else "0")


def test_node_proof_is_checked_and_described(page, node, proof):
    console_messages: list[str] = []
    page.on("console", lambda message: console_messages.append(message.text))
    requested: list[str] = []
    page.goto(f"/nodes/{node}")
    page.on("request", lambda request: requested.append(request.url))
    page.get_by_role("button", name="Check this proof in the browser").click()

    assert read_shown_verdict(page).startswith(f"✓ True: the leaf of {node} is in the root")
    assert page.locator("#proof").get_by_text(proof["root"]).count() >= 1
    steps = page.locator("#proof .steps").inner_text()
    assert f"QoS {proof['leaf']['qos'][:6]}" in steps
    assert "▲" not in steps
    # Nothing but the proof is fetched, except that a browser may load the icon late.
    fetched = [address for address in requested if "/static/" not in address]
    path = f"/v1/nodes/{node}/proof?round={proof['summary']['round']}"
    assert fetched == [page.url.partition("/nodes/")[0] + path]
    assert console_messages == []
    assert page.evaluate("window.violations") == []
    assert not page.evaluate(_TOO_WIDE)
    assert axe_findings(page) == []


def test_absence_proof_is_checked_and_described(page):
    verdict = read_verdict(page, f"/nodes/{ABSENT}")
    assert f"✓ True: {ABSENT} has no leaf in round" in verdict
    assert f"{ABSENT} lies between 0x" in page.locator("#proof .steps").inner_text()
    assert not page.evaluate(_TOO_WIDE)
    assert axe_findings(page) == []


def test_round_page_proves_summary_and_links_to_node_proofs(page, proof):
    summary = proof["summary"]
    verdict = read_verdict(page, f"/rounds/{summary['round']}")
    assert verdict.startswith("✓ True: the summary is in the root")
    names = ("node_count", "open_count", "total_weight")
    values = [f"{int(summary[name]):,}" for name in names]
    assert page.locator("#proof .steps dd").all_inner_texts() == values
    # The page shows them before it checks them.
    assert page.locator("#proof > dl dd").all_inner_texts()[-len(names) :] == values
    assert axe_findings(page) == []

    page.get_by_role("link", name="check the proof of").first.click()
    page.wait_for_url(f"**/nodes/0x*?round={summary['round']}#proof")
    page.get_by_role("button", name="Check this proof").click()
    assert "✓ True" in read_shown_verdict(page)


def test_proof_is_compared_with_the_entered_root(desktop, node, proof):
    equal = read_verdict(desktop, f"/nodes/{node}", f"  {proof['root'].upper()} ")
    assert equal.startswith("✓ True")
    assert "the root that you entered" in equal
    other = read_verdict(desktop, f"/nodes/{node}", OTHER_ROOT)
    assert other.startswith("▲ False")
    assert OTHER_ROOT in desktop.locator("#proof .steps").inner_text()


ALTERATIONS: dict[str, Callable[[Proof], object]] = {
    "leaf-byte": lambda proof: proof["leaf"].update(
        encoded=change_last_digit(proof["leaf"]["encoded"])
    ),
    "stated-score": lambda proof: proof["leaf"].update(qos="1.000000000000000001"),
    "stated-seat": lambda proof: proof["leaf"].update(seat=proof["leaf"]["seat"] + 1),
    "sibling": lambda proof: proof["proof"].__setitem__(0, change_last_digit(proof["proof"][0])),
    "missing-sibling": lambda proof: proof["proof"].pop(0),
    "summary": lambda proof: proof["summary"].update(
        open_count=proof["summary"]["open_count"] + 1
    ),
    "root": lambda proof: proof.update(root=change_last_digit(proof["root"])),
    "absence": lambda proof: proof.update(is_absent=True),
    "other-node": lambda proof: proof.update(address=ABSENT),
    "no-hex": lambda proof: proof["leaf"].update(encoded="0x"),
}


@pytest.mark.parametrize("alter", ALTERATIONS.values(), ids=ALTERATIONS.keys())
def test_tampered_proof_is_reported_as_invalid(desktop, node, alter):
    answer_with(desktop, alter)
    assert read_verdict(desktop, f"/nodes/{node}").startswith("▲ False")
    assert "▲ Wrong:" in desktop.locator("#proof .steps").inner_text()
    # Values that are not proven are not shown as those of the round.
    assert desktop.locator("#proof .steps dl").count() == 0


def test_proof_for_another_root_is_reported_as_invalid(desktop, node):
    desktop.goto(f"/nodes/{node}")
    desktop.locator("form.proof").evaluate(
        "(form, root) => { form.dataset.root = root; }", OTHER_ROOT
    )
    desktop.get_by_role("button", name="Check this proof").click()
    assert read_shown_verdict(desktop).startswith("▲ False")


def test_proof_of_another_round_is_reported_as_invalid(desktop, node, proof):
    """A server that returns an older, better round is detected."""
    older = proof["summary"]["round"] - 1
    desktop.route(
        "**/proof?round=*",
        lambda route: route.fulfill(
            response=route.fetch(url=route.request.url.partition("?")[0] + f"?round={older}")
        ),
    )
    assert read_verdict(desktop, f"/nodes/{node}").startswith("▲ False")
    assert "round, as_of" in desktop.locator("#proof .steps").inner_text()


def test_failed_proof_request_shows_the_reason(desktop, node):
    problem = {"title": "Service Unavailable", "status": 503, "detail": "another proof is made"}
    desktop.route("**/proof?round=*", lambda route: route.fulfill(status=503, json=problem))
    desktop.goto(f"/nodes/{node}")
    button = desktop.get_by_role("button", name="Check this proof")
    button.click()
    reason = desktop.get_by_text("The proof could not be fetched: another proof is made")
    reason.wait_for()
    assert button.is_enabled()
