"""How long a node can be excluded from selection (scoring.md 4): what operators set periods by."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.reliability import healed, penalized
from oracle.domain.scoring.rules import Rules

# Healing is complete after this many seconds whatever the rules (scoring.md 1).
_FOREVER = 1 << 21


def longest_exclusion(rules: Rules) -> int:
    """Return the longest exclusion in seconds that one timeout causes; 0: it excludes nobody.

    The node stands just above the line when it times out: nobody lower is given a task.
    """
    base = penalized(min(rules.exclude_enter, UNIT), rules)
    if base >= rules.exclude_enter:
        return 0
    low, high = 0, _FOREVER
    while low < high:
        middle = (low + high) // 2
        if healed(base, 0, middle, rules) < rules.exclude_exit:
            low = middle + 1
        else:
            high = middle
    return low
