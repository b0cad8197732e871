"""The drill of docs/how-to/rotate-and-replace-keys.md: a transmitter is paused and replaced."""

from dataclasses import replace
from pathlib import Path

from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PauseKind
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.harness import FINALITY, Harness, create_sending_jobs, run_next_step
from tests.support.sending.in_flight import assign_push, list_attempts, send_unmined_push
from tests.support.sending.reporters import create_second_transmitter


def replace_transmitter(harness: Harness, folder: Path) -> None:
    """Send from another account from now on; the signer stays."""
    testbed = harness.testbed
    new_transmitter = create_second_transmitter(testbed, folder)
    keys = ReporterKeys(testbed.keys.signer, new_transmitter)
    harness.restart(testbed=replace(testbed, keys=keys))


def test_replacement_account_takes_over_from_a_paused_one(harness: Harness, tmp_path: Path):
    send_unmined_push(harness)
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            harness.context.account, PauseKind.OPERATOR, "rotation", harness.context.stamp
        )
    harness.restart()
    harness.period()
    harness.tick()
    harness.mine(FINALITY + 1)
    harness.tick()
    (drained,) = harness.intents()
    assert (drained.state.value, harness.testbed.round) == ("final", 1)

    replace_transmitter(harness, tmp_path)
    harness.pushed()
    first, second = harness.intents()[:2]
    assert harness.testbed.round >= 2
    assert (first.id, second.nonce) == (drained.id, 0)
    assert second.request.account.address == harness.testbed.transmitter


def test_account_change_during_a_push_leaves_only_that_push_open(
    sqlite_harness: Harness, tmp_path: Path
):
    harness = sqlite_harness
    send_unmined_push(harness)
    replace_transmitter(harness, tmp_path)
    harness.period()
    harness.tick()
    # Its transaction lands as well, because it is in the pool; no other transmitter sends the
    # round again.
    harness.mine()
    assert harness.testbed.round == 1
    harness.pushed()
    assert harness.testbed.round == 2
    states = [(intent.request.round, intent.state.value) for intent in harness.intents()]
    assert states == [(1, "live"), (2, "mined")]


def test_unsent_call_is_sent_by_the_replacement_account(sqlite_harness: Harness, tmp_path: Path):
    """Some calls are planned only once, for example a posted objection."""
    harness = sqlite_harness
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    assert harness.states() == ["planned"]
    replace_transmitter(harness, tmp_path)
    create_sending_jobs(harness).reconcile_nonces()
    harness.tick()
    harness.mine()
    harness.tick()
    (push,) = harness.intents()
    assert (push.state.value, harness.testbed.round) == ("mined", 1)
    assert push.request.account.address == harness.testbed.transmitter


def test_unsigned_call_with_a_nonce_moves_to_the_replacement_account(
    sqlite_harness: Harness, tmp_path: Path
):
    """A key is often replaced because its signer can no longer be reached."""
    harness = sqlite_harness
    assign_push(harness)
    nonce = harness.testbed.nonce
    old_testbed = harness.testbed
    replace_transmitter(harness, tmp_path)
    create_sending_jobs(harness).reconcile_nonces()
    harness.tick()
    harness.mine()
    harness.tick()
    (push,) = harness.intents()
    assert (push.state.value, harness.testbed.round) == ("mined", 1)
    assert push.request.account.address == harness.testbed.transmitter

    # If the old key returns, its next call uses the vacant nonce.
    harness.restart(testbed=old_testbed)
    harness.pushed()
    assert (harness.intents()[-1].nonce, harness.testbed.round) == (nonce, 2)


def test_signed_call_that_was_not_sent_stays_with_its_account(
    sqlite_harness: Harness, tmp_path: Path
):
    """The process may have sent the bytes before it ended; a second transaction might land too."""
    harness = sqlite_harness
    assign_push(harness)
    assert run_next_step(harness.context, harness.source.fetch_heads()) is not None
    assert len(list_attempts(harness)) == 1
    replace_transmitter(harness, tmp_path)
    create_sending_jobs(harness).reconcile_nonces()
    harness.tick()
    (push,) = harness.intents()
    assert push.state.value == "assigned"
    assert push.request.account.address != harness.testbed.transmitter
