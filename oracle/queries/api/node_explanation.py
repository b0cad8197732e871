"""The reasons for a node's score at a block, with the schema of `explain --json`.

For the cursor's block the stored state is read. An earlier block is folded again from the raw
logs, which takes seconds, so callers run one such request at a time.
"""

from pydantic import Field

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address
from oracle.errors import InputError
from oracle.queries.answers import Answer
from oracle.queries.api.source import (
    ApiSnapshot,
    ApiSource,
    NotKnownError,
    QuestionError,
    looking,
)
from oracle.queries.explain import Explanation, explain
from oracle.queries.explanation_models import NodeExplanation
from oracle.queries.explanation_view import explanation_view


class ExplanationAnswer(Answer):
    """Every number behind a score, each with its log."""

    explanation: NodeExplanation = Field(
        description="As `qos-oracle explain --json` prints it "
        "(docs/reference/read-api.md#explain)."
    )


def node_explanation(source: ApiSource, address: Address, at: int | None) -> ExplanationAnswer:
    """Explain a node's score at a block; `block_number` None: the cursor's block.

    Raises:
        QuestionError: the block is beyond the index.
        NotKnownError: the node was not seen up to the block, or the time of the block is not
            stored.
    """
    with looking(source) as look:
        as_of, block = look.as_of, _block(look, at)
    return ExplanationAnswer(
        as_of=as_of,
        explanation=explanation_view(explained(source, address, block), source.labels),
    )


def explained(source: ApiSource, address: Address, block: BlockRef) -> Explanation:
    """Return the explanation of a node; raise NotKnownError if it was not seen up to the block."""
    try:
        return explain(source.archive, address, block)
    except InputError as error:
        raise NotKnownError(str(error)) from error


def _block(look: ApiSnapshot, at: int | None) -> BlockRef:
    """Return the requested block, from its header or from a log in it."""
    cursor = look.cursor
    if at is None or at == cursor.number:
        return BlockRef(cursor.number, cursor.hash, ZERO_HASH, cursor.time)
    if at > cursor.number:
        raise QuestionError(f"block {at} is not indexed; the last one is {cursor.number}")
    known = look.uow.blocks.at(at)
    if known is not None:
        return known
    log = next(iter(look.uow.logs.between(at, at)), None)
    if log is None:
        raise NotKnownError(
            f"nothing was said in block {at}, and its time is not kept: name one in which "
            "something happened"
        )
    return BlockRef(at, log.block_hash, ZERO_HASH, log.time)
