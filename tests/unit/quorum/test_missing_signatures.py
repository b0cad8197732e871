"""The missing signatures of a report are kept while it lacks a quorum, and no longer."""

from oracle.domain.ids import Hash
from oracle.quorum.quorum_context import MissingSignatures

ONE = Hash("0x" + 64 * "1")
OTHER = Hash("0x" + 64 * "2")


def test_missing_signatures_are_counted_from_the_first_statement():
    missing_signatures = MissingSignatures()
    assert [
        missing_signatures.record_statement_without_quorum(ONE, now) for now in (100, 160, 220)
    ] == [
        100,
        100,
        100,
    ]
    assert missing_signatures.record_statement_without_quorum(OTHER, 230) == 230
    assert missing_signatures.record_statement_without_quorum(ONE, 240) == 240


def test_complete_quorum_resets_the_waiting_time():
    missing_signatures = MissingSignatures()
    missing_signatures.record_statement_without_quorum(ONE, 100)
    missing_signatures.missing_reason = "0x1 has not signed round 7"
    missing_signatures.clear()
    assert missing_signatures.reason is None
    assert missing_signatures.record_statement_without_quorum(ONE, 300) == 300


def test_unlisted_signer_is_reported_before_missing_signatures():
    missing_signatures = MissingSignatures(missing_reason="0x1 has not signed round 7")
    assert missing_signatures.reason == "0x1 has not signed round 7"
    missing_signatures.signer_reason = "our key is no signer"
    assert missing_signatures.reason == "our key is no signer"
    # A complete quorum implies nothing about our own signature.
    missing_signatures.clear()
    assert missing_signatures.reason == "our key is no signer"
