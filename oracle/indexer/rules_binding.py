"""Binds a database to one rule set and one period length, which must not be mixed."""

from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.state.rule_set_repository import RuleSet, identify_rules

_RULES_KEY = "folded_by_rules"
# The digest of the configured rules, and of the rules that replaced them.
_SWITCH_KEY = "switched_rules"
# The block at which the rules in `_RULES_KEY` replaced the previous rules.
_REPLACED_AT_KEY = "rules_replaced_at"
_PERIOD_KEY = "period_seconds"
_HASH_PREFIX_DIGITS = 12


def bind_or_check_rules(uow: UnitOfWork, rules: Rules) -> None:
    """Bind an empty database to the rules, or check that it uses them.

    Raises:
        InputError: the stored scores come from other rules, or another version of them.
    """
    if get_bound_rules(uow) is None:
        bind_rules(uow, rules)
    else:
        check_bound_rules(uow, rules)


def check_bound_rules(uow: UnitOfWork, rules: Rules) -> None:
    """Check that the stored scores come from these rules.

    An empty database passes the check.

    Raises:
        InputError: the stored scores come from other rules, or another version of them.
    """
    bound_rules = get_bound_rules(uow)
    configured_rules = identify_rules(rules)
    if bound_rules is None or bound_rules.sha256 == configured_rules.sha256:
        return
    mismatch_text = f"the database was folded with the rules {format_rule_set(bound_rules)}"
    if (
        bound_rules.name == configured_rules.name
        and bound_rules.version != configured_rules.version
    ):
        raise InputError(
            f"{mismatch_text}, but this program has version {configured_rules.version} of these "
            "rules; run `qos-oracle resync rebuild` to refold the stored rows without requests to "
            "the chain"
        )
    raise InputError(
        f"{mismatch_text}, but the configuration has {format_rule_set(configured_rules)}; restore "
        "the previous configuration, or run `qos-oracle resync rebuild`"
    )


def is_folded_with_rules(uow: UnitOfWork, rules: Rules) -> bool:
    """Return whether the stored data was folded with these rules."""
    bound_rules = get_bound_rules(uow)
    return bound_rules is not None and bound_rules.sha256 == identify_rules(rules).sha256


def get_bound_rules(uow: UnitOfWork) -> RuleSet | None:
    """Return the rules with which the stored data was folded, or None without data."""
    name_and_digest = uow.bookmarks.get(_RULES_KEY)
    if name_and_digest is None:
        return None
    name, digest = name_and_digest.rsplit(" ", 1)
    return uow.rule_sets.find_rule_set(digest) or RuleSet(name, None, digest)


def format_rule_set(rules: RuleSet) -> str:
    """Format the name of a rule set with the first digits of its hash."""
    version_suffix = "" if rules.version is None else f" version {rules.version}"
    return f"{rules.name}{version_suffix} ({rules.sha256[:_HASH_PREFIX_DIGITS]})"


def bind_or_check_period(uow: UnitOfWork, period_seconds: int) -> None:
    """Store the length of a period, or check that it has not changed.

    The number of a period is its start time divided by its length
    (docs/explanation/reports.md#cut-at-period-end). With another length, the same numbers would
    refer to other times, so that a new period could seem to have a report already.

    Raises:
        InputError: the length has changed.
    """
    stored_period = uow.bookmarks.get(_PERIOD_KEY)
    if stored_period is None:
        uow.bookmarks.set(_PERIOD_KEY, str(period_seconds))
    elif stored_period != str(period_seconds):
        raise InputError(
            f"oracle.period_seconds: the reports in this database have periods of {stored_period} "
            f"s, not {period_seconds} s; restore the previous value, or start a new database"
        )


def bind_rules(uow: UnitOfWork, rules: Rules, *, block: int = -1) -> None:
    """Record that all stored data was folded with these rules.

    Reports as of `block` or an earlier block were built under the previous rules, if there were
    any.
    """
    if get_bound_rules(uow) is not None and not is_folded_with_rules(uow, rules):
        uow.bookmarks.set(_REPLACED_AT_KEY, block)
    # Rules are stored under a number, because a hash alone does not contain them.
    uow.rule_sets.get_or_assign_number(rules)
    uow.bookmarks.set(_RULES_KEY, f"{rules.name} {identify_rules(rules).sha256}")


def get_rules_replacement_block(uow: UnitOfWork) -> int:
    """Return the block at which other rules were replaced, or -1 if none were.

    A report as of this block or an earlier one was built under other rules and must not be signed.
    """
    replacement_block = uow.bookmarks.get_number(_REPLACED_AT_KEY)
    return -1 if replacement_block is None else replacement_block


def rewind_rules_replacement_block(uow: UnitOfWork, block: int) -> None:
    """Move the recorded block of a rules replacement back to the block of a rewind.

    A lower recorded block is kept. Reports after the block of the rewind are built again, under
    the current rules.
    """
    if get_rules_replacement_block(uow) > block:
        uow.bookmarks.set(_REPLACED_AT_KEY, block)


def record_rules_switch(uow: UnitOfWork, configured_rules: Rules, rules: Rules) -> None:
    """Record that `rules` replaced the configured rules.

    The configuration itself was not changed.
    """
    rule_digests = (identify_rules(configured_rules).sha256, identify_rules(rules).sha256)
    uow.bookmarks.set(_SWITCH_KEY, " ".join(rule_digests))


def clear_rules_switch(uow: UnitOfWork) -> None:
    """Record that the database uses the configured rules again."""
    uow.bookmarks.delete(_SWITCH_KEY)


def find_replacement_rules(uow: UnitOfWork, configured_rules: Rules) -> Rules | None:
    """Return the rules that replaced these configured rules in the database, if any."""
    bound_rules = get_bound_rules(uow)
    digest_pair = uow.bookmarks.get(_SWITCH_KEY)
    if bound_rules is None or digest_pair is None:
        return None
    configured_digest, digest = digest_pair.split()
    if (configured_digest, digest) != (
        identify_rules(configured_rules).sha256,
        bound_rules.sha256,
    ):
        return None
    return uow.rule_sets.find_rules(digest)
