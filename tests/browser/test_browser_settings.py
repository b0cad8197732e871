"""Settings in the reader's own browser: watched nodes, and the time zone."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]


@pytest.fixture
def page(browser, url):
    context = browser.new_context(base_url=url, timezone_id="Asia/Kolkata")
    yield context.new_page()
    context.close()


def test_watched_node_is_listed_until_it_is_no_longer_watched(page):
    page.goto("/nodes")
    assert not page.locator("#watched").is_visible()
    addresses = [
        str(link.get_attribute("href")).removeprefix("/nodes/")
        for link in page.locator("main td a.hash").all()[:2]
    ]
    for address in addresses:
        page.goto(f"/nodes/{address}")
        page.get_by_role("button", name="Watch").click()
    page.get_by_role("link", name="Watched (2)").click()
    assert page.locator("main td a.hash").count() == 2

    page.goto(f"/nodes/{addresses[0]}")
    page.get_by_role("button", name="Watched").click()
    page.goto("/nodes")
    page.get_by_role("link", name="Watched (1)").click()
    (listed,) = page.locator("main td a.hash").all()
    assert listed.get_attribute("href") == f"/nodes/{addresses[1]}"


def test_time_is_shown_in_the_local_zone_with_utc_in_its_tooltip(page):
    page.goto("/rounds")
    time = page.locator("main time").first
    assert time.inner_text().endswith("GMT+5:30")
    assert str(time.get_attribute("title")).endswith("UTC")
    hour = page.evaluate("text => new Date(text).getUTCHours()", time.get_attribute("datetime"))
    assert f"{hour:02}:" in str(time.get_attribute("title"))
