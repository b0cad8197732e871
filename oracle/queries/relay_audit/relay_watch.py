"""Reads a relay's stream and polls its figures, so that both can be compared.

The verdict is computed in `relay_audit`. No request writes at the relay.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from oracle.chain.feed.feed_client import FeedClient
from oracle.chain.feed.figures_client import FiguresClient, NodeFigure
from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import Address, Hash

_SETTING = "--url"
_ANSWER_BYTES = 16 << 20
# A relay commits transactions in another order than that of their ids, so this many rows are
# requested again each time.
_AGAIN = 500


@dataclass(frozen=True, slots=True)
class WatchClock:
    """A monotonic clock in seconds, and a function that waits for a number of seconds."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Poll:
    """One reading of all figures: `relay_now` by the relay's clock.

    Rows up to id `last_id_before` were committed before it; those above `last_id_after` came
    later.
    """

    figures: Mapping[Address, NodeFigure]
    before: int
    after: int
    relay_now: int


@dataclass(slots=True)
class RelayWatch:
    """The data read from a relay: rows by id, their observation times, and the polls."""

    stream: FeedClient
    list_of_nodes: FiguresClient
    clock: WatchClock
    page_rows: int = 1000
    rows: dict[int, FeedRow] = field(default_factory=dict)
    # The relay's second of rows that arrived during the watch, or that a witness observed.
    times: dict[int, int] = field(default_factory=dict)
    changed: list[int] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)

    @classmethod
    def of(
        cls, url: str, timeout_seconds: float, page_rows: int, clock: WatchClock
    ) -> "RelayWatch":
        """Return a watch of the relay at a URL; no request is sent yet.

        Raises:
            InputError: the URL is invalid.
        """
        stream = FeedClient(url, _SETTING, timeout_seconds, _ANSWER_BYTES)
        figures = FiguresClient(url, _SETTING, timeout_seconds, clock.now)
        return cls(stream, figures, clock, page_rows)

    def close(self) -> None:
        """Close the connections."""
        self.stream.close()
        self.list_of_nodes.close()

    @property
    def last_id(self) -> int:
        return max(self.rows, default=0)

    def watch(self, polls: int, seconds: float) -> None:
        """Read all rows, then poll `poll_count` times, `interval_seconds` apart.

        Raises:
            RpcError: no answer, or a timeout.
            FeedAnswerError: an answer that is not from a relay.
        """
        self._read(is_first=True)
        for number in range(polls):
            if number:
                self.clock.wait(seconds)
            self._read()
            before = self.last_id
            figures = self.list_of_nodes.ask()
            now = self.stream.clock()
            self._read()
            self.polls.append(Poll(figures, before, self.last_id, now))

    def believe(self, noted: Iterable[tuple[int, Hash, int]]) -> None:
        """Adopt a witness's times (id, hash, time) of rows whose hash equals the witnessed one."""
        for number, seen, moment in noted:
            if number in self.rows and self.rows[number].hash == seen:
                self.times[number] = moment

    def remember(self, seen: Mapping[int, FeedRow]) -> None:
        """Adopt a daemon's observation times of rows whose hash equals the stored one."""
        for number, known in seen.items():
            row = self.rows.get(number)
            if row is None or row.hash != known.hash:
                continue
            self.rows[number] = replace(row, seen_from=known.seen_from, seen_to=known.seen_to)
            if known.time is not None:
                self.times[number] = known.time

    def _read(self, *, is_first: bool = False) -> None:
        start = 0 if is_first else max(0, self.last_id - _AGAIN)
        is_whole = False
        while not is_whole:
            answer = self.stream.ask(start, self.page_rows)
            for row in answer.rows:
                self._take(row, answer.now, is_first=is_first)
            is_whole = answer.is_whole
            start = answer.rows[-1].id if answer.rows else start

    def _take(self, row: FeedRow, now: int, *, is_first: bool) -> None:
        known = self.rows.setdefault(row.id, row)
        if known is row and not is_first:
            self.times.setdefault(row.id, now)
        if known.hash != row.hash and row.id not in self.changed:
            self.changed.append(row.id)
