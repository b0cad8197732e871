"""The navigation of the documentation site contains each page of docs/ once."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
# docs/archive is excluded from the site (`exclude_docs` in mkdocs.yml).
PAGES = {
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if not path.is_relative_to(DOCS / "archive")
}
# A page, or a folder that represents all of its pages (ops/docs/site_navigation.py).
ENTRY = re.compile(r"^ +- (?:.+: )?([\w./-]+(?:\.md|/))$", re.MULTILINE)
# Pages that the build adds (ops/docs/site_links.py).
ADDED = "repository/"


def navigation_entries() -> list[str]:
    """Return the pages and folders of `nav:`, in order."""
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    return ENTRY.findall(navigation)


def listed_pages() -> list[str]:
    """Return each page that the navigation lists, its folders expanded."""
    pages: list[str] = []
    for entry in navigation_entries():
        folder = (DOCS / entry).glob("*.md") if entry.endswith("/") else [DOCS / entry]
        pages += [path.relative_to(DOCS).as_posix() for path in folder]
    return pages


def test_navigation_lists_each_page_once():
    count_by_page = Counter(page for page in listed_pages() if not page.startswith(ADDED))

    assert set(count_by_page) == PAGES
    assert {page for page, count in count_by_page.items() if count > 1} == set()


def test_added_navigation_pages_have_source_files():
    added = [entry for entry in navigation_entries() if entry.startswith(ADDED)]

    assert len(added) > 2
    assert [entry for entry in added if not (ROOT / entry.partition("/")[2]).is_file()] == []
