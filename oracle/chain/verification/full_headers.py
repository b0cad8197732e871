"""Headers with what they seal: the bloom, and the roots of receipts and transactions."""

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
    """What names a transaction of a block that was read with all of them."""

    hash: str


@dataclass(frozen=True, slots=True)
class FullHeader:
    """A block and what its header says of its content; None where the chain does not say it."""

    block: BlockRef
    answer: FullHeaderResponse = field(repr=False)

    @property
    def bloom(self) -> int | None:
        """The bloom as a whole number; None where the header has none that can be read."""
        try:
            return int(_text(self.answer.logs_bloom), 16)
        except ValueError:
            return None

    @property
    def receipts_root(self) -> str:
        """The root, lower case; empty where the header has none."""
        return _text(self.answer.receipts_root).lower()

    @property
    def transactions_root(self) -> str:
        """The root, lower case; empty where the header has none."""
        return _text(self.answer.transactions_root).lower()

    @property
    def is_without_transactions(self) -> bool:
        """Whether it says that there is no receipt in it."""
        return self.receipts_root == NO_RECEIPTS

    @property
    def holds_transactions(self) -> bool:
        """Whether it has receipts to be asked for, also where roots are made up."""
        return not self.is_without_transactions and bytes(self.answer.transactions) != b"[]"

    @property
    def whole_header(self) -> HeaderResponse | None:
        """Every field that the hash is made of; None where one is missing."""
        try:
            return msgspec.convert(self.answer, HeaderResponse, from_attributes=True)
        except msgspec.ValidationError:
            return None

    def tx_hashes(self) -> list[str]:
        """Return the hashes of its transactions, in order, whether it came with those or whole.

        Raises:
            ValueError: the block came with something else.
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
    """Return the blocks of these heights, None for each that the endpoint does not have.

    `full`: with their transactions, and not only with the hashes of those.

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
    """Return the block of this hash; None where the endpoint does not have it.

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
    """Return a block with its transactions, one by one where they are more than one answer holds.

    Raises:
        RpcError: no usable answer, or a transaction that it does not have.
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
    """Return the blocks of these heights, which the endpoint must have.

    Raises:
        RpcError: one is missing, or no usable answer.
    """
    asked = list(numbers)
    known = {one.block.number: one for one in full_headers_of(endpoint, asked) if one is not None}
    for number in asked:
        if number not in known:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {number}")
    return known


def chained(endpoint: Endpoint, blocks: BlockRange, *, full: bool = False) -> list[FullHeader]:
    """Return the blocks of the range, each the parent of the next.

    For `full` see `full_headers_of`.

    Heights that the chain skipped are left out: only where the block after them names the block
    before them as its parent. What is missing at the beginning or the end is left out too; what
    it is, the blocks around the range tell.

    Raises:
        RpcError: one is missing, or they do not link.
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
    """Return the newest block as the endpoint showed it when its head was last looked at.

    Good for the window right after it, not for a second try: it is given once.
    """
    answer = endpoint.take_newest_header()
    return None if answer is None else FullHeader(block_ref(endpoint.name, answer), answer)
