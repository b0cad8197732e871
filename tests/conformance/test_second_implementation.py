"""The JavaScript of `/verify`, written from docs/spec/, gives the scores and roots of `replay`."""

import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from oracle.daemon.web.pages.page_frame import STATIC
from oracle.domain.fixed_point import compute_decay_table
from tests.conformance.expected_answers import compute_answer
from tests.conformance.random_cases import INCIDENT_RULES, RULE_SETS, draw_case, iter_cases
from tests.conformance.run import build_own_command, find_differences

ROOT = Path(__file__).resolve().parents[2]
SCORING = STATIC / "verify" / "scoring.js"
NODE = shutil.which("node") or ""
needs_node = pytest.mark.skipif(not NODE, reason="node runs the script")


@needs_node
@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param("quick", 2 * len(RULE_SETS), id="quick"),
        pytest.param("1", 200, id="bounded", marks=pytest.mark.slow),
    ],
)
def test_random_histories_give_equal_scores_and_roots(seed: str, count: int):
    differences = list(find_differences(list(iter_cases(seed, count)), build_own_command()))
    assert differences == []


@needs_node
@pytest.mark.slow
def test_both_implementations_hold_the_same_kickouts_after_incidents():
    """In some of these cases, a kickout is held for an incident alone."""
    number = RULE_SETS.index(INCIDENT_RULES)
    cases = [draw_case(random.Random(f"incident {seed}"), number) for seed in range(12, 24)]  # noqa: S311
    assert list(find_differences(cases, build_own_command())) == []
    without_rule = [
        {**case, "rules": {**case["rules"], "kick_incident_share": "1"}} for case in cases
    ]
    changed = [
        compute_answer(case)["root"] != compute_answer(other)["root"]
        for case, other in zip(cases, without_rule, strict=True)
    ]
    assert any(changed)


@needs_node
@pytest.mark.slow
def test_changed_score_is_reported_as_a_difference(tmp_path):
    """The comparison notices an implementation that gives third places one point more."""
    other = tmp_path / "scoring.js"
    text = SCORING.read_text("utf-8")
    points = "return rules.rank_scores[Math.min(rank, rules.rank_scores.length) - 1]"
    assert text.count(points) == 1
    other.write_text(text.replace(points, f"{points} + (rank === 3 ? 1 : 0)"), "utf-8")
    command = [str(other) if part == str(SCORING) else part for part in build_own_command()]
    differences = list(find_differences(list(iter_cases("quick", len(RULE_SETS))), command))
    assert any("groups" in difference for difference in differences)
    assert any("root" in difference for difference in differences)


@needs_node
def test_decay_tables_match_decimal_arithmetic():
    taus = [1, 2, 977, 1800, 86_400, 10**9, *range(3, 5_000, 500)]
    script = (
        SCORING.read_text("utf-8")
        + f"console.log(JSON.stringify({taus}.map((tau) => getDecayTable(tau).map(String))));"
    )
    completed = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True)
    tables = [list(map(int, table)) for table in json.loads(completed.stdout)]
    assert tables == [list(compute_decay_table(tau)) for tau in taus]


def test_specification_contains_decay_table():
    page = (ROOT / "docs" / "spec" / "vectors.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `0x([0-9a-f]+)` \|$", page, re.MULTILINE)
    assert [int(digits, 16) for _, digits in rows] == list(compute_decay_table(1800))
    assert [int(k) for k, _ in rows] == list(range(len(rows)))
