"""The models of task requirements, candidates and drawn nodes, for `queue` and `select`."""

from pydantic import Field

from oracle.domain.events.network_events import TaskKind
from oracle.domain.state import Task
from oracle.queries.answers import AddressText, ApiModel, FixedPoint, HashText, Integer
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.text.text_tables import format_block_time
from oracle.systems.weighted_draw import NodeDraw


class SnapshotTime(ApiModel):
    """The block and time of the snapshot that an answer describes."""

    block: int | None = Field(
        description="The last block of the snapshot; null if it contains no event.", examples=[293]
    )
    time: int = Field(
        description="Time of the snapshot, in unix seconds.", examples=[1_800_003_580]
    )

    def to_text(self) -> str:
        """Format the block and the time as text."""
        block_text = "before any event" if self.block is None else f"as of block {self.block}"
        return f"{block_text}, {format_block_time(self.time)}"


class SnapshotAnswer(ApiModel):
    """Base class of a command's answer; `as_of` is the block of the snapshot."""

    as_of: SnapshotTime | None = Field(
        description="Block of the snapshot; null if no block is indexed."
    )


class TaskRequirements(ApiModel):
    """A task and its requirements; a requirement is null if the creator set none."""

    task: HashText
    creator: AddressText | None
    fee: Integer | None = Field(
        description="Fee of the task or, in an entry of the queue, of all its `tasks`, in wei."
    )
    min_vram: int | None = Field(description="Minimum video memory of the GPU, in GB.")
    required_gpu: str | None
    required_gpu_vram: int | None = Field(description="Required video memory of the GPU, in GB.")
    models: tuple[str, ...]
    version: tuple[int, int, int] | None
    size: int | None
    kind: TaskKind | None
    timeout: int | None = Field(description="Time limit of the task, in seconds.")
    group: HashText | None = Field(
        description="Key of the task's group, that is, of the tasks that are validated together."
    )


def build_snapshot_time(snapshot: NetworkSnapshot) -> SnapshotTime:
    """Return the block and time of a snapshot."""
    return SnapshotTime(block=snapshot.block, time=snapshot.time)


def build_requirements(task: Task) -> TaskRequirements:
    requirement_names = TaskRequirements.model_fields.keys() - {"task"}
    return TaskRequirements(
        task=task.key, **{name: getattr(task, name) for name in requirement_names}
    )


class CandidateEntry(ApiModel):
    """A member, and whether it is a candidate for the task."""

    node: AddressText
    candidate: bool
    why_not: str | None = Field(
        description="Why the member is not a candidate; null if it is one.", examples=["busy"]
    )
    weight: Integer | None
    parts: dict[str, str] = Field(description="Factors of the node's weight, by name.")
    chance: FixedPoint | None = Field(
        description="Probability that the node is drawn first; null if it is not a candidate."
    )
    drawn: int | None = Field(
        description=(
            "Position of the node in the order of the draws, from 1; null if it was not drawn."
        )
    )


class DrawnNode(ApiModel):
    """The draw of one node; `x` is the digest modulo the sum of the weights."""

    node: AddressText
    digest: HashText
    x: Integer
    sum: Integer


class DrawnGpu(ApiModel):
    """The group of nodes with one GPU model that a legacy policy draws before the nodes."""

    name: str
    vram: int = Field(description="Video memory of the GPU in GB.")
    digest: HashText
    x: Integer
    sum: Integer


class ScarceModel(ApiModel):
    """A model that few available nodes have, and the nodes that would be asked to download it."""

    model: str
    holders: int
    pending: int = Field(
        description="Number of nodes that were requested to download the model and may do so yet."
    )
    requested_nodes: list[AddressText]


class SelectionFigures(ApiModel):
    """The candidates for a task, the ineligible members, and the drawn nodes."""

    policy: str
    version: int
    rules: str
    changed: dict[str, str] = Field(
        description="Values of the rules and of the policy that differ from the published ones."
    )
    task: TaskRequirements
    sum: Integer = Field(
        description="Sum of the weights of all candidates; their number if all weights are 0."
    )
    candidates: int
    equal_weights: bool = Field(
        description="Whether all weights are 0, so that each candidate counts with weight 1."
    )
    nodes: list[CandidateEntry] = Field(description="All members in the order of their addresses.")
    seed: HashText | None = Field(description="Seed of the draws; null if no node is drawn.")
    gpu: DrawnGpu | None
    draws: list[DrawnNode]
    predownload: list[ScarceModel] | None = Field(
        description=(
            "Models that more nodes should download; null if the policy requests no downloads."
        )
    )


class SelectionResult(SelectionFigures, SnapshotAnswer):
    """The answer of `select`."""


def build_drawn_node(node_draw: NodeDraw) -> DrawnNode:
    """Build the entry for the draw of one node."""
    return DrawnNode(
        node=node_draw.node, digest=node_draw.digest, x=node_draw.x, sum=node_draw.total
    )
