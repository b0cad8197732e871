"""Serves the leaves of rounds and reports in pieces, each of which can be verified."""

from base64 import b32encode
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.roots.pieces import PiecedRound
from oracle.errors import InputError
from oracle.indexer.round_leaves import load_piece, load_pieced_round, load_pieced_round_of_report
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.leaf_models import LeavesAnswer, build_piece_digests
from oracle.queries.node_proof import load_accepted_round

# The prefix means CIDv1, raw bytes, and SHA-256 (32 bytes). The base32 text of the identifier
# starts with "b".
_CID_PREFIX = bytes((0x01, 0x55, 0x12, 0x20))


class StoredLeaves(NamedTuple):
    """The leaves under a Merkle root; `is_final` means that no reorg can change them."""

    pieced_round: PiecedRound
    as_of_hash: Hash
    is_final: bool


# A function that finds leaves by the number of a round or by the period of a report.
FindLeaves = Callable[[ApiSnapshot, int], StoredLeaves]


def get_round_leaves(snapshot: ApiSnapshot, round_number: int) -> StoredLeaves:
    """Return the leaves of an accepted round.

    Raises:
        NotFoundError: the round was not accepted, or its leaves are no longer stored.
    """
    try:
        accepted_round = load_accepted_round(snapshot.uow, round_number)
    except InputError as error:
        raise NotFoundError(str(error)) from error
    pieced_round = load_pieced_round(snapshot.uow, snapshot.source.leaves, accepted_round)
    if pieced_round is None:
        raise _build_deleted_leaves_error(accepted_round.as_of)
    return StoredLeaves(
        pieced_round, accepted_round.as_of_hash, _is_final(snapshot, accepted_round)
    )


def get_period_leaves(snapshot: ApiSnapshot, period: int) -> StoredLeaves:
    """Return the leaves of a period's report, even if the contract did not accept it.

    Raises:
        NotFoundError: the period has no report, or its leaves are no longer stored.
    """
    stored_report = snapshot.uow.reports.get(period)
    if stored_report is None:
        raise NotFoundError(f"no report of period {period} was cut")
    report = stored_report.report
    pieced_round = load_pieced_round_of_report(snapshot.uow, snapshot.source.leaves, report)
    if pieced_round is None:
        raise _build_deleted_leaves_error(report.as_of.number)
    return StoredLeaves(pieced_round, report.as_of.hash, is_final=False)


def build_leaf_pieces(snapshot: ApiSnapshot, leaves: StoredLeaves) -> LeavesAnswer:
    """Return the digest of each piece of a tree's leaves."""
    pieces = build_piece_digests(leaves.pieced_round, leaves.as_of_hash)
    return LeavesAnswer(as_of=snapshot.as_of, leaves=pieces)


def load_leaf_piece(
    snapshot: ApiSnapshot, find_leaves: FindLeaves, number: int, piece: int
) -> tuple[bytes, bool]:
    """Return the bytes of one piece of leaves, and whether they are final.

    Raises:
        NotFoundError: there is no such round, report or piece, or its leaves are no longer stored.
    """
    leaves = find_leaves(snapshot, number)
    pieced_round = leaves.pieced_round
    if piece >= len(pieced_round.digests):
        raise NotFoundError(f"piece {piece}: the round has {len(pieced_round.digests)} pieces")
    piece_tree = load_piece(snapshot.uow, snapshot.source.leaves, pieced_round, piece)
    if piece_tree is None:
        raise _build_deleted_leaves_error(pieced_round.summary.as_of)
    return piece_tree.leaves, leaves.is_final


def compute_content_id(leaves: bytes) -> str:
    """Return the IPFS content identifier (CID) of a piece, stored as a raw block."""
    digest = _CID_PREFIX + sha256(leaves).digest()
    return "b" + b32encode(digest).decode().rstrip("=").lower()


def _build_deleted_leaves_error(as_of: int) -> NotFoundError:
    return NotFoundError(f"the leaves of the report as of block {as_of} are deleted")


def _is_final(snapshot: ApiSnapshot, accepted_round: RoundAccepted) -> bool:
    final_number = snapshot.cursor.final_number
    return final_number is not None and accepted_round.at.block <= final_number
