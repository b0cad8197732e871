"""Who could be given a task, with what weight and what chance: `select` for whoever asks."""

from pydantic import Field

from oracle.domain.events.network_events import TaskCreated
from oracle.domain.fixed_point import decimal_text
from oracle.queries.answers import (
    AddressText,
    Answer,
    ApiModel,
    FractionText,
    IntegerText,
)
from oracle.queries.api.source import ApiSource, looking
from oracle.queries.selection.network_snapshot import SnapshotQuery, snapshot_of_store
from oracle.queries.selection.node_selection import CandidateChance, select, wanted_task
from oracle.systems.registry import policy_named


class CandidateEntry(ApiModel):
    """A member, and whether the task could go to it."""

    node: AddressText
    candidate: bool
    why_not: str | None = Field(description="null: it is a candidate.", examples=["busy"])
    weight: IntegerText | None
    parts: dict[str, str] = Field(description="What the weight is made of.")
    chance: FractionText | None = Field(description="Of being drawn first.")


class SelectionAnswer(Answer):
    """Everybody judged for a task, as of the cursor; nobody is drawn."""

    policy: str
    version: int
    sum: IntegerText = Field(description="Of all weights.")
    candidates: int
    nodes: list[CandidateEntry] = Field(description="By address.")


def selection_view(source: ApiSource, said: TaskCreated) -> SelectionAnswer:
    """Judge every member for a task that is not there yet."""
    rules = source.archive.rules
    with looking(source) as look:
        as_of = look.as_of
    policy = policy_named(rules.name)
    snapshot = snapshot_of_store(source.archive, SnapshotQuery(rules, group=said.group))
    found = select(snapshot, policy, policy.follow(), wanted_task(said, rules))
    least = 1 if found.has_equal_weights else 0
    return SelectionAnswer(
        as_of=as_of,
        policy=found.policy,
        version=found.version,
        sum=str(found.total),
        candidates=sum(judged.verdict.weight is not None for judged in found.judged),
        nodes=[_entry(judged, least) for judged in found.judged],
    )


def _entry(judged: CandidateChance, least: int) -> CandidateEntry:
    verdict = judged.verdict
    return CandidateEntry(
        node=verdict.node,
        candidate=verdict.weight is not None,
        why_not=verdict.out,
        weight=None if verdict.weight is None else str(max(least, verdict.weight)),
        parts={name: str(value) for name, value in verdict.parts.items()},
        chance=None if judged.chance is None else decimal_text(judged.chance),
    )
