"""What the signers of a QoSOracle sign, written apart from the daemon's own code; a report's data.

The types stand in docs/reference/contract.md#what-is-signed.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import Web3

# Sorted as the contract lists them: signer i has bit i.
SIGNERS: tuple[LocalAccount, ...] = tuple(
    Account.from_key(Web3.keccak(text=f"signer {number}")) for number in range(3)
)
STRANGER: LocalAccount = Account.from_key(Web3.keccak(text="stranger"))

# An address that takes an index, and the one that has it.
Taker = tuple[str, str]

REPORT_FIELDS = [
    {"name": "config", "type": "bytes32"},
    {"name": "round", "type": "uint32"},
    {"name": "prev", "type": "bytes32"},
    {"name": "asOf", "type": "uint48"},
    {"name": "asOfHash", "type": "bytes32"},
    {"name": "deadline", "type": "uint40"},
    {"name": "dataHash", "type": "bytes32"},
]
KICK_FIELDS = [
    {"name": "config", "type": "bytes32"},
    {"name": "report", "type": "bytes32"},
    {"name": "node", "type": "address"},
    {"name": "evidence", "type": "bytes32"},
    {"name": "deadline", "type": "uint40"},
]


def word(*lanes: int, **at: int) -> int:
    """Lanes from the lowest index on; or by name: word(l3=5) sets lane 3."""
    placed = dict(enumerate(lanes)) | {int(name[1:]): lane for name, lane in at.items()}
    return sum(lane << 16 * place for place, lane in placed.items())


def records(*words: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">I", index)[1:] + lanes.to_bytes(32) for index, lanes in words)


def data(
    *words: tuple[int, int], fresh: Sequence[str] = (), reused: Sequence[Taker] = ()
) -> bytes:
    """A report's data: `fresh` are appended, of `reused` the first takes the other's index."""
    addresses = [who for pair in reused for who in pair] + list(fresh)
    counts = struct.pack(">HH", len(reused), len(fresh))
    return counts + b"".join(bytes.fromhex(who[2:]) for who in addresses) + records(*words)


def config_digest(
    domain: tuple[int, str], count: int, signers: Sequence[str], quorum: int, rules_hash: bytes
) -> bytes:
    kinds = ["uint256", "address", "uint16", "address[]", "uint8", "bytes32"]
    values = [*domain, count, signers, quorum, rules_hash]
    return bytes(Web3.keccak(Web3().codec.encode(kinds, values)))


@dataclass(frozen=True)
class Report:
    """One report with the domain it is signed for; replace(report, round=7) makes a wrong one.

    `count` is the configuration's number, which is not signed; `config` is its digest, which is.
    """

    config: bytes
    count: int
    round: int
    prev: bytes
    as_of: int
    as_of_hash: bytes
    deadline: int
    data: bytes
    domain: tuple[int, str]

    def signed_by(self, *signers: LocalAccount) -> bytes:
        message = {
            "config": self.config,
            "round": self.round,
            "prev": self.prev,
            "asOf": self.as_of,
            "asOfHash": self.as_of_hash,
            "deadline": self.deadline,
            "dataHash": Web3.keccak(self.data),
        }
        return sign_typed_data(self.domain, {"Report": REPORT_FIELDS}, message, signers)


@dataclass(frozen=True)
class Kick:
    """One proposal; `round` tells where its report is kept, and is not signed."""

    config: bytes
    round: int
    report: bytes
    node: str
    evidence: bytes
    deadline: int
    domain: tuple[int, str]

    def signed_by(self, *signers: LocalAccount) -> bytes:
        message = {field["name"]: getattr(self, field["name"]) for field in KICK_FIELDS}
        return sign_typed_data(self.domain, {"Kick": KICK_FIELDS}, message, signers)


def sign_typed_data(
    domain: tuple[int, str],
    kinds: dict[str, Any],
    message: dict[str, Any],
    signers: Iterable[LocalAccount],
    *,
    version: str = "2",
) -> bytes:
    """Return the EIP-712 signatures of these signers, 65 bytes each."""
    chain_id, contract = domain
    domain_fields = {
        "name": "QoSOracle",
        "version": version,
        "chainId": chain_id,
        "verifyingContract": contract,
    }
    return b"".join(
        bytes(signer.sign_typed_data(domain_fields, kinds, message).signature)
        for signer in signers
    )
