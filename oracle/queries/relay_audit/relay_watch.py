"""Reads a relay's stream and polls its figures, so that both can be laid side by side.

Nothing here says who is right: `relay_audit`. Nothing is asked that writes at the relay.
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
# Transactions of a relay are committed in another order than they got their ids: so many rows
# are asked for again each time.
_AGAIN = 500


@dataclass(frozen=True, slots=True)
class WatchClock:
    """Seconds that only go forward, and how to wait for so many of them."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Poll:
    """One look at all figures: `relay_now` by the relay's clock.

    Rows up to id `before` were committed before it; those above `after` came later.
    """

    figures: Mapping[Address, NodeFigure]
    before: int
    after: int
    relay_now: int


@dataclass(slots=True)
class RelayWatch:
    """What was read of a relay: rows by id, when each was seen, and the polls between."""

    stream: FeedClient
    list_of_nodes: FiguresClient
    clock: WatchClock
    page_rows: int = 1000
    rows: dict[int, FeedRow] = field(default_factory=dict)
    # The relay's second of rows that came while we looked, or that a witness saw.
    times: dict[int, int] = field(default_factory=dict)
    changed: list[int] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)

    @classmethod
    def of(
        cls, url: str, timeout_seconds: float, page_rows: int, clock: WatchClock
    ) -> "RelayWatch":
        """Return a watch of the relay at an address; nothing is asked yet.

        Raises:
            InputError: it is no address.
        """
        stream = FeedClient(url, _SETTING, timeout_seconds, _ANSWER_BYTES)
        figures = FiguresClient(url, _SETTING, timeout_seconds, clock.now)
        return cls(stream, figures, clock, page_rows)

    def close(self) -> None:
        """Let the connections go."""
        self.stream.close()
        self.list_of_nodes.close()

    @property
    def last_id(self) -> int:
        return max(self.rows, default=0)

    def watch(self, polls: int, seconds: float) -> None:
        """Read everything, then poll so often, so many seconds apart.

        Raises:
            RpcError: no answer, or not in time.
            FeedAnswerError: an answer that is none of a relay.
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
        """Take a witness's times (id, hash, time) of rows that are, byte for byte, what it saw."""
        for number, seen, moment in noted:
            if number in self.rows and self.rows[number].hash == seen:
                self.times[number] = moment

    def remember(self, seen: Mapping[int, FeedRow]) -> None:
        """Take from a daemon when rows came that are, byte for byte, what it saw."""
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
