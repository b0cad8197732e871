"""The fees that ranks cost a node, by the fee split of the rules."""

import pytest
from hypothesis import given, strategies as st

from oracle.chain.profiles.profile import Token
from oracle.domain.scoring.group_ranking import split_fee_by_scores
from oracle.queries.advice.advice_sentences import (
    format_lost_earnings_rows,
    summarize_earnings,
    summarize_todays_losses,
)
from oracle.queries.advice.node_money import NodeMoney, RankLoss, build_node_money
from tests.support.examples import examples
from tests.support.histories import History
from tests.unit.queries.advice.records import FEE, race, record_of

CNX = Token("CNX", 2)


def money_after(*races):
    history = History().joins("A", "B", "C")
    for number, elapsed in enumerate(races):
        race(history, str(number), dict(zip("ABC", elapsed, strict=True)))
    return build_node_money(record_of(history))


@pytest.mark.parametrize(
    ("elapsed", "rank", "lost"),
    [
        ((9, 5, 20), 2, FEE * 10 // 17 - FEE * 5 // 17),
        ((30, 5, 20), 3, FEE * 5 // 17 - FEE * 2 // 17),
        ((None, 5, 20), None, split_fee_by_scores(FEE, [10, 5, 2])[2]),
    ],
)
def test_loss_of_a_rank_is_the_difference_to_the_next_better_rank(elapsed, rank, lost):
    money = money_after(elapsed)
    assert money.losses == [RankLoss(rank=rank, tasks=1, amount=lost)]


def test_first_rank_costs_nothing():
    money = money_after((5, 9, 20))
    assert (money.losses, money.earned, money.tasks) == ([], FEE * 10 // 17, 1)


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(1, 60))] * 3), max_size=5))
@examples(40)
def test_earned_and_lost_fees_never_exceed_fees(races):
    money = money_after(*races)
    assert 0 <= money.earned <= money.tasks * FEE
    assert all(0 <= loss.amount <= loss.tasks * FEE for loss in money.losses)
    assert sum(loss.tasks for loss in money.losses) <= money.tasks


def test_fees_per_day_are_averaged_since_first_task():
    history = race(History().joins("A", "B", "C"), "g", {"A": 5, "B": 9, "C": 20})
    money = build_node_money(record_of(history.after(43_199)))
    assert money.seconds == 43_200
    assert money.per_day == 2 * money.earned
    assert build_node_money(record_of(History().joins("A"))).per_day is None


def test_losses_of_today_include_only_tasks_since_midnight():
    history = History().joins("A", "B", "C")
    race(history, "early", {"A": None, "B": 9, "C": 20})
    history.after(86_400 - history.time % 86_400)
    race(history, "late", {"A": 30, "B": 5, "C": 20})
    money = build_node_money(record_of(history))
    timeout_loss, rank_loss = (loss.amount for loss in reversed(money.losses))
    assert money.today == history.time // 86_400 * 86_400
    assert (money.tasks_today, money.lost_today) == (1, rank_loss)
    assert timeout_loss
    assert build_node_money(record_of(history.after(86_400))).tasks_today == 0


def test_amounts_are_shown_in_network_token():
    money = NodeMoney(
        stake=None,
        earned=1_250,
        tasks=3,
        without_fee=0,
        seconds=7_200,
        per_day=15_000,
        losses=[RankLoss(rank=3, tasks=2, amount=75), RankLoss(rank=None, tasks=1, amount=5)],
        today=0,
        tasks_today=2,
        lost_today=55,
    )
    assert summarize_earnings(money, CNX) == (
        "It earns about 150 CNX a day: 12.5 CNX for three scored tasks in 2 h."
    )
    assert summarize_todays_losses(money, CNX) == (
        "Today, since 00:00 UTC, lower ranks and tasks without a right answer cost it 0.55 CNX in "
        "fees. Of the scored tasks that count, two ended today."
    )
    full_day = money.model_copy(update={"tasks_today": money.tasks})
    assert " at least 0.55 CNX " in str(summarize_todays_losses(full_day, CNX))
    assert format_lost_earnings_rows(money, CNX) == [
        ("third", "2", "0.75 CNX"),
        ("no answer", "1", "0.05 CNX"),
    ]
