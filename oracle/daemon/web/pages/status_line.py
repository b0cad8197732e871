"""The line under the navigation: how far the index is, and what every page is rendered with."""

from typing import Any, NamedTuple

from oracle.queries.api.answers import AsOf
from oracle.queries.api.source import ApiLook
from oracle.queries.contract_view import READY_WITHIN_BLOCKS
from oracle.queries.text.human_numbers import span

# Older than this, and the chain stands, or nobody shows us its blocks.
_OLD_SECONDS = 600


class StatusLine(NamedTuple):
    """`tone`: good, late or bad; it is a sign and a colour beside the words."""

    tone: str
    words: str


OUT_OF_REACH = StatusLine("late", "Nothing of the index is on this page")


def status_line(as_of: AsOf, *, is_halted: bool) -> StatusLine:
    """Return how far the index is, in a few words."""
    if is_halted:
        return StatusLine("bad", "Stopped by a halt, nothing is sent: qos-oracle halt list")
    behind = as_of.lag_blocks
    if behind is not None and behind > READY_WITHIN_BLOCKS:
        return StatusLine("late", f"Catching up, {behind} blocks left")
    if as_of.lag_seconds > _OLD_SECONDS:
        return StatusLine("late", f"No newer block for {span(as_of.lag_seconds)}")
    if behind is None:
        return StatusLine("good", "Indexed")
    return StatusLine("good", "In step with the chain")


def framed(look: ApiLook, here: str | None, json_path: str | None = None) -> dict[str, Any]:
    """Return what the frame of each page is told; `here`: the page in the navigation."""
    is_halted = bool(look.uow.halts.all_closed())
    return {
        "here": here,
        "as_of": look.as_of,
        "standing": status_line(look.as_of, is_halted=is_halted),
        "json_path": json_path,
        "token": look.source.token,
        "labels": look.source.labels,
    }
