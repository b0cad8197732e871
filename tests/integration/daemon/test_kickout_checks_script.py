"""The page's checks of a due kickout with pools that no short history has."""

from typing import Any

from oracle.domain.fixed_point import UNIT
from tests.support.page_scripts import needs_node, run_page_script

pytestmark = needs_node
SCRIPT = """(cases) => cases.map(({ entries, scores, rules }) =>
  hasHighPool(entries, scores, { ...rules, kickout_below: BigInt(rules.kickout_below) }))"""
RULES = {"pool_size": 2, "kickout_below": str(2 * UNIT)}
Score = dict[str, Any]


def list_scores(first_seq: int, *values: int) -> list[Score]:
    return [
        {"seq": seq, "score": value, "at": {"block": seq, "tx": 0, "log": 0, "sub": 0}}
        for seq, value in enumerate(values, first_seq)
    ]


def find_high_pools(*cases: tuple[list[Score], list[Score]]) -> list[bool]:
    content = [{"entries": entries, "scores": scores, "rules": RULES} for entries, scores in cases]
    results: list[bool] = run_page_script(SCRIPT, content)
    return results


def test_pool_above_the_threshold_ends_the_kickout_interval():
    """A pool of two is low below a sum of 4. The kickout became due with the first two scores."""
    entries = list_scores(1, 0, 0)
    assert find_high_pools(
        (entries, list_scores(1, 0, 0)),
        (entries, list_scores(2, 0, 2)),
        (entries, list_scores(3, 2, 0)),
        (entries, list_scores(3, 5, 0)),
        (entries, list_scores(3, 2, 2)),
    ) == [False, False, False, True, True]


def test_missing_scores_do_not_end_the_kickout_interval():
    assert find_high_pools((list_scores(1, 0, 0), list_scores(7, 5, 0))) == [False]
