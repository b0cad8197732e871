"""Stores the leaves of reports in pieces of 8,192 leaves.

When a report is cut, that is, built at the end of a period, only the pieces that have changed
since the last report are stored. See docs/explanation/storage.md#leaf-pieces.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from oracle.domain.reports.lanes import NEVER_REPORTED
from oracle.domain.roots.leaves import LEAF_BYTES, read_leaf_lane
from oracle.domain.roots.pieces import PIECE_LEAVES, PieceDigest
from oracle.store.tables.round_tables import leaf_piece, report


class LeafPieceRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, piece: int, as_of: int, digest: PieceDigest, leaves: bytes) -> None:
        """Insert a changed piece of a report's Merkle tree.

        The leaves of the piece have changed since the last report.
        """
        self._connection.execute(
            insert(leaf_piece).values(
                piece=piece,
                as_of=as_of,
                leaf_count=digest.leaf_count,
                nodes_hash=digest.nodes_hash,
                words_hash=digest.words_hash,
                open_count=digest.open_count,
                total_weight=digest.total_weight,
                leaves=leaves,
            )
        )

    def get_digest_by_piece(self, as_of: int) -> dict[int, PieceDigest]:
        """Return the digests of all pieces in the report as of a block, by piece.

        The pieces are in ascending order. If there was no report as of this block, or its pieces
        were pruned, the digests do not lead to the root of a report.
        """
        newest_query = (
            select(leaf_piece.c.piece, func.max(leaf_piece.c.as_of).label("as_of"))
            .where(leaf_piece.c.as_of <= as_of)
            .group_by(leaf_piece.c.piece)
            .subquery()
        )
        columns = [column for column in leaf_piece.c if column.name != "leaves"]
        query = select(*columns).join(
            newest_query,
            (leaf_piece.c.piece == newest_query.c.piece)
            & (leaf_piece.c.as_of == newest_query.c.as_of),
        )
        rows = self._connection.execute(query.order_by(leaf_piece.c.piece))
        return {row.piece: _decode_digest(row) for row in rows}

    def load_leaves(self, piece: int, as_of: int) -> bytes:
        """Return the encoded leaves of a piece in the report as of a block.

        The result is b"" if the piece is not stored.
        """
        query = (
            select(leaf_piece.c.leaves)
            .where(leaf_piece.c.piece == piece, leaf_piece.c.as_of <= as_of)
            .order_by(leaf_piece.c.as_of.desc())
            .limit(1)
        )
        leaves = self._connection.execute(query).scalar_one_or_none()
        return b"" if leaves is None else bytes(leaves)

    def load_lanes_of_seat(self, seat: int, as_of_blocks: Collection[int]) -> dict[int, int]:
        """Return the scores (lanes) reported for one node, by as-of block.

        The lane is 0 if the node had no leaf yet. Blocks before the oldest stored piece are left
        out.
        """
        piece, leaf_index = divmod(seat, PIECE_LEAVES)
        leaf_offset = LEAF_BYTES * leaf_index
        query = (
            select(
                leaf_piece.c.as_of,
                func.substr(leaf_piece.c.leaves, leaf_offset + 1, LEAF_BYTES).label("leaf"),
            )
            .where(leaf_piece.c.piece == piece)
            .order_by(leaf_piece.c.as_of)
        )
        rows = self._connection.execute(query).all()
        stored_blocks = [row.as_of for row in rows]
        lanes: dict[int, int] = {}
        for as_of in as_of_blocks:
            row_index = bisect_right(stored_blocks, as_of)
            if row_index:
                leaf = bytes(rows[row_index - 1].leaf)
                lanes[as_of] = read_leaf_lane(leaf) if leaf else NEVER_REPORTED
        return lanes

    def delete_as_of(self, as_of: int) -> None:
        """Delete the pieces of the report as of a block.

        Their leaves are not those of the accepted round.
        """
        self._connection.execute(delete(leaf_piece).where(leaf_piece.c.as_of == as_of))

    def delete_after_last_report(self) -> None:
        """Delete the pieces whose reports were deleted by a rewind."""
        newest_report = select(
            func.coalesce(func.max(report.c.as_of_number), -1)
        ).scalar_subquery()
        self._connection.execute(delete(leaf_piece).where(leaf_piece.c.as_of > newest_report))

    def prune_except(self, kept_blocks: Collection[int]) -> None:
        """Delete the pieces that the reports as of `kept_blocks` do not need."""
        as_of_blocks_by_piece = defaultdict[int, list[int]](list)
        key_query = select(leaf_piece.c.piece, leaf_piece.c.as_of)
        for piece, as_of in self._connection.execute(
            key_query.order_by(leaf_piece.c.piece, leaf_piece.c.as_of)
        ):
            as_of_blocks_by_piece[piece].append(as_of)
        sorted_blocks = sorted(kept_blocks)
        for piece, as_of_blocks in as_of_blocks_by_piece.items():
            for unused_block in _find_unused_blocks(as_of_blocks, sorted_blocks):
                self._connection.execute(
                    delete(leaf_piece).where(
                        leaf_piece.c.piece == piece, leaf_piece.c.as_of == unused_block
                    )
                )


def _find_unused_blocks(as_of_blocks: Sequence[int], kept_blocks: Sequence[int]) -> list[int]:
    """Return the as-of blocks that no kept block needs.

    A kept block needs the newest as-of block up to itself.
    """
    used_blocks = {
        as_of_blocks[index - 1]
        for index in (bisect_right(as_of_blocks, kept_block) for kept_block in kept_blocks)
        if index
    }
    return [block for block in as_of_blocks if block not in used_blocks]


def _decode_digest(row: Any) -> PieceDigest:  # noqa: ANN401  a row of any driver
    return PieceDigest(
        leaf_count=row.leaf_count,
        nodes_hash=bytes(row.nodes_hash),
        words_hash=bytes(row.words_hash),
        open_count=row.open_count,
        total_weight=row.total_weight,
    )
