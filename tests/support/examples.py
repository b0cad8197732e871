"""The number of Hypothesis examples: ten in the quick suite, 25 in CI, all in the night."""

import pytest
from hypothesis import settings

# Loaded by tests/conftest.py for a run without the slow tests or without the nightly ones.
QUICK, BOUNDED = "quick", "bounded"
# For runs that only need to know whether a test fails: no search for the smallest example.
UNSHRUNK = "unshrunk"
MOST = {QUICK: 10, BOUNDED: 25}


def is_quick(config: pytest.Config) -> bool:
    """Return whether this run omits slow tests."""
    return "not slow" in config.option.markexpr


def is_bounded(config: pytest.Config) -> bool:
    """Return whether this run omits nightly tests, as CI and the quick suite do."""
    return "not nightly" in config.option.markexpr or is_quick(config)


def examples(count: int) -> settings:
    """Return the settings of a property with `count` examples.

    Hypothesis's default is a hundred.
    """
    max_examples = MOST.get(settings.get_current_profile_name(), count)
    return settings(max_examples=min(count, max_examples))
