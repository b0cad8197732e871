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
from tests.support.office import SETTINGS, Office
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


def get_only_slot(office: Office) -> NonceSlot:
    with office.store.read_transaction() as uow:
        slot = uow.outbox.slots.get_slot(office.context.account, 1)
    assert slot is not None
    return slot


def list_sends(office: Office) -> list[int]:
    with office.store.read_transaction() as uow:
        return [attempt.sends for attempt in uow.outbox.slots.list_attempts(get_only_slot(office))]


def run_ticks(office: Office, times: int = 1) -> int:
    """Run turns of the daemon, which continues after transient errors; return the failed turns."""
    failed = 0
    for _ in range(times):
        try:
            office.tick()
        except TransientError:
            failed += 1
    return failed


def test_case_f42_bytes_signed_by_stalled_former_leader_are_neither_stored_nor_sent(
    office: Office,
):
    premises, store = office.premises, office.store
    transmitter = premises.keys.transmitter
    assert transmitter is not None
    stalling = Stalling(transmitter, store)
    office.restart(premises=replace(premises, keys=ReporterKeys(premises.keys.signer, stalling)))
    office.period()
    with pytest.raises(FatalError, match="taken over the lease"):
        office.tick()

    assert len(stalling.signed) == 1
    assert list_sends(office) == []
    waiting = premises.chain.rpc("eth_getTransactionCount", premises.transmitter, "pending")
    assert int(waiting, 16) == 1

    office.restart(premises=premises, epoch=stalling.epoch)
    office.tick()
    office.mine()
    office.until_final()
    assert (premises.nonce, premises.round) == (2, 1)
    assert len(list_sends(office)) == 1


@pytest.mark.parametrize("outcome", ["made", "not made"])
@pytest.mark.parametrize("at", range(COMMITS))
def test_case_f43_commit_of_unknown_outcome_is_resolved_before_push_continues(
    sqlite_office: Office, at: int, outcome: str
):
    office = sqlite_office
    office.period()
    losing = LosingStore(office.store, at, is_made=outcome == "made")
    office.context = replace(office.context, store=cast("Store", losing))
    failed = run_ticks(office, 3)
    office.mine()
    failed += run_ticks(office, 2)

    assert (losing.was_lost, failed) == (True, 1)
    assert (office.premises.nonce, office.premises.round) == (2, 1)
    assert office.states() == ["mined"]
    assert len(list_sends(office)) == 1
    assert office.journal().count("assigned") == 1


@pytest.mark.parametrize("fault", ["read-only", "full disk"])
def test_case_f44_nothing_is_sent_until_unwritable_database_is_writable_again(
    proxied_office: Office, proxies: tuple[Proxy, Proxy], fault: str
):
    office = proxied_office
    office.period()
    office.tick()
    (sent,) = set(proxies[0].sent)
    office.premises.chain.rpc("anvil_dropTransaction", _hash_of(office))
    office.mine(3)
    office.index()
    for proxy in proxies:
        proxy.forget()

    with (make_read_only if fault == "read-only" else limit_wal_file)(office.store):
        for _ in range(3):
            with pytest.raises(TransientError):
                office.repeat(confirm_transactions)
    assert proxies[0].sent == proxies[1].sent == []
    office.tick()
    assert set(proxies[0].sent) == set(proxies[1].sent) == {sent}


@pytest.mark.postgres
def test_case_f44_nothing_is_sent_until_read_only_postgresql_is_writable_again(
    office: Office,
):
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropTransaction", _hash_of(office))
    office.mine(3)
    office.index()
    before = list_sends(office)
    with make_read_only(office.store), pytest.raises(TransientError, match="read-only"):
        office.repeat(confirm_transactions)
    waiting = office.premises.chain.rpc("eth_getTransactionCount", *_pending(office))
    assert (int(waiting, 16), list_sends(office)) == (1, before)
    office.tick()
    office.mine()
    assert office.premises.nonce == 2


@pytest.mark.postgres
@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize("table", ["pub_intent", "pub_nonce", "pub_attempt", "pub_journal"])
def test_case_f45_transaction_aborted_by_server_is_retried_from_start(
    premises: Any, new_postgresql_store: Any, tmp_path: Any, table: str, code: str
):
    with new_postgresql_store() as store:
        office = Office(premises, store, tmp_path / "evidence")
        office.period()
        office.index()
        with reject_inserts(store, table, code), pytest.raises(TransientError, match="not now"):
            office.tick()
        office.tick()
        office.mine()
        office.tick()
        assert (premises.nonce, premises.round) == (2, 1)
        assert list_sends(office) == [1]
        office.close()


def test_case_f45_no_database_transaction_is_open_during_send(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office, url = proxied_office, proxied_office.store._url
    other_writes: list[int] = []

    def write(request: dict[str, Any]) -> dict[str, Any]:
        with Store.open(url.render_as_string(hide_password=False)) as other_store:
            with other_store.transaction() as uow:
                uow.lease.verify_lease_by_write(office.epoch)
            other_writes.append(1)
        return request

    proxies[0].rule(SEND, Fault(ask=write))
    office.pushed()
    assert other_writes == [1]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_case_f46_clock_jump_changes_no_deadline_lease_or_bump(office: Office, jump: int):
    chain = office.premises.chain
    office.period()
    plain = office.context.clock
    office.context = replace(office.context, clock=lambda: plain() + jump)
    office.tick()
    with office.store.read_transaction() as uow:
        held = uow.lease.get_state()
        (push,) = uow.outbox.intents.list_in_states(office.context.account, [IntentState.LIVE])
        attempts = uow.outbox.slots.list_attempts(get_only_slot(office))
    assert push.request.deadline is not None
    assert 0 < push.request.deadline - chain.time <= SETTINGS.ttl_seconds
    assert HOUR - 60 < held.seconds_left <= HOUR
    assert [attempt.reason for attempt in attempts] == [AttemptReason.FIRST]

    office.context = replace(office.context, clock=lambda: plain() - jump)
    office.mine()
    office.until_final()
    assert (office.premises.nonce, office.premises.round) == (2, 1)
    assert office.states() == ["final"]


def _hash_of(office: Office) -> str:
    with office.store.read_transaction() as uow:
        return uow.outbox.slots.list_attempts(get_only_slot(office))[-1].signed.tx_hash


def _pending(office: Office) -> tuple[str, str]:
    return office.premises.transmitter, "pending"
