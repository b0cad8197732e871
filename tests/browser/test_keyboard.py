"""Pages without a mouse and without scripts: everything can be reached, and nothing is missing."""

import pytest
from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]

# More than any page has before its content.
MOST_STEPS = 40
FOCUSED = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return {
    name: element.getAttribute("aria-label") || element.textContent.trim() || element.name,
    inMain: element.closest("main") !== null,
    isSeen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
  };
}"""


@pytest.fixture
def page(browser, url):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=url)
    yield context.new_page()
    context.close()


def steps_to_content(page: Page) -> list[dict[str, object]]:
    """Return the focused elements up to the first one in the content."""
    focused_elements: list[dict[str, object]] = []
    while len(focused_elements) < MOST_STEPS and not (
        focused_elements and focused_elements[-1]["inMain"]
    ):
        page.keyboard.press("Tab")
        focused_elements.append(page.evaluate(FOCUSED))
    return focused_elements


@pytest.mark.parametrize("path", ["/", "/nodes", "/rounds", "/kickouts"])
def test_tab_key_reaches_every_control_with_visible_focus(page, path):
    page.goto(path)
    focused_elements = steps_to_content(page)
    names = [str(element["name"]) for element in focused_elements]
    assert names[:3] == ["Skip to content", "QoS oracle", "Network"]
    assert {"Nodes", "Rounds", "Kickouts", "Draws", "Health", "Rules", "Find"} <= set(names)
    assert any(name.startswith("Colours: auto") for name in names)
    assert focused_elements[-1]["inMain"]
    assert [element["name"] for element in focused_elements if not element["isSeen"]] == []


def test_skip_link_jumps_past_the_navigation(page):
    page.goto("/nodes")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)["inMain"]


def test_node_page_can_be_opened_by_keyboard_search(page):
    page.goto("/nodes")
    address = page.locator("main td a.hash").first.get_attribute("href")
    page.keyboard.press("/")
    page.keyboard.type(str(address).removeprefix("/nodes/"))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{address}")


def test_chosen_color_scheme_persists_on_next_page(page):
    page.goto("/")
    for _ in range(2):
        page.get_by_role("button", name="Colours").press("Enter")
    page.goto("/nodes")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_pages_show_same_content_without_scripts(browser, url, page):
    context = browser.new_context(java_script_enabled=False, base_url=url)
    plain = context.new_page()
    for path in ("/", "/nodes", "/rounds", "/kickouts", "/draws", "/health", "/rules"):
        page.goto(path)
        plain.goto(path)
        # Except for the live sign and the copy buttons.
        expected_text = (
            page.locator("main").inner_text().replace(" ● live", "").replace(" Copy", "")
        )
        assert plain.locator("main").inner_text() == expected_text, path
    context.close()


def test_opening_the_score_chart_logs_no_console_message(page):
    console_messages: list[str] = []
    page.on("console", lambda message: console_messages.append(message.text))
    page.goto("/nodes")
    page.locator("main td a.hash").first.click()
    page.locator("#show-chart").click()
    page.locator("#score-history canvas").wait_for()
    assert console_messages == []
