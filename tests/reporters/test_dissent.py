"""One of three says otherwise: it is told of and counts for nothing; the other two go on."""

from tests.reporters.company import Company

DISAGREEMENT = "oracle_publisher_report_disagreement_total"
HOLD = "oracle_publisher_disagreement_hold"


def test_one_that_lies_is_named_by_both_others_and_its_words_never_land(three: Company):
    a, b, liar = three.members
    liar.program = ("-m", "tests.reporters.liar")
    three.start()
    for _ in range(2):
        number = three.round_of(a, b, liar)
        for one in (a, b):
            one.until_counted(number, DISAGREEMENT, signer=liar.signer)
    liar.until_counted(1, HOLD)
    three.caught_up()

    for one in (a, b):
        (said, *_) = one.lines("disagreement")
        assert said["signer"] == liar.signer
        assert said["theirs"] != said["ours"]
        assert one.metric(HOLD) == 0
        one.until_ready()
    reasons = liar.readiness()["reasons"]
    assert any("disagreement" in reason and a.signer in reason for reason in reasons), reasons
    three.check_digests(a, b)
    three.check_bytes(a, b, least=5)
    for accepted in three.check_rounds():
        assert accepted.digest not in liar.digests(accepted.round or 0)
