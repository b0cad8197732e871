"""The picture: a live table of nodes and a feed of events; plain lines where no terminal is."""

from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from oracle.demo.news import Line
from oracle.demo.sight import Row, Sight

_FEED_LINES = 12
_STYLES = {"good": "green", "bad": "red", "plain": "dim", "big": "bold yellow"}
_BAR = 10


class Screen:
    """Shows sights and news on stderr, so that stdout is left to the summary."""

    def __init__(self, console: Console, *, start: int) -> None:
        self._console = console
        self._start = start
        self._feed: deque[Text] = deque(maxlen=_FEED_LINES)
        self._live = (
            Live(console=console, auto_refresh=False, transient=False, redirect_stderr=False)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the last picture standing; what follows is printed under it, line by line."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def show(self, sight: Sight, lines: list[Line], *, head: int) -> None:
        """Bring the picture up to date; `head` is the chain's newest block."""
        for line in lines:
            written = self._written(line)
            self._feed.append(written)
            if self._live is None:
                self._console.print(written, soft_wrap=True)
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
            self._live.update(self._picture(sight, head), refresh=True)

    def _written(self, line: Line) -> Text:
        written = Text(f"{self._clock(line.time)}  block {line.block:<5} ", style="dim")
        return written.append(line.text, style=_STYLES[line.tone])

    def _picture(self, sight: Sight, head: int) -> Group:
        title = (
            f"chain time {self._clock(sight.time)}   block {head}   "
            f"folded {sight.block} ({head - sight.block} behind)   round {sight.round}"
        )
        table = Table(title=title, title_style="bold", expand=True, pad_edge=False)
        for name, justify in _COLUMNS:
            table.add_column(name, justify=justify, no_wrap=True, min_width=len(name))
        table.columns[-1].min_width = len("kicked out")
        for rank, row in enumerate(sight.rows, start=1):
            table.add_row(*_cells(rank, row), style=_row_style(row))
        feed = Text("\n").join(self._feed) if self._feed else Text("waiting for the first block")
        return Group(table, Panel(feed, title="events", height=_FEED_LINES + 2))

    def _clock(self, time: int) -> str:
        minutes, seconds = divmod(time - self._start, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"


_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("#", "right"),
    ("node", "left"),
    ("plays", "left"),
    ("scores", "right"),
    ("long-term", "right"),
    ("reliability", "right"),
    ("QoS", "right"),
    ("", "left"),
    ("on chain", "right"),
    ("state", "left"),
)


def _cells(rank: int, row: Row) -> list[str]:
    qos = "-" if row.qos is None else f"{row.qos:.4f}"
    bar = "━" * round((row.qos or 0) * _BAR)
    state = "excluded" if row.is_excluded else row.status.replace("_", " ")
    return [
        str(rank),
        row.name,
        row.part,
        str(row.scores),
        f"{row.long_term:.4f}",
        f"{row.reliability:.4f}",
        qos,
        bar,
        row.on_chain,
        state,
    ]


def _row_style(row: Row) -> str:
    if row.status in {"kicked_out", "quit", "slashed"}:
        return "dim strike"
    if row.is_excluded:
        return "red"
    return "dim" if row.status == "paused" else ""
