"""The picture: a live table of nodes and a feed of events; plain lines where no terminal is."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from oracle.devnet.demo.news import FeedEntry
from oracle.devnet.demo.snapshot import DemoSnapshot, SnapshotRow

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

    def show(self, snapshot: DemoSnapshot, lines: list[FeedEntry], *, head: int) -> None:
        """Bring the picture up to date; `head` is the chain's newest block."""
        for line in lines:
            written = self._written(line)
            self._feed.append(written)
            if self._live is None:
                self._console.print(written, soft_wrap=True)
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
            self._live.update(self._picture(snapshot, head), refresh=True)

    def _written(self, line: FeedEntry) -> Text:
        when = f"{self._clock(line.time)}  block {line.block:<5} "
        return Text().append(when, style="dim").append(line.text, style=_STYLES[line.tone])

    def _picture(self, snapshot: DemoSnapshot, head: int) -> Group:
        title = (
            f"chain time {self._clock(snapshot.time)}   block {head}   "
            f"folded {snapshot.block} ({head - snapshot.block} behind)   round {snapshot.round}"
        )
        table = Table(title=title, title_style="bold", expand=True, box=SIMPLE_HEAD)
        columns = [one for one in _COLUMNS if self._console.width >= one.from_width]
        for column in columns:
            table.add_column(
                column.title, justify=column.justify, no_wrap=True, min_width=column.least
            )
        for rank, row in enumerate(snapshot.rows, start=1):
            table.add_row(*(one.cell(rank, row) for one in columns), style=_row_style(row))
        feed = Text("\n").join(self._feed) if self._feed else Text("waiting for the first block")
        return Group(table, Panel(feed, title="events", height=_FEED_LINES + 2))

    def _clock(self, time: int) -> str:
        minutes, seconds = divmod(time - self._start, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"


@dataclass(frozen=True, slots=True)
class _Column:
    """One column; left out on terminals narrower than `from_width`."""

    title: str
    justify: JustifyMethod
    least: int
    cell: Callable[[int, SnapshotRow], str]
    from_width: int = 0


def _state(row: SnapshotRow) -> str:
    return "excluded" if row.is_excluded else row.status.replace("_", " ")


_COLUMNS = (
    _Column("#", "right", 2, lambda rank, _: str(rank)),
    _Column("node", "left", 8, lambda _, row: row.name),
    _Column("plays", "left", 18, lambda _, row: row.part, from_width=100),
    _Column("scores", "right", 6, lambda _, row: str(row.scores)),
    _Column("long-term", "right", 9, lambda _, row: f"{row.long_term:.4f}"),
    _Column("reliability", "right", 11, lambda _, row: f"{row.reliability:.4f}"),
    _Column("QoS", "right", 6, lambda _, row: "-" if row.qos is None else f"{row.qos:.4f}"),
    _Column("", "left", _BAR, lambda _, row: "━" * round((row.qos or 0) * _BAR), from_width=120),
    _Column("on chain", "right", 8, lambda _, row: row.on_chain),
    _Column("state", "left", 10, lambda _, row: _state(row)),
)


def _row_style(row: SnapshotRow) -> str:
    if row.status in {"kicked_out", "quit", "slashed"}:
        return "dim strike"
    if row.is_excluded:
        return "red"
    return "dim" if row.status == "paused" else ""
