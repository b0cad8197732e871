"""What a tick reads to plan kickouts: the open intervals once, not once for each live kickout."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Engine, event

from oracle.domain.coverage import VerificationLevel
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.reports.contract_state import RoundsChanges
from oracle.domain.reports.kicks import KickState
from oracle.kickouts.kickout_eligibility import (
    EvidenceHashCache,
    find_due_intervals,
    find_proposable_cases,
    find_valid_kicks,
    is_kickout_still_due,
    load_kickout_cases,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.history_repository import KickoutRepository
from tests.support.due_nodes import KICKOUT_RULES, LOW, OPENED, RULES, store_due_nodes
from tests.support.examples import examples


@contextmanager
def counting() -> Iterator[list[str]]:
    """Collect the statements that are executed meanwhile."""
    statements = list[str]()

    def note(_connection, _cursor, statement, *_args) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def plan(uow: UnitOfWork, memory: EvidenceHashCache):
    intervals, live = find_due_intervals(uow, RULES), uow.rounds.list_live_kicks()
    valid_kicks = find_valid_kicks(uow, KICKOUT_RULES, live, intervals, memory)
    return valid_kicks, find_proposable_cases(
        uow, KICKOUT_RULES, VerificationLevel.CHECKED, intervals, live
    )


def statements_of_second_tick(store: Store, open_count: int, live_count: int) -> int:
    store_due_nodes(store, open_count, live_count)
    memory = EvidenceHashCache()
    for _ in range(2):
        with counting() as statements, store.read_transaction() as uow:
            valid_kicks, cases = plan(uow, memory)
            assert (len(valid_kicks), cases) == (live_count, [])
    return len(statements)


def test_sql_statement_count_does_not_grow_with_open_intervals(new_store):
    with new_store() as few, new_store() as many:
        assert statements_of_second_tick(few, 3, 1) == statements_of_second_tick(many, 60, 20)


def test_open_intervals_are_read_once_per_tick(new_sqlite_store, monkeypatch):
    reads, real = list[int](), KickoutRepository.list_open

    def count_read(self: KickoutRepository) -> list[KickoutDue]:
        reads.append(1)
        return real(self)

    monkeypatch.setattr(KickoutRepository, "list_open", count_read)
    with new_sqlite_store() as store:
        store_due_nodes(store, 30, 10)
        with store.read_transaction() as uow:
            plan(uow, EvidenceHashCache())
    assert reads == [1]


def test_rewind_clears_evidence_cache(new_sqlite_store):
    with new_sqlite_store() as store:
        nodes, memory = store_due_nodes(store, 3, 2), EvidenceHashCache()
        with store.read_transaction() as uow:
            assert [kick.node for kick in plan(uow, memory)[0]] == nodes[:2]
        with store.transaction() as uow:
            # A rebuild from other scores: of the first node nothing is left to prove.
            scores = [entry for node in nodes[1:] for entry in uow.scores.list_for_node(node, 10)]
            intervals = uow.kickouts.list_open()
            rounds, kicks = uow.rounds.load(), uow.rounds.list_kicks()
            accepted, rows = uow.rounds.list_accepted(), list(uow.nodes.iterate_all())
            uow.projections.clear()
            uow.nodes.save(rows)
            uow.scores.append(scores, uow.rule_sets.get_or_assign_number(RULES))
            uow.kickouts.save_intervals(intervals)
            uow.rounds.save_changes(
                RoundsChanges(
                    words=dict(rounds.words),
                    indexes=dict(rounds.indexes),
                    kicks={kick.node: kick for kick in kicks},
                    accepted=accepted,
                )
            )
        with store.read_transaction() as uow:
            assert [kick.node for kick in plan(uow, memory)[0]] == [nodes[1]]


@pytest.mark.slow
@examples(40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["close", "reopen", "veto", "rewind", "tick"]), st.integers(0, 5)
        ),
        max_size=8,
    )
)
def test_cached_plan_equals_separate_kickout_checks(new_sqlite_store, steps):
    with new_sqlite_store() as store:
        nodes, memory = store_due_nodes(store, 6, 4), EvidenceHashCache()
        for step, place in steps:
            with store.transaction() as uow:
                closed = KickoutDue(nodes[place], OPENED, OPENED._replace(block=50))
                if step == "close":
                    uow.kickouts.save_intervals([closed])
                elif step == "reopen":
                    again = OPENED._replace(block=60 + place)
                    uow.kickouts.save_intervals([closed, KickoutDue(nodes[place], again, None)])
                elif step == "veto":
                    kick = uow.rounds.list_kicks()[place % 4]
                    vetoed = {kick.node: replace(kick, state=KickState.VETOED)}
                    uow.rounds.save_changes(RoundsChanges(kicks=vetoed))
                elif step == "rewind":
                    uow.undo.rollback_to(100)
            with store.read_transaction() as uow:
                valid_kicks, cases = plan(uow, memory)
                live = uow.rounds.list_live_kicks()
                alone = [kick for kick in live if is_kickout_still_due(uow, KICKOUT_RULES, kick)]
                names = {kick.node for kick in live}
                kickout_cases = load_kickout_cases(uow, KICKOUT_RULES, VerificationLevel.CHECKED)
                assert valid_kicks == alone
                unkicked_cases = [
                    kickout_case
                    for kickout_case in kickout_cases
                    if kickout_case.node not in names
                ]
                assert cases == [
                    kickout_case for kickout_case in unkicked_cases if kickout_case.lane == LOW
                ]
