"""What was missed is told in one short line, however much it is."""

from oracle.reporting.readiness import in_words


def test_periods_that_were_missed_for_one_reason_are_told_at_once():
    late, gone = "its deadline passed", "predecessor changed"
    assert in_words([(7, late)]) == "period 7: its deadline passed"
    assert in_words([(3, gone), (5, late), (6, late), (9, late), (10, gone)]) == (
        "period 3: predecessor changed; 3 periods, 5 to 9: its deadline passed; "
        "period 10: predecessor changed"
    )
