"""What signers sign (EIP-712), as QoSOracle.sol computes it: digests of reports and kickouts."""

from dataclasses import dataclass
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address, Hash
from oracle.signing.keystore import accounts

_DOMAIN_TYPE = "string name,string version,uint256 chainId,address verifyingContract"
_REPORT_TYPE = (
    "uint32 round,uint16 rules,bytes32 rulesHash,bytes32 prev,uint48 asOf,"
    "bytes32 asOfHash,uint40 deadline,bytes32 dataHash"
)
_KICK_TYPE = "uint32 round,bytes32 report,uint256 index,bytes32 evidence,uint40 deadline"
_NAME, _VERSION = "QoSOracle", "1"


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a signature counts: one contract on one chain."""

    chain_id: int
    contract: Address


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
        return _digest(_report(self, domain, data_hash or self.data_hash))


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
        return _digest(typed(self, domain))


def typed(statement: ReportStatement | KickStatement, domain: Domain) -> dict[str, Any]:
    """Return the statement as EIP-712's structure, for signers that want to see what they sign."""
    if isinstance(statement, ReportStatement):
        return _report(statement, domain, statement.data_hash)
    message = {
        "round": statement.round,
        "report": statement.report,
        "index": statement.index,
        "evidence": statement.evidence,
        "deadline": statement.deadline,
    }
    return _structure("Kick", _KICK_TYPE, message, domain)


def _report(statement: ReportStatement, domain: Domain, data_hash: Hash) -> dict[str, Any]:
    message = {
        "round": statement.round,
        "rules": statement.rules,
        "rulesHash": statement.rules_hash,
        "prev": statement.prev,
        "asOf": statement.as_of,
        "asOfHash": statement.as_of_hash,
        "deadline": statement.deadline,
        "dataHash": data_hash,
    }
    return _structure("Report", _REPORT_TYPE, message, domain)


def _structure(kind: str, written: str, message: dict[str, Any], domain: Domain) -> dict[str, Any]:
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


def _digest(structure: dict[str, Any]) -> Hash:
    # By the door that takes care of what comes along with eth_account.
    accounts()
    from eth_account.messages import encode_typed_data  # noqa: PLC0415  it takes half a second

    signed = encode_typed_data(full_message=structure)
    return Hash("0x" + keccak(b"\x19" + signed.version + signed.header + signed.body).hex())
