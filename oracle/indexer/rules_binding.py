"""Binds a database to its scoring rules and period length, which must never be mixed."""

from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.state.rule_set_repository import RuleSet, named_by

_NAME = "folded_by_rules"
_PERIOD = "period_seconds"
# Digits of a hash that people compare.
_DIGITS = 12


def check_rules(uow: UnitOfWork, rules: Rules) -> None:
    """Bind an empty database to the rules, or check that it is bound to them.

    Raises:
        InputError: the stored scores come from other rules, or another version of them.
    """
    if folded_by(uow) is None:
        bind_rules(uow, rules)
    else:
        refuse_other_rules(uow, rules)


def refuse_other_rules(uow: UnitOfWork, rules: Rules) -> None:
    """Check that stored scores come from these rules; an empty database passes.

    Raises:
        InputError: the stored scores come from other rules, or another version of them.
    """
    known, ours = folded_by(uow), named_by(rules)
    if known is None or known.sha256 == ours.sha256:
        return
    told = f"the database was folded by the rules {shown(known)}"
    if known.name == ours.name and known.version != ours.version:
        raise InputError(
            f"{told}, and this program scores by version {ours.version} of them: "
            "`qos-oracle resync rebuild` folds anew what is stored, without asking the chain"
        )
    raise InputError(
        f"{told}, and the configuration says {shown(ours)}: put the configuration back, or run "
        "`qos-oracle resync rebuild`"
    )


def is_folded_by(uow: UnitOfWork, rules: Rules) -> bool:
    """Return whether the stored data was folded with these rules."""
    known = folded_by(uow)
    return known is not None and known.sha256 == named_by(rules).sha256


def folded_by(uow: UnitOfWork) -> RuleSet | None:
    """Return the rules that the stored data was folded with, or None if there is none yet."""
    sign = uow.bookmarks.get(_NAME)
    if sign is None:
        return None
    name, digest = sign.rsplit(" ", 1)
    return uow.rule_sets.named(digest) or RuleSet(name, None, digest)


def shown(rules: RuleSet) -> str:
    """Return a readable name of a rule set, with the first digits of its hash."""
    version = "" if rules.version is None else f" version {rules.version}"
    return f"{rules.name}{version} ({rules.sha256[:_DIGITS]})"


def check_period(uow: UnitOfWork, seconds: int) -> None:
    """Store the length of a period, or check that it is unchanged.

    The number of a period is its start over its length
    (docs/explanation/reports.md#cut-at-period-end): with another length the same numbers would
    mean other times, and new reports would count as already cut.

    Raises:
        InputError: the length has changed.
    """
    known = uow.bookmarks.get(_PERIOD)
    if known is None:
        uow.bookmarks.set(_PERIOD, str(seconds))
    elif known != str(seconds):
        raise InputError(
            f"oracle.period_seconds: the reports of this database are of {known} s each, not of "
            f"{seconds} s: put the configuration back, or start a new database"
        )


def bind_rules(uow: UnitOfWork, rules: Rules) -> None:
    """Record that all stored data is folded with these rules from now on."""
    # Stored with a number, the rule set can be read back completely.
    uow.rule_sets.number_of(rules)
    uow.bookmarks.set(_NAME, f"{rules.name} {named_by(rules).sha256}")
