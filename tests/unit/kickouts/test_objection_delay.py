"""An objection delays only the accusation by this reporter, and only for a bounded time."""

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import Objected
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.kickout_policy import ObjectionTerms
from oracle.domain.reports.objections import ObjectionReason
from oracle.indexer.round_leaves import LeafCache
from oracle.kickouts.kickout_cases import (
    KickoutCase,
    load_kickout_cases,
)
from oracle.store.database import Store
from oracle.store.state.objection_repository import ObjectionAnswer
from tests.support.due_nodes import (
    DUE_SINCE,
    HEAD,
    OPENED,
    POLICY,
    RULES,
    SETTINGS,
    build_accused_kickout,
    build_leaves,
    store_kicks,
    store_nodes,
    store_round,
)
from tests.support.rounds import make_address

NODE = make_address(1)
# The newest block is at 6,000 s, and the kickout is due since 600 s.
WINDOW = 3000
TERMS = ObjectionTerms(window=WINDOW, answer=20_000, ignored=100_000)
WINDOW_END = DUE_SINCE + WINDOW


@pytest.fixture(autouse=True)
def _due_node(store: Store) -> None:
    """Write five nodes, of which the first is due, and a round that states it."""
    nodes = store_nodes(store, 5, 1)
    store_round(store, 1, build_leaves(nodes, [NODE]))


def object_to(
    store: Store,
    *,
    time: int = WINDOW_END,
    reason: ObjectionReason = ObjectionReason.OTHER,
    due_since: int = DUE_SINCE,
    seq: int = 0,
) -> None:
    event = Objected(Position(50, 0, seq), time, NODE, due_since, reason, seq, "not me")
    with store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(objections=[event]))


def answer(store: Store, *, is_accepted: bool, due_since: int = DUE_SINCE) -> None:
    with store.transaction() as uow:
        uow.objections.save_answer(
            ObjectionAnswer(NODE, due_since, is_accepted, "the log shows it", 7000)
        )


def submit_result(store: Store, *, time: int = 5000, elapsed: int | None = 9) -> None:
    """Let the node answer another task after its kickout became due."""
    name = "0x" + 64 * "e"
    at = Position(60, 0, 0)
    entry = ScoreEntry(NODE, 9, TaskKey(name), GroupKey(name), None, elapsed, 0, at, time)
    with store.transaction() as uow:
        uow.scores.append([entry], uow.rule_sets.get_or_assign_number(RULES))


def move_head(store: Store, time: int) -> None:
    with store.transaction() as uow:
        uow.cursor.clear()
        uow.cursor.move_to(HEAD._replace(time=time), HEAD, 0)


def load_case(store: Store, terms: ObjectionTerms | None = TERMS) -> KickoutCase:
    with store.read_transaction() as uow:
        policy = POLICY._replace(objection_terms=terms)
        (case,) = load_kickout_cases(uow, LeafCache(), policy, SETTINGS)
    return case


def test_accusation_is_not_delayed_without_an_objection_contract(store: Store):
    move_head(store, DUE_SINCE)
    object_to(store)
    assert load_case(store, None).obstacle is None


@pytest.mark.parametrize(("time", "waits"), [(WINDOW_END, True), (WINDOW_END + 1, False)])
def test_accusation_waits_until_objection_window_closes(store: Store, time: int, *, waits: bool):
    move_head(store, time)
    case = load_case(store)
    assert (case.delay is not None) is waits
    if case.delay is not None:
        assert case.obstacle == f"the owner may object until {WINDOW_END} (block time)"
        assert case.delay.until == WINDOW_END + 1


def test_open_objection_of_working_node_delays_accusation(store: Store):
    object_to(store)
    submit_result(store)
    deadline = WINDOW_END + TERMS.answer
    case = load_case(store)
    assert case.delay is not None
    assert case.delay.until == deadline + 1
    assert "objection 0 is open (no check decides this reason)" in str(case.obstacle)
    move_head(store, deadline + 1)
    assert load_case(store).obstacle is None


@pytest.mark.parametrize("submitted", [{"time": DUE_SINCE}, {"elapsed": None}, None])
def test_objection_of_inactive_node_does_not_delay_accusation(
    store: Store, submitted: dict[str, int] | None
):
    object_to(store)
    if submitted is not None:
        submit_result(store, **submitted)
    assert load_case(store).obstacle is None


@pytest.mark.parametrize(
    ("time", "due_since"),
    [(WINDOW_END + 1, DUE_SINCE), (WINDOW_END, DUE_SINCE + 1)],
    ids=["late", "another kickout"],
)
def test_invalid_objection_does_not_delay_accusation(store: Store, time: int, due_since: int):
    submit_result(store)
    object_to(store, time=time, due_since=due_since)
    assert load_case(store).obstacle is None


def test_rejected_objection_does_not_delay_accusation(store: Store):
    object_to(store)
    submit_result(store)
    answer(store, is_accepted=False)
    assert load_case(store).obstacle is None


def test_rejected_objection_ends_the_objection_window(store: Store):
    object_to(store, time=DUE_SINCE + 1)
    move_head(store, DUE_SINCE + 2)
    answer(store, is_accepted=False)
    assert load_case(store).obstacle is None


@pytest.mark.parametrize("time", [WINDOW_END, WINDOW_END + 1], ids=["in time", "late"])
def test_accepted_objection_blocks_accusation_permanently(store: Store, time: int):
    object_to(store, time=time)
    answer(store, is_accepted=True)
    move_head(store, 10**9)
    case = load_case(store)
    assert case.obstacle == "this reporter accepted the objection: the log shows it"
    assert case.delay is not None
    assert (case.delay.until, case.delay.objection is None) == (None, False)


def test_answer_to_another_kickout_is_ignored(store: Store):
    object_to(store)
    submit_result(store)
    answer(store, is_accepted=True, due_since=DUE_SINCE + 1)
    assert "is open" in str(load_case(store).obstacle)


def test_second_objection_after_rejection_does_not_delay_accusation(store: Store):
    earlier = DUE_SINCE - 100
    object_to(store, due_since=earlier, time=earlier, seq=0)
    answer(store, is_accepted=False, due_since=earlier)
    object_to(store, seq=1)
    submit_result(store)
    assert load_case(store).obstacle is None


def test_only_the_first_objection_to_a_kickout_delays_it(store: Store):
    object_to(store, time=DUE_SINCE + 1)
    object_to(store, seq=1)
    submit_result(store)
    case = load_case(store)
    assert case.delay is not None
    assert case.delay.until == DUE_SINCE + 1 + TERMS.answer + 1


def test_objection_does_not_delay_an_existing_accusation(store: Store):
    object_to(store)
    submit_result(store)
    store_kicks(store, build_accused_kickout(NODE))
    case = load_case(store)
    assert (case.obstacle, case.delay) == ("the node is accused already", None)


def test_objection_does_not_change_the_leaf_or_the_hold(store: Store):
    before = load_case(store)
    object_to(store)
    submit_result(store)
    after = load_case(store)
    assert (after.proof, after.hold_reason) == (before.proof, before.hold_reason)
    assert after.interval == KickoutDue(NODE, OPENED, None)
