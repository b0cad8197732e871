"""How much a test plays: ten examples of a property in the quick suite, all anywhere else."""

import pytest
from hypothesis import settings

# Loaded by tests/conftest.py for a run that leaves the slow tests out.
QUICK = "quick"
# Where only whether it fails is asked: nobody looks for the smallest example.
UNSHRUNK = "unshrunk"
_MOST = 10


def part_of(count: int) -> int:
    """As many of `count` examples as the quick suite has the time for."""
    return min(count, _MOST)


def is_quick(config: pytest.Config) -> bool:
    """Tell whether slow tests are left out of this run."""
    return "not slow" in config.option.markexpr


def is_bounded(config: pytest.Config) -> bool:
    """Tell whether this is CI's run, or the quick one: nightly tests are left out."""
    return "not nightly" in config.option.markexpr or is_quick(config)


def examples(count: int) -> settings:
    """Decorate a property that plays `count` examples; others play Hypothesis's hundred."""
    is_quick = settings.get_current_profile_name() == QUICK
    return settings(max_examples=part_of(count) if is_quick else count)
