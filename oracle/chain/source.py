"""The chain as services see it: the heads, and windows of verified logs in order."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import structlog

from oracle.chain.contract_checks import counted
from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.fetch.skipped_heights import block_up_to, linked_blocks
from oracle.chain.fetch.window_source import WindowSource
from oracle.chain.finality import Finality
from oracle.chain.head_tracker import HeadTracker
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import EventReader, part_of
from oracle.chain.segments.ordering import SegmentOrdering
from oracle.chain.segments.pending import Workers
from oracle.chain.segments.process_pool import SegmentExecutor
from oracle.chain.segments.segment_queue import LEAST_BLOCKS, SegmentQueue, verified_by
from oracle.chain.segments.staging import SegmentStage
from oracle.chain.start_check import check_endpoints
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.verification_policy import LevelShortfall, VerificationPolicy
from oracle.chain.witnesses import Witness, Witnesses
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import IngestScope, Level
from oracle.domain.ids import Hash
from oracle.rpc.endpoints.checkpoints import Checkpoint
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.logging_setup import Repeating

T = TypeVar("T")


class ChainSource:
    """Reads one chain through its endpoints; implements `ChainReader` of chain.protocols.

    Used by one thread at a time; its own threads only prefetch.
    """

    def __init__(
        self,
        endpoints: EndpointPool,
        reader: EventReader,
        finality_depth: int,
        clock: Callable[[], float] = time.monotonic,
        finality_seconds: int = 0,
    ) -> None:
        self.endpoints = self._endpoints = endpoints
        self._reader = reader
        self._finality_depth = finality_depth
        self._clock = clock
        self.tracker = HeadTracker(endpoints, Finality(finality_depth, finality_seconds), clock)
        self._outvoted = Repeating("endpoint_outvoted")
        self._witnesses = Witnesses(endpoints, clock)
        self._windows = WindowSource(endpoints, reader, VerificationPolicy(), Calibration(clock))
        self._ahead = SegmentQueue(
            lambda blocks: self._windows.window(blocks, with_headers=False),
            lambda blocks: self._windows.cut(blocks, with_headers=False),
        )
        # Queues of ranges that workers verify again, by level and endpoint.
        self._again: dict[tuple[Level, str | None], SegmentQueue] = {}
        self._least_blocks = LEAST_BLOCKS

    def prove_by(self, policy: VerificationPolicy, calibration: Calibration | None = None) -> None:
        """Verify windows up to the level of this policy.

        `calibration` holds what is known about the chain's headers. Until this is called, windows
        are verified as far as the chain allows, and nothing is known about its headers.
        """
        self._ahead.drop()
        calibration = Calibration(self._clock) if calibration is None else calibration
        self._windows = WindowSource(self._endpoints, self._reader, policy, calibration)

    def prepare_on(
        self,
        executor: SegmentExecutor,
        least_blocks: int = LEAST_BLOCKS,
        stage: SegmentStage | None = None,
    ) -> None:
        """Have workers prepare history while at least `min_worker_blocks` blocks of it are left.

        Call this after `set_verification`. The source closes the workers. `stage` stores prepared
        segments, so that they survive a crash.
        """
        self._ahead.drop()
        self._again.clear()
        ordering = SegmentOrdering(executor.plan, self._endpoints, self._windows, executor.workers)
        self._ahead.workers = Workers(executor, ordering, stage)
        self._least_blocks = least_blocks

    def hold(self, number: int, block_hash: Hash, source: str) -> None:
        """Use only endpoints that show this block at this height; `source` names who set it."""
        self._endpoints.hold(Checkpoint(number, block_hash, source))

    def check(self) -> None:
        """Check the chain of every endpoint and the code of the contracts; see check_endpoints."""
        check_endpoints(self._endpoints, self._reader)

    def close(self) -> None:
        """Stop prefetching, terminate the workers and close the connections."""
        self._ahead.drop()
        if self._ahead.workers is not None:
            self._ahead.workers.executor.close()
        self._endpoints.close()

    def chain_id(self) -> int:
        """Return the chain id that every endpoint must show before it is used."""
        return self._endpoints.chain_id

    def genesis_hash(self, known: Hash | None = None) -> Hash:
        """Return the hash of block 0; `known_hash` if any endpoint shows it.

        Raises:
            TransientError: no endpoint answers now, or too few show another hash.
        """
        if known is None:
            genesis = self.header(0)
            shown = [] if genesis is None else [genesis.hash]
        else:
            shown = [one.block.hash for one in self.witness(0) if one.block is not None]
        if known in shown:
            return known
        if not shown:
            raise RpcError("every endpoint", ErrorKind.INVALID, "no block 0")
        if known is not None and len(shown) < len(self._endpoints):
            words = f"shows block 0 as {shown[0]}, the database as {known}; others are silent"
            raise RpcError("an endpoint", ErrorKind.INVALID, words)
        return shown[0]

    def heads(self) -> Heads:
        """Return newest, safe and final block; `final` never goes down.

        See HeadTracker.

        Raises:
            TransientError: no endpoint is up to date with the known final block.
            InputError: all endpoints are on another chain, and were from the start.
        """
        heads = self.tracker.heads()
        self._windows.keep_newest(heads.latest)
        return heads

    def header(self, number: int) -> BlockRef | None:
        """Return the block at this height, or None; see `ChainReader`."""
        return self._endpoints.use(lambda endpoint: endpoint.header(number))

    def header_up_to(self, height: int) -> BlockRef:
        """Return the block at this height, or the last one before a skipped height."""
        return self._endpoints.use(lambda endpoint: block_up_to(endpoint, height))

    def headers(self, blocks: BlockRange) -> list[BlockRef]:
        """Fetch every block of the range again, linked by parent hash; see `ChainReader`."""
        return self._endpoints.use(lambda endpoint: linked_blocks(endpoint, blocks))

    def window(
        self, blocks: BlockRange, *, with_headers: bool, most: int | None = None
    ) -> BlockWindow:
        """Return a window, see chain.protocols; blocks that are not final are fetched again.

        Raises:
            TransientError: no endpoint gives a complete and consistent answer now.
            InputError: an endpoint is on another chain.
        """
        if not with_headers:
            is_much = len(blocks) >= self._least_blocks
            return self._ahead.take(blocks, most, elsewhere=is_much)
        self._ahead.drop()
        if most is not None:
            blocks = BlockRange(blocks.first, min(blocks.last, blocks.first + most - 1))
        part = self._windows.cut(blocks, with_headers=True)
        return self._windows.window(part, with_headers=True)

    def verified(
        self,
        blocks: BlockRange,
        level: Level,
        endpoint: str | None = None,
        *,
        than: str | None = None,
        most: int | None = None,
    ) -> BlockWindow:
        """Fetch a range again from one endpoint, and verify it; see `ChainReader`."""
        if most is None:
            return self._windows.verified(blocks, level, endpoint, than)
        again = self._again.get((level, endpoint))
        if self._ahead.workers is not None and len(blocks) >= self._least_blocks:
            again = again or verified_by(self._ahead.workers, level, endpoint)
            self._again[level, endpoint] = again
        if again is not None:
            return again.take(blocks, most, elsewhere=True)
        part = BlockRange(blocks.first, min(blocks.last, blocks.first + most - 1))
        return self._windows.verified(part, level, endpoint, than)

    def witness(
        self, number: int, than: str | None = None, *, spares_slow: bool = False
    ) -> list[Witness]:
        """Query the endpoints for their blocks at this height; see `ChainReader`."""
        return self._witnesses.all(number, than, spares_slow=spares_slow)

    def second(self, number: int, than: str) -> tuple[str, BlockRef] | None:
        """Return an endpoint of another provider, and its block at this height, or None.

        The endpoints are queried in turn until one answers. A silent one is skipped for a minute
        or longer, and one that took over two seconds for thirty times as long as it took. If there
        is only one provider, another endpoint of it is queried.
        """
        return self._witnesses.second(number, than)

    def wait_for_slow_witnesses(self) -> None:
        """Query slow endpoints each time in `fetch_second_witness`, however long they take."""
        self._witnesses.is_patient = True

    def is_linked(self, endpoint: str, blocks: BlockRange) -> bool:
        """Return whether the headers of the range link; see `WindowSource.has_linked_headers`."""
        return self._windows.is_linked(endpoint, blocks)

    def deprioritise(self, endpoint: str, why: str, newest: int) -> None:
        """Move an outvoted endpoint behind the others for a while.

        `newest_number` is the highest block of the endpoints that outvoted it.
        """
        self._ahead.drop()
        self.tracker.fall_back(newest)
        self._outvoted.warn(endpoint, why)
        self._endpoints.restore_endpoints_after_outvote(endpoint)
        self._endpoints.deprioritise(endpoint, "fork")

    def blame(self, endpoint: str, why: str) -> None:
        """Move the endpoint behind the others for a while: it left out, invented or changed logs.

        An endpoint that is no longer configured, but was in an earlier run, is only logged.
        """
        self._ahead.drop()
        structlog.get_logger().warning("endpoint_contradicted", endpoint=endpoint, reason=why)
        if endpoint in self.endpoint_names():
            self._endpoints.deprioritise(endpoint, "logs")

    def quarantine(self, endpoint: str, why: str, final: tuple[int, Hash]) -> None:
        """Do not use the endpoint until it shows our final block of this height and hash."""
        self._ahead.drop()
        self.tracker.fall_back()
        self._endpoints.restore_endpoints_after_outvote(endpoint)
        self._endpoints.quarantine(endpoint, why, Checkpoint(*final, "our database"))

    def convict(self, endpoint: str, why: str) -> None:
        """Do not use the endpoint until an operator readmits it; see `ChainReader`."""
        self._endpoints.listed.convict(endpoint, why)

    def proven_wrong(self) -> Mapping[str, str]:
        """Return the endpoints proven wrong and not readmitted since, by name, with the proof."""
        return self._endpoints.listed.proven_wrong()

    def is_vouched(self) -> bool:
        """Return whether, on this chain, receipts can be proven by the block hash."""
        calibration = self._windows.calibration
        return calibration.has(HeaderFeature.HEADER) and calibration.has(HeaderFeature.RECEIPTS)

    def endpoint_names(self) -> tuple[str, ...]:
        """Return the names of the endpoints, the preferred one first."""
        return tuple(endpoint.name for endpoint in self._endpoints)

    def providers(self) -> Mapping[str, str]:
        """Return the provider of each endpoint, by the endpoint's name."""
        return self._endpoints.providers()

    def level_allowed(self) -> Level:
        """Return the highest level that settings and calibration allow now; sends no request."""
        return self._windows.allowed()

    def calibrate(self) -> None:
        """Sample which features of the chain's headers are valid, unless that is known."""
        self._windows.calibrate()

    def level_of_history(self) -> Level:
        """Return the level that every historical block reaches now; sends no request."""
        return self._windows.of_history()

    def shortfall(self) -> LevelShortfall | None:
        """Return why history cannot reach the requested level, or None; sends no request."""
        return self._windows.shortfall()

    def narrowed(self, scope: IngestScope) -> "ChainSource":
        """Return a source that is limited to this scope; it uses the same endpoints."""
        part = part_of(self._reader, scope)
        narrow = type(self)(self._endpoints, part, self._finality_depth, self._clock)
        narrow.prove_by(self._windows.policy, self._windows.calibration)
        return narrow

    def counted(self, block_hash: Hash) -> dict[str, int]:
        """Return the contracts' counters at the end of this block, by name; see `contract_checks`.

        Raises:
            TransientError: no endpoint answers, or none knows the block.
        """
        return self._endpoints.use(lambda endpoint: counted(endpoint, self._reader, block_hash))

    def with_window(
        self, blocks: BlockRange, ask: Callable[[Endpoint, BlockWindow], T]
    ) -> tuple[int, T]:
        """Fetch a window from `blocks.first` on, and run `query` on the endpoint that gave it.

        Return the number of the window's last block, and the result of `query`.

        Raises:
            TransientError: no endpoint gives a complete and consistent answer now.
        """

        def asked(endpoint: Endpoint) -> tuple[int, T]:
            window = self._windows.of(endpoint, self._windows.cut(blocks, with_headers=True))
            return window.last.number, ask(endpoint, window)

        return self._endpoints.use(asked)
