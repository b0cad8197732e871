"""Signatures of this reporter and of peers, silent signers and held reports, on both databases."""

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError
from oracle.store.database import Store
from oracle.store.outbox.records import SignedStatement, Stamp

CONTRACT = Address("0x" + 40 * "c")
SIGNER = Address("0x" + 40 * "1")
PEER = Address("0x" + 40 * "2")
NOW = Stamp(1000, 1)
FIRST = SignedStatement(
    chain_id=1,
    contract=CONTRACT,
    signer=SIGNER,
    config=Hash("0x" + 64 * "c"),
    round=7,
    prev=Hash("0x" + 64 * "6"),
    as_of_block=70,
    as_of_hash=Hash("0x" + 64 * "7"),
    deadline=500,
    root=Hash("0x" + 64 * "8"),
    digest=Hash("0x" + 64 * "1"),
    signature=b"s",
)
SECOND = replace(FIRST, digest=Hash("0x" + 64 * "2"))


def test_statements_of_round_are_listed_newest_first_with_expiry_reason(store: Store):
    with store.transaction() as uow:
        signatures = uow.statements
        signatures.add(FIRST, NOW)
        signatures.mark_expired(FIRST.digest, "prev_reorged", NOW)
        signatures.add(SECOND, NOW)
        assert signatures.list_for_round(CONTRACT, 7) == [
            SECOND,
            replace(FIRST, expiry_reason="prev_reorged"),
        ]
        assert signatures.list_for_round(CONTRACT, 8) == []


def test_statement_is_live_again_after_its_fork_is_restored(store: Store):
    with store.transaction() as uow:
        signatures = uow.statements
        signatures.add(FIRST, NOW)
        signatures.mark_expired(FIRST.digest, "as_of_reorged", NOW)
        signatures.add(FIRST, NOW)
        assert signatures.find_live(FIRST) == FIRST
        assert signatures.list_for_round(CONTRACT, 7) == [FIRST]


def test_duplicate_peer_statement_is_stored_once(store: Store):
    peer_statement = replace(FIRST, signer=PEER)
    with store.transaction() as uow:
        peers = uow.peer_statements
        assert peers.add(peer_statement, "peer.example", NOW)
        assert not peers.add(peer_statement, "other.example", NOW)
        assert peers.add(replace(peer_statement, digest=SECOND.digest), "peer.example", NOW)
        assert [
            stored_statement.digest for stored_statement in peers.list_for_round(CONTRACT, 7)
        ] == [
            SECOND.digest,
            FIRST.digest,
        ]


def test_signer_embargo_lasts_until_latest_end(store: Store):
    with store.transaction() as uow:
        signatures = uow.statements
        assert signatures.find_embargo_end(1, CONTRACT, SIGNER) is None
        for until in (50, 90, 70):
            signatures.extend_embargo(1, CONTRACT, SIGNER, until, NOW)
        assert signatures.find_embargo_end(1, CONTRACT, SIGNER) == 90
        assert signatures.find_embargo_end(1, CONTRACT, PEER) is None


def test_released_report_is_not_held_again(store: Store):
    with store.transaction() as uow:
        gates = uow.holds
        assert gates.hold(9, "half of all changed", {"changed": 12}, NOW)
        assert not gates.hold(9, "once more", {}, NOW)
        (held,) = gates.list_held()
        assert (held.period, held.facts, held.released_at) == (9, {"changed": 12}, None)
        assert gates.release(9, Stamp(1100, 1, "somebody"))
        assert not gates.release(9, NOW)
        assert not gates.hold(9, "half of all changed", {}, NOW)
        opened = gates.get(9)
        assert gates.list_held() == []
    assert opened is not None
    assert (opened.released_at, opened.released_by) == (1100, "somebody")


def test_lease_check_fails_for_other_processes_and_does_not_renew(store: Store):
    with store.transaction() as uow:
        epoch = uow.lease.acquire("one", 30)
        assert epoch is not None
        left = uow.lease.get_state().seconds_left
        uow.lease.verify_lease_by_write(epoch)
        assert uow.lease.get_state().seconds_left < left + 1
        with pytest.raises(FatalError, match="another process has taken over"):
            uow.lease.verify_lease_by_write(epoch + 1)


def test_second_live_statement_of_signer_for_round_is_rejected(store: Store):
    with store.transaction() as uow:
        uow.statements.add(FIRST, NOW)
    with pytest.raises(IntegrityError), store.transaction() as uow:
        uow.statements.add(SECOND, NOW)
    with store.transaction() as uow:
        assert uow.statements.find_live(SECOND) == FIRST
        uow.statements.mark_expired(FIRST.digest, "expired", NOW)
        uow.statements.add(SECOND, NOW)
        assert uow.statements.find_live(FIRST) == SECOND
