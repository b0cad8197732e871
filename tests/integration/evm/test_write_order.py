"""Signatures and nonces are in the database before the publishing side uses them."""

import msgspec
import pytest

from oracle.errors import FatalError
from oracle.rpc.transport import BoundedHttp, RawHttpResponse
from oracle.signing.local import KeySigner
from oracle.signing.signer import SignedBytes, TransactionRequest
from tests.support.evm.fixtures import chain
from tests.support.harness import Harness
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "sqlite_harness", "testbed"]


def test_signed_bytes_are_stored_before_being_sent(
    sqlite_harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    harness, post = sqlite_harness, BoundedHttp.post
    observed_sends: list[tuple[str, list[str]]] = []

    def watched(http: BoundedHttp, body: bytes, *seconds: float) -> RawHttpResponse:
        payload = msgspec.json.decode(body)
        many = payload if isinstance(payload, list) else [payload]
        sends = [request for request in many if request["method"] == "eth_sendRawTransaction"]
        observed_sends.extend((request["params"][0], stored_bytes(harness)) for request in sends)
        return post(http, body, *seconds)

    monkeypatch.setattr(BoundedHttp, "post", watched)
    harness.pushed()

    # One transaction, shown to each endpoint.
    assert len({sent for sent, _ in observed_sends}) == 1
    assert all(sent in stored for sent, stored in observed_sends)


def test_nonce_is_stored_before_signing(sqlite_harness: Harness, monkeypatch: pytest.MonkeyPatch):
    harness, sign = sqlite_harness, KeySigner.sign_transaction
    observed_nonces: list[tuple[int, list[int]]] = []

    def watched(signer: KeySigner, transaction: TransactionRequest) -> SignedBytes:
        observed_nonces.append((transaction.nonce, open_nonces(harness)))
        return sign(signer, transaction)

    monkeypatch.setattr(KeySigner, "sign_transaction", watched)
    harness.pushed()

    # One transaction, shown to each endpoint.
    assert len({sent for sent, _ in observed_nonces}) == 1
    assert all(nonce in stored for nonce, stored in observed_nonces)


def test_process_without_the_lease_cannot_change_the_outbox(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.index()
    before = harness.reports()
    with harness.store.transaction() as uow:
        uow.lease.release(harness.epoch)
        assert uow.lease.acquire("a second daemon", 3600) is not None

    with pytest.raises(FatalError, match="has taken over the lease"):
        harness.tick()
    assert (harness.intents(), harness.reports()) == ([], before)


def stored_bytes(harness: Harness) -> list[str]:
    with harness.store.read_transaction() as uow:
        return [
            "0x" + attempt.signed.raw.hex()
            for slot in uow.outbox.slots.list_unfinished(harness.context.account)
            for attempt in uow.outbox.slots.list_attempts(slot)
        ]


def open_nonces(harness: Harness) -> list[int]:
    with harness.store.read_transaction() as uow:
        return [slot.nonce for slot in uow.outbox.slots.list_unfinished(harness.context.account)]
