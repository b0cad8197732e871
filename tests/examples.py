"""How many examples a property plays: a part of them in the quick suite, all anywhere else."""

from hypothesis import settings

# Loaded by tests/conftest.py for a run that leaves the slow tests out.
QUICK = "quick"
_PART = 4
_FEWEST = 5


def part_of(count: int) -> int:
    """As many of `count` examples as the quick suite has the time for."""
    return min(count, max(_FEWEST, count // _PART))


def examples(count: int) -> settings:
    """Decorate a property that plays `count` examples; others play Hypothesis's hundred."""
    is_quick = settings.get_current_profile_name() == QUICK
    return settings(max_examples=part_of(count) if is_quick else count)
