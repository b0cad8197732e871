"""What every page is: one HTML file that loads nothing, and a legend of the systems in it."""

from collections.abc import Iterable, Sequence
from html import escape

from lab.page.html import STYLE, tag, text

# Nothing is loaded, from nowhere; what is foreign could not act even if it were not escaped.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, body: Iterable[str]) -> str:
    """Return a whole page."""
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title>"
    )
    style = tag("style", STYLE)
    whole = tag("html", tag("head", head, style), tag("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def legend(names: Sequence[str], actual: str | None = None) -> str:
    """Return which colour stands for which system; `actual`: what the grey is."""
    keys = [
        tag("span", tag("i", class_=f"b{number}") + text(name))
        for number, name in enumerate(names)
    ]
    if actual is not None:
        keys.insert(0, tag("span", tag("i", class_="actual") + escape(actual)))
    return tag("div", *keys, class_="legend")
