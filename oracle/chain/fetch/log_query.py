"""Queries one endpoint for logs until it has returned all (docs/explanation/ingest.md#ranges).

A range that is refused is split in two, whatever the reason, down to one block. A single block
that is still too large is read from its receipts, or queried topic by topic. A log count that may
be a silent limit is compared with that of the two halves, or of one block's receipts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from oracle.chain.log_filter import Filter, checked
from oracle.chain.verification.full_headers import FullHeader, all_of
from oracle.chain.verification.receipt_fetch import receipts
from oracle.chain.verification.window_check import note_missing
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.responses import LogResponse
from oracle.rpc.rpc_errors import DIVISIBLE, ErrorKind, RpcError, RpcTimeoutError
from oracle.telemetry.indexer_metrics import DUPLICATE_LOGS, LOGS_CUT_OFF, WINDOW_SPLITS

# How many requests for one range may time out before the tick ends: each takes the whole timeout.
# An error response about the provider's own time limit is not counted.
_PATIENCE = 2
# Seconds until a smaller range may be requested, if the tick ended after timeouts.
_SMALLER_SECONDS = 1.0
# The hash of no block: an endpoint that detects unknown blocks returns an error for it.
_INVENTED = "0x" + "1234abcd" * 8
# Errors of endpoints that do not serve logs by block hash.
_NOT_PINNED = {ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN}
_TOO_MUCH = {ErrorKind.TOO_LARGE, ErrorKind.SLOW, ErrorKind.CUT}

_NO_REFUSAL = RpcError("", ErrorKind.UNKNOWN, "")


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Queries logs of one filter; `clock` counts seconds."""

    wanted: Filter
    clock: Callable[[], float]

    def logs(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        *,
        divides_unknown: bool = True,
        patience: int = _PATIENCE,
    ) -> list[Log]:
        """Return the validated logs of these blocks, in order.

        A request that the endpoint does not understand is divided only with `divides_unknown`,
        because another endpoint may understand it. `max_timeouts` is how many more requests may
        time out.

        Raises:
            RpcError: not even single blocks are answered, or the answer is wrong.
        """
        limits = endpoint.limits
        try:
            logs = self._asked(endpoint, blocks)
        except RpcError as error:
            return self._divide(
                endpoint, blocks, error, divides_unknown=divides_unknown, patience=patience
            )
        if not limits.may_be_cut_off(len(logs)):
            return logs
        if len(blocks) == 1:
            return self._compared(endpoint, blocks, logs)
        WINDOW_SPLITS.labels("may be cut off").inc()
        halves = self._in_parts(
            endpoint,
            blocks,
            (len(blocks) + 1) // 2,
            divides_unknown=divides_unknown,
            patience=patience,
        )
        return self._fuller(endpoint, logs, halves)

    def _divide(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        error: RpcError,
        *,
        divides_unknown: bool,
        patience: int,
    ) -> list[Log]:
        """Return the logs of a refused range from smaller ranges, or raise the original error."""
        patience -= isinstance(error, RpcTimeoutError)
        is_unknown = error.kind is ErrorKind.UNKNOWN
        if error.kind not in DIVISIBLE or (is_unknown and not divides_unknown):
            raise error
        if patience <= 0:
            if len(blocks) > 1:
                # The next tick begins with the smaller range.
                endpoint.limits.sizer.refused(blocks, error)
                error.retry_after = _SMALLER_SECONDS
            raise error
        if len(blocks) == 1:
            return self._of_block(endpoint, blocks, error)
        WINDOW_SPLITS.labels(error.kind).inc()
        size = endpoint.limits.sizer.refused(blocks, error)
        return self._in_parts(
            endpoint, blocks, size, divides_unknown=divides_unknown, patience=patience
        )

    def pinned(
        self, endpoint: Endpoint, blocks: Sequence[BlockRef], *, is_proof_to_come: bool = True
    ) -> list[Log] | None:
        """Return the logs of exactly these blocks, by hash, or None if that is not served now.

        Unless a proof is pending, a block whose log count may be a silent limit is compared with
        its receipts.

        Raises:
            RpcError: the endpoint does not know one of the blocks, or the answer is wrong.
        """
        limits = endpoint.limits
        if limits.pins is False:
            return None
        params = [self.wanted.pinned(block.hash) for block in blocks]
        try:
            answers = endpoint.client.batch("eth_getLogs", params, list[LogResponse])
        except RpcError as error:
            if error.kind not in _NOT_PINNED | _TOO_MUCH:
                raise
            # Also if the blocks are too large: the caller can fetch a range in smaller parts.
            if error.kind in _NOT_PINNED:
                limits.was_not_pinned()
            return None
        limits.pins = True
        logs: list[Log] = []
        for block, answer in zip(blocks, answers, strict=True):
            found = self._of_hash(endpoint, block, answer)
            if not is_proof_to_come and limits.may_be_cut_off(len(found)):
                found = self._compared(endpoint, BlockRange(block.number, block.number), found)
            logs += found
        return logs

    def _of_hash(
        self, endpoint: Endpoint, block: BlockRef, answer: list[LogResponse] | None
    ) -> list[Log]:
        if answer is None:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no logs of {block.number}")
        found = self._checked(endpoint, answer, BlockRange(block.number, block.number))
        if any(log.block_hash != block.hash for log in found):
            words = f"logs of another block {block.number}"
            raise RpcError(endpoint.name, ErrorKind.INVALID, words)
        return found

    def is_outside(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        sample: Sequence[BlockRef],
        logs: Sequence[Log],
    ) -> bool:
        """Return whether the logs of a range lack some that the endpoint returns by block hash.

        The result is False if the endpoint does not serve logs by block hash.

        Raises:
            RpcError: the endpoint does not know one of the blocks, its chain has just changed, or
                the answer is wrong.
        """
        there = self.pinned(endpoint, sample)
        if there is None or not _missing(there, logs):
            return False
        # The first logs may have been of another fork.
        missing = _missing(there, self._asked(endpoint, blocks))
        if not missing:
            words = f"changed blocks {blocks.first} to {blocks.last} while their logs were read"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
        endpoint.limits.omits = True
        self._found_out(endpoint, missing, "read by range")
        return True

    def is_inside(self, endpoint: Endpoint) -> bool:
        """Return whether the endpoint returns an error for an unknown block; it is asked only once.

        Raises:
            RpcError: the endpoint does not answer now.
        """
        limits = endpoint.limits
        if limits.admits is None:
            try:
                given = endpoint.client.call(
                    "eth_getLogs", self.wanted.pinned(_INVENTED), list[LogResponse]
                )
            except RpcError as error:
                if error.kind in {
                    ErrorKind.THROTTLED,
                    ErrorKind.UNREACHABLE,
                    ErrorKind.SLOW,
                    ErrorKind.CUT,
                }:
                    raise
                given = None
            limits.admits = given is None
        return limits.admits

    def _in_parts(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        size: int,
        *,
        divides_unknown: bool,
        patience: int,
    ) -> list[Log]:
        return [
            log
            for part in blocks.chunks(size)
            for log in self.logs(
                endpoint, part, divides_unknown=divides_unknown, patience=patience
            )
        ]

    def _asked(
        self, endpoint: Endpoint, blocks: BlockRange, wanted: Filter | None = None
    ) -> list[Log]:
        began = self.clock()
        params = (wanted or self.wanted).params(blocks)
        answers = endpoint.client.call("eth_getLogs", params, list[LogResponse])
        if answers is None:
            raise RpcError(endpoint.name, ErrorKind.INVALID, "eth_getLogs: null")
        sizer = endpoint.limits.sizer
        sizer.answered(blocks, len(answers), self.clock() - began)
        return self._checked(endpoint, answers, blocks)

    def _compared(self, endpoint: Endpoint, block: BlockRange, logs: list[Log]) -> list[Log]:
        """Compare the logs of one block with its receipts, which may contain more.

        Without receipts the logs are returned as they are, and the block is not proven either.
        """
        try:
            there = self._from_receipts(endpoint, block, _NO_REFUSAL)
        except RpcError:
            return logs
        return self._fuller(endpoint, logs, there)

    def _fuller(self, endpoint: Endpoint, logs: list[Log], again: list[Log]) -> list[Log]:
        """Return the fuller of two results of one query, the second fetched in another way."""
        if len(again) < len(logs):
            return logs
        missing = _missing(again, logs)
        if missing and endpoint.limits.was_cut_off(len(logs)):
            self._found_out(endpoint, missing, f"in an answer of {len(logs)}")
        return again

    def _found_out(self, endpoint: Endpoint, missing: Sequence[Log], where: str) -> None:
        LOGS_CUT_OFF.labels(endpoint.name).inc()
        note_missing(endpoint.name, len(missing))
        structlog.get_logger().warning(
            "endpoint_omitted_logs",
            endpoint=endpoint.name,
            missing=len(missing),
            first_block=missing[0].block,
            where=where,
        )

    def _of_block(self, endpoint: Endpoint, block: BlockRange, refusal: RpcError) -> list[Log]:
        """Fetch the logs of one block that are too many for one response, in other ways."""
        try:
            return self._from_receipts(endpoint, block, refusal)
        except RpcError as error:
            if refusal.kind is not ErrorKind.TOO_LARGE:
                raise
            return self._by_topic(endpoint, block, error)

    def _by_topic(self, endpoint: Endpoint, block: BlockRange, refusal: RpcError) -> list[Log]:
        """Request each topic separately; raise the original error if one is still too large."""
        logs: list[Log] = []
        try:
            for topic in sorted(self.wanted.topics):
                one = replace(self.wanted, topics=frozenset({topic}))
                logs += self._asked(endpoint, block, one)
        except RpcError:
            raise refusal from None
        if len({log.block_hash for log in logs}) > 1:
            words = f"changed block {block.first} while its logs were read"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
        WINDOW_SPLITS.labels("by topic").inc()
        return sorted(logs, key=lambda log: log.index)

    def _from_receipts(
        self, endpoint: Endpoint, block: BlockRange, refusal: RpcError
    ) -> list[Log]:
        """Extract the logs of one block from its receipts, if the endpoint serves them."""
        WINDOW_SPLITS.labels("one block").inc()
        try:
            there: FullHeader = all_of(endpoint, [block.first])[block.first]
            ((_, given),) = receipts(endpoint, [there])
        except RpcError as error:
            # Missing receipts show nothing about the block's logs, so the original error is kept.
            words = f"{refusal.words}; nor are its receipts to be had: {error.words}"
            raise RpcError(endpoint.name, refusal.kind, words) from None
        answers = [log for receipt in given for log in receipt.logs if self.wanted.matches(log)]
        logs = self._checked(endpoint, answers, block)
        if any(log.block_hash != there.block.hash for log in logs):
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"receipts of another {block.first}")
        return logs

    def _checked(
        self, endpoint: Endpoint, answers: list[LogResponse], blocks: BlockRange
    ) -> list[Log]:
        try:
            logs = checked(answers, blocks, self.wanted)
        except ValueError as error:
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"logs: {error}") from None
        if len(logs) < len(answers):
            DUPLICATE_LOGS.labels(endpoint.name).inc(len(answers) - len(logs))
        return logs


def _missing(logs: Sequence[Log], among: Sequence[Log]) -> list[Log]:
    """Return the logs that are not in `present_logs`."""
    there = {(log.block_hash, log.index) for log in among}
    return [log for log in logs if (log.block_hash, log.index) not in there]
