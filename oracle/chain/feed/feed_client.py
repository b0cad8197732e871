"""Fetches the rows and the clock of a feed over HTTP, and figures computed by a relay.

The size and time of responses are limited. A poll without new rows takes three GET requests: the
clock, a page with the rows that are read again, and the empty page at the end. This module checks
only the format of responses; the content is checked when it is stored
(docs/explanation/feed.md#polling). For the figures of every node, see
docs/reference/crynux-relay.md#figures.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from oracle.domain.feed_rows import MAX_NAME_CHARS, MAX_ROW_ID, FeedRow
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.transport import BoundedHttp, redact_url

# Maximum number of pages per poll. The next poll reads the rest.
MAX_PAGES = 20


class FeedResponseError(TransientError):
    """The feed's response is not a valid page.

    No row of the poll is stored.
    """


@dataclass(frozen=True, slots=True)
class FeedPoll:
    """The rows of one poll, in ascending order.

    Their ids are above `start_id`. `is_complete` is whether the poll reached the end of the feed,
    which is marked by an empty page. A page with fewer rows than requested does not mark the end,
    because a server may limit its pages. `feed_time` is the time of the feed's clock in unix
    seconds, fetched before the rows. `newest_id` is the feed's newest id, which is fetched only if
    the poll returned no row, or None.
    """

    start_id: int
    feed_time: int
    rows: tuple[FeedRow, ...]
    is_complete: bool
    newest_id: int | None = None


class FeedClient:
    """A client of one feed. The URL may contain a key, so only scheme, host and port are shown."""

    def __init__(
        self, url: str, setting_name: str, timeout_seconds: float, max_bytes: int
    ) -> None:
        """Create the client.

        `setting_name` is the name of the URL's setting, for errors.
        """
        self.name = redact_url(url, ("http", "https"), setting_name)
        self._http = BoundedHttp(url, name=self.name, max_bytes=max_bytes)
        self._timeout_seconds = timeout_seconds

    def close(self) -> None:
        self._http.close()

    def poll(self, start_id: int, page_size: int, max_pages: int = MAX_PAGES) -> FeedPoll:
        """Fetch the rows above `start_id`, page by page, until a page is empty.

        `page_size` is the maximum number of rows of a page; the server may return fewer. A page
        that is larger than `max_bytes` is requested again in halves.

        Raises:
            RpcError: the feed does not answer in time.
            FeedResponseError: a response is not a valid page.
        """
        feed_time = self.fetch_feed_time()
        rows = list[FeedRow]()
        is_complete = False
        for _ in range(max_pages):
            after_id = rows[-1].id if rows else start_id
            page = self._fetch_page(after_id, page_size)
            rows += page
            if not page:
                is_complete = True
                break
        newest_id = None if rows else self.fetch_newest_row_id()
        return FeedPoll(start_id, feed_time, tuple(rows), is_complete, newest_id)

    def fetch_feed_time(self) -> int:
        """Fetch the feed's current time in unix seconds.

        Raises the same errors as `poll`.
        """
        data = self._fetch_response_data("/v1/now")
        feed_time = data.get("now") if isinstance(data, Mapping) else None
        if type(feed_time) is not int or not 0 < feed_time <= MAX_ROW_ID:
            raise FeedResponseError(f"{self.name}: /v1/now returned no valid time")
        return feed_time

    def fetch_newest_row_id(self) -> int:
        """Fetch the newest row id, or 0 if there is no row.

        Raises the same errors as `poll`.
        """
        newest_id = self._fetch_response_data("/v1/events/current_id")
        if type(newest_id) is not int or not 0 <= newest_id <= MAX_ROW_ID:
            raise FeedResponseError(f"{self.name}: /v1/events/current_id returned no valid id")
        return newest_id

    def _fetch_page(self, after_id: int, page_size: int) -> list[FeedRow]:
        """Fetch one page of rows with ids above `after_id`."""
        requested_row_count = page_size
        while True:
            body = self._fetch_body(f"/v1/events?start={after_id}&limit={requested_row_count}")
            if body is not None:
                return self._parse_rows(self._parse_response_data(body), after_id)
            if requested_row_count == 1:
                raise FeedResponseError(
                    f"{self.name}: the row after id {after_id} exceeds the size limit of a "
                    "response; raise feed.max_response_mib"
                )
            requested_row_count //= 2

    def _fetch_response_data(self, path: str) -> object:
        body = self._fetch_body(path)
        if body is None:
            raise FeedResponseError(f"{self.name}: a response exceeds feed.max_response_mib")
        return self._parse_response_data(body)

    def _fetch_body(self, path: str) -> bytes | None:
        """Fetch the body of a response, or return None if it exceeds the size limit."""
        response = self._http.get(path, self._timeout_seconds, self._timeout_seconds)
        if response.status != HTTPStatus.OK:
            raise FeedResponseError(f"{self.name}: HTTP status {response.status}; expected 200")
        return None if response.is_truncated else response.body

    def _parse_response_data(self, body: bytes) -> object:
        try:
            response_document = json.loads(body)
        except (ValueError, RecursionError):
            raise FeedResponseError(f"{self.name}: the response is not JSON") from None
        if (
            not isinstance(response_document, dict)
            or response_document.get("message") != "success"
            or "data" not in response_document
        ):
            raise FeedResponseError(
                f"{self.name}: the response does not report success, or contains no data"
            )
        return response_document["data"]

    def _parse_rows(self, data: object, after_id: int) -> list[FeedRow]:
        """Parse a page, and return its rows above `after_id` in ascending order.

        Raises:
            FeedResponseError: the rows are malformed, or none of them is above `after_id`, so that
                the end of the stream could not be detected.
        """
        if not isinstance(data, list):
            raise FeedResponseError(f"{self.name}: the rows are not a list")
        rows = [self._parse_row(entry) for entry in data]
        row_ids = [row.id for row in rows]
        if row_ids != sorted(set(row_ids)):
            raise FeedResponseError(f"{self.name}: the rows are not ordered by id")
        new_rows = [row for row in rows if row.id > after_id]
        if rows and not new_rows:
            raise FeedResponseError(
                f"{self.name}: the page after row {after_id} contains no row after that row; "
                "expected rows with a higher id, or an empty page at the end"
            )
        return new_rows

    def _parse_row(self, entry: object) -> FeedRow:
        if not isinstance(entry, dict):
            raise FeedResponseError(f"{self.name}: a row is not an object")
        row_id, *texts = (entry.get(name) for name in _ROW_FIELDS)
        if type(row_id) is not int or not 0 < row_id <= MAX_ROW_ID:
            raise FeedResponseError(
                f"{self.name}: a row has no valid id; expected a whole number from 1 to "
                f"{MAX_ROW_ID}"
            )
        if not all(isinstance(text, str) and _is_storable_text(text) for text in texts):
            raise FeedResponseError(
                f"{self.name}: row {row_id} is malformed; type, node, task and arguments must be "
                "valid strings without NUL"
            )
        kind, node, task, args = map(str, texts)
        if max(len(kind), len(node), len(task)) > MAX_NAME_CHARS:
            raise FeedResponseError(
                f"{self.name}: row {row_id} has a name that is too long; expected a type, node "
                f"and task of up to {MAX_NAME_CHARS} characters"
            )
        return FeedRow(row_id, kind, node, task, args)


_ROW_FIELDS = ("id", "type", "node_address", "task_id_commitment", "args")


def _is_storable_text(text: str) -> bool:
    """Return whether both SQLite and PostgreSQL accept the text.

    They reject NUL and lone surrogates.
    """
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


_FIGURES_PAGE_SIZE, _MAX_FIGURES_PAGES = 100, 2_000
_MAX_FIGURES_BYTES = 4 << 20
_ADDRESS_PATTERN = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class RelayFigures:
    """The figures that the relay computed for one node.

    `quality` is (Q_long / 10) * H, and `weight` is the weight in the selection of nodes.
    `measured_at` is the time of the relay's response by the auditor's clock, with an error of at
    most `max_error_seconds`.
    """

    node: Address
    quality: float
    stake_score: float
    weight: float
    measured_at: float
    max_error_seconds: float

    @property
    def is_excluded(self) -> bool:
        """Whether the relay excludes the node from tasks despite its stake and score."""
        return self.weight == 0 and self.quality > 0 and self.stake_score > 0


class FiguresClient:
    """A client of a relay's node list. The URL may contain a key, so only its host is shown."""

    def __init__(
        self, url: str, setting_name: str, timeout_seconds: float, clock: Callable[[], float]
    ) -> None:
        """Create the client.

        `setting_name` is used in error messages, `clock` is monotonic.
        """
        self.name = redact_url(url, ("http", "https"), setting_name)
        self._http = BoundedHttp(url, name=self.name, max_bytes=_MAX_FIGURES_BYTES)
        self._timeout_seconds = timeout_seconds
        self._clock = clock

    def close(self) -> None:
        self._http.close()

    def fetch_node_stats(self) -> dict[Address, RelayFigures]:
        """Fetch the figures of all nodes, page by page, until a page is empty.

        Raises:
            RpcError: the relay does not answer in time.
            FeedResponseError: a response is not a list of figures, or the list does not end.
        """
        figure_by_node: dict[Address, RelayFigures] = {}
        previous_nodes: list[Address] = []
        for page_number in range(1, _MAX_FIGURES_PAGES + 1):
            requested_at = self._clock()
            monotonic_start = time.monotonic()
            rows = self._fetch_page(page_number)
            if not rows:
                return figure_by_node
            max_error_seconds = (time.monotonic() - monotonic_start) / 2
            measured_at = (requested_at + self._clock()) / 2
            figures = [self._parse_node_stats(row, measured_at, max_error_seconds) for row in rows]
            nodes = [figure.node for figure in figures]
            if nodes == previous_nodes:
                raise FeedResponseError(
                    f"{self.name}: page {page_number} of the node list repeats the previous page"
                )
            previous_nodes = nodes
            figure_by_node |= {figure.node: figure for figure in figures}
        raise FeedResponseError(
            f"{self.name}: the node list has more than {_MAX_FIGURES_PAGES} pages"
        )

    def _fetch_page(self, page_number: int) -> list[object]:
        path = f"/v2/network/nodes/data?page={page_number}&page_size={_FIGURES_PAGE_SIZE}"
        response = self._http.get(path, self._timeout_seconds, self._timeout_seconds)
        if response.status != HTTPStatus.OK or response.is_truncated:
            raise FeedResponseError(
                f"{self.name}: the node list is incomplete (HTTP status {response.status})"
            )
        try:
            response_document = json.loads(response.body)
        except (ValueError, RecursionError):
            raise FeedResponseError(f"{self.name}: the node list is not JSON") from None
        rows = response_document.get("data") if isinstance(response_document, dict) else None
        if not isinstance(rows, list):
            raise FeedResponseError(f"{self.name}: the node list has no array `data`")
        return rows

    def _parse_node_stats(
        self, row: object, measured_at: float, max_error_seconds: float
    ) -> RelayFigures:
        if not isinstance(row, Mapping) or not _ADDRESS_PATTERN.fullmatch(str(row.get("address"))):
            raise FeedResponseError(f"{self.name}: a node in the list has no valid address")
        quality, stake_score, weight = (
            self._parse_number(row.get(name)) for name in _FIGURE_FIELDS
        )
        node = Address(str(row["address"]).lower())
        return RelayFigures(node, quality, stake_score, weight, measured_at, max_error_seconds)

    def _parse_number(self, value: object) -> float:
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not math.isfinite(value)
        ):
            raise FeedResponseError(f"{self.name}: a node's score or weight is not a number")
        return float(value)


_FIGURE_FIELDS = ("qos_score", "staking_score", "prob_weight")
