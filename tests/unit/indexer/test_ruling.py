"""A database is folded by one rule set; another one is refused until everything is folded anew."""

import re
from dataclasses import replace

import pytest

from oracle.errors import InputError
from oracle.indexer.rules_binding import (
    bind_rules,
    check_period,
    check_rules,
    folded_by,
    is_folded_by,
    refuse_other_rules,
    shown,
)
from oracle.store.database import Store
from oracle.store.state.rule_set_repository import named_by
from oracle.systems.crynux.crynux_rule_sets import RELAY, SEED


def test_the_rules_that_folded_first_are_the_rules_that_may_fold_on(store: Store):
    with store.transaction() as uow:
        check_rules(uow, SEED)
        check_rules(uow, SEED)


@pytest.mark.parametrize("other", [RELAY, replace(SEED, close="terminal")])
def test_other_rules_are_refused_with_what_to_do(store: Store, other):
    with store.transaction() as uow:
        check_rules(uow, SEED)
        with pytest.raises(InputError, match=r"folded by the rules seed.*resync rebuild"):
            check_rules(uow, other)


def test_the_refusal_names_both(store: Store):
    with store.transaction() as uow:
        check_rules(uow, SEED)
        changed = replace(SEED, tau_seconds=900)
        theirs, ours = shown(named_by(changed)), shown(named_by(SEED))
        assert theirs != ours
        said = re.escape(f"by the rules {ours}, and the configuration says {theirs}:")
        with pytest.raises(InputError, match=said):
            refuse_other_rules(uow, changed)


def test_an_empty_database_may_be_read_by_any_rules(store: Store):
    with store.reading() as uow:
        refuse_other_rules(uow, RELAY)
        assert folded_by(uow) is None
        assert not is_folded_by(uow, RELAY)


def test_a_database_knows_who_folded_it(store: Store):
    with store.transaction() as uow:
        check_rules(uow, RELAY)
        assert folded_by(uow) == named_by(RELAY)
        assert is_folded_by(uow, RELAY)
        assert not is_folded_by(uow, SEED)


def test_after_folding_anew_the_new_rules_may_go_on(store: Store):
    with store.transaction() as uow:
        check_rules(uow, SEED)
        bind_rules(uow, RELAY)
        check_rules(uow, RELAY)


def test_the_length_of_a_period_stays_what_it_was(store: Store):
    with store.transaction() as uow:
        check_period(uow, 60)
        check_period(uow, 60)
        with pytest.raises(InputError, match="of 60 s each, not of 120 s"):
            check_period(uow, 120)
