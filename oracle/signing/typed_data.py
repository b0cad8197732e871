"""EIP-712 data of reports and kickouts, hashed as in QoSOracle.sol and QoSRoots.sol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address, Hash
from oracle.signing.keystore import import_eth_account

_DOMAIN_TYPE = "string name,string version,uint256 chainId,address verifyingContract"
_REPORT_TYPE = (
    "bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,"
    "bytes32 dataHash"
)
_KICK_TYPE = "bytes32 config,bytes32 report,address node,bytes32 evidence,uint40 deadline"
_ROOT_REPORT_TYPE = (
    "bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,"
    "bytes32 root"
)
_DOMAIN_NAME, _DOMAIN_VERSION, _ROOT_DOMAIN_VERSION = "QoSOracle", "2", "3"
# Seconds: the contract rejects signatures with a longer lifetime (OracleHead.sol).
MAX_TTL_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Domain:
    """EIP-712 domain: the contract and chain for which a signature is valid."""

    chain_id: int
    contract: Address


@dataclass(frozen=True, slots=True)
class ReportStatement:
    """A report of one round that follows `prev`, under the configuration `config`.

    `deadline` is in unix seconds. `blob` holds the registrations and the words
    (docs/reference/report-format.md#data).
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

    def compute_digest(self, domain: Domain, data_hash: Hash | None = None) -> Hash:
        """Return the digest that signers sign and that identifies the report in the contract.

        Pass `data_hash` if the blob itself is not available.
        """
        return _hash_typed_data(_build_report_data(self, domain, data_hash or self.data_hash))


@dataclass(frozen=True, slots=True)
class KickStatement:
    """A kickout of a node under the configuration `config`; `deadline` is in unix seconds.

    `report` is the digest of one of the last accepted rounds. On a chain without that round, the
    statement is invalid. `round` is the number of that round. It follows from `report` and is not
    signed.
    """

    config: Hash
    round: int
    report: Hash
    node: Address
    evidence: Hash
    deadline: int

    def compute_digest(self, domain: Domain) -> Hash:
        """Return the digest that is signed."""
        return _hash_typed_data(build_typed_data(self, domain))


@dataclass(frozen=True, slots=True)
class RootStatement:
    """A report of one round for QoSRoots: the root of its tree, under the configuration `config`.

    `prev` is the root of the round before; it is zero for the first round, and after the round
    before was struck. `deadline` is in unix seconds.
    """

    config: Hash
    round: int
    prev: Hash
    as_of: int
    as_of_hash: Hash
    deadline: int
    root: Hash

    def compute_digest(self, domain: Domain) -> Hash:
        """Return the digest that is signed, equal to the contract's `reportDigest`."""
        return _hash_typed_data(build_typed_data(self, domain))


def compute_config_digest(
    domain: Domain, config_count: int, signers: Sequence[Address], quorum: int, rules_hash: Hash
) -> Hash:
    """Return the digest of a configuration, as the contract computes it.

    Every change of signers, rules, chain or contract invalidates existing signatures. See
    docs/reference/report-format.md#what-is-signed.
    """
    domain_fields = (domain.chain_id, domain.contract, config_count)
    # abi.encode: six words, the fourth of which is the offset of the list that follows.
    words = [
        *(
            _encode_word(value)
            for value in (
                domain_fields[0],
                int(domain_fields[1], 16),
                domain_fields[2],
                6 * 32,
                quorum,
            )
        ),
        bytes.fromhex(rules_hash[2:]),
        *(
            _encode_word(value)
            for value in (len(signers), *(int(signer, 16) for signer in signers))
        ),
    ]
    return Hash("0x" + keccak(b"".join(words)).hex())


def _encode_word(value: int) -> bytes:
    return value.to_bytes(32)


def build_typed_data(
    statement: ReportStatement | KickStatement | RootStatement, domain: Domain
) -> dict[str, Any]:
    """Return the statement as EIP-712 data, for signers that show what they sign."""
    if isinstance(statement, ReportStatement):
        return _build_report_data(statement, domain, statement.data_hash)
    if isinstance(statement, RootStatement):
        return _build_root_report_data(statement, domain)
    message = {
        "config": statement.config,
        "report": statement.report,
        "node": statement.node,
        "evidence": statement.evidence,
        "deadline": statement.deadline,
    }
    return _build_structure("Kick", _KICK_TYPE, message, domain)


def _build_report_data(
    statement: ReportStatement, domain: Domain, data_hash: Hash
) -> dict[str, Any]:
    message = {
        "config": statement.config,
        "round": statement.round,
        "prev": statement.prev,
        "asOf": statement.as_of,
        "asOfHash": statement.as_of_hash,
        "deadline": statement.deadline,
        "dataHash": data_hash,
    }
    return _build_structure("Report", _REPORT_TYPE, message, domain)


def _build_root_report_data(statement: RootStatement, domain: Domain) -> dict[str, Any]:
    message = {
        "config": statement.config,
        "round": statement.round,
        "prev": statement.prev,
        "asOf": statement.as_of,
        "asOfHash": statement.as_of_hash,
        "deadline": statement.deadline,
        "root": statement.root,
    }
    return _build_structure("Report", _ROOT_REPORT_TYPE, message, domain, _ROOT_DOMAIN_VERSION)


def _build_structure(
    primary_type: str,
    type_members: str,
    message: dict[str, Any],
    domain: Domain,
    version: str = _DOMAIN_VERSION,
) -> dict[str, Any]:
    return {
        "types": {
            "EIP712Domain": _parse_type_members(_DOMAIN_TYPE),
            primary_type: _parse_type_members(type_members),
        },
        "primaryType": primary_type,
        "domain": {
            "name": _DOMAIN_NAME,
            "version": version,
            "chainId": domain.chain_id,
            "verifyingContract": domain.contract,
        },
        "message": message,
    }


def _parse_type_members(type_members: str) -> list[dict[str, str]]:
    pairs = (member.split(" ") for member in type_members.split(","))
    return [{"name": name, "type": type_name} for type_name, name in pairs]


def _hash_typed_data(structure: dict[str, Any]) -> Hash:
    # Import eth_account with its recursion limit restored.
    import_eth_account()
    from eth_account.messages import encode_typed_data  # noqa: PLC0415  it takes half a second

    message = encode_typed_data(full_message=structure)
    return Hash("0x" + keccak(b"\x19" + message.version + message.header + message.body).hex())
