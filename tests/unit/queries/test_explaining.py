"""The effects of version 2 of `crynux` on a node are named in the explanation of its score."""

import pytest

from oracle.chain.profiles.profile import DEFAULT_TOKEN
from oracle.cli.inspect.explain_full import render_full_explanation as explained
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.fold.fold import Fold
from oracle.indexer.event_archive import EventArchive
from oracle.queries.api.node_view import explain_known_node
from oracle.queries.api.source import open_snapshot
from oracle.queries.explain import Explanation, explain_score
from oracle.queries.node_sentences import format_headline
from oracle.queries.node_standing import build_node_summary_from_explanation
from oracle.queries.text.human_numbers import format_time
from oracle.store.state.node_repository import NodeRepository
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.answers import build_explanation_json
from tests.support.api import IndexedHistory, make_block
from tests.support.histories import History, build_changed_rules, make_node_address, make_task_key
from tests.support.scripted_reader import Unread
from tests.unit.reporting.test_reporting import block
from tests.unit.systems.legacy.networks import RULES as LEGACY_RULES

DOUBTING = build_changed_rules(least_timeout_seconds=60)


@pytest.fixture
def explain(new_sqlite_store):
    """Explain the node A after a history."""

    def explaining(history: History, rules=CRYNUX) -> Explanation:
        fold = Fold(rules)
        fold.fold_events(history.events)
        as_of = block(history.block, history.time)
        with new_sqlite_store() as store:
            with store.transaction() as uow:
                uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(rules))
                uow.cursor.move_to(as_of, as_of, 0)
            return explain_score(
                EventArchive(store, Unread(), rules), make_node_address("A"), as_of
            )

    return explaining


def text_of(explanation: Explanation) -> str:
    return "\n".join(explained(explanation, DEFAULT_TOKEN))


def test_error_report_that_ranks_behind_a_slower_result_is_labelled(explain):
    history = History().joins("A", "B").creates("1", "2", creator=make_node_address("C"))
    history.starts("1", "A").starts("2", "B").after(1).reports_error("1").after(9).submits("2")
    explanation = explain(history.closes("g", "1", "2"))
    assert "score 5 (rank 2 of 10 s, 1 s (an error))" in text_of(explanation)
    (entry,) = build_explanation_json(explanation)["pool"]["entries"]
    assert (entry["error_reported"], entry["others"][0]["error_reported"]) == (True, False)
    assert entry["creator"] == make_node_address("C")


def test_void_timeout_does_not_interrupt_the_explained_recovery(explain):
    history = History().joins("A").starts("0", "A").times_out("0")
    history.creates("1", timeout=5).starts("1", "A").after(600).times_out("1")
    explanation = explain(history.after(1200).starts("2", "A").times_out("2"), DOUBTING)
    text = text_of(explanation)
    assert "timeout void at block 2 (the task's limit of 5 s is below 60 s)" in text
    assert f"task {make_task_key('1')}" in text
    # One recovery of half an hour, not two shorter ones.
    assert text.count("recovered in 600 s") == 1
    assert "recovered in 1800 s: 1 - (1 - 0.300000000000000000) x exp(-1800 / 1800)" in text
    changes = build_explanation_json(explanation)["reliability"]["changes"]
    assert [change["cause"] for change in changes] == [
        *("joined", "timed_out", "timeout_void", "timed_out")
    ]
    assert changes[2]["before"] == changes[2]["after"] != format_decimal(UNIT)


def test_void_timeout_is_not_shown_as_a_possible_rank(explain):
    history = History().joins("A", "B", "C").creates("1", "2", "3", timeout=59)
    history.starts("1", "A").starts("2", "B").starts("3", "C").after(1).submits("1").submits("2")
    history.after(1).times_out("3").closes("g", "1", "2", "3")
    (entry,) = build_explanation_json(explain(history, DOUBTING))["pool"]["entries"]
    others = {member["node"]: (member["rank"], member["possible"]) for member in entry["others"]}
    assert others == {make_node_address("B"): (2, False), make_node_address("C"): (None, False)}


def test_explanation_of_held_kickout_states_scores_per_creator(explain):
    history = History().joins("A", "B")
    for n in range(50):
        names = (f"{n} a", f"{n} b", f"{n} c")
        history.creates(*names, creator=make_node_address("C" if n else "D"))
        history.starts(names[0], "A").starts(names[1], "B").starts(names[2], "E")
        history.after(1).submits(names[1]).submits(names[2])
        history.closes(f"group {n}", *names)
    explanation = explain(history)
    text = text_of(explanation)
    answer = build_explanation_json(explanation)
    assert "Creators of these tasks: 2; max scores from one creator: 49" in text
    hold_reason = "49 of its 50 scores come from one creator's tasks (of 2 creators)"
    assert f"held for an operator: {hold_reason}" in text
    assert answer["held"] == hold_reason

    # Later scores change the pool, but not the reason, which is that of the leaf.
    for n in range(2):
        names = (f"later {n} a", f"later {n} b", f"later {n} c")
        history.creates(*names, creator=make_node_address("E"))
        history.starts(names[0], "A").starts(names[1], "B").starts(names[2], "E")
        history.after(1).submits(names[1]).submits(names[2]).closes(f"later {n}", *names)
    later = explain(history)
    assert "max scores from one creator: 48" in text_of(later)
    assert build_explanation_json(later)["held"] == hold_reason
    assert (answer["pool"]["creators"], answer["pool"]["most_of_one_creator"]) == (2, 49)


def test_wrong_answer_is_labelled_next_to_its_score(explain):
    history = History().joins("A", "B", "C")
    for name in "ABC":
        history.starts(name, name)
    for name in "ABC":
        history.after(1).submits(name)
    text = text_of(explain(history.judges("g", *"ABC", right="BC", wrong="A")))
    assert "no rank, 1 s, answer rejected; the others: 2 s, 3 s" in text


def test_download_requests_are_listed_with_their_state(explain):
    history = History().joins("A").is_asked_to_download("A", "late")
    history.after(1000).is_asked_to_download("A", "done").adds_model("A", "done")
    explanation = explain(history.after(1000).is_asked_to_download("A", "soon"))
    states = {
        download["model"]: download["state"]
        for download in build_explanation_json(explanation)["downloads"]
    }
    assert states == {"late": "unanswered", "done": "answered", "soon": "open"}
    text = text_of(explanation)
    assert "Download requests of the last day:" in text
    assert "late, " in text
    assert text_of(explain(History().joins("A"))).count("Download requests") == 0


def test_paused_node_shows_pause_time_despite_later_requests(explain):
    history = History().joins("A").after(60).pauses("A")
    since = format_time(history.time)
    explanation = explain(history.after(60).starts("1", "A").asks_to_quit("A").after(60))
    assert (
        format_headline(build_node_summary_from_explanation(explanation))
        == f"Paused by its owner since {since}."
    )


@pytest.mark.parametrize("rules", [CRYNUX, LEGACY_RULES], ids=lambda rules: rules.name)
def test_explanations_from_ranking_and_from_database_are_equal(store, monkeypatch, rules):
    history = History().joins("A", "B", "C", "D").scores("A", 10, 5, 0).scores("B", 5).pauses("C")
    indexed = IndexedHistory(store, rules).whole(history)
    nodes = ["A", "B", "C", "D"]
    as_of = make_block(history.block, history.time)
    from_database = [
        explain_score(indexed.source.archive, make_node_address(name), as_of) for name in nodes
    ]
    with open_snapshot(indexed.source) as snapshot:
        snapshot.get_ranking()
    monkeypatch.setattr(NodeRepository, "iterate_all", lambda _: pytest.fail("all nodes are read"))
    from_ranking = [
        explain_known_node(indexed.source, make_node_address(name), as_of) for name in nodes
    ]
    assert from_ranking == from_database
    assert [explanation.place for explanation in from_ranking][:2] != [None, None]
