"""Reads a relay's stream and polls its scores, and splits each score into Q_long and H.

The relay publishes the product (Q_long / 10) * H, and two polls of it give both factors
(docs/reference/crynux-relay.md#two-polls). The verdict is computed in `relay_audit`. No request
changes anything at the relay.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from oracle.chain.feed.feed_client import FeedClient, FiguresClient, RelayFigures
from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import Address, Hash
from oracle.systems.crynux.crynux_rule_sets import RELAY

# Tolerated rounding difference if two machines do the same computation.
_ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class QualityFactors:
    """A node's Q_long / 10 and reliability at the relay, at the time `at` in seconds.

    `slack` is the maximum error of `long_term`.
    """

    long_term: float
    health: float
    at: float
    slack: float

    def compute_reliability(self, moment: float) -> float:
        """Return the reliability at another time, if no event happens in between.

        Both times are by the same clock.
        """
        return 1 - (1 - self.health) * math.exp(-(moment - self.at) / RELAY.tau_seconds)


def derive_quality_factors(
    first_figure: RelayFigures, second_figure: RelayFigures
) -> QualityFactors | None:
    """Derive a node's factors from two of its scores without an event between them.

    Without an event, Q_long is constant and the gap of H to 1 shrinks by exp(-t/tau), so all
    growth of the score comes from H. The result is None if the score fell, because an event must
    have occurred, or if too little time passed.
    """
    elapsed_seconds = second_figure.measured_at - first_figure.measured_at
    quality_gain = second_figure.quality - first_figure.quality
    timing_slack = first_figure.max_error_seconds + second_figure.max_error_seconds
    if elapsed_seconds <= timing_slack or quality_gain < -_ROUNDING_TOLERANCE:
        return None
    closed_fraction = -math.expm1(-elapsed_seconds / RELAY.tau_seconds)
    initial_score_gap = max(0.0, quality_gain) / closed_fraction
    long_term = first_figure.quality + initial_score_gap
    slack = (
        initial_score_gap * timing_slack / (elapsed_seconds - timing_slack)
        + _ROUNDING_TOLERANCE / closed_fraction
    )
    if not 0 < long_term <= 1 + slack:
        return None
    return QualityFactors(
        long_term, first_figure.quality / long_term, first_figure.measured_at, slack
    )


_URL_OPTION = "--url"
_MAX_ANSWER_BYTES = 16 << 20
# Number of rows that are requested again each time, because a relay may commit rows out of id
# order.
_OVERLAP_ROWS = 500


@dataclass(frozen=True, slots=True)
class WatchClock:
    """A monotonic clock in seconds, and a function that waits for a number of seconds."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Poll:
    """One reading of all scores, at the time `relay_now` in seconds of the relay's clock.

    Rows up to the id `last_id_before` were committed before the reading, and rows above
    `last_id_after` after the reading.
    """

    figures: Mapping[Address, RelayFigures]
    last_id_before: int
    last_id_after: int
    relay_now: int


@dataclass(slots=True)
class RelayWatch:
    """The rows read from a relay, by id, with their observation times, and the polls."""

    feed_client: FeedClient
    figures_client: FiguresClient
    clock: WatchClock
    page_rows: int = 1000
    rows: dict[int, FeedRow] = field(default_factory=dict)
    # Times, on the relay's clock, of rows that arrived during the watch or that a witness
    # observed.
    time_by_row: dict[int, int] = field(default_factory=dict)
    changed_rows: list[int] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)

    @classmethod
    def create_for_url(
        cls, url: str, timeout_seconds: float, page_rows: int, clock: WatchClock
    ) -> "RelayWatch":
        """Create a watch of the relay at `url`, without sending a request.

        Raises:
            InputError: the URL is invalid.
        """
        feed_client = FeedClient(url, _URL_OPTION, timeout_seconds, _MAX_ANSWER_BYTES)
        figures_client = FiguresClient(url, _URL_OPTION, timeout_seconds, clock.now)
        return cls(feed_client, figures_client, clock, page_rows)

    def close(self) -> None:
        self.feed_client.close()
        self.figures_client.close()

    @property
    def last_id(self) -> int:
        return max(self.rows, default=0)

    def poll_relay(self, poll_count: int, interval_seconds: float) -> None:
        """Read all rows, then poll the scores `poll_count` times.

        Polls are `interval_seconds` apart.

        Raises:
            RpcError: the relay does not respond in time.
            FeedResponseError: the response does not come from a relay.
        """
        self._read_rows(is_first=True)
        for number in range(poll_count):
            if number:
                self.clock.wait(interval_seconds)
            self._read_rows()
            last_id_before = self.last_id
            figures = self.figures_client.fetch_node_stats()
            relay_now = self.feed_client.fetch_feed_time()
            self._read_rows()
            self.polls.append(Poll(figures, last_id_before, self.last_id, relay_now))

    def adopt_witness_times(self, witnessed_rows: Iterable[tuple[int, Hash, int]]) -> None:
        """Adopt the times observed by a witness, for rows with the same id and hash."""
        for row_id, row_hash, row_time in witnessed_rows:
            if row_id in self.rows and self.rows[row_id].hash == row_hash:
                self.time_by_row[row_id] = row_time

    def adopt_daemon_times(self, daemon_rows: Mapping[int, FeedRow]) -> None:
        """Adopt the times observed by a daemon, for rows with the same id and hash."""
        for row_id, daemon_row in daemon_rows.items():
            row = self.rows.get(row_id)
            if row is None or row.hash != daemon_row.hash:
                continue
            self.rows[row_id] = replace(
                row, seen_from=daemon_row.seen_from, seen_to=daemon_row.seen_to
            )
            if daemon_row.time is not None:
                self.time_by_row[row_id] = daemon_row.time

    def _read_rows(self, *, is_first: bool = False) -> None:
        after_id = 0 if is_first else max(0, self.last_id - _OVERLAP_ROWS)
        is_complete = False
        while not is_complete:
            poll_response = self.feed_client.poll(after_id, self.page_rows)
            for row in poll_response.rows:
                self._store_row(row, poll_response.feed_time, is_first=is_first)
            is_complete = poll_response.is_complete
            after_id = poll_response.rows[-1].id if poll_response.rows else after_id

    def _store_row(self, row: FeedRow, now: int, *, is_first: bool) -> None:
        stored_row = self.rows.setdefault(row.id, row)
        if stored_row is row and not is_first:
            self.time_by_row.setdefault(row.id, now)
        if stored_row.hash != row.hash and row.id not in self.changed_rows:
            self.changed_rows.append(row.id)
