"""Who is a candidate for a task at all: free, and with the hardware that the task asks for.

Pocket takes the nodes of a session as they come; hardware is scoring.md 7's term. Exclusion by H
is not Pocket's: it knows failure by its own flag.
"""

from oracle.domain.state.node import Node
from oracle.systems.crynux.requirements import Out, Requirement, misfit
from oracle.systems.policy import PolicyInput


def why_out(node: Node, wanted: Requirement, scene: PolicyInput) -> Out | None:
    """Return why a member cannot have the task, None where it can."""
    if node.paused:
        return Out.PAUSED
    if node.running:
        return Out.BUSY
    if node.address in scene.taken:
        return Out.TAKEN
    return misfit(node, wanted)
