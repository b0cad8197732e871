"""Wrong keys; remote signers that are slow, down or faulty; and runs that must not sign."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from oracle.errors import TransientError
from oracle.reporting.readiness import find_unsent_report_reason
from oracle.rpc.endpoints.rate_limiter import Backoff
from oracle.signing.keystore import unlock_keystore
from oracle.signing.remote import RemoteSigner
from oracle.store.outbox.records import NonceSlot, Pause, PauseKind
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.harness import CHAIN_ID, Harness
from tests.support.sending.proxy import SEND, Proxy
from tests.support.signing.remote_signer import (
    Policy,
    RemoteHost,
    Wrong,
    flip_signature_s,
    serve_host,
)

# The timeout that one test waits for; in all others a busy machine responds before.
SECONDS = 0.5


@dataclass
class Guarded:
    """A harness whose keys are on two other hosts, and its endpoints."""

    harness: Harness
    signer: RemoteHost
    transmitter: RemoteHost
    proxies: tuple[Proxy, Proxy]

    @property
    def sent(self) -> int:
        return sum(proxy.count(SEND) for proxy in self.proxies)

    def slots(self) -> list[NonceSlot]:
        """Return the nonces that were assigned and are not settled."""
        with self.harness.store.read_transaction() as uow:
            return uow.outbox.slots.list_unfinished(self.harness.context.account)

    def pause(self) -> Pause | None:
        with self.harness.store.read_transaction() as uow:
            return uow.outbox.accounts.find_pause(self.harness.context.account)

    def release(self) -> None:
        """Release the account as `outbox release ADDRESS` does."""
        context = self.harness.context
        with self.harness.store.transaction() as uow:
            uow.outbox.accounts.resume(context.account, context.stamp)

    def attempts(self) -> int:
        """Return the number of stored attempts."""
        with self.harness.store.read_transaction() as uow:
            return sum(len(uow.outbox.slots.list_attempts(slot)) for slot in self.slots())

    def statements(self) -> int:
        """Return the number of stored signatures of statements."""
        with self.harness.store.read_transaction() as uow:
            return len(
                uow.statements.list_for_round(
                    self.harness.testbed.address, self.harness.testbed.round + 1
                )
            )


def build_remote_host(folder: Path, role: str, **settings: Any) -> RemoteHost:
    """Return a host with the key of a role."""
    key = unlock_keystore(folder / f"{role}.json", folder / f"{role}.password")
    return RemoteHost(key="0x" + key.hex(), **settings)


@pytest.fixture
def guarded(proxied_harness: Harness, proxies: tuple[Proxy, Proxy]) -> Iterator[Guarded]:
    testbed = proxied_harness.testbed
    with (
        serve_host(build_remote_host(testbed.key_folder, "signer")) as signer,
        serve_host(build_remote_host(testbed.key_folder, "transmitter")) as transmitter,
    ):
        keys = ReporterKeys(RemoteSigner(signer.place()), RemoteSigner(transmitter.place()))
        proxied_harness.restart(testbed=replace(testbed, keys=keys))
        proxied_harness.period()
        yield Guarded(proxied_harness, signer, transmitter, proxies)


def restart_with_signer_timeout(guarded: Guarded, **wire: float) -> None:
    """Restart the harness with a short timeout for its transmitter's signer."""
    testbed = guarded.harness.testbed
    keys = ReporterKeys(testbed.keys.signer, RemoteSigner(guarded.transmitter.place(**wire)))
    guarded.harness.restart(testbed=replace(testbed, keys=keys))


def assert_round_lands(guarded: Guarded, nonce: int) -> None:
    """Assert that the round lands with the nonce that was assigned before."""
    harness, before = guarded.harness, guarded.harness.testbed.round
    harness.tick()
    (slot,) = guarded.slots()
    assert slot.nonce == nonce
    harness.mine()
    harness.tick()
    assert (harness.testbed.round, harness.testbed.nonce) == (before + 1, nonce + 1)


def test_case_f70_signing_timeout_stores_nothing_and_keeps_nonce(
    guarded: Guarded,
):
    harness, nonce = guarded.harness, guarded.harness.testbed.nonce
    guarded.transmitter.gate = Event()
    restart_with_signer_timeout(guarded, timeout_seconds=SECONDS)

    with pytest.raises(TransientError, match="the same request is sent again"):
        harness.tick()

    assert guarded.transmitter.reached.wait(60)
    # It may have signed. The bytes never arrived, so they cannot be sent.
    assert [method for method, _ in guarded.transmitter.received_requests] == [
        "eth_signTransaction"
    ]
    assert [slot.nonce for slot in guarded.slots()] == [nonce]
    assert (guarded.attempts(), guarded.sent) == (0, 0)
    guarded.transmitter.gate.set()
    restart_with_signer_timeout(guarded)
    assert_round_lands(guarded, nonce)


def test_case_f70_unavailable_signer_leaves_the_state_unchanged(guarded: Guarded):
    harness, nonce = guarded.harness, guarded.harness.testbed.nonce
    guarded.signer.instead = (503, {}, b"")
    for _ in range(3):
        with pytest.raises(TransientError):
            harness.tick()
    assert (guarded.statements(), guarded.slots(), guarded.sent) == (0, [], 0)

    guarded.signer.instead = None
    assert_round_lands(guarded, nonce)


OTHER = "0x" + "77" * 32
WRONG_TRANSACTIONS = {
    "another key": Wrong(key=OTHER),
    "another nonce": Wrong(fields=lambda request: {**request, "nonce": "0x63"}),
    "another contract": Wrong(fields=lambda request: {**request, "to": "0x" + 40 * "8"}),
    "with ether": Wrong(fields=lambda request: {**request, "value": "0x1"}),
    "another call": Wrong(fields=lambda request: {**request, "data": request["data"] + "00"}),
    "a higher fee": Wrong(fields=lambda request: {**request, "maxFeePerGas": hex(10**15)}),
    "another chain": Wrong(fields=lambda request: {**request, "chainId": "0x1"}),
    "garbage": Wrong(result=lambda _: "0x02c0"),
}


@pytest.mark.parametrize("what", WRONG_TRANSACTIONS)
def test_case_f70_unrequested_transaction_is_neither_stored_nor_sent(guarded: Guarded, what: str):
    harness, nonce = guarded.harness, guarded.harness.testbed.nonce
    guarded.transmitter.wrong = WRONG_TRANSACTIONS[what]

    with pytest.raises(TransientError, match="is paused: wrong answer of the signer"):
        harness.tick()

    assert (guarded.attempts(), guarded.sent) == (0, 0)
    assert [slot.nonce for slot in guarded.slots()] == [nonce]
    guarded.transmitter.wrong = Wrong()
    guarded.release()
    harness.restart()
    assert_round_lands(guarded, nonce)


def test_case_f70_wrong_transaction_pauses_sender_until_released(
    guarded: Guarded,
):
    harness, nonce = guarded.harness, guarded.harness.testbed.nonce
    guarded.transmitter.wrong = WRONG_TRANSACTIONS["another contract"]
    with pytest.raises(TransientError):
        harness.tick()
    guarded.transmitter.wrong = Wrong()

    # Neither time nor a restart ends it: the account is paused, and the daemon continues.
    harness.context.sender_account.payer_backoff.reset()
    harness.tick()
    harness.restart()
    harness.tick()
    pause = guarded.pause()
    assert pause is not None
    assert (pause.kind, len(guarded.transmitter.received_requests)) == (PauseKind.SIGNER, 1)

    guarded.release()
    assert_round_lands(guarded, nonce)


WRONG_STATEMENTS = {
    "another key": Wrong(key=OTHER),
    "another round": Wrong(
        fields=lambda signature: {**signature, "message": {**signature["message"], "round": 99}}
    ),
    "high s": Wrong(result=flip_signature_s),
}


@pytest.mark.parametrize("what", WRONG_STATEMENTS)
def test_case_f70_unrequested_statement_is_never_stored(guarded: Guarded, what: str):
    guarded.signer.wrong = WRONG_STATEMENTS[what]
    with pytest.raises(TransientError, match="nothing is signed: "):
        guarded.harness.tick()
    assert (guarded.statements(), guarded.slots(), guarded.sent) == (0, [], 0)


def test_case_f70_signing_is_retried_after_a_wrong_statement(guarded: Guarded):
    harness, nonce = guarded.harness, guarded.harness.testbed.nonce
    # The test ends the backoff.
    harness.context.sender_account.signer_backoff = Backoff(lambda: 0.0)
    guarded.signer.wrong = WRONG_STATEMENTS["another key"]
    with pytest.raises(TransientError, match="the request is repeated in"):
        harness.tick()
    # The rest of the step continues meanwhile.
    for _ in range(3):
        harness.tick()
    assert (len(guarded.signer.received_requests), guarded.statements()) == (1, 0)
    assert "returned a signature by" in (find_unsent_report_reason(harness.reporting) or "")

    guarded.signer.wrong = Wrong()
    harness.context.sender_account.signer_backoff.reset()
    assert_round_lands(guarded, nonce)
    assert find_unsent_report_reason(harness.reporting) is None


def test_case_f70_transaction_that_signer_rejects_is_not_sent(guarded: Guarded):
    harness, nonce = guarded.harness, guarded.harness.testbed.nonce
    contract = harness.testbed.address
    harness.context.sender_account.payer_backoff = Backoff(lambda: 0.0)
    guarded.transmitter.policy = Policy(CHAIN_ID, contract, frozenset({"0x00000000"}))
    with pytest.raises(TransientError, match="another function"):
        harness.tick()
    # The failure is reported, and the signer is not requested every second.
    for _ in range(3):
        harness.tick()
    pause = guarded.pause()
    assert pause is not None
    assert (pause.kind, len(guarded.transmitter.received_requests)) == (PauseKind.SIGNER, 1)
    assert (guarded.attempts(), guarded.sent) == (0, 0)
    assert "another function" in (find_unsent_report_reason(harness.reporting) or "")

    (_, (transaction,)) = guarded.transmitter.received_requests[-1]
    guarded.transmitter.policy = Policy(CHAIN_ID, contract, frozenset({transaction["data"][:10]}))
    # It ends without an operator's release.
    harness.context.sender_account.payer_backoff.reset()
    assert_round_lands(guarded, nonce)
    assert guarded.pause() is None


def test_signer_refusal_is_not_reported_if_no_report_is_due(harness: Harness):
    harness.pushed()
    harness.reporting.quorum.missing.refusal_reason = "nothing is signed: the signer refused"
    harness.tick()
    assert find_unsent_report_reason(harness.reporting) is None
