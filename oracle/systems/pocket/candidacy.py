"""Who is a candidate for a task at all: free, and with the hardware that the task asks for.

Pocket takes a session's nodes as they come; GPU, memory and version are scoring.md 7's terms.
"""

from oracle.domain.nodes import Node
from oracle.domain.tasks import Task
from oracle.domain.views import status_of
from oracle.systems.policy import Scene


def why_out(node: Node, task: Task, scene: Scene) -> str | None:
    """Return why a member cannot have the task, None where it can."""
    status = status_of(node)
    if status != "available":
        return status
    if node.address in scene.taken:
        return "taken"
    return _unfit(node, task)


def _unfit(node: Node, task: Task) -> str | None:
    if task.required_gpu:
        wanted = (task.required_gpu, task.required_gpu_vram or 0)
        if (node.gpu_name, node.gpu_vram or 0) != wanted:
            return "gpu"
    elif task.min_vram is not None and (node.gpu_vram or 0) < task.min_vram:
        return "vram"
    if task.version is None or node.version is None:
        return None
    same_major = node.version[0] == task.version[0]
    return None if same_major and node.version[1:] >= task.version[1:] else "version"
