"""Checks that the raw rows are those that were committed; incomplete ones are not refolded.

See docs/explanation/storage.md#raw-checksums.
"""

from collections.abc import Sequence

from oracle.domain.blocks import BlockRange
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.raw.raw_checksums import DamagedSpan

# Number of spans listed in an error.
_NAMED_SPANS = 3
_NAMES = {"log": "logs", "call": "calls", "feed": "feed rows"}


class IncompleteLogsError(InputError):
    """Raw rows were lost or changed outside the program, so a fold of them would be wrong."""


def damaged_spans(
    uow: UnitOfWork, last: int, verified: BlockRange | None = None
) -> list[DamagedSpan]:
    """Return the spans up to `last_block` whose rows are not those that were committed.

    `verified`: blocks that were just found equal to the chain; spans inside them are left out.
    """
    identity = uow.identity.get()
    first = 0 if identity is None else min(identity.start_block, last)
    found = uow.raw_checksums.damaged(first, last)
    return [span for span in found if verified is None or not _lies_in(span, verified)]


def check_complete(uow: UnitOfWork, last: int, verified: BlockRange | None = None) -> None:
    """Check that the raw rows are complete before they are refolded.

    Raises:
        IncompleteLogsError: rows up to `last_block` are missing, added or changed.
    """
    spans = damaged_spans(uow, last, verified)
    if spans:
        lines = "; ".join(damage_lines(spans[:_NAMED_SPANS]))
        raise IncompleteLogsError(f"raw rows: {lines}; {_advice(spans)}")


def damage_lines(spans: Sequence[DamagedSpan]) -> list[str]:
    """Return a line for each span: its blocks, and what is wrong with their rows."""
    return [
        f"the {_NAMES[span.kind]} of blocks {span.blocks.first} to {span.blocks.last} are not "
        f"those that were committed ({_words_of(span.missing)})"
        for span in spans
    ]


def _words_of(missing: int) -> str:
    if missing == 0:
        return "a row was changed"
    return f"{missing} missing" if missing > 0 else f"{-missing} too many"


def _advice(spans: Sequence[DamagedSpan]) -> str:
    first = min(span.blocks.first for span in spans)
    last = max(span.blocks.last for span in spans)
    unnamed = len(spans) - _NAMED_SPANS
    others = "" if unnamed <= 0 else f" and in {unnamed} more spans"
    return (
        f"nothing is folded from them{others}: `qos-oracle resync verify --from {first} "
        f"--to {last} --repair` reads these blocks again"
    )


def _lies_in(span: DamagedSpan, verified: BlockRange) -> bool:
    is_inside = verified.first <= span.blocks.first and span.blocks.last <= verified.last
    # No chain proves the rows of a feed.
    return is_inside and span.kind != "feed"
