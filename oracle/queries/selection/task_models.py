"""The requirements of a task, as `queue` and `select` print them."""

from pydantic import Field

from oracle.domain.events.network_events import TaskKind
from oracle.domain.state import Task
from oracle.queries.answers import AddressText, ApiModel, HashText, Integer
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.text.text_tables import format_block_time


class SnapshotTime(ApiModel):
    """The block and the time that an answer describes."""

    block: int | None = Field(description="null if no event is known yet.", examples=[293])
    time: int = Field(description="Unix seconds.", examples=[1_800_003_580])

    def to_text(self) -> str:
        """Return the block and the time as text."""
        block_text = "before any event" if self.block is None else f"as of block {self.block}"
        return f"{block_text}, {format_block_time(self.time)}"


class SnapshotAnswer(ApiModel):
    """Base class of a command's answer; `as_of` is the block of the snapshot."""

    as_of: SnapshotTime | None = Field(description="null if nothing is indexed yet.")


class TaskRequirements(ApiModel):
    """A task and its requirements; null if its creator did not specify them."""

    task: HashText
    creator: AddressText | None
    fee: Integer | None = Field(description="In wei.")
    min_vram: int | None = Field(description="In GB.")
    required_gpu: str | None
    required_gpu_vram: int | None = Field(description="In GB.")
    models: tuple[str, ...]
    version: tuple[int, int, int] | None
    size: int | None
    kind: TaskKind | None
    timeout: int | None = Field(description="Time limit, in seconds.")
    group: HashText | None = Field(description="Key of its group: the tasks of one validation.")


def build_snapshot_time(snapshot: NetworkSnapshot) -> SnapshotTime:
    """Return the block and the time of a snapshot."""
    return SnapshotTime(block=snapshot.block, time=snapshot.time)


def build_requirements(task: Task) -> TaskRequirements:
    names = TaskRequirements.model_fields.keys() - {"task"}
    return TaskRequirements(task=task.key, **{name: getattr(task, name) for name in names})
