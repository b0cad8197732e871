"""EIP-712 data of reports, objections, answers and notice requests.

Reports and objections are hashed as in RootRounds.sol and Objections.sol.
"""

from dataclasses import dataclass, field
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address, Hash
from oracle.signing.keystore import import_eth_account

_DOMAIN_TYPE = "string name,string version,uint256 chainId,address verifyingContract"
_REPORT_TYPE = (
    "bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,"
    "bytes32 root"
)
_DOMAIN_NAME, _DOMAIN_VERSION = "QoSOracle", "3"
_OBJECTION_TYPE = (
    "address node,uint40 dueSince,uint8 reason,string words,uint32 seq,uint40 deadline"
)
_ANSWER_TYPE = "address node,uint40 dueSince,bool isAccepted,string because,uint40 answeredAt"
_OBJECTIONS_NAME, _OBJECTIONS_VERSION = "QoSObjections", "1"
# No contract verifies requests for notices. Their domain therefore has no contract address, and
# the message names the service.
_NOTICES_DOMAIN_TYPE = "string name,string version,uint256 chainId"
_NOTICE_REQUEST_TYPE = (
    "string service,address node,string action,string channel,string target,string kinds,"
    "uint64 nonce,uint40 deadline"
)
_NOTICES_NAME, _NOTICES_VERSION = "QoSNotices", "1"
# Maximum lifetime of a report. The contract rejects a longer one (RoundHead.sol).
MAX_TTL_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Domain:
    """EIP-712 domain: the contract and the chain that a signature is valid for."""

    chain_id: int
    contract: Address


@dataclass(frozen=True, slots=True)
class ReportStatement:
    """A report for one round, under the configuration `config`.

    `prev` is the root of the previous round, or zero if there is no such round or its root was
    withdrawn. `as_of` is a block number, and `root` is the Merkle root over the leaves of all
    nodes as of this block (docs/reference/report-format.md#roots). `deadline` is in unix seconds.
    """

    config: Hash
    round: int
    prev: Hash
    as_of: int
    as_of_hash: Hash
    deadline: int
    root: Hash

    def compute_digest(self, domain: Domain) -> Hash:
        """Compute the EIP-712 digest to sign for a report in this domain."""
        return _hash_typed_data(build_typed_data(self, domain))


@dataclass(frozen=True, slots=True)
class ObjectionStatement:
    """An objection to be signed by a node, with fields in the order of the contract's struct.

    `due_since` is the time since which the kickout is due, and identifies the kickout. `deadline`
    is the latest block time at which the contract accepts the objection. Both are unix seconds.
    """

    node: Address
    due_since: int
    reason: int
    text: str
    seq: int
    deadline: int

    def compute_digest(self, domain: Domain) -> Hash:
        """Compute the EIP-712 digest to sign for an objection in this domain."""
        return _hash_typed_data(build_objection_typed_data(self, domain))


@dataclass(frozen=True, slots=True)
class AnswerStatement:
    """A reporter's answer to the objections to a kickout, which no contract reads.

    `answered_at` is in unix seconds. If there are several answers to one kickout, the last one
    counts.
    """

    node: Address
    due_since: int
    is_accepted: bool
    because: str
    answered_at: int

    def compute_digest(self, domain: Domain) -> Hash:
        """Compute the EIP-712 digest to sign, in the objections contract's domain."""
        return _hash_typed_data(build_typed_data(self, domain))


# Statements that a reporter signs.
SignableStatement = ReportStatement | AnswerStatement


@dataclass(frozen=True, slots=True)
class NoticeRequest:
    """A node's signed request to subscribe to notices, list subscriptions, or end one.

    `service` is the URL of the service's web pages. `target` is the mail address or URL of a new
    subscription, or the id of the subscription to end. `kinds` is comma-separated. `nonce` must be
    larger than the nonce of the node's last request, and `deadline` is in unix seconds.
    """

    service: str
    node: Address
    action: str
    nonce: int
    deadline: int
    channel: str = ""
    target: str = field(default="", repr=False)
    kinds: str = ""

    def compute_digest(self, chain_id: int) -> Hash:
        """Compute the EIP-712 digest to sign for a request on this chain."""
        return _hash_typed_data(build_notice_request_typed_data(self, chain_id))


def build_typed_data(statement: SignableStatement, domain: Domain) -> dict[str, Any]:
    """Build the statement as EIP-712 data, for signers that need the full data."""
    if isinstance(statement, AnswerStatement):
        message = {
            "node": statement.node,
            "dueSince": statement.due_since,
            "isAccepted": statement.is_accepted,
            "because": statement.because,
            "answeredAt": statement.answered_at,
        }
        return _build_objections_typed_data("ObjectionAnswer", _ANSWER_TYPE, message, domain)
    return {
        "types": {
            "EIP712Domain": _parse_type_members(_DOMAIN_TYPE),
            "Report": _parse_type_members(_REPORT_TYPE),
        },
        "primaryType": "Report",
        "domain": {
            "name": _DOMAIN_NAME,
            "version": _DOMAIN_VERSION,
            "chainId": domain.chain_id,
            "verifyingContract": domain.contract,
        },
        "message": {
            "config": statement.config,
            "round": statement.round,
            "prev": statement.prev,
            "asOf": statement.as_of,
            "asOfHash": statement.as_of_hash,
            "deadline": statement.deadline,
            "root": statement.root,
        },
    }


def build_objection_typed_data(statement: ObjectionStatement, domain: Domain) -> dict[str, Any]:
    """Build the objection as EIP-712 data, for wallets to show and sign."""
    message = {
        "node": statement.node,
        "dueSince": statement.due_since,
        "reason": statement.reason,
        "words": statement.text,
        "seq": statement.seq,
        "deadline": statement.deadline,
    }
    return _build_objections_typed_data("Objection", _OBJECTION_TYPE, message, domain)


def _build_objections_typed_data(
    name: str, type_members: str, message: dict[str, Any], domain: Domain
) -> dict[str, Any]:
    return {
        "types": {
            "EIP712Domain": _parse_type_members(_DOMAIN_TYPE),
            name: _parse_type_members(type_members),
        },
        "primaryType": name,
        "domain": {
            "name": _OBJECTIONS_NAME,
            "version": _OBJECTIONS_VERSION,
            "chainId": domain.chain_id,
            "verifyingContract": domain.contract,
        },
        "message": message,
    }


def build_notice_request_typed_data(request: NoticeRequest, chain_id: int) -> dict[str, Any]:
    """Build the request as EIP-712 data, for wallets to show and sign."""
    return {
        "types": {
            "EIP712Domain": _parse_type_members(_NOTICES_DOMAIN_TYPE),
            "NoticeRequest": _parse_type_members(_NOTICE_REQUEST_TYPE),
        },
        "primaryType": "NoticeRequest",
        "domain": {
            "name": _NOTICES_NAME,
            "version": _NOTICES_VERSION,
            "chainId": chain_id,
        },
        "message": {
            "service": request.service,
            "node": request.node,
            "action": request.action,
            "channel": request.channel,
            "target": request.target,
            "kinds": request.kinds,
            "nonce": request.nonce,
            "deadline": request.deadline,
        },
    }


def _parse_type_members(type_members: str) -> list[dict[str, str]]:
    pairs = (member.split(" ") for member in type_members.split(","))
    return [{"name": name, "type": type_name} for type_name, name in pairs]


def _hash_typed_data(structure: dict[str, Any]) -> Hash:
    # `import_eth_account` restores the recursion limit that py_ecc raises.
    import_eth_account()
    from eth_account.messages import encode_typed_data  # noqa: PLC0415  it takes half a second

    message = encode_typed_data(full_message=structure)
    return Hash("0x" + keccak(b"\x19" + message.version + message.header + message.body).hex())
