"""The requirements of a task, and all reasons why a node cannot get it."""

from enum import StrEnum
from typing import NamedTuple

from oracle.domain.events.network_events import Version
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, Task


class IneligibilityReason(StrEnum):
    """The reason why a node is not a candidate.

    If several reasons apply, the first in this list counts.
    """

    NO_MEMBER = "no_member"
    PAUSED = "paused"
    BUSY = "busy"
    # The node's reliability (H) is below the rules' threshold
    # (docs/reference/scoring-rules.md#reliability).
    EXCLUDED = "excluded"
    # The node was drawn for another task, or already got another task of the same group.
    TAKEN = "taken"
    # The task requires a particular GPU, but the node's GPU is unknown.
    GPU_UNKNOWN = "gpu_unknown"
    GPU_NAME = "gpu_name"
    VRAM_UNKNOWN = "vram_unknown"
    # The node's GPU has a different amount of video memory than the required one.
    GPU_VRAM = "gpu_vram"
    VRAM_TOO_SMALL = "vram_too_small"
    VERSION_UNKNOWN = "version_unknown"
    VERSION = "version"
    # Another node has all required models on disk, or the policy always requires them.
    MODELS_NOT_ON_DISK = "models_not_on_disk"


class Requirement(NamedTuple):
    """The properties of a task that determine which nodes fit.

    If `gpu` is None, any GPU with at least `vram` GB fits, and 0 means no minimum. Otherwise only
    this GPU model fits, with exactly `vram` GB, and 0 means that the task does not state the
    memory. `models` is sorted and has no duplicates.
    """

    gpu: str | None
    vram: int
    version: Version | None
    models: tuple[str, ...]


def build_requirement(task: Task) -> Requirement:
    """Build the requirement of a task.

    Unknown fields of the task add no constraint.
    """
    models = tuple(sorted(set(task.models)))
    if task.required_gpu:
        return Requirement(task.required_gpu, task.required_gpu_vram or 0, task.version, models)
    return Requirement(None, task.min_vram or 0, task.version, models)


def find_unavailability_reason(node: Node, time: int, rules: Rules) -> IneligibilityReason | None:
    """Return why a node cannot get any task at a block time, or None if it can."""
    if node.membership is not Membership.MEMBER:
        return IneligibilityReason.NO_MEMBER
    if node.paused:
        return IneligibilityReason.PAUSED
    if node.running:
        return IneligibilityReason.BUSY
    return IneligibilityReason.EXCLUDED if is_excluded(node, time, rules) else None


def find_misfit_reason(node: Node, requirement: Requirement) -> IneligibilityReason | None:
    """Return why a node's hardware or version does not fit, or None if both fit.

    Models are not checked.

    The name and the video memory of a required GPU must match exactly. If no GPU is required, the
    node needs at least the task's video memory (docs/reference/sources.md#crynux-dispatching,
    Candidate Pool).
    """
    hardware_reason = (
        _find_gpu_misfit_reason(node, requirement)
        if requirement.gpu is not None
        else _find_memory_misfit_reason(node, requirement.vram)
    )
    return hardware_reason or _find_version_misfit_reason(node.version, requirement.version)


def _find_gpu_misfit_reason(node: Node, requirement: Requirement) -> IneligibilityReason | None:
    if node.gpu_name is None:
        return IneligibilityReason.GPU_UNKNOWN
    if node.gpu_name != requirement.gpu:
        return IneligibilityReason.GPU_NAME
    if not requirement.vram or node.gpu_vram == requirement.vram:
        return None
    if node.gpu_vram is None:
        return IneligibilityReason.VRAM_UNKNOWN
    return IneligibilityReason.GPU_VRAM


def _find_memory_misfit_reason(node: Node, min_vram: int) -> IneligibilityReason | None:
    if not min_vram:
        return None
    if node.gpu_vram is None:
        return IneligibilityReason.VRAM_UNKNOWN
    return IneligibilityReason.VRAM_TOO_SMALL if node.gpu_vram < min_vram else None


def _find_version_misfit_reason(
    version: Version | None, required_version: Version | None
) -> IneligibilityReason | None:
    """Return why a node's version does not fit, or None if it fits.

    The major version must be equal, and (minor, patch) must not be lower. See
    docs/reference/scoring-rules.md#selection-weight.
    """
    if required_version is None:
        return None
    if version is None:
        return IneligibilityReason.VERSION_UNKNOWN
    is_compatible = version[0] == required_version[0] and version[1:] >= required_version[1:]
    return None if is_compatible else IneligibilityReason.VERSION
