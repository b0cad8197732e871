"""Fetches and verifies one window from one endpoint (docs/explanation/verification.md).

There are two methods. By range, only parent links and the headers of blocks with logs are read;
that serves history of a chain whose headers prove nothing. Linked, every header is read; the logs
of non-final blocks are then requested by block hash, and those of history by range.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from oracle.chain.fetch.log_query import LogQuery
from oracle.chain.fetch.log_times import fill_times
from oracle.chain.fetch.sampled_heights import before_logs, looked_at_again, some_of
from oracle.chain.fetch.skipped_heights import await_height, linked_up_to
from oracle.chain.profiles.event_reader import Decoded, EventReader
from oracle.chain.verification.calibration import HeaderFeature
from oracle.chain.verification.full_headers import FullHeader, full_headers_of, newest
from oracle.chain.verification.sender_check import SenderCheck
from oracle.chain.verification.transaction_check import calls_of_blocks
from oracle.chain.verification.verifier import WindowVerifier
from oracle.chain.verification.window_check import VerifiedWindow
from oracle.chain.watched_calls import calls_of, settle
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import Level
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.range_sizer import MOST_LINKED, MOST_WITH_HEADERS
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import VERIFIED_BLOCKS, WINDOW_BLOCKS
from oracle.telemetry.tracing import span


@dataclass(frozen=True, slots=True)
class BlockWindow:
    """The relevant logs and calls of a range of blocks, as one endpoint reports them.

    Logs are in order of (block, index). `first_parent` is the parent hash of the first block,
    which links the window to the one before. `headers` holds every block of the range, or is
    empty.
    """

    range: BlockRange
    first_parent: Hash
    last: BlockRef
    headers: list[BlockRef]
    logs: Sequence[Log]
    calls: list[Call]
    # The level that every block of the range has reached; some may have reached more.
    level: Level = Level.SEAMED
    # The shown name of the endpoint that gave the window.
    endpoint: str = ""
    # The blocks whose logs and calls were proven (Level.PROVEN), in order, whatever `level` is.
    proven: tuple[int, ...] = ()
    # The events of its logs and calls; None if they are not decoded yet.
    decoded: Decoded | None = None


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """The request for a window.

    `max_level` is the highest level to verify up to. `with_headers`: fetch every header, linked,
    and logs by block hash. `proves_all_blocks`: prove every block, not only those with logs or
    calls. `divides_unknown`: request smaller ranges if the endpoint does not understand the
    request.
    """

    blocks: BlockRange
    with_headers: bool
    top: Level
    whole: bool = False
    divides_unknown: bool = True


@dataclass(frozen=True, slots=True)
class WindowFetcher:
    """Fetches windows of the logs and calls of one reader."""

    reader: EventReader
    query: LogQuery
    verifier: WindowVerifier
    # Called with an endpoint, the logs that it gave, and the proven logs that replaced them.
    weigh: Callable[[Endpoint, Sequence[Log], Sequence[Log]], None]

    def window(self, endpoint: Endpoint, order: WindowRequest) -> BlockWindow:
        """Return the window of these blocks; shorter only if the chain skipped the last heights.

        If the chain skipped all heights, the window ends with the next block, which proves it.

        Headers are read after the logs, or the logs are requested by the headers' hashes from an
        endpoint that returns an error for unknown blocks, so a fork in between is detected
        (docs/explanation/verification.md#l1).

        Raises:
            RpcError: no complete and consistent answer.
        """
        ids = {"endpoint": endpoint.name, "first": order.blocks.first, "last": order.blocks.last}
        with span("fetch", **ids):
            await_height(endpoint, order.blocks.last)
            if order.top >= Level.BLOOMED:
                self.verifier.sampler.scan(endpoint)
            if order.with_headers or self.reads_headers(order.top):
                fetched = self._linked(endpoint, order)
            else:
                fetched = self._seamed(endpoint, order)
        with span("verify", **ids) as traced:
            window = self._verify(endpoint, order, fetched)
            traced.did({"level": window.level.name.lower(), "last_hash": window.last.hash})
        return window

    def calibrate(self, endpoint: Endpoint) -> None:
        """Sample which header features are valid, before any window is read.

        Raises:
            RpcError: the endpoint does not return its newest headers.
        """
        await_height(endpoint, 0)
        self.verifier.sampler.scan(endpoint)

    def reads_headers(self, top: Level) -> bool:
        """Return whether this level needs every header of history, as far as is known."""
        return bool(self.reader.selectors) or self.verifier.of_history(top) >= Level.BLOOMED

    def _seamed(self, endpoint: Endpoint, order: WindowRequest) -> VerifiedWindow:
        """Fetch logs by range, and only the headers needed to check links and logs.

        In a sample of windows, the logs of some blocks are fetched by hash as well. An endpoint
        whose ranges were found to omit logs is not queried by range again.
        """
        blocks, limits = order.blocks, endpoint.limits
        if limits.omits:
            return self._linked(endpoint, _few(order))
        logs = self.query.logs(endpoint, blocks, divides_unknown=order.divides_unknown)
        sample = looked_at_again(blocks, logs) if order.top and limits.is_sample() else set()
        wanted = {blocks.first, blocks.last}
        is_checked = order.top >= Level.SEAMED
        wanted |= {log.block for log in logs if is_checked or log.time < 0}
        if order.top >= Level.PROVEN:
            wanted |= some_of(before_logs(blocks, logs))
        wanted |= sample
        known = [one for one in full_headers_of(endpoint, sorted(wanted)) if one is not None]
        if len(known) < len(wanted):
            # The block is missing, or the chain skipped the height: the parent links show which.
            return self._linked(endpoint, _few(order))
        sampled = [one.block for one in known if one.block.number in sample]
        fill_times(endpoint.name, logs, known)
        if sampled and self.query.is_outside(endpoint, blocks, sampled, logs):
            return self._linked(endpoint, _few(order))
        return VerifiedWindow(
            endpoint,
            blocks,
            known,
            logs,
            order.top,
            pinned=False,
            is_whole=len(known) == len(blocks),
        )

    def _linked(self, endpoint: Endpoint, order: WindowRequest) -> VerifiedWindow:
        """Fetch every header, its transactions if calls are watched, and the logs."""
        most = MOST_WITH_HEADERS if order.with_headers or self.reader.selectors else MOST_LINKED
        first = order.blocks.first
        # The range may have been sized before it was known that all headers are needed.
        wanted = BlockRange(first, min(order.blocks.last, first + most - 1))
        chain = self._chain(endpoint, wanted)
        last = chain[-1].block
        # Heights that were proven to have no block have no logs.
        blocks = BlockRange(chain[0].block.number, last.number)
        if not order.with_headers and self.verifier.reads_every_receipt(
            endpoint, chain, order.top
        ):
            return VerifiedWindow(
                endpoint,
                BlockRange(first, last.number),
                chain,
                None,
                order.top,
                pinned=True,
                is_whole=True,
            )
        logs = None
        if order.with_headers or endpoint.limits.omits:
            is_proven = order.top >= Level.PROVEN and self.verifier.calibration.has(
                HeaderFeature.RECEIPTS
            )
            asked = [one.block for one in chain]
            logs = self.query.pinned(endpoint, asked, is_proof_to_come=is_proven)
        pinned = logs is not None
        if logs is None:
            logs = self.query.logs(endpoint, blocks, divides_unknown=order.divides_unknown)
        if not pinned or not self.query.is_inside(endpoint):
            _see_again(endpoint, last)
        return VerifiedWindow(
            endpoint,
            BlockRange(first, last.number),
            chain,
            logs,
            order.top,
            pinned,
            is_whole=True,
        )

    def _chain(self, endpoint: Endpoint, blocks: BlockRange) -> list[FullHeader]:
        """Fetch linked headers; reuse the newest header of the last head check if it is enough."""
        full = bool(self.reader.selectors)
        seen = newest(endpoint)
        if seen is not None and not full and blocks.first == blocks.last == seen.block.number:
            return [seen]
        return linked_up_to(endpoint, blocks, self.verifier.calibration, full=full)

    def _verify(
        self, endpoint: Endpoint, order: WindowRequest, fetched: VerifiedWindow
    ) -> BlockWindow:
        fill_times(endpoint.name, fetched.given or (), fetched.blocks)
        senders = SenderCheck(endpoint.name, self.verifier.calibration)
        fetched.calls = self._watched(endpoint, fetched, senders)
        fetched.must = _to_prove(order, fetched)
        self.verifier.verify(fetched)
        logs = fetched.given
        if logs is None or fetched.repaired:
            logs = fetched.all_logs()
        calls = _settled(fetched)
        calls += self._needed(endpoint, logs, calls, senders)
        fetched.leave_unproven(senders.unproven)
        if fetched.given is None:
            # The time for headers and receipts shows nothing about the range limit of logs.
            endpoint.limits.sizer.answered(fetched.range, len(logs), 0.0)
        elif fetched.repaired:
            self.weigh(endpoint, fetched.given, logs)
        window = BlockWindow(
            fetched.range,
            fetched.blocks[0].block.parent_hash,
            fetched.blocks[-1].block,
            [header.block for header in fetched.blocks] if order.with_headers else [],
            logs,
            sorted(calls, key=lambda call: (call.block, call.tx)),
            fetched.level if fetched.is_whole else Level.SEAMED,
            endpoint.name,
            fetched.proven,
        )
        _count(window, fetched)
        return window

    def _watched(
        self, endpoint: Endpoint, fetched: VerifiedWindow, senders: SenderCheck
    ) -> dict[int, list[Call]] | None:
        selectors = self.reader.selectors
        if not selectors:
            return None
        return calls_of_blocks(endpoint, fetched.blocks, selectors, senders.see)

    def _needed(
        self, endpoint: Endpoint, logs: list[Log], have: list[Call], senders: SenderCheck
    ) -> list[Call]:
        """Return the calls needed to decode single logs, except those already fetched."""
        needing, known = self.reader.call_topics, {call.tx_hash for call in have}
        chosen = [log for log in logs if log.topics[0] in needing]
        needed = calls_of(endpoint, chosen, self.reader, senders.see)
        return [call for call in needed if call.tx_hash not in known]


def _settled(fetched: VerifiedWindow) -> list[Call]:
    """Return the watched calls, each with whether it succeeded."""
    watched = fetched.calls or {}
    calls = [call for number in sorted(watched) for call in watched[number]]
    settle(fetched.endpoint, [call for call in calls if call.block not in fetched.settled])
    return calls


def _to_prove(order: WindowRequest, fetched: VerifiedWindow) -> Collection[int]:
    """Return the blocks that must be proven, even without logs or calls."""
    if order.whole:
        return {header.block.number for header in fetched.blocks}
    if order.with_headers or fetched.given is None:
        return ()
    # An endpoint without a block's receipts may lack its logs too, so it is not proven empty.
    silent = before_logs(fetched.range, fetched.given)
    held = [header.block.number for header in fetched.blocks if header.holds_transactions]
    return [number for number in held if number in silent][:1]


def _few(order: WindowRequest) -> WindowRequest:
    """Return the request for its first blocks, as many as are read with all headers at once."""
    first, last = order.blocks.first, order.blocks.last
    return replace(order, blocks=BlockRange(first, min(last, first + MOST_WITH_HEADERS - 1)))


def _see_again(endpoint: Endpoint, seen: BlockRef) -> None:
    """Check that a block has the same hash after its logs were read, or raise RpcError."""
    now = endpoint.header(seen.number)
    if now is None or now.hash != seen.hash:
        words = f"changed block {seen.number} while its logs were read"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)


def _count(window: BlockWindow, fetched: VerifiedWindow) -> None:
    WINDOW_BLOCKS.labels(window.endpoint).set(len(window.range))
    levels = Counter(fetched.levels.values())
    levels[Level.SEAMED] += len(window.range) - len(fetched.levels)
    for level, blocks in levels.items():
        VERIFIED_BLOCKS.labels(level.name.lower()).inc(blocks)
