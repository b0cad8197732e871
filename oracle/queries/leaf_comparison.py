"""Compares the leaves of two reports, and recomputes an accepted round from raw logs.

The round is recomputed from raw logs, the rules, and the chain's as-of block, but not from folded
state.
"""

from collections.abc import Callable, Mapping
from itertools import zip_longest

from pydantic import Field

from oracle.chain.proofs.keccak import keccak
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.domain.roots.leaves import NodeLeaf, split_leaves
from oracle.domain.roots.pieces import (
    PIECE_LEAVES,
    PieceDigest,
    PiecedRound,
    compute_piece_digest,
)
from oracle.domain.roots.round_tree import RoundTree
from oracle.errors import InputError, TransientError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.round_leaves import (
    LeafCache,
    load_domain,
    load_piece,
    load_pieced_round,
    load_pieced_round_of_report,
)
from oracle.queries.answers import ApiModel, HashText, load_event_sources
from oracle.queries.leaf_models import (
    FieldDifference,
    LeafDifference,
    LeafPieces,
    LeavesAnswer,
    ProofLeaf,
    build_piece_digests,
)
from oracle.queries.report_models import EndpointRoot, RoundVerification, build_round_entry
from oracle.reporting.recompute import build_tree_of_folded_state
from oracle.rpc.rpc_errors import RpcError
from oracle.rpc.transport import BoundedHttp, redact_url
from oracle.store.database import Store, UnitOfWork

_OK, _NOT_FOUND = 200, 404
# A piece of leaves has 1 MiB, and the hashes of all pieces of a million nodes have 150 kB.
_MAX_BYTES = 2 * 2**20
_TIMEOUT_SECONDS = 30.0


class ReportComparison(ApiModel):
    """The roots of this reporter's and another reporter's report for the same period."""

    period: int
    same: bool = Field(description="Whether the roots are equal.")
    own_root: HashText
    peer_root: HashText
    summary: list[FieldDifference] = Field(
        description="Fields that differ in chain, contract, round, block and sums."
    )
    leaf: LeafDifference | None = Field(
        description="The first leaf that differs; null if all leaves are equal."
    )


class PeerLeaves:
    """The leaves of another reporter's reports, fetched through its read API.

    Nothing in a response is trusted; the leaves are checked against the root.
    """

    def __init__(self, url: str) -> None:
        """Create a client of the other reporter's read API at `url`.

        Raises:
            InputError: `url` is not a URL.
        """
        self.name = redact_url(url, ("http", "https"), "--with")
        self._http = BoundedHttp(url, name=self.name, max_bytes=_MAX_BYTES)

    def close(self) -> None:
        self._http.close()

    def fetch_piece_hashes(self, period: int) -> LeafPieces:
        """Fetch the hashes of a report's pieces, and check them against the report's root.

        Raises:
            InputError: the other reporter does not respond, has no leaves of this period, or sends
                an invalid response.
        """
        leaves_json = self._fetch(f"/v1/reports/{period}/leaves")
        try:
            leaves = LeavesAnswer.model_validate_json(leaves_json).leaves
        except ValueError:
            raise InputError(
                f"{self.name}: the response is not a list of pieces; --with takes the address of "
                "another reporter's read API"
            ) from None
        if compute_pieced_root(leaves) != leaves.root:
            raise InputError(f"{self.name}: the pieces do not lead to the root {leaves.root}")
        return leaves

    def fetch_piece_leaves(self, period: int, leaves: LeafPieces, piece: int) -> bytes:
        """Fetch the leaves of a piece, and check them against the hash of the piece.

        Raises:
            InputError: the other reporter does not respond, or sends other leaves.
        """
        piece_leaves = self._fetch(f"/v1/reports/{period}/leaves/{piece}")
        try:
            digest = compute_piece_digest(
                piece, piece_leaves, keccak, is_only_piece=len(leaves.pieces) == 1
            )
        except ValueError as error:
            raise InputError(f"{self.name}: {error}") from None
        if digest != _decode_digest(leaves, piece):
            raise InputError(f"{self.name}: piece {piece} does not have the hash that it is under")
        return piece_leaves

    def _fetch(self, path: str) -> bytes:
        try:
            response = self._http.get(path, _TIMEOUT_SECONDS, _TIMEOUT_SECONDS)
        except RpcError as error:
            raise InputError(f"{self.name}: {error}") from error
        if response.status == _NOT_FOUND:
            raise InputError(
                f"{self.name}: no leaves at {path}; a reporter keeps only the leaves of reports "
                "that were accepted, or can still be accepted"
            )
        if response.status != _OK or response.is_truncated:
            raise InputError(f"{self.name}: unexpected response, HTTP status {response.status}")
        return response.body


def compare_report_with_peer(store: Store, peer: PeerLeaves, period: int) -> ReportComparison:
    """Compare a report with another reporter's, and find the first differing leaf.

    Of the leaves, only the first piece whose hash differs is fetched.

    Raises:
        InputError: one of the reporters has no leaves of this period, or the other one does not
            respond.
    """
    with store.read_transaction() as uow:
        stored_report = uow.reports.get(period)
        if stored_report is None:
            raise InputError(f"period {period}: no report was cut; run `qos-oracle report show`")
        cache = LeafCache()
        report = stored_report.report
        pieced_round = load_pieced_round_of_report(uow, cache, report)
        if pieced_round is None:
            raise InputError(
                f"period {period}: the leaves are deleted, because the report can no "
                "longer be accepted"
            )
    own_round = build_piece_digests(pieced_round, report.as_of.hash)
    peer_round = peer.fetch_piece_hashes(period)
    difference: LeafDifference | None = None
    differing_piece = _find_differing_piece(own_round, peer_round)
    if differing_piece is not None:
        with store.read_transaction() as uow:
            has_piece = differing_piece < len(own_round.pieces)
            piece_tree = (
                load_piece(uow, cache, pieced_round, differing_piece) if has_piece else None
            )
        peer_leaves = (
            peer.fetch_piece_leaves(period, peer_round, differing_piece)
            if differing_piece < len(peer_round.pieces)
            else b""
        )
        own_leaves = b"" if piece_tree is None else piece_tree.leaves
        difference = find_first_leaf_difference(differing_piece, own_leaves, peer_leaves)
    return ReportComparison(
        period=period,
        same=own_round.root == peer_round.root,
        own_root=own_round.root,
        peer_root=peer_round.root,
        summary=_list_field_differences(own_round.summary, peer_round.summary),
        leaf=difference,
    )


def find_first_leaf_difference(
    piece: int, leaves: bytes, other_leaves: bytes
) -> LeafDifference | None:
    """Return the first leaf that differs between two pieces with the same index.

    The result is None if all leaves are equal.
    """
    leaf_pairs = zip_longest(split_leaves(leaves), split_leaves(other_leaves))
    for index, (own_bytes, other_bytes) in enumerate(leaf_pairs):
        if own_bytes != other_bytes:
            own_leaf = _decode_leaf(own_bytes)
            other_leaf = _decode_leaf(other_bytes)
            fields = (
                []
                if own_leaf is None or other_leaf is None
                else _list_field_differences(own_leaf, other_leaf)
            )
            return LeafDifference(
                seat=PIECE_LEAVES * piece + index,
                own_leaf=own_leaf,
                other_leaf=other_leaf,
                fields=[entry for entry in fields if entry.name != "encoded"],
            )
    return None


def compute_pieced_root(leaves: LeafPieces) -> str:
    """Compute the Merkle root of all leaves from the hashes of the pieces."""
    summary = leaves.summary
    pieced_round = PiecedRound(
        [_decode_digest(leaves, piece) for piece in range(len(leaves.pieces))],
        summary.chain_id,
        Address(summary.oracle),
        summary.round,
        summary.as_of,
        keccak,
    )
    return "0x" + pieced_round.root.hex()


def _find_differing_piece(own_round: LeafPieces, peer_round: LeafPieces) -> int | None:
    digest_pairs = zip_longest(own_round.pieces, peer_round.pieces)
    return next(
        (
            index
            for index, (own_piece, peer_piece) in enumerate(digest_pairs)
            if own_piece is None
            or peer_piece is None
            or own_piece.nodes_hash != peer_piece.nodes_hash
        ),
        None,
    )


def _decode_digest(leaves: LeafPieces, piece: int) -> PieceDigest:
    digest_entry = leaves.pieces[piece]
    return PieceDigest(
        leaf_count=digest_entry.leaf_count,
        nodes_hash=bytes.fromhex(digest_entry.nodes_hash[2:]),
        words_hash=bytes.fromhex(digest_entry.words_hash[2:]),
        open_count=digest_entry.open_count,
        total_weight=digest_entry.total_weight,
    )


def _decode_leaf(encoded_leaf: bytes | None) -> ProofLeaf | None:
    return None if encoded_leaf is None else ProofLeaf.from_leaf(NodeLeaf.decode(encoded_leaf))


def _list_field_differences(model: ApiModel, other_model: ApiModel) -> list[FieldDifference]:
    own_fields = model.model_dump(mode="json")
    other_fields = other_model.model_dump(mode="json")
    return [
        FieldDifference(name=name, own_value=str(value), other_value=str(other_fields[name]))
        for name, value in own_fields.items()
        if value != other_fields[name]
    ]


def verify_round(
    round_number: int,
    chain: ChainSource,
    archive: EventArchive,
    read_contract_roots: Callable[[int], Mapping[str, tuple[BlockRef, Hash | None]]],
) -> RoundVerification:
    """Recompute the root of a round, and compare it with the accepted root.

    `read_contract_roots` returns, by endpoint, its newest block and the root that the contract has
    for a round at this block, or None if the contract has none.

    Raises:
        InputError: the index has no such accepted round.
        TransientError: the chain does not serve the as-of block.
    """
    with archive.store.read_transaction() as uow:
        accepted_round = uow.rounds.find_accepted_round(round_number)
        if accepted_round is None:
            raise InputError(f"round {round_number} was not accepted in the indexed blocks")
        event_source = load_event_sources(uow, [accepted_round.at])[accepted_round.at]
        is_struck = uow.rounds.is_struck(round_number)
    as_of = _fetch_block(chain, accepted_round.as_of)
    with archive.store.read_transaction() as uow:
        folded_state = fold_state_up_to(uow, archive.reader, archive.rules, as_of.number)
        tree = build_tree_of_folded_state(
            uow, archive.reader, folded_state, as_of.time, archive.rules
        )
        domain = load_domain(uow)
        root = tree.compute_round_root(
            domain.chain_id, domain.contract, round_number, as_of.number
        )
        difference = (
            None
            if root == accepted_round.root
            else _find_first_difference(uow, accepted_round, tree)
        )
    contract_roots = [
        EndpointRoot(
            endpoint=endpoint,
            block=block.number,
            is_behind=block.number < accepted_round.at.block,
            root=contract_root,
        )
        for endpoint, (block, contract_root) in read_contract_roots(round_number).items()
    ]
    returned_roots = {entry.root for entry in contract_roots if entry.root is not None}
    has_accepted_root = returned_roots == {accepted_round.root} if returned_roots else None
    has_same_block = as_of.hash == accepted_round.as_of_hash
    return RoundVerification(
        **dict(build_round_entry(accepted_round, event_source, is_struck=is_struck)),
        same=has_same_block and root == accepted_round.root and has_accepted_root is not False,
        same_block=has_same_block,
        computed_root=root,
        contract_has_root=has_accepted_root,
        contract_roots=contract_roots,
        leaf_difference=difference,
    )


def _fetch_block(chain: ChainSource, block_number: int) -> BlockRef:
    block = chain.fetch_header(block_number)
    if block is None:
        raise TransientError(f"no endpoint returned block {block_number}")
    return block


def _find_first_difference(
    uow: UnitOfWork, accepted_round: RoundAccepted, tree: RoundTree
) -> LeafDifference | None:
    """Return the first leaf that differs between a computed tree and an accepted round.

    The result is None if no leaf differs, or if the round's leaves are not stored.
    """
    pieced_round = load_pieced_round(uow, LeafCache(), accepted_round)
    if pieced_round is None:
        return None
    computed_pieces = [edit.apply(b"") for _, edit in sorted(tree.edits.take().items())]
    accepted_pieces = [
        uow.leaf_pieces.load_leaves(piece, accepted_round.as_of)
        for piece in range(len(pieced_round.digests))
    ]
    piece_pairs = zip_longest(computed_pieces, accepted_pieces, fillvalue=b"")
    for piece, (computed_leaves, accepted_leaves) in enumerate(piece_pairs):
        difference = find_first_leaf_difference(piece, computed_leaves, accepted_leaves)
        if difference is not None:
            return difference
    return None
