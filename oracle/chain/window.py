"""Fetches one window from one endpoint and checks it whole (chain.md 3.9, levels L0 and L1)."""

from collections.abc import Iterable
from dataclasses import dataclass

from oracle.chain.answers import Quantity, number
from oracle.chain.calls import calls_of
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.headers import header, headers, linked
from oracle.chain.log_query import LogQuery
from oracle.chain.logs import UNKNOWN_TIME
from oracle.chain.reader import Reader
from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log
from oracle.domain.verification import Level


@dataclass(frozen=True, slots=True)
class Window:
    """Everything of a range of blocks that concerns us, from one endpoint's view.

    Logs stand in order of (block, index). `first_parent` is the parent of the first block: the
    seam to the window before. `headers` holds every block of the range, or nothing.
    """

    range: BlockRange
    first_parent: Hash
    last: BlockRef
    headers: list[BlockRef]
    logs: list[Log]
    calls: list[Call]
    # What every block of the range has reached at least; single ones may have reached more.
    level: Level = Level.SEAMED
    # Who gave it: the shown name of the endpoint.
    endpoint: str = ""
    # The blocks whose logs and calls were proven (Level.PROVEN), in order, whatever `level` is.
    proven: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches windows of one reader's logs."""

    reader: Reader
    query: LogQuery

    def window(self, endpoint: Endpoint, blocks: BlockRange, *, with_headers: bool) -> Window:
        """Return the window of exactly these blocks.

        The headers are read after the logs: a fork in between shows in the hashes of the logs,
        or where there were none, in that of the last block, which was looked at before. Without
        `with_headers`, for blocks that are final, only the seams are compared, and the blocks
        whose logs do not tell their time.

        Raises:
            EndpointError: no whole and consistent answer.
        """
        self._await(endpoint, blocks.last)
        before = _seen(endpoint, blocks.last) if with_headers else None
        logs = self.query.logs(endpoint, blocks)
        known = self._headers(endpoint, blocks, logs, with_headers=with_headers)
        _compare(endpoint.name, logs, known)
        if before is not None and before.hash != known[blocks.last].hash:
            words = f"changed block {blocks.last} while its logs were read"
            raise EndpointError(endpoint.name, Kind.NOT_THERE, words)
        needing = self.reader.call_topics
        return Window(
            blocks,
            known[blocks.first].parent_hash,
            known[blocks.last],
            [known[n] for n in range(blocks.first, blocks.last + 1)] if with_headers else [],
            logs,
            calls_of(endpoint, [log for log in logs if log.topics[0] in needing], self.reader),
            endpoint=endpoint.name,
        )

    def _await(self, endpoint: Endpoint, last: int) -> None:
        """Never ask an endpoint for a block above its own head: it would say that it is empty."""
        if endpoint.newest < last:
            answer = endpoint.call("eth_blockNumber", [], Quantity)
            endpoint.newest = number(endpoint.name, answer)
        if endpoint.newest < last:
            words = f"has blocks up to {endpoint.newest}, not {last}"
            raise EndpointError(endpoint.name, Kind.NOT_THERE, words)

    def _headers(
        self, endpoint: Endpoint, blocks: BlockRange, logs: list[Log], *, with_headers: bool
    ) -> dict[int, BlockRef]:
        if with_headers:
            return {block.number: block for block in linked(endpoint, blocks)}
        wanted = {blocks.first, blocks.last}
        wanted |= {log.block for log in logs if log.time == UNKNOWN_TIME}
        numbers = sorted(wanted)
        found = dict(zip(numbers, headers(endpoint, numbers), strict=True))
        known = {place: block for place, block in found.items() if block is not None}
        if len(known) < len(found):
            missing = min(found.keys() - known.keys())
            raise EndpointError(endpoint.name, Kind.NOT_THERE, f"no block {missing}")
        return known


def _seen(endpoint: Endpoint, number: int) -> BlockRef | None:
    """Return the block as the endpoint showed it before its logs are read."""
    # A look at the heads is good for the window right after it, not for a second try.
    head, endpoint.head = endpoint.head, None
    if head is not None and head.number == number:
        return head
    return header(endpoint, number)


def _compare(endpoint: str, logs: Iterable[Log], known: dict[int, BlockRef]) -> None:
    """Give each log its block's time; logs and headers must tell of the same blocks."""
    for log in logs:
        block = known.get(log.block)
        if block is None:
            continue
        if log.time == UNKNOWN_TIME:
            log.time = block.time
        if (log.block_hash, log.time) != (block.hash, block.time):
            words = f"logs and header tell of two blocks {log.block}"
            raise EndpointError(endpoint, Kind.INVALID, words)
