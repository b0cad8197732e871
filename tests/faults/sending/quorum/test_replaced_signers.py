"""The contract's signers change while a report is pending: the report is signed again."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from oracle.reporting.report_planner import plan_push
from oracle.signing.signer import Signer
from tests.support.evm.chain import encode_calldata
from tests.support.harness import Harness, OracleTestbed
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.reporters import ReporterGroup, run_reporter_group
from tests.support.sending.signers import build_signer_replacement, set_signers
from tests.support.txmgr.stores import NewStore


@pytest.fixture
def reporter_trio(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[ReporterGroup]:
    """Yield three reporters, the first of which transmits."""
    with ExitStack() as until_the_end:
        stores = [until_the_end.enter_context(new_sqlite_store()) for _ in range(3)]
        yield until_the_end.enter_context(run_reporter_group(testbed, stores, tmp_path))


def list_statement_digests(harness: Harness) -> list[tuple[str, str | None]]:
    """Return digest and expiry reason of the first round's statements, the newest first."""
    with harness.store.read_transaction() as uow:
        statements = uow.statements.list_for_round(harness.testbed.address, 1)
    return [(statement.digest, statement.expiry_reason) for statement in statements]


def test_case_f62_report_is_signed_again_after_signer_replacement(
    reporter_trio: ReporterGroup,
):
    first = reporter_trio.first.harness
    reporter_trio.period()
    for reporter in reporter_trio.others:
        reporter.tick()
    first.index()
    planned = first.repeat(plan_push)
    assert [step.action for step in planned] == ["report signed", "push planned"]

    keys = [reporter.harness.context.sender_account.signer for reporter in reporter_trio.reporters]
    set_signers(first, *keys[:2], needed=2)
    for _ in range(2):
        for reporter in (*reporter_trio.others, reporter_trio.first):
            reporter.tick()
    first.mine()
    reporter_trio.first.tick()
    assert reporter_trio.testbed.round == 1
    (fresh, alive), (_, dead) = list_statement_digests(first)
    assert (alive, dead) == (None, "config_replaced")
    assert first.intents()[-1].request.digest == fresh
    assert first.states()[0] == "expired"


def test_report_of_the_new_signers_replaces_the_pending_push(sqlite_harness: Harness):
    harness, mine = sqlite_harness, sqlite_harness.context.sender_account.signer
    send_unmined_push(harness)
    nonce = get_only_intent(harness).nonce
    # The same signers are set again: a new configuration, under which nothing is signed yet.
    set_signers_in_expensive_block(harness, mine)
    harness.tick()
    old, fresh = harness.intents()
    assert (old.state.value, fresh.state.value) == ("live", "live")
    assert (fresh.nonce, fresh.replaces) == (nonce, old.id)
    assert fresh.request.digest != old.request.digest

    harness.mine()
    harness.until_final()
    assert harness.states() == ["superseded", "final"]
    assert harness.testbed.round == 1


def set_signers_in_expensive_block(harness: Harness, *signers: Signer) -> None:
    """Set these signers in a block that is too expensive for our push."""
    chain, admin = harness.testbed.chain, harness.testbed.network.admin
    call = {
        "from": admin,
        "to": harness.testbed.oracle.address,
        "data": encode_calldata(build_signer_replacement(harness, signers, len(signers))),
        "gas": hex(1_000_000),
        "maxFeePerGas": hex(1_000 * GWEI),
        "maxPriorityFeePerGas": hex(GWEI),
    }
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    sent = chain.rpc("eth_sendTransaction", call)
    mine_expensive_blocks(harness, 5 * GWEI)
    assert "ConfigSet" in chain.receipt(sent).names
