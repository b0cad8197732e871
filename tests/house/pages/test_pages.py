"""Pages are short, and each is led to; test_citations follows their links."""

import re
from functools import cache
from pathlib import Path

import pytest

from reference.pages import PAGES as REFERENCE_PAGES

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 20 * 1024
ARCHIVE = ROOT / "docs" / "archive"
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if not p.is_relative_to(ARCHIVE))
# Lists to search in, as long as the code makes them.
GENERATED = {ROOT / "docs" / "reference" / f"{name}.md" for name in REFERENCE_PAGES}
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "contracts/README.md", *PAGES]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [p for p in PAGES if p not in GENERATED], ids=name_of)
def test_every_page_is_within_size_limit(page: Path):
    assert page.stat().st_size <= MOST_BYTES


@cache
def links(page: Path) -> list[str]:
    """Return the links of a page to places of this repository."""
    text = _CODE.sub("", page.read_text("utf-8"))
    return [link for link in _LINK.findall(text) if "://" not in link]


@cache
def led_to(page: Path) -> frozenset[Path]:
    """Return the pages and folders that a page leads to."""
    return frozenset((page.parent / link.partition("#")[0]).resolve() for link in links(page))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_is_linked_directly_or_through_its_folder(page: Path):
    linked_pages = {
        there for source_page in WRITTEN if source_page != page for there in led_to(source_page)
    }
    assert page in linked_pages or page.parent in linked_pages
