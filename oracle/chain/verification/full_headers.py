"""Fetches headers with the bloom and the roots, which commit to the blocks' content.

The roots are those of the receipts and of the transactions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
from typing_extensions import Buffer

from oracle.chain.proofs.header_hash import HeaderResponse
from oracle.chain.proofs.merkle_trie import EMPTY_ROOT
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.replies import get_body_decoder
from oracle.rpc.responses import FullHeaderResponse, parse_block
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import WINDOW_SPLITS
from oracle.telemetry.logger import get_logger

_BLOCK_BY_NUMBER = "eth_getBlockByNumber"
EMPTY_TRIE_ROOT = "0x" + EMPTY_ROOT.hex()


class _HashedTransaction(msgspec.Struct, gc=False):
    """The hash of a transaction, from a block fetched with full transactions."""

    hash: str


@dataclass(frozen=True, slots=True)
class FullHeader:
    """A block with the fields of its header.

    A property of a missing field is None or empty.
    """

    block: BlockRef
    response: FullHeaderResponse = field(repr=False)

    @property
    def bloom(self) -> int | None:
        """The bloom as an integer, or None if the header has no readable bloom."""
        try:
            return int(_get_text_or_empty(self.response.logs_bloom), 16)
        except ValueError:
            return None

    @property
    def receipts_root(self) -> str:
        """The receipts root in lower case, or an empty string if there is none."""
        return _get_text_or_empty(self.response.receipts_root).lower()

    @property
    def transactions_root(self) -> str:
        """The transactions root in lower case, or an empty string if there is none."""
        return _get_text_or_empty(self.response.transactions_root).lower()

    @property
    def has_no_transactions(self) -> bool:
        """Whether the header commits to an empty list of receipts."""
        return self.receipts_root == EMPTY_TRIE_ROOT

    @property
    def may_have_transactions(self) -> bool:
        """Whether the block may have transactions.

        This also works on a chain whose headers have no roots.
        """
        return not self.has_no_transactions and bytes(self.response.transactions) != b"[]"

    @property
    def hashed_fields(self) -> HeaderResponse | None:
        """All header fields that are hashed, or None if one is missing."""
        try:
            return msgspec.convert(self.response, HeaderResponse, from_attributes=True)
        except msgspec.ValidationError:
            return None

    def decode_tx_hashes(self) -> list[str]:
        """Decode the hashes of the block's transactions, in order.

        The block may have been fetched with hashes or with full transactions.

        Raises:
            ValueError: the list of transactions is malformed.
        """
        try:
            transactions = get_body_decoder(list[str | _HashedTransaction]).decode(
                self.response.transactions
            )
        except msgspec.DecodeError as error:
            raise ValueError(f"transactions of block {self.block.number}: {error}") from None
        return [
            transaction if isinstance(transaction, str) else transaction.hash
            for transaction in transactions
        ]

    def count_transactions(self) -> int:
        """Return the number of transactions in the block, without decoding them.

        The result is 0 if the response has no list of transactions.
        """
        try:
            return len(get_body_decoder(list[msgspec.Raw]).decode(self.response.transactions))
        except msgspec.DecodeError:
            return 0

    def encode_tx_hashes_json(self) -> Buffer:
        """Encode the block's transaction hashes as JSON, without validating them.

        Malformed data is returned unchanged.
        """
        transactions = self.response.transactions
        if bytes(memoryview(transactions)[:2]) != b"[{":
            return transactions
        try:
            return msgspec.json.encode(self.decode_tx_hashes())
        except ValueError:
            return b""


def _get_text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def fetch_full_headers(
    endpoint: Endpoint, numbers: Iterable[int], *, with_transactions: bool = False
) -> list[FullHeader | None]:
    """Fetch the headers at these heights.

    The result is None for each block that the endpoint lacks. With `with_transactions`, blocks
    contain full transactions instead of only their hashes.

    Raises:
        RpcError: the endpoint gives no usable answer, or a block at another height.
    """
    heights = list(numbers)
    params: Sequence[Sequence[object]] = [[hex(number), with_transactions] for number in heights]
    try:
        responses = endpoint.client.call_batch(_BLOCK_BY_NUMBER, params, FullHeaderResponse)
    except RpcError as error:
        if error.kind is not ErrorKind.TOO_LARGE or not with_transactions:
            raise
        responses = [_fetch_block_with_transactions(endpoint, number) for number in heights]
    headers: list[FullHeader | None] = []
    for number, response in zip(heights, responses, strict=True):
        block = None if response is None else parse_block(endpoint.name, response)
        if block is not None and block.number != number:
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"another block for {number}")
        headers.append(None if block is None or response is None else FullHeader(block, response))
    return headers


def fetch_full_header_by_hash(endpoint: Endpoint, block_hash: Hash) -> FullHeader | None:
    """Fetch the header with this hash, or None if the endpoint does not have it.

    Raises:
        RpcError: the endpoint gives no usable answer, or another block.
    """
    response = endpoint.client.call("eth_getBlockByHash", [block_hash, False], FullHeaderResponse)
    if response is None:
        return None
    block = parse_block(endpoint.name, response)
    if block.hash != block_hash:
        raise RpcError(endpoint.name, ErrorKind.INVALID, f"another block for {block_hash}")
    return FullHeader(block, response)


def _fetch_block_with_transactions(endpoint: Endpoint, number: int) -> FullHeaderResponse | None:
    """Fetch a block with its transactions.

    If the block is too large, they are fetched one by one.

    Raises:
        RpcError: the endpoint gives no usable answer, or a transaction is missing.
    """
    try:
        return endpoint.client.call(_BLOCK_BY_NUMBER, [hex(number), True], FullHeaderResponse)
    except RpcError as error:
        if error.kind is not ErrorKind.TOO_LARGE:
            raise
    WINDOW_SPLITS.labels("one block's transactions").inc()
    get_logger().info(
        "block_fetched_per_transaction", endpoint=endpoint.name, block=number, what="transactions"
    )
    response = endpoint.client.call(_BLOCK_BY_NUMBER, [hex(number), False], FullHeaderResponse)
    if response is None:
        return None
    params = [
        [tx_hash]
        for tx_hash in FullHeader(
            parse_block(endpoint.name, response), response
        ).decode_tx_hashes()
    ]
    transactions = endpoint.client.call_batch(
        "eth_getTransactionByHash", params, dict[str, object]
    )
    if None in transactions:
        message = f"transactions of block {number} are pruned or not available yet"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
    response.transactions = msgspec.Raw(msgspec.json.encode(transactions))
    return response


def fetch_required_headers(endpoint: Endpoint, numbers: Iterable[int]) -> dict[int, FullHeader]:
    """Fetch the headers at these heights, none of which may be missing.

    Raises:
        RpcError: a block is missing, or the endpoint gives no usable answer.
    """
    heights = list(numbers)
    header_by_number = {
        header.block.number: header
        for header in fetch_full_headers(endpoint, heights)
        if header is not None
    }
    for number in heights:
        if number not in header_by_number:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {number}")
    return header_by_number


def fetch_linked_headers(
    endpoint: Endpoint, blocks: BlockRange, *, with_transactions: bool = False
) -> list[FullHeader]:
    """Fetch the headers of a range, each linked to the next by its hash.

    With `with_transactions`, blocks contain full transactions instead of only their hashes.
    Heights that the chain skipped are left out if the parent of the next block is the block before
    them. Missing blocks at the beginning or the end are left out as well, because only the blocks
    around the range show whether the heights were skipped.

    Raises:
        RpcError: a block is missing, or the blocks are not linked by parent hash.
    """
    headers = fetch_full_headers(
        endpoint, range(blocks.first, blocks.last + 1), with_transactions=with_transactions
    )
    fetched_headers = [header for header in headers if header is not None]
    for parent, child in pairwise(fetched_headers):
        if child.block.parent_hash != parent.block.hash:
            has_gap = child.block.number - 1 > parent.block.number
            kind = ErrorKind.NOT_THERE if has_gap else ErrorKind.INVALID
            message = f"block {child.block.number} does not follow block {parent.block.number}"
            raise RpcError(endpoint.name, kind, message)
    return fetched_headers


def take_newest_header(endpoint: Endpoint) -> FullHeader | None:
    """Return the newest header from the endpoint's last head check, but only once.

    The result is None if there is none. The header is used only once, for the window directly
    after the check, and not for a retry.
    """
    header_response = endpoint.take_newest_header()
    return (
        None
        if header_response is None
        else FullHeader(parse_block(endpoint.name, header_response), header_response)
    )
