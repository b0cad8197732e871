"""The leaves of accepted rounds and of cut reports, in pieces that anybody can check alone."""

from base64 import b32encode
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.reports.report import Report
from oracle.domain.roots.pieces import PiecedRound
from oracle.errors import InputError
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.leaf_models import LeavesAnswer, describe_pieces
from oracle.queries.node_proof import load_accepted_round
from oracle.queries.round_leaves import find_accepted_report, load_piece, load_pieced_round

# CIDv1, raw bytes, SHA-256 with 32 bytes; in base32, which has the prefix b.
_CID_PREFIX = bytes((0x01, 0x55, 0x12, 0x20))


class LeafPieceContent(NamedTuple):
    """The bytes of a piece; `is_final` means that they will always be those of the resource."""

    leaves: bytes
    is_final: bool

    @property
    def cid(self) -> str:
        """The content identifier of the bytes, as a raw block of IPFS has it."""
        digest = _CID_PREFIX + sha256(self.leaves).digest()
        return "b" + b32encode(digest).decode().rstrip("=").lower()


# Finds the report whose leaves are requested, and whether no reorg can change it.
FindReport = Callable[[ApiSnapshot, int], tuple[Report, bool]]


def find_report_of_round(snapshot: ApiSnapshot, round_number: int) -> tuple[Report, bool]:
    """Return the report that an accepted round has the root of; raise NotFoundError if none."""
    try:
        accepted = load_accepted_round(snapshot.uow, round_number)
    except InputError as error:
        raise NotFoundError(str(error)) from error
    report = find_accepted_report(snapshot.uow, accepted)
    if report is None:
        raise NotFoundError(f"the leaves of round {round_number} are not stored")
    return report, _is_final(snapshot, accepted)


def find_report_of_period(snapshot: ApiSnapshot, period: int) -> tuple[Report, bool]:
    """Return the report of a period, accepted or not; raise NotFoundError if there is none."""
    stored = snapshot.uow.reports.get(period)
    if stored is None:
        raise NotFoundError(f"no report of period {period} was cut")
    return stored.report, False


def build_leaf_pieces(snapshot: ApiSnapshot, report: Report) -> LeavesAnswer:
    """Return the pieces of a report; raise NotFoundError if they are not stored any more."""
    pieced_round = _load_kept_round(snapshot, report)
    return LeavesAnswer(as_of=snapshot.as_of, leaves=describe_pieces(report, pieced_round))


def load_leaf_piece(
    snapshot: ApiSnapshot, find_report: FindReport, number: int, piece: int
) -> LeafPieceContent:
    """Return the bytes of a piece; raise NotFoundError if there is no such piece."""
    report, is_final = find_report(snapshot, number)
    pieced_round = _load_kept_round(snapshot, report)
    if piece >= len(pieced_round.digests):
        raise NotFoundError(f"piece {piece}: the round has {len(pieced_round.digests)} pieces")
    tree = load_piece(snapshot.uow, snapshot.source.leaves, pieced_round, piece)
    if tree is None:
        raise _build_not_kept_error(report)
    return LeafPieceContent(tree.leaves, is_final)


def _load_kept_round(snapshot: ApiSnapshot, report: Report) -> PiecedRound:
    pieced_round = load_pieced_round(snapshot.uow, snapshot.source.leaves, report)
    if pieced_round is None:
        raise _build_not_kept_error(report)
    return pieced_round


def _build_not_kept_error(report: Report) -> NotFoundError:
    return NotFoundError(f"the leaves of the report as of block {report.as_of.number} are deleted")


def _is_final(snapshot: ApiSnapshot, accepted: RoundAccepted) -> bool:
    final_number = snapshot.cursor.final_number
    return final_number is not None and accepted.at.block <= final_number
