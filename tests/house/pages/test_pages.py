"""Pages are short, and each is linked; test_citations checks the links."""

import re
from functools import cache
from pathlib import Path

from reference.pages import PAGES as REFERENCE_PAGES

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 20 * 1024
ARCHIVE = ROOT / "docs" / "archive"
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if not p.is_relative_to(ARCHIVE))
# Generated lists for searching, which are as long as the code makes them.
GENERATED = {ROOT / "docs" / "reference" / f"{name}.md" for name in REFERENCE_PAGES}
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "contracts/README.md", *PAGES]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_page_is_within_the_size_limit():
    long_pages = [page for page in PAGES if page.stat().st_size > MOST_BYTES]
    assert [name_of(page) for page in long_pages if page not in GENERATED] == []


@cache
def links(page: Path) -> list[str]:
    """Return the links of a page to files of this repository."""
    text = _CODE.sub("", page.read_text("utf-8"))
    return [link for link in _LINK.findall(text) if "://" not in link]


@cache
def led_to(page: Path) -> frozenset[Path]:
    """Return the pages and folders to which a page links."""
    return frozenset((page.parent / link.partition("#")[0]).resolve() for link in links(page))


def test_every_page_is_linked_directly_or_through_its_folder():
    lonely = [
        name_of(page)
        for page in PAGES
        if not any({page, page.parent} & led_to(source) for source in WRITTEN if source != page)
    ]
    assert lonely == []
