"""Asks one endpoint for logs, until it has given all of them (docs/explanation/ingest.md#ranges).

A range that is refused is cut in two, whatever the reason given, down to one block; one block
that is still too much comes out of its receipts, or is asked for topic by topic. A count that
may be a silent limit is compared with that of the two halves, or of one block's receipts.
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

# How many requests for one range may stay without a response before the tick ends: each costs the
# whole time limit. A provider that reports its own time limit responds, and costs no patience.
_PATIENCE = 2
# Seconds until a smaller range may be asked for, where the tick ended for lack of patience.
_SMALLER_SECONDS = 1.0
# Of no block: who knows what he has not got says so.
_INVENTED = "0x" + "1234abcd" * 8
# What an endpoint that does not serve logs by block hash may answer.
_NOT_PINNED = {ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN}
_TOO_MUCH = {ErrorKind.TOO_LARGE, ErrorKind.SLOW, ErrorKind.CUT}

_NO_REFUSAL = RpcError("", ErrorKind.UNKNOWN, "")


@dataclass(frozen=True, slots=True)
class LogQuery:
    """One filter; `clock` counts seconds."""

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
        """Return the checked logs of these blocks, in order.

        A request that the endpoint does not understand is divided with `divides_unknown` only:
        another endpoint may understand it. `patience` is how many more requests may stay without
        a response.

        Raises:
            RpcError: not even one block at a time is answered, or the answer is wrong.
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
        """Return the logs of a refused range from smaller ranges, or raise the refusal."""
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
        """Return the logs of these very blocks, by their hashes; None: it does not serve that now.

        Where no proof is to come, a block whose count may be a limit is compared with its
        receipts.

        Raises:
            RpcError: it does not know one of the blocks, or the answer is wrong.
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
            # Of blocks that are too much, too: a range is got in other ways.
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
        """Tell whether the logs of a range lack some that the endpoint gives by blocks' hashes.

        Where it serves none by hash, that cannot be told.

        Raises:
            RpcError: it does not know one of the blocks, its chain has just changed, or the
                answer is wrong.
        """
        there = self.pinned(endpoint, sample)
        if there is None or not _missing(there, logs):
            return False
        # Or they were of another fork.
        missing = _missing(there, self._asked(endpoint, blocks))
        if not missing:
            words = f"changed blocks {blocks.first} to {blocks.last} while their logs were read"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
        endpoint.limits.omits = True
        self._found_out(endpoint, missing, "read by range")
        return True

    def is_inside(self, endpoint: Endpoint) -> bool:
        """Tell whether it says of a block that it does not know it; asks once.

        Raises:
            RpcError: it does not answer now.
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
        """Compare the logs of one block with its receipts, if they can be had: they may be more.

        Where they cannot, nothing shows; nor is the block proven then.
        """
        try:
            there = self._from_receipts(endpoint, block, _NO_REFUSAL)
        except RpcError:
            return logs
        return self._fuller(endpoint, logs, there)

    def _fuller(self, endpoint: Endpoint, logs: list[Log], again: list[Log]) -> list[Log]:
        """Return the fuller of two answers to one question, the second got in another way."""
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
        """Get the logs of one block that are too many for one answer in other ways."""
        try:
            return self._from_receipts(endpoint, block, refusal)
        except RpcError as error:
            if refusal.kind is not ErrorKind.TOO_LARGE:
                raise
            return self._by_topic(endpoint, block, error)

    def _by_topic(self, endpoint: Endpoint, block: BlockRange, refusal: RpcError) -> list[Log]:
        """Ask for each kind of log by itself, and give up at the first that is too much."""
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
        """Pick the logs of one block out of its receipts, where the endpoint gives those."""
        WINDOW_SPLITS.labels("one block").inc()
        try:
            there: FullHeader = all_of(endpoint, [block.first])[block.first]
            ((_, given),) = receipts(endpoint, [there])
        except RpcError as error:
            # That the receipts are not served says nothing about the block's logs.
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
    """Return the logs that are not among the others."""
    there = {(log.block_hash, log.index) for log in among}
    return [log for log in logs if (log.block_hash, log.index) not in there]
