"""Which rules folded what is stored: a database never mixes the scores of two rule sets."""

import hashlib

from oracle.domain.rules import Rules
from oracle.errors import InputError
from oracle.store.store import Unit

_NAME = "folded_by_rules"


def check_rules(unit: Unit, rules: Rules) -> None:
    """Write down whose scores these are going to be, or check that they are ours.

    Raises:
        InputError: the stored scores were folded by other rules, or by another version of them.
    """
    known = unit.progress.get(_NAME)
    if known is None:
        adopt_rules(unit, rules)
    elif known != _sign_of(rules):
        raise InputError(
            f"the database was folded by the rules {known.split()[0]}, with other numbers than "
            f"the configured {rules.name}: put the configuration back, or run "
            "`qos-oracle resync refold`"
        )


def adopt_rules(unit: Unit, rules: Rules) -> None:
    """Write down that everything stored is folded by these rules from now on."""
    unit.progress.set(_NAME, _sign_of(rules))


def _sign_of(rules: Rules) -> str:
    return f"{rules.name} {hashlib.sha256(rules.to_json().encode()).hexdigest()}"
