"""A draw recomputed from the stored logs: the candidates of the task, and their weights.

The answer has every input of the draw's arithmetic, so that anybody can verify it
(docs/reference/scoring-rules.md#the-draw). The history is folded up to the seed block, which takes
seconds, so callers run one such request at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pydantic import Field

from oracle.dispatch.assigner import refuse_other_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.drawer import BlockDrawer
from oracle.dispatch.redraw import WorkingSetView
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import ZERO_HASH, GroupKey, Hash, TaskKey
from oracle.errors import InputError
from oracle.indexer.stored_events import stored_events
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText, IntegerText
from oracle.queries.api.source import ApiSnapshot, ApiSource, NotKnownError, looking
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.assignment import AssignmentPlan, Drawing
from oracle.systems.weighted_draw import seed_for


class WeightedCandidate(ApiModel):
    """A candidate of a draw and its weight; if all weights are 0, each counts as 1."""

    node: AddressText
    weight: IntegerText


class DrawnAgain(Answer):
    """The inputs of the draw of a task, and its result.

    seed = sha256(seed_hash || seed_name), digest = sha256(seed || counter as 32 bytes), x = digest
    modulo the sum of the weights. Drawn is the first candidate, in ascending order of addresses,
    at which the running sum of the weights exceeds x.
    """

    task: HashText
    seed_block: int
    seed_hash: HashText
    seed_name: HashText = Field(description="The task; or its group, where one draw is for all.")
    counter: int = Field(description="0; of a group the place of the task in it.")
    card: str | None = Field(description="The card that was drawn first, under a legacy policy.")
    candidates: list[WeightedCandidate] = Field(description="Ascending by address.")
    digest: HashText
    total: IntegerText = Field(description="Sum of the weights.")
    x: IntegerText
    node: AddressText = Field(description="Whom this draws.")
    recorded: AddressText = Field(description="Whom the daemon wrote down.")
    agrees: bool


@dataclass(frozen=True, slots=True)
class _Question:
    """A recorded draw and the inputs to recompute it, with the plan before its block."""

    recorded: StoredDraw
    block: BlockRef
    before: AssignmentPlan
    events: Sequence[DomainEvent]
    group: GroupKey | None


def drawn_again(source: ApiSource, task: TaskKey, seed_block: int | None) -> DrawnAgain:
    """Recompute a task's draw; `seed_block` None: its newest draw.

    Raises:
        NotKnownError: there is no such draw, or it cannot be recomputed here.
    """
    settings = source.dispatch
    if settings is None:
        raise NotKnownError("nobody is drawn by the settings of this server")
    with looking(source) as look:
        as_of, asked = look.as_of, _asked(look, settings, (task, seed_block))
    drawn = _turn(settings, asked)
    mine = next((one for one in drawn if one.task == task), None)
    if mine is None:
        raise NotKnownError("the stored logs do not give this draw again")
    together = [one for one in drawn if one.seed == mine.seed]
    earlier = {one.node for one in together[: together.index(mine)]}
    is_alone = seed_for(asked.block.hash, task) == mine.seed
    return DrawnAgain(
        as_of=as_of,
        task=task,
        seed_block=asked.block.number,
        seed_hash=asked.block.hash,
        seed_name=task if is_alone or asked.group is None else asked.group,
        counter=len(earlier),
        card=mine.card,
        candidates=[
            WeightedCandidate(node=name, weight=str(weight))
            for name, weight in sorted(mine.candidates)
            if name not in earlier
        ],
        digest=Hash(mine.drawn.digest),
        total=str(mine.drawn.total),
        x=str(mine.drawn.x),
        node=mine.node,
        recorded=asked.recorded.node,
        agrees=mine.node == asked.recorded.node,
    )


def _asked(
    look: ApiSnapshot, settings: DispatchSettings, wanted: tuple[TaskKey, int | None]
) -> _Question:
    task, seed_block = wanted
    try:
        refuse_other_settings(look.uow, settings)
    except InputError as error:
        raise NotKnownError("it was drawn by other settings than this server has") from error
    found = [one for one in look.uow.draws.of_task(task) if seed_block in (None, one.seed_block)]
    if not found:
        raise NotKnownError(f"nobody was drawn for task {task}, or not by that block")
    recorded = found[-1]
    number, identity = recorded.seed_block, look.uow.identity.get()
    first = 0 if identity is None else identity.start_block
    block = BlockRef(number, recorded.seed_hash, ZERO_HASH, recorded.seed_time)
    standing, of_block = look.uow.draws.before(number)
    rows = look.uow.tasks.named([task])
    return _Question(
        recorded,
        block,
        AssignmentPlan({one.task: one.node for one in standing}, frozenset(of_block)),
        list(stored_events(look.uow, look.source.archive.reader, BlockRange(first, number))),
        rows[task].group if task in rows else None,
    )


def _turn(settings: DispatchSettings, asked: _Question) -> Sequence[Drawing]:
    """Return the drawings of the seed block, computed from the state after the earlier events."""
    view, drawer = WorkingSetView(settings), BlockDrawer(settings, explains=True)
    for number, said in groupby(asked.events, key=lambda event: event.at.block):
        view.fold(number, list(said))
    drawer.plan, drawer.at = asked.before, asked.block.number - 1
    return drawer.turn(view, asked.block).drawn
