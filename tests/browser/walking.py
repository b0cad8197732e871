"""Follows the links of all pages, and records the faults of each page."""

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import requests
from playwright.sync_api import Browser, Page

from oracle.daemon.web.pages.chain_pages import PAGES
from tests.browser.chromium import axe_findings

SCREENS = Path(__file__).resolve().parents[2] / "build" / "screens"
_PATIENCE_SECONDS = 120
# One entry for pages that differ only in numbers.
_MOST_OF_A_KIND = 2
_HEIGHT = 900
_NOT_THERE = "/nothing"
# A redirect, and a document for feed readers.
NO_PAGES = frozenset({"/search", "/nodes/{address}/feed.atom"})
# Runs before the page's own scripts.
_LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""
_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
# The `href` of a link in an SVG is not a string.
_LINKS = """Array.from(document.querySelectorAll("a[href]"),
  (link) => new URL(link.getAttribute("href"), location).href)"""
# Links to a part of the same page that does not exist.
_LOST_PARTS = """Array.from(document.querySelectorAll('a[href^="#"]'),
  (link) => link.getAttribute("href").slice(1)).filter((id) => !document.getElementById(id))"""


@dataclass(frozen=True, slots=True)
class View:
    """How a page is viewed: its theme, and the width of the window in CSS pixels."""

    theme: Literal["light", "dark"]
    width: int

    def __str__(self) -> str:
        return f"{self.theme}-{self.width}"


@dataclass(frozen=True, slots=True)
class Walk:
    """The result: the visited paths of `PAGES`, and the faults."""

    kinds: frozenset[str]
    faults: list[str]


def walk_pages(browser: Browser, url: str, view: View) -> Walk:
    """Visit every kind of page; keep a screenshot of each below build/screens/."""
    context = browser.new_context(
        viewport={"width": view.width, "height": _HEIGHT}, color_scheme=view.theme
    )
    kinds = set()
    faults = []
    try:
        page = context.new_page()
        page.add_init_script(_LISTEN)
        console_messages: list[str] = []
        page.on("console", lambda message: console_messages.append(message.text))
        page.on("pageerror", lambda error: console_messages.append(str(error)))
        for kind, path in _paths(page, url):
            kinds.add(kind)
            faults += [
                f"{view} {path}: {fault}" for fault in _find_faults(page, path, console_messages)
            ]
            console_messages.clear()
            page.screenshot(path=_build_picture_path(view, path), full_page=True)
    finally:
        context.close()
    return Walk(frozenset(kinds), faults)


def _paths(page: Page, url: str) -> Iterator[tuple[str, str]]:
    """Follow the links of pages; visit a limited number of each kind."""
    always = [*_list_start_paths(url), _NOT_THERE]
    ahead = deque(always)
    visited = set[str]()
    visit_counts: Counter[tuple[str, frozenset[str]] | None] = Counter()
    while ahead:
        path = ahead.popleft()
        kind = _classify_path(path)
        is_enough = visit_counts[kind] >= _MOST_OF_A_KIND and path not in always
        if kind is None or path in visited or is_enough:
            continue
        visited.add(path)
        visit_counts[kind] += 1
        page.goto(url + path, wait_until="load")
        yield kind[0], path
        links = [link.partition("#")[0] for link in page.evaluate(_LINKS)]
        ahead += [link.removeprefix(url) for link in links if link.startswith(url)]


def _list_start_paths(url: str) -> list[str]:
    """Return the front page, and the page of one node in each existing state."""
    rows = requests.get(f"{url}/v1/nodes", timeout=_PATIENCE_SECONDS).json()["nodes"]
    return ["/", *{row["state"]: f"/nodes/{row['node']}" for row in rows}.values()]


def _classify_path(path: str) -> tuple[str, frozenset[str]] | None:
    """Return the matching path of `PAGES` and the names of the query, or None."""
    parts = urlsplit(path)
    if path == _NOT_THERE:
        return path, frozenset()
    for pattern in PAGES:
        if pattern not in NO_PAGES and re.fullmatch(
            re.sub(r"\{\w+\}", "[^/]+", pattern), parts.path
        ):
            return pattern, frozenset(dict(parse_qsl(parts.query)))
    return None


def _find_faults(page: Page, path: str, console_messages: list[str]) -> Iterator[str]:
    for text in console_messages:
        if path != _NOT_THERE or "404" not in text:
            yield f"the console: {text}"
    yield from (f"the policy: {finding}" for finding in page.evaluate("window.violations"))
    if page.evaluate(_TOO_WIDE):
        yield "it is wider than the window"
    yield from (f"no part #{part}" for part in page.evaluate(_LOST_PARTS))
    yield from (f"axe: {finding}" for finding in axe_findings(page))


def _build_picture_path(view: View, path: str) -> Path:
    name = re.sub(r"\W+", "-", path).strip("-") or "network"
    return SCREENS / str(view) / f"{name}.png"
