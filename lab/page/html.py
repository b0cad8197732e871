"""Elements of HTML and SVG as text, foreign text escaped, and the geometry of an axis."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.text.text_tables import foreign, in_utc

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


def fraction(units: int | None, digits: int = 4) -> str:
    """Write units of 10^-18 for people, cut to so many digits; a dash for nothing."""
    if units is None:
        return NOTHING
    sign = "-" if units < 0 else ""
    whole, part = divmod(abs(units), UNIT)
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


# Colours that people tell apart whatever their eyes, on white and on near black.
_BY_DAY = (
    "#0072b2", "#d55e00", "#009e73", "#b0508a", "#9a7400", "#3a9bd9", "#6a4fb3", "#8c564b",
)  # fmt: skip
_BY_NIGHT = (
    "#5db4ff", "#ff9552", "#38d1a4", "#f29ccb", "#e6c34a", "#a4dcff", "#bda4ff", "#d3a894",
)  # fmt: skip
# Systems that plots show; tables show them all.
PLOTTED = len(_BY_DAY)


def _colours(palette: tuple[str, ...]) -> str:
    return "".join(f"--s{place}:{colour};" for place, colour in enumerate(palette))


_CLASSES = "".join(
    f".f{n}{{fill:var(--s{n})}}.l{n}{{stroke:var(--s{n})}}.b{n}{{background:var(--s{n})}}"
    for n in range(PLOTTED)
)

STYLE = f"""
:root{{color-scheme:light dark;--page:#fff;--ink:#1c2126;--soft:#5d6773;--rule:#dfe4e9;
--panel:#f6f8fa;--bar:#c3cbd3;{_colours(_BY_DAY)}}}
@media (prefers-color-scheme:dark){{:root{{--page:#14181c;--ink:#e6eaee;--soft:#98a3ae;
--rule:#2d353d;--panel:#1b2126;--bar:#4a545e;{_colours(_BY_NIGHT)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:1080px;padding:2rem 1.25rem 4rem;background:var(--page);
color:var(--ink);font:15px/1.5 system-ui,sans-serif}}
h1{{font-size:1.7rem;margin:0 0 .25rem}}
h2{{font-size:1.2rem;margin:2.75rem 0 .35rem;padding-top:.9rem;border-top:1px solid var(--rule)}}
h3{{font-size:1rem;margin:1.5rem 0 .25rem}}
p{{margin:.3rem 0 .8rem;max-width:50rem}}
.soft{{color:var(--soft)}}
code,td.number,.mono{{font-family:ui-monospace,monospace;font-size:.86em}}
details{{margin:.3rem 0}}
summary{{cursor:pointer;color:var(--soft)}}
.wide{{overflow-x:auto;margin:.5rem 0 1rem}}
table{{border-collapse:collapse;font-size:.92em}}
th,td{{padding:.28rem .8rem .28rem 0;text-align:left;vertical-align:baseline;
border-bottom:1px solid var(--rule)}}
th{{color:var(--soft);font-weight:600;white-space:nowrap}}
td{{overflow-wrap:break-word;max-width:24rem}}
.number{{text-align:right;white-space:nowrap}}
svg{{display:block;width:100%;height:auto;margin:.25rem 0 .5rem}}
.label{{fill:var(--soft);font:11px system-ui,sans-serif}}
.name{{fill:var(--ink);font:11px ui-monospace,monospace}}
.grid{{stroke:var(--rule);stroke-width:1}}
.even{{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 4}}
.panel{{fill:var(--panel)}}
.actual{{fill:var(--bar)}}
.taken{{fill:none;stroke:var(--soft);stroke-width:2;stroke-dasharray:6 3}}
.curve{{fill:none;stroke-width:2;stroke-linejoin:round}}
.mark{{stroke:var(--page);stroke-width:1}}
.due{{fill:var(--page);stroke-width:2}}
.legend{{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:.4rem 0;font-size:.9em}}
.legend span{{display:inline-flex;align-items:center;gap:.4rem}}
.legend i{{width:.85em;height:.85em;border-radius:2px;display:inline-block}}
.legend i.actual{{background:var(--bar)}}
{_CLASSES}
"""
