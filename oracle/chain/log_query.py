"""Asks one endpoint for logs, until it has given all of them (chain.md 3.7).

A range that is refused is cut in two, whatever the reason given, down to one block; one block
that is still too much comes out of its receipts. A count that looks like a silent limit is
compared with that of the two halves.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oracle.chain.answers import LogAnswer, ReceiptAnswer
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.logs import Filter, checked
from oracle.chain.ranges import Sizer
from oracle.domain.block import BlockRange
from oracle.domain.logs import Log

_DIVISIBLE = {Kind.TOO_LARGE, Kind.SLOW, Kind.UNKNOWN}
# Where endpoints are known to stop without a word.
_ROUND_COUNTS = {100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000}
# How many answers of one range may come too late before we give up: each costs its time limit.
_PATIENCE = 2


@dataclass(frozen=True, slots=True)
class LogQuery:
    """One filter; `sizer` learns from every answer, `clock` counts seconds."""

    wanted: Filter
    sizer: Sizer
    clock: Callable[[], float]

    def logs(self, endpoint: Endpoint, blocks: BlockRange, patience: int = _PATIENCE) -> list[Log]:
        """Return the checked logs of these blocks, in order.

        Raises:
            EndpointError: not even one block at a time is answered, or the answer is wrong.
        """
        try:
            logs = self._asked(endpoint, blocks)
        except EndpointError as error:
            patience -= error.kind is Kind.SLOW
            if error.kind not in _DIVISIBLE or not patience:
                raise
            if len(blocks) == 1:
                return self._from_receipts(endpoint, blocks, error)
            return self._in_parts(endpoint, blocks, self.sizer.refused(blocks, error), patience)
        if len(logs) not in _ROUND_COUNTS - endpoint.whole_counts or len(blocks) == 1:
            return logs
        halves = self._in_parts(endpoint, blocks, (len(blocks) + 1) // 2, patience)
        if len(halves) == len(logs):
            endpoint.whole_counts.add(len(logs))
        return halves

    def _in_parts(
        self, endpoint: Endpoint, blocks: BlockRange, size: int, patience: int
    ) -> list[Log]:
        parts = (self.logs(endpoint, part, patience) for part in blocks.chunks(size))
        return [log for part in parts for log in part]

    def _asked(self, endpoint: Endpoint, blocks: BlockRange) -> list[Log]:
        began = self.clock()
        answers = endpoint.call("eth_getLogs", self.wanted.params(blocks), list[LogAnswer])
        if answers is None:
            raise EndpointError(endpoint.name, Kind.INVALID, "eth_getLogs: null")
        self.sizer.answered(blocks, len(answers), self.clock() - began)
        return self._checked(endpoint, answers, blocks)

    def _from_receipts(
        self, endpoint: Endpoint, block: BlockRange, refusal: EndpointError
    ) -> list[Log]:
        """Pick the logs of one block out of its receipts, where the endpoint gives those."""
        try:
            receipts = endpoint.call(
                "eth_getBlockReceipts", [hex(block.first)], list[ReceiptAnswer]
            )
        except EndpointError:
            raise refusal from None
        if receipts is None:
            # It does not know the block: that says nothing about the block's logs.
            raise refusal
        wanted = self.wanted
        answers = [
            log
            for receipt in receipts
            for log in receipt.logs
            if log.address.lower() in wanted.addresses
            and log.topics
            and log.topics[0].lower() in wanted.topics
        ]
        return self._checked(endpoint, answers, block)

    def _checked(
        self, endpoint: Endpoint, answers: list[LogAnswer], blocks: BlockRange
    ) -> list[Log]:
        try:
            return checked(answers, blocks, self.wanted)
        except ValueError as error:
            raise EndpointError(endpoint.name, Kind.INVALID, f"logs: {error}") from None
