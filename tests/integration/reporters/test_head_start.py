"""A reporter that leaves others a head start delays neither them nor itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.store.database import Store
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.harness import LIMITS, Harness, OracleTestbed
from tests.support.sending.rounds import list_signed_statements, plan_round
from tests.support.txmgr.harness_fixtures import fresh_testbed, testbed

__all__ = ["chain", "fresh_chain", "fresh_testbed", "testbed"]

HEAD_START = 500


@pytest.fixture
def second(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[Harness]:
    """Return a reporter that sends only if no other has for eight minutes of chain time."""
    with Store.open(sqlite_url) as opened:
        harness = Harness(
            testbed, opened, tmp_path / "evidence", equipment={"head_start": HEAD_START}
        )
        yield harness
        harness.close()


def bring(chain: Chain, harness: Harness) -> None:
    """Let another reporter send the planned report."""
    (push,) = [intent for intent in harness.intents() if intent.state == "planned"]
    chain.transact(to=harness.testbed.oracle.address, data=push.request.calldata)


def test_deferred_push_is_superseded_by_a_mined_push(second: Harness):
    plan_round(second)
    bring(second.testbed.chain, second)
    second.tick()
    assert second.states() == ["superseded"]

    plan_round(second)
    assert second.testbed.round == 1
    (push,) = [intent for intent in second.intents() if intent.state == "planned"]
    assert push.request.round == 2


def test_deferred_push_does_not_block_signing_the_next_report(second: Harness):
    plan_round(second)
    (old,) = list_signed_statements(second, 1)
    # Its block leaves the anchor window before its turn to send.
    for _ in range(2):
        second.mine(LIMITS.anchor_window // 2)
        second.tick()
    # No other statement is signed before that is final, which takes 64 blocks on Anvil.
    second.mine(64)
    second.period()
    second.tick()

    new, buried = list_signed_statements(second, 1)
    assert (buried.digest, buried.expiry_reason) == (old.digest, "expired")
    assert new.expiry_reason is None
    assert second.states() == ["planned"]
