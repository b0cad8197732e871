"""Answers of `notify`: the delivery state of each target, and the result of a test message."""

from pydantic import Field

from oracle.queries.answers import ApiModel
from oracle.store.notice_repository import DeliveryProgress


class NoticeTarget(ApiModel):
    """The delivery state of a target."""

    target: str
    told_up_to: int | None = Field(description="Last delivered notice; null if the target is new.")
    newest: int
    tries: int = Field(description="Failed deliveries of the next notice.")
    next_at: int | None = Field(description="Unix seconds of the next try; null: none failed.")
    last_error: str | None


class NoticeDelivery(ApiModel):
    """The result of a test message."""

    target: str
    error: str | None = Field(description="null: it was delivered.")


class NoticeRecipients(ApiModel):
    """The targets that would be sent a test message."""

    would_be_told: list[str]


def build_notice_target(
    name: str, delivery_state: DeliveryProgress | None, newest: int
) -> NoticeTarget:
    """Return the answer for a target; `newest`: the number of the newest notice."""
    return NoticeTarget(
        target=name,
        told_up_to=None if delivery_state is None else delivery_state.seq,
        newest=newest,
        tries=0 if delivery_state is None else delivery_state.tries,
        next_at=None
        if delivery_state is None or not delivery_state.tries
        else delivery_state.next_at,
        last_error=None if delivery_state is None else delivery_state.last_error,
    )
