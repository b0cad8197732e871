"""One endpoint shows invented blocks after the newest block, with later times or heights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from oracle.domain.reports.report import Report
from oracle.quorum.sign_once import sign_once
from oracle.quorum.statements import build_report_statement, build_statement_record
from oracle.reporting.readiness import find_unsent_report_reason
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import SignedStatement
from tests.support.harness import FINALITY, LIMITS, SETTINGS, Harness, create_sending_jobs
from tests.support.sending.faults import freeze_at_block
from tests.support.sending.proxy import EVERY, Proxy
from tests.support.sending.rounds import flip_lowest_bit, list_signed_statements, plan_round
from tests.support.sending.signers import set_signers


@contextmanager
def show_invented_blocks(
    harness: Harness, honest: Proxy, *, seconds: int, blocks: int
) -> Iterator[None]:
    """Let the other endpoint show blocks that the chain does not have afterwards.

    The first invented block is `seconds` after the newest one.
    """
    chain = harness.testbed.chain
    honest.rule(EVERY, freeze_at_block(chain.block))
    with chain.undone():
        chain.later(seconds)
        chain.mine(blocks)
        yield
    honest.heal()


def get_due_report(harness: Harness) -> Report:
    with harness.store.read_transaction() as uow:
        return uow.reports.list_due()[0].report


def request_signature(harness: Harness, report: Report) -> SignedStatement | None:
    """Return a signed statement of the report for the next round, or None if it is refused."""
    contract_status = harness.contract.fetch_status()
    statement = build_report_statement(report, contract_status)
    record = build_statement_record(harness.quorum, statement)
    return sign_once(harness.quorum, statement, record, contract_status)


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(
    ("seconds", "blocks"),
    [(SETTINGS.ttl_seconds + 60, 3), (2**31, FINALITY + 3), (60, LIMITS.anchor_window + 3)],
    ids=["past its deadline", "far future", "out of the anchor window"],
)
def test_fabricated_blocks_cause_no_second_statement(
    proxied_harness: Harness,
    proxies: tuple[Proxy, Proxy],
    position: int,
    seconds: int,
    blocks: int,
):
    harness, honest = proxied_harness, proxies[1 - position]
    plan_round(harness)
    (first,) = list_signed_statements(harness, 1)
    second_report = replace(get_due_report(harness), root=flip_lowest_bit(first.root))
    for _ in range(2):
        with show_invented_blocks(harness, honest, seconds=seconds, blocks=blocks):
            harness.index()
            assert request_signature(harness, second_report) is None
            harness.restart()
            assert request_signature(harness, second_report) is None
        harness.restart()

    assert list_signed_statements(harness, 1) == [first]
    # The statement is still valid on the chain, and lands.
    harness.mine()
    harness.tick()
    harness.mine()
    harness.tick()
    assert (harness.testbed.round, list_signed_statements(harness, 1)) == (1, [first])


@pytest.mark.parametrize("position", [0, 1])
def test_fabricated_configuration_causes_no_second_statement(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], position: int
):
    """A statement under the invented configuration may be signed, because it cannot land."""
    harness, honest = proxied_harness, proxies[1 - position]
    plan_round(harness)
    (first,) = list_signed_statements(harness, 1)
    second_report = replace(get_due_report(harness), root=flip_lowest_bit(first.root))
    for _ in range(2):
        with show_invented_blocks(harness, honest, seconds=1, blocks=1):
            set_signers(harness, harness.context.sender_account.signer, needed=1)
            harness.index()
            request_signature(harness, second_report)
        harness.restart()
        harness.mine(2)
        harness.index()
        assert request_signature(harness, second_report) is None

    landable = [
        record.digest
        for record in list_signed_statements(harness, 1)
        if record.config == first.config
    ]
    assert landable == [first.digest]


@pytest.mark.parametrize("position", [0, 1])
def test_fabricated_round_causes_no_second_statement(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], position: int
):
    harness, honest = proxied_harness, proxies[1 - position]
    plan_round(harness)
    (first,) = list_signed_statements(harness, 1)
    second_report = replace(get_due_report(harness), root=flip_lowest_bit(first.root))
    contract_status = harness.contract.fetch_status()
    (push,) = harness.intents()
    with show_invented_blocks(harness, honest, seconds=1, blocks=1):
        chain = harness.testbed.chain
        sender = harness.testbed.network.admin
        chain.rpc(
            "eth_sendTransaction",
            {"from": sender, "to": harness.testbed.address, "data": push.request.calldata},
        )
        chain.mine()
        harness.index()
        with harness.store.read_transaction() as uow:
            # The first endpoint is preferred.
            assert (uow.rounds.find_accepted_round(1) is not None) == (position == 0)
        statement = build_report_statement(second_report, contract_status)
        record = build_statement_record(harness.quorum, statement)
        assert sign_once(harness.quorum, statement, record, contract_status) is None

    assert list_signed_statements(harness, 1) == [first]


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("is_signed", [False, True])
def test_fabricated_blocks_cause_no_missed_report(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], position: int, *, is_signed: bool
):
    harness = proxied_harness
    harness.period()
    harness.index()
    if is_signed:
        step = plan_push(harness.reporting, harness.source.fetch_heads())
        assert step is not None
        assert step.action == "report signed"
    seconds = SETTINGS.ttl_seconds + 60
    with show_invented_blocks(harness, proxies[1 - position], seconds=seconds, blocks=3):
        harness.index()
        plan_push(harness.reporting, harness.source.fetch_heads())
    harness.restart()

    assert harness.reports()[0] == ("due", None)


def test_fabricated_blocks_do_not_end_the_signing_embargo(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    harness.contexts.start_signing_embargo()
    harness.period()
    harness.index()
    report = get_due_report(harness)
    with show_invented_blocks(harness, proxies[1], seconds=2 * SETTINGS.ttl_seconds, blocks=3):
        harness.index()
        assert request_signature(harness, report) is None
    assert list_signed_statements(harness, 1) == []

    harness.testbed.chain.later(SETTINGS.ttl_seconds)
    harness.testbed.chain.mine()
    harness.tick()
    reason = find_unsent_report_reason(harness.reporting)
    assert reason is not None
    assert "is final" in reason
    harness.mine(FINALITY)
    harness.pushed()


def test_fabricated_blocks_do_not_confirm_a_receipt(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    harness.restart(confirmations=FINALITY + 4)
    harness.pushed()
    # The receipt's block is final, but lacks confirmations.
    harness.mine(FINALITY)
    harness.index()
    with show_invented_blocks(harness, proxies[1], seconds=1, blocks=8):
        harness.index()
        # The daemon's heads, whose final block a second provider has confirmed.
        create_sending_jobs(harness).confirm_transactions()
        heads = harness.ingest.heads
    assert heads is not None
    assert (heads.latest.number - heads.final.number, harness.states()) == (12, ["mined"])

    harness.restart()
    harness.mine(4)
    harness.tick()
    assert harness.states() == ["final"]
