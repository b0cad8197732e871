"""The legacy scores of a commit/disclose network by the truth of its driver; nothing of ours.

The sums are those of `tests.unit.systems.legacy.reference`, which knows no cancellations.
"""

from typing import Any

from tests.unit.systems.legacy.reference import Reference

Line = dict[str, Any]

# 10^-18 is 1 here, as in the settings of the rule set.
SETTINGS = {
    "vram_weight": 25 * 10**16,
    "timeout_weight": 25 * 10**16,
    "speed_weight": 5 * 10**17,
    "least_timeout_seconds": 60,
    "kickout_below": 7 * 10**18,
    "kickout_tasks": 3,
    "window_seconds": None,
}
# Nothing of these is in a score.
_SILENT = {"node_paused", "node_resumed", "task_created", "task_validated", "task_aborted"}


def reference_of(lines: list[Line]) -> Reference:
    """Read the ledger's lines, in their order."""
    reference = Reference(SETTINGS)
    for line in lines:
        # A cancellation without a node stands beside those of the parts, or ends what never began.
        of_nobody = line["type"] == "task_cancelled" and "node" not in line
        if line["type"] not in _SILENT and not of_nobody:
            reference.read(line)
    return reference
