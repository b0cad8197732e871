"""Parses the filter of `eth_getLogs` and selects the matching logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from devnet.fakechain.block_json import Json
from devnet.fakechain.requests import FakeRpcError

_BOTH_GIVEN_TEXT = "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other"


@dataclass(frozen=True, slots=True)
class FakeLogFilter:
    """Either a `block_hash`, or a range of numbers or tags; None matches any address or topic."""

    first: str
    last: str
    block_hash: str | None
    addresses: frozenset[str] | None
    topics: tuple[frozenset[str] | None, ...]

    @classmethod
    def parse(cls, filter_json: Mapping[str, Any]) -> Self:
        """Parse the filter parameter of `eth_getLogs`.

        Raises:
            FakeRpcError: both a block hash and a range are given.
        """
        if "blockHash" in filter_json and ("fromBlock" in filter_json or "toBlock" in filter_json):
            raise FakeRpcError(-32602, _BOTH_GIVEN_TEXT)
        return cls(
            filter_json.get("fromBlock") or "latest",
            filter_json.get("toBlock") or "latest",
            filter_json.get("blockHash"),
            _parse_accepted_values(filter_json.get("address")),
            tuple(_parse_accepted_values(topic) for topic in filter_json.get("topics") or ()),
        )

    def select_logs(self, logs: Sequence[Json]) -> list[Json]:
        """Return the logs that match the filter."""
        return [log for log in logs if self._matches(log)]

    def _matches(self, log: Json) -> bool:
        if self.addresses is not None and log["address"].lower() not in self.addresses:
            return False
        topics = log["topics"]
        return len(topics) >= len(self.topics) and all(
            accepted is None or topic.lower() in accepted
            for topic, accepted in zip(topics, self.topics, strict=False)
        )


def _parse_accepted_values(filter_value: str | Sequence[str] | None) -> frozenset[str] | None:
    """Parse one position of a filter; null and an empty list match anything."""
    if not filter_value:
        return None
    return frozenset(
        value.lower()
        for value in ([filter_value] if isinstance(filter_value, str) else filter_value)
    )
