"""Reads the oracle contract QoSRoots, and encodes calls to it.

A round is a single Merkle root. Everything else about a node is proven by the node's leaf
(docs/reference/report-format.md#roots).
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from oracle.bindings.codec import decode_arguments, decode_result, encode_call
from oracle.bindings.contract_views import (
    DeployedContract,
    ViewCall,
    call_views,
    decode_hash_result,
    fetch_contract_code,
    is_arbitrum_chain,
    read_at_newest_block,
)
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import ContractKickLimits, RootsLimits
from oracle.domain.ids import Address, Hash
from oracle.domain.roots.leaves import NodeLeaf, RoundSummary
from oracle.rpc.fanout import PoolView, expect_response_format
from oracle.rpc.rpc_errors import RevertError
from oracle.signing.typed_data import ReportStatement
from oracle.txmgr.client.receipts import fetch_newest_block

CONTRACT = "roots/QoSRoots"

# The fields of the contract's leaf struct: node, next node, packed fields, hash of the scores.
LeafValues = tuple[Address, Address, int, bytes]

_WORD_BYTES = 32


@dataclass(frozen=True, slots=True)
class RootsHead:
    """The fields of the contract's struct `Head`.

    Times are in unix seconds. `config_count` is the number of configurations of signers and rules
    so far, and `round_config` is the number of the configuration under which the last round was
    signed.
    """

    round: int
    as_of: int
    pushed_at: int
    paused_until: int
    held_seconds: int
    quorum: int
    kicks_paused: bool
    config_count: int
    round_config: int


@dataclass(frozen=True, slots=True)
class KickBucket:
    """The contract's kick bucket, which limits the rate of kickouts.

    `left` is the number of kickouts that are possible now, and `most` is its maximum. `per_frame`
    kickouts are added every `frame` seconds. `since` is the start of the current frame in unix
    seconds.
    """

    most: int
    left: int
    per_frame: int
    frame: int
    since: int


@dataclass(frozen=True, slots=True)
class RootsStatus:
    """The state of the contract at an endpoint's newest block.

    `last_root` is the root of the last round, which the next report names as `prev`. It is zero
    before the first round, and after the last round was struck (withdrawn). `config` is the digest
    of chain, contract, signers, quorum and rules.
    """

    block: BlockRef
    head: RootsHead
    limits: RootsLimits
    last_root: Hash
    rules_hash: Hash
    config: Hash
    signers: tuple[Address, ...]
    kick_limits: ContractKickLimits
    bucket: KickBucket

    @property
    def can_accept_round(self) -> bool:
        """Return whether the contract would accept a round now.

        The contract must not be paused, and the minimum interval since the last round must be
        over.
        """
        head, now = self.head, self.block.time
        return now >= head.paused_until and now >= head.pushed_at + self.limits.min_interval


@dataclass(frozen=True, slots=True)
class RootsConfiguration:
    """The values of the contract that `contract check` compares with the configuration.

    A zero `target` means that kickouts call no contract. `pending_admin` becomes the admin when it
    accepts the role, and `pending_vetoer` can become the vetoer from `vetoer_offered_from` (unix
    seconds) on; an address is zero if there is no such account. `tightest` are the tightest limits
    that the pauser can set, and `floors` and `kick_floors` are the loosest limits that the admin
    can set. `on_arbitrum` is whether the contract takes block numbers and hashes from ArbSys, and
    `is_arbitrum_chain` is whether the chain has ArbSys.
    """

    code: str
    target: Address
    admin: Address
    pending_admin: Address
    pauser: Address
    vetoer: Address
    pending_vetoer: Address
    vetoer_offered_from: int
    floors: RootsLimits
    tightest: RootsLimits
    kick_floors: ContractKickLimits
    kept_rounds: int
    lag_rounds: int
    on_arbitrum: bool
    is_arbitrum_chain: bool
    contract_status: RootsStatus

    @property
    def signers(self) -> tuple[Address, ...]:
        return self.contract_status.signers

    @property
    def quorum(self) -> int:
        return self.contract_status.head.quorum

    @property
    def kick_limits(self) -> ContractKickLimits:
        return self.contract_status.kick_limits


class RootsContract:
    """Reads the oracle contract at an address.

    All values of a read are as of one block.
    """

    def __init__(self, pool_view: PoolView, address: Address) -> None:
        self._pool_view = pool_view
        self.address = address

    def fetch_status(self) -> RootsStatus:
        """Fetch the contract's state at the newest block.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        functions = (
            *("head", "limits", "lastRoot", "rulesHash", "configDigest", "signers"),
            *("kickLimits", "bucket"),
        )
        calls = [ViewCall(name) for name in functions]
        block, results = read_at_newest_block(
            self._pool_view,
            lambda view, newest: (newest, call_views(view, self._contract, newest, calls)),
        )
        head, limits, last_root, rules_hash, config, signers, kick_limits, bucket = results
        bucket_limits = ContractKickLimits(*kick_limits[0])
        kicks_left, frame_start = bucket
        return RootsStatus(
            block=block,
            head=RootsHead(*head[0]),
            limits=RootsLimits(*limits[0]),
            last_root=decode_hash_result(last_root),
            rules_hash=decode_hash_result(rules_hash),
            config=decode_hash_result(config),
            signers=tuple(Address(signer.lower()) for signer in signers[0]),
            kick_limits=bucket_limits,
            bucket=KickBucket(
                most=bucket_limits.bucket_most,
                left=kicks_left,
                per_frame=bucket_limits.bucket_per_frame,
                frame=bucket_limits.bucket_frame,
                since=frame_start,
            ),
        )

    def fetch_root(self, round_number: int) -> tuple[BlockRef, Hash | None]:
        """Fetch the newest block, and the root of a round at this block.

        The root is that in the contract. The root is None if the contract no longer keeps it, or
        if the round was struck (withdrawn).

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        block = fetch_newest_block(self._pool_view)
        call = {"to": self.address, "data": encode_call(CONTRACT, "rootOf", round_number)}
        try:
            result_hex = self._pool_view.request("eth_call", call, hex(block.number))
        except RevertError:
            return block, None
        with expect_response_format(f"rootOf of a QoSRoots at {self.address}"):
            root = decode_hash_result(decode_result(CONTRACT, "rootOf", str(result_hex)))
        return block, root

    def fetch_configuration(self) -> RootsConfiguration:
        """Fetch the contract's accounts, limits and code.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        contract_status = self.fetch_status()
        block = contract_status.block
        accounts = ("target", "admin", "pendingAdmin", "pauser", "vetoer", "pendingVetoer")
        other_views = (
            *("vetoerOfferedFrom", "floors", "tightest", "kickFloors"),
            *("KEPT", "LAG", "ON_ARBITRUM"),
        )
        values = [result[0] for result in self._call_views(block, *accounts, *other_views)]
        target, admin, pending_admin, pauser, vetoer, pending_vetoer = (
            Address(account.lower()) for account in values[: len(accounts)]
        )
        offered_from, floors, tightest, kick_floors, kept, lag, on_arbitrum = values[
            len(accounts) :
        ]
        return RootsConfiguration(
            code=fetch_contract_code(self._pool_view, self._contract, block),
            target=target,
            admin=admin,
            pending_admin=pending_admin,
            pauser=pauser,
            vetoer=vetoer,
            pending_vetoer=pending_vetoer,
            vetoer_offered_from=offered_from,
            floors=RootsLimits(*floors),
            tightest=RootsLimits(*tightest),
            kick_floors=ContractKickLimits(*kick_floors),
            kept_rounds=kept,
            lag_rounds=lag,
            on_arbitrum=on_arbitrum,
            is_arbitrum_chain=is_arbitrum_chain(self._pool_view),
            contract_status=contract_status,
        )

    def _call_views(self, block: BlockRef, *functions: str) -> list[tuple[Any, ...]]:
        calls = [ViewCall(name) for name in functions]
        return call_views(self._pool_view, self._contract, block, calls)

    @property
    def _contract(self) -> DeployedContract:
        return DeployedContract(CONTRACT, self.address, "oracle.address")


def encode_push_report_call(
    statement: ReportStatement, config_count: int, signatures: bytes
) -> str:
    """Encode the call that pushes a signed report.

    The report is signed under the configuration `config_count`.
    """
    report = (
        statement.round,
        config_count,
        statement.as_of,
        bytes.fromhex(statement.as_of_hash[2:]),
        statement.deadline,
        bytes.fromhex(statement.root[2:]),
    )
    return encode_call(CONTRACT, "push", report, signatures)


def decode_push_report_call(calldata: str, config: Hash, prev: Hash) -> ReportStatement:
    """Decode the report statement in a `push` call.

    `config` and `prev` complete the statement, because the calldata lacks them.

    Raises:
        ValueError: the calldata does not call `push`.
    """
    arguments = decode_arguments(CONTRACT, "push", calldata)
    number, _, as_of, as_of_hash, deadline, root = arguments["report"]
    return ReportStatement(
        config=config,
        round=number,
        prev=prev,
        as_of=as_of,
        as_of_hash=Hash("0x" + as_of_hash.hex()),
        deadline=deadline,
        root=Hash("0x" + root.hex()),
    )


def encode_accuse_call(leaf: NodeLeaf, hashes: Sequence[bytes]) -> str:
    """Encode the call that accuses a node.

    The node's leaf in the last root is given.
    """
    return encode_call(CONTRACT, "accuse", build_leaf_values(leaf), hashes)


def encode_execute_kick_call(
    leaf: NodeLeaf, hashes: Sequence[bytes], summary: RoundSummary
) -> str:
    """Encode the call that executes a kickout.

    The node's leaf in the last root is given.
    """
    return encode_call(CONTRACT, "executeKick", build_leaf_values(leaf), hashes, astuple(summary))


def encode_clear_accusation_call(leaf: NodeLeaf, hashes: Sequence[bytes]) -> str:
    """Encode the call that ends an outdated accusation.

    Its interval is not in the last root.
    """
    return encode_call(CONTRACT, "clear", build_leaf_values(leaf), hashes)


def encode_retry_kick_call(node: Address) -> str:
    """Encode the call that tries again to end a node's membership in the network."""
    return encode_call(CONTRACT, "retryKick", node)


def build_leaf_values(leaf: NodeLeaf) -> LeafValues:
    """Return a node's leaf as values for the contract's struct `NodeLeaf`."""
    encoded_leaf = leaf.encode()
    packed_fields = encoded_leaf[2 * _WORD_BYTES : 3 * _WORD_BYTES]
    return leaf.node, leaf.next_node, int.from_bytes(packed_fields), leaf.pool_hash
