"""Recorded chains, served as if they were live.

A recording is one file of JSON lines, `.jsonl` or `.jsonl.gz`. Each line is an object with a `kind`
and the fields that an endpoint returned:

    {"kind": "chain", "chainId": "0x7a69", "client": "anvil/v1.7.1"}     first line; may be missing
    {"kind": "block", "number": "0x1", "hash": "0x…", "parentHash": "0x…", "timestamp": "0x…", …}
    {"kind": "log", …}          an entry of eth_getLogs
    {"kind": "tx", …}           an entry of a full block, or of eth_getTransactionByHash
    {"kind": "receipt", …}      an entry of eth_getBlockReceipts

Lines may be in any order; logs, transactions and receipts name their block by `blockHash`. Blocks
link by their parents up to one head; the first one need not be block 0. A block without
transaction lines has no transactions; if its receipts root is not that of an empty block, its
receipts are served as pruned. A receipt without `logs` gets those of the log lines. A transaction
without a receipt gets one that is built from its `status` and logs. Only `number`, `hash`,
`parentHash` and `timestamp` of a block are required: a bloom or root that was not recorded is
served as zeros, as some chains serve them.

A folder with `blocks.jsonl.gz`, `logs.jsonl.gz` and `txs.jsonl.gz` is supported as well; its
transactions give their block as `block` and their position as `index`, and numbers are plain.
"""

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from devnet.fakechain.block_json import ZERO_HASH, Block, Json
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import Blocks
from oracle.chain.proofs.merkle_trie import EMPTY_ROOT
from oracle.errors import InputError

KINDS = ("block", "log", "tx", "receipt")
_EMPTY_ROOT = "0x" + EMPTY_ROOT.hex()
_ZERO_BLOOM = "0x" + "00" * 256
_ZERO_ADDRESS = "0x" + "00" * 20
# Values for fields that were not recorded.
_UNRECORDED: Json = {
    "logsBloom": _ZERO_BLOOM,
    "receiptsRoot": ZERO_HASH,
    "transactionsRoot": ZERO_HASH,
    "stateRoot": ZERO_HASH,
    "sha3Uncles": ZERO_HASH,
    "mixHash": ZERO_HASH,
    "miner": _ZERO_ADDRESS,
    "difficulty": "0x0",
    "gasLimit": "0x0",
    "gasUsed": "0x0",
    "extraData": "0x",
    "nonce": "0x" + "00" * 8,
    "size": "0x0",
    "uncles": [],
}
_DEFAULT_CHAIN_ID = 31337

_Lines = Mapping[str, list[Json]]


class RecordedBlock(Block):
    """A recorded block; its hash is the recorded one and is not verified."""

    def __init__(self, said: Json, parent: Block | None) -> None:
        super().__init__(int(said["number"], 16), said["hash"], parent, int(said["timestamp"], 16))
        self._said = said
        self._txs: list[Json] = []
        self._receipts: dict[str, Json] = {}
        self._logs: list[Json] = []

    @property
    @override
    def parent_hash(self) -> str:
        return str(self._said["parentHash"])

    def record(self, kind: str, said: Json) -> None:
        """Add a recorded entry of this block, before the block is served."""
        if kind == "log":
            self._logs.append(said)
        elif kind == "tx":
            self._txs.append(said)
        else:
            self._receipts[said["transactionHash"]] = said

    @property
    @override
    def lacks_receipts(self) -> bool:
        told = self._said.get("receiptsRoot", ZERO_HASH)
        is_empty = told in {ZERO_HASH, _EMPTY_ROOT}
        return not (is_empty or self._receipts or self._txs)

    @cached_property
    @override
    def header(self) -> Json:
        said = {key: value for key, value in self._said.items() if key != "transactions"}
        return {**_UNRECORDED, **said}

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        return sorted(self._txs, key=lambda tx: int(tx["transactionIndex"], 16))

    @cached_property
    @override
    def logs(self) -> list[Json]:
        said = self._logs or [
            log for receipt in self._receipts.values() for log in receipt.get("logs", ())
        ]
        return sorted(said, key=lambda log: int(log["logIndex"], 16))

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        by_tx: dict[str, list[Json]] = defaultdict(list)
        for log in self.logs:
            by_tx[log["transactionHash"]].append(log)
        if not self._txs:
            told = sorted(
                self._receipts.values(), key=lambda one: int(one["transactionIndex"], 16)
            )
            return [{**one, "logs": by_tx[one["transactionHash"]]} for one in told]
        return [{**self._receipt(tx), "logs": by_tx[tx["hash"]]} for tx in self.transactions]

    def _receipt(self, tx: Json) -> Json:
        told = self._receipts.get(tx["hash"])
        if told is not None:
            return told
        return {
            "transactionHash": tx["hash"],
            "transactionIndex": tx["transactionIndex"],
            "blockHash": self.hash,
            "blockNumber": self._said["number"],
            "from": tx["from"],
            "to": tx["to"],
            "type": tx.get("type", "0x0"),
            "status": tx.get("status", "0x1"),
            "gasUsed": tx.get("gasUsed", "0x0"),
            "cumulativeGasUsed": "0x0",
            "contractAddress": tx.get("contractAddress"),
            "logsBloom": _ZERO_BLOOM,
        }


class Recording:
    """A recorded chain: `blocks` of all branches, and the `head`."""

    def __init__(self, chain_id: int, lines: _Lines) -> None:
        self.blocks = Blocks(chain_id)
        self.chain_id = chain_id
        said = sorted(lines["block"], key=lambda one: int(one["number"], 16))
        if not said:
            raise InputError("a recorded chain without a block")
        for one in said:
            parent = self.blocks.by_hash.get(one["parentHash"])
            self.blocks.add(RecordedBlock(one, parent), ())
        self.head: Block = self.blocks.by_hash[said[-1]["hash"]]
        for kind in KINDS[1:]:
            self._record(kind, lines[kind])
        for block in tuple(self.blocks.by_hash.values()):
            self.blocks.add(block, [receipt["transactionHash"] for receipt in block.receipts])

    def _record(self, kind: str, lines: Iterable[Json]) -> None:
        for said in lines:
            block = self.blocks.by_hash.get(said["blockHash"])
            if not isinstance(block, RecordedBlock):
                raise InputError(f"a {kind} of block {said['blockHash']}, which was not recorded")
            block.record(kind, said)

    def provider(self) -> Provider:
        """Return an endpoint that shows the whole recording."""
        return Provider(self.blocks, self.head)


def recording(path: Path) -> Recording:
    """Read a recorded chain from a file or a folder.

    Raises:
        InputError: the file is not a recording; the message names the line.
    """
    if path.is_dir():
        return _from_folder(path)
    lines: dict[str, list[Json]] = {kind: [] for kind in KINDS}
    chain_id = _DEFAULT_CHAIN_ID
    for number, said in _objects(path):
        kind = said.pop("kind", None)
        if kind == "chain":
            chain_id = int(said["chainId"], 16)
        elif kind in lines:
            lines[kind].append(said)
        else:
            raise InputError(f"{path}:{number}: the kind {kind!r} is none of {', '.join(KINDS)}")
    return _made(path, chain_id, lines)


def _from_folder(folder: Path) -> Recording:
    blocks = [_quantities(said) for _, said in _objects(folder / "blocks.jsonl.gz")]
    hashes = {said["number"]: said["hash"] for said in blocks}
    txs = [_quantities(said) for _, said in _objects(folder / "txs.jsonl.gz")]
    for tx in txs:
        tx["blockNumber"], tx["transactionIndex"] = tx.pop("block"), tx.pop("index")
        tx["blockHash"] = hashes.get(tx["blockNumber"])
    logs = [said for _, said in _objects(folder / "logs.jsonl.gz")]
    chain_id = _DEFAULT_CHAIN_ID
    if (folder / "addresses.json").exists():
        told = msgspec.json.decode((folder / "addresses.json").read_bytes())
        chain_id = int(told.get("chainId", chain_id))
    return _made(folder, chain_id, {"block": blocks, "log": logs, "tx": txs, "receipt": []})


def _quantities(said: Json) -> Json:
    """Convert plain numbers to the hex quantities of JSON-RPC."""
    return {
        key: hex(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for key, value in said.items()
    }


def _made(path: Path, chain_id: int, lines: _Lines) -> Recording:
    try:
        return Recording(chain_id, lines)
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: a recorded chain lacks or misspells {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _objects(path: Path) -> Iterator[tuple[int, Json]]:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, 1):
                said = msgspec.json.decode(line)
                if not isinstance(said, dict):
                    raise InputError(f"{path}:{number}: no JSON object")
                yield number, said
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: no JSON lines: {error}") from None
