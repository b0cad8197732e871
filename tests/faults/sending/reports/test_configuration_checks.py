"""Chain and contract must match the configuration before anything is signed."""

from dataclasses import replace

import pytest

from oracle.bindings.inspection import ExpectedConfiguration, find_configuration_mismatches
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.reporting.report_planner import plan_push
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.nonce_sync import reconcile_nonces
from tests.pools import pool_of
from tests.support.harness import LIMITS, RULES_HASH, SETTINGS, Harness, run_next_step
from tests.support.sending.faults import drop_request, return_chain_id
from tests.support.sending.in_flight import list_attempts
from tests.support.sending.proxy import EVERY, Proxy


def build_expected_configuration(harness: Harness) -> ExpectedConfiguration:
    testbed = harness.testbed
    assert testbed.keys.signer is not None
    return ExpectedConfiguration(
        target=Address(testbed.network.contract.address.lower()),
        rules_hash=RULES_HASH,
        settings=SETTINGS,
        signer=testbed.keys.signer.address,
        transmitter=testbed.transmitter,
        anchor_window=LIMITS.anchor_window,
    )


def list_mismatched_subjects(
    harness: Harness, expected_configuration: ExpectedConfiguration
) -> list[str]:
    constitution = harness.contract.fetch_configuration()
    return [
        mismatch.subject
        for mismatch in find_configuration_mismatches(constitution, expected_configuration)
    ]


def test_case_f65_contract_with_different_code_or_rules_is_reported(sqlite_harness: Harness):
    harness, chain = sqlite_harness, sqlite_harness.testbed.chain
    assert list_mismatched_subjects(harness, build_expected_configuration(harness)) == []

    other_rules = replace(build_expected_configuration(harness), rules_hash=Hash("0x" + 64 * "7"))
    assert list_mismatched_subjects(harness, other_rules) == ["rulesHash"]

    code = chain.rpc("eth_getCode", harness.testbed.address, "latest")
    # An upgrade that still answers everything.
    chain.rpc("anvil_setCode", harness.testbed.address, code + "00")
    assert list_mismatched_subjects(harness, build_expected_configuration(harness)) == [
        "code hash"
    ]


def test_quorum_of_several_signers_is_accepted(sqlite_harness: Harness):
    harness = sqlite_harness
    constitution = harness.contract.fetch_configuration()
    three = tuple(Address(f"0x{40 * digit}") for digit in "123")
    for quorum, what in ((3, []), (4, ["quorum"])):
        contract_status = constitution.contract_status
        changed_status = replace(
            contract_status,
            signers=(*constitution.signers, *three[1:]),
            head=replace(contract_status.head, quorum=quorum),
        )
        changed_configuration = replace(constitution, contract_status=changed_status)
        assert [
            mismatch.subject
            for mismatch in find_configuration_mismatches(
                changed_configuration, build_expected_configuration(harness)
            )
        ] == what


@pytest.fixture
def publisher_proxy(sqlite_harness: Harness, proxies: tuple[Proxy, Proxy]) -> Proxy:
    """Return the publisher's second endpoint; the indexer has other endpoints and checks."""
    harness, (first, second) = sqlite_harness, proxies
    publisher = type(harness.context.sender_account)(
        pool_of(first.url, second.url),
        domain=harness.context.sender_account.domain,
        caps=harness.caps,
        keys=harness.testbed.keys,
    )
    harness.context.sender_account.pool.close()
    harness.context = replace(harness.context, sender_account=publisher)
    return second


def test_case_f68_endpoint_of_another_chain_prevents_startup(
    sqlite_harness: Harness, publisher_proxy: Proxy
):
    publisher_proxy.rule("eth_chainId", return_chain_id(1))
    with pytest.raises(TransientError, match="does not serve chain 31337; nothing is signed"):
        reconcile_nonces(sqlite_harness.context)


def test_case_f68_endpoint_that_changes_its_chain_stops_signing(
    sqlite_harness: Harness, publisher_proxy: Proxy
):
    harness = sqlite_harness
    reconcile_nonces(harness.context)
    publisher_proxy.rule(EVERY, drop_request())
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    heads = harness.source.fetch_heads()
    steps = [run_next_step(harness.context, heads) for _ in range(2)]
    assert [sending_step and sending_step.action for sending_step in steps] == [
        "push ready",
        "push assigned",
    ]

    # Behind its address there is another node now.
    publisher_proxy.heal()
    publisher_proxy.rule("eth_chainId", return_chain_id(1))
    for step in (confirm_transactions, run_next_step):
        with pytest.raises(TransientError, match="does not serve chain 31337"):
            step(harness.context, heads)
    assert list_attempts(harness) == []
