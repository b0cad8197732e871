"""The demo's screen: the act, a live table of nodes, and an event feed, newest first.

The screen fits a terminal of 80 columns and 24 lines; without a terminal, plain lines are printed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Self

from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from devnet.demo.acts import Playbill
from devnet.demo.news import FeedEntry
from devnet.demo.snapshot import DemoSnapshot, SnapshotRow, floored
from oracle.daemon.web.played_act import DemoAct
from oracle.domain.scoring.node_figures import RECOVERING_BELOW

# Feed lines kept in memory, and the minimum shown however small the terminal is.
_FEED_LINES, _LEAST_FEED = 40, 3
# Lines for title, act, caption, address, column names, two blank lines, and the cursor.
_OTHER_LINES = 8
_STYLES = {"good": "green", "bad": "red", "plain": "dim", "big": "bold yellow"}
_BAR = 10


class Screen:
    """Shows snapshots and events on stderr, so that stdout carries only the summary."""

    def __init__(self, console: Console, *, start: int) -> None:
        self._console = console
        self._start = start
        # Newest first.
        self._feed: deque[Text] = deque(maxlen=_FEED_LINES)
        self._playbill = Playbill()
        self._pages: str | None = None
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
        """Stop the live display; later lines are printed below the last picture."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def act(self) -> DemoAct:
        """The current act; may be read from any thread."""
        return self._playbill.played

    def name_pages(self, address: str) -> None:
        """Show the URL of the web pages, now and on every picture."""
        self._pages = f"in a browser: {address}/"
        self.say(self._pages)

    def say(self, text: str) -> None:
        """Print a line that is not overwritten."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def show(self, snapshot: DemoSnapshot, lines: list[FeedEntry], *, head: int) -> None:
        """Update the screen; `head` is the chain's newest block."""
        self._playbill.see(snapshot)
        for line in lines:
            written = self._written(line)
            # Plain entries, such as reports, are only counted in the title.
            if line.tone != "plain":
                self._feed.appendleft(written)
            if self._live is None:
                self._console.print(written, soft_wrap=True)
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
            self._live.update(self.picture(snapshot, head), refresh=True)

    def _written(self, line: FeedEntry) -> Text:
        when = f"{self._clock(line.time)}  block {line.block:<5} "
        return Text().append(when, style="dim").append(line.text, style=_STYLES[line.tone])

    def picture(self, snapshot: DemoSnapshot, head: int) -> Group:
        """Return the picture for a terminal."""
        title = (
            f"chain time {self._clock(snapshot.time)}   block {head}   "
            f"folded {snapshot.block} ({head - snapshot.block} behind)   reports {snapshot.round}"
        )
        table = Table(expand=True, box=None, pad_edge=False)
        columns = [one for one in _COLUMNS if self._console.width >= one.from_width]
        for column in columns:
            table.add_column(
                column.title, justify=column.justify, no_wrap=True, min_width=column.least
            )
        for rank, row in enumerate(snapshot.rows, start=1):
            table.add_row(*(one.cell(rank, row) for one in columns), style=_row_style(row))
        return Group(
            _in_one_line(title, "bold"),
            _in_one_line(self._playbill.line, "bold cyan"),
            _in_one_line(self._playbill.caption, "cyan"),
            _in_one_line(self._pages or "", "dim"),
            Text(),
            table,
            Text(),
            *self._newest(self._console.height - _OTHER_LINES - len(snapshot.rows)),
        )

    def _newest(self, room: int) -> list[Text]:
        """Return as many feed lines as fit, the newest first."""
        shown = [one.copy() for one in islice(self._feed, max(room, _LEAST_FEED))]
        for line in shown:
            line.no_wrap, line.overflow = True, "ellipsis"
        return shown or [Text("waiting for the first event", style="dim")]

    def _clock(self, time: int) -> str:
        minutes, seconds = divmod(time - self._start, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"


@dataclass(frozen=True, slots=True)
class _Column:
    """One column; hidden on terminals narrower than `min_console_width`."""

    title: str
    justify: JustifyMethod
    least: int
    cell: Callable[[int, SnapshotRow], str]
    from_width: int = 0


def _in_one_line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _state(row: SnapshotRow) -> str:
    return "excluded" if row.figures.is_excluded else row.figures.status.replace("_", " ")


def _four_digits(units: int | None) -> str:
    return "-" if units is None else f"{floored(units):.4f}"


def _bar(row: SnapshotRow) -> str:
    return "━" * round(floored(row.figures.qos or 0) * _BAR)


_COLUMNS = (
    _Column("#", "right", 2, lambda rank, _: str(rank)),
    _Column("node", "left", 8, lambda _, row: row.name),
    _Column("plays", "left", 18, lambda _, row: row.part, from_width=100),
    _Column("scores", "right", 6, lambda _, row: str(row.scores)),
    _Column("long-term", "right", 9, lambda _, row: _four_digits(row.figures.long_term)),
    _Column("reliability", "right", 11, lambda _, row: _four_digits(row.figures.reliability)),
    _Column("QoS", "right", 6, lambda _, row: _four_digits(row.figures.qos)),
    _Column("", "left", _BAR, lambda _, row: _bar(row), from_width=120),
    _Column("on chain", "right", 8, lambda _, row: row.on_chain),
    _Column("state", "left", 10, lambda _, row: _state(row)),
)


def _row_style(row: SnapshotRow) -> str:
    figures = row.figures
    if figures.status in {"kicked_out", "quit", "slashed"}:
        return "dim strike"
    if figures.is_excluded:
        return "red"
    if figures.status == "paused" or figures.qos is None:
        return "dim"
    return "green" if figures.reliability >= RECOVERING_BELOW else "yellow"
