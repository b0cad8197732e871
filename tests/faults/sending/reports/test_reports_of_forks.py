"""A fork removes the as-of block of a report, or the round that the report follows."""

from tests.support.evm.fixtures import fresh_chain
from tests.support.office import Office
from tests.support.sending.rounds import (
    get_contract_error,
    land_round,
    list_signed_statements,
    plan_round,
)

# Here the `finalized` block is sixty-four below the head, which leaves room for a fork.
__all__ = ["fresh_chain"]

ANOTHER_MINER = "0x" + "0f" * 20


def continue_from_snapshot(office: Office, snapshot: str) -> None:
    """Let the chain continue from the snapshot, and become longer than before."""
    chain = office.premises.chain
    height = chain.block
    chain.rpcs(("anvil_dropAllTransactions",), ("evm_revert", snapshot))
    # Its blocks differ even if their timestamps are equal.
    chain.rpc("anvil_setCoinbase", ANOTHER_MINER)
    chain.later(7)
    while chain.block <= height:
        chain.mine()
        chain.later(1)


def test_case_f33_report_with_reorged_as_of_block_is_signed_again(office: Office):
    snapshot = office.premises.chain.rpc("evm_snapshot")
    office.mine()
    plan_round(office)
    (old,) = list_signed_statements(office, 1)
    (push,) = office.intents()
    continue_from_snapshot(office, snapshot)

    assert get_contract_error(office, push.request.calldata) == "Reorged"
    office.period()
    land_round(office)

    new, buried = list_signed_statements(office, 1)
    assert (buried.digest, buried.expiry_reason) == (old.digest, "as_of_reorged")
    assert new.as_of_hash != old.as_of_hash
    assert new.expiry_reason is None
    assert office.states() == ["expired", "mined"]
    assert office.premises.round == 1


def test_case_f34_report_on_reorged_round_is_refused_and_signed_again(office: Office):
    snapshot = office.premises.chain.rpc("evm_snapshot")
    office.mine()
    plan_round(office)
    land_round(office)
    plan_round(office)
    (second,) = list_signed_statements(office, 2)
    push = office.intents()[-1]
    continue_from_snapshot(office, snapshot)
    office.period()
    land_round(office)
    office.mine()
    office.tick()
    assert office.premises.round == 1

    # The same round follows, on top of another round.
    assert get_contract_error(office, push.request.calldata) != "WrongRound"
    office.period()
    land_round(office)
    new, buried = list_signed_statements(office, 2)
    assert (buried.digest, buried.expiry_reason) == (second.digest, "prev_reorged")
    assert new.prev != second.prev
    assert office.premises.round == 2
