"""Fetches the figures that a relay computed for every node, and when it computed them.

See docs/reference/crynux-relay.md#figures.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from oracle.chain.feed.feed_client import FeedResponseError
from oracle.domain.ids import Address
from oracle.rpc.transport import BoundedHttp, redact_url

_PAGE_SIZE, _MAX_PAGES = 100, 2_000
_MAX_BYTES = 4 << 20
_ADDRESS_PATTERN = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class RelayFigures:
    """The relay's figures of one node: `quality` is (Q_long / 10) * H, `weight` for selection.

    The relay computed them at `measured_at` by the auditor's clock, within `max_error_seconds`.
    """

    node: Address
    quality: float
    stake_score: float
    weight: float
    measured_at: float
    max_error_seconds: float

    @property
    def is_excluded(self) -> bool:
        """Whether the node gets no task although it has stake and score."""
        return self.weight == 0 and self.quality > 0 and self.stake_score > 0


class FiguresClient:
    """A client of a relay's node list. The URL may contain a key, so only its host is shown."""

    def __init__(
        self, url: str, setting_name: str, timeout_seconds: float, clock: Callable[[], float]
    ) -> None:
        """Create the client; `setting_name` is used in error messages, `clock` is monotonic."""
        self.name = redact_url(url, ("http", "https"), setting_name)
        self._http = BoundedHttp(url, name=self.name, max_bytes=_MAX_BYTES)
        self._timeout_seconds = timeout_seconds
        self._clock = clock

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def fetch_figures(self) -> dict[Address, RelayFigures]:
        """Return every node's figures, page by page, until a page is empty.

        Raises:
            RpcError: the relay does not answer, or not in time.
            FeedResponseError: a response is not a list of figures, or the list does not end.
        """
        figure_by_node: dict[Address, RelayFigures] = {}
        previous_nodes: list[Address] = []
        for page_number in range(1, _MAX_PAGES + 1):
            requested_at, monotonic_start = self._clock(), time.monotonic()
            rows = self._fetch_page(page_number)
            if not rows:
                return figure_by_node
            max_error_seconds = (time.monotonic() - monotonic_start) / 2
            measured_at = (requested_at + self._clock()) / 2
            figures = [self._parse_figure(row, measured_at, max_error_seconds) for row in rows]
            nodes = [figure.node for figure in figures]
            if nodes == previous_nodes:
                raise FeedResponseError(
                    f"{self.name}: page {page_number} of the node list repeats the previous page"
                )
            previous_nodes = nodes
            figure_by_node |= {figure.node: figure for figure in figures}
        raise FeedResponseError(f"{self.name}: the node list has more than {_MAX_PAGES} pages")

    def _fetch_page(self, page_number: int) -> list[object]:
        path = f"/v2/network/nodes/data?page={page_number}&page_size={_PAGE_SIZE}"
        response = self._http.get(path, self._timeout_seconds, self._timeout_seconds)
        if response.status != HTTPStatus.OK or response.is_truncated:
            raise FeedResponseError(
                f"{self.name}: no complete node list: HTTP status {response.status}"
            )
        try:
            document = json.loads(response.body)
        except (ValueError, RecursionError):
            raise FeedResponseError(f"{self.name}: the node list is not JSON") from None
        rows = document.get("data") if isinstance(document, dict) else None
        if not isinstance(rows, list):
            raise FeedResponseError(f"{self.name}: the node list contains no list `data`")
        return rows

    def _parse_figure(
        self, row: object, measured_at: float, max_error_seconds: float
    ) -> RelayFigures:
        if not isinstance(row, Mapping) or not _ADDRESS_PATTERN.fullmatch(str(row.get("address"))):
            raise FeedResponseError(f"{self.name}: a node of the list has no valid address")
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
