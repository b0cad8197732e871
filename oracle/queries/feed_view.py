"""The state and the faults of a feed, a second source of events that has no proofs."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from oracle.indexer.feed_faults import HOLDING_KINDS
from oracle.queries.answers import ApiModel
from oracle.store.database import UnitOfWork


class FeedFaultView(ApiModel):
    """A fault in a row of the feed; times are in seconds by the feed's clock."""

    kind: str = Field(description="Kind of the fault (docs/explanation/feed.md#faults).")
    stream: int
    row: int
    found_at: int
    detail: str
    accepted_at: int | None = Field(
        description=(
            "Time at which an operator accepted the fault, in unix seconds; null if it was not "
            "accepted."
        )
    )


class FeedView(ApiModel):
    """How far the feed was read, and its faults that no operator has accepted."""

    proof: Literal["none"] = Field(
        default="none",
        description=(
            "Always `none`: no proof shows that the rows of a feed are right, or that none is "
            "missing."
        ),
    )
    stream: int
    first_id: int | None = Field(
        description="Id of the stream's first row; null if no row was read yet."
    )
    settled_id: int
    highest_id: int
    settled_to: int = Field(
        description=(
            "Time by the feed's clock, in unix seconds, before which all rows are settled: no "
            "later row can precede them."
        )
    )
    polled_at: int = Field(
        description="Time of the last request by the feed's clock, in unix seconds."
    )
    folded_rows: int
    waiting_rows: int
    held: bool = Field(description="Whether a fault of the feed prevents all publishing.")
    faults: list[FeedFaultView]


class FeedAcceptance(ApiModel):
    """The result of `feed accept`, or of its dry run."""

    accepted: list[FeedFaultView]
    begin_after: int | None = Field(
        serialization_alias="from",
        description="Id of the row after which a new stream begins; null if the stream continues.",
    )
    dry_run: bool


class WitnessFile(ApiModel):
    """A file of the times at which the rows of a feed were observed."""

    file: str
    rows: int


class WitnessImport(WitnessFile):
    """A file of observation times that was imported, or would be in a dry run."""

    dry_run: bool


def load_feed_view(uow: UnitOfWork) -> FeedView | None:
    """Return the state of the feed, or None if this database never read a feed."""
    cursor = uow.feed.get_cursor()
    if cursor is None:
        return None
    folded_rows, waiting_rows = uow.feed.count_folded_and_waiting_rows()
    faults = list(uow.feed.list_faults(is_open=True))
    return FeedView(
        stream=cursor.stream,
        first_id=cursor.first_id,
        settled_id=cursor.settled_id,
        highest_id=cursor.highest_id,
        settled_to=cursor.settled_to,
        polled_at=cursor.polled_at,
        folded_rows=folded_rows,
        waiting_rows=waiting_rows,
        held=any(fault.kind in HOLDING_KINDS for fault in faults),
        faults=[FeedFaultView.model_validate(fault) for fault in faults],
    )


def format_feed_lines(feed: FeedView | None) -> Iterator[tuple[str, str]]:
    """Yield the label and text of each line about the progress of reading the feed."""
    if feed is None:
        return
    yield (
        "feed proof",
        "none: rows of a feed, and omissions, cannot be proven",
    )
    first_row_text = "no row yet" if feed.first_id is None else f"from row {feed.first_id}"
    row_counts_text = f"{feed.folded_rows} rows folded, {feed.waiting_rows} waiting"
    yield "feed", f"{first_row_text}, settled to {feed.settled_id}, {row_counts_text}"
