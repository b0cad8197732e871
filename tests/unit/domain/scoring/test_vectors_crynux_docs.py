"""Where `crynux` departs from the text of the Crynux page: tests/vectors/crynux-docs.json.

The common vectors are in crynux.json, which runs under `crynux-docs` as well.
"""

import re
from dataclasses import fields
from pathlib import Path

from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.kickout_evidence import compute_creator_spread
from oracle.domain.scoring.node_scores import compute_reliability
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_WEIGHTING,
    DOCS_WEIGHTING,
    Weighting,
    compute_weight,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS
from oracle.systems.registry import get_policy, get_published_rules
from tests.support.histories import History, fold_history, fold_node, make_node_address
from tests.support.vectors import vectors_of
from tests.unit.domain.scoring.test_vectors_groups import build_history_of_times
from tests.unit.domain.scoring.test_vectors_seed2 import units
from tests.unit.domain.scoring.test_verdicts import build_answered_group, scores

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "scoring-rules.md"
_ROW = re.compile(r"^\| `(\w+)`[^|]* \| (\S+) \| (\S+) \| ", re.MULTILINE)
LEAVES = {"quit": History.quits, "slashed": History.is_slashed}


@vectors_of("group_scores", file="crynux-docs")
def test_error_reports_rank_by_time(vector):
    (result,) = fold_history(build_history_of_times(vector["members"]), CRYNUX_DOCS)[1].results
    expected = {make_node_address(name): score for name, score in vector["expected"].items()}
    assert {member.node: member.score for member in result.members} == expected


@vectors_of("verdicts", file="crynux-docs")
def test_every_answer_ranks_regardless_of_verdict(vector):
    names = [str(place) for place, _ in enumerate(vector["seconds"], start=1)]
    history = build_answered_group(*vector["seconds"])
    history.judges("g", *names, right=vector["right"], wrong=vector["wrong"])
    assert scores(history, CRYNUX_DOCS) == vector["expected"]


@vectors_of("rejoin", file="crynux-docs")
def test_rejoin_restores_reliability_and_keeps_pool(vector):
    history = History().joins("A").scores("A", *vector["scores"]).after(10**7)
    for late in range(vector["timeouts"]):
        history.starts(f"late {late}", "A").times_out(f"late {late}")
    LEAVES[vector["leaves"]](history, "A").after(vector["away_seconds"]).joins("A")
    rejoined_node = fold_node(history, "A", CRYNUX_DOCS)
    assert rejoined_node.pool == bytes(vector["expected"]["pool"])
    assert compute_reliability(rejoined_node, history.time, CRYNUX_DOCS) == units(
        vector["expected"]["h"]
    )


@vectors_of("least_weight", file="crynux-docs")
def test_weight_has_no_floor(vector):
    stake = units(vector["s"])
    qos = units(vector["qos"])
    assert compute_weight(UNIT, stake, qos, DOCS_WEIGHTING) == units(vector["weight"])


@vectors_of("one_creator", file="crynux-docs")
def test_kickout_is_not_held_even_if_all_scores_have_one_creator(vector):
    spread = compute_creator_spread(
        [(make_node_address("creator"), 0)] * vector["scores"], CRYNUX_DOCS
    )
    assert (spread.find_hold_reason(CRYNUX_DOCS) is not None) is vector["held"]


def test_page_lists_every_difference_between_crynux_and_crynux_docs():
    section = PAGE.read_text("utf-8").partition("## Crynux and crynux-docs")[2]
    rows = {row[0]: row[1:] for row in _ROW.findall(section.partition("\n## ")[0])}
    rules = get_published_rules("crynux-docs")
    seed = get_published_rules("crynux")
    departures = {name: (seed[name], rules[name]) for name in rules if seed[name] != rules[name]}
    floors = tuple(
        f"{weighting.weight_floor / UNIT:g}" for weighting in (CRYNUX_WEIGHTING, DOCS_WEIGHTING)
    )
    assert rows == {**departures, "weight_floor": floors}
    unchanged_fields = {field.name for field in fields(Weighting)} - {"weight_floor"}
    assert all(
        getattr(DOCS_WEIGHTING, name) == getattr(CRYNUX_WEIGHTING, name)
        for name in unchanged_fields
    )


def test_crynux_docs_rules_and_policy_share_name_and_version():
    policy = get_policy("crynux-docs")
    assert isinstance(CRYNUX_DOCS, Rules)
    assert (policy.name, policy.version) == (CRYNUX_DOCS.name, CRYNUX_DOCS.version)
    assert CRYNUX_DOCS.to_json() != CRYNUX.to_json()
