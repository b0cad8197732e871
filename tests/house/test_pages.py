"""Pages are short, and what they lead to is there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 15 * 1024
PAGES = sorted((ROOT / "docs").rglob("*.md"))
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "contracts/README.md", *PAGES]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_is_too_long_to_be_read_at_a_sitting(page: Path):
    assert page.stat().st_size <= MOST_BYTES


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    lost = [link for link in links(page) if not leads_somewhere(page, link)]
    assert lost == []


@cache
def links(page: Path) -> list[str]:
    """Return the links of a page to places of this repository."""
    text = _CODE.sub("", page.read_text("utf-8"))
    return [link for link in _LINK.findall(text) if "://" not in link]


@cache
def led_to(page: Path) -> frozenset[Path]:
    """Return the pages and folders that a page leads to."""
    return frozenset((page.parent / link.partition("#")[0]).resolve() for link in links(page))


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.exists():
        return False
    return not anchor or anchor in anchors(there.read_text("utf-8"))


def anchors(text: str) -> set[str]:
    """Return what a link can lead to inside of a page: its headings, and anchors by hand."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_is_led_to_by_itself_or_with_its_folder(page: Path):
    others = {there for other in WRITTEN if other != page for there in led_to(other)}
    assert page in others or page.parent in others
