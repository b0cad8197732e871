"""The contract gets other signers while a report is on its way: theirs are gathered, and sent."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from oracle.reporting.report_planner import plan_push
from oracle.signing.signer import Signer
from tests.support.evm.chain import encoded
from tests.support.office import Office, Premises, next_step
from tests.support.sending.at_sea import GWEI, at_sea, attempts, dear_blocks, only, slots
from tests.support.sending.reporters import Company, company
from tests.support.sending.signers import replacing, set_signers, strangers, told_by
from tests.support.txmgr.stores import NewStore


@pytest.fixture
def three(premises: Premises, new_sqlite_store: NewStore, tmp_path: Path) -> Iterator[Company]:
    """The first transmits."""
    with ExitStack() as until_the_end:
        stores = [until_the_end.enter_context(new_sqlite_store()) for _ in range(3)]
        yield until_the_end.enter_context(company(premises, stores, tmp_path))


def test_who_was_removed_keeps_nobody_from_asking_the_others(three: Company):
    (second, third), first = three.others, three.first.office
    third.is_down = True
    three.period()
    second.tick()
    first.index()
    planned = first.repeat(plan_push)
    assert [step.did for step in planned] == ["report signed", "push planned"]

    others = [one.office.context.publisher.signer for one in (second, third)]
    set_signers(first, *others, needed=2)
    three.first.tick()
    assert (only(first).state.value, only(first).error_class) == ("planned", "BadSignature")

    # What the first signed itself counts no more, and is there all the same.
    third.is_down = False
    third.tick()
    first.mine()
    three.first.tick()
    first.mine()
    assert three.premises.round == 1


def test_a_push_in_the_pool_gets_the_signatures_that_count_now_on_its_nonce(office: Office):
    others = strangers(office, 2)
    at_sea(office)
    for one in others:
        told_by(office, one)
    _replaced_in_a_dear_block(office, *others)
    office.tick()
    old, fresh = office.intents()
    assert (old.state.value, fresh.state.value) == ("live", "live")
    assert (fresh.nonce, fresh.replaces, fresh.request.digest) == (
        old.nonce,
        old.id,
        old.request.digest,
    )
    assert attempts(office)[-1].reason.value == "replacement"

    office.mine()
    office.until_final()
    assert office.states() == ["superseded", "final"]
    assert (office.premises.round, len(slots(office))) == (1, 1)
    assert office.reports()[0] == ("landed", None)


def test_a_push_in_the_pool_stays_while_too_few_of_the_new_signers_have_signed_it(
    sqlite_office: Office,
):
    office, others = sqlite_office, strangers(sqlite_office, 2)
    at_sea(office)
    told_by(office, others[0])
    _replaced_in_a_dear_block(office, *others)
    for _ in range(3):
        dear_blocks(office, 5 * GWEI, 2)
        office.tick()
    assert only(office).state.value == "live"
    # Nor is more paid for what would fail.
    assert len(attempts(office)) == 1


def test_a_later_signature_alone_is_no_reason_for_another_push(sqlite_office: Office):
    office, mine = sqlite_office, sqlite_office.context.publisher.signer
    # The lowest addresses are taken: with the later one, others than before.
    later, sooner = sorted(strangers(office, 2), key=lambda one: one.address)
    set_signers(office, mine, sooner, later, needed=2)
    dear_blocks(office, GWEI)
    _planned_and_told(office, [sooner])
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.tick()
    told_by(office, later)
    dear_blocks(office, 5 * GWEI)
    office.tick()
    assert only(office).state.value == "live"


def test_a_push_that_was_mined_behind_the_new_signers_goes_again_with_theirs(office: Office):
    others = strangers(office, 2)
    _planned_and_told(office, others)
    _mined_behind(office, others)
    office.tick()
    assert office.states() == ["mined", "live"]

    office.mine()
    office.until_final()
    assert office.states() == ["reverted", "final"]
    assert office.premises.round == 1
    assert office.reports()[0] == ("landed", None)


def test_what_failed_for_its_signatures_is_brought_once_enough_have_signed(
    sqlite_office: Office,
):
    office, others = sqlite_office, strangers(sqlite_office, 2)
    _planned_and_told(office, [])
    # The block before has them already: the reason of the failure is plain.
    office.repeat(next_step)
    raw = "0x" + attempts(office)[0].signed.raw.hex()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    set_signers(office, *others, needed=2)
    office.premises.chain.rpc("eth_sendRawTransaction", raw)
    office.mine()
    office.until_final()
    assert only(office).state.value == "reverted"
    assert only(office).error_class in {"BadSignature", "BadSignatureLength"}

    for one in others:
        told_by(office, one)
    office.tick()
    office.mine()
    office.until_final()
    assert office.states() == ["reverted", "final"]
    assert office.reports()[0] == ("landed", None)


def _planned_and_told(office: Office, others: list[Signer]) -> None:
    office.period()
    office.index()
    office.repeat(plan_push)
    for one in others:
        told_by(office, one)


def _replaced_in_a_dear_block(office: Office, *signers: Signer, needed: int = 2) -> None:
    """The contract gets these signers, in a block that is too dear for our push."""
    chain, admin = office.premises.chain, office.premises.network.admin
    call = {
        "from": admin,
        "to": office.premises.oracle.address,
        "data": encoded(replacing(office, signers, needed)),
        "gas": hex(1_000_000),
        "maxFeePerGas": hex(1_000 * GWEI),
        "maxPriorityFeePerGas": hex(GWEI),
    }
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    sent = chain.rpc("eth_sendTransaction", call)
    dear_blocks(office, 5 * GWEI)
    assert chain.receipt(sent).names == ["SignersSet"]


def _mined_behind(office: Office, others: list[Signer]) -> None:
    """The contract gets these signers, and our push is the next in the same block."""
    office.repeat(next_step)
    raw = "0x" + attempts(office)[0].signed.raw.hex()
    chain, admin = office.premises.chain, office.premises.network.admin
    chain.rpc("anvil_dropAllTransactions")
    call = chain.request(replacing(office, others, 2), sender=admin)
    del call["gasPrice"]
    dear = {"maxFeePerGas": hex(1_000 * GWEI), "maxPriorityFeePerGas": hex(900 * GWEI)}
    chain.rpc("eth_sendTransaction", {**call, **dear, "gas": hex(1_000_000)})
    chain.rpc("eth_sendRawTransaction", raw)
    office.mine()
