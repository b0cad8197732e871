"""One endpoint's view of a tree: its own head, finality and history.

The endpoint responds like geth, unless a fault or a setting changes that.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from typing_extensions import override

from devnet.fakechain.answering import Answering
from devnet.fakechain.block_json import Block, Json
from devnet.fakechain.log_filters import FakeLogFilter
from devnet.fakechain.requests import FakeRpcError
from devnet.fakechain.tree import Blocks, Tree, View

# The target of a tag: a distance below the head, a block, None (null), or an error.
Tag = int | Block | FakeRpcError | None
Calling = Callable[[dict[str, Any], Block], str]
_SERVER, _PARAMS, _UNSUPPORTED, _PRUNED = -32000, -32602, -32601, 4444


class Provider(Answering):
    """An endpoint over a tree or a recorded chain; assign `head` to show another block."""

    def __init__(self, chain: Tree | Blocks, head: Block | None = None) -> None:
        super().__init__()
        self._blocks = chain.blocks if isinstance(chain, Tree) else chain
        if head is None:
            if not isinstance(chain, Tree):
                raise ValueError("a provider of recorded blocks is told its head")
            head = chain.last
        self._view = View(head)
        self._hears: list[Callable[[Json], None]] = []
        self._lock = Lock()
        self.chain_id = self._blocks.chain_id
        self.version = "FakeChain/1.0"
        # Tags that are missing here are rejected with geth's -32602.
        self.tags: dict[str, Tag] = {"safe": 2, "finalized": 4}
        # Only headers are available below this block; logs, receipts and transactions are pruned.
        self.pruned_below = 0
        # Whether orphaned blocks are still served by hash, as geth does and Anvil does not.
        self.keeps_orphans = True
        self.code: dict[str, str] = {}
        self.call: Calling | None = None
        # Unsupported methods, which fail with -32601.
        self.unsupported: set[str] = set()

    @property
    def head(self) -> Block:
        """The newest block that the endpoint shows."""
        return self._view.head

    @head.setter
    def head(self, block: Block) -> None:
        with self._lock:
            came = self._view.show(block)
            hears = tuple(self._hears)
        for one in came:
            for hear in hears:
                hear(one.header)

    @override
    def subscribe(self, _hear: Callable[[Json], None]) -> Callable[[], None]:
        with self._lock:
            self._hears.append(_hear)
        return lambda: self._hears.remove(_hear)

    # --- answers ---

    @override
    def answer(self, method: str, params: Sequence[Any]) -> Any:
        answer = self._METHODS.get(method)
        if answer is None or method in self.unsupported:
            raise FakeRpcError(
                _UNSUPPORTED, f"the method {method} does not exist/is not available"
            )
        return answer(self, *params)

    @override
    def blocks_of(self, _method: str, _params: Sequence[Any]) -> tuple[int, int] | None:
        if not _params:
            return None
        named = _params[0]
        if isinstance(named, dict) and ("fromBlock" in named or "toBlock" in named):
            wanted = FakeLogFilter.read(named)
            return self._height(wanted.first), self._height(wanted.last)
        if _method in _ABOUT_TRANSACTIONS:
            places = self._blocks.places.get(str(named).lower(), ())
            return (places[0].block.number, places[0].block.number) if places else None
        if _method not in _ABOUT_BLOCKS:
            return None
        block = self._found(named)
        return (block.number, block.number) if block else None

    def _chain_id(self) -> str:
        return hex(self.chain_id)

    def _block_number(self) -> str:
        return hex(self.head.number)

    def _client_version(self) -> str:
        return self.version

    def _get_block(self, named: str, full: object = False) -> Json | None:  # noqa: FBT002 - as it is asked
        block = self._found(named)
        if block is None:
            return None
        return block.full if full else block.short

    def _get_receipts(self, named: str | Json) -> list[Json] | None:
        block = self._found(named)
        if block is None:
            return None
        if block.lacks_receipts:
            raise FakeRpcError(_PRUNED, "pruned history unavailable: no receipts were recorded")
        return self._whole(block).receipts

    def _get_transaction(self, tx_hash: str) -> Json | None:
        place = self._place(tx_hash)
        return None if place is None else self._whole(place[0]).transactions[place[1]]

    def _get_receipt(self, tx_hash: str) -> Json | None:
        place = self._place(tx_hash)
        return None if place is None else self._whole(place[0]).receipts[place[1]]

    def _get_logs(self, asked: Json) -> list[Json]:
        wanted = FakeLogFilter.read(asked)
        if wanted.block_hash is not None:
            block = self._by_hash(wanted.block_hash)
            if block is None:
                raise FakeRpcError(_SERVER, "unknown block")
            return wanted.of(self._whole(block).logs)
        first, last = self._height(wanted.first), self._height(wanted.last)
        if first > last:
            raise FakeRpcError(_PARAMS, "invalid block range params")
        return [
            log
            for block in self._view.between(first, last)
            for log in wanted.of(self._whole(block).logs)
        ]

    def _get_code(self, address: str, _at: object = "latest") -> str:
        return self.code.get(address.lower(), "0x")

    def _eth_call(self, asked: dict[str, Any], at: str | Json = "latest", *_more: object) -> str:
        block = self._found(at)
        if block is None:
            raise FakeRpcError(_SERVER, "header not found")
        return "0x" if self.call is None else self.call(asked, block)

    _METHODS: dict[str, Callable[..., object]] = {  # noqa: RUF012 - never changed
        "eth_chainId": _chain_id,
        "eth_blockNumber": _block_number,
        "web3_clientVersion": _client_version,
        "eth_getBlockByNumber": _get_block,
        "eth_getBlockByHash": _get_block,
        "eth_getBlockReceipts": _get_receipts,
        "eth_getTransactionByHash": _get_transaction,
        "eth_getTransactionReceipt": _get_receipt,
        "eth_getLogs": _get_logs,
        "eth_getCode": _get_code,
        "eth_call": _eth_call,
    }

    # --- finding ---

    def _found(self, named: str | Json) -> Block | None:
        """Return the block of a number, a tag, a hash, or an EIP-1898 object."""
        if isinstance(named, dict):
            named = str(named["blockHash"] if "blockHash" in named else named["blockNumber"])
        if len(named) == _HASH_DIGITS:
            return self._by_hash(named)
        if named.startswith("0x"):
            return self._view.at(int(named, 16))
        if named in {"latest", "pending"}:
            return self.head
        return self._view.at(0) if named == "earliest" else self._tagged(named)

    def _tagged(self, tag: str) -> Block | None:
        if tag not in self.tags:
            raise FakeRpcError(_PARAMS, f"invalid block tag {tag}")
        points = self.tags[tag]
        if isinstance(points, FakeRpcError):
            raise points
        if isinstance(points, int):
            return self._view.below_head(points)
        return points

    def _by_hash(self, block_hash: str) -> Block | None:
        block = self._blocks.by_hash.get(block_hash.lower())
        if block is None:
            return None
        is_known = self._view.has_shown(block) if self.keeps_orphans else self._view.shows(block)
        return block if is_known else None

    def _place(self, tx_hash: str) -> tuple[Block, int] | None:
        for block, index in self._blocks.places.get(tx_hash.lower(), ()):
            if self._view.shows(block):
                return block, index
        return None

    def _height(self, named: str) -> int:
        if named.startswith("0x"):
            return int(named, 16)
        block = self._found(named)
        if block is None:
            raise FakeRpcError(_SERVER, f"{named} block not found")
        return block.number

    def _whole(self, block: Block) -> Block:
        if block.number < self.pruned_below:
            raise FakeRpcError(_PRUNED, "pruned history unavailable")
        return block


_HASH_DIGITS = 66
_ABOUT_TRANSACTIONS = {"eth_getTransactionByHash", "eth_getTransactionReceipt"}
_ABOUT_BLOCKS = {
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getBlockReceipts",
    "eth_getLogs",
}
