"""An endpoint of the simulated chain: its view, its pool, and the JSON-RPC that we use.

The pool follows geth's rules: a replacement needs a tenth more of both fees; a known transaction
is "already known"; a nonce below the account's is "nonce too low".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from oracle.chain.decode.abi import load_abi
from oracle.resources import find_shipped_path
from tests.simulation.chain import GAS_USED, GWEI, Block, Branch, Chain, Tx

Json = Any
# The number of blocks after its as-of block in which a statement may land.
ANCHOR_WINDOW = 45
_FEE_BLOCKS = 10
_TIP = GWEI
_SELECTOR = 10
_MARKS = {"latest": 0, "pending": 0}


class RefusedError(Exception):
    """A JSON-RPC error with geth's message."""


@dataclass
class Node:
    """An endpoint.

    `takes_gaps`: it keeps a transaction above a missing nonce, as geth does. `wants_base_fee`: it
    rejects transactions that the newest block would not accept. `finality`: the depth of the
    `finalized` block, or None if the tag is not supported.
    """

    chain: Chain
    takes_gaps: bool = True
    wants_base_fee: bool = False
    finality: int | None = None
    is_full: bool = False
    pool: dict[int, Tx] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.view = Branch(self.chain.branch.blocks[0])

    # --- what happens to it ---

    def follow(self, block: Block | None = None) -> None:
        """Show the chain's head or a given block, and remove mined transactions from the pool."""
        self.view.move_to(block or self.chain.head)
        self.pool = {nonce: tx for nonce, tx in self.pool.items() if nonce >= self.view.head.nonce}

    def take_back(self, txs: list[Tx]) -> None:
        """Put the transactions of orphaned blocks into the pool."""
        for tx in txs:
            self.pool.setdefault(tx.nonce, tx)

    # --- the pool ---

    def submit(self, tx: Tx) -> None:
        """Add a transaction to the pool.

        Raises:
            RefusedError: the pool rejects the transaction, with geth's message.
        """
        why_not = self._why_not(tx) or self._why_no_replacement(tx)
        if why_not is not None:
            raise RefusedError(why_not)
        if self.is_full:
            raise RefusedError("txpool is full")
        self.pool[tx.nonce] = tx
        attic = self.chain.attic.setdefault(tx.nonce, [])
        if tx not in attic:
            attic.append(tx)

    def _why_not(self, tx: Tx) -> str | None:
        """Return why a transaction is rejected regardless of the pool, or None."""
        head = self.view.head
        if tx.nonce < head.nonce:
            return f"nonce too low: next nonce {head.nonce}, tx nonce {tx.nonce}"
        if tx.max_fee * tx.gas_limit > self.chain.ether - head.spent:
            return "insufficient funds for gas * price + value"
        if self.wants_base_fee and tx.max_fee < head.base_fee:
            return "max fee per gas less than block base fee"
        return None

    def _why_no_replacement(self, tx: Tx) -> str | None:
        """Return why a transaction does not replace the one in the pool, or None."""
        pooled_tx = self.pool.get(tx.nonce)
        gap = any(n not in self.pool for n in range(self.view.head.nonce, tx.nonce))
        if gap and not self.takes_gaps:
            return "nonce too high"
        if pooled_tx is not None and pooled_tx.hash == tx.hash:
            return "already known"
        if pooled_tx is not None and not _replaces(tx, pooled_tx):
            return "replacement transaction underpriced"
        return None

    # --- JSON-RPC ---

    def answer(self, method: str, params: list[Json]) -> Json:
        """Return the result of one request.

        Raises:
            RefusedError: the request fails.
        """
        verb = _METHODS.get(method)
        if verb is None:
            raise RefusedError(f"the method {method} does not exist")
        return verb(self, *params)

    def _chain_id(self) -> Json:
        return hex(31337)

    def _height(self) -> Json:
        return hex(self.view.head.number)

    def _by_number(self, tag: str, *_: Json) -> Json:
        block = self._block(tag)
        return None if block is None else _block_to_json(block)

    def _by_hash(self, digest: str, *_: Json) -> Json:
        matching_blocks = [block for block in reversed(self.view.blocks) if block.hash == digest]
        return _block_to_json(matching_blocks[0]) if matching_blocks else None

    def _receipt(self, digest: str) -> Json:
        block = self.view.place.get(digest)
        if block is None:
            return None
        tx = next(block_tx for block_tx in block.txs if block_tx.hash == digest)
        return {
            "transactionHash": digest,
            "transactionIndex": hex(block.txs.index(tx)),
            "blockNumber": hex(block.number),
            "blockHash": block.hash,
            "status": "0x1" if block.worked(tx, self.chain.failing) else "0x0",
            "gasUsed": hex(GAS_USED),
            "effectiveGasPrice": hex(block.price(tx)),
            "contractAddress": None,
            "logs": [],
        }

    def _transaction(self, digest: str) -> Json:
        block = self.view.place.get(digest)
        pooled = next((tx for tx in self.pool.values() if tx.hash == digest), None)
        if block is None and pooled is None:
            return None
        return {"hash": digest, "blockNumber": None if block is None else hex(block.number)}

    def _count(self, _: str, tag: str) -> Json:
        block = self._block(tag)
        if block is None:
            raise RefusedError("header not found")
        nonce = block.nonce
        while tag == "pending" and nonce in self.pool:
            nonce += 1
        return hex(nonce)

    def _balance(self, _: str, tag: str) -> Json:
        block = self._block(tag)
        if block is None:
            raise RefusedError("header not found")
        return hex(max(self.chain.ether - block.spent, 0))

    def _fee_history(self, *_: Json) -> Json:
        newest = self.view.blocks[-_FEE_BLOCKS:]
        head = newest[-1]
        return {
            "oldestBlock": hex(newest[0].number),
            "baseFeePerGas": [hex(block.base_fee) for block in [*newest, head]],
            "gasUsedRatio": [0.5] * len(newest),
            "reward": [[hex(_TIP)] for _ in newest],
        }

    def _tip(self) -> Json:
        return hex(_TIP)

    def _call(self, call: dict[str, Json], *_: Json) -> Json:
        """Return the result of a contract call, which always succeeds.

        Almost nothing of the contract is read.
        """
        return _views().get(call["data"][:_SELECTOR], "0x")

    def _estimate(self, *_: Json) -> Json:
        return hex(GAS_USED)

    def _send(self, raw: str) -> Json:
        tx = Tx.read(raw)
        self.submit(tx)
        return tx.hash

    def _block(self, tag: str) -> Block | None:
        blocks = self.view.blocks
        if tag in _MARKS:
            return blocks[-1]
        if tag in {"finalized", "safe"}:
            if self.finality is None:
                raise RefusedError(f"unknown block {tag}")
            return blocks[max(len(blocks) - 1 - self.finality, 0)]
        number = int(tag, 16)
        return blocks[number] if number < len(blocks) else None


def _replaces(new: Tx, old: Tx) -> bool:
    """Return whether a transaction has geth's price bump: a tenth more of both fees."""
    return all(
        10 * now >= 11 * before and now > before
        for now, before in ((new.max_fee, old.max_fee), (new.tip, old.tip))
    )


def _block_to_json(block: Block) -> Json:
    return {
        "number": hex(block.number),
        "hash": block.hash,
        "parentHash": "0x" + 64 * "0" if block.parent is None else block.parent.hash,
        "timestamp": hex(block.time),
        "baseFeePerGas": hex(block.base_fee),
        "gasLimit": hex(30_000_000),
        "transactions": [tx.hash for tx in block.txs],
    }


@cache
def _views() -> dict[str, str]:
    """Return the encoded result of each view of the oracle contract, by selector.

    Every field is 0 or empty, except for one.
    """
    abi = msgspec.json.decode(find_shipped_path("abi/roots/QoSRoots.json").read_bytes())["abi"]
    functions = load_abi("roots/QoSRoots").functions
    return {
        functions[part["name"]].digest[:_SELECTOR]: _answer(part["outputs"])
        for part in abi
        if part["type"] == "function" and part["stateMutability"] == "view"
    }


def _answer(outputs: list[dict[str, Json]]) -> str:
    if [output["type"] for output in outputs] == ["address[]"]:
        # The offset of an empty list, and its length.
        return f"0x{32:064x}{0:064x}"
    fields = [field for output in outputs for field in output.get("components", [output])]
    words = (ANCHOR_WINDOW if field["name"] == "anchorWindow" else 0 for field in fields)
    return "0x" + "".join(f"{word:064x}" for word in words)


_METHODS: dict[str, Callable[..., Json]] = {
    "eth_chainId": Node._chain_id,
    "eth_blockNumber": Node._height,
    "eth_getBlockByNumber": Node._by_number,
    "eth_getBlockByHash": Node._by_hash,
    "eth_getTransactionReceipt": Node._receipt,
    "eth_getTransactionByHash": Node._transaction,
    "eth_getTransactionCount": Node._count,
    "eth_getBalance": Node._balance,
    "eth_feeHistory": Node._fee_history,
    "eth_maxPriorityFeePerGas": Node._tip,
    "eth_call": Node._call,
    "eth_estimateGas": Node._estimate,
    "eth_sendRawTransaction": Node._send,
}
