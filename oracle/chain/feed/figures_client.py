"""Fetches a relay's own figures of every node, with the time at which they were computed.

See docs/reference/crynux-relay.md#figures.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from oracle.chain.feed.feed_client import FeedAnswerError
from oracle.domain.ids import Address
from oracle.rpc.transport import BoundedHttp, shown

_PAGE, _MAX_PAGES = 100, 2_000
_MOST_BYTES = 4 << 20
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class NodeFigure:
    """The relay's figures of one node: `quality` is (Q_long / 10) * H, `weight` for selection.

    The relay computed them at `measured_at` by the auditor's clock, within `max_error_seconds`.
    """

    node: Address
    quality: float
    stake_score: float
    weight: float
    at: float
    slack: float

    @property
    def is_excluded(self) -> bool:
        """Whether the node gets no task although it has stake and score."""
        return self.weight == 0 and self.quality > 0 and self.stake_score > 0


class FiguresClient:
    """The client of a relay's node list. Its URL may hold a key: only host and port are shown."""

    def __init__(
        self, url: str, setting: str, timeout_seconds: float, clock: Callable[[], float]
    ) -> None:
        """Create the client; `setting_name` is used in error messages, `clock` is monotonic."""
        self.name = shown(url, ("http", "https"), setting)
        self._http = BoundedHttp(url, name=self.name, max_bytes=_MOST_BYTES)
        self._seconds = timeout_seconds
        self._clock = clock

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(self) -> dict[Address, NodeFigure]:
        """Return every node's figures, page by page, until a page is empty.

        Raises:
            RpcError: no answer, or not in time.
            FeedResponseError: a response that is not a list of figures, or a list without an end.
        """
        found: dict[Address, NodeFigure] = {}
        previous: list[Address] = []
        for page in range(1, _MAX_PAGES + 1):
            asked, real = self._clock(), time.monotonic()
            rows = self._page(page)
            if not rows:
                return found
            slack = (time.monotonic() - real) / 2
            moment = (asked + self._clock()) / 2
            figures = [self._figure(row, moment, slack) for row in rows]
            nodes = [figure.node for figure in figures]
            if nodes == previous:
                raise FeedAnswerError(
                    f"{self.name}: page {page} of its nodes repeats the one before"
                )
            previous = nodes
            found |= {figure.node: figure for figure in figures}
        raise FeedAnswerError(f"{self.name}: its list of nodes has no end in {_MAX_PAGES} pages")

    def _page(self, page: int) -> list[object]:
        path = f"/v2/network/nodes/data?page={page}&page_size={_PAGE}"
        answer = self._http.get(path, self._seconds, self._seconds)
        if answer.status != HTTPStatus.OK or answer.is_cut:
            raise FeedAnswerError(f"{self.name}: no list of nodes: HTTP status {answer.status}")
        try:
            said = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise FeedAnswerError(f"{self.name}: its list of nodes is no JSON") from None
        rows = said.get("data") if isinstance(said, dict) else None
        if not isinstance(rows, list):
            raise FeedAnswerError(f"{self.name}: its list of nodes is no list")
        return rows

    def _figure(self, row: object, moment: float, slack: float) -> NodeFigure:
        if not isinstance(row, Mapping) or not _ADDRESS.fullmatch(str(row.get("address"))):
            raise FeedAnswerError(f"{self.name}: one of its nodes has no address")
        quality, stake_score, weight = (self._number(row.get(name)) for name in _NUMBERS)
        node = Address(str(row["address"]).lower())
        return NodeFigure(node, quality, stake_score, weight, moment, slack)

    def _number(self, said: object) -> float:
        if not isinstance(said, int | float) or isinstance(said, bool) or not math.isfinite(said):
            raise FeedAnswerError(f"{self.name}: one of its nodes has no figures")
        return float(said)


_NUMBERS = ("qos_score", "staking_score", "prob_weight")
