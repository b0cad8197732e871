"""Elements of HTML and SVG as text, foreign text escaped, and the geometry of an axis."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.text_tables import foreign, in_utc

# Where there is no number.
NOTHING = "-"
_SHOWN_ENDS = 6
# Times of less than so many seconds are told with their seconds.
_LONG = 3 * 3600
_DAY = 86_400


def tag(name: str, *inside: str, **attributes: object) -> str:
    """Return an element; `inside` is markup already, attributes are escaped here.

    `class_` is written `class`, and an underscore elsewhere as a hyphen.
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{said}>{''.join(inside)}</{name}>"


def text(words: str) -> str:
    """Return what somebody else wrote as markup that shows it and does nothing."""
    return escape(foreign(words, longest=200))


def _number(value: object) -> str:
    """Write coordinates with one digit, for they are of pixels."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def short(node: Address) -> str:
    """Return an address as plots label it."""
    return f"{node[: 2 + _SHOWN_ENDS]}…{node[-4:]}"


def fraction(uows: int | None, digits: int = 4) -> str:
    """Write units of 10^-18 for people, cut to so many digits; a dash for nothing."""
    if uows is None:
        return NOTHING
    sign = "-" if uows < 0 else ""
    whole, part = divmod(abs(uows), UNIT)
    return f"{sign}{whole}.{part:018d}"[: len(sign) + len(str(whole)) + 1 + digits]


def moment(seconds: int, span: int = _DAY) -> str:
    """Write a block time for people, in UTC; `span` tells how much of it matters."""
    form = "%m-%d %H:%M:%S" if span < _LONG else "%m-%d %H:%M" if span < 30 * _DAY else "%Y-%m-%d"
    return in_utc(seconds, form)


def whole_moment(seconds: int) -> str:
    """Write a block time for people, in UTC and to the second."""
    return in_utc(seconds, "%Y-%m-%d %H:%M:%S")


def lasting(seconds: int) -> str:
    """Write a length of time: `2 d 03:04:05`."""
    days, rest = divmod(seconds, _DAY)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days} d {clock}" if days else clock


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values from `low` to `high` to pixels from `start` to `end`."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: int) -> float:
        """Return the pixel of a value; what lies outside stands at the edge."""
        if self.high <= self.low:
            return self.start
        inside = min(max(value, self.low), self.high)
        return self.start + (self.end - self.start) * (inside - self.low) / (self.high - self.low)

    def marks(self, count: int) -> list[int]:
        """Return values evenly over the axis, both ends included."""
        if self.high <= self.low:
            return [self.low]
        return [self.low + (self.high - self.low) * n // count for n in range(count + 1)]


def label(words: str, x: float, y: float, anchor: str = "start", class_: str = "label") -> str:
    """Return a text in a plot; `words` are escaped here."""
    return tag("text", text(words), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> str:
    """Return a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def tip(words: str) -> str:
    """Return what a pointer that rests on an element is told."""
    return tag("title", text(words))


def plot(width: float, height: float, name: str, parts: Iterable[str]) -> str:
    """Return an SVG that is as wide as its place allows, up to its own width."""
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        style=f"max-width:{width:.0f}px",
        role="img",
        aria_label=name,
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> str:
    """Return a table; its cells are markup already, the first `left` columns are of text."""

    def cells(row: Iterable[str], kind: str) -> str:
        return "".join(
            tag(kind, cell, class_="text" if place < left else "number")
            for place, cell in enumerate(row)
        )

    body = "".join(tag("tr", cells(row, "td")) for row in rows)
    whole = tag("thead", tag("tr", cells(head, "th"))) + tag("tbody", body)
    return tag("div", tag("table", whole), class_="wide")
