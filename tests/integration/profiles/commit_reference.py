"""The legacy scores of a network with commit and disclosure, from its driver's ledger.

The sums are those of `tests.unit.systems.legacy.reference`, which has no cancellations.
"""

from typing import Any

from tests.unit.systems.legacy.reference import Reference

Line = dict[str, Any]

# In units of 10^-18, as in the settings of the rule set.
SETTINGS = {
    "vram_weight": 25 * 10**16,
    "timeout_weight": 25 * 10**16,
    "speed_weight": 5 * 10**17,
    "least_timeout_seconds": 60,
    "kickout_below": 7 * 10**18,
    "kickout_tasks": 3,
    "window_seconds": None,
}
# None of these affects a score.
_SILENT = {"node_paused", "node_resumed", "task_created", "task_validated", "task_aborted"}


def reference_of(lines: list[Line]) -> Reference:
    """Apply the ledger's lines in order."""
    reference = Reference(SETTINGS)
    for line in lines:
        # A cancellation without a node accompanies those of the runs, or ends a task that
        # never started.
        of_nobody = line["type"] == "task_cancelled" and "node" not in line
        if line["type"] not in _SILENT and not of_nobody:
            reference.read(line)
    return reference
