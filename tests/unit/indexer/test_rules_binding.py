"""A database is folded with one rule set; a different one needs a new fold of everything."""

import json
import re
from dataclasses import replace
from hashlib import sha256

import pytest
from sqlalchemy import insert

from oracle.errors import InputError
from oracle.indexer.rules_binding import (
    bind_or_check_period,
    bind_or_check_rules,
    bind_rules,
    check_bound_rules,
    format_rule_set,
    get_bound_rules,
    is_folded_with_rules,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.rule_set_repository import RuleSet, identify_rules
from oracle.store.tables.selection_tables import rule_set
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY


def test_rules_that_are_already_bound_are_accepted(store: Store):
    with store.transaction() as uow:
        bind_or_check_rules(uow, CRYNUX)
        bind_or_check_rules(uow, CRYNUX)
        assert get_bound_rules(uow) == identify_rules(CRYNUX)


@pytest.mark.parametrize("other", [RELAY, replace(CRYNUX, close="terminal")])
def test_different_rules_are_rejected_with_a_remedy(store: Store, other):
    with store.transaction() as uow:
        bind_or_check_rules(uow, CRYNUX)
        with pytest.raises(InputError, match=r"folded with the rules crynux.*resync rebuild"):
            bind_or_check_rules(uow, other)


def test_error_for_other_rules_names_both_rule_sets(store: Store):
    with store.transaction() as uow:
        bind_or_check_rules(uow, CRYNUX)
        changed = replace(CRYNUX, tau_seconds=900)
        configured_text = format_rule_set(identify_rules(changed))
        bound_text = format_rule_set(identify_rules(CRYNUX))
        assert configured_text != bound_text
        message_pattern = re.escape(
            f"with the rules {bound_text}, but the configuration has {configured_text};"
        )
        with pytest.raises(InputError, match=message_pattern):
            check_bound_rules(uow, changed)


# An early form of `crynux`, whose `kickout_below` was an integer.
SEED_1 = {
    "name": "crynux",
    "version": 1,
    "kickout_below": 2,
    "kickout_clears_pool": True,
    "penalty": "0.3",
    "tau_seconds": 1800,
}


def folded_by_version_1(uow: UnitOfWork) -> RuleSet:
    text = json.dumps(SEED_1, sort_keys=True, separators=(",", ":"))
    digest = sha256(text.encode())
    old_rule_set = RuleSet("crynux", 1, digest.hexdigest())
    row = {"id": 1, "name": "crynux", "version": 1, "sha256": digest.digest(), "text": text}
    uow.rule_sets._connection.execute(insert(rule_set).values(**row))
    uow.bookmarks.set("folded_by_rules", f"crynux {old_rule_set.sha256}")
    return old_rule_set


def test_database_of_version_1_is_rejected_with_rebuild_hint(store: Store):
    with store.transaction() as uow:
        old_rule_set = folded_by_version_1(uow)
        assert get_bound_rules(uow) == old_rule_set
        # Its text has other fields, so it cannot be mistaken for current rules.
        assert uow.rule_sets.find_rules(old_rule_set.sha256) is None
        with pytest.raises(InputError) as refused:
            check_bound_rules(uow, CRYNUX)
    assert str(refused.value) == (
        f"the database was folded with the rules {format_rule_set(old_rule_set)}, "
        "but this program has "
        f"version {CRYNUX.version} of these rules; run `qos-oracle resync rebuild` to refold the "
        "stored rows without requests to the chain"
    )
    assert format_rule_set(old_rule_set).startswith("crynux version 1 (")


def test_rebuild_rebinds_database_of_version_1_to_current_rules(store: Store):
    with store.transaction() as uow:
        folded_by_version_1(uow)
        bind_rules(uow, CRYNUX)
        check_bound_rules(uow, CRYNUX)
        assert [stored_rule_set.version for stored_rule_set in uow.rule_sets.list_all()] == [
            1,
            CRYNUX.version,
        ]


def test_empty_database_accepts_any_rules(store: Store):
    with store.read_transaction() as uow:
        check_bound_rules(uow, RELAY)
        assert get_bound_rules(uow) is None
        assert not is_folded_with_rules(uow, RELAY)


def test_database_stores_the_rules_of_its_fold(store: Store):
    with store.transaction() as uow:
        bind_or_check_rules(uow, RELAY)
        assert get_bound_rules(uow) == identify_rules(RELAY)
        assert is_folded_with_rules(uow, RELAY)
        assert not is_folded_with_rules(uow, CRYNUX)


def test_rebuild_allows_new_rules(store: Store):
    with store.transaction() as uow:
        bind_or_check_rules(uow, CRYNUX)
        bind_rules(uow, RELAY)
        bind_or_check_rules(uow, RELAY)
        assert get_bound_rules(uow) == identify_rules(RELAY)


def test_changed_report_period_is_rejected(store: Store):
    with store.transaction() as uow:
        bind_or_check_period(uow, 60)
        bind_or_check_period(uow, 60)
        with pytest.raises(InputError, match="periods of 60 s, not 120 s"):
            bind_or_check_period(uow, 120)
