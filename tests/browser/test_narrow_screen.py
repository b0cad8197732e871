"""On a phone of 360 pixels, a node's score and all pages of the navigation are visible."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]

_WIDTH = 360


@pytest.mark.parametrize("path", ["/", "/nodes"])
def test_score_column_and_navigation_fit_a_narrow_screen(browser, url, path):
    context = browser.new_context(viewport={"width": _WIDTH, "height": 800})
    page = context.new_page()
    page.goto(url + path, wait_until="load")
    links = page.locator("header nav a:visible").all()
    scores = page.locator("td.score").all()
    assert len(links) >= 7
    assert scores
    for element in (*links, *scores):
        box = element.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= _WIDTH
    page.screenshot(path=f"build/screens/narrow-{path.strip('/') or 'network'}.png")
    context.close()
