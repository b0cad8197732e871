"""The models of a round's leaf, its summary, its pieces of leaves, and leaf differences."""

from typing import Self

from pydantic import Field

from oracle.chain.hex_names import format_account_id
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import decode_qos
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, RoundSummary
from oracle.domain.roots.pieces import PiecedRound
from oracle.queries.answers import (
    AccountId,
    AddressText,
    Answer,
    ApiModel,
    FixedPoint,
    HashText,
    Integer,
)


class ProofLeaf(ApiModel):
    """The values of a node in a round, as encoded in the node's leaf."""

    node: AddressText
    next_node: AddressText = Field(
        description=(
            "The next higher address that has a leaf, or the lowest one after the highest. No "
            "address between the two has a leaf."
        )
    )
    lane: int = Field(
        description="1 if the node must not be selected, else its QoS in steps of 0.0001, plus 2."
    )
    qos: FixedPoint | None = Field(
        description="QoS of the node; null if the node must not be selected."
    )
    is_member: bool
    is_paused: bool
    is_excluded: bool
    is_held: bool = Field(
        description=(
            "Whether a due kickout of the node is held, so that only the vetoer can allow it."
        )
    )
    seat: int = Field(description="Index of the leaf in the tree, from 0.")
    score_count: int
    score_sum: int
    reliability: FixedPoint = Field(description="Reliability H of the node at the as-of block.")
    kickout_due_since: int | None = Field(
        description=(
            "Block time since which the kickout is due, in unix seconds; null if none is due, or "
            "if logs behind it could not be decoded."
        )
    )
    last_scored_at: int | None = Field(
        description=(
            "Block time of the node's newest score, in unix seconds; null if the node has no "
            "score."
        )
    )
    pool_hash: HashText
    encoded: str = Field(
        pattern="^0x[0-9a-f]{256}$",
        description="The 128 bytes of the leaf, which are hashed twice for the Merkle tree.",
        examples=["0x" + "00" * 128],
    )

    @classmethod
    def from_leaf(cls, leaf: NodeLeaf) -> Self:
        """Build the model of a leaf."""
        return cls(
            node=leaf.node,
            next_node=leaf.next_node,
            lane=leaf.lane,
            qos=decode_qos(leaf.lane),
            is_member=LeafFlag.MEMBER in leaf.flags,
            is_paused=LeafFlag.PAUSED in leaf.flags,
            is_excluded=LeafFlag.EXCLUDED in leaf.flags,
            is_held=LeafFlag.HELD in leaf.flags,
            seat=leaf.seat,
            score_count=leaf.score_count,
            score_sum=leaf.score_sum,
            reliability=leaf.reliability,
            kickout_due_since=leaf.kickout_due_since or None,
            last_scored_at=leaf.last_scored_at or None,
            pool_hash=format_hash(leaf.pool_hash),
            encoded="0x" + leaf.encode().hex(),
        )


class ProofSummary(ApiModel):
    """The signed data of a round, which bind its root to one chain and contract."""

    chain_id: int
    oracle: AddressText
    oracle_account_id: AccountId = Field(description="CAIP-10 id of the oracle contract.")
    round: int
    as_of: int = Field(description="Block at which the leaves were computed.")
    node_count: int
    open_count: int = Field(
        description="Number of nodes that may be selected, that is, whose lane is at least 2."
    )
    total_weight: Integer = Field(
        description="Sum of `lane` - 1 over all nodes that may be selected."
    )

    @classmethod
    def from_summary(cls, summary: RoundSummary) -> Self:
        """Build the model of a round's summary."""
        return cls(
            chain_id=summary.chain_id,
            oracle=summary.oracle,
            oracle_account_id=format_account_id(summary.chain_id, summary.oracle),
            round=summary.round,
            as_of=summary.as_of,
            node_count=summary.node_count,
            open_count=summary.open_count,
            total_weight=summary.total_weight,
        )


class LeafPieceEntry(ApiModel):
    """The hashes of one piece of a round's leaves."""

    index: int = Field(
        description=(
            "Number of the piece, from 0. A piece contains the leaves of up to 8,192 seats, from "
            "seat 8,192 * `index` on."
        )
    )
    leaf_count: int
    nodes_hash: HashText = Field(description="Root of the subtree of the piece's leaves.")
    words_hash: HashText = Field(
        description="Root of the subtree of the piece's words; a word is the lanes of 16 nodes."
    )
    open_count: int = Field(
        description=(
            "Number of nodes in the piece that may be selected; the sum over all pieces is "
            "`summary.open_count`."
        )
    )
    total_weight: Integer = Field(
        description=(
            "Sum of `lane` - 1 of these nodes; the sum over all pieces is `summary.total_weight`."
        )
    )
    path: list[HashText] = Field(
        description="Sibling hashes on the path from `nodes_hash` to `root`."
    )


class LeafPieces(ApiModel):
    """The pieces that the leaves of a root are divided into."""

    root: HashText
    as_of_hash: HashText = Field(description="Hash of the block `summary.as_of`.")
    summary: ProofSummary
    pieces: list[LeafPieceEntry]


class LeavesAnswer(Answer):
    """The piece hashes of a round or report, against which each piece can be verified."""

    leaves: LeafPieces


class FieldDifference(ApiModel):
    """A field whose values differ between two reports, as text."""

    name: str
    own_value: str
    other_value: str


class LeafDifference(ApiModel):
    """The first leaf, in seat order, that differs between two reports."""

    seat: int
    own_leaf: ProofLeaf | None = Field(
        description="This host's leaf at this seat; null if it has none."
    )
    other_leaf: ProofLeaf | None = Field(
        description="The other leaf at this seat; null if there is none."
    )
    fields: list[FieldDifference]


def build_piece_digests(pieced_round: PiecedRound, as_of_hash: Hash) -> LeafPieces:
    """Return the root of a round's leaves, with the hashes of all pieces."""
    return LeafPieces(
        root=format_hash(pieced_round.root),
        as_of_hash=as_of_hash,
        summary=ProofSummary.from_summary(pieced_round.summary),
        pieces=[
            LeafPieceEntry(
                index=index,
                leaf_count=digest.leaf_count,
                nodes_hash=format_hash(digest.nodes_hash),
                words_hash=format_hash(digest.words_hash),
                open_count=digest.open_count,
                total_weight=digest.total_weight,
                path=[format_hash(sibling) for sibling in pieced_round.build_path(index)],
            )
            for index, digest in enumerate(pieced_round.digests)
        ],
    )


def format_hash(content: bytes) -> Hash:
    """Format the bytes of a hash as `0x` and hex digits."""
    return Hash("0x" + content.hex())
