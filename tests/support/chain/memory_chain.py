"""A chain of prepared blocks in memory, which answers JSON-RPC with bytes encoded in advance.

The fault tests serve such a chain in their own process, and the benchmarks in a separate one.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

NULL = b"null"
_HASH_DIGITS = 66
# A transaction: its index, the cumulative gas, and its log.
_RECEIPT = (
    b'{"transactionHash":"%b","transactionIndex":"%b","cumulativeGasUsed":"%b","status":"0x1",'
    b'"logs":[%b]}'
)
PARENT_OF_ALL = "0x" + "00" * 32


class UnminedLog(NamedTuple):
    """A log that is not in a block yet: its address, topics and data, as `0x` hex."""

    address: str
    topics: tuple[str, ...]
    data: str


@dataclass
class Block:
    """One block with its logs; each log is in its own transaction."""

    number: int
    hash: str
    parent_hash: str
    time: int
    # (address, first topic, JSON) of each log.
    logs: list[tuple[str, str, bytes]]
    header: bytes


@dataclass
class Fork:
    """The properties of a fork: `salt` distinguishes blocks of equal height and content."""

    salt: str = ""
    # Whether logs contain their block's time; only some endpoints return it.
    with_times: bool = True


class MemoryRpcError(Exception):
    """An error that the endpoint returns."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass
class MemoryChain:
    """Blocks from 0 on; `mine` adds one, and `header` removes the newest ones."""

    chain_id: int = 31337
    fork: Fork = field(default_factory=Fork)
    blocks: list[Block] = field(default_factory=list)
    transactions: dict[str, dict[str, Any]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    # Depth of a tag's block below the newest one; a missing tag is not supported.
    tags: dict[str, int] = field(default_factory=lambda: {"safe": 2, "finalized": 4})

    def __post_init__(self) -> None:
        if not self.blocks:
            self.mine(time=1_000)

    @property
    def head(self) -> int:
        return self.blocks[-1].number

    def mine(self, events: Iterable[UnminedLog] = (), *, time: int | None = None) -> Block:
        """Add a block with these logs, by default 12 seconds after the last block."""
        number = len(self.blocks)
        parent = self.blocks[-1] if self.blocks else None
        when = time if time is not None else (parent.time + 12 if parent else 0)
        parent_hash = parent.hash if parent else PARENT_OF_ALL
        events = list(events)
        own = _hash_parts(parent_hash, number, when, self.fork.salt, *events)
        logs = [
            (event.address, event.topics[0], self._log(number, own, when, place, event))
            for place, event in enumerate(events)
        ]
        block = Block(
            number, own, parent_hash, when, logs, _encode_header(number, own, parent_hash, when)
        )
        self.blocks.append(block)
        return block

    def cut(self, blocks: int, *, salt: str) -> None:
        """Remove the newest blocks; the blocks mined afterwards are another fork."""
        del self.blocks[-blocks:]
        self.fork.salt = salt

    def _log(self, number: int, own: str, time: int, place: int, event: UnminedLog) -> bytes:
        log = {
            "address": event.address,
            "topics": event.topics,
            "data": event.data,
            "blockHash": own,
            "blockNumber": hex(number),
            "blockTimestamp": hex(time),
            "transactionHash": _hash_parts(own, place),
            "transactionIndex": hex(place),
            "logIndex": hex(place),
            "removed": False,
        }
        if not self.fork.with_times:
            del log["blockTimestamp"]
        return msgspec.json.encode(log)

    # --- answers ---

    def answer(self, method: str, params: Sequence[Any]) -> bytes:
        """Return the JSON of the result.

        Raises:
            MemoryRpcError: the request fails, as on a real endpoint.
        """
        answers: dict[str, Callable[..., bytes]] = {
            "eth_chainId": lambda: msgspec.json.encode(hex(self.chain_id)),
            "eth_blockNumber": lambda: msgspec.json.encode(hex(self.head)),
            "eth_getBlockByNumber": lambda place, _: self._get_block(place),
            "eth_getBlockReceipts": self._get_receipts,
            "eth_getLogs": self._get_logs,
            "eth_getTransactionByHash": lambda of: msgspec.json.encode(self.transactions.get(of)),
            "eth_getCode": lambda at, _: msgspec.json.encode(self.code.get(at.lower(), "0x")),
        }
        if method not in answers:
            raise MemoryRpcError(-32601, f"the method {method} does not exist")
        return answers[method](*params)

    def _get_receipts(self, named: str) -> bytes:
        block = self._named(named)
        if block is None:
            return NULL
        receipts = []
        for place, (_, _, text) in enumerate(block.logs):
            tx_hash = _hash_parts(block.hash, place).encode()
            index = hex(place).encode()
            receipts.append(_RECEIPT % (tx_hash, index, hex(21_000 * (place + 1)).encode(), text))
        return b"[" + b",".join(receipts) + b"]"

    def _named(self, named: str) -> Block | None:
        """Return the block with this hash or height, or None."""
        if len(named) == _HASH_DIGITS:
            return next((block for block in reversed(self.blocks) if block.hash == named), None)
        number = int(named, 16)
        return self.blocks[number] if number <= self.head else None

    def _get_block(self, place: str) -> bytes:
        if place == "latest":
            number = self.head
        elif place.startswith("0x"):
            number = int(place, 16)
        elif place in self.tags:
            number = max(0, self.head - self.tags[place])
        else:
            raise MemoryRpcError(-32602, f"invalid block tag {place}")
        return self.blocks[number].header if number <= self.head else NULL

    def _get_logs(self, log_filter: dict[str, Any]) -> bytes:
        if "blockHash" in log_filter:
            block = self._named(log_filter["blockHash"])
            if block is None:
                raise MemoryRpcError(-32000, "unknown block")
            blocks = [block]
        else:
            blocks = self.blocks[
                int(log_filter["fromBlock"], 16) : int(log_filter["toBlock"], 16) + 1
            ]
        addresses = _to_lowercase_set(log_filter.get("address"))
        topics = _to_lowercase_set((log_filter.get("topics") or [None])[0])
        # A filter with several topics contains all topics of the contracts.
        every = topics is None or len(topics) > 1
        matching_logs = [
            text
            for block in blocks
            for address, topic, text in block.logs
            if every or (topic in (topics or ()) and (addresses is None or address in addresses))
        ]
        return b"[" + b",".join(matching_logs) + b"]"


def _to_lowercase_set(written: str | Sequence[str] | None) -> set[str] | None:
    if written is None:
        return None
    return {hex_text.lower() for hex_text in ([written] if isinstance(written, str) else written)}


def _hash_parts(*parts: object) -> str:
    text = "|".join(map(str, parts))
    return "0x" + hashlib.sha256(text.encode()).hexdigest()


def _encode_header(number: int, own: str, parent_hash: str, time: int) -> bytes:
    """Return a header of the usual size."""
    return msgspec.json.encode(
        {
            "number": hex(number),
            "hash": own,
            "parentHash": parent_hash,
            "timestamp": hex(time),
            "logsBloom": "0x" + "00" * 256,
            "receiptsRoot": own,
            "stateRoot": own,
            "transactionsRoot": own,
            "miner": "0x" + "00" * 20,
            "difficulty": "0x0",
            "extraData": "0x",
            "gasLimit": "0x1c9c380",
            "gasUsed": "0x5208",
            "baseFeePerGas": "0x7",
            "size": "0x220",
            "transactions": [],
            "uncles": [],
        }
    )
