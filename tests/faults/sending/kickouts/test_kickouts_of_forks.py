"""A kickout is signed on a round: it outlives the next ones, and dies with a fork of its own."""

from oracle.kickouts.kickout_context import PROPOSE_KICK
from oracle.kickouts.kickout_planner import plan_kick
from oracle.quorum.statements import expiry_reason
from oracle.store.outbox.records import SignedStatement
from tests.faults.sending.reports.test_reports_of_forks import forked
from tests.integration.evm.test_kicking import bad_pool, kick, pushed_without_kickouts, shown_low
from tests.support.evm.fixtures import fresh_chain
from tests.support.office import Office
from tests.support.sending.rounds import refusal

# Here the `finalized` block lies sixty-four under the head: there is room for a fork.
__all__ = ["fresh_chain"]

FINAL = 65


def signed(office: Office) -> list[SignedStatement]:
    """What was signed against node 2, the oldest first."""
    address, last = office.premises.address, office.premises.round
    node = office.premises.network.nodes[2].lower()
    with office.store.reading() as uow:
        return [
            one
            for number in range(1, last + 1)
            for one in reversed(uow.statements.of_round(address, "kick", number, node))
        ]


def due(office: Office) -> None:
    """Node 2 can be proposed; nothing is signed yet."""
    bad_pool(office)
    shown_low(office)
    office.mine(FINAL)
    office.index()


def two_must_sign(office: Office) -> None:
    """The other one never does."""
    premises = office.premises
    checksummed = premises.chain.web3.to_checksum_address
    signers = [checksummed(office.context.publisher.signer.address), premises.network.creator]
    call = premises.oracle.functions.setSigners(signers, 2)
    premises.chain.send(call, sender=premises.network.admin)


def test_a_kickout_that_lacks_signatures_is_not_signed_anew_at_each_round(sqlite_office: Office):
    office = sqlite_office
    due(office)
    premises, admin = office.premises, office.premises.network.admin
    ours = premises.chain.web3.to_checksum_address(office.context.publisher.signer.address)
    for _ in range(2):
        two_must_sign(office)
        office.index()
        office.repeat(plan_kick)
        assert len(signed(office)) == 1
        premises.chain.send(premises.oracle.functions.setSigners([ours], 1), sender=admin)
        pushed_without_kickouts(office)

    # What was signed two rounds ago is what is proposed.
    (first,) = signed(office)
    office.repeat(plan_kick)
    (proposal,) = office.intents(PROPOSE_KICK)
    assert (proposal.request.digest, proposal.request.round) == (first.digest, first.round)
    office.tick()
    office.mine()
    assert kick(office)["live"]
    assert kick(office)["round"] == premises.round > first.round


def test_a_kickout_signed_on_a_round_that_left_is_dropped_and_proposed_on_another(
    sqlite_office: Office,
):
    office = sqlite_office
    due(office)
    premises = office.premises
    with office.store.reading() as uow:
        newest = uow.rounds.accepted(1)[0].round
    for _ in range(7):
        pushed_without_kickouts(office)
    snapshot = premises.chain.rpc("evm_snapshot")
    office.mine()
    pushed_without_kickouts(office)
    assert premises.round == newest + 8
    office.repeat(plan_kick)
    (old,), (proposal,) = signed(office), office.intents(PROPOSE_KICK)
    assert old.round == newest + 8

    forked(office, snapshot)
    office.index()
    office.repeat(plan_kick)
    dropped = office.intents(PROPOSE_KICK)[0]
    assert (dropped.id, dropped.state.value, dropped.nonce) == (proposal.id, "superseded", None)
    assert "left the chain" in (dropped.error_text or "")

    while premises.round < old.round:
        pushed_without_kickouts(office)
    assert refusal(office, proposal.request.calldata) == "WrongReport"
    with office.store.reading() as uow:
        assert expiry_reason(uow, old, office.quorum.contract_status()) == "prev_reorged"
    office.tick()
    office.mine()
    assert kick(office)["live"]
