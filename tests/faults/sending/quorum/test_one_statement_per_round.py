"""One statement per round, whatever the chain and other transmitters do meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from oracle.quorum.sign_once import sign_once
from oracle.quorum.statements import build_report_statement, build_statement_record
from oracle.reporting.report_planner import plan_push
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.context import TransmitterRank
from tests.support.harness import FINALITY, SETTINGS, Harness, OracleTestbed, run_next_step
from tests.support.sending.faults import Fault
from tests.support.sending.in_flight import start_response
from tests.support.sending.proxy import Proxy
from tests.support.sending.reporters import create_second_transmitter, run_reporter_group
from tests.support.sending.rounds import (
    flip_lowest_bit,
    land_round,
    list_signed_statements,
    plan_round,
)
from tests.support.txmgr.stores import NewStore

# WrongRound(2, 1).
WRONG_ROUND = f"0x3f1ccd8d{2:064x}{1:064x}"


@pytest.fixture
def two_planned_transmitters(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[tuple[Harness, Harness]]:
    """Yield two transmitters that have planned the same push; the first has a head start."""
    standby = create_second_transmitter(testbed, tmp_path)
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        run_reporter_group(testbed, [first_store, second_store], tmp_path, standby) as pair,
    ):
        first, second = (reporter.harness for reporter in pair.reporters)
        second.context = replace(
            second.context, rank=TransmitterRank(has_others=True, head_start_seconds=60)
        )
        pair.period()
        for harness in (first, second, first):
            harness.index()
            harness.repeat(plan_push)
        yield first, second


def test_case_f48_second_transmitter_of_a_report_pays_nothing(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
):
    standby = create_second_transmitter(testbed, tmp_path)
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        run_reporter_group(testbed, [first_store, second_store], tmp_path, standby) as pair,
    ):
        first, second = (reporter.harness for reporter in pair.reporters)
        pair.period()
        for harness in (first, second):
            harness.index()
            harness.repeat(plan_push)
        second.repeat(plan_push)
        first.repeat(plan_push)
        assert [intent.request.digest for intent in first.intents()] == [
            intent.request.digest for intent in second.intents()
        ]
        first.repeat(run_next_step)
        first.mine()
        second.repeat(run_next_step)

        assert second.states() == ["superseded"]
        for _ in range(3):
            first.mine(3)
            second.tick()
        assert count_mined_transactions(second) == 0
        assert testbed.chain.rpc("eth_getBalance", standby.address, "latest") == hex(10**18)
        assert "landed" in [state for state, _ in second.reports()]


def test_second_transmitter_waits_for_the_head_start_of_the_first(
    testbed: OracleTestbed, two_planned_transmitters: tuple[Harness, Harness]
):
    _, second = two_planned_transmitters
    second.repeat(run_next_step)
    assert second.states() == ["planned"]

    # The first does not come.
    testbed.chain.later(60)
    testbed.chain.mine()
    second.tick()
    second.mine()
    assert testbed.round == 1
    assert count_mined_transactions(second) == 1


def test_case_f54_signed_report_lands_even_if_a_node_joins_afterwards(sqlite_harness: Harness):
    harness = sqlite_harness
    plan_round(harness)
    network = harness.testbed.network
    network.join(network.nodes[3])
    land_round(harness)

    assert harness.states() == ["mined"]
    assert harness.testbed.round == 1
    (statement,) = list_signed_statements(harness, 1)
    assert f"0x{harness.testbed.oracle.functions.lastRoot().call().hex()}" == statement.root


def test_case_f61_second_statement_for_a_round_is_rejected(harness: Harness):
    plan_round(harness)
    (first,) = list_signed_statements(harness, 1)
    quorum = harness.quorum
    with harness.store.read_transaction() as uow:
        report = uow.reports.list_due()[0].report
    changed_report = replace(report, root=flip_lowest_bit(report.root))
    standing = harness.contract.fetch_status()
    statement = build_report_statement(changed_report, standing)
    record = build_statement_record(quorum, statement)
    before = read_refused_statements()

    assert sign_once(quorum, statement, record, standing) is None
    assert read_refused_statements() == before + 1
    assert list_signed_statements(harness, 1) == [first]
    # A signer that signed anyway could not store the statement, and no other reporter would see
    # it.
    with pytest.raises(IntegrityError), harness.context.write_transaction() as uow:
        uow.statements.add(replace(record, signature=bytes(65)), harness.context.stamp)


def test_second_statement_is_rejected_at_any_anchor_window(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    plan_round(harness)
    # The as-of block is final.
    harness.mine(FINALITY)
    harness.index()
    (first,) = list_signed_statements(harness, 1)
    with harness.store.read_transaction() as uow:
        report = uow.reports.list_due()[0].report
    standing = harness.contract.fetch_status()
    false_standing = replace(standing, limits=replace(standing.limits, anchor_window=0))
    changed_report = replace(report, root=flip_lowest_bit(report.root))
    statement = build_report_statement(changed_report, false_standing)
    record = build_statement_record(harness.quorum, statement)

    assert sign_once(harness.quorum, statement, record, false_standing) is None
    assert list_signed_statements(harness, 1) == [first]


def read_refused_statements() -> float:
    name = "oracle_quorum_statements_refused_total"
    return REGISTRY.get_sample_value(name) or 0.0


def test_contract_is_not_called_while_a_round_awaits_finality(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    plan_round(harness)
    land_round(harness)
    assert harness.states() == ["mined"]
    for proxy in proxies:
        proxy.forget()

    assert harness.repeat(plan_push) == []
    assert [proxy.count("eth_call") for proxy in proxies] == [0, 0]


def test_signed_report_is_missed_if_not_sent_by_its_deadline(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
):
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        run_reporter_group(testbed, [first_store, second_store], tmp_path) as pair,
    ):
        # This reporter only signs, and no transmitter sends.
        second = pair.others[0].harness
        pair.period()
        second.tick()
        testbed.chain.later(SETTINGS.ttl_seconds + 1)
        testbed.chain.mine()
        # A block after the deadline is final.
        second.mine(FINALITY)
        second.tick()

        with second.store.read_transaction() as uow:
            fates = [
                (stored_report.state, stored_report.reason)
                for stored_report in uow.reports.list_newest(1000)
                if stored_report.digest
            ]
        assert fates[0] == ("missed", "its deadline passed")


def test_pending_push_of_another_transmitter_extends_the_head_start(
    testbed: OracleTestbed, two_planned_transmitters: tuple[Harness, Harness]
):
    first, second = two_planned_transmitters
    # The first is late: its push is sent as the other's head start is over.
    testbed.chain.later(60)
    testbed.chain.mine()
    first.repeat(run_next_step)
    second.tick()
    (push,) = second.intents()
    assert (push.state.value, push.error_class) == ("planned", "yielded")
    assert push.request.not_before == testbed.chain.time + 60

    second.mine()
    second.tick()
    assert (second.states(), testbed.round) == (["superseded"], 1)
    assert count_mined_transactions(second) == 0


def test_assigned_nonce_is_released_if_another_push_is_pending(
    testbed: OracleTestbed, two_planned_transmitters: tuple[Harness, Harness]
):
    first, second = two_planned_transmitters
    testbed.chain.later(60)
    testbed.chain.mine()
    second.index()
    while second.states() != ["assigned"]:
        assert run_next_step(second.context, second.source.fetch_heads()) is not None
    # Within one step of the second transmitter.
    first.repeat(run_next_step)
    second.repeat(run_next_step)
    (push,) = second.intents()
    assert (push.state.value, push.nonce, push.error_class) == ("planned", None, "yielded")

    second.mine()
    second.tick()
    assert (second.states(), testbed.round, count_mined_transactions(second)) == (
        ["superseded"],
        1,
        0,
    )


def test_false_claim_of_an_accepted_round_does_not_stop_the_push(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    harness.context = replace(
        harness.context, rank=TransmitterRank(has_others=True, head_start_seconds=60)
    )
    wrong_round_error = {"code": 3, "message": "execution reverted", "data": WRONG_ROUND}
    always = Fault(
        answer=lambda request, _: {**start_response(request), "error": wrong_round_error}
    )
    proxies[0].rule("eth_call", always, when=lambda request: request["params"][1] == "pending")
    plan_round(harness)
    for _ in range(2):
        assert harness.states() == ["planned"]
        chain.later(60)
        chain.mine()
        harness.tick()
    assert harness.states() == ["live"]
    harness.mine()
    assert harness.testbed.round == 1


def count_mined_transactions(harness: Harness) -> int:
    """Return the number of mined transactions of the harness's transmitter."""
    used = harness.testbed.chain.rpc(
        "eth_getTransactionCount", harness.context.account.address, "latest"
    )
    return int(used, 16)
