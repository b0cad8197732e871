"""One of three reporters signs other reports: they do not count, and the other two continue."""

import re

import pytest

from tests.integration.reporters.reporter_group import ReporterGroup

DISAGREEMENT = "oracle_quorum_disagreements_total"
DISPUTED = "oracle_report_disputed"


@pytest.mark.nightly
def test_reports_of_a_lying_reporter_are_never_accepted(
    three: ReporterGroup,
):
    a, b, liar = three.members
    liar.program = ("-m", "tests.integration.reporters.liar")
    three.start()
    three.due()
    three.until_signed(1, a, b, liar)
    # After the round landed, the liar's report could no longer be held.
    liar.until_held(1)
    assert liar.metric(DISPUTED) == 1
    three.landed(1)
    for reporter in (a, b):
        reporter.until_counted(1, DISAGREEMENT, signer=liar.signer)
    # The liar cannot compare its next report with the accepted round, and signs none.
    three.due()
    three.until_signed(2, a, b)
    liar.until(lambda: liar.lines("report_held", head_round=1), "a held report after round 1")
    three.landed(2)
    three.caught_up()
    assert not liar.digests(2)

    for reporter in (a, b):
        (mismatch_entry, *_) = reporter.lines("report_root_mismatch")
        assert mismatch_entry["signer"] == liar.signer
        assert mismatch_entry["theirs"] != mismatch_entry["ours"]
        assert reporter.metric(DISPUTED) == 0
        reporter.until_ready()
    for held in liar.lines("report_held", head_round=0):
        assert held["reason"].startswith("disagreement: ")
        assert {a.signer, b.signer} <= set(re.findall("0x[0-9a-f]{40}\\b", held["reason"]))
    for held in liar.lines("report_held", head_round=1):
        assert "round 1 on the chain has another root" in held["reason"]
    assert any("another root" in reason for reason in liar.readiness()["reasons"])
    three.check_digests(a, b)
    three.check_bytes(a, b, min_shared=5)
    for accepted in three.check_rounds():
        assert accepted.digest not in liar.digests(accepted.round or 0)
