"""`outbox hold, release, cancel`: what an operator may do, how it is recorded,
and what is rejected.
"""

import getpass
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from oracle.domain.ids import Address, Hash
from oracle.store.database import Store, UnitOfWork
from oracle.store.objection_inbox import PostedObjection
from oracle.store.outbox.records import (
    ACCUSE,
    Account,
    AttemptReason,
    CallReceipt,
    CallRequest,
    Intent,
    IntentState,
    PauseKind,
    SignedCall,
    Stamp,
)
from tests.support.cli.local_network import Settings, write_config

ME = Account(1, Address("0x" + 40 * "a"))
NOW = Stamp(1000, 1)
Act = Callable[..., int]


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Return the database URL that the settings of `sound` contain."""
    return sqlite_url


@pytest.fixture
def config(offline_settings: Settings, tmp_path: Path, url: str) -> Path:
    """Store intent 1 planned, 2 sent with nonce 5, and 3 held because its nonce was foreign."""
    with Store.open(url) as store, store.transaction() as uow:
        outbox = uow.outbox
        outbox.accounts.enroll_account(ME, 5, NOW)
        for number in (1, 2, 3):
            kind = ACCUSE
            outbox.intents.add(
                CallRequest(ME, ME.address, kind, f"k{number}", "0x", f"node={number}"), NOW
            )
        for number, mark in ((2, "1"), (3, "2")):
            outbox.intents.mark_ready(load_intent(uow, number), 100, 100, NOW)
            nonce = outbox.accounts.allocate_nonce(ME)
            outbox.slots.assign_nonce(load_intent(uow, number), nonce, 50, NOW)
            slot = outbox.slots.list_unfinished(ME)[-1]
            call = SignedCall(Hash("0x" + 64 * mark), b"raw", 3 * 10**9, 10**9, 100)
            outbox.slots.store_attempt(slot, call, AttemptReason.FIRST, NOW)
            (attempt,) = outbox.slots.list_attempts(slot)
            outbox.slots.record_send(slot, attempt, 51, "underpriced: fee too low", NOW)
        outbox.slots.mark_nonce_foreign(outbox.slots.list_unfinished(ME)[-1], NOW)
    return write_config(offline_settings, tmp_path / "config.toml")


@pytest.fixture
def act(config: Path) -> Act:
    return lambda *arguments: run(["outbox", *map(str, arguments), "--config", str(config)])


def load_intent(uow: UnitOfWork, number: int) -> Intent:
    intent = uow.outbox.intents.get(number)
    assert intent is not None
    return intent


def state(url: str, number: int) -> IntentState:
    with Store.open(url) as store, store.read_transaction() as uow:
        return load_intent(uow, number).state


def test_hold_and_release_record_the_actor_in_the_journal(act: Act, url: str, capsys):
    assert act("hold", 1, "--reason", "not tonight", "--dry-run") == 0
    assert state(url, 1) is IntentState.PLANNED
    assert act("hold", 1, "--reason", "not tonight") == 0
    assert state(url, 1) is IntentState.HELD
    capsys.readouterr()
    assert act("show", 1, "--json") == 0
    read_printed_json = json.loads(capsys.readouterr().out)
    assert (read_printed_json["reason"], read_printed_json["waits_for"]) == (
        "not tonight",
        "an operator",
    )
    assert "`outbox release 1`" in read_printed_json["what_to_do"]
    assert read_printed_json["journal"][-1]["actor"] == getpass.getuser()

    assert act("release", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)["did"] == "released"
    assert state(url, 1) is IntentState.PLANNED


def test_sender_is_paused_and_released(act: Act, url: str, capsys):
    assert act("hold", ME.address, "--json") == 0
    assert json.loads(capsys.readouterr().out)["address"] == ME.address
    with Store.open(url) as store, store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(ME)
    assert pause is not None
    assert pause.kind is PauseKind.OPERATOR
    assert act("show", 1) == 0
    assert f"`outbox release {ME.address}`" in capsys.readouterr().out
    assert act("release", ME.address) == 0
    with Store.open(url) as store, store.read_transaction() as uow:
        assert uow.outbox.accounts.find_pause(ME) is None


@pytest.mark.parametrize("kind", [PauseKind.FUNDS, PauseKind.SIGNER])
def test_hold_replaces_a_pause_that_would_end_by_itself(act: Act, url: str, kind: PauseKind):
    with Store.open(url) as store, store.transaction() as uow:
        uow.outbox.accounts.pause(ME, kind, "a test", NOW)
    assert act("hold", ME.address, "--reason", "not tonight") == 0
    with Store.open(url) as store, store.read_transaction() as uow:
        assert uow.outbox.accounts.find_pause(ME) == (PauseKind.OPERATOR, "not tonight")


def test_cancelling_a_call_without_a_nonce_requires_confirmation(act: Act, url: str, capsys):
    assert act("cancel", 1) == 2
    assert "use --yes to proceed" in capsys.readouterr().err
    assert act("cancel", 1, "--dry-run") == 0
    assert state(url, 1) is IntentState.PLANNED
    assert act("cancel", 1, "--yes") == 0
    assert state(url, 1) is IntentState.CANCELLED


@pytest.mark.parametrize(
    ("command", "result"),
    [(("hold",), IntentState.HELD), (("cancel", "--yes"), IntentState.CANCELLED)],
)
def test_assigned_call_of_a_paused_account_is_stopped_and_frees_its_nonce(
    act: Act, url: str, command: tuple[str, ...], result: IntentState
):
    assign_nonce_to_first_call(url)
    assert act("hold", ME.address) == 0
    name, *options = command
    assert act(name, 1, *options, "--dry-run") == 0
    assert state(url, 1) is IntentState.ASSIGNED
    assert act(name, 1, *options) == 0
    with Store.open(url) as store, store.read_transaction() as uow:
        intent = load_intent(uow, 1)
        vacant_slot = uow.outbox.slots.find_vacant_slot(ME)
    assert (intent.state, intent.nonce) == (result, None)
    assert vacant_slot is not None
    assert vacant_slot.nonce == 7


@pytest.mark.parametrize("command", [("hold",), ("cancel", "--yes")])
def test_signed_call_that_was_never_sent_is_neither_held_nor_dropped(
    act: Act, url: str, capsys, command: tuple[str, ...]
):
    """Its bytes are stored and will be sent, whatever its row says."""
    assign_nonce_to_first_call(url)
    with Store.open(url) as store, store.transaction() as uow:
        slot = uow.outbox.slots.list_unfinished(ME)[-1]
        call = SignedCall(Hash("0x" + 64 * "3"), b"raw", 3 * 10**9, 10**9, 100)
        uow.outbox.slots.store_attempt(slot, call, AttemptReason.FIRST, NOW)
    name, *options = command
    assert act(name, 1, *options) == 2
    assert "it is assigned and has nonce 7" in capsys.readouterr().err
    assert state(url, 1) is IntentState.ASSIGNED


def test_cancelled_objection_call_ends_the_posted_objection(act: Act, url: str):
    """Until it has ended, the node could not post another objection."""
    posted_objection = PostedObjection(
        node=ME.address,
        due_since=1,
        reason=0,
        text="",
        seq=0,
        deadline=2**40,
        signature=b"",
        received_at=1000,
        reserved_gas=1,
    )
    with Store.open(url) as store, store.transaction() as uow:
        uow.objection_inbox.add(posted_objection)
        (stored_objection,) = uow.objection_inbox.list_for_node(ME.address)
        uow.objection_inbox.set_intent(stored_objection, 1)
    assert act("cancel", 1, "--yes") == 0
    with Store.open(url) as store, store.read_transaction() as uow:
        (ended_objection,) = uow.objection_inbox.list_for_node(ME.address)
    assert ended_objection.ended_at is not None
    assert ended_objection.ended_reason == "cancelled by an operator"


def assign_nonce_to_first_call(url: str) -> None:
    with Store.open(url) as store, store.transaction() as uow:
        uow.outbox.intents.mark_ready(load_intent(uow, 1), 100, 100, NOW)
        nonce = uow.outbox.accounts.allocate_nonce(ME)
        uow.outbox.slots.assign_nonce(load_intent(uow, 1), nonce, 50, NOW)


def test_call_held_because_of_a_foreign_nonce_can_be_cancelled(act: Act, url: str, capsys):
    assert act("show", 3) == 0
    assert "`outbox cancel 3 --yes` closes it" in " ".join(capsys.readouterr().out.split())
    assert act("cancel", 3, "--yes") == 0
    assert state(url, 3) is IntentState.CANCELLED


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("hold", 2), "intent 2 cannot be held: it is live and has nonce 5"),
        (("release", 2), "intent 2 cannot be released: it is live"),
        (("release", 3), "intent 3 cannot be released: it is held and has nonce 6"),
        (("bump", 1), "intent 1 cannot be bumped: it is planned"),
        (("hold", 9), "the outbox has no call 9"),
        (("show", "9" * 30), "the outbox has no call 9999"),
        (("show", "seven"), "the outbox has no call seven"),
        (("show", "0xff"), "0xff: no known transaction starts with this prefix"),
        (("bump", "0x" + 65 * "1"), "expected 0x and up to 64 hex digits"),
        (("hold", "0x12"), "0x12: no known sender starts with this prefix"),
        (("release", "0x" + 40 * "b"), "not paused"),
        (("hold", "0x" + 40 * "b"), "this account is not a sender in this database"),
        (("rebuild",), "--from-chain: required"),
        (("rebuild", "--from-chain"), "use --yes to proceed, or --dry-run"),
    ],
)
def test_outbox_action_that_cannot_apply_prints_one_line_error(
    act: Act, url: str, capsys, words: tuple[object, ...], complaint: str
):
    assert act(*words) == 2
    stderr = capsys.readouterr().err
    assert complaint in stderr
    assert stderr.count("\n") == 1
    assert state(url, 2) is IntentState.LIVE


def test_outbox_action_is_rejected_while_the_daemon_runs(act: Act, url: str, capsys):
    with Store.open(url) as store, store.transaction() as uow:
        uow.lease.acquire("qos-oracle run on host, process 7", 30)
    assert act("hold", 1) == 1
    stderr = capsys.readouterr().err
    assert "process 7" in stderr
    assert "Stop the daemon and its standbys, run `outbox hold` again" in stderr
    assert state(url, 1) is IntentState.PLANNED


def test_list_and_show_print_every_field_of_a_sent_call(act: Act, capsys):
    assert act("list") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "live" in line)
    assert row.split()[:5] == ["2", "accuse", "node=2", "live", "5"]
    assert "3" in row.split()
    assert act("show", 2) == 0
    text = capsys.readouterr().out
    for expected_text in (
        "sent once since block 51",
        "up to 3 gwei, tip 1",
        "last error: fee too low",
    ):
        assert expected_text in text
    assert "`outbox bump 2` names the limit" in text
    assert act("show", 3, "--json") == 0
    held = json.loads(capsys.readouterr().out)
    assert "another program signed with the key" in held["what_to_do"]
    assert "outbox rebuild" in held["what_to_do"]
    assert [attempt["last_error_text"] for attempt in held["attempts"]] == ["fee too low"]


@pytest.mark.parametrize("pasted", ["0x" + 64 * "1", "0x1", "0x11111…", "0x" + 64 * "1" + "..."])
def test_call_is_selected_by_transaction_hash(act: Act, capsys, pasted: str):
    assert act("show", pasted, "--json") == 0
    assert read_printed_json(capsys)["id"] == 2
    assert act("cancel", pasted) == 2
    assert "cancel intent 2 irreversibly" in capsys.readouterr().err
    # Only a pending transaction can be bumped, and 0x2… is not pending.
    assert act("bump", "0x2") == 2
    assert "intent 3 cannot be bumped: it is held" in capsys.readouterr().err


def test_ambiguous_transaction_hash_prefix_is_rejected(act: Act, url: str, capsys):
    lost = Hash("0x4" + 63 * "0")
    twin = Hash("0x1" + 63 * "0")
    with Store.open(url) as store, store.transaction() as uow:
        block = CallReceipt(60, Hash("0x" + 64 * "b"), succeeded=True, gas_used=9, gas_price_wei=1)
        uow.outbox.slots.record_rebuilt_nonce(ME, 7, lost, block, NOW)
        uow.outbox.slots.record_rebuilt_nonce(ME, 8, twin, None, NOW)
    assert act("show", lost[:9], "--json") == 0
    assert json.loads(capsys.readouterr().out)["nonce"] == 7
    assert act("show", "0x1") == 2
    stderr = capsys.readouterr().err
    assert f"0x1: ambiguous transaction prefix; matches: {twin}, 0x1111" in stderr
    assert act("show", "0x11", "--json") == 0
    assert read_printed_json(capsys)["id"] == 2


def test_replaced_call_and_its_replacement_state_what_they_wait_for(act: Act, url: str, capsys):
    with Store.open(url) as store, store.transaction() as uow:
        outbox = uow.outbox
        outbox.intents.mark_ready(load_intent(uow, 1), 100, 100, NOW)
        (slot,) = outbox.slots.list_unfinished(ME)
        outbox.slots.replace_call(slot, load_intent(uow, 1), 60, NOW)
        outbox.accounts.pause(ME, PauseKind.FUNDS, "0 wei", NOW)
    assert act("show", 2, "--json") == 0
    assert "or intent 1, which uses its nonce" in read_printed_json(capsys)["waits_for"]
    for arguments in (("bump", 2), ("cancel", 2, "--dry-run"), ("cancel", 2, "--yes")):
        assert act(*arguments) == 2
        stderr = capsys.readouterr().err
        assert "intent 2: its nonce 5 was given to intent 1 (accuse)" in stderr
        assert "`qos-oracle outbox bump 1` raises the fee" in stderr
    with Store.open(url) as store, store.transaction() as uow:
        (slot,) = uow.outbox.slots.list_unfinished(ME)
        call = SignedCall(Hash("0x" + 64 * "3"), b"raw", 4 * 10**9, 10**9, 100)
        uow.outbox.slots.store_attempt(slot, call, AttemptReason.REPLACEMENT, NOW)
        uow.outbox.slots.record_send(slot, uow.outbox.slots.list_attempts(slot)[-1], 61, None, NOW)
    assert act("show", 1, "--json") == 0
    heir = read_printed_json(capsys)
    assert "its sender, which is paused (funds): 0 wei" in heir["waits_for"]
    assert "not bumped: send ether to" in heir["what_to_do"]


def test_mined_call_without_its_expected_event_cannot_be_released(act: Act, url: str, capsys):
    with Store.open(url) as store, store.transaction() as uow:
        (slot,) = uow.outbox.slots.list_unfinished(ME)
        (attempt,) = uow.outbox.slots.list_attempts(slot)
        block = CallReceipt(60, Hash("0x" + 64 * "b"), succeeded=True, gas_used=9, gas_price_wei=1)
        uow.outbox.slots.record_receipt(slot, attempt, block, NOW)
        (slot,) = uow.outbox.slots.list_unfinished(ME)
        uow.outbox.slots.finalize(slot, NOW)
        details: dict[str, str | int | None] = {"error_class": "missing_effect"}
        uow.outbox.intents.change_state(load_intent(uow, 2), IntentState.HELD, NOW, details)
    assert act("show", 2, "--json") == 0
    assert (
        "find out why, then `outbox cancel 2 --yes` closes it"
        in read_printed_json(capsys)["what_to_do"]
    )
    assert act("release", 2) == 2


def read_printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer
