"""Every score names its rules, whatever number they have in this database."""

from dataclasses import replace

from oracle.domain.fold.fold import Fold
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.histories import History, make_node_address

OTHER = replace(CRYNUX, tau_seconds=900)


def fold(uow: UnitOfWork, rules=CRYNUX) -> None:
    """Fold two scores of A, and one score of a node that was faster once, with these rules."""
    folding = Fold(rules)
    folding.fold_events(History().joins("A").scores("A", 10, 5).events)
    uow.write_changes(folding.drain_changes(), uow.rule_sets.get_or_assign_number(rules))


def test_rule_set_has_unique_number(store: Store):
    with store.transaction() as uow:
        numbers = [
            uow.rule_sets.get_or_assign_number(rules) for rules in (CRYNUX, RELAY, OTHER, CRYNUX)
        ]
        assert numbers == [1, 2, 3, 1]
        assert uow.rule_sets.list_all() == [
            identify_rules(CRYNUX),
            identify_rules(RELAY),
            identify_rules(OTHER),
        ]


def test_rule_set_round_trips(store: Store):
    with store.transaction() as uow:
        uow.rule_sets.get_or_assign_number(OTHER)
        assert uow.rule_sets.find_rules(identify_rules(OTHER).sha256) == OTHER
        assert uow.rule_sets.find_rules(identify_rules(RELAY).sha256) is None


def test_score_refers_to_its_rule_set(store: Store):
    with store.transaction() as uow:
        uow.rule_sets.get_or_assign_number(CRYNUX)
        fold(uow, OTHER)
        rule_set_by_score = uow.scores.get_rule_set_by_seq(make_node_address("A"), [1, 2])
        assert rule_set_by_score == {1: identify_rules(OTHER), 2: identify_rules(OTHER)}
        assert uow.scores.get_rule_set_by_seq(make_node_address("A"), [2]) == {
            2: identify_rules(OTHER)
        }
        assert uow.scores.get_rule_set_by_seq(make_node_address("A"), []) == {}


def test_dump_does_not_depend_on_rule_set_numbers(store: Store):
    dumps = []
    with store.transaction() as uow:
        fold(uow)
        dumps.append(list(uow.projections.iterate_dump_lines()))
        uow.projections.clear()
        uow.rule_sets.get_or_assign_number(RELAY)
        fold(uow, OTHER)
        dumps.append(list(uow.projections.iterate_dump_lines()))
        uow.projections.clear()
        fold(uow)
        dumps.append(list(uow.projections.iterate_dump_lines()))
    assert dumps[0] == dumps[2]
    scores = [[line for line in dump if line.startswith("score ")] for dump in dumps]
    assert len(scores[0]) == len(scores[1]) == 3
    assert not set(scores[0]) & set(scores[1])


def test_rule_sets_survive_clearing_projections(store: Store):
    with store.transaction() as uow:
        fold(uow)
        uow.projections.clear()
        assert uow.rule_sets.list_all() == [identify_rules(CRYNUX)]
