"""Which rules folded what is stored, and how long its periods are: a database never mixes two."""

import hashlib

from oracle.domain.rules import Rules
from oracle.errors import InputError
from oracle.store.store import Unit

_NAME = "folded_by_rules"
_PERIOD = "period_seconds"


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


def check_period(unit: Unit, seconds: int) -> None:
    """Write down how long a period is, or check that it is as long as it was.

    The number of a period is its start over its length (decision 8): with another length the
    same numbers would mean other times, and reports would be taken for cut already.

    Raises:
        InputError: it is not.
    """
    known = unit.progress.get(_PERIOD)
    if known is None:
        unit.progress.set(_PERIOD, str(seconds))
    elif known != str(seconds):
        raise InputError(
            f"oracle.period_seconds: the reports of this database are of {known} s each, not of "
            f"{seconds} s: put the configuration back, or start a new database"
        )


def adopt_rules(unit: Unit, rules: Rules) -> None:
    """Write down that everything stored is folded by these rules from now on."""
    unit.progress.set(_NAME, _sign_of(rules))


def _sign_of(rules: Rules) -> str:
    return f"{rules.name} {hashlib.sha256(rules.to_json().encode()).hexdigest()}"
