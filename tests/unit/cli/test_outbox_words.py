"""How `outbox` describes a call that waits."""

from dataclasses import replace

from oracle.cli.outbox_commands import show_intent, show_intents
from oracle.domain.ids import Address, Hash
from oracle.queries.intent_view import (
    IntentDetail,
    SentState,
    build_intent_detail,
    build_intent_view,
    format_resume_action,
    recommend_intent_action,
)
from oracle.store.outbox.records import (
    PUSH,
    Account,
    Attempt,
    AttemptReason,
    CallRequest,
    Intent,
    IntentState,
    JournalEntry,
    Pause,
    PauseKind,
    SignedCall,
)

SENDER = Account(1, Address("0x" + 40 * "1"))
REQUEST = CallRequest(SENDER, Address("0x" + 40 * "2"), PUSH, "push", "0x", round=6)
LIVE_PUSH = Intent(66, REQUEST, IntentState.LIVE, 5, 80_000, 10**15, None, None, None, 0, 0, None)
SIGNED = SignedCall(Hash("0x" + 64 * "3"), b"", 200 * 10**9, 10**9, 80_000)
BYTES = Attempt(1, 5, 66, 0, SIGNED, 9, 12, None, None, AttemptReason.FIRST, 0, 1, 1, 1)
DEAR = replace(BYTES, last_error_class="underpriced", last_error_text="max fee less than base fee")


def entry(at: int, event: str, detail: str) -> JournalEntry:
    return JournalEntry(at, 66, None, None, event, detail, 1, None)


def detail(journal: list[JournalEntry]) -> IntentDetail:
    view = build_intent_view(LIVE_PUSH, SentState(None, [BYTES], None), now=5)
    return build_intent_detail(view, None, journal)


def test_call_details_show_amounts_in_ether_and_sent_transactions(capsys):
    show_intent(detail([]))
    lines = capsys.readouterr().out.splitlines()

    assert "max cost      0.001000000 ether" in lines
    assert "age           5 s" in lines
    assert lines[-1] == (
        f"transaction   {SIGNED.tx_hash}, sent 9 times since block 1 "
        "(first; up to 200 gwei, tip 1)"
    )


def test_advice_for_underpriced_call_names_the_setting_to_raise():
    advice = recommend_intent_action(LIVE_PUSH, SentState(None, [DEAR], None))

    assert advice.waits_for is not None
    assert "max fee less than base fee (it pays 200 gwei per gas)" in advice.waits_for
    assert "raise limits.max_fee_per_gas_wei" in advice.what_to_do
    assert "nothing" not in advice.what_to_do


def test_call_without_error_needs_no_action():
    assert recommend_intent_action(
        LIVE_PUSH, SentState(None, [BYTES], None)
    ).what_to_do.startswith("nothing: ")


def test_intent_list_shows_why_a_live_call_waits(capsys):
    show_intents([(LIVE_PUSH, SentState(None, [DEAR], None))], now=5)

    assert capsys.readouterr().out.splitlines()[1].endswith("underpriced")


def test_sender_without_funds_is_shown_as_resuming_automatically():
    assert "resumes automatically" in format_resume_action(
        SENDER, Pause(PauseKind.FUNDS, "no ether")
    )


def test_pause_because_of_a_foreign_nonce_lists_the_remedies():
    action = format_resume_action(SENDER, Pause(PauseKind.FOREIGN, "foreign"))
    assert "`outbox rebuild --from-chain --yes`, `outbox release 0x11" in action
    assert action.endswith("or rotate the key")


def test_longest_state_name_is_separated_from_message(capsys):
    over = IntentState.SUPERSEDED.value
    show_intent(detail([entry(0, over, "round 4 is taken")]))
    assert f"{over} round 4 is taken" in capsys.readouterr().out


def test_repeated_journal_lines_are_merged(capsys):
    again = [entry(at, "sent", "underpriced") for at in range(60, 3600, 60)]
    journal = [entry(0, "live", ""), *again, entry(3600, "mined", "block 7, worked")]

    show_intent(detail(journal))

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "1970-01-01 00:00:00  live",
        "1970-01-01 00:01:00  sent       underpriced (59 times, until 1970-01-01 00:59:00)",
        "1970-01-01 01:00:00  mined      block 7, worked",
    ]
