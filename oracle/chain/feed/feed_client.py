"""Asks a feed over HTTP for its rows and its clock, in bounded space and time.

Three GET requests a poll where nothing is new: the clock, a page with the row that is read again,
and the empty page that is the end. What comes back is checked for its shape alone: what it says
is judged where it is stored (docs/explanation/feed.md#polling).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from oracle.domain.feed_rows import LARGEST_ID, MAX_NAME_CHARS, FeedRow
from oracle.errors import TransientError
from oracle.rpc.transport import BoundedHttp, shown

# Pages of one poll; a feed that has more is read on in the next one.
MOST_PAGES = 20


class FeedAnswerError(TransientError):
    """The feed answered with something that is no page; nothing of the poll is taken in."""


@dataclass(frozen=True, slots=True)
class FeedAnswer:
    """The rows of one poll: all above id `start`, up to the newest where `is_whole`.

    `is_whole` means that an empty page was read. A page shorter than asked is no end, because a
    server may cap its pages.

    `now` is the feed's clock in unix seconds, asked for before the rows. `newest` is its newest
    id, asked for where there was no row at all; None: there were rows.
    """

    start: int
    now: int
    rows: tuple[FeedRow, ...]
    is_whole: bool
    newest: int | None = None


class FeedClient:
    """One feed at one address. Its URL may hold a key: only scheme, host and port are shown."""

    def __init__(self, url: str, setting: str, timeout_seconds: float, max_bytes: int) -> None:
        """`setting` names the address in a complaint. Nothing is asked yet."""
        self.name = shown(url, ("http", "https"), setting)
        self._http = BoundedHttp(url, name=self.name, max_bytes=max_bytes)
        self._seconds = timeout_seconds

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def ask(self, start: int, limit: int, most_pages: int = MOST_PAGES) -> FeedAnswer:
        """Return the rows above id `start`, page by page, until a page is empty.

        `limit` is how many rows a page may have; the server may send fewer. A page that is
        larger than `max_bytes` is requested again in halves.

        Raises:
            RpcError: no answer, or not in time.
            FeedAnswerError: an answer that is no page.
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
        """Return the feed's clock in unix seconds; raises as `ask`."""
        said = self._data("/v1/now")
        now = said.get("now") if isinstance(said, Mapping) else None
        if type(now) is not int or not 0 < now <= LARGEST_ID:
            raise FeedAnswerError(f"{self.name}: tells no time")
        return now

    def newest(self) -> int:
        """Return the newest id, 0 where there is no row; raises as `ask`."""
        said = self._data("/v1/events/current_id")
        if type(said) is not int or not 0 <= said <= LARGEST_ID:
            raise FeedAnswerError(f"{self.name}: tells no newest id")
        return said

    def _page(self, after: int, limit: int) -> list[FeedRow]:
        """Return the rows of the page that begins above id `after`."""
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
        """Return an answer's bytes; None: there are more than we read."""
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
        """Return the rows of a page, which ascend; rows up to id `after` are left out.

        Raises:
            FeedAnswerError: no row is above `after` though the page is not empty, so that
                nobody can tell whether the stream ends here; or the rows are malformed.
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
    """Tell whether both databases take it: JSON can escape what is no character, and a NUL."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
