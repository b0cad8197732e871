"""The fee of a scored task: the network's event compared with the computation from the points."""

from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.chain.profiles.profile import Token
from oracle.domain.scoring.group_ranking import split_fee_by_scores
from oracle.domain.state import Task
from oracle.queries.explanation_models import EarningView, compute_task_earning
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, fold_history, make_task_key

FEE = 30


def compare_earnings(
    paid: dict[str, int], *, fee: int = FEE
) -> tuple[list[EarningView | None], list[Task]]:
    """Return three tasks that were answered in the order of their names, with these fees."""
    history = History().creates("1", fee=fee).creates("2", fee=fee).creates("3", fee=fee)
    for name, place in zip("123", "ABC", strict=True):
        history.joins(place).starts(name, place)
    for name in "123":
        history.after(5).submits(name)
    history.closes("g", "1", "2", "3")
    for name, amount in paid.items():
        history.is_paid(name, "ABC"["123".index(name)], amount)
    history.succeeds("1").is_refunded("2").is_refunded("3")
    fold, changes = fold_history(history, CRYNUX)
    (result,) = changes.results
    tasks = fold.ledger.tasks
    earned = [compute_task_earning(make_task_key(name), result.members, tasks) for name in "123"]
    return earned, [tasks[make_task_key(name)] for name in "123"]


def test_winner_gets_full_fee_if_fee_is_not_shared():
    earned, _ = compare_earnings({})
    assert earned == [
        EarningView(paid=paid, fee=FEE, points=None, of_points=None, by_points=None)
        for paid in (FEE, 0, 0)
    ]


@given(st.integers(1, 2**100))
def test_fee_shares_that_match_the_points_are_reported(fee: int):
    shares = split_fee_by_scores(fee, [10, 5, 2])
    earned, _ = compare_earnings(dict(zip("123", shares, strict=True)), fee=fee)
    points = [(earning.points, earning.of_points) for earning in earned if earning is not None]
    assert points == [(10, 17), (5, 17), (2, 17)]
    assert [(earning.paid, earning.by_points) for earning in earned if earning] == list(
        zip(shares, shares, strict=True)
    )


def test_fee_shares_that_differ_from_the_points_are_reported():
    earned, _ = compare_earnings({"1": 10, "2": 10, "3": 10})
    text = [earning.to_text(Token("CNX", 0)) for earning in earned if earning is not None]
    assert text[0] == "earned 10 CNX of 30 CNX: 10 of 17 points, BUT THE POINTS GIVE 7 CNX MORE"
    assert text[2].endswith("BUT THE POINTS GIVE 5 CNX LESS")


def test_difference_below_the_displayed_precision_is_reported():
    earned, _ = compare_earnings({"1": 10, "2": 10, "3": 10})
    assert earned[0] is not None
    assert earned[0].to_text(Token("CNX", 18)).endswith("GIVE < 0.000001 CNX MORE")


def test_task_without_a_fee_or_an_ending_has_no_earning():
    _, (row, *_) = compare_earnings({})
    for without in (replace(row, fee=None), replace(row, ending=None)):
        assert compute_task_earning(row.key, (), {row.key: without}) is None
