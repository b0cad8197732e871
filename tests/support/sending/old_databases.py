"""Databases that are older than the chain, or empty, and daemons that start with them."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.errors import InputError
from oracle.quorum.key_watch import build_embargo_writer, build_signing_embargo
from oracle.store.database import Store
from oracle.store.outbox.records import REBUILT
from oracle.txmgr.context import AccountContext
from oracle.txmgr.rebuild_from_chain import RebuildPlan, rebuild_outbox
from tests.support.harness import Harness


def copy_database(harness: Harness, folder: Path) -> Store:
    """Return a copy of the database as a backup contains it."""
    url = harness.store._url
    assert url.database is not None
    copy = folder / "copy.sqlite"
    with closing(sqlite3.connect(url.database)) as original, closing(sqlite3.connect(copy)) as to:
        original.backup(to)
    return Store.open(f"sqlite:///{copy}")


def prepare_empty_store(harness: Harness, fresh: Store) -> Store:
    """Prepare an empty database for the same chain and the same lease, and return it."""
    with harness.store.read_transaction() as uow:
        identity = uow.identity.get()
    assert identity is not None
    with fresh.transaction() as uow:
        uow.identity.ensure_stored_identity(identity)
        assert uow.lease.acquire("test", 3600) == harness.epoch
    return fresh


def restart_with_refused_store(harness: Harness, store: Store) -> AccountContext:
    """Restart with a database that the daemon refuses, and return the daemon's context."""
    with pytest.raises(InputError, match="outbox rebuild --from-chain"):
        harness.restart(store=store)
    return harness.context


def get_next_nonce(context: AccountContext) -> int | None:
    with context.store.read_transaction() as uow:
        return uow.outbox.accounts.find_next_nonce(context.account)


def get_rebuild_reasons(harness: Harness) -> dict[int, str | None]:
    """Return the recorded reason of each rebuilt nonce."""
    return {intent.nonce or 0: intent.error_text for intent in harness.intents(REBUILT)}


def store_rebuild_plan(harness: Harness, context: AccountContext, findings: RebuildPlan) -> None:
    """Store the findings as `outbox rebuild` does.

    If signatures may be lost as well, the signing embargo begins.
    """
    quorum = replace(harness.quorum, account_context=context)
    signing = build_signing_embargo(quorum) if findings.may_have_lost_calls else None
    rebuild_outbox(context, findings, "somebody", build_embargo_writer(quorum, signing))
