"""What each rule means, in a line for whoever has to choose its value; with its source."""

from collections.abc import Mapping
from types import MappingProxyType

# Lengths of time in seconds, fractions of 1.
MEANINGS: Mapping[str, str] = MappingProxyType({
    "close": "when a group is scored: where the chain says so, or when all have ended (002)",
    "group_size": "tasks of a group that is closed by counting (000)",
    "rank_scores": "score by rank, the last one for all below (000, Task Score)",
    "absent_score": "score of a member without a result (000, Task Score)",
    "pool_zero_only_on_timeout": "that score counts only for who timed out (relay)",
    "creator_timeout_rejects_group": "the creator judged nothing in time: nobody scores (relay)",
    "q_max": "the best score that a mean is measured by (000)",
    "pool_size": "task scores that count, the newest (000)",
    "new_node_long_term": "long-term score of an empty pool (000, Node QoS Score)",
    "zero_mean_is_new": "a mean of 0 counts as an empty pool (relay)",
    "rejoin_floor": "a node that re-joins below it starts anew with it (relay)",
    "kickout_clears_pool": "who was kicked out re-joins with an empty pool (scoring.md 5)",
    "reseed_copies": "copies of the mean that a lost pool becomes (relay)",
    "restarts": "block times at which all pools were lost (relay)",
    "tau_seconds": "how slowly reliability heals (000, Short-term Reliability Factor)",
    "penalty": "what a timeout multiplies reliability by (000)",
    "first_penalty": "the same, for who was at first_penalty_from or above (relay)",
    "first_penalty_from": "reliability from which the lighter penalty holds (relay)",
    "boost": "what a success adds to reliability (000)",
    "exclude_enter": "excluded below this reliability (000, Hard Exclusion)",
    "exclude_exit": "excluded until this reliability (relay; 000: the same)",
    "kickout_below": "kickout is due while a full pool's mean is below it (000, Kickout)",
    "legacy.vram_weight": "how much the size of VRAM counts, a (001)",
    "legacy.timeout_weight": "how much the timeout setting counts, b (001)",
    "legacy.speed_weight": "how much the speed of submission counts, c (001)",
    "legacy.least_timeout_seconds": "the shortest timeout that a node may set (001)",
    "legacy.kickout_below": "kickout is due below this node score, of 20 (001)",
    "legacy.kickout_tasks": "tasks that the window must hold for that (001)",
    "legacy.window_seconds": "length of a window; none: the calendar month (001)",
})  # fmt: skip
