"""Compares the answer times of a node's GPU model with those of other GPU models."""

from pydantic import Field

from oracle.queries.answers import ApiModel, FixedPoint
from oracle.queries.api.gpu_table import Gpu, GpuTable

# Minimum number of groups in which two GPUs must both have taken part to be compared.
MIN_SHARED_GROUPS = 30
# Maximum number of GPUs in the answer. It lists the GPUs that the most members have.
MAX_GPUS = 50


class GpuSpeed(ApiModel):
    """A GPU model of the network, and its answer times compared with those of the node's GPU."""

    name: str
    vram: int | None = Field(description="Video memory in GB; null if it is unknown.")
    nodes: int = Field(description="Number of members with this GPU.")
    is_own: bool = Field(description="Whether the node that this response describes has this GPU.")
    shared_groups: int = Field(
        description=(
            "Number of groups, among the newest 1,000 scored groups of the network, in which this "
            "GPU and the node's GPU both answered; 0 for the node's own GPU."
        )
    )
    time_ratio: FixedPoint | None = Field(
        description=(
            "Median of this GPU's answer time divided by the answer time of the node's GPU, over "
            "all pairs of answers in the shared groups; null if there are fewer than 30 shared "
            "groups, or if this is the node's own GPU."
        )
    )


def list_gpu_speeds(own_gpu: Gpu | None, table: GpuTable) -> list[GpuSpeed]:
    """Return the most frequent GPU models of the network with their relative answer times.

    At most `MAX_GPUS` models are returned, most frequent first.
    """
    sorted_gpus = sorted(
        table.nodes_by_gpu.items(), key=lambda item: (-item[1], item[0].name, item[0].vram or 0)
    )
    return [_build_gpu_speed(gpu, nodes, own_gpu, table) for gpu, nodes in sorted_gpus[:MAX_GPUS]]


def _build_gpu_speed(gpu: Gpu, nodes: int, own_gpu: Gpu | None, table: GpuTable) -> GpuSpeed:
    comparison = None if own_gpu is None else table.comparisons.get((own_gpu, gpu))
    shared_groups = 0 if comparison is None else comparison.shared_groups
    return GpuSpeed(
        name=gpu.name,
        vram=gpu.vram,
        nodes=nodes,
        is_own=gpu == own_gpu,
        shared_groups=shared_groups,
        time_ratio=None
        if comparison is None or shared_groups < MIN_SHARED_GROUPS
        else comparison.time_ratio,
    )
