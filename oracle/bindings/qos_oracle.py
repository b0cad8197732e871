"""The oracle contract QoSOracle: reads its state, and encodes the calls that are sent to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oracle.bindings.codec import decode_result, encode_call
from oracle.bindings.contract_errors import CONTRACT
from oracle.bindings.contract_views import (
    DeployedContract,
    ViewCall,
    call_views,
    decode_hash,
    fetch_contract_code,
)
from oracle.bindings.qos_roots import ContractKickLimits, KickBucket
from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format
from oracle.signing.typed_data import KickStatement, ReportStatement
from oracle.txmgr.client.receipts import fetch_newest_block

# Gas that registering a node adds to a push, within a few percent: a storage slot and 20 bytes of
# calldata. A node that takes a used index costs the same.
REGISTRATION_GAS = 26_000

# Hex digits of a word and of an address.
_WORD_DIGITS, _ADDRESS_DIGITS = 64, 40


@dataclass(frozen=True, slots=True)
class ContractHead:
    """The fields of the contract's struct `Head`; times are in unix seconds."""

    round: int
    as_of: int
    pushed_at: int
    paused_until: int
    held_seconds: int
    node_count: int
    open_count: int
    quorum: int
    kicks_paused: bool
    config_count: int


@dataclass(frozen=True, slots=True)
class ContractLimits:
    """The fields of the contract's struct `Limits`; times are in seconds.

    The anchor window is in blocks, shares are in 1/10,000, and QoS is in steps of 0.0001.
    """

    max_words: int
    max_new_nodes: int
    min_interval: int
    anchor_window: int
    max_age_seconds: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    kick_window: int
    max_kicks_per_round: int
    min_open: int
    fall_share: int
    big_fall: int


@dataclass(frozen=True, slots=True)
class ContractStatus:
    """The contract's state at the newest block of an endpoint.

    `config` is the digest of chain, contract, signers, quorum and rules. `head.config_count`
    counts the changes of this configuration.
    """

    block: BlockRef
    head: ContractHead
    limits: ContractLimits
    last_report: Hash
    rules_hash: Hash
    config: Hash

    @property
    def can_accept_round(self) -> bool:
        """Return whether the contract accepts a round.

        A round is accepted if the contract is not paused and the minimum interval is over.
        """
        head, now = self.head, self.block.time
        return now >= head.paused_until and now >= head.pushed_at + self.limits.min_interval


@dataclass(frozen=True, slots=True)
class ContractConfiguration:
    """The part of the contract that `contract check` compares with the configuration.

    A zero `target` means that kickouts call no contract. `pending_admin` becomes the admin as soon
    as it accepts the role, and is zero if there is none.
    """

    code: str
    target: Address
    admin: Address
    pending_admin: Address
    pauser: Address
    vetoer: Address
    signers: tuple[Address, ...]
    quorum: int
    floors: ContractLimits
    kick_limits: ContractKickLimits
    contract_status: ContractStatus


class OracleContract:
    """Reads the contract at an address; every read is pinned to one block."""

    def __init__(self, pool_view: PoolView, address: Address) -> None:
        self._pool_view = pool_view
        self.address = address

    def get_status(self) -> ContractStatus:
        """Return the contract's state at the newest block.

        Raises:
            TransientError: no endpoint returns the contract's state. The failure is temporary,
                because the address was checked when the daemon started.
        """
        block = fetch_newest_block(self._pool_view)
        names = ("head", "limits", "lastReport", "rulesHash", "configDigest")
        head, limits, last_report, rules_hash, config_digest = self._call_views(block, *names)
        return ContractStatus(
            block=block,
            head=ContractHead(*head[0]),
            limits=ContractLimits(*limits[0]),
            last_report=decode_hash(last_report),
            rules_hash=decode_hash(rules_hash),
            config=decode_hash(config_digest),
        )

    def get_kick_tokens(self) -> int:
        """Return how many kickouts the bucket allows at the newest block.

        Raises:
            TransientError: no endpoint returns the contract's state, as for `get_status`.
        """
        (bucket,) = self._call_views(fetch_newest_block(self._pool_view), "bucket")
        return int(bucket[0])

    def get_lane_words(self, indexes: Sequence[int], block: BlockRef) -> dict[int, int]:
        """Return the words (sixteen lanes each) that the contract stores at a block, by index.

        Raises:
            TransientError: no endpoint responds.
        """
        requests = [
            (
                "eth_call",
                (
                    {"to": self.address, "data": encode_call(CONTRACT, "wordsAt", index, 1)},
                    hex(block.number),
                ),
            )
            for index in indexes
        ]
        results = self._pool_view.request_first(requests) if requests else []
        with expect_response_format("words of lanes"):
            return {
                index: int(decode_result(CONTRACT, "wordsAt", result)[0][0])
                for index, result in zip(indexes, results, strict=True)
            }

    def get_configuration(self) -> ContractConfiguration:
        """Return the contract's accounts, limits and code.

        Raises:
            TransientError: no endpoint returns the contract's state, as for `get_status`.
        """
        contract_status = self.get_status()
        roles = ("admin", "pendingAdmin", "pauser", "vetoer", "target")
        other_views = ("signers", "floors", "kickLimits")
        values = [
            result[0] for result in self._call_views(contract_status.block, *roles, *other_views)
        ]
        admin, pending_admin, pauser, vetoer, target = values[: len(roles)]
        signers, floors, kick_limits = values[len(roles) :]
        code = fetch_contract_code(self._pool_view, self._contract, contract_status.block)
        return ContractConfiguration(
            code=code,
            target=Address(target),
            admin=Address(admin),
            pending_admin=Address(pending_admin),
            pauser=Address(pauser),
            vetoer=Address(vetoer),
            signers=tuple(Address(signer) for signer in signers),
            quorum=contract_status.head.quorum,
            floors=ContractLimits(*floors),
            kick_limits=ContractKickLimits(*kick_limits),
            contract_status=contract_status,
        )

    def _call_views(self, block: BlockRef, *functions: str) -> list[tuple[Any, ...]]:
        calls = [ViewCall(name) for name in functions]
        return call_views(self._pool_view, self._contract, block, calls)

    @property
    def _contract(self) -> DeployedContract:
        return DeployedContract(CONTRACT, self.address, "oracle.address")


def encode_push_call(statement: ReportStatement, config_count: int, signatures: bytes) -> str:
    """Return the calldata that pushes a report signed under the configuration `config_count`."""
    return encode_call(
        CONTRACT,
        "push",
        statement.round,
        config_count,
        statement.as_of,
        bytes.fromhex(statement.as_of_hash[2:]),
        statement.deadline,
        statement.blob,
        signatures,
    )


def encode_propose_kick_call(statement: KickStatement, signatures: bytes) -> str:
    """Return the calldata that proposes a signed kickout."""
    return encode_call(
        CONTRACT,
        "proposeKick",
        statement.round,
        bytes.fromhex(statement.report[2:]),
        statement.node,
        bytes.fromhex(statement.evidence[2:]),
        statement.deadline,
        signatures,
    )


def decode_kick_proposal(calldata: str, config: Hash) -> KickStatement:
    """Decode the calldata of `encode_propose_kick_call` into a statement with this `config`."""
    round_hex, report, node, evidence, deadline = (
        calldata[
            SELECTOR_DIGITS + _WORD_DIGITS * position : SELECTOR_DIGITS
            + _WORD_DIGITS * (position + 1)
        ]
        for position in range(5)
    )
    return KickStatement(
        config=config,
        round=int(round_hex, 16),
        report=Hash(f"0x{report}"),
        node=Address(f"0x{node[-_ADDRESS_DIGITS:]}"),
        evidence=Hash(f"0x{evidence}"),
        deadline=int(deadline, 16),
    )


def encode_execute_kick_call(node: Address) -> str:
    """Return the calldata that executes the kickout of a node."""
    return encode_call(CONTRACT, "executeKick", node)


def encode_retry_kick_call(node: Address) -> str:
    """Return the calldata that repeats the request to the network to end a node's membership."""
    return encode_call(CONTRACT, "retryKick", node)


def encode_cancel_kick_call(node: Address, reason: str) -> str:
    """Return the calldata that cancels a kickout; `reason` has at most 31 characters."""
    return encode_call(CONTRACT, "cancelKick", node, reason.encode().ljust(32, b"\0"))


def get_kick_bucket(pool_view: PoolView, contract: Address, block: BlockRef) -> KickBucket:
    """Return the kick bucket at a block.

    Raises:
        TransientError: no endpoint responds.
    """
    requests = [
        ("eth_call", ({"to": contract, "data": encode_call(CONTRACT, name)}, hex(block.number)))
        for name in ("kickLimits", "bucket")
    ]
    limits, bucket = pool_view.request_first(requests)
    with expect_response_format("the bucket of the contract"):
        ((_, _, max_kickouts, per_frame, frame),) = decode_result(CONTRACT, "kickLimits", limits)
        kickouts_left, frame_start = decode_result(CONTRACT, "bucket", bucket)
        return KickBucket(max_kickouts, kickouts_left, per_frame, frame, frame_start)


def get_signers(pool_view: PoolView, contract: Address, block: BlockRef) -> tuple[Address, ...]:
    """Return the signers at the end of a block, in the contract's order.

    Raises:
        TransientError: no endpoint responds.
    """
    call = {"to": contract, "data": encode_call(CONTRACT, "signers")}

    def read_signers(endpoint: EndpointCaller) -> tuple[Address, ...]:
        with expect_response_format("the signers of the contract"):
            # An endpoint that lacks the block may return an empty result.
            result = endpoint.request("eth_call", call, hex(block.number))
            (signers,) = decode_result(CONTRACT, "signers", result)
            return tuple(Address(signer.lower()) for signer in signers)

    return pool_view.read_first(read_signers)
