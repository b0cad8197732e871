"""Fetches the rows and the clock of a feed over HTTP, with bounded memory and time.

A poll without new rows takes three GET requests: the clock, a page with the row that is read
again, and the empty page at the end. Only the format of responses is checked here; the content is
checked where it is stored (docs/explanation/feed.md#a-poll).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from oracle.domain.feed_rows import LARGEST_ID, MAX_NAME_CHARS, FeedRow
from oracle.errors import TransientError
from oracle.rpc.transport import BoundedHttp, shown

# Maximum pages of one poll; further pages are read in the next poll.
MOST_PAGES = 20


class FeedAnswerError(TransientError):
    """The feed's response is not a valid page; nothing of the poll is stored."""


@dataclass(frozen=True, slots=True)
class FeedAnswer:
    """The rows of one poll: all above `start_id`, up to the newest if `is_complete`.

    `is_complete` means that an empty page was read. A page with fewer rows than requested does not
    mark the end, because a server may cap its pages.

    `feed_time` is the feed's clock in unix seconds, fetched before the rows. `newest_id` is the
    feed's newest id, fetched only if the poll returned no row, else None.
    """

    start: int
    now: int
    rows: tuple[FeedRow, ...]
    is_whole: bool
    newest: int | None = None


class FeedClient:
    """The client of one feed. Its URL may hold a key: only scheme, host and port are shown."""

    def __init__(self, url: str, setting: str, timeout_seconds: float, max_bytes: int) -> None:
        """Create the client without a request; `setting_name` names the URL in error messages."""
        self.name = shown(url, ("http", "https"), setting)
        self._http = BoundedHttp(url, name=self.name, max_bytes=max_bytes)
        self._seconds = timeout_seconds

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(self, start: int, limit: int, most_pages: int = MOST_PAGES) -> FeedAnswer:
        """Return the rows above `start_id`, page by page, until a page is empty.

        `page_size` is the maximum number of rows of a page; the server may send fewer. A page that
        is larger than `max_bytes` is requested again in halves.

        Raises:
            RpcError: no answer, or not in time.
            FeedResponseError: a response that is not a page.
        """
        now, rows, is_whole = self.clock(), list[FeedRow](), False
        for _ in range(most_pages):
            after = rows[-1].id if rows else start
            page = self._page(after, limit)
            rows += page
            if not page:
                is_whole = True
                break
        newest = None if rows else self.newest()
        return FeedAnswer(start, now, tuple(rows), is_whole, newest)

    def clock(self) -> int:
        """Return the feed's clock in unix seconds; raises the same errors as `poll`."""
        said = self._data("/v1/now")
        now = said.get("now") if isinstance(said, Mapping) else None
        if type(now) is not int or not 0 < now <= LARGEST_ID:
            raise FeedAnswerError(f"{self.name}: tells no time")
        return now

    def newest(self) -> int:
        """Return the newest id, or 0 if there is no row; raises the same errors as `poll`."""
        said = self._data("/v1/events/current_id")
        if type(said) is not int or not 0 <= said <= LARGEST_ID:
            raise FeedAnswerError(f"{self.name}: tells no newest id")
        return said

    def _page(self, after: int, limit: int) -> list[FeedRow]:
        """Fetch the page of rows above `after_id`."""
        asked = limit
        while True:
            body = self._body(f"/v1/events?start={after}&limit={asked}")
            if body is not None:
                return self._rows(self._read(body), after)
            if asked == 1:
                raise FeedAnswerError(
                    f"{self.name}: the row after {after} is larger than an answer may be "
                    "(feed.max_response_mib)"
                )
            asked //= 2

    def _data(self, path: str) -> object:
        body = self._body(path)
        if body is None:
            raise FeedAnswerError(f"{self.name}: an answer is too large")
        return self._read(body)

    def _body(self, path: str) -> bytes | None:
        """Return the body of a response, or None if it is larger than the limit."""
        answer = self._http.get(path, self._seconds, self._seconds)
        if answer.status != HTTPStatus.OK:
            raise FeedAnswerError(f"{self.name}: answered with HTTP status {answer.status}")
        return None if answer.is_cut else answer.body

    def _read(self, body: bytes) -> object:
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            raise FeedAnswerError(f"{self.name}: answered with no JSON") from None
        if not isinstance(said, dict) or said.get("message") != "success" or "data" not in said:
            raise FeedAnswerError(f"{self.name}: answered without a success")
        return said["data"]

    def _rows(self, said: object, after: int) -> list[FeedRow]:
        """Return the rows of a page, in ascending order; rows up to `after_id` are left out.

        Raises:
            FeedResponseError: the page is not empty, but has no row above `after_id`, so that the
                end of the stream cannot be detected; or the rows are malformed.
        """
        if not isinstance(said, list):
            raise FeedAnswerError(f"{self.name}: its rows are no list")
        rows = [self._row(each) for each in said]
        ids = [row.id for row in rows]
        if ids != sorted(set(ids)):
            raise FeedAnswerError(f"{self.name}: its rows are not in order of their ids")
        above = [row for row in rows if row.id > after]
        if rows and not above:
            raise FeedAnswerError(
                f"{self.name}: the page after row {after} repeats rows up to it; expected rows "
                "with a higher id, or an empty page at the end"
            )
        return above

    def _row(self, said: object) -> FeedRow:
        if not isinstance(said, dict):
            raise FeedAnswerError(f"{self.name}: a row is no object")
        number, *texts = (said.get(name) for name in _FIELDS)
        if type(number) is not int or not 0 < number <= LARGEST_ID:
            raise FeedAnswerError(
                f"{self.name}: a row has no id; expected a whole number from 1 to {LARGEST_ID}"
            )
        if not all(isinstance(text, str) and _is_storable(text) for text in texts):
            raise FeedAnswerError(f"{self.name}: row {number} is not made of texts")
        kind, node, task, args = map(str, texts)
        if max(len(kind), len(node), len(task)) > MAX_NAME_CHARS:
            raise FeedAnswerError(
                f"{self.name}: row {number} has a name that is too long; expected a type, node "
                f"and task of up to {MAX_NAME_CHARS} characters"
            )
        return FeedRow(number, kind, node, task, args)


_FIELDS = ("id", "type", "node_address", "task_id_commitment", "args")


def _is_storable(text: str) -> bool:
    """Return whether both databases accept the text: no lone surrogates and no NUL."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
