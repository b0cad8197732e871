"""The answer of `select --verify --json`: recomputed draws, and the actual starts."""

from pydantic import Field

from oracle.domain.blocks import BlockRef
from oracle.queries.answers import AddressText, ApiModel, HashText, Integer
from oracle.queries.selection.draw_check import AllDraws, DrawCheck, DrawVerdict
from oracle.queries.selection.selection_models import DrawnNode, build_drawn_node
from oracle.queries.selection.task_models import SnapshotTime
from oracle.systems.assignment import TaskDraw


class CandidateWeight(ApiModel):
    """A candidate of a draw."""

    node: AddressText
    weight: Integer


class DrawMadeAgain(DrawnNode):
    """A recomputed draw that the rules require."""

    seed_block: int
    seed_hash: HashText
    seed: HashText
    card: str | None
    candidates: list[CandidateWeight]


class RecordedDrawEntry(ApiModel):
    """A draw as the daemon recorded it."""

    seed_block: int
    seed_hash: HashText
    node: AddressText
    voided_block: int | None = Field(description="null: active.")


class DrawCheckAnswer(ApiModel):
    """The draws of one task."""

    task: HashText
    verdict: DrawVerdict
    why: str
    as_of: SnapshotTime
    draws: list[DrawMadeAgain]
    active: bool
    started_by: AddressText | None
    started_block: int | None
    recorded: list[RecordedDrawEntry]


class DifferingStart(ApiModel):
    """A task that was started by another node than the drawn one."""

    task: HashText
    started_by: AddressText | None
    started_block: int
    drawn: AddressText | None


class AllDrawsAnswer(ApiModel):
    """The draws of all tasks."""

    verdict: DrawVerdict
    start_block: int
    as_of: SnapshotTime
    started: int
    agree: int
    differ: list[DifferingStart]


def build_draw_check_answer(check: DrawCheck | AllDraws) -> DrawCheckAnswer | AllDrawsAnswer:
    """Return the answer for the draws of one task, or of all tasks."""
    if isinstance(check, AllDraws):
        return _build_all_draws_answer(check)
    return DrawCheckAnswer(
        task=check.task,
        verdict=check.verdict,
        why=check.why,
        as_of=_build_snapshot_time(check.as_of),
        draws=[_build_redrawn_entry(drawing) for drawing in check.drawings],
        active=check.active,
        started_by=check.started_by,
        started_block=check.started_block,
        recorded=[
            RecordedDrawEntry(
                seed_block=draw.seed_block,
                seed_hash=draw.seed_hash,
                node=draw.node,
                voided_block=draw.voided_block,
            )
            for draw in check.recorded
        ],
    )


def _build_snapshot_time(block: BlockRef) -> SnapshotTime:
    return SnapshotTime(block=block.number, time=block.time)


def _build_redrawn_entry(drawing: TaskDraw) -> DrawMadeAgain:
    return DrawMadeAgain(
        **build_drawn_node(drawing.node_draw).model_dump(),
        seed_block=drawing.block.number,
        seed_hash=drawing.block.hash,
        seed="0x" + drawing.seed.hex(),
        card=drawing.card,
        candidates=[
            CandidateWeight(node=node, weight=weight) for node, weight in drawing.candidates
        ],
    )


def _build_all_draws_answer(check: AllDraws) -> AllDrawsAnswer:
    return AllDrawsAnswer(
        verdict=check.verdict,
        start_block=check.start_block,
        as_of=_build_snapshot_time(check.as_of),
        started=check.started_count,
        agree=check.started_count - len(check.differing),
        differ=[
            DifferingStart(
                task=start.task,
                started_by=start.node,
                started_block=start.block,
                drawn=start.drawn_node,
            )
            for start in check.differing
        ],
    )
