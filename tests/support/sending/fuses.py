"""A process that dies where a test says: around every commit, every signature and every send.

A fuse burns once, at the n-th point that is passed or at the first of a name.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import NamedTuple, cast

import msgspec
import pytest
from sqlalchemy import select

from oracle.domain.ids import Address
from oracle.rpc.transport import BoundedHttp, RawHttpResponse
from oracle.signing.signer import SignedBytes, Signer, Statement, TransactionRequest
from oracle.signing.typed_data import Domain
from oracle.store.database import Store, UnitOfWork
from oracle.store.tables.outbox_tables import pub_attempt
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.office import Office
from tests.support.sending.proxy import SEND


class Crash(BaseException):
    """The process is gone: nothing catches it, nothing runs after it."""


class Fuse:
    """Burns at one of the points that it is told of: a number from 0, or a name; then never again.

    `sent`: bytes that left, in their order; `unstored`: those that left before the database had
    them (I3).
    """

    def __init__(self, at: int | str | None = None) -> None:
        self.passed: list[str] = []
        self.sent: list[str] = []
        self.unstored: list[str] = []
        self._at = at

    def begins(self) -> None:
        """Pass the moment before a write, which is as good as after the last one to die at."""

    def point(self, name: str) -> None:
        """Pass a point.

        Raises:
            Crash: it is the one to die at.
        """
        place = len(self.passed)
        self.passed.append(name)
        if self._at in {place, name}:
            self._at = None
            raise Crash(name)


class Deaths(NamedTuple):
    """Where to die, of the points that a whole run passes.

    At every one on SQLite. PostgreSQL, where a death takes seconds more and which can differ only
    in what a commit keeps, dies at the first point of each name.
    """

    is_everywhere: bool

    def of(self, passed: Sequence[str]) -> list[tuple[int, str]]:
        """Return points by number and name, in their order."""
        if self.is_everywhere:
            return list(enumerate(passed))
        return sorted((passed.index(name), name) for name in set(passed))


class FusedStore:
    """A store whose writer may die just before and just after each commit."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

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
    """A key whose process may die once it has signed, before anybody has the signature."""

    def __init__(self, signer: Signer, fuse: Fuse) -> None:
        self._signer = signer
        self._fuse = fuse

    @property
    def address(self) -> Address:
        return self._signer.address

    def sign_statement(self, statement: Statement, domain: Domain) -> bytes:
        """Sign, and pass a point."""
        signed = self._signer.sign_statement(statement, domain)
        self._fuse.point("after signing a statement")
        return signed

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign, and pass a point."""
        signed = self._signer.sign_transaction(transaction)
        self._fuse.point("after signing a transaction")
        return signed


@contextmanager
def fused(office: Office, fuse: Fuse) -> Iterator[None]:
    """The publishing side runs on the fuse; indexing, which has tests of its own, does not."""
    original_context, post = office.context, BoundedHttp.post
    keys = original_context.sender_account.keys
    assert keys.signer is not None
    assert keys.transmitter is not None

    def fused_post(self: BoundedHttp, body: bytes, *seconds: float) -> RawHttpResponse:
        sent = _sent(body)
        if not sent:
            return post(self, body, *seconds)
        fuse.sent += sent
        fuse.unstored += [raw for raw in sent if not _is_stored(office, raw)]
        fuse.point("before a send")
        answer = post(self, body, *seconds)
        fuse.point("after a send")
        return answer

    with pytest.MonkeyPatch.context() as patched:
        signer, payer = FusedSigner(keys.signer, fuse), FusedSigner(keys.transmitter, fuse)
        patched.setattr(BoundedHttp, "post", fused_post)
        patched.setattr(original_context.sender_account, "_keys", ReporterKeys(signer, payer))
        patched.setattr(original_context.sender_account, "_payer", payer)
        office.context = replace(
            original_context, store=cast("Store", FusedStore(office.store, fuse))
        )
        yield
    office.context = original_context


def _sent(body: bytes) -> list[str]:
    payload = msgspec.json.decode(body)
    requests = payload if isinstance(payload, list) else [payload]
    return [request["params"][0] for request in requests if request["method"] == SEND]


def _is_stored(office: Office, raw: str) -> bool:
    """Look with eyes of one's own: not in the transaction of whoever sends."""
    with office.store.read_transaction() as uow:
        stored = select(pub_attempt.c.nonce).where(pub_attempt.c.raw_tx == bytes.fromhex(raw[2:]))
        return uow.lease._connection.execute(stored).first() is not None
