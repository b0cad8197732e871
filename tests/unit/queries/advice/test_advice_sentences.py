"""Each sentence of the advice is true for its node."""

from dataclasses import replace

import pytest

from oracle.chain.profiles.profile import Token
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.queries.advice.advice_record import load_advice_record
from oracle.queries.advice.advice_sentences import describe_kickout_outlook, summarize_earnings
from oracle.queries.advice.node_advice import NodeAdvice, build_node_advice
from oracle.queries.api.source import open_snapshot
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address
from tests.unit.queries.advice.records import FEE, race
from tests.unit.systems.legacy.networks import RULES as LEGACY

# A rule under which no kickout is held because of a single creator.
RULES = replace(CRYNUX, pool_size=4, kick_creator_share=UNIT)
CNX = Token("CNX", 0)


def advise(new_store, history: History, rules: Rules = RULES, name: str = "A") -> NodeAdvice:
    with new_store() as store:
        source = IndexedHistory(store, rules).whole(history).source
        with open_snapshot(source) as snapshot:
            advised_node = snapshot.get_ranking().nodes[make_node_address(name)]
            return build_node_advice(snapshot, load_advice_record(snapshot, advised_node))


def build_member(*scores: int) -> History:
    return History().joins("A").scores("A", *scores)


EXPECTED = "At this rate a kickout is due in two scored tasks, in about "
HELD = replace(RULES, kick_creator_share=UNIT // 2)


@pytest.mark.parametrize(
    ("history", "rules", "sentence"),
    [
        (build_member(), RULES, "No scored task counts now, so no kickout can be forecast."),
        (build_member(10, 10), RULES, "At this rate no kickout becomes due."),
        (build_member(0, 0), RULES, EXPECTED),
        (build_member(0, 0, 0, 0), RULES, "A kickout is due."),
        (
            build_member(0, 0, 0, 0),
            HELD,
            "A kickout is due, and held until an operator decides: 4 of its 4 ",
        ),
        (build_member(0, 0, 0, 0).quits("A"), RULES, "A kickout is due."),
        (
            build_member(0, 0).quits("A"),
            RULES,
            "The node is not a member, so no kickout can become",
        ),
        (
            build_member(0, 0).is_kicked_out("A"),
            RULES,
            "The node is not a member, so no kickout can",
        ),
        (
            build_member(0, 0, 0, 0).is_kicked_out("A").joins("A"),
            RULES,
            "No scored task counts now, so no kickout",
        ),
        (History().updates("A"), RULES, "The node is not a member, so no kickout can become due."),
        (build_member(0, 0).pauses("A"), RULES, EXPECTED),
        (History().joins("A"), LEGACY, "The rules score each window by itself, so no kickout"),
    ],
)
def test_kickout_sentence_matches_the_state_of_the_node(
    new_sqlite_store, history, rules, sentence
):
    advice = advise(new_sqlite_store, history, rules)
    assert describe_kickout_outlook(advice).startswith(sentence)


def build_race(seconds_after: int = 7_199) -> History:
    return race(History().joins("A", "B", "C"), "g", {"A": 5, "B": 9, "C": 20}).after(
        seconds_after
    )


def build_expelled() -> History:
    """A times out in four groups and is kicked out, so that its pool starts anew."""
    history = History().joins("A", "B", "C")
    for number in range(RULES.pool_size):
        race(history, str(number), {"A": None, "B": 9, "C": 20})
    return history.is_kicked_out("A")


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        (build_race(), "It earns about 2,400 CNX a day: 200 CNX for one scored task in 2 h."),
        (build_race(59), "It earned 200 CNX for one scored task in 60 s."),
        (build_race().quits("A"), "It earned 200 CNX for one scored task."),
        (build_race().is_kicked_out("A"), "It earned 200 CNX for one scored task."),
        (build_member(10, 5), "The fees of its scored tasks are not known."),
        (build_member(), "No scored task counts now."),
        (build_expelled().joins("A"), "No scored task counts now."),
    ],
)
def test_earnings_sentence_matches_the_state_of_the_node(new_sqlite_store, history, sentence):
    assert FEE * 10 // 17 == 200
    assert summarize_earnings(advise(new_sqlite_store, history).money, CNX) == sentence


def test_advice_ignores_scores_before_a_rejoin(new_sqlite_store):
    history = build_expelled().joins("A")
    race(history, "new", {"A": 20, "B": 5, "C": 9})
    advice = advise(new_sqlite_store, history)
    assert advice.money.tasks == 1
    assert advice.what_if is not None
    assert advice.what_if.groups == 1
