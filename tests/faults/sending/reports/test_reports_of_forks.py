"""A fork removes the as-of block of a report, or the round that the report follows."""

from tests.support.evm.fixtures import fresh_chain
from tests.support.harness import Harness
from tests.support.sending.rounds import (
    get_contract_error,
    land_round,
    list_signed_statements,
    plan_round,
)

# Here the `finalized` block is sixty-four below the head, which leaves room for a fork.
__all__ = ["fresh_chain"]

ANOTHER_MINER = "0x" + "0f" * 20


def continue_from_snapshot(harness: Harness, snapshot: str) -> None:
    """Let the chain continue from the snapshot, and become longer than before."""
    chain = harness.testbed.chain
    height = chain.block
    chain.rpcs(("anvil_dropAllTransactions",), ("evm_revert", snapshot))
    # Its blocks differ even if their timestamps are equal.
    chain.rpc("anvil_setCoinbase", ANOTHER_MINER)
    chain.later(7)
    while chain.block <= height:
        chain.mine()
        chain.later(1)


def test_case_f33_report_on_a_reorged_block_is_signed_again(harness: Harness):
    snapshot = harness.testbed.chain.rpc("evm_snapshot")
    harness.mine()
    plan_round(harness)
    (old,) = list_signed_statements(harness, 1)
    (push,) = harness.intents()
    continue_from_snapshot(harness, snapshot)

    assert get_contract_error(harness, push.request.calldata) == "Reorged"
    harness.period()
    land_round(harness)

    new, buried = list_signed_statements(harness, 1)
    assert (buried.digest, buried.expiry_reason) == (old.digest, "as_of_reorged")
    assert new.as_of_hash != old.as_of_hash
    assert new.expiry_reason is None
    assert harness.states() == ["expired", "mined"]
    assert harness.testbed.round == 1


def test_case_f34_report_on_a_reorged_round_is_signed_again(harness: Harness):
    snapshot = harness.testbed.chain.rpc("evm_snapshot")
    harness.mine()
    plan_round(harness)
    land_round(harness)
    plan_round(harness)
    (second,) = list_signed_statements(harness, 2)
    push = harness.intents()[-1]
    continue_from_snapshot(harness, snapshot)
    harness.period()
    land_round(harness)
    harness.mine()
    harness.tick()
    assert harness.testbed.round == 1

    # The same round follows, on top of another round.
    assert get_contract_error(harness, push.request.calldata) != "WrongRound"
    harness.period()
    land_round(harness)
    new, buried = list_signed_statements(harness, 2)
    assert (buried.digest, buried.expiry_reason) == (second.digest, "prev_reorged")
    assert new.prev != second.prev
    assert harness.testbed.round == 2
