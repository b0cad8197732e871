"""Fetches one window from one endpoint and checks it whole (chain.md 3.9).

Two ways: seamed, for history, where only seams and blocks with logs are looked at, and linked,
for what may still change, where every header is read and logs are asked for by block hash.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from oracle.chain.answers import Quantity, number
from oracle.chain.calls import calls_of, settle
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.headers import header
from oracle.chain.log_query import LogQuery, Manner
from oracle.chain.logs import NO_TIME, UNKNOWN_TIME
from oracle.chain.ranges import LOOKED_AT, MOST_WITH_HEADERS
from oracle.chain.reader import Reader
from oracle.chain.repeating import Repeating
from oracle.chain.verifying.ascent import Ascent, Reached
from oracle.chain.verifying.callers import calls_of_blocks
from oracle.chain.verifying.ladder import Ladder
from oracle.chain.verifying.sealed import Sealed, chained, newest, sealed
from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log
from oracle.domain.verification import Level
from oracle.telemetry.verify_metrics import VERIFIED_BLOCKS, WINDOW_BLOCKS, WRONG_LOG_TIMES


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
class Order:
    """What is wanted of a window.

    `top` is the highest level to climb to. `with_headers`: every header, linked, and logs by the
    hash of their block. `whole`: prove every block, not only those with something to prove.
    """

    blocks: BlockRange
    with_headers: bool
    top: Level
    whole: bool = False
    manner: Manner = Manner()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class _Found:
    """What one endpoint showed of a range, before it is proven.

    `blocks` are those whose headers are known, in order: all of them where `is_whole`.
    """

    range: BlockRange
    blocks: list[Sealed]
    logs: list[Log]
    pinned: bool
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches windows of what one reader reads."""

    reader: Reader
    query: LogQuery
    ladder: Ladder

    def window(self, endpoint: Endpoint, order: Order) -> Window:
        """Return the window of these blocks; shorter only where the chain skipped the last ones.

        Headers are read after the logs, or the logs are asked for by the headers' hashes, of an
        endpoint that admits what it does not know: a fork in between shows (chain.md 3.9, L1).

        Raises:
            EndpointError: no whole and consistent answer.
        """
        _await(endpoint, order.blocks.last)
        if order.top >= Level.BLOOMED:
            self.ladder.scan(endpoint)
        if order.with_headers or self.reader.selectors:
            found = self._linked(endpoint, order)
        else:
            found = self._seamed(endpoint, order)
        return self._climbed(endpoint, order, found)

    def _seamed(self, endpoint: Endpoint, order: Order) -> _Found:
        """Read logs by range; of the headers the seams and what logs are compared with."""
        blocks = order.blocks
        logs = self.query.logs(endpoint, blocks, order.manner)
        wanted = {blocks.first, blocks.last}
        is_checked = order.top >= Level.SEAMED
        wanted |= {log.block for log in logs if is_checked or log.time < 0}
        if order.top >= Level.PROVEN:
            wanted |= _some_of(_silent(blocks, logs))
        known = [one for one in sealed(endpoint, sorted(wanted)) if one is not None]
        if len(known) < len(wanted):
            # Not there, or a height that the chain skipped: the links tell.
            few = BlockRange(blocks.first, min(blocks.last, blocks.first + MOST_WITH_HEADERS - 1))
            return self._linked(endpoint, replace(order, blocks=few))
        return _Found(blocks, known, logs, pinned=False, is_whole=len(known) == len(blocks))

    def _linked(self, endpoint: Endpoint, order: Order) -> _Found:
        """Read every header, its transactions where calls are watched, and the logs."""
        chain = self._chain(endpoint, order.blocks)
        last = chain[-1].block
        blocks = BlockRange(order.blocks.first, last.number)
        logs = None
        if order.with_headers:
            logs = self.query.pinned(endpoint, [one.block for one in chain])
        pinned = logs is not None
        if logs is None:
            logs = self.query.logs(endpoint, blocks, order.manner)
        if not pinned or not self.query.admits(endpoint):
            _see_again(endpoint, last)
        return _Found(blocks, chain, logs, pinned, is_whole=True)

    def _chain(self, endpoint: Endpoint, blocks: BlockRange) -> list[Sealed]:
        """Read headers; that of the newest block has just come with the look at the head."""
        full = bool(self.reader.selectors)
        seen = newest(endpoint)
        if seen is not None and not full and blocks.first == blocks.last == seen.block.number:
            return [seen]
        return chained(endpoint, blocks, full=full)

    def _climbed(self, endpoint: Endpoint, order: Order, found: _Found) -> Window:
        _compare(endpoint.name, found.logs, found.blocks)
        calls = self._watched(endpoint, found)
        ascent = Ascent(
            endpoint,
            found.blocks,
            found.logs,
            order.top,
            pinned=found.pinned,
            must=_to_prove(order, found),
            calls=calls,
        )
        reached = self.ladder.climb(ascent)
        logs = reached.all_logs() if reached.repaired else found.logs
        window = Window(
            found.range,
            found.blocks[0].block.parent_hash,
            found.blocks[-1].block,
            [one.block for one in found.blocks] if order.with_headers else [],
            logs,
            self._calls(endpoint, logs, calls or {}, reached),
            reached.level if found.is_whole else Level.SEAMED,
            endpoint.name,
            reached.proven,
        )
        _count(window, reached)
        return window

    def _watched(self, endpoint: Endpoint, found: _Found) -> dict[int, list[Call]] | None:
        selectors = self.reader.selectors
        return calls_of_blocks(endpoint, found.blocks, selectors) if selectors else None

    def _calls(
        self,
        endpoint: Endpoint,
        logs: list[Log],
        watched: Mapping[int, list[Call]],
        reached: Reached,
    ) -> list[Call]:
        """Add the calls that single logs are only understood with to the watched ones."""
        calls = [call for number in sorted(watched) for call in watched[number]]
        settle(endpoint, [call for call in calls if call.block not in reached.settled])
        needing = self.reader.call_topics
        needed = calls_of(endpoint, [log for log in logs if log.topics[0] in needing], self.reader)
        have = {call.tx_hash for call in calls}
        calls += [call for call in needed if call.tx_hash not in have]
        return sorted(calls, key=lambda call: (call.block, call.tx))


def _to_prove(order: Order, found: _Found) -> Collection[int]:
    """Return the blocks to be proven in any case."""
    if order.whole:
        return {one.block.number for one in found.blocks}
    if order.with_headers:
        return ()
    # Who forgot a block's receipts may have forgotten logs as well: then nothing is empty.
    silent = _silent(found.range, found.logs)
    held = [one.block.number for one in found.blocks if one.holds_transactions]
    return [number for number in held if number in silent][:1]


def _silent(blocks: BlockRange, logs: Sequence[Log]) -> range:
    """Return the heights before the first log: what is forgotten is the beginning."""
    return range(blocks.first, logs[0].block if logs else blocks.last + 1)


def _some_of(heights: range) -> set[int]:
    """Return a few of these heights, far apart: one of them may have transactions."""
    return set(heights[:: max(1, len(heights) // LOOKED_AT)])


def _await(endpoint: Endpoint, last: int) -> None:
    """Never ask an endpoint for a block above its own head: it would say that it is empty."""
    if endpoint.newest < last:
        answer = endpoint.call("eth_blockNumber", [], Quantity)
        endpoint.newest = number(endpoint.name, answer)
    if endpoint.newest < last:
        words = f"has blocks up to {endpoint.newest}, not {last}"
        raise EndpointError(endpoint.name, Kind.NOT_THERE, words)


def _see_again(endpoint: Endpoint, seen: BlockRef) -> None:
    """Make sure that a block is the same after the logs were read, of whatever block they were."""
    now = header(endpoint, seen.number)
    if now is None or now.hash != seen.hash:
        words = f"changed block {seen.number} while its logs were read"
        raise EndpointError(endpoint.name, Kind.NOT_THERE, words)


def _compare(endpoint: str, logs: Iterable[Log], blocks: Iterable[Sealed]) -> None:
    """Give each log its block's time; logs and headers must tell of the same blocks.

    The header's time holds: it is what all endpoints show, and what can be proven.
    """
    known = {one.block.number: one.block for one in blocks}
    wrong: list[str] = []
    for log in logs:
        block = known.get(log.block)
        if block is None:
            continue
        if log.block_hash != block.hash:
            hashes = f"logs {log.block_hash}, header {block.hash}"
            words = f"logs and header tell of two blocks {log.block}: {hashes}"
            raise EndpointError(endpoint, Kind.INVALID, words)
        if log.time not in {UNKNOWN_TIME, block.time}:
            said = "no time" if log.time == NO_TIME else log.time
            wrong.append(f"block {log.block}: logs {said}, header {block.time}")
        log.time = block.time
    if wrong:
        WRONG_LOG_TIMES.labels(endpoint).inc(len(wrong))
        _TIMES_DIFFER.warn(endpoint, "its logs have other times than its headers", wrong[0])


_TIMES_DIFFER = Repeating("log_times_differ")


def _count(window: Window, reached: Reached) -> None:
    WINDOW_BLOCKS.labels(window.endpoint).set(len(window.range))
    levels = Counter(reached.levels.values())
    levels[Level.SEAMED] += len(window.range) - len(reached.levels)
    for level, blocks in levels.items():
        VERIFIED_BLOCKS.labels(level.name.lower()).inc(blocks)
