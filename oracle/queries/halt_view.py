"""A halt: why publishing was stopped, and who cleared it."""

from pydantic import Field

from oracle.queries.answers import ApiModel, HashText
from oracle.store.halts import Halt


class HaltView(ApiModel):
    """One halt; times in unix seconds."""

    name: str
    active: bool
    since_block: int
    since_time: int
    reason: str
    block: int | None = Field(description="The block on which two sources disagree.")
    our_hash: HashText | None
    their_hash: HashText | None
    cleared_time: int | None = Field(description="null: the halt is active.")
    cleared_by: str | None
    cleared_reason: str | None


class HaltClearance(ApiModel):
    """The result of clearing a halt manually, or of a dry run of it."""

    halt: str
    cleared: bool = Field(description="False: a dry run.")
    reason: str


def build_halt_view(halt: Halt) -> HaltView:
    """Return the answer for a halt."""
    evidence, cleared = halt.evidence, halt.cleared
    return HaltView(
        name=halt.name,
        active=cleared is None,
        since_block=halt.since_block,
        since_time=halt.since_time,
        reason=halt.reason,
        block=None if evidence is None else evidence.block,
        our_hash=None if evidence is None else evidence.our_hash,
        their_hash=None if evidence is None else evidence.their_hash,
        cleared_time=None if cleared is None else cleared.time,
        cleared_by=None if cleared is None else cleared.by,
        cleared_reason=None if cleared is None else cleared.reason,
    )
