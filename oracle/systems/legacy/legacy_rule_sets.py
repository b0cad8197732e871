"""The legacy system's rule set, as far as it was published.

See docs/explanation/legacy.md, docs/explanation/crynux.md#weighted-sum-of-scores.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

# The published values (docs/reference/sources.md#crynux-qos-of-2024 and its figure), in the JSON
# form of `Rules`. H has no effect: timeouts and successes do not change it, and no node is
# excluded.
BASE_RULES: Mapping[str, Any] = MappingProxyType({
    "name": "legacy",
    "version": 2,
    # By position in a round (figure "round score"); the maximum of two rounds is 20.
    "rank_scores": [10, 5, 2],
    "absent_score": 0,
    "q_max": 20,
    # Three nodes share a task.
    "group_size": 3,
    # A node without a task in the window has no speed score; the missing score counts as 0.
    "new_node_long_term": "0",
    "penalty": "1",
    "boost": "0",
    # Every value but `window_seconds` (default: the calendar month) must be given.
    "legacy": {},
})  # fmt: skip
