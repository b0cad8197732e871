"""Nodes below the kickout line and rounds that state it, written to the database."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.oracle_events import KickAccused, RoundAccepted
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import ZERO_HASH, Address, GroupKey, Hash, TaskKey
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.node_kicks import NodeKick
from oracle.domain.reports.report import ReportSettings
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf
from oracle.domain.roots.pieces import PIECE_LEAVES, PiecedRound, compute_piece_digest
from oracle.domain.state import Membership, create_node
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.round_leaves import compute_next_addresses
from tests.support.rounds import build_accepted_round, make_address

POOL = 4
RULES = replace(CRYNUX, name="due", pool_size=POOL, kick_creator_share=UNIT)
POLICY = KickoutPolicy(RULES)
SETTINGS = ReportSettings()
DOMAIN = Domain(31337, make_address(0xFFFF))
OPENED = Position(10, 0, 0)
# The time of block 10, in unix seconds.
DUE_SINCE = 600
# Lanes: one below the kickout line, and one far above it.
LOW, HIGH = 100, 9000
# The newest indexed block.
HEAD = BlockRef(100, Hash("0x" + 64 * "1"), Hash("0x" + 64 * "2"), 6000)


def store_nodes(store: Store, node_count: int, due_count: int) -> list[Address]:
    """Write nodes, of which the kickouts of the first `due_count` are due; return all nodes."""
    nodes = [make_address(1 + number) for number in range(node_count)]
    due_nodes = nodes[:due_count]
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(
            Identity(DOMAIN.chain_id, ZERO_HASH, {}, DOMAIN.contract, start_block=0)
        )
        uow.nodes.save(
            replace(
                create_node(node, seat, 0, 0),
                membership=Membership.MEMBER,
                pool=bytes(POOL) if seat < due_count else b"",
                kickout_due_since=OPENED if seat < due_count else None,
                kickout_due_time=DUE_SINCE if seat < due_count else None,
            )
            for seat, node in enumerate(nodes)
        )
        uow.kickouts.save_intervals([KickoutDue(node, OPENED, None) for node in due_nodes])
        uow.scores.append(
            [
                _build_score(node, number, seq)
                for number, node in enumerate(due_nodes)
                for seq in range(POOL)
            ],
            uow.rule_sets.get_or_assign_number(RULES),
        )
        uow.cursor.move_to(HEAD, HEAD, 0)
    return nodes


def build_leaves(
    nodes: Sequence[Address],
    due_nodes: Collection[Address],
    held_nodes: Collection[Address] = (),
    *,
    due_since: int = DUE_SINCE,
    due_lane: int = LOW,
) -> list[NodeLeaf]:
    """Return the leaves of all nodes, of which some are due, and some of these are held."""
    next_addresses = compute_next_addresses(nodes)
    return [
        NodeLeaf(
            node=node,
            next_node=next_addresses[node],
            lane=due_lane if node in due_nodes else HIGH,
            flags=LeafFlag.MEMBER | (LeafFlag.HELD if node in held_nodes else LeafFlag(0)),
            seat=seat,
            score_count=POOL,
            score_sum=0,
            reliability=UNIT,
            kickout_due_since=due_since if node in due_nodes else 0,
            last_scored_at=DUE_SINCE,
            pool_hash=bytes(32),
        )
        for seat, node in enumerate(nodes)
    ]


def store_leaves(store: Store, number: int, leaves: Sequence[NodeLeaf]) -> tuple[int, Hash]:
    """Write the leaves of a round that is not accepted yet; return its as-of block and root."""
    as_of = OPENED.block + number - 1
    pieces = [
        b"".join(leaf.encode() for leaf in leaves[first : first + PIECE_LEAVES])
        for first in range(0, len(leaves), PIECE_LEAVES)
    ]
    digests = [
        compute_piece_digest(piece, encoded, keccak, is_only_piece=len(pieces) == 1)
        for piece, encoded in enumerate(pieces)
    ]
    pieced_round = PiecedRound(digests, DOMAIN.chain_id, DOMAIN.contract, number, as_of, keccak)
    with store.transaction() as uow:
        for piece, (digest, encoded) in enumerate(zip(digests, pieces, strict=True)):
            uow.leaf_pieces.add(piece, as_of, digest, encoded)
    return as_of, Hash("0x" + pieced_round.root.hex())


def store_round(store: Store, number: int, leaves: Sequence[NodeLeaf]) -> RoundAccepted:
    """Write the accepted round with this number and these leaves, and return it."""
    as_of, root = store_leaves(store, number, leaves)
    block = as_of + 1
    accepted_round = replace(
        build_accepted_round(number, time=60 * block, as_of=as_of, root=root),
        at=Position(block, 0, 99),
    )
    with store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(accepted=[accepted_round]))
    return accepted_round


def build_accused_kickout(
    node: Address, *, round_number: int = 1, ready_at: int = 5000
) -> NodeKick:
    """Return the kickout of a node that was accused by the proof of a round."""
    at = Position(OPENED.block + round_number + 1, 0, 0)
    return NodeKick(node).accuse(
        KickAccused(at, 0, node, round_number, DUE_SINCE, ZERO_HASH, ready_at)
    )


def store_kicks(store: Store, *kicks: NodeKick) -> None:
    """Write these kickouts to the database, as the contract records them."""
    with store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(kicks={kick.node: kick for kick in kicks}))


def _build_score(node: Address, number: int, seq: int) -> ScoreEntry:
    name = f"{POOL * number + seq:064x}"
    at = Position(5, number, seq)
    return ScoreEntry(
        node, seq + 1, TaskKey("0x" + name), GroupKey("0x" + name), None, None, 0, at, 1
    )
