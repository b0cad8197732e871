"""Records the frames of the demo on a terminal with 80 columns and 24 lines."""

import io
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text
from typing_extensions import override

from devnet.demo.news import FeedEntry
from devnet.demo.screen import Screen
from devnet.demo.snapshot import DemoSnapshot

COLUMNS, LINES = 80, 24
# Approximate number of frames that show news. A demo has some 570 blocks, so most of them are
# skipped.
_MAX_NEWS_FRAMES = 25
# Number of the line, below the title, that shows the phase.
_PHASE_LINE = 1


# The numbers of the terminal colours that the demo uses. Bright variants begin at 8.
_COLOURS = {1: "red", 2: "green", 3: "yellow", 6: "cyan"}
_FIRST_BRIGHT_COLOUR = 8


class StyledText(NamedTuple):
    """Adjacent characters of a line with the same style.

    `column` is the column of the first character.
    """

    column: int
    text: str
    css_classes: str


Frame = tuple[tuple[StyledText, ...], ...]


class RecordedScreen(Screen):
    """A screen that records frames instead of showing them."""

    def __init__(self, *, start: int) -> None:
        super().__init__(create_console(), start=start)
        self._act_frames: list[tuple[int, Frame]] = []
        self._news_frames: list[tuple[int, Frame]] = []
        self._last_frame: Frame = ()
        self._phase = ""

    @override
    def update(self, snapshot: DemoSnapshot, lines: list[FeedEntry], *, head: int) -> None:
        """Record a frame when a new phase begins or when there is news."""
        super().update(snapshot, lines, head=head)
        self._last_frame = render_frame(self.render(snapshot, head))
        phase = "".join(part.text for part in self._last_frame[_PHASE_LINE])
        if phase != self._phase:
            self._act_frames.append((head, self._last_frame))
        elif any(line.tone != "plain" for line in lines):
            self._news_frames.append((head, self._last_frame))
        self._phase = phase

    def list_frames(self) -> list[Frame]:
        """Return the first frame of each phase, some frames with news, and the last frame."""
        step = -(-len(self._news_frames) // _MAX_NEWS_FRAMES) or 1
        frames = sorted(
            (*self._act_frames, *self._news_frames[::step]), key=lambda frame: frame[0]
        )
        return [*(frame for _, frame in frames), self._last_frame]


def create_console() -> Console:
    """Create a console with the size of the recorded terminal."""
    return Console(
        file=io.StringIO(),
        width=COLUMNS,
        height=LINES,
        color_system="standard",
        highlight=False,
        force_terminal=False,
    )


def render_frame(renderable: RenderableType) -> Frame:
    """Render an object as a frame.

    Only the last `LINES` lines are visible.
    """
    lines = create_console().render_lines(renderable, pad=False)
    return tuple(_build_line((part.text, part.style) for part in line) for line in lines[-LINES:])


def render_text_frame(ansi: str) -> Frame:
    """Render the output of a program with ANSI escape codes as a frame."""
    return render_frame(Text.from_ansi(ansi.rstrip()))


def _build_line(segments: Iterable[tuple[str, Style | None]]) -> tuple[StyledText, ...]:
    column, spans = 0, []
    for text, style in segments:
        if text.strip():
            spans.append(StyledText(column, text.rstrip(), _get_css_classes(style)))
        column += cell_len(text)
    return tuple(spans)


def _get_css_classes(style: Style | None) -> str:
    """Return the CSS classes for the colour and attributes of a terminal style."""
    if style is None:
        return ""
    number = None if style.color is None else style.color.number
    colour = "" if number is None else _COLOURS.get(number % _FIRST_BRIGHT_COLOUR, "")
    style_flags = (("bold", style.bold), ("dim", style.dim), ("strike", style.strike))
    return " ".join(
        [*([colour] if colour else []), *(name for name, is_on in style_flags if is_on)]
    )
