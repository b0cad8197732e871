"""A push whose commits lose their responses, one at a time, results in one transaction.

The tests use real PostgreSQL behind a proxy, transactions on Anvil, and a daemon that is not
restarted.
"""

from pathlib import Path

import psycopg
import pytest

from oracle.errors import TransientError
from oracle.store.database import Store
from oracle.store.outbox.records import PUSH
from tests.support.evm.chain import Chain
from tests.support.harness import Harness, OracleTestbed
from tests.support.lossy_postgresql import CommitLoss, LossyProxy, run_lossy_proxy
from tests.support.postgresql import Server
from tests.support.sending.journals import find_journal_gaps
from tests.support.sending.phases import run_push

pytestmark = [pytest.mark.timeout(900), pytest.mark.postgres]
# Each loss ends one tick; a few more ticks follow.
_TICKS = 6


def push_until_done(harness: Harness) -> None:
    """Push as the daemon's loop does: after a transient error, the next tick tries again."""
    for _ in range(_TICKS):
        try:
            run_push(harness)
        except TransientError:
            continue
        return
    raise AssertionError(f"nothing but failures in {_TICKS} ticks")


def count_push_commits(testbed: OracleTestbed, url: str, proxy: LossyProxy, evidence: Path) -> int:
    with Store.open(url) as store:
        harness = Harness(testbed, store, evidence)
        harness.period()
        before = proxy.commits
        run_push(harness)
        harness.close()
    return proxy.commits - before


def count_signed_transactions(url: str) -> int:
    with psycopg.connect(url) as database:
        row = database.execute("SELECT count(*) FROM pub_attempt").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("loss", list(CommitLoss), ids=lambda connection: connection.name.lower())
def test_push_is_sent_once_if_a_commit_response_is_lost(
    testbed: OracleTestbed,
    fresh_chain: Chain,
    postgresql_server: Server,
    postgresql_template: str,
    tmp_path: Path,
    loss: CommitLoss,
):
    def database_of(place: int) -> Path:
        return tmp_path / str(place)

    with (
        fresh_chain.undone(),
        postgresql_server.database(postgresql_template) as url,
        run_lossy_proxy(url) as (proxy, proxied),
    ):
        commits = count_push_commits(testbed, proxied, proxy, database_of(0))
    # Signed, planned, ready, assigned, signed, sent, mined, final.
    assert commits >= 8

    for spared in range(commits):
        with (
            fresh_chain.undone(),
            postgresql_server.database(postgresql_template) as url,
            run_lossy_proxy(url) as (proxy, proxied),
            Store.open(proxied) as store,
        ):
            harness = Harness(testbed, store, database_of(spared + 1))
            nonce = testbed.nonce
            harness.period()
            proxy.lose(loss, spared=spared)
            push_until_done(harness)

            assert proxy.hits == 1, spared
            assert testbed.round == 1, spared
            assert testbed.nonce == nonce + 1, spared
            assert harness.states(PUSH) == ["final"], spared
            assert harness.intents(PUSH)[0].nonce == nonce, spared
            assert [state for state, _ in harness.reports()].count("landed") == 1, spared
            assert find_journal_gaps(harness) == [], spared
            assert count_signed_transactions(url) == 1, spared
            harness.close()
