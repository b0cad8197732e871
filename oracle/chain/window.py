"""Fetches one window from one endpoint and checks it whole (chain.md 3.9, levels L0 and L1)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from oracle.chain.answers import (
    BlockAnswer,
    LogAnswer,
    Quantity,
    TransactionAnswer,
    block_ref,
    number,
)
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.logs import UNKNOWN_TIME, Filter, checked
from oracle.chain.ranges import Sizer
from oracle.chain.reader import Reader
from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, Log
from oracle.errors import FatalError


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


def header(endpoint: Endpoint, number_or_tag: int | str) -> BlockRef | None:
    """Return a block by height or tag; None where the endpoint does not have it.

    Raises:
        EndpointError: no usable answer.
    """
    return headers(endpoint, [number_or_tag])[0]


def headers(endpoint: Endpoint, wanted: Iterable[int | str]) -> list[BlockRef | None]:
    """Return blocks by height or tag, None for each that the endpoint does not have.

    Raises:
        EndpointError: no usable answer, or one for another height.
    """
    asked = list(wanted)
    params = [[hex(place) if isinstance(place, int) else place, False] for place in asked]
    answers = endpoint.batch("eth_getBlockByNumber", params, BlockAnswer)
    blocks = [None if answer is None else block_ref(endpoint.name, answer) for answer in answers]
    for place, block in zip(asked, blocks, strict=True):
        if block is not None and isinstance(place, int) and block.number != place:
            raise EndpointError(endpoint.name, Kind.INVALID, f"another block for {place}")
    return blocks


def linked(endpoint: Endpoint, blocks: BlockRange) -> list[BlockRef]:
    """Return every block of the range, each the parent of the next.

    Raises:
        EndpointError: one is missing, or they do not link.
    """
    found = headers(endpoint, range(blocks.first, blocks.last + 1))
    chain = [block for block in found if block is not None]
    if len(chain) < len(found):
        missing = blocks.first + found.index(None)
        raise EndpointError(endpoint.name, Kind.NOT_THERE, f"no block {missing}")
    for parent, child in pairwise(chain):
        if child.parent_hash != parent.hash:
            words = f"block {child.number} does not follow block {parent.number}"
            raise EndpointError(endpoint.name, Kind.INVALID, words)
    return chain


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches windows of one reader's logs; keeps nothing between them but what `sizer` learns."""

    reader: Reader
    sizer: Sizer
    clock: Callable[[], float]

    @property
    def _filter(self) -> Filter:
        return Filter(frozenset(self.reader.addresses), frozenset(self.reader.topics))

    def window(self, endpoint: Endpoint, blocks: BlockRange, *, with_headers: bool) -> Window:
        """Return the window of exactly these blocks.

        The headers are read after the logs: a fork in between shows in the hashes. Without
        `with_headers`, for blocks that are final, only the seams are compared, and the blocks
        whose logs do not tell their time.

        Raises:
            EndpointError: no whole and consistent answer.
        """
        self._await(endpoint, blocks.last)
        logs = self._logs(endpoint, blocks)
        known = self._headers(endpoint, blocks, logs, with_headers=with_headers)
        _compare(endpoint.name, logs, known)
        return Window(
            blocks,
            known[blocks.first].parent_hash,
            known[blocks.last],
            [known[n] for n in range(blocks.first, blocks.last + 1)] if with_headers else [],
            logs,
            self._calls(endpoint, [log for log in logs if self.reader.needs_call(log)]),
        )

    def _await(self, endpoint: Endpoint, last: int) -> None:
        """Never ask an endpoint for a block above its own head: it would say that it is empty."""
        if endpoint.newest < last:
            answer = endpoint.call("eth_blockNumber", [], Quantity)
            endpoint.newest = number(endpoint.name, answer)
        if endpoint.newest < last:
            words = f"has blocks up to {endpoint.newest}, not {last}"
            raise EndpointError(endpoint.name, Kind.NOT_THERE, words)

    def _logs(self, endpoint: Endpoint, blocks: BlockRange, patience: int = 2) -> list[Log]:
        """Ask for the logs, and for two halves where the whole is refused."""
        try:
            return self._asked(endpoint, blocks)
        except EndpointError as error:
            patience -= error.kind is Kind.SLOW
            size = self.sizer.refused(blocks, error) if error.kind in _DIVISIBLE else 0
            if len(blocks) == 1 or not size or not patience:
                raise
        parts = (self._logs(endpoint, part, patience) for part in blocks.chunks(size))
        return [log for part in parts for log in part]

    def _asked(self, endpoint: Endpoint, blocks: BlockRange) -> list[Log]:
        began = self.clock()
        answers = endpoint.call("eth_getLogs", self._filter.params(blocks), list[LogAnswer])
        if answers is None:
            raise EndpointError(endpoint.name, Kind.INVALID, "eth_getLogs: null")
        self.sizer.answered(blocks, len(answers), self.clock() - began)
        try:
            return checked(answers, blocks, self._filter)
        except ValueError as error:
            raise EndpointError(endpoint.name, Kind.INVALID, f"eth_getLogs: {error}") from None

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

    def _calls(self, endpoint: Endpoint, logs: list[Log]) -> list[Call]:
        """Fetch the transactions of these logs; that they succeeded, the logs prove."""
        by_hash = {log.tx_hash: log for log in logs}
        params = [[tx_hash] for tx_hash in by_hash]
        answers = endpoint.batch("eth_getTransactionByHash", params, TransactionAnswer)
        calls = [
            _call(endpoint.name, log, answer)
            for log, answer in zip(by_hash.values(), answers, strict=True)
        ]
        try:
            self.reader.read(logs, calls)
        except FatalError as error:
            # An input that is not the call's: another endpoint may know the right one.
            raise EndpointError(endpoint.name, Kind.INVALID, str(error)) from None
        return calls


_DIVISIBLE = {Kind.TOO_LARGE, Kind.SLOW, Kind.UNKNOWN}


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


def _call(endpoint: str, log: Log, answer: TransactionAnswer | None) -> Call:
    if answer is None:
        raise EndpointError(endpoint, Kind.NOT_THERE, f"no transaction {log.tx_hash}")
    if answer.hash.lower() != log.tx_hash or (answer.block_hash or "").lower() != log.block_hash:
        raise EndpointError(endpoint, Kind.INVALID, f"another transaction for {log.tx_hash}")
    if (answer.to or "").lower() != log.address:
        raise EndpointError(endpoint, Kind.INVALID, f"{log.tx_hash} calls another contract")
    return Call(
        log.block,
        log.block_hash,
        log.time,
        log.tx,
        log.tx_hash,
        Address(answer.sender.lower()),
        log.address,
        number(endpoint, answer.value),
        answer.input.lower(),
        succeeded=True,
    )
