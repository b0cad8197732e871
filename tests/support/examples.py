"""The number of Hypothesis examples: five in the quick suite, 15 in CI, all in the night."""

import pytest
from hypothesis import settings

# Loaded by tests/conftest.py for a run without the slow tests or without the nightly ones.
QUICK, BOUNDED = "quick", "bounded"
# For runs that only need to know whether a test fails: no search for the smallest example.
UNSHRUNK = "unshrunk"
MOST = {QUICK: 5, BOUNDED: 15}


def is_quick(config: pytest.Config) -> bool:
    """Return whether this run omits slow tests."""
    return "not slow" in config.option.markexpr


def is_bounded(config: pytest.Config) -> bool:
    """Return whether this run omits nightly tests, as CI and the quick suite do."""
    return "not nightly" in config.option.markexpr or is_quick(config)


def examples(count: int, *, in_ci: int | None = None) -> settings:
    """Return the settings of a property with `count` examples.

    Hypothesis's default is a hundred. `in_ci` is for examples that take seconds each: the number
    in CI.
    """
    profile = settings.get_current_profile_name()
    max_examples = in_ci if in_ci and profile in MOST else MOST.get(profile, count)
    return settings(max_examples=min(count, max_examples))
