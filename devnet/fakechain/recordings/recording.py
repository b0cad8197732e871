"""Recorded chains that are served as if they were live.

A recording is one file of JSON lines, `.jsonl` or `.jsonl.gz`. Each line is an object with a
`kind` and the fields that an endpoint returned:

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
from devnet.fakechain.tree import BlockIndex
from oracle.chain.proofs.merkle_trie import EMPTY_ROOT
from oracle.errors import InputError

LINE_KINDS = ("block", "log", "tx", "receipt")
_EMPTY_ROOT = "0x" + EMPTY_ROOT.hex()
_ZERO_BLOOM = "0x" + "00" * 256
_ZERO_ADDRESS = "0x" + "00" * 20
# Values that are returned for fields that were not recorded.
_UNRECORDED_FIELDS: Json = {
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

_LinesByKind = Mapping[str, list[Json]]


class RecordedBlock(Block):
    """A recorded block and its recorded hash, which is never verified."""

    def __init__(self, block_json: Json, parent: Block | None) -> None:
        super().__init__(
            int(block_json["number"], 16),
            block_json["hash"],
            parent,
            int(block_json["timestamp"], 16),
        )
        self._block_json = block_json
        self._txs: list[Json] = []
        self._receipts: dict[str, Json] = {}
        self._logs: list[Json] = []

    @property
    @override
    def parent_hash(self) -> str:
        return str(self._block_json["parentHash"])

    def add_entry(self, kind: str, entry: Json) -> None:
        """Add a recorded entry to the block, before the block is served."""
        if kind == "log":
            self._logs.append(entry)
        elif kind == "tx":
            self._txs.append(entry)
        else:
            self._receipts[entry["transactionHash"]] = entry

    @property
    @override
    def is_missing_receipts(self) -> bool:
        receipts_root = self._block_json.get("receiptsRoot", ZERO_HASH)
        is_empty = receipts_root in {ZERO_HASH, _EMPTY_ROOT}
        return not (is_empty or self._receipts or self._txs)

    @cached_property
    @override
    def header(self) -> Json:
        recorded_header = {
            key: value for key, value in self._block_json.items() if key != "transactions"
        }
        return {**_UNRECORDED_FIELDS, **recorded_header}

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        return sorted(self._txs, key=lambda tx: int(tx["transactionIndex"], 16))

    @cached_property
    @override
    def logs(self) -> list[Json]:
        recorded_logs = self._logs or [
            log for receipt in self._receipts.values() for log in receipt.get("logs", ())
        ]
        return sorted(recorded_logs, key=lambda log: int(log["logIndex"], 16))

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        logs_by_tx: dict[str, list[Json]] = defaultdict(list)
        for log in self.logs:
            logs_by_tx[log["transactionHash"]].append(log)
        if not self._txs:
            sorted_receipts = sorted(
                self._receipts.values(), key=lambda receipt: int(receipt["transactionIndex"], 16)
            )
            return [
                {**receipt, "logs": logs_by_tx[receipt["transactionHash"]]}
                for receipt in sorted_receipts
            ]
        return [
            {**self._build_receipt(tx), "logs": logs_by_tx[tx["hash"]]} for tx in self.transactions
        ]

    def _build_receipt(self, tx: Json) -> Json:
        recorded_receipt = self._receipts.get(tx["hash"])
        if recorded_receipt is not None:
            return recorded_receipt
        return {
            "transactionHash": tx["hash"],
            "transactionIndex": tx["transactionIndex"],
            "blockHash": self.hash,
            "blockNumber": self._block_json["number"],
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
    """A recorded chain.

    `blocks` contains the blocks of all branches.
    """

    def __init__(self, chain_id: int, lines: _LinesByKind) -> None:
        self.blocks = BlockIndex(chain_id)
        self.chain_id = chain_id
        block_entries = sorted(
            lines["block"], key=lambda block_entry: int(block_entry["number"], 16)
        )
        if not block_entries:
            raise InputError("the recording contains no blocks")
        for block_entry in block_entries:
            parent = self.blocks.block_by_hash.get(block_entry["parentHash"])
            self.blocks.add_block(RecordedBlock(block_entry, parent), ())
        self.head: Block = self.blocks.block_by_hash[block_entries[-1]["hash"]]
        for kind in LINE_KINDS[1:]:
            self._add_entries(kind, lines[kind])
        for block in tuple(self.blocks.block_by_hash.values()):
            self.blocks.add_block(
                block, [receipt["transactionHash"] for receipt in block.receipts]
            )

    def _add_entries(self, kind: str, lines: Iterable[Json]) -> None:
        for entry in lines:
            block = self.blocks.block_by_hash.get(entry["blockHash"])
            if not isinstance(block, RecordedBlock):
                raise InputError(
                    f"a {kind} line refers to block {entry['blockHash']}, which is not recorded"
                )
            block.add_entry(kind, entry)

    def create_provider(self) -> Provider:
        """Create an endpoint that serves the whole recording."""
        return Provider(self.blocks, self.head)


def read_recording(path: Path) -> Recording:
    """Read a recorded chain from a file or a folder.

    Raises:
        InputError: the file is not a recording; the message names the line.
    """
    if path.is_dir():
        return _read_recording_folder(path)
    lines: dict[str, list[Json]] = {kind: [] for kind in LINE_KINDS}
    chain_id = _DEFAULT_CHAIN_ID
    for line_number, entry in _iter_json_lines(path):
        kind = entry.pop("kind", None)
        if kind == "chain":
            chain_id = int(entry["chainId"], 16)
        elif kind in lines:
            lines[kind].append(entry)
        else:
            raise InputError(
                f"{path}:{line_number}: unknown kind {kind!r}; expected one of: "
                f"{', '.join(LINE_KINDS)}"
            )
    return _build_recording(path, chain_id, lines)


def _read_recording_folder(folder: Path) -> Recording:
    blocks = [
        _encode_quantities(entry) for _, entry in _iter_json_lines(folder / "blocks.jsonl.gz")
    ]
    hashes = {entry["number"]: entry["hash"] for entry in blocks}
    txs = [_encode_quantities(entry) for _, entry in _iter_json_lines(folder / "txs.jsonl.gz")]
    for tx in txs:
        tx["blockNumber"], tx["transactionIndex"] = tx.pop("block"), tx.pop("index")
        tx["blockHash"] = hashes.get(tx["blockNumber"])
    logs = [entry for _, entry in _iter_json_lines(folder / "logs.jsonl.gz")]
    chain_id = _DEFAULT_CHAIN_ID
    if (folder / "addresses.json").exists():
        addresses = msgspec.json.decode((folder / "addresses.json").read_bytes())
        chain_id = int(addresses.get("chainId", chain_id))
    return _build_recording(
        folder, chain_id, {"block": blocks, "log": logs, "tx": txs, "receipt": []}
    )


def _encode_quantities(entry: Json) -> Json:
    """Convert plain numbers to JSON-RPC's hex quantities."""
    return {
        key: hex(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for key, value in entry.items()
    }


def _build_recording(path: Path, chain_id: int, lines: _LinesByKind) -> Recording:
    try:
        return Recording(chain_id, lines)
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: a field is missing or invalid: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _iter_json_lines(path: Path) -> Iterator[tuple[int, Json]]:
    open_file: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with open_file(path, "rb") as file:
            for line_number, line in enumerate(file, 1):
                entry = msgspec.json.decode(line)
                if not isinstance(entry, dict):
                    raise InputError(f"{path}:{line_number}: the line is not a JSON object")
                yield line_number, entry
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: the file is not in JSON Lines format: {error}") from None
