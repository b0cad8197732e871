"""Every system by name: its rule set and its policy. Adding one touches this folder alone."""

from oracle.domain.rules import Rules
from oracle.systems.crynux.rule_sets import RELAY, SEED

_NAMED = {rules.name: rules for rules in (SEED, RELAY)}


def rules_named(name: str) -> Rules:
    """Return a built-in rule set.

    Raises:
        ValueError: there is none of that name; the message lists those there are.
    """
    if name not in _NAMED:
        raise ValueError(f"no rule set {name!r} (there is {', '.join(_NAMED)})")
    return _NAMED[name]
