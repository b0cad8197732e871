"""Shows the demo's phase, a live table of nodes, and a feed of the newest events.

The screen fits a terminal of 80 columns and 24 lines. If the output is not a terminal, plain lines
are printed.
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

from devnet.demo.news import FeedEntry
from devnet.demo.phases import PhaseTracker
from devnet.demo.snapshot import DemoSnapshot, SnapshotRow, truncate_score
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.domain.scoring.node_figures import RECOVERING_BELOW

# Number of feed lines that are kept in memory, and number that even a small terminal shows.
_MAX_FEED_LINES, _MIN_FEED_LINES = 40, 3
# Number of lines for title, phase, caption, address, column names, two blank lines and the cursor.
_OTHER_LINES = 8
_STYLES = {"good": "green", "bad": "red", "plain": "dim", "big": "bold yellow"}
_BAR_WIDTH = 10


class Screen:
    """Shows snapshots and events on stderr.

    stdout contains only the summary.
    """

    def __init__(self, console: Console, *, start: int) -> None:
        self._console = console
        self._start = start
        # The newest line comes first.
        self._feed: deque[Text] = deque(maxlen=_MAX_FEED_LINES)
        self._phase_tracker = PhaseTracker()
        self._pages_line: str | None = None
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
        """Stop the live display, so that later lines appear below the last frame."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def current_phase(self) -> DemoPhase:
        """The current phase, which may be read from any thread."""
        return self._phase_tracker.current_phase

    def show_pages_url(self, address: str) -> None:
        """Show the URL of the web pages, now and in every frame."""
        self._pages_line = f"open in a browser: {address}/"
        self.print_line(self._pages_line)

    def print_line(self, text: str) -> None:
        """Print a line that the live display does not overwrite."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def update(self, snapshot: DemoSnapshot, entries: list[FeedEntry], *, head: int) -> None:
        """Show a new snapshot and its events.

        `head` is the chain's newest block.
        """
        self._phase_tracker.update(snapshot)
        for entry in entries:
            entry_text = self._format_entry(entry)
            # A plain entry, such as a report, gets no line of its own. The title counts these
            # entries.
            if entry.tone != "plain":
                self._feed.appendleft(entry_text)
            if self._live is None:
                self._console.print(entry_text, soft_wrap=True)
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
            self._live.update(self.render(snapshot, head), refresh=True)

    def _format_entry(self, entry: FeedEntry) -> Text:
        time_text = f"{self._format_chain_time(entry.time)}  block {entry.block:<5} "
        return Text().append(time_text, style="dim").append(entry.text, style=_STYLES[entry.tone])

    def render(self, snapshot: DemoSnapshot, head: int) -> Group:
        """Return the frame for a terminal, with title, phase, node table and event feed."""
        title = (
            f"chain time {self._format_chain_time(snapshot.time)}   block {head}   "
            f"daemon at {snapshot.block} ({head - snapshot.block} behind)   reports "
            f"{snapshot.round_number}"
        )
        table = Table(expand=True, box=None, pad_edge=False)
        columns = [
            column for column in _COLUMNS if self._console.width >= column.min_console_width
        ]
        for column in columns:
            table.add_column(
                column.title, justify=column.justify, no_wrap=True, min_width=column.min_width
            )
        for rank, row in enumerate(snapshot.rows, start=1):
            table.add_row(
                *(column.cell(rank, row) for column in columns), style=_choose_row_style(row)
            )
        return Group(
            _render_line(title, "bold"),
            _render_line(self._phase_tracker.title_line, "bold cyan"),
            _render_line(self._phase_tracker.caption, "cyan"),
            _render_line(self._pages_line or "", "dim"),
            Text(),
            table,
            Text(),
            *self._render_feed(self._console.height - _OTHER_LINES - len(snapshot.rows)),
        )

    def _render_feed(self, line_count: int) -> list[Text]:
        """Return as many lines of the feed as fit, the newest first."""
        lines = [entry.copy() for entry in islice(self._feed, max(line_count, _MIN_FEED_LINES))]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return lines or [Text("waiting for the first event", style="dim")]

    def _format_chain_time(self, timestamp: int) -> str:
        minutes, seconds = divmod(timestamp - self._start, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table.

    It is hidden if the terminal is narrower than `min_console_width`.
    """

    title: str
    justify: JustifyMethod
    min_width: int
    cell: Callable[[int, SnapshotRow], str]
    min_console_width: int = 0


def _render_line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _format_state(row: SnapshotRow) -> str:
    return "excluded" if row.node_scores.is_excluded else row.node_scores.status.replace("_", " ")


def _format_score(units: int | None) -> str:
    return "-" if units is None else f"{truncate_score(units):.4f}"


def _render_bar(row: SnapshotRow) -> str:
    return "━" * round(truncate_score(row.node_scores.qos or 0) * _BAR_WIDTH)


_COLUMNS = (
    _Column("#", "right", 2, lambda rank, _: str(rank)),
    _Column("node", "left", 8, lambda _, row: row.name),
    _Column("role", "left", 18, lambda _, row: row.role, min_console_width=100),
    _Column("scores", "right", 6, lambda _, row: str(row.score_count)),
    _Column("long-term", "right", 9, lambda _, row: _format_score(row.node_scores.long_term)),
    _Column("reliability", "right", 11, lambda _, row: _format_score(row.node_scores.reliability)),
    _Column("QoS", "right", 6, lambda _, row: _format_score(row.node_scores.qos)),
    _Column("", "left", _BAR_WIDTH, lambda _, row: _render_bar(row), min_console_width=120),
    _Column("on chain", "right", 8, lambda _, row: row.chain_score),
    _Column("state", "left", 10, lambda _, row: _format_state(row)),
)


def _choose_row_style(row: SnapshotRow) -> str:
    node_scores = row.node_scores
    if node_scores.status in {"kicked_out", "quit", "slashed"}:
        return "dim strike"
    if node_scores.is_excluded:
        return "red"
    if node_scores.status == "paused" or node_scores.qos is None:
        return "dim"
    return "green" if node_scores.reliability >= RECOVERING_BELOW else "yellow"
