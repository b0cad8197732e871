"""The API reference is drawn in a browser from this server's schema, without any other host."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]

_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


def test_api_reference_lists_every_operation_offline(browser, url):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(_VIOLATIONS)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{url}/docs", wait_until="load")
    page.get_by_text("/v1/nodes/{node}/explain").first.wait_for(state="attached")
    schema = page.evaluate("fetch('/v1/openapi.json').then((answer) => answer.json())")
    text = page.content()
    assert [path for path in schema["paths"] if path not in text] == []
    own = {address for address in requested if address.startswith((url, "data:", "blob:"))}
    assert set(requested) - own <= {"https://cdn.redoc.ly/redoc/logo-mini.svg"}
    # The policy blocks the logo that Redoc would load from its vendor.
    assert {entry.partition(":")[0] for entry in page.evaluate("window.violations")} <= {"img-src"}
    page.screenshot(path="build/screens/api-reference.png")
    context.close()
