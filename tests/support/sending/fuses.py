"""A process that dies where a test chooses: around each commit, signature and send.

A fuse burns once, at the n-th point passed or at the first point with a name.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import NamedTuple, cast

import msgspec
import pytest
from sqlalchemy import select

from oracle.domain.ids import Address
from oracle.rpc.transport import BoundedHttp, RawHttpResponse
from oracle.signing.signer import SignedBytes, Signer, TransactionRequest
from oracle.signing.typed_data import Domain, SignableStatement
from oracle.store.database import Store, UnitOfWork
from oracle.store.tables.outbox_tables import pub_attempt
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.harness import Harness
from tests.support.sending.proxy import SEND


class Crash(BaseException):
    """The process has died: nothing may catch this exception."""


class Fuse:
    """Raises Crash once, at a point given by its number, counted from 0, or by its name.

    `sent`: the transactions sent, in order. `unstored`: those that were sent before they were in
    the database (I3).
    """

    def __init__(self, at: int | str | None = None) -> None:
        self.passed: list[str] = []
        self.sent: list[str] = []
        self.unstored: list[str] = []
        self._at = at

    def begins(self) -> None:
        """Do nothing before a write, because dying here equals dying at the point before."""

    def point(self, name: str) -> None:
        """Record a point, and die there if it is the chosen one.

        Raises:
            Crash: the process dies at this point.
        """
        place = len(self.passed)
        self.passed.append(name)
        if self._at in {place, name}:
            self._at = None
            raise Crash(name)


class Deaths(NamedTuple):
    """Selects the points to die at, among those that a complete run passes.

    On SQLite these are all points. On PostgreSQL, where a death takes seconds longer and can only
    differ in what a commit keeps, it is the first point of each name.
    """

    is_everywhere: bool

    def of(self, passed: Sequence[str]) -> list[tuple[int, str]]:
        """Return the selected points by number and name, in order."""
        if self.is_everywhere:
            return list(enumerate(passed))
        return sorted((passed.index(name), name) for name in set(passed))


class FusedStore:
    """A store whose writer may die just before and just after each commit."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

    def call_before_close(self, stop_reader: Callable[[], None]) -> None:
        self._store.call_before_close(stop_reader)

    def read_transaction(self) -> AbstractContextManager[UnitOfWork]:
        return self._store.read_transaction()

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        self._fuse.begins()
        with self._store.transaction() as uow:
            yield uow
            self._fuse.point("before a commit")
        self._fuse.point("after a commit")


class FusedSigner:
    """A key whose process may die after signing, before the signature is returned."""

    def __init__(self, signer: Signer, fuse: Fuse) -> None:
        self._signer = signer
        self._fuse = fuse

    @property
    def address(self) -> Address:
        return self._signer.address

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        """Sign a statement, and pass a point at which the process may die."""
        signed = self._signer.sign_statement(statement, domain)
        self._fuse.point("after signing a statement")
        return signed

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign a transaction, and pass a point at which the process may die."""
        signed = self._signer.sign_transaction(transaction)
        self._fuse.point("after signing a transaction")
        return signed


@contextmanager
def install_fuse(harness: Harness, fuse: Fuse) -> Iterator[None]:
    """Run the publishing side with a fuse; indexing has its own tests and never dies."""
    original_context, post = harness.context, BoundedHttp.post
    keys = original_context.sender_account.keys
    assert keys.signer is not None
    assert keys.transmitter is not None

    def fused_post(self: BoundedHttp, body: bytes, *seconds: float) -> RawHttpResponse:
        sent = _list_sent_transactions(body)
        if not sent:
            return post(self, body, *seconds)
        fuse.sent += sent
        fuse.unstored += [raw for raw in sent if not _is_stored(harness, raw)]
        fuse.point("before a send")
        answer = post(self, body, *seconds)
        fuse.point("after a send")
        return answer

    with pytest.MonkeyPatch.context() as patched:
        signer = FusedSigner(keys.signer, fuse)
        payer = FusedSigner(keys.transmitter, fuse)
        patched.setattr(BoundedHttp, "post", fused_post)
        patched.setattr(original_context.sender_account, "_keys", ReporterKeys(signer, payer))
        patched.setattr(original_context.sender_account, "_payer", payer)
        harness.context = replace(
            original_context, store=cast("Store", FusedStore(harness.store, fuse))
        )
        yield
    harness.context = original_context


def _list_sent_transactions(body: bytes) -> list[str]:
    payload = msgspec.json.decode(body)
    requests = payload if isinstance(payload, list) else [payload]
    return [request["params"][0] for request in requests if request["method"] == SEND]


def _is_stored(harness: Harness, raw: str) -> bool:
    """Read the database in a separate connection, outside of the sender's transaction."""
    with harness.store.read_transaction() as uow:
        stored = select(pub_attempt.c.nonce).where(pub_attempt.c.raw_tx == bytes.fromhex(raw[2:]))
        return uow.lease._connection.execute(stored).first() is not None
