"""A page shows the age of its data by the reader's clock, and which deadlines have passed."""

from datetime import datetime, timedelta

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(minutes=9), ""),
        (timedelta(minutes=11), "(11 minutes ago)"),
        (timedelta(hours=26), "(1 day ago)"),
    ],
)
def test_outdated_data_is_shown_with_its_age(browser, url, age, text):
    context = browser.new_context()
    page = context.new_page()
    page.goto(url, wait_until="load")
    block_time = datetime.fromisoformat(page.locator("[data-age-of]").get_attribute("data-age-of"))
    page.clock.set_fixed_time(block_time + age)
    page.goto(url, wait_until="load")
    assert page.locator("[data-age-of]").inner_text().strip() == text
    context.close()


def test_past_deadline_is_shown_as_expired(browser, url):
    context = browser.new_context()
    page = context.new_page()
    page.goto(url, wait_until="load")
    page.evaluate(
        """() => {
          for (const seconds of [-60, 60]) {
            const element = document.createElement("span");
            element.dataset.until = new Date(Date.now() + 1000 * seconds).toISOString();
            element.textContent = "(in a minute)";
            document.body.append(element);
          }
          document.dispatchEvent(new Event("htmx:after:swap"));
        }"""
    )
    deadlines = page.locator("body > span[data-until]")
    assert [text.strip() for text in deadlines.all_inner_texts()] == ["(passed)", "(in a minute)"]
    context.close()
