"""Calls that the contract rejects, and what happens to their reports."""

from dataclasses import replace

import pytest

from oracle.errors import TransientError
from oracle.reporting.report_planner import plan_push
from oracle.txmgr.admission import admit_calls
from tests.support import harness as harnesses
from tests.support.harness import LIMITS, RULES_HASH, SETTINGS, Harness, run_next_step
from tests.support.sending.in_flight import get_only_intent
from tests.support.sending.proxy import SEND, Proxy


@pytest.mark.parametrize("age", [100, 300])
def test_case_f35_old_block_is_accepted_in_a_larger_anchor_window(
    sqlite_harness: Harness, monkeypatch: pytest.MonkeyPatch, age: int
):
    harness = sqlite_harness
    limits = replace(LIMITS, anchor_window=8191)
    monkeypatch.setattr(harnesses, "LIMITS", limits)
    limit_values = tuple(getattr(limits, name) for name in limits.__slots__)
    testbed = harness.testbed
    testbed.chain.send(
        testbed.oracle.functions.setLimits(limit_values), sender=testbed.network.admin
    )
    harness.restart()
    harness.period()
    harness.index()
    testbed.chain.mine(age)
    harness.tick()
    harness.mine()

    assert testbed.round == 1
    assert (get_only_intent(harness).request.as_of_block or 0) < testbed.chain.block - age


def test_case_f35_report_beyond_the_anchor_window_is_missed(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    harness.period()
    harness.index()
    harness.testbed.chain.mine(LIMITS.anchor_window + 1)
    harness.tick()

    assert ("missed", "as-of left the anchor window") in harness.reports()
    with harness.store.read_transaction() as uow:
        signed = uow.statements.list_for_round(harness.testbed.address, 1)
    assert (signed, harness.intents()) == ([], [])


def test_case_f39_report_block_is_at_least_two_below_the_head(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    chain, length = harness.testbed.chain, SETTINGS.period_seconds
    harness.pushed()
    chain.at(chain.time // length * length + 2 * length - 1)
    chain.mine()
    # The newest block begins the next period, so a report is cut as of the block before it.
    harness.mine()
    harness.tick()
    assert harness.reports()[-1][0] == "due"
    assert len(harness.intents()) == 1

    harness.mine()
    harness.tick()
    last = harness.intents()[1]
    assert (last.state.value, last.error_class) == ("live", None)
    assert last.request.as_of_block == chain.block - 2
    tried = [
        request["params"]
        for request in proxies[0].received_requests
        if request["method"] == "eth_call"
    ]
    assert [block for call, block in tried if call["data"] == last.request.calldata] != []


def test_case_f63_nothing_is_sent_after_an_onchain_rules_change(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    testbed = harness.testbed
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    other_rules = bytes.fromhex("77" * 32)
    testbed.chain.send(
        testbed.oracle.functions.setRules(other_rules), sender=testbed.network.admin
    )
    harness.index()
    harness.repeat(run_next_step)
    # A call planned under the previous rules expires, even if these rules return.
    assert get_only_intent(harness).state.value == "expired"

    harness.testbed.chain.later(601)
    harness.testbed.chain.mine()
    harness.period()
    with pytest.raises(TransientError, match="the contract requires rules 0x7777"):
        harness.tick()
    assert [proxy.count(SEND) for proxy in proxies] == [0, 0]

    # Upgraded: here the rules come back.
    testbed.chain.send(
        testbed.oracle.functions.setRules(bytes.fromhex(RULES_HASH[2:])),
        sender=testbed.network.admin,
    )
    harness.period()
    harness.tick()
    harness.mine()
    assert testbed.round == 1


def test_case_f64_push_waits_until_the_contract_is_unpaused(sqlite_harness: Harness):
    harness = sqlite_harness
    testbed, chain = harness.testbed, harness.testbed.chain
    admin = testbed.network.admin
    testbed.chain.send(testbed.oracle.functions.setPauser(admin), sender=admin)
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    testbed.chain.send(testbed.oracle.functions.pauseFor(300), sender=admin)
    until = chain.time + 300
    harness.tick()
    once_a_period = chain.time + SETTINGS.period_seconds
    assert (get_only_intent(harness).error_class, get_only_intent(harness).request.not_before) == (
        "Paused",
        once_a_period,
    )

    # No request is sent in every block.
    chain.at(once_a_period - 2)
    chain.mine()
    heads = harness.source.fetch_heads()
    assert admit_calls(harness.context, heads) is None

    chain.at(until)
    chain.mine()
    harness.tick()
    harness.mine()
    assert testbed.round == 1
