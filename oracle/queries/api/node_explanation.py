"""Explains a node's score at a block, with the schema of `explain --json`.

At the cursor's block, the stored state is read. For an earlier block, the state is folded again
from the raw logs, which takes seconds, so callers run one such request at a time.
"""

from pydantic import Field

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address
from oracle.errors import InputError
from oracle.indexer.provenance import find_stored_block
from oracle.queries.answers import Answer
from oracle.queries.api.source import (
    ApiSnapshot,
    ApiSource,
    NotFoundError,
    RequestError,
    open_snapshot,
)
from oracle.queries.explain import Explanation, explain_score
from oracle.queries.explanation_models import NodeExplanation
from oracle.queries.explanation_view import build_explanation_view


class ExplanationAnswer(Answer):
    """Every number that a score is computed from, with the log of each."""

    explanation: NodeExplanation = Field(
        description="As `qos-oracle explain --json` prints it "
        "(docs/reference/read-api.md#explain)."
    )


def build_node_explanation(
    source: ApiSource, address: Address, block_number: int | None
) -> ExplanationAnswer:
    """Explain a node's score at a block, or at the cursor's block by default.

    Raises:
        RequestError: the block is above the last indexed block.
        NotFoundError: the node was not seen up to the block, or the time of the block is not
            stored.
    """
    with open_snapshot(source) as snapshot:
        as_of = snapshot.as_of
        block = _resolve_block(snapshot, block_number)
    return ExplanationAnswer(
        as_of=as_of,
        explanation=build_explanation_view(
            explain_known_node(source, address, block), source.labels
        ),
    )


def explain_known_node(source: ApiSource, address: Address, block: BlockRef) -> Explanation:
    """Return a node's explanation; raise NotFoundError if no event up to the block names it."""
    try:
        return explain_score(source.archive, address, block, source.rankings.get_ranking)
    except InputError as error:
        raise NotFoundError(str(error)) from error


def _resolve_block(snapshot: ApiSnapshot, block_number: int | None) -> BlockRef:
    """Return the requested block, from its stored header or from a stored log of the block."""
    cursor = snapshot.cursor
    if block_number is None or block_number == cursor.number:
        return BlockRef(cursor.number, cursor.hash, ZERO_HASH, cursor.time)
    if block_number > cursor.number:
        raise RequestError(
            f"block {block_number} is not indexed; the last indexed block is {cursor.number}"
        )
    stored_block = find_stored_block(snapshot.uow, block_number)
    if stored_block is None:
        raise NotFoundError(
            f"block {block_number}: its time is unknown, because it has no event and its header "
            "is not stored; choose a block with an event"
        )
    return stored_block
