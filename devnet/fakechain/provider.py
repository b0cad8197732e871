"""An endpoint that serves a tree of blocks with its own head, finality and history.

The endpoint responds like geth, unless a fault or a setting changes that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Self

from typing_extensions import override

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.block_json import Block, Json
from devnet.fakechain.requests import HASH_LENGTH, FakeRpcError
from devnet.fakechain.tree import BlockIndex, BlockTree, BranchView

_BOTH_GIVEN_TEXT = "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other"


@dataclass(frozen=True, slots=True)
class FakeLogFilter:
    """A log filter by a `block_hash`, or by a range of numbers or tags.

    None as an address or a topic matches any value.
    """

    first: str
    last: str
    block_hash: str | None
    addresses: frozenset[str] | None
    topics: tuple[frozenset[str] | None, ...]

    @classmethod
    def parse(cls, filter_json: Mapping[str, Any]) -> Self:
        """Parse the filter parameter of `eth_getLogs`.

        Raises:
            FakeRpcError: both a block hash and a range are given.
        """
        if "blockHash" in filter_json and ("fromBlock" in filter_json or "toBlock" in filter_json):
            raise FakeRpcError(-32602, _BOTH_GIVEN_TEXT)
        return cls(
            filter_json.get("fromBlock") or "latest",
            filter_json.get("toBlock") or "latest",
            filter_json.get("blockHash"),
            _parse_accepted_values(filter_json.get("address")),
            tuple(_parse_accepted_values(topic) for topic in filter_json.get("topics") or ()),
        )

    def select_logs(self, logs: Sequence[Json]) -> list[Json]:
        """Return the logs that match the filter."""
        return [log for log in logs if self._matches(log)]

    def _matches(self, log: Json) -> bool:
        if self.addresses is not None and log["address"].lower() not in self.addresses:
            return False
        topics = log["topics"]
        return len(topics) >= len(self.topics) and all(
            accepted_topics is None or topic.lower() in accepted_topics
            for topic, accepted_topics in zip(topics, self.topics, strict=False)
        )


def _parse_accepted_values(filter_value: str | Sequence[str] | None) -> frozenset[str] | None:
    """Parse the accepted values of a position.

    Null and an empty list match anything.
    """
    if not filter_value:
        return None
    return frozenset(
        value.lower()
        for value in ([filter_value] if isinstance(filter_value, str) else filter_value)
    )


# Target of a block tag: a distance below the head, a block, null (None) or an error.
TagTarget = int | Block | FakeRpcError | None
CallHandler = Callable[[dict[str, Any], Block], str]
_SERVER, _PARAMS, _UNSUPPORTED, _PRUNED = -32000, -32602, -32601, 4444


class Provider(FakeEndpoint):
    """Serves a tree or a recorded chain.

    If `head` is set to another block, this block becomes the newest.
    """

    def __init__(self, chain: BlockTree | BlockIndex, head: Block | None = None) -> None:
        super().__init__()
        self._blocks = chain.blocks if isinstance(chain, BlockTree) else chain
        if head is None:
            if not isinstance(chain, BlockTree):
                raise ValueError("head: required for a provider of recorded blocks")
            head = chain.last_mined
        self._view = BranchView(head)
        self._header_callbacks: list[Callable[[Json], None]] = []
        self._lock = Lock()
        self.chain_id = self._blocks.chain_id
        self.version = "FakeChain/1.0"
        # Target of each block tag. Other tags are rejected with geth's code -32602.
        self.tag_targets: dict[str, TagTarget] = {"safe": 2, "finalized": 4}
        # Number of the block below which logs, receipts and transactions are pruned, so that only
        # headers remain.
        self.pruned_below = 0
        # True if orphaned blocks can still be queried by hash, as with geth. With Anvil, they
        # cannot.
        self.keeps_orphans = True
        self.code_by_address: dict[str, str] = {}
        self.call_handler: CallHandler | None = None
        # Methods that fail with -32601 (unsupported).
        self.unsupported: set[str] = set()

    @property
    def head(self) -> Block:
        """The newest block that the endpoint shows."""
        return self._view.head

    @head.setter
    def head(self, block: Block) -> None:
        with self._lock:
            new_blocks = self._view.switch_to(block)
            callbacks = tuple(self._header_callbacks)
        for new_block in new_blocks:
            for callback in callbacks:
                callback(new_block.header)

    @override
    def subscribe_new_heads(self, _on_header: Callable[[Json], None]) -> Callable[[], None]:
        if "eth_subscribe" in self.unsupported:
            return super().subscribe_new_heads(_on_header)
        with self._lock:
            self._header_callbacks.append(_on_header)
        return lambda: self._header_callbacks.remove(_on_header)

    # --- answers ---

    @override
    def handle_call(self, method: str, params: Sequence[Any]) -> Any:
        handler = self._METHODS.get(method)
        if handler is None or method in self.unsupported:
            raise FakeRpcError(
                _UNSUPPORTED, f"the method {method} does not exist/is not available"
            )
        return handler(self, *params)

    @override
    def find_block_range(self, method: str, _params: Sequence[Any]) -> tuple[int, int] | None:
        if not _params:
            return None
        block_argument = _params[0]
        if isinstance(block_argument, dict) and (
            "fromBlock" in block_argument or "toBlock" in block_argument
        ):
            log_filter = FakeLogFilter.parse(block_argument)
            return self._resolve_block_number(log_filter.first), self._resolve_block_number(
                log_filter.last
            )
        if method in _TRANSACTION_METHODS:
            placements = self._blocks.placements_by_tx.get(str(block_argument).lower(), ())
            return (placements[0].block.number, placements[0].block.number) if placements else None
        if method not in _BLOCK_METHODS:
            return None
        block = self._find_block(block_argument)
        return (block.number, block.number) if block else None

    def _get_chain_id(self) -> str:
        return hex(self.chain_id)

    def _get_block_number(self) -> str:
        return hex(self.head.number)

    def _get_client_version(self) -> str:
        return self.version

    def _get_block(self, block_argument: str, with_transactions: object = False) -> Json | None:  # noqa: FBT002 - as it is asked
        block = self._find_block(block_argument)
        if block is None:
            return None
        return block.json_with_transactions if with_transactions else block.json_with_hashes

    def _get_block_receipts(self, block_argument: str | Json) -> list[Json] | None:
        block = self._find_block(block_argument)
        if block is None:
            return None
        if block.is_missing_receipts:
            raise FakeRpcError(_PRUNED, "pruned history unavailable: no receipts were recorded")
        return self._check_not_pruned(block).receipts

    def _get_transaction(self, tx_hash: str) -> Json | None:
        block_and_index = self._find_transaction(tx_hash)
        if block_and_index is None:
            return None
        return self._check_not_pruned(block_and_index[0]).transactions[block_and_index[1]]

    def _get_transaction_receipt(self, tx_hash: str) -> Json | None:
        block_and_index = self._find_transaction(tx_hash)
        if block_and_index is None:
            return None
        return self._check_not_pruned(block_and_index[0]).receipts[block_and_index[1]]

    def _get_logs(self, filter_json: Json) -> list[Json]:
        log_filter = FakeLogFilter.parse(filter_json)
        if log_filter.block_hash is not None:
            block = self._find_block_by_hash(log_filter.block_hash)
            if block is None:
                raise FakeRpcError(_SERVER, "unknown block")
            return log_filter.select_logs(self._check_not_pruned(block).logs)
        first_block = self._resolve_block_number(log_filter.first)
        last_block = self._resolve_block_number(log_filter.last)
        if first_block > last_block:
            raise FakeRpcError(_PARAMS, "invalid block range params")
        return [
            log
            for block in self._view.get_blocks(first_block, last_block)
            for log in log_filter.select_logs(self._check_not_pruned(block).logs)
        ]

    def _get_code(self, address: str, _block: object = "latest") -> str:
        return self.code_by_address.get(address.lower(), "0x")

    def _execute_call(
        self, call: dict[str, Any], block_argument: str | Json = "latest", *_overrides: object
    ) -> str:
        block = self._find_block(block_argument)
        if block is None:
            raise FakeRpcError(_SERVER, "header not found")
        return "0x" if self.call_handler is None else self.call_handler(call, block)

    _METHODS: dict[str, Callable[..., object]] = {  # noqa: RUF012 - never changed
        "eth_chainId": _get_chain_id,
        "eth_blockNumber": _get_block_number,
        "web3_clientVersion": _get_client_version,
        "eth_getBlockByNumber": _get_block,
        "eth_getBlockByHash": _get_block,
        "eth_getBlockReceipts": _get_block_receipts,
        "eth_getTransactionByHash": _get_transaction,
        "eth_getTransactionReceipt": _get_transaction_receipt,
        "eth_getLogs": _get_logs,
        "eth_getCode": _get_code,
        "eth_call": _execute_call,
    }

    # --- finding ---

    def _find_block(self, block_argument: str | Json) -> Block | None:
        """Find the block for a number, tag, hash or EIP-1898 object, if it exists."""
        if isinstance(block_argument, dict):
            block_argument = str(
                block_argument["blockHash"]
                if "blockHash" in block_argument
                else block_argument["blockNumber"]
            )
        if len(block_argument) == HASH_LENGTH:
            return self._find_block_by_hash(block_argument)
        if block_argument.startswith("0x"):
            return self._view.find_block(int(block_argument, 16))
        if block_argument in {"latest", "pending"}:
            return self.head
        if block_argument == "earliest":
            return self._view.find_block(0)
        return self._find_tagged_block(block_argument)

    def _find_tagged_block(self, tag: str) -> Block | None:
        if tag not in self.tag_targets:
            raise FakeRpcError(_PARAMS, f"invalid block tag {tag}")
        target = self.tag_targets[tag]
        if isinstance(target, FakeRpcError):
            raise target
        if isinstance(target, int):
            return self._view.get_block_below_head(target)
        return target

    def _find_block_by_hash(self, block_hash: str) -> Block | None:
        block = self._blocks.block_by_hash.get(block_hash.lower())
        if block is None:
            return None
        is_visible = (
            self._view.has_ever_contained(block)
            if self.keeps_orphans
            else self._view.contains(block)
        )
        return block if is_visible else None

    def _find_transaction(self, tx_hash: str) -> tuple[Block, int] | None:
        for block, index in self._blocks.placements_by_tx.get(tx_hash.lower(), ()):
            if self._view.contains(block):
                return block, index
        return None

    def _resolve_block_number(self, block_argument: str) -> int:
        if block_argument.startswith("0x"):
            return int(block_argument, 16)
        block = self._find_block(block_argument)
        if block is None:
            raise FakeRpcError(_SERVER, f"{block_argument} block not found")
        return block.number

    def _check_not_pruned(self, block: Block) -> Block:
        if block.number < self.pruned_below:
            raise FakeRpcError(_PRUNED, "pruned history unavailable")
        return block


_TRANSACTION_METHODS = {"eth_getTransactionByHash", "eth_getTransactionReceipt"}
_BLOCK_METHODS = {
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getBlockReceipts",
    "eth_getLogs",
}
