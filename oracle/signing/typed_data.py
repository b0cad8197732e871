"""What signers sign (EIP-712), as QoSOracle.sol computes it: digests of reports and kickouts."""

from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from oracle.domain.ids import Address, Hash

_DOMAIN_TYPE = "string name,string version,uint256 chainId,address verifyingContract"
_REPORT_TYPE = (
    "uint32 round,uint16 rules,bytes32 rulesHash,bytes32 prev,uint48 asOf,"
    "bytes32 asOfHash,uint40 deadline,bytes32 dataHash"
)
_KICK_TYPE = "uint32 round,bytes32 report,uint256 index,bytes32 evidence,uint40 deadline"
_NAME, _VERSION = "QoSOracle", "1"
_DOMAIN = keccak(text=f"EIP712Domain({_DOMAIN_TYPE})")
_REPORT = keccak(text=f"Report({_REPORT_TYPE})")
_KICK = keccak(text=f"Kick({_KICK_TYPE})")


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a signature counts: one contract on one chain."""

    chain_id: int
    contract: Address

    @property
    def separator(self) -> bytes:
        kinds = ("bytes32", "bytes32", "bytes32", "uint256", "address")
        named = (keccak(text=_NAME), keccak(text=_VERSION))
        values = (_DOMAIN, *named, self.chain_id, self.contract)
        return keccak(encode(kinds, values))


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

    @property
    def data_hash(self) -> Hash:
        """keccak256 of the records: all that is signed of them."""
        return Hash("0x" + keccak(self.records).hex())

    def digest(self, domain: Domain, data_hash: Hash | None = None) -> Hash:
        """Return what is signed, and what the contract names it by.

        `data_hash` where the records themselves are not known.
        """
        words = _raw(data_hash or self.data_hash)
        kinds = ("bytes32", "uint32", "uint16", "bytes32", "bytes32", "uint48", "bytes32")
        values = (
            *(_REPORT, self.round, self.rules, _raw(self.rules_hash), _raw(self.prev)),
            *(self.as_of, _raw(self.as_of_hash), self.deadline, words),
        )
        return _digest(domain, encode((*kinds, "uint40", "bytes32"), values))


@dataclass(frozen=True, slots=True)
class KickStatement:
    """A kickout of the node at `index`, signed on a recent round; `deadline` in unix seconds.

    `report`: the digest that the round was accepted with. On a chain where the round has another
    one the statement is nobody's.
    """

    round: int
    report: Hash
    index: int
    evidence: Hash
    deadline: int

    def digest(self, domain: Domain) -> Hash:
        """Return what is signed."""
        kinds = ("bytes32", "uint32", "bytes32", "uint256", "bytes32", "uint40")
        about = (self.index, _raw(self.evidence), self.deadline)
        return _digest(domain, encode(kinds, (_KICK, self.round, _raw(self.report), *about)))


def typed(statement: ReportStatement | KickStatement, domain: Domain) -> dict[str, Any]:
    """Return the statement as EIP-712's structure, for signers that want to see what they sign."""
    if isinstance(statement, ReportStatement):
        kind, written = "Report", _REPORT_TYPE
        message: dict[str, object] = {
            "round": statement.round,
            "rules": statement.rules,
            "rulesHash": statement.rules_hash,
            "prev": statement.prev,
            "asOf": statement.as_of,
            "asOfHash": statement.as_of_hash,
            "deadline": statement.deadline,
            "dataHash": statement.data_hash,
        }
    else:
        kind, written = "Kick", _KICK_TYPE
        message = {
            "round": statement.round,
            "report": statement.report,
            "index": statement.index,
            "evidence": statement.evidence,
            "deadline": statement.deadline,
        }
    return {
        "types": {"EIP712Domain": _members(_DOMAIN_TYPE), kind: _members(written)},
        "primaryType": kind,
        "domain": {
            "name": _NAME,
            "version": _VERSION,
            "chainId": domain.chain_id,
            "verifyingContract": domain.contract,
        },
        "message": message,
    }


def _members(written: str) -> list[dict[str, str]]:
    pairs = (member.split(" ") for member in written.split(","))
    return [{"name": name, "type": kind} for kind, name in pairs]


def _digest(domain: Domain, struct: bytes) -> Hash:
    return Hash("0x" + keccak(b"\x19\x01" + domain.separator + keccak(struct)).hex())


def _raw(digest: Hash) -> bytes:
    return bytes.fromhex(digest[2:])
