"""Database faults during a push: lost responses, refused writes, broken connections, delays."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from sqlalchemy import text

from oracle.errors import FatalError, TransientError
from oracle.signing.signer import SignedBytes, Signer, TransactionRequest
from oracle.signing.typed_data import Domain, SignableStatement
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import AttemptReason, IntentState, NonceSlot
from oracle.txmgr.accounts_and_limits import ReporterKeys
from oracle.txmgr.confirmer import confirm_transactions
from tests.support.harness import SETTINGS, Harness
from tests.support.sending.failing_databases import limit_wal_file, make_read_only, reject_inserts
from tests.support.sending.faults import Fault
from tests.support.sending.proxy import SEND, Proxy

HOUR = 3600
# Commits from a due report to its receipt; a push that meets no fault has them all.
COMMITS = 8


class LosingStore:
    """A store that loses the response to one commit, which was either done or not."""

    def __init__(self, store: Store, at: int, *, is_made: bool) -> None:
        self._store = store
        self._left = at
        self._is_made = is_made
        self.read_transaction = store.read_transaction
        self.was_lost = False

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        self._left -= 1
        lost = self._left == -1
        with self._store.transaction() as uow:
            yield uow
            if lost and not self._is_made:
                self._lose()
        if lost:
            self._lose()

    def _lose(self) -> None:
        self.was_lost = True
        raise TransientError("the connection broke at the commit")


class Stalling:
    """A signer that stalls after signing, while another process takes over."""

    def __init__(self, signer: Signer, store: Store) -> None:
        self._signer = signer
        self._store = store
        self.address = signer.address
        self.signed: list[SignedBytes] = []
        self.epoch: int | None = None

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        return self._signer.sign_statement(statement, domain)

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        self.signed.append(self._signer.sign_transaction(transaction))
        with self._store.transaction() as uow:
            uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))
            self.epoch = uow.lease.acquire("another", HOUR)
        return self.signed[-1]


def get_only_slot(harness: Harness) -> NonceSlot:
    with harness.store.read_transaction() as uow:
        slot = uow.outbox.slots.find_slot(harness.context.account, 1)
    assert slot is not None
    return slot


def list_sends(harness: Harness) -> list[int]:
    with harness.store.read_transaction() as uow:
        return [
            attempt.sends for attempt in uow.outbox.slots.list_attempts(get_only_slot(harness))
        ]


def run_ticks(harness: Harness, times: int = 1) -> int:
    """Run turns of the daemon, which continues after transient errors; return the failed turns."""
    failed = 0
    for _ in range(times):
        try:
            harness.tick()
        except TransientError:
            failed += 1
    return failed


def test_case_f42_former_leader_neither_stores_nor_sends(
    harness: Harness,
):
    testbed, store = harness.testbed, harness.store
    transmitter = testbed.keys.transmitter
    assert transmitter is not None
    stalling = Stalling(transmitter, store)
    harness.restart(testbed=replace(testbed, keys=ReporterKeys(testbed.keys.signer, stalling)))
    harness.period()
    with pytest.raises(FatalError, match="taken over the lease"):
        harness.tick()

    assert len(stalling.signed) == 1
    assert list_sends(harness) == []
    waiting = testbed.chain.rpc("eth_getTransactionCount", testbed.transmitter, "pending")
    assert int(waiting, 16) == 1

    harness.restart(testbed=testbed, epoch=stalling.epoch)
    harness.tick()
    harness.mine()
    harness.until_final()
    assert (testbed.nonce, testbed.round) == (2, 1)
    assert len(list_sends(harness)) == 1


@pytest.mark.parametrize("outcome", ["made", "not made"])
@pytest.mark.parametrize("at", range(COMMITS))
def test_case_f43_unknown_commit_is_resolved_before_the_push(
    sqlite_harness: Harness, at: int, outcome: str
):
    harness = sqlite_harness
    harness.period()
    losing = LosingStore(harness.store, at, is_made=outcome == "made")
    harness.context = replace(harness.context, store=cast("Store", losing))
    failed = run_ticks(harness, 3)
    harness.mine()
    failed += run_ticks(harness, 2)

    assert (losing.was_lost, failed) == (True, 1)
    assert (harness.testbed.nonce, harness.testbed.round) == (2, 1)
    assert harness.states() == ["mined"]
    assert len(list_sends(harness)) == 1
    assert harness.journal().count("assigned") == 1


@pytest.mark.parametrize("fault", ["read-only", "full disk"])
def test_case_f44_nothing_is_sent_while_the_database_is_unwritable(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], fault: str
):
    harness = proxied_harness
    harness.period()
    harness.tick()
    (sent,) = set(proxies[0].sent)
    harness.testbed.chain.rpc("anvil_dropTransaction", _get_newest_tx_hash(harness))
    harness.mine(3)
    harness.index()
    for proxy in proxies:
        proxy.forget()

    with (make_read_only if fault == "read-only" else limit_wal_file)(harness.store):
        for _ in range(3):
            with pytest.raises(TransientError):
                harness.repeat(confirm_transactions)
    assert proxies[0].sent == proxies[1].sent == []
    harness.tick()
    assert set(proxies[0].sent) == set(proxies[1].sent) == {sent}


@pytest.mark.postgres
def test_case_f44_nothing_is_sent_while_postgresql_is_read_only(
    harness: Harness,
):
    harness.period()
    harness.tick()
    harness.testbed.chain.rpc("anvil_dropTransaction", _get_newest_tx_hash(harness))
    harness.mine(3)
    harness.index()
    before = list_sends(harness)
    with make_read_only(harness.store), pytest.raises(TransientError, match="read-only"):
        harness.repeat(confirm_transactions)
    waiting = harness.testbed.chain.rpc(
        "eth_getTransactionCount", *_build_pending_nonce_params(harness)
    )
    assert (int(waiting, 16), list_sends(harness)) == (1, before)
    harness.tick()
    harness.mine()
    assert harness.testbed.nonce == 2


@pytest.mark.postgres
@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize("table", ["pub_intent", "pub_nonce", "pub_attempt", "pub_journal"])
def test_case_f45_aborted_transaction_is_retried_from_the_start(
    testbed: Any, new_postgresql_store: Any, tmp_path: Any, table: str, code: str
):
    with new_postgresql_store() as store:
        harness = Harness(testbed, store, tmp_path / "evidence")
        harness.period()
        harness.index()
        with reject_inserts(store, table, code), pytest.raises(TransientError, match="not now"):
            harness.tick()
        harness.tick()
        harness.mine()
        harness.tick()
        assert (testbed.nonce, testbed.round) == (2, 1)
        assert list_sends(harness) == [1]
        harness.close()


def test_case_f45_no_database_transaction_is_open_during_a_send(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, url = proxied_harness, proxied_harness.store._url
    other_writes: list[int] = []

    def write(request: dict[str, Any]) -> dict[str, Any]:
        with Store.open(url.render_as_string(hide_password=False)) as other_store:
            with other_store.transaction() as uow:
                uow.lease.verify_lease_by_write(harness.epoch)
            other_writes.append(1)
        return request

    proxies[0].rule(SEND, Fault(ask=write))
    harness.pushed()
    assert other_writes == [1]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_case_f46_clock_jump_does_not_affect_deadlines_or_leases(harness: Harness, jump: int):
    chain = harness.testbed.chain
    harness.period()
    plain = harness.context.clock
    harness.context = replace(harness.context, clock=lambda: plain() + jump)
    harness.tick()
    with harness.store.read_transaction() as uow:
        held = uow.lease.get_state()
        (push,) = uow.outbox.intents.list_in_states(harness.context.account, [IntentState.LIVE])
        attempts = uow.outbox.slots.list_attempts(get_only_slot(harness))
    assert push.request.deadline is not None
    assert 0 < push.request.deadline - chain.time <= SETTINGS.ttl_seconds
    assert HOUR - 60 < held.seconds_left <= HOUR
    assert [attempt.reason for attempt in attempts] == [AttemptReason.FIRST]

    harness.context = replace(harness.context, clock=lambda: plain() - jump)
    harness.mine()
    harness.until_final()
    assert (harness.testbed.nonce, harness.testbed.round) == (2, 1)
    assert harness.states() == ["final"]


def _get_newest_tx_hash(harness: Harness) -> str:
    with harness.store.read_transaction() as uow:
        return uow.outbox.slots.list_attempts(get_only_slot(harness))[-1].signed.tx_hash


def _build_pending_nonce_params(harness: Harness) -> tuple[str, str]:
    return harness.testbed.transmitter, "pending"
