"""Calls that the contract rejects, and what happens to their reports."""

from dataclasses import replace

import pytest

from oracle.errors import TransientError
from oracle.reporting.report_planner import plan_push
from oracle.txmgr.admission import admit_calls
from tests.support import office as offices
from tests.support.office import LIMITS, RULES_HASH, SETTINGS, Office, next_step
from tests.support.sending.in_flight import get_only_intent
from tests.support.sending.proxy import SEND, Proxy


@pytest.mark.parametrize("age", [100, 300])
def test_case_f35_report_with_as_of_beyond_256_blocks_is_accepted_in_larger_anchor_window(
    sqlite_office: Office, monkeypatch: pytest.MonkeyPatch, age: int
):
    office = sqlite_office
    limits = replace(LIMITS, anchor_window=8191)
    monkeypatch.setattr(offices, "LIMITS", limits)
    limit_values = tuple(getattr(limits, name) for name in limits.__slots__)
    premises = office.premises
    premises.chain.send(
        premises.oracle.functions.setLimits(limit_values), sender=premises.network.admin
    )
    office.restart()
    office.period()
    office.index()
    premises.chain.mine(age)
    office.tick()
    office.mine()

    assert premises.round == 1
    assert (get_only_intent(office).request.as_of_block or 0) < premises.chain.block - age


def test_case_f35_report_with_as_of_beyond_anchor_window_is_marked_missed_before_signing(
    sqlite_office: Office,
):
    office = sqlite_office
    office.period()
    office.index()
    office.premises.chain.mine(LIMITS.anchor_window + 1)
    office.tick()

    assert ("missed", "as-of left the anchor window") in office.reports()
    with office.store.read_transaction() as uow:
        signed = uow.statements.list_for_round(office.premises.address, 1)
    assert (signed, office.intents()) == ([], [])


def test_case_f39_call_is_not_simulated_at_its_as_of_block(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    chain, length = office.premises.chain, SETTINGS.period_seconds
    office.pushed()
    chain.at(chain.time // length * length + 2 * length - 1)
    chain.mine()
    # The newest block begins the next period, so a report is cut as of the block before it.
    office.mine()
    office.tick()
    assert office.reports()[-1][0] == "due"
    assert len(office.intents()) == 1

    office.mine()
    office.tick()
    last = office.intents()[1]
    assert (last.state.value, last.error_class) == ("live", None)
    assert last.request.as_of_block == chain.block - 2
    tried = [request["params"] for request in proxies[0].asked if request["method"] == "eth_call"]
    assert [block for call, block in tried if call["data"] == last.request.calldata] != []


def test_case_f63_nothing_is_sent_after_rules_change_on_chain(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    premises = office.premises
    office.period()
    office.index()
    office.repeat(plan_push)
    other_rules = bytes.fromhex("77" * 32)
    premises.chain.send(
        premises.oracle.functions.setRules(other_rules), sender=premises.network.admin
    )
    office.index()
    office.repeat(next_step)
    # A call planned under the previous rules expires, even if these rules return.
    assert get_only_intent(office).state.value == "expired"

    office.premises.chain.later(601)
    office.premises.chain.mine()
    office.period()
    with pytest.raises(TransientError, match="the contract requires rules 0x7777"):
        office.tick()
    assert [proxy.count(SEND) for proxy in proxies] == [0, 0]

    # Upgraded: here the rules come back.
    premises.chain.send(
        premises.oracle.functions.setRules(bytes.fromhex(RULES_HASH[2:])),
        sender=premises.network.admin,
    )
    office.period()
    office.tick()
    office.mine()
    assert premises.round == 1


def test_case_f64_push_waits_until_contract_pause_ends(sqlite_office: Office):
    office = sqlite_office
    premises, chain = office.premises, office.premises.chain
    admin = premises.network.admin
    premises.chain.send(premises.oracle.functions.setPauser(admin), sender=admin)
    office.period()
    office.index()
    office.repeat(plan_push)
    premises.chain.send(premises.oracle.functions.pauseFor(300), sender=admin)
    until = chain.time + 300
    office.tick()
    once_a_period = chain.time + SETTINGS.period_seconds
    assert (get_only_intent(office).error_class, get_only_intent(office).request.not_before) == (
        "Paused",
        once_a_period,
    )

    # No request is sent in every block.
    chain.at(once_a_period - 2)
    chain.mine()
    heads = office.source.fetch_heads()
    assert admit_calls(office.context, heads) is None

    chain.at(until)
    chain.mine()
    office.tick()
    office.mine()
    assert premises.round == 1
