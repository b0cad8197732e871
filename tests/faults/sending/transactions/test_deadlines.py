"""A call that cannot be mined by its deadline is not signed: it would revert and cost gas."""

from dataclasses import replace

from oracle.reporting.report_planner import plan_push
from oracle.txmgr.deferral import compute_margin_seconds
from tests.support.office import Office, next_step
from tests.support.sending.background_calls import send_background_call
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    list_attempts,
    list_slots,
    send_unmined_push,
)
from tests.support.sending.rounds import plan_round


def at_before_deadline(office: Office, seconds: int) -> None:
    """Mine a block `seconds` before the deadline of the newest push."""
    deadlines = [intent.request.deadline for intent in office.intents()]
    deadline = max(due_time for due_time in deadlines if due_time is not None)
    office.premises.chain.at(deadline - seconds)
    office.premises.chain.mine()


def test_push_with_one_block_left_is_not_signed_and_report_is_missed(
    sqlite_office: Office,
):
    office = sqlite_office
    plan_round(office)
    at_before_deadline(office, 1)
    office.index()
    office.repeat(next_step)
    office.repeat(plan_push)
    assert (office.states(), list_slots(office)) == (["expired"], [])
    (push,) = office.intents()
    assert push.error_text == "its deadline is in 1 s, but landing may take 2 s"
    assert push.error_class == "deadline"
    assert ("missed", push.error_text) in office.reports()
    # The call that would have reverted cost nothing; the next report is sent as usual.
    office.mine(3)
    office.tick()
    office.pushed()
    assert office.states()[-1] == "mined"


def test_push_that_can_still_land_is_sent(sqlite_office: Office):
    office = sqlite_office
    plan_round(office)
    at_before_deadline(office, 3)
    office.tick()
    office.mine()
    office.tick()
    assert (office.states()[0], office.premises.round) == ("mined", 1)


def test_deadline_margin_is_derived_from_landing_times_of_own_pushes(sqlite_office: Office):
    office = sqlite_office
    for blocks in (5, 6, 5, 30):
        lands_after(office, blocks)
    with office.store.read_transaction() as uow:
        assert sorted(uow.outbox.slots.list_landing_block_counts(office.context.account, 20)) == [
            5,
            5,
            6,
            30,
        ]
        # The slowest is left out; blocks are a second apart.
        assert compute_margin_seconds(office.context, uow) == 6
    plan_round(office)
    at_before_deadline(office, 5)
    office.tick()
    assert office.states()[-1] == "expired"


def test_deadline_margin_is_capped_by_max_margin_seconds(sqlite_office: Office):
    office = sqlite_office
    lands_after(office, 25)
    short = replace(office.context.send_settings, max_margin_seconds=20)
    with office.store.read_transaction() as uow:
        assert compute_margin_seconds(office.context, uow) == 25
        assert compute_margin_seconds(replace(office.context, send_settings=short), uow) == 20


def test_no_fee_bump_is_signed_after_deadline_margin(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office, replace(BY_BLOCKS, bump_blocks=3))
    chain = office.premises.chain
    # A fee bump is long due, but the deadline is one block away.
    for seconds in (5, 4, 3, 2, 1):
        chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
        at_before_deadline(office, seconds)
    office.tick()
    assert (office.states()[0], len(list_attempts(office))) == ("live", 1)


def test_case_f12_late_push_gets_fee_bump_when_another_call_waits_behind_it(
    sqlite_office: Office,
):
    office = sqlite_office
    send_unmined_push(office, replace(BY_BLOCKS, bump_blocks=3))
    send_background_call(office, "behind")
    chain = office.premises.chain
    for seconds in (5, 4, 3, 2, 1):
        chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
        at_before_deadline(office, seconds)
    office.tick()
    assert len(list_attempts(office)) == 2
    # Nothing lands before the nonce is used, whatever becomes of its call.
    office.mine(2)
    office.tick()
    assert [slot.state.value for slot in list_slots(office)] == ["mined", "live"]


def lands_after(office: Office, blocks: int) -> None:
    """Let a push drop out of the pool, and be mined `blocks` blocks after its first send."""
    before = office.premises.round
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    office.mine(blocks - 1)
    office.tick()
    office.mine()
    office.tick()
    assert office.premises.round == before + 1
