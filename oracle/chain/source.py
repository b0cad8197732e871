"""The chain source: all other code reads heads and verified windows through it."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from oracle.chain.contract_checks import fetch_contract_counters
from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.fetch.skipped_heights import fetch_block_at_or_below, fetch_linked_blocks
from oracle.chain.fetch.window_source import WindowSource
from oracle.chain.head_tracker import HeadClaims, HeadRefutation, HeadTracker
from oracle.chain.heads import Finality, Heads
from oracle.chain.profiles.event_reader import EventReader, restrict_reader_to_scope
from oracle.chain.segments.ordering import SegmentCoordinator
from oracle.chain.segments.pending import SegmentWorkers
from oracle.chain.segments.process_pool import SegmentExecutor
from oracle.chain.segments.segment_queue import (
    MIN_WORKER_BLOCKS,
    SegmentQueue,
    build_verification_queue,
)
from oracle.chain.segments.staging import SegmentStage
from oracle.chain.start_check import check_endpoints
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.verification_policy import LevelShortfall, VerificationPolicy
from oracle.chain.witnesses import Witness, WitnessFetcher
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import IngestScope, VerificationLevel
from oracle.domain.ids import Hash
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import Checkpoint
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import RepeatedWarning

T = TypeVar("T")


class ChainSource:
    """Reads one chain through its endpoints.

    Every method that sends a request may raise TransientError; the caller retries at the next
    tick. Use the object from one thread at a time; its own threads only prefetch.
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
        self._outvoted_warning = RepeatedWarning("endpoint_outvoted")
        self._refuted_head_warning = RepeatedWarning("endpoint_head_refuted")
        self._witnesses = WitnessFetcher(endpoints, clock)
        self._head_claims = HeadClaims(endpoints, self._witnesses, clock)
        self._window_source = WindowSource(
            endpoints, reader, VerificationPolicy(), Calibration(clock)
        )
        self._read_ahead_queue = SegmentQueue(
            lambda blocks: self._window_source.fetch_window(blocks, with_headers=False),
            lambda blocks: self._window_source.limit_range(blocks, with_headers=False),
        )
        # Queues of ranges that workers verify again, by level and endpoint.
        self._reverification_queues: dict[tuple[VerificationLevel, str | None], SegmentQueue] = {}
        self._min_worker_blocks = MIN_WORKER_BLOCKS

    def configure_verification(
        self, policy: VerificationPolicy, calibration: Calibration | None = None
    ) -> None:
        """Set the policy for verifying windows.

        `calibration` contains what is known about the chain's headers. Before this call, nothing
        is known about them, and windows are verified as far as the chain permits.
        """
        self._read_ahead_queue.discard_pending()
        calibration = Calibration(self._clock) if calibration is None else calibration
        self._window_source = WindowSource(self._endpoints, self._reader, policy, calibration)

    def use_workers(
        self,
        executor: SegmentExecutor,
        min_worker_blocks: int = MIN_WORKER_BLOCKS,
        stage: SegmentStage | None = None,
    ) -> None:
        """Let workers prepare history while many blocks are left.

        Many means at least `min_worker_blocks`. Call this after `configure_verification`. `close`
        ends the workers. `stage` stores prepared segments, so that they survive a crash.
        """
        self._read_ahead_queue.discard_pending()
        self._reverification_queues.clear()
        coordinator = SegmentCoordinator(
            executor.plan, self._endpoints, self._window_source, executor.worker_count
        )
        self._read_ahead_queue.workers = SegmentWorkers(executor, coordinator, stage)
        self._min_worker_blocks = min_worker_blocks

    def add_checkpoint(self, number: int, block_hash: Hash, source: str) -> None:
        """Use only endpoints that have this block.

        `source` is the hash's origin, for messages.
        """
        self._endpoints.add_checkpoint(Checkpoint(number, block_hash, source))

    def check_endpoints(self) -> None:
        """Check each endpoint's chain and the contracts' code.

        See `start_check`.
        """
        check_endpoints(self._endpoints, self._reader)

    def close(self) -> None:
        """Stop prefetching, end the workers and close the connections."""
        self._read_ahead_queue.discard_pending()
        if self._read_ahead_queue.workers is not None:
            self._read_ahead_queue.workers.executor.close()
        self._endpoints.close()

    def get_chain_id(self) -> int:
        """Return the chain id that an endpoint must report before it is used."""
        return self._endpoints.chain_id

    def fetch_genesis_hash(self, known_hash: Hash | None = None) -> Hash:
        """Fetch the hash of block 0.

        If any endpoint returns `known_hash`, this is the result.

        Raises:
            TransientError: no endpoint answers, or some endpoints do not answer and the others
                return another hash than `known_hash`.
        """
        if known_hash is None:
            genesis_header = self.fetch_header(0)
            shown_hashes = [] if genesis_header is None else [genesis_header.hash]
        else:
            shown_hashes = [
                witness.block.hash
                for witness in self.fetch_witnesses(0)
                if witness.block is not None
            ]
        if known_hash in shown_hashes:
            return known_hash
        if not shown_hashes:
            raise RpcError("every endpoint", ErrorKind.INVALID, "block 0 is missing")
        if known_hash is not None and len(shown_hashes) < len(self._endpoints):
            message = (
                f"block 0 has hash {shown_hashes[0]}, but the database has {known_hash}; the "
                "other endpoints do not answer"
            )
            raise RpcError("an endpoint", ErrorKind.INVALID, message)
        return shown_hashes[0]

    def fetch_heads(self) -> Heads:
        """Fetch the newest, safe and final block.

        See `HeadTracker.fetch_heads`. If only one endpoint reports a head and does not return its
        blocks, the lower head of another endpoint is used; see `HeadClaims`.

        Raises:
            TransientError: no endpoint has reached the known final block.
            InputError: all endpoints have been on another chain since the start.
        """
        heads = self.tracker.fetch_heads()
        refutation = self._head_claims.find_refutation(heads)
        if refutation is not None:
            self._reject_head(heads, refutation)
            heads = self.tracker.fetch_heads_of(refutation.witness.endpoint)
        self._window_source.discard_stale_headers(heads.latest)
        return heads

    def reject_unreadable_head(
        self, heads: Heads, max_number: int, *, is_refuted: bool = False
    ) -> bool:
        """Deprioritise the endpoint of `heads` if blocks up to `max_number` could not be read.

        `is_refuted` is whether the endpoint's answers contradict the headers of these blocks.
        Return False if the failure may be transient, or if no other endpoint has a head below
        `max_number`, which may be the real head of the chain.
        """
        refutation = self._head_claims.find_refutation_after_failure(
            heads, max_number - 1, is_refuted=is_refuted
        )
        if refutation is None:
            return False
        self._reject_head(heads, refutation)
        return True

    def restore_read_number(self, number: int) -> None:
        """Record the newest indexed block at a restart, so that a lower head refutes nothing."""
        self._head_claims.restore_read_number(number)

    def _reject_head(self, heads: Heads, refutation: HeadRefutation) -> None:
        """Deprioritise the endpoint that reported `heads`, because a lower head is used."""
        self._refuted_head_warning.warn(heads.endpoint, "head", refutation.reason)
        self._demote(heads.endpoint, "head", refutation.witness.head.number)

    def fetch_header(self, number: int) -> BlockRef | None:
        """Fetch the block at this height, or None if the endpoint does not have it yet."""
        return self._endpoints.run_with_endpoint(lambda endpoint: endpoint.get_header(number))

    def fetch_header_at_or_below(self, height: int) -> BlockRef:
        """Fetch the block at this height, or the last one below if the height was skipped.

        Raises:
            TransientError: the endpoint lacks the block.
        """
        return self._endpoints.run_with_endpoint(
            lambda endpoint: fetch_block_at_or_below(endpoint, height)
        )

    def fetch_headers(self, blocks: BlockRange) -> list[BlockRef]:
        """Fetch the blocks of a range again, and check that parent hashes link them.

        Heights that the chain skipped, as the parent hashes prove, are left out.

        Raises:
            TransientError: a block is missing, or the blocks are not linked.
        """
        return self._endpoints.run_with_endpoint(
            lambda endpoint: fetch_linked_blocks(endpoint, blocks)
        )

    def fetch_window(
        self, blocks: BlockRange, *, with_headers: bool, max_blocks: int | None = None
    ) -> BlockWindow:
        """Fetch a window that starts at `blocks.first` and ends at or before `blocks.last`.

        If the chain has no block in the whole range, the window ends with the next block above it.
        The size of the window depends on the limits of the endpoints and on `max_blocks`, which is
        the approximate number of blocks that the caller needs at once. Without headers (for final
        blocks), the following blocks may be prefetched. A caller that continues with
        `blocks.first = window.range.last + 1` gets them in order. With headers, `headers` contains
        every block of the window, also blocks without logs.

        Raises:
            TransientError: no endpoint gives a complete and consistent answer.
            InputError: an endpoint is on another chain.
        """
        if with_headers:
            self._read_ahead_queue.discard_pending()
            if max_blocks is not None:
                blocks = blocks.take_first(max_blocks)
            range_to_fetch = self._window_source.limit_range(blocks, with_headers=True)
            window = self._window_source.fetch_window(range_to_fetch, with_headers=True)
        else:
            is_worth_workers = len(blocks) >= self._min_worker_blocks
            window = self._read_ahead_queue.take_window(
                blocks, max_blocks, prefer_workers=is_worth_workers
            )
        self._head_claims.record_read_block(window.last.number)
        return window

    def fetch_verified_window(
        self,
        blocks: BlockRange,
        level: VerificationLevel,
        endpoint: str | None = None,
        *,
        excluded_endpoint: str | None = None,
        max_blocks: int | None = None,
    ) -> BlockWindow:
        """Fetch a range of blocks, or its first part, again and verify it.

        The window is verified up to `level`, or as far as the chain permits; `window.level` is the
        level that was reached. The blocks are read from `endpoint`, or from any endpoint except
        `excluded_endpoint`. `max_blocks` is the maximum number of blocks at once. A caller that
        passes it must continue with the block after the window, because workers may prepare the
        following blocks.

        Raises:
            InputError: there is no endpoint of that name.
            TransientError: the endpoint does not answer, or there is no other endpoint.
        """
        if max_blocks is None:
            return self._window_source.fetch_verified_window(
                blocks, level, endpoint, excluded_endpoint
            )
        reverification_queue = self._reverification_queues.get((level, endpoint))
        if self._read_ahead_queue.workers is not None and len(blocks) >= self._min_worker_blocks:
            reverification_queue = reverification_queue or build_verification_queue(
                self._read_ahead_queue.workers, level, endpoint
            )
            self._reverification_queues[level, endpoint] = reverification_queue
        if reverification_queue is not None:
            return reverification_queue.take_window(blocks, max_blocks, prefer_workers=True)
        range_to_fetch = blocks.take_first(max_blocks)
        return self._window_source.fetch_verified_window(
            range_to_fetch, level, endpoint, excluded_endpoint
        )

    def fetch_witnesses(
        self,
        number: int,
        excluded_endpoint: str | None = None,
        *,
        skip_slow_endpoints: bool = False,
    ) -> list[Witness]:
        """Fetch the block at a height from all endpoints but one.

        The exception is `excluded_endpoint`. Endpoints that do not answer are left out. An
        endpoint whose head is below the height is no witness of this height. With
        `skip_slow_endpoints`, which is for comparisons that are repeated often, endpoints that
        were slow recently or requested a pause are left out.
        """
        return self._witnesses.fetch_witnesses(
            number, excluded_endpoint, skip_slow_endpoints=skip_slow_endpoints
        )

    def is_deep_enough(self, block: BlockRef, head: BlockRef) -> bool:
        """Return whether a block is far enough below a head to be final."""
        return self.tracker.finality.is_deep_enough(block, head)

    def fetch_second_witness(self, number: int, excluded_endpoint: str) -> Witness | None:
        """Fetch an independent endpoint's block at a height, and its head.

        The result is None if no such endpoint answers. The endpoints are queried in turn until
        one has the block deep enough below its head. If none has, the endpoint with the highest
        head is returned. An endpoint that does not answer is not queried for a minute or longer.
        An endpoint that took over two seconds is not queried for thirty times this duration. If
        there is only one provider, another one of its endpoints is queried.
        """
        return self._witnesses.fetch_second_witness(number, excluded_endpoint, self.is_deep_enough)

    def allow_slow_witnesses(self) -> None:
        """Let `fetch_second_witness` query slow endpoints too, however long they take."""
        self._witnesses.is_patient = True

    def has_linked_headers(self, endpoint: str, blocks: BlockRange) -> bool:
        """Return whether the headers of a range are linked.

        See `WindowSource.has_linked_headers`.
        """
        return self._window_source.has_linked_headers(endpoint, blocks)

    def deprioritise(self, endpoint: str, reason: str, newest_number: int) -> None:
        """Deprioritise an endpoint that was outvoted about a non-final block.

        The effect lasts for a while. `newest_number` is the height of the highest block of the
        endpoints that outvoted it. No endpoint at this height counts as lagging.
        """
        self._outvoted_warning.warn(endpoint, reason)
        self._demote(endpoint, "fork", newest_number)

    def _demote(self, endpoint: str, check: str, newest_number: int) -> None:
        self._read_ahead_queue.discard_pending()
        self.tracker.reset_head(newest_number)
        self._head_claims.limit_known_number(newest_number)
        self._endpoints.clear_lag_failures(endpoint)
        self._endpoints.deprioritise(endpoint, check)

    def report_wrong_logs(self, endpoint: str, reason: str) -> None:
        """Deprioritise an endpoint that omitted, invented or changed logs.

        The effect lasts for a while. If the endpoint is no longer configured, this is only logged.
        """
        self._read_ahead_queue.discard_pending()
        get_logger().warning("endpoint_contradicted", endpoint=endpoint, reason=reason)
        if endpoint in self.list_endpoint_names():
            self._endpoints.deprioritise(endpoint, "logs")

    def quarantine(self, endpoint: str, reason: str, final_block: tuple[int, Hash]) -> None:
        """Stop using an endpoint until it has the given final block.

        The block is given by height and hash.
        """
        self._read_ahead_queue.discard_pending()
        self.tracker.reset_head()
        self._endpoints.clear_lag_failures(endpoint)
        self._endpoints.quarantine(endpoint, reason, Checkpoint(*final_block, "the database"))

    def mark_proven_wrong(self, endpoint: str, reason: str) -> None:
        """Exclude an endpoint that was proven wrong.

        An operator can readmit the endpoint.
        """
        self._endpoints.endpoint_list.mark_proven_wrong(endpoint, reason)

    def get_proven_wrong_endpoints(self) -> Mapping[str, str]:
        """Return the excluded endpoints that were proven wrong, with the proofs.

        Readmitted endpoints are left out.
        """
        return self._endpoints.endpoint_list.get_proven_wrong_reasons()

    def is_backing_off(self, endpoint: str) -> bool:
        """Return whether an endpoint has just failed and is therefore used last."""
        status = self._endpoints.endpoint_list.get(endpoint).status
        return status.is_backing_off(self._endpoints.clock())

    def count_usable_witnesses(self) -> int:
        """Return the number of witnesses not proven wrong."""
        providers = self.get_providers()
        return WitnessQuorum(providers).count_witnesses(
            providers.keys() - self.get_proven_wrong_endpoints().keys()
        )

    def are_receipts_provable(self) -> bool:
        """Return whether this chain's block hashes can prove receipts."""
        calibration = self._window_source.calibration
        return calibration.is_proven(HeaderFeature.HEADER) and calibration.is_proven(
            HeaderFeature.RECEIPTS
        )

    def list_endpoint_names(self) -> tuple[str, ...]:
        """Return the names of the endpoints in order of preference."""
        return tuple(endpoint.name for endpoint in self._endpoints)

    def get_providers(self) -> Mapping[str, str]:
        """Return the provider of each endpoint, by name.

        A provider counts as one witness.
        """
        return self._endpoints.providers()

    def get_max_allowed_level(self) -> VerificationLevel:
        """Return the highest level that the settings and the calibration allow.

        No request is sent.
        """
        return self._window_source.get_max_allowed_level()

    def get_reachable_level(self) -> VerificationLevel:
        """Return the highest level that the settings allow and the chain may reach later.

        The result may exceed `get_max_allowed_level` until samples have shown which header
        features are valid. No request is sent.
        """
        return self._window_source.get_reachable_level()

    def calibrate(self) -> None:
        """Sample headers to find out which features are valid, unless this is known."""
        self._window_source.calibrate()

    def get_history_level(self) -> VerificationLevel:
        """Return the level that every block of history currently reaches.

        No request is sent. The level is below BLOOMED if the chain's headers cannot serve as
        proofs, or if it is not known yet whether they can.
        """
        return self._window_source.get_history_level()

    def find_level_shortfall(self) -> LevelShortfall | None:
        """Return why history cannot reach the configured level.

        The result is None if history can reach it, now or later. No request is sent.
        """
        return self._window_source.find_level_shortfall()

    def restrict_to_scope(self, scope: IngestScope) -> "ChainSource":
        """Return a chain source limited to this scope, using the same endpoints."""
        partial_reader = restrict_reader_to_scope(self._reader, scope)
        partial_source = type(self)(
            self._endpoints, partial_reader, self._finality_depth, self._clock
        )
        partial_source.configure_verification(
            self._window_source.policy, self._window_source.calibration
        )
        return partial_source

    def fetch_contract_counters(self, block_hash: Hash) -> dict[str, int]:
        """Fetch the contracts' counters at the end of a block, keyed by name.

        See `contract_checks`.

        Raises:
            TransientError: no endpoint answers, or none knows the block.
        """
        return self._endpoints.run_with_endpoint(
            lambda endpoint: fetch_contract_counters(endpoint, self._reader, block_hash)
        )

    def fetch_window_and_query(
        self, blocks: BlockRange, query: Callable[[Endpoint, BlockWindow], T]
    ) -> tuple[int, T]:
        """Fetch a window, and run `query` on the same endpoint.

        The window starts at `blocks.first`. Return the number of the window's last block, and the
        result of `query`.

        Raises:
            TransientError: no endpoint gives a complete and consistent answer.
        """

        def query_endpoint(endpoint: Endpoint) -> tuple[int, T]:
            window = self._window_source.fetch_head_window(
                endpoint, self._window_source.limit_range(blocks, with_headers=True)
            )
            return window.last.number, query(endpoint, window)

        return self._endpoints.run_with_endpoint(query_endpoint)
