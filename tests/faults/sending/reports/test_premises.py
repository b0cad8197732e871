"""Chain and contract must match the configuration before anything is signed."""

from dataclasses import replace

import pytest

from oracle.bindings.inspection import ExpectedConfiguration, find_mismatches
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.reporting.report_planner import plan_push
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.nonce_sync import reconcile_nonces
from tests.pools import pool_of
from tests.support.office import LIMITS, RULES_HASH, SETTINGS, Office, next_step
from tests.support.sending.faults import drop_request, return_chain_id
from tests.support.sending.in_flight import list_attempts
from tests.support.sending.proxy import EVERY, Proxy


def build_expected_configuration(office: Office) -> ExpectedConfiguration:
    premises = office.premises
    assert premises.keys.signer is not None
    return ExpectedConfiguration(
        target=Address(premises.network.contract.address.lower()),
        rules_hash=RULES_HASH,
        settings=SETTINGS,
        signer=premises.keys.signer.address,
        transmitter=premises.transmitter,
        anchor_window=LIMITS.anchor_window,
    )


def different(office: Office, expected_configuration: ExpectedConfiguration) -> list[str]:
    constitution = office.contract.get_configuration()
    return [mismatch.subject for mismatch in find_mismatches(constitution, expected_configuration)]


def test_case_f65_contract_with_different_code_or_rules_is_reported(sqlite_office: Office):
    office, chain = sqlite_office, sqlite_office.premises.chain
    assert different(office, build_expected_configuration(office)) == []

    other_rules = replace(build_expected_configuration(office), rules_hash=Hash("0x" + 64 * "7"))
    assert different(office, other_rules) == ["rulesHash"]

    code = chain.rpc("eth_getCode", office.premises.address, "latest")
    # An upgrade that still answers everything.
    chain.rpc("anvil_setCode", office.premises.address, code + "00")
    assert different(office, build_expected_configuration(office)) == ["code hash"]


def test_quorum_of_several_signers_is_accepted(sqlite_office: Office):
    office = sqlite_office
    constitution = office.contract.get_configuration()
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
            for mismatch in find_mismatches(
                changed_configuration, build_expected_configuration(office)
            )
        ] == what


@pytest.fixture
def stranger(sqlite_office: Office, proxies: tuple[Proxy, Proxy]) -> Proxy:
    """Return the publisher's second endpoint; the indexer has other endpoints and checks."""
    office, (first, second) = sqlite_office, proxies
    publisher = type(office.context.sender_account)(
        pool_of(first.url, second.url),
        domain=office.context.sender_account.domain,
        caps=office.caps,
        keys=office.premises.keys,
    )
    office.context.sender_account.pool.close()
    office.context = replace(office.context, sender_account=publisher)
    return second


def test_case_f68_endpoint_of_another_chain_is_rejected_at_start(
    sqlite_office: Office, stranger: Proxy
):
    stranger.rule("eth_chainId", return_chain_id(1))
    with pytest.raises(TransientError, match="does not serve chain 31337; nothing is signed"):
        reconcile_nonces(sqlite_office.context)


def test_case_f68_endpoint_that_comes_back_with_another_chain_id_stops_signing(
    sqlite_office: Office, stranger: Proxy
):
    office = sqlite_office
    reconcile_nonces(office.context)
    stranger.rule(EVERY, drop_request())
    office.period()
    office.index()
    office.repeat(plan_push)
    heads = office.source.fetch_heads()
    steps = [next_step(office.context, heads) for _ in range(2)]
    assert [sending_step and sending_step.action for sending_step in steps] == [
        "push ready",
        "push assigned",
    ]

    # Behind its address there is another node now.
    stranger.heal()
    stranger.rule("eth_chainId", return_chain_id(1))
    for step in (confirm_transactions, next_step):
        with pytest.raises(TransientError, match="does not serve chain 31337"):
            step(office.context, heads)
    assert list_attempts(office) == []
