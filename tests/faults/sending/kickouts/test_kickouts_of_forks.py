"""A kickout is signed for a round: it survives later rounds, but not a fork of its own round."""

from oracle.bindings.qos_oracle import encode_push_call
from oracle.kickouts.kickout_context import PROPOSE_KICK
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.quorum.statements import build_report_statement, find_expiry_reason
from oracle.reporting.report_planner import plan_push
from oracle.signing.signer import Signer
from oracle.store.outbox.records import SignedStatement
from tests.faults.sending.reports.test_reports_of_forks import forked
from tests.integration.evm.test_kicking import bad_pool, kick, pushed_without_kickouts, shown_low
from tests.support.evm.fixtures import fresh_chain
from tests.support.office import Office
from tests.support.sending.background_calls import rival_push
from tests.support.sending.rounds import refusal
from tests.support.sending.signers import set_signers

# Here the `finalized` block lies sixty-four under the head: there is room for a fork.
__all__ = ["fresh_chain"]

FINAL = 65


def signed(office: Office) -> list[SignedStatement]:
    """Return the statements signed against node 2, the oldest first."""
    address, last = office.premises.address, office.premises.round
    node = office.premises.network.nodes[2].lower()
    with office.store.read_transaction() as uow:
        return [
            statement
            for number in range(1, last + 1)
            for statement in reversed(uow.statements.list_for_round(address, "kick", number, node))
        ]


def due(office: Office) -> None:
    """Make node 2 ready for a proposal; nothing is signed yet."""
    bad_pool(office)
    shown_low(office)
    office.mine(FINAL)
    office.index()


def two_must_sign(office: Office) -> Signer:
    """Require two signers from now on; the other one signs reports, but no kickouts."""
    other_signer = office.context.sender_account.payer
    assert other_signer is not None
    set_signers(office, *by_address(office, other_signer), needed=2)
    office.index()
    return other_signer


def by_address(office: Office, other_signer: Signer) -> list[Signer]:
    return sorted(
        [office.context.sender_account.signer, other_signer], key=lambda key: key.address
    )


def pushed_by_two(office: Office, other_signer: Signer) -> None:
    """Run one more round that both have signed, without planning a kickout."""
    before = office.premises.round
    office.period()
    office.index()
    office.repeat(plan_push)
    status, domain = office.contract.get_status(), office.context.sender_account.domain
    with office.store.read_transaction() as uow:
        signed_ones = [
            candidate.report for candidate in uow.reports.list_latest(10) if candidate.digest
        ]
    report = max(signed_ones, key=lambda candidate: candidate.period)
    statement = build_report_statement(report, status)
    signed = [key.sign_statement(statement, domain) for key in by_address(office, other_signer)]
    calldata = encode_push_call(statement, status.head.config_count, b"".join(signed))
    rival_push(office, calldata)
    office.mine()
    office.index()
    assert office.premises.round == before + 1


def test_kickout_lacking_signatures_is_signed_once_across_rounds(sqlite_office: Office):
    office = sqlite_office
    due(office)
    other_signer = two_must_sign(office)
    for _ in range(3):
        office.repeat(plan_kickout_call)
        assert len(signed(office)) == 1
        pushed_by_two(office, other_signer)

    # Under other signers nothing of it counts: it is signed anew, and is proposed.
    set_signers(office, office.context.sender_account.signer, needed=1)
    office.index()
    office.repeat(plan_kickout_call)
    (first, newest), (proposal,) = signed(office), office.intents(PROPOSE_KICK)
    assert newest.config != first.config
    assert (proposal.request.digest, proposal.request.round) == (newest.digest, newest.round)
    office.tick()
    office.mine()
    assert kick(office)["live"]


def test_kickout_signed_on_reorged_round_is_dropped_and_proposed_in_a_later_round(
    sqlite_office: Office,
):
    office = sqlite_office
    due(office)
    premises = office.premises
    with office.store.read_transaction() as uow:
        newest = uow.rounds.list_accepted(1)[0].round
    for _ in range(7):
        pushed_without_kickouts(office)
    snapshot = premises.chain.rpc("evm_snapshot")
    office.mine()
    pushed_without_kickouts(office)
    assert premises.round == newest + 8
    office.repeat(plan_kickout_call)
    (old,), (proposal,) = signed(office), office.intents(PROPOSE_KICK)
    assert old.round == newest + 8

    forked(office, snapshot)
    office.index()
    office.repeat(plan_kickout_call)
    dropped = office.intents(PROPOSE_KICK)[0]
    assert (dropped.id, dropped.state.value, dropped.nonce) == (proposal.id, "superseded", None)
    assert "left the chain" in (dropped.error_text or "")

    while premises.round < old.round:
        pushed_without_kickouts(office)
    assert refusal(office, proposal.request.calldata) == "WrongReport"
    with office.store.read_transaction() as uow:
        assert (
            find_expiry_reason(uow, old, office.quorum.fetch_contract_status()) == "prev_reorged"
        )
    office.tick()
    office.mine()
    assert kick(office)["live"]
