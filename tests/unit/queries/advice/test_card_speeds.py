"""Another card is compared by the groups that both cards shared, from 30 pairs on."""

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.queries.advice.advice_sentences import explain_what_if, list_what_if_cells
from oracle.queries.advice.card_speeds import MIN_PAIRS, CardSpeed, list_card_speeds
from oracle.queries.advice.what_if import StandingSource, build_what_if
from tests.support.histories import History, fold_history
from tests.unit.queries.advice.records import race, record_of

NOWHERE = StandingSource(lambda _qos: None, lambda _qos: None)
SLOW, FAST = {"gpu_name": "RTX 3060", "gpu_vram": 12}, {"gpu_name": "RTX 4090", "gpu_vram": 24}


def shared_groups(number: int, fast_seconds: int | None = 10) -> History:
    """A and B have the same card and take 20 and 40 s, C has a faster one."""
    history = History().joins("A", "B", **SLOW).joins("C", **FAST)
    for index in range(number):
        race(history, str(index), {"A": 20, "B": 40, "C": fast_seconds})
    return history


def speeds_after(history: History) -> list[CardSpeed]:
    fold, _ = fold_history(history)
    return list_card_speeds(record_of(history), fold.ledger.nodes)


def test_ratio_is_the_median_of_all_pairs_of_the_two_cards():
    # Half of the pairs have the ratio 10/20, the other half 10/40.
    (speed,) = speeds_after(shared_groups(15))
    assert (speed.gpu, speed.vram, speed.pairs) == ("RTX 4090", 24, 30)
    assert speed.time_ratio == UNIT // 4


@pytest.mark.parametrize(("groups", "fast_seconds"), [(MIN_PAIRS // 2 - 1, 10), (MIN_PAIRS, None)])
def test_too_few_pairs_give_no_ratio(groups, fast_seconds):
    assert speeds_after(shared_groups(groups, fast_seconds)) == []


def test_what_if_ranks_the_groups_again_with_the_times_of_the_other_card():
    history = shared_groups(30)
    record = record_of(history)
    (speed,) = speeds_after(history)
    what_if = build_what_if(record, NOWHERE, speed)
    assert what_if is not None
    as_it_is, faster, another_card = what_if.rows
    # Second in every group; 16 s stay second, 5 s are first.
    assert (as_it_is.qos, faster.qos, another_card.qos) == (UNIT // 2, UNIT // 2, UNIT)
    assert another_card.card == speed
    assert list_what_if_cells(what_if)[-1][0] == (
        "RTX 4090 with 24 GB, which takes 25.0 % of its time (60 compared tasks)"
    )
    assert "in groups that both cards shared" in explain_what_if(what_if)
