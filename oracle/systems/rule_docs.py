"""What each rule means, in a line for whoever has to choose its value; with its source.

The pages are those of docs/reference/sources.md; `relay` is Crynux's production relay.
"""

from collections.abc import Mapping
from types import MappingProxyType

# Lengths of time in seconds, fractions of 1.
MEANINGS: Mapping[str, str] = MappingProxyType({
    "close": "when a group is scored: where the chain says it, or when all ended (ours)",
    "group_size": "tasks of a group that is closed by counting (QoS)",
    "rank_scores": "score by rank, the last one for all below (QoS, Task Score)",
    "absent_score": "score of a member without a result (QoS, Task Score)",
    "pool_zero_only_on_timeout": "that score counts only for who timed out (relay)",
    "creator_timeout_rejects_group": "the creator judged nothing in time: nobody scores (relay)",
    "error_rank": "error reports rank last (ours), or as_reported: by their time (relay)",
    "ranked_answers": "answers that rank: all (relay), or right: as its verdict says (ours)",
    "least_timeout_seconds": "a task's limit below it costs no node anything (ours)",
    "q_max": "the best score that a mean is measured by (QoS)",
    "pool_size": "task scores that count, the newest (QoS)",
    "new_node_long_term": "long-term score of an empty pool (QoS, Node QoS Score)",
    "zero_mean_is_new": "a mean of 0 counts as an empty pool (relay)",
    "rejoin_floor": "a node that re-joins below it starts anew with it (relay)",
    "kickout_starts_anew": "who was kicked out while due starts anew as it re-joins (ours)",
    "rejoin_heals": "every join sets reliability to 1 (QoS, relay)",
    "reseed_copies": "copies of the mean that a lost pool becomes (relay)",
    "restarts": "block times at which all pools were lost (relay)",
    "tau_seconds": "how slowly reliability heals (QoS, Short-term Reliability Factor)",
    "penalty": "what a timeout multiplies reliability by (QoS)",
    "first_penalty": "the same, for who was at first_penalty_from or above (relay)",
    "first_penalty_from": "reliability from which the lighter penalty holds (relay)",
    "boost": "what a success adds to reliability (QoS)",
    "exclude_enter": "excluded below this reliability (QoS, Hard Exclusion)",
    "exclude_exit": "excluded until this reliability (relay; QoS: the same)",
    "kickout_below": "kickout is due while a full pool's mean is below it (QoS, Kickout)",
    "kick_creator_share": "more from one creator: a person proposes the kickout (ours)",
    "legacy.vram_weight": "how much the size of VRAM counts, a (QoS 2024)",
    "legacy.timeout_weight": "how much the timeout setting counts, b (QoS 2024)",
    "legacy.speed_weight": "how much the speed of submission counts, c (QoS 2024)",
    "legacy.least_timeout_seconds": "the shortest timeout that a node may set (QoS 2024)",
    "legacy.kickout_below": "kickout is due below this node score, of 20 (QoS 2024)",
    "legacy.kickout_tasks": "tasks that the window must hold for that (QoS 2024)",
    "legacy.window_seconds": "length of a window; none: the calendar month (QoS 2024)",
})  # fmt: skip
