"""EIP-712 data of reports and kickouts, hashed as in QoSOracle.sol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address, Hash
from oracle.signing.keystore import accounts

_DOMAIN_TYPE = "string name,string version,uint256 chainId,address verifyingContract"
_REPORT_TYPE = (
    "bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,"
    "bytes32 dataHash"
)
_KICK_TYPE = "bytes32 config,bytes32 report,address node,bytes32 evidence,uint40 deadline"
_NAME, _VERSION = "QoSOracle", "2"
# Seconds: the contract rejects signatures with a longer lifetime (OracleHead.sol).
MAX_TTL_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Domain:
    """EIP-712 domain: the contract and chain for which a signature is valid."""

    chain_id: int
    contract: Address


@dataclass(frozen=True, slots=True)
class ReportStatement:
    """One round, on top of `prev`, under the configuration `config`; `deadline` in unix seconds.

    `blob` holds the registrations and the words (docs/reference/report-format.md#data).
    """

    config: Hash
    round: int
    prev: Hash
    as_of: int
    as_of_hash: Hash
    deadline: int
    blob: bytes

    @property
    def data_hash(self) -> Hash:
        """Return the keccak256 of the blob; the signature covers only this hash."""
        return Hash("0x" + keccak(self.blob).hex())

    def digest(self, domain: Domain, data_hash: Hash | None = None) -> Hash:
        """Return the digest that is signed and by which the contract identifies the report.

        Pass `data_hash` if the blob itself is not available.
        """
        return _digest(_report(self, domain, data_hash or self.data_hash))


@dataclass(frozen=True, slots=True)
class KickStatement:
    """A kickout of a node under the configuration `config`; `deadline` in unix seconds.

    `report` is the digest of one of the last accepted rounds; on a chain without that round the
    statement is invalid. `round` is the number of that round; it follows from `report` and is not
    signed.
    """

    config: Hash
    round: int
    report: Hash
    node: Address
    evidence: Hash
    deadline: int

    def digest(self, domain: Domain) -> Hash:
        """Return the digest that is signed."""
        return _digest(typed(self, domain))


def config_digest(
    domain: Domain, count: int, signers: Sequence[Address], quorum: int, rules_hash: Hash
) -> Hash:
    """Return the digest of a configuration, as the contract computes it.

    Every rotation, change of rules, chain or contract invalidates existing signatures. See
    docs/reference/report-format.md#what-is-signed.
    """
    head = (domain.chain_id, domain.contract, count)
    # abi.encode: six words, the fourth of which is the offset of the list that follows.
    words = [
        *(_word(value) for value in (head[0], int(head[1], 16), head[2], 6 * 32, quorum)),
        bytes.fromhex(rules_hash[2:]),
        *(_word(value) for value in (len(signers), *(int(one, 16) for one in signers))),
    ]
    return Hash("0x" + keccak(b"".join(words)).hex())


def _word(value: int) -> bytes:
    return value.to_bytes(32)


def typed(statement: ReportStatement | KickStatement, domain: Domain) -> dict[str, Any]:
    """Return the statement as EIP-712 data, for signers that show what they sign."""
    if isinstance(statement, ReportStatement):
        return _report(statement, domain, statement.data_hash)
    message = {
        "config": statement.config,
        "report": statement.report,
        "node": statement.node,
        "evidence": statement.evidence,
        "deadline": statement.deadline,
    }
    return _structure("Kick", _KICK_TYPE, message, domain)


def _report(statement: ReportStatement, domain: Domain, data_hash: Hash) -> dict[str, Any]:
    message = {
        "config": statement.config,
        "round": statement.round,
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
    # Import eth_account with its recursion limit restored.
    accounts()
    from eth_account.messages import encode_typed_data  # noqa: PLC0415  it takes half a second

    signed = encode_typed_data(full_message=structure)
    return Hash("0x" + keccak(b"\x19" + signed.version + signed.header + signed.body).hex())
