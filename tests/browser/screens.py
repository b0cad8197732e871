"""Takes the screenshots that README and docs show: `make screens`.

A chain is played, the daemon indexes it, Chromium shows it. A digest of everything that
determines the pages is stored with the screenshots; tests/house/pages/test_screens.py compares
it, so that they are never older than the pages.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import requests
from playwright.sync_api import Browser, Page, ViewportSize

from oracle.daemon.web.pages.page_frame import FOLDER
from tests.browser.chromium import browsing
from tests.support.cli.daemon import serve_config
from tests.support.cli.played_chain import build_indexed_chain

SCREENS = Path(__file__).resolve().parents[2] / "docs" / "screens"
DIGEST = SCREENS / "pages.sha256"
# By the name of the screenshot: the theme, and the state of the shown node; None: of all nodes.
PICTURES: Mapping[str, tuple[Literal["light", "dark"], str | None]] = {
    "network": ("light", None),
    "node": ("light", "excluded"),
    "kicked-out": ("dark", "kicked_out"),
    "proof": ("light", "selectable"),
}
_SIZE = ViewportSize(width=1000, height=540)
_PATIENCE_SECONDS = 120


def digest() -> str:
    """Return the digest of everything that determines the pages: templates, style sheet,
    charts, checks.
    """
    drawn = [*FOLDER.glob("templates/**/*.html"), *FOLDER.glob("static/*.css")]
    drawn += FOLDER.glob("static/proof*.js")
    drawn += FOLDER.rglob("drawings.py")
    hasher = sha256()
    for path in sorted(drawn):
        name = path.relative_to(FOLDER).as_posix()
        hasher.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()


def take(browser: Browser, url: str) -> None:
    """Take every screenshot."""
    rows = requests.get(f"{url}/v1/nodes", timeout=_PATIENCE_SECONDS).json()["nodes"]
    nodes = {row["state"]: row["node"] for row in rows}
    SCREENS.mkdir(exist_ok=True)
    for name, (theme, state) in PICTURES.items():
        context = browser.new_context(viewport=_SIZE, color_scheme=theme)
        page = context.new_page()
        page.goto(url if state is None else f"{url}/nodes/{nodes[state]}")
        if name == "proof":
            _check_proof(page)
        page.screenshot(path=SCREENS / f"{name}.png")
        context.close()
    DIGEST.write_text(digest() + "\n", "utf-8")


def _check_proof(page: Page) -> None:
    """Let the browser check the proof of a node's page, and scroll to the result."""
    page.get_by_role("button", name="Check this proof").click()
    page.get_by_role("status").locator("p.card").wait_for()
    page.locator("#proof").evaluate("section => section.scrollIntoView()")


def main() -> None:
    """Play, serve, and take the screenshots."""
    with TemporaryDirectory() as folder, browsing() as browser:
        config = build_indexed_chain(Path(folder))
        with serve_config(config, Path(folder) / "serve.log") as url:
            take(browser, url)


if __name__ == "__main__":
    main()
