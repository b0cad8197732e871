"""Headers with the fields that commit to their content: bloom, receipts and transactions root."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import structlog

from oracle.chain.proofs.header_hash import HeaderResponse
from oracle.chain.proofs.merkle_trie import EMPTY_ROOT
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.replies import decoder_of
from oracle.rpc.responses import FullHeaderResponse, block_ref
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import WINDOW_SPLITS

_METHOD = "eth_getBlockByNumber"
NO_RECEIPTS = "0x" + EMPTY_ROOT.hex()


class _Hashed(msgspec.Struct, gc=False):
    """The hash of a transaction in a block that was fetched with full transactions."""

    hash: str


@dataclass(frozen=True, slots=True)
class FullHeader:
    """A block and the fields of its header; properties are None or empty if a field is missing."""

    block: BlockRef
    answer: FullHeaderResponse = field(repr=False)

    @property
    def bloom(self) -> int | None:
        """The bloom as an integer; None if the header has no readable one."""
        try:
            return int(_text(self.answer.logs_bloom), 16)
        except ValueError:
            return None

    @property
    def receipts_root(self) -> str:
        """The receipts root, lower case; empty if the header has none."""
        return _text(self.answer.receipts_root).lower()

    @property
    def transactions_root(self) -> str:
        """The transactions root, lower case; empty if the header has none."""
        return _text(self.answer.transactions_root).lower()

    @property
    def is_without_transactions(self) -> bool:
        """Whether the header commits to an empty list of receipts."""
        return self.receipts_root == NO_RECEIPTS

    @property
    def holds_transactions(self) -> bool:
        """Whether the block has receipts to fetch, also if its roots are invented."""
        return not self.is_without_transactions and bytes(self.answer.transactions) != b"[]"

    @property
    def whole_header(self) -> HeaderResponse | None:
        """All hashed fields of the header; None if one is missing."""
        try:
            return msgspec.convert(self.answer, HeaderResponse, from_attributes=True)
        except msgspec.ValidationError:
            return None

    def tx_hashes(self) -> list[str]:
        """Return the hashes of its transactions, in order, whether fetched as hashes or in full.

        Raises:
            ValueError: the list contains anything else.
        """
        try:
            sent = decoder_of(list[str | _Hashed]).decode(self.answer.transactions)
        except msgspec.DecodeError as error:
            raise ValueError(f"transactions of block {self.block.number}: {error}") from None
        return [one if isinstance(one, str) else one.hash for one in sent]


def _text(written: object) -> str:
    return written if isinstance(written, str) else ""


def full_headers_of(
    endpoint: Endpoint, numbers: Iterable[int], *, full: bool = False
) -> list[FullHeader | None]:
    """Return the blocks at these heights, with None for each that the endpoint does not have.

    `with_transactions`: with full transactions, instead of only their hashes.

    Raises:
        RpcError: no usable answer, or one for another height.
    """
    asked = list(numbers)
    params: Sequence[Sequence[object]] = [[hex(number), full] for number in asked]
    try:
        answers = endpoint.client.batch(_METHOD, params, FullHeaderResponse)
    except RpcError as error:
        if error.kind is not ErrorKind.TOO_LARGE or not full:
            raise
        answers = [_with_transactions(endpoint, number) for number in asked]
    found: list[FullHeader | None] = []
    for number, answer in zip(asked, answers, strict=True):
        block = None if answer is None else block_ref(endpoint.name, answer)
        if block is not None and block.number != number:
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"another block for {number}")
        found.append(None if block is None or answer is None else FullHeader(block, answer))
    return found


def full_header_of(endpoint: Endpoint, block_hash: Hash) -> FullHeader | None:
    """Return the block of this hash, or None if the endpoint does not have it.

    Raises:
        RpcError: no usable answer, or another block.
    """
    answer = endpoint.client.call("eth_getBlockByHash", [block_hash, False], FullHeaderResponse)
    if answer is None:
        return None
    block = block_ref(endpoint.name, answer)
    if block.hash != block_hash:
        raise RpcError(endpoint.name, ErrorKind.INVALID, f"another block for {block_hash}")
    return FullHeader(block, answer)


def _with_transactions(endpoint: Endpoint, number: int) -> FullHeaderResponse | None:
    """Return a block with its transactions, fetched singly if they exceed the response limit.

    Raises:
        RpcError: no usable answer, or a transaction is missing.
    """
    try:
        return endpoint.client.call(_METHOD, [hex(number), True], FullHeaderResponse)
    except RpcError as error:
        if error.kind is not ErrorKind.TOO_LARGE:
            raise
    WINDOW_SPLITS.labels("one block's transactions").inc()
    structlog.get_logger().info(
        "block_fetched_per_transaction", endpoint=endpoint.name, block=number, what="transactions"
    )
    answer = endpoint.client.call(_METHOD, [hex(number), False], FullHeaderResponse)
    if answer is None:
        return None
    params = [
        [tx_hash] for tx_hash in FullHeader(block_ref(endpoint.name, answer), answer).tx_hashes()
    ]
    sent = endpoint.client.batch("eth_getTransactionByHash", params, dict[str, object])
    if None in sent:
        words = f"transactions of block {number} are gone, or not there yet"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
    answer.transactions = msgspec.Raw(msgspec.json.encode(sent))
    return answer


def all_of(endpoint: Endpoint, numbers: Iterable[int]) -> dict[int, FullHeader]:
    """Return the blocks at these heights; all of them are required.

    Raises:
        RpcError: a block is missing, or no usable answer.
    """
    asked = list(numbers)
    known = {one.block.number: one for one in full_headers_of(endpoint, asked) if one is not None}
    for number in asked:
        if number not in known:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {number}")
    return known


def chained(endpoint: Endpoint, blocks: BlockRange, *, full: bool = False) -> list[FullHeader]:
    """Return the blocks of the range, each the parent of the next.

    `with_transactions`: see `fetch_full_headers`.

    Heights that the chain skipped are left out if the next block names the block before them as
    its parent. Missing blocks at the beginning or end are left out too; whether they were skipped
    follows from the blocks around the range.

    Raises:
        RpcError: a block is missing, or they do not link.
    """
    found = full_headers_of(endpoint, range(blocks.first, blocks.last + 1), full=full)
    chain = [one for one in found if one is not None]
    for parent, child in pairwise(chain):
        if child.block.parent_hash != parent.block.hash:
            missing = child.block.number - 1 > parent.block.number
            kind = ErrorKind.NOT_THERE if missing else ErrorKind.INVALID
            words = f"block {child.block.number} does not follow block {parent.block.number}"
            raise RpcError(endpoint.name, kind, words)
    return chain


def newest(endpoint: Endpoint) -> FullHeader | None:
    """Return the newest block from the endpoint's last head check, or None.

    The header is used once, for the window right after the check, and not for a retry.
    """
    answer = endpoint.take_newest_header()
    return None if answer is None else FullHeader(block_ref(endpoint.name, answer), answer)
