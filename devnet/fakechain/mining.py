"""Mines consistent blocks, whose hashes, roots and blooms match their content.

Only values that cannot be checked are invented, which are the state root and the gas. Transactions
are signed if the account's key is known (`create_account`). Other addresses can send transactions
as well. Like the system transactions of some chains, these have no signature, so the sender cannot
be proven.
"""

from functools import cached_property, lru_cache

from eth_keys.datatypes import PrivateKey
from typing_extensions import override

from devnet.fakechain.block_json import DYNAMIC, LEGACY, ZERO_HASH, Block, FakeLog, Json, Tx
from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.merkle_trie import EMPTY_ROOT, compute_trie_root
from oracle.chain.proofs.receipts import (
    compute_bloom,
    encode_log_hex,
    encode_receipt_leaf,
    format_bloom,
)
from oracle.chain.proofs.rlp import (
    EMPTY_STRING,
    encode_int,
    encode_rlp,
    encode_rlp_bytes,
    encode_rlp_list,
)

_KEY_BY_ADDRESS: dict[str, PrivateKey] = {}


def create_account(account_number: int) -> str:
    """Return the address of account `account_number` in lower case.

    It is the same in every process.
    """
    key = PrivateKey(keccak(account_number.to_bytes(32, "big")))
    address = str(key.public_key.to_address())
    _KEY_BY_ADDRESS[address] = key
    return address


def sign_bytes(address: str, content: bytes) -> tuple[int, int, int]:
    """Sign bytes with the key of an address, and return parity, r and s.

    For an address without a key, s is 0, and r is derived from address and content, so that it is
    unique.
    """
    content_hash = keccak(content)
    key = _KEY_BY_ADDRESS.get(address.lower())
    if key is None:
        pseudo_signature = keccak(bytes.fromhex(address[2:]) + content_hash)
        return 0, int.from_bytes(pseudo_signature[:31], "big") + 1, 0
    return _sign_hash(key, content_hash)


@lru_cache(maxsize=1 << 14)
def _sign_hash(key: PrivateKey, content_hash: bytes) -> tuple[int, int, int]:
    """Sign a hash.

    The result is cached, because many blocks contain the same transaction.
    """
    signature = key.sign_msg_hash(content_hash)
    return signature.v, signature.r, signature.s


_ZERO_ADDRESS = "0x" + "00" * 20
_EMPTY_UNCLES_HASH = "0x" + keccak(encode_rlp([])).hex()
# The SHA-256 of empty input: the requests hash of a block without requests (EIP-7685).
_EMPTY_REQUESTS_HASH = "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_GAS_LIMIT = 30_000_000
_BASE_FEE = 7


class MinedBlock(Block):
    """A block of a `BlockTree`.

    `position` is number, time, and a salt that is unique among siblings.
    """

    def __init__(
        self,
        parent: Block | None,
        position: tuple[int, int, int],
        txs: tuple[Tx, ...],
        chain_id: int,
    ) -> None:
        number, time, salt = position
        self._txs = txs
        self._chain_id = chain_id
        self._raw_txs = [_encode_signed_tx(tx, chain_id) for tx in txs]
        self._blooms = [compute_bloom(tx.emitted_logs) for tx in txs]
        self._bloom = 0
        for bloom_bits in self._blooms:
            self._bloom |= bloom_bits
        self._salt = salt
        super().__init__(number, "", parent, time)
        self._roots = self._compute_roots()
        self.hash = "0x" + keccak(self._encode_header()).hex()

    @property
    @override
    def txs(self) -> tuple[Tx, ...]:
        return self._txs

    @cached_property
    @override
    def tx_hashes(self) -> list[str]:
        return ["0x" + keccak(raw).hex() for raw in self._raw_txs]

    def _compute_roots(self) -> tuple[bytes, bytes]:
        if not self._txs:
            return EMPTY_ROOT, EMPTY_ROOT
        cumulative_gas, receipt_leaves = 0, []
        for tx, bloom_bits in zip(self._txs, self._blooms, strict=True):
            cumulative_gas += tx.gas_used
            logs = [encode_log_hex(log.address, log.topics, log.data) for log in tx.emitted_logs]
            status_byte = "01" if tx.succeeded else "80"
            receipt_leaves.append(
                encode_receipt_leaf(
                    tx.tx_type, status_byte, cumulative_gas, f"{bloom_bits:0512x}", logs
                )
            )
        self.gas_used = cumulative_gas
        return compute_trie_root(self._raw_txs), compute_trie_root(receipt_leaves)

    gas_used = 0

    def _encode_header(self) -> bytes:
        parent_hash_bytes = bytes.fromhex(self.parent_hash[2:])
        txs, receipts = self._roots
        return encode_rlp_list(
            [
                _RLP_32_BYTES_PREFIX + parent_hash_bytes,
                _RLP_UNCLES_AND_MINER,
                # No request reads the state, so the state root may be any 32 bytes.
                _RLP_32_BYTES_PREFIX + parent_hash_bytes,
                _RLP_32_BYTES_PREFIX + txs,
                _RLP_32_BYTES_PREFIX + receipts,
                _RLP_BLOOM_PREFIX + self._bloom.to_bytes(256, "big"),
                b"\x80",
                *map(encode_int, (self.number, _GAS_LIMIT, self.gas_used, self.time)),
                encode_int(self._salt),
                _RLP_HEADER_TAIL,
                _RLP_32_BYTES_PREFIX + parent_hash_bytes,
                _RLP_32_BYTES_PREFIX + bytes.fromhex(_EMPTY_REQUESTS_HASH[2:]),
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
            "sha3Uncles": _EMPTY_UNCLES_HASH,
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
            "requestsHash": _EMPTY_REQUESTS_HASH,
            "size": hex(600 + sum(map(len, self._raw_txs))),
            "uncles": [],
            "withdrawals": [],
        }

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        return [self._build_transaction(index) for index in range(len(self._txs))]

    def _build_transaction(self, index: int) -> Json:
        tx = self._txs[index]
        v, r, s = _sign_tx(tx, self._chain_id)
        signature_fields: Json = {
            "r": hex(r),
            "s": hex(s),
            "v": hex(v),
            "gasPrice": hex(_BASE_FEE),
        }
        signature_fields["chainId"] = hex(self._chain_id)
        if tx.tx_type != LEGACY:
            signature_fields |= {"yParity": hex(v), "accessList": []}
        if tx.tx_type == DYNAMIC:
            signature_fields |= {"maxFeePerGas": hex(_BASE_FEE), "maxPriorityFeePerGas": "0x0"}
        return {
            **self._build_location(index),
            "hash": self.tx_hashes[index],
            "type": hex(tx.tx_type),
            "from": tx.sender,
            "to": tx.to,
            "input": tx.input,
            "value": hex(tx.value),
            "nonce": hex(tx.nonce or 0),
            "gas": hex(tx.gas_used),
            **signature_fields,
        }

    def _build_location(self, index: int) -> Json:
        return {
            "blockHash": self.hash,
            "blockNumber": hex(self.number),
            "transactionIndex": hex(index),
        }

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        receipts, cumulative_gas, log_index = [], 0, 0
        for tx_index, tx in enumerate(self._txs):
            cumulative_gas += tx.gas_used
            receipt = {
                **self._build_location(tx_index),
                "transactionHash": self.tx_hashes[tx_index],
                "type": hex(tx.tx_type),
                "status": hex(tx.succeeded),
                "from": tx.sender,
                "to": tx.to,
                "contractAddress": _compute_contract_address(tx)
                if tx.to is None and tx.succeeded
                else None,
                "gasUsed": hex(tx.gas_used),
                "cumulativeGasUsed": hex(cumulative_gas),
                "effectiveGasPrice": hex(_BASE_FEE),
                "logsBloom": format_bloom(self._blooms[tx_index]),
                "logs": [
                    self._build_log(tx_index, log_index + offset, log)
                    for offset, log in enumerate(tx.emitted_logs)
                ],
            }
            log_index += len(tx.emitted_logs)
            receipts.append(receipt)
        return receipts

    def _build_log(self, tx_index: int, log_index: int, log: FakeLog) -> Json:
        return {
            "address": log.address,
            "topics": list(log.topics),
            "data": log.data,
            **self._build_location(tx_index),
            "blockTimestamp": hex(self.time),
            "transactionHash": self.tx_hashes[tx_index],
            "logIndex": hex(log_index),
            "removed": False,
        }


_RLP_32_BYTES_PREFIX = b"\xa0"
_RLP_BLOOM_PREFIX = b"\xb9\x01\x00"
_RLP_UNCLES_AND_MINER = encode_rlp_bytes(bytes.fromhex(_EMPTY_UNCLES_HASH[2:])) + encode_rlp_bytes(
    bytes(20)
)
# The fields are mixHash, nonce, base fee, withdrawals root and the two blob fields.
_RLP_HEADER_TAIL = b"".join(
    [
        _RLP_32_BYTES_PREFIX + bytes(32),
        encode_rlp_bytes(bytes(8)),
        encode_int(_BASE_FEE),
        _RLP_32_BYTES_PREFIX + EMPTY_ROOT,
        b"\x80" * 2,
    ]
)


def _encode_unsigned_fields(tx: Tx, chain_id: int) -> list[bytes]:
    chain_fields = [] if tx.tx_type == LEGACY else [encode_int(chain_id)]
    fee_fields = [b"\x80"] if tx.tx_type == DYNAMIC else []
    return [
        *chain_fields,
        encode_int(tx.nonce or 0),
        *fee_fields,
        encode_int(_BASE_FEE),
        encode_int(tx.gas_used),
        encode_rlp_bytes(bytes.fromhex(tx.to[2:]) if tx.to else b""),
        encode_int(tx.value),
        encode_rlp_bytes(bytes.fromhex(tx.input[2:])),
        *([] if tx.tx_type == LEGACY else [b"\xc0"]),
    ]


def _sign_tx(tx: Tx, chain_id: int) -> tuple[int, int, int]:
    """Sign a transaction, and return v, r and s.

    The v of a legacy transaction includes the chain id (EIP-155).
    """
    fields = _encode_unsigned_fields(tx, chain_id)
    if tx.tx_type == LEGACY:
        unsigned_rlp = encode_rlp_list([*fields, encode_int(chain_id), EMPTY_STRING, EMPTY_STRING])
        parity, r, s = sign_bytes(tx.sender, unsigned_rlp)
        return 35 + 2 * chain_id + parity, r, s
    return sign_bytes(tx.sender, bytes([tx.tx_type]) + encode_rlp_list(fields))


def _encode_signed_tx(tx: Tx, chain_id: int) -> bytes:
    signature_fields = map(encode_int, _sign_tx(tx, chain_id))
    signed_rlp = encode_rlp_list([*_encode_unsigned_fields(tx, chain_id), *signature_fields])
    return bytes([tx.tx_type]) + signed_rlp if tx.tx_type else signed_rlp


def _compute_contract_address(tx: Tx) -> str:
    """Compute the address of the contract that a transaction creates."""
    return "0x" + keccak(encode_rlp([bytes.fromhex(tx.sender[2:]), tx.nonce or 0]))[12:].hex()
