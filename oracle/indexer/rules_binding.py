"""Which rules folded what is stored, and how long its periods are: a database never mixes two."""

from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.state.rule_set_repository import RuleSet, named_by

_NAME = "folded_by_rules"
_PERIOD = "period_seconds"
# Of a hash, where people compare two.
_DIGITS = 12


def check_rules(uow: UnitOfWork, rules: Rules) -> None:
    """Write down whose scores these are going to be, or check that they are ours.

    Raises:
        InputError: the stored scores were folded by other rules, or by another version of them.
    """
    if folded_by(uow) is None:
        bind_rules(uow, rules)
    else:
        refuse_other_rules(uow, rules)


def refuse_other_rules(uow: UnitOfWork, rules: Rules) -> None:
    """Let nobody look through these rules at what others folded; an empty database is anybody's.

    Raises:
        InputError: the stored scores were folded by other rules, or by another version of them.
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
    """Tell whether what is stored was folded by these rules, so that they may read it."""
    known = folded_by(uow)
    return known is not None and known.sha256 == named_by(rules).sha256


def folded_by(uow: UnitOfWork) -> RuleSet | None:
    """Return the rules that everything stored was folded by; None: nothing is yet."""
    sign = uow.bookmarks.get(_NAME)
    if sign is None:
        return None
    name, digest = sign.rsplit(" ", 1)
    return uow.rule_sets.named(digest) or RuleSet(name, None, digest)


def shown(rules: RuleSet) -> str:
    """Name a rule set for people: its changes show in the first digits of its hash."""
    version = "" if rules.version is None else f" version {rules.version}"
    return f"{rules.name}{version} ({rules.sha256[:_DIGITS]})"


def check_period(uow: UnitOfWork, seconds: int) -> None:
    """Write down how long a period is, or check that it is as long as it was.

    The number of a period is its start over its length
    (docs/explanation/reports.md#cut-at-period-end): with another length the same numbers would
    mean other times, and reports would be taken for cut already.

    Raises:
        InputError: it is not.
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
    """Write down that everything stored is folded by these rules from now on."""
    # Named by its number, the rule set can be read back whole.
    uow.rule_sets.number_of(rules)
    uow.bookmarks.set(_NAME, f"{rules.name} {named_by(rules).sha256}")
