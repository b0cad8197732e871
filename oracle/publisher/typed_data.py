"""What signers sign (EIP-712), as QoSOracle.sol computes it: digests of reports and kickouts."""

from dataclasses import dataclass

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from oracle.domain.ids import Address, Hash

_DOMAIN = keccak(
    text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
_NAME = keccak(text="QoSOracle")
_VERSION = keccak(text="1")
_REPORT = keccak(
    text="Report(uint32 round,uint16 rules,bytes32 rulesHash,bytes32 prev,uint48 asOf,"
    "bytes32 asOfHash,uint40 deadline,bytes32 dataHash)"
)
_KICK = keccak(text="Kick(uint32 round,uint256 index,bytes32 evidence,uint40 deadline)")


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a signature counts: one contract on one chain."""

    chain_id: int
    contract: Address

    @property
    def separator(self) -> bytes:
        kinds = ("bytes32", "bytes32", "bytes32", "uint256", "address")
        return keccak(encode(kinds, (_DOMAIN, _NAME, _VERSION, self.chain_id, self.contract)))


@dataclass(frozen=True, slots=True)
class ReportStatement:
    """One round, on top of `prev`; `deadline` in unix seconds, `records` of 35 bytes."""

    round: int
    rules: int
    rules_hash: Hash
    prev: Hash
    as_of: int
    as_of_hash: Hash
    deadline: int
    records: bytes

    def digest(self, domain: Domain) -> Hash:
        """Return what is signed, and what the contract names it by."""
        kinds = ("bytes32", "uint32", "uint16", "bytes32", "bytes32", "uint48", "bytes32")
        values = (
            *(_REPORT, self.round, self.rules, _raw(self.rules_hash), _raw(self.prev)),
            *(self.as_of, _raw(self.as_of_hash), self.deadline, keccak(self.records)),
        )
        return _digest(domain, encode((*kinds, "uint40", "bytes32"), values))


@dataclass(frozen=True, slots=True)
class KickStatement:
    """A kickout of the node at `index`, in the current round; `deadline` in unix seconds."""

    round: int
    index: int
    evidence: Hash
    deadline: int

    def digest(self, domain: Domain) -> Hash:
        """Return what is signed."""
        kinds = ("bytes32", "uint32", "uint256", "bytes32", "uint40")
        values = (_KICK, self.round, self.index, _raw(self.evidence), self.deadline)
        return _digest(domain, encode(kinds, values))


def _digest(domain: Domain, struct: bytes) -> Hash:
    return Hash("0x" + keccak(b"\x19\x01" + domain.separator + keccak(struct)).hex())


def _raw(digest: Hash) -> bytes:
    return bytes.fromhex(digest[2:])
