"""Mines consistent blocks: hash, roots and blooms match the content of the block.

Only values that cannot be checked are made up: the state root and the gas. Transactions are signed
if the account's key is known (`accounts`), else they have no signature.
"""

from functools import cached_property

from typing_extensions import override

from devnet.fakechain.accounts import signed_by
from devnet.fakechain.block_json import DYNAMIC, LEGACY, ZERO_HASH, Block, Json, Said, Tx
from oracle.chain.proofs.bloom import compute_bloom, format_bloom
from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.merkle_trie import EMPTY_ROOT, compute_trie_root
from oracle.chain.proofs.receipts_root import encode_log_hex, encode_receipt_leaf
from oracle.chain.proofs.rlp import EMPTY_STRING, encode_bytes, encode_int, encode_list, encode_rlp

_ZERO_ADDRESS = "0x" + "00" * 20
_NO_UNCLES = "0x" + keccak(encode_rlp([])).hex()
# The SHA-256 of empty input (EIP-7685).
_NO_REQUESTS = "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_GAS_LIMIT = 30_000_000
_BASE_FEE = 7


class MinedBlock(Block):
    """A block of a `BlockTree`; `salt` distinguishes siblings with the same content."""

    def __init__(
        self, parent: Block | None, place: tuple[int, int, int], txs: tuple[Tx, ...], chain_id: int
    ) -> None:
        number, time, salt = place
        self._txs = txs
        self._chain_id = chain_id
        self._raws = [_signed(tx, chain_id) for tx in txs]
        self._blooms = [compute_bloom(tx.said) for tx in txs]
        self._bloom = 0
        for bits in self._blooms:
            self._bloom |= bits
        self._salt = salt
        super().__init__(number, "", parent, time)
        self._roots = self._made_roots()
        self.hash = "0x" + keccak(self._encoded_header()).hex()

    @property
    @override
    def txs(self) -> tuple[Tx, ...]:
        return self._txs

    @cached_property
    @override
    def tx_hashes(self) -> list[str]:
        return ["0x" + keccak(raw).hex() for raw in self._raws]

    def _made_roots(self) -> tuple[bytes, bytes]:
        if not self._txs:
            return EMPTY_ROOT, EMPTY_ROOT
        used, leaves = 0, []
        for tx, bits in zip(self._txs, self._blooms, strict=True):
            used += tx.gas
            logs = [encode_log_hex(said.address, said.topics, said.data) for said in tx.said]
            outcome = "01" if tx.succeeded else "80"
            leaves.append(encode_receipt_leaf(tx.kind, outcome, used, f"{bits:0512x}", logs))
        self.gas_used = used
        return compute_trie_root(self._raws), compute_trie_root(leaves)

    gas_used = 0

    def _encoded_header(self) -> bytes:
        parent = bytes.fromhex(self.parent_hash[2:])
        txs, receipts = self._roots
        return encode_list(
            [
                _A0 + parent,
                _FIXED_HEAD,
                # The state root cannot be queried, so any 32 bytes are valid.
                _A0 + parent,
                _A0 + txs,
                _A0 + receipts,
                _BLOOM_HEAD + self._bloom.to_bytes(256, "big"),
                b"\x80",
                *map(encode_int, (self.number, _GAS_LIMIT, self.gas_used, self.time)),
                encode_int(self._salt),
                _FIXED_TAIL,
                _A0 + parent,
                _A0 + bytes.fromhex(_NO_REQUESTS[2:]),
            ]
        )

    @cached_property
    @override
    def header(self) -> Json:
        txs, receipts = self._roots
        salt = f"{self._salt:x}" if self._salt else ""
        return {
            "number": hex(self.number),
            "hash": self.hash,
            "parentHash": self.parent_hash,
            "sha3Uncles": _NO_UNCLES,
            "miner": _ZERO_ADDRESS,
            "stateRoot": self.parent_hash,
            "transactionsRoot": "0x" + txs.hex(),
            "receiptsRoot": "0x" + receipts.hex(),
            "logsBloom": format_bloom(self._bloom),
            "difficulty": "0x0",
            "gasLimit": hex(_GAS_LIMIT),
            "gasUsed": hex(self.gas_used),
            "timestamp": hex(self.time),
            "extraData": "0x" + salt.zfill(len(salt) + len(salt) % 2),
            "mixHash": ZERO_HASH,
            "nonce": "0x" + "00" * 8,
            "baseFeePerGas": hex(_BASE_FEE),
            "withdrawalsRoot": "0x" + EMPTY_ROOT.hex(),
            "blobGasUsed": "0x0",
            "excessBlobGas": "0x0",
            "parentBeaconBlockRoot": self.parent_hash,
            "requestsHash": _NO_REQUESTS,
            "size": hex(600 + sum(map(len, self._raws))),
            "uncles": [],
            "withdrawals": [],
        }

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        return [self._transaction(place) for place in range(len(self._txs))]

    def _transaction(self, place: int) -> Json:
        tx = self._txs[place]
        v, r, s = _signature(tx, self._chain_id)
        signed: Json = {"r": hex(r), "s": hex(s), "v": hex(v), "gasPrice": hex(_BASE_FEE)}
        signed["chainId"] = hex(self._chain_id)
        if tx.kind != LEGACY:
            signed |= {"yParity": hex(v), "accessList": []}
        if tx.kind == DYNAMIC:
            signed |= {"maxFeePerGas": hex(_BASE_FEE), "maxPriorityFeePerGas": "0x0"}
        return {
            **self._where(place),
            "hash": self.tx_hashes[place],
            "type": hex(tx.kind),
            "from": tx.sender,
            "to": tx.to,
            "input": tx.input,
            "value": hex(tx.value),
            "nonce": hex(tx.nonce or 0),
            "gas": hex(tx.gas),
            **signed,
        }

    def _where(self, place: int) -> Json:
        return {
            "blockHash": self.hash,
            "blockNumber": hex(self.number),
            "transactionIndex": hex(place),
        }

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        made, used, index = [], 0, 0
        for place, tx in enumerate(self._txs):
            used += tx.gas
            receipt = {
                **self._where(place),
                "transactionHash": self.tx_hashes[place],
                "type": hex(tx.kind),
                "status": hex(tx.succeeded),
                "from": tx.sender,
                "to": tx.to,
                "contractAddress": _created(tx) if tx.to is None and tx.succeeded else None,
                "gasUsed": hex(tx.gas),
                "cumulativeGasUsed": hex(used),
                "effectiveGasPrice": hex(_BASE_FEE),
                "logsBloom": format_bloom(self._blooms[place]),
                "logs": [self._log(place, index + more, one) for more, one in enumerate(tx.said)],
            }
            index += len(tx.said)
            made.append(receipt)
        return made

    def _log(self, place: int, index: int, said: Said) -> Json:
        return {
            "address": said.address,
            "topics": list(said.topics),
            "data": said.data,
            **self._where(place),
            "blockTimestamp": hex(self.time),
            "transactionHash": self.tx_hashes[place],
            "logIndex": hex(index),
            "removed": False,
        }


_A0 = b"\xa0"
_BLOOM_HEAD = b"\xb9\x01\x00"
_FIXED_HEAD = encode_bytes(bytes.fromhex(_NO_UNCLES[2:])) + encode_bytes(bytes(20))
# mixHash, nonce, base fee, withdrawals root, both blob fields.
_FIXED_TAIL = b"".join(
    [
        _A0 + bytes(32),
        encode_bytes(bytes(8)),
        encode_int(_BASE_FEE),
        _A0 + EMPTY_ROOT,
        b"\x80" * 2,
    ]
)


def _unsigned(tx: Tx, chain_id: int) -> list[bytes]:
    chain = [] if tx.kind == LEGACY else [encode_int(chain_id)]
    fees = [b"\x80"] if tx.kind == DYNAMIC else []
    return [
        *chain,
        encode_int(tx.nonce or 0),
        *fees,
        encode_int(_BASE_FEE),
        encode_int(tx.gas),
        encode_bytes(bytes.fromhex(tx.to[2:]) if tx.to else b""),
        encode_int(tx.value),
        encode_bytes(bytes.fromhex(tx.input[2:])),
        *([] if tx.kind == LEGACY else [b"\xc0"]),
    ]


def _signature(tx: Tx, chain_id: int) -> tuple[int, int, int]:
    """Return v, r and s; v of a legacy transaction includes the chain id (EIP-155)."""
    fields = _unsigned(tx, chain_id)
    if tx.kind == LEGACY:
        content = encode_list([*fields, encode_int(chain_id), EMPTY_STRING, EMPTY_STRING])
        parity, r, s = signed_by(tx.sender, content)
        return 35 + 2 * chain_id + parity, r, s
    return signed_by(tx.sender, bytes([tx.kind]) + encode_list(fields))


def _signed(tx: Tx, chain_id: int) -> bytes:
    signature = map(encode_int, _signature(tx, chain_id))
    content = encode_list([*_unsigned(tx, chain_id), *signature])
    return bytes([tx.kind]) + content if tx.kind else content


def _created(tx: Tx) -> str:
    """Return the address of the contract that the transaction creates."""
    return "0x" + keccak(encode_rlp([bytes.fromhex(tx.sender[2:]), tx.nonce or 0]))[12:].hex()
