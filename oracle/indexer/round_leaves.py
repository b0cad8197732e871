"""Loads stored leaves of accepted rounds and reports, and proves leaves.

The leaves of a round are stored in pieces: parts of the Merkle tree that later rounds share if
they are unchanged. See docs/explanation/storage.md#leaf-pieces.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from typing import Generic, TypeVar

from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.domain.reports.report import Lanes, Report
from oracle.domain.roots.leaves import NodeLeaf, extract_lanes
from oracle.domain.roots.pieces import PIECE_LEAVES, PiecedRound, PieceTree
from oracle.domain.roots.round_tree import NodeProof, ProvableRound
from oracle.errors import InputError
from oracle.signing.typed_data import Domain
from oracle.store.database import UnitOfWork

_MAX_CACHED_ROUNDS = 256
# A round's lanes take 2 bytes per node. Measuring the hot set's lag needs the lanes of the last
# round and of `MAX_LAG_ROUNDS` rounds before it; the network page shows 24 rounds.
_MAX_CACHED_LANES = 32
# A tree takes up to 1.5 MiB. This many trees hold the leaves of 131,072 nodes.
_MAX_CACHED_TREES = 16
# A proof takes 2 KiB. A mass outage needs the proofs of many nodes.
_MAX_CACHED_PROOFS = 8192
# A round with recomputed leaves takes 300 bytes per node.
_MAX_REFOLDED_ROUNDS = 2

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _RecentlyUsed(Generic[Key, Value]):
    """A thread-safe cache of the most recently used values.

    Values are computed one at a time.
    """

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._lock = Lock()
        self._value_by_key: OrderedDict[Key, Value] = OrderedDict()

    def get_cached(self, keys: Iterable[Key]) -> dict[Key, Value]:
        """Return the cached values among these keys."""
        with self._lock:
            value_by_key = {
                key: self._value_by_key[key] for key in keys if key in self._value_by_key
            }
            for key in value_by_key:
                self._value_by_key.move_to_end(key)
            return value_by_key

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the cached value of a key, or compute and cache it.

        None is not cached.
        """
        with self._lock:
            if key in self._value_by_key:
                self._value_by_key.move_to_end(key)
                return self._value_by_key[key]
            value = make()
            if value is not None:
                self._value_by_key[key] = value
            if len(self._value_by_key) > self._max_values:
                self._value_by_key.popitem(last=False)
            return value


class LeafCache:
    """A thread-safe cache of rounds, pieces of Merkle trees, scores (lanes) and proofs.

    The keys are hashes of the contents, so that no rewind or repair can make an entry wrong. The
    keys of `proofs` are the root and the node. `refolded` contains rounds whose leaves are not
    stored, by round, as-of hash and number of refolds.
    """

    def __init__(self) -> None:
        self.rounds: _RecentlyUsed[Hash, PiecedRound | None] = _RecentlyUsed(_MAX_CACHED_ROUNDS)
        self.lanes: _RecentlyUsed[Hash, Lanes] = _RecentlyUsed(_MAX_CACHED_LANES)
        self.trees: _RecentlyUsed[bytes, PieceTree | None] = _RecentlyUsed(_MAX_CACHED_TREES)
        self.proofs: _RecentlyUsed[tuple[bytes, Address], NodeProof | None] = _RecentlyUsed(
            _MAX_CACHED_PROOFS
        )
        self.refolded: _RecentlyUsed[tuple[int, Hash, int], ProvableRound] = _RecentlyUsed(
            _MAX_REFOLDED_ROUNDS
        )


def load_domain(uow: UnitOfWork) -> Domain:
    """Return the chain and the contract for which the roots of reports are valid.

    A database without an oracle contract has the zero address as its contract.

    Raises:
        InputError: the database is empty.
    """
    identity = uow.identity.get()
    if identity is None:
        raise InputError("the database is empty; `qos-oracle run` indexes the chain")
    return Domain(identity.chain_id, identity.oracle or ZERO_ADDRESS)


def load_pieced_round(
    uow: UnitOfWork, cache: LeafCache, accepted_round: RoundAccepted
) -> PiecedRound | None:
    """Return an accepted round with its Merkle tree in pieces, if its leaves are stored."""
    return _load_round(uow, cache, accepted_round.round, accepted_round.as_of, accepted_round.root)


def load_pieced_round_of_report(
    uow: UnitOfWork, cache: LeafCache, report: Report
) -> PiecedRound | None:
    """Return the round of a report, or None if its leaves are no longer stored."""
    return _load_round(uow, cache, report.head_round + 1, report.as_of.number, report.root)


def _load_round(
    uow: UnitOfWork, cache: LeafCache, round_number: int, as_of: int, root: Hash
) -> PiecedRound | None:
    def load() -> PiecedRound | None:
        digest_by_piece = uow.leaf_pieces.get_digest_by_piece(as_of)
        domain = load_domain(uow)
        pieced_round = PiecedRound(
            list(digest_by_piece.values()),
            domain.chain_id,
            domain.contract,
            round_number,
            as_of,
            keccak,
        )
        # If pieces were pruned, the computed root differs from the accepted one.
        return pieced_round if "0x" + pieced_round.root.hex() == root else None

    return cache.rounds.get_or_make(root, load)


def load_round_lanes(uow: UnitOfWork, cache: LeafCache, accepted_round: RoundAccepted) -> Lanes:
    """Return the scores (lanes) of an accepted round by seat.

    The result is empty if the leaves are not stored.
    """

    def load() -> Lanes:
        pieced_round = load_pieced_round(uow, cache, accepted_round)
        lanes = None if pieced_round is None else load_lanes_of_round(uow, pieced_round)
        return array("H") if lanes is None else lanes

    return cache.lanes.get_or_make(accepted_round.root, load)


def load_lanes_of_round(uow: UnitOfWork, pieced_round: PiecedRound) -> Lanes | None:
    """Return the scores (lanes) of a round by seat, or None if leaves were pruned.

    Only one piece is in memory at a time.
    """
    if not _are_pieces_stored(uow, pieced_round):
        return None
    lanes = array("H")
    for piece in range(len(pieced_round.digests)):
        leaves = uow.leaf_pieces.load_leaves(piece, pieced_round.summary.as_of)
        lanes.extend(extract_lanes(leaves))
    return lanes


def load_leaves(uow: UnitOfWork, pieced_round: PiecedRound) -> bytes | None:
    """Return the encoded leaves of a round by seat, or None if leaves were pruned."""
    if not _are_pieces_stored(uow, pieced_round):
        return None
    as_of = pieced_round.summary.as_of
    return b"".join(
        uow.leaf_pieces.load_leaves(piece, as_of) for piece in range(len(pieced_round.digests))
    )


def _are_pieces_stored(uow: UnitOfWork, pieced_round: PiecedRound) -> bool:
    """Return whether all pieces of a round are still stored.

    A piece may have been pruned after the round was cached. In this case an older version of the
    piece would be read in its place.
    """
    stored_digests = uow.leaf_pieces.get_digest_by_piece(pieced_round.summary.as_of)
    return list(stored_digests.values()) == list(pieced_round.digests)


def load_piece(
    uow: UnitOfWork, cache: LeafCache, pieced_round: PiecedRound, piece: int
) -> PieceTree | None:
    """Return a piece of a round's Merkle tree, or None if its leaves were pruned.

    Raises:
        IndexError: the round has no such piece.
    """
    if not 0 <= piece < len(pieced_round.digests):
        raise IndexError(f"the round has no piece {piece}")
    digest = pieced_round.digests[piece]

    def load() -> PieceTree | None:
        leaves = uow.leaf_pieces.load_leaves(piece, pieced_round.summary.as_of)
        if not leaves:
            return None
        tree = PieceTree(leaves, keccak, is_only_piece=len(pieced_round.digests) == 1)
        return tree if tree.nodes_hash == digest.nodes_hash else None

    return cache.trees.get_or_make(digest.nodes_hash, load)


def prove_address_from_pieces(
    uow: UnitOfWork,
    cache: LeafCache,
    pieced_round: PiecedRound,
    address: Address,
    seat: int | None = None,
) -> NodeProof | None:
    """Return the Merkle proof of an address in a round, or None if its leaf was pruned.

    `seat` is the seat of the node at the cursor, or None to read the seat from the database. The
    leaf is expected at this seat, because a node keeps its seat in all rounds. Only after a repair
    of old blocks may the leaf have another seat; in this case all leaves are searched.
    """
    node_count = pieced_round.summary.node_count
    if seat is None or seat >= node_count:
        seat = uow.nodes.find_seat_at_or_below(address, node_count)
    address_bytes = bytes.fromhex(address[2:])
    if seat is not None:
        piece, leaf_index = divmod(seat, PIECE_LEAVES)
        piece_tree = load_piece(uow, cache, pieced_round, piece)
        if piece_tree is not None and piece_tree.is_address_covered_by_leaf(
            leaf_index, address_bytes
        ):
            return _build_proof(address, pieced_round, piece, piece_tree, leaf_index)
    for piece in range(len(pieced_round.digests)):
        piece_tree = load_piece(uow, cache, pieced_round, piece)
        covering_index = (
            None if piece_tree is None else piece_tree.find_covering_leaf(address_bytes)
        )
        if piece_tree is not None and covering_index is not None:
            return _build_proof(address, pieced_round, piece, piece_tree, covering_index)
    return None


def prove_seats(
    uow: UnitOfWork, cache: LeafCache, pieced_round: PiecedRound, seats: range
) -> list[NodeProof]:
    """Return the Merkle proofs of the leaves at these seats.

    Leaves that are no longer stored are left out. The seat of a node is its permanent number, and
    the index of its leaf in the round.

    Raises:
        IndexError: the round has no such seat.
    """
    seat_proofs = []
    for seat in seats:
        piece, leaf_index = divmod(seat, PIECE_LEAVES)
        piece_tree = load_piece(uow, cache, pieced_round, piece)
        if piece_tree is None:
            continue
        address = NodeLeaf.decode(piece_tree.get_leaf(leaf_index)).node
        seat_proofs.append(_build_proof(address, pieced_round, piece, piece_tree, leaf_index))
    return seat_proofs


def _build_proof(
    address: Address, pieced_round: PiecedRound, piece: int, tree: PieceTree, index: int
) -> NodeProof:
    hashes = (*tree.build_proof(index), *pieced_round.build_path(piece))
    return NodeProof(address, NodeLeaf.decode(tree.get_leaf(index)), hashes)
