"""One of three says otherwise: it is told of and counts for nothing; the other two go on."""

import re

import pytest

from tests.integration.reporters.company import Company

DISAGREEMENT = "oracle_quorum_disagreements_total"
HOLD = "oracle_report_disputed"


@pytest.mark.nightly
def test_lying_reporter_is_named_by_both_other_reporters_and_its_reports_never_land(
    three: Company,
):
    a, b, liar = three.members
    liar.program = ("-m", "tests.integration.reporters.liar")
    three.start()
    for _ in range(2):
        three.due()
        number = three.round + 1
        three.until_signed(number, a, b, liar)
        # Who hears only after it landed that others signed otherwise has nothing left to hold.
        liar.until_held(number)
        assert liar.metric(HOLD) == 1
        three.landed(number)
        for reporter in (a, b):
            reporter.until_counted(number, DISAGREEMENT, signer=liar.signer)
    three.caught_up()

    for reporter in (a, b):
        (mismatch_entry, *_) = reporter.lines("report_digest_mismatch")
        assert mismatch_entry["signer"] == liar.signer
        assert mismatch_entry["theirs"] != mismatch_entry["ours"]
        assert reporter.metric(HOLD) == 0
        reporter.until_ready()
    for held in liar.lines("report_held"):
        assert held["reason"].startswith("disagreement: ")
        assert {a.signer, b.signer} <= set(re.findall("0x[0-9a-f]{40}\\b", held["reason"]))
    assert any("disagreement" in reason for reason in liar.readiness()["reasons"])
    three.check_digests(a, b)
    three.check_bytes(a, b, least=5)
    for accepted in three.check_rounds():
        assert accepted.digest not in liar.digests(accepted.round or 0)
