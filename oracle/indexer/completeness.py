"""Checks that the raw rows are the committed ones, because damaged rows must not be refolded.

See docs/explanation/storage.md#raw-checksums.
"""

from collections.abc import Sequence

from oracle.domain.blocks import BlockRange
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.raw.raw_checksums import DamagedSpan

# Maximum number of spans listed in an error.
_MAX_LISTED_SPANS = 3
_NAME_BY_KIND = {"log": "logs", "call": "calls", "feed": "feed rows"}


class IncompleteLogsError(InputError):
    """Raw rows were lost or changed outside the program, so a fold of them would be wrong."""


def find_damaged_spans(
    uow: UnitOfWork, last_block: int, verified: BlockRange | None = None
) -> list[DamagedSpan]:
    """Return the spans up to `last_block` whose rows differ from those that were committed.

    `verified`: blocks that were just found equal to the chain; spans inside them are left out.
    """
    identity = uow.identity.get()
    first_block = 0 if identity is None else min(identity.start_block, last_block)
    spans = uow.raw_checksums.find_damaged_spans(first_block, last_block)
    return [span for span in spans if verified is None or not _is_inside(span, verified)]


def check_raw_rows(uow: UnitOfWork, last_block: int, verified: BlockRange | None = None) -> None:
    """Check that the raw rows are complete before they are refolded.

    Raises:
        IncompleteLogsError: rows up to `last_block` are missing, added or changed.
    """
    spans = find_damaged_spans(uow, last_block, verified)
    if spans:
        damage_text = "; ".join(describe_damage(spans[:_MAX_LISTED_SPANS]))
        raise IncompleteLogsError(f"raw rows: {damage_text}; {_repair_advice(spans)}")


def describe_damage(spans: Sequence[DamagedSpan]) -> list[str]:
    """Return a line for each span: its blocks, and what is wrong with their rows."""
    return [
        f"the {_NAME_BY_KIND[span.kind]} of blocks {span.blocks.first} to {span.blocks.last} "
        f"differ from those that were committed ({_describe_missing(span.missing)})"
        for span in spans
    ]


def _describe_missing(missing_count: int) -> str:
    if missing_count == 0:
        return "a row was changed"
    return f"{missing_count} missing" if missing_count > 0 else f"{-missing_count} too many"


def _repair_advice(spans: Sequence[DamagedSpan]) -> str:
    first = min(span.blocks.first for span in spans)
    last = max(span.blocks.last for span in spans)
    unlisted_count = len(spans) - _MAX_LISTED_SPANS
    remaining_text = "" if unlisted_count <= 0 else f"{unlisted_count} more spans are damaged; "
    return (
        f"{remaining_text}damaged rows are not folded; run `qos-oracle resync verify --from "
        f"{first} --to {last} --repair` to read these blocks again"
    )


def _is_inside(span: DamagedSpan, verified: BlockRange) -> bool:
    is_contained = verified.first <= span.blocks.first and span.blocks.last <= verified.last
    # The rows of a feed cannot be proven by the chain.
    return is_contained and span.kind != "feed"
