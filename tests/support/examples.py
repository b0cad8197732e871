"""How much a test plays: ten examples of a property in the quick suite, 25 in CI, then all."""

import pytest
from hypothesis import settings

# Loaded by tests/conftest.py for a run that leaves the slow tests out, or the nightly ones.
QUICK, BOUNDED = "quick", "bounded"
# Where only whether it fails is asked: nobody looks for the smallest example.
UNSHRUNK = "unshrunk"
MOST = {QUICK: 10, BOUNDED: 25}


def is_quick(config: pytest.Config) -> bool:
    """Tell whether slow tests are left out of this run."""
    return "not slow" in config.option.markexpr


def is_bounded(config: pytest.Config) -> bool:
    """Tell whether this is CI's run, or the quick one: nightly tests are left out."""
    return "not nightly" in config.option.markexpr or is_quick(config)


def examples(count: int) -> settings:
    """Decorate a property that plays `count` examples; others play Hypothesis's hundred."""
    max_examples = MOST.get(settings.get_current_profile_name(), count)
    return settings(max_examples=min(count, max_examples))
