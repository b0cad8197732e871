"""The steps of a round: sign and plan, land, and read the signed statements."""

from oracle.domain.ids import Hash
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import SignedStatement
from oracle.txmgr.client.preflight import PreflightOutcome
from tests.support.office import Office


def list_signed_statements(office: Office, number: int) -> list[SignedStatement]:
    """Return the statements signed for a round, newest first."""
    with office.store.read_transaction() as uow:
        return uow.statements.list_for_round(office.premises.address, number)


def flip_lowest_bit(root: Hash) -> Hash:
    """Return another root, as a reporter that is wrong would sign it."""
    return Hash(f"0x{int(root, 16) ^ 1:064x}")


def plan_round(office: Office) -> None:
    """End a period, sign its report, and plan its push."""
    office.period()
    office.index()
    assert [step.action for step in office.repeat(plan_push)] == ["report signed", "push planned"]


def land_round(office: Office) -> None:
    """Send and mine what is planned."""
    office.tick()
    office.mine()
    office.tick()


def get_contract_error(office: Office, calldata: str) -> str:
    """Return the contract's error for a call now."""
    verdict = office.context.preflight(calldata)
    assert verdict.outcome is PreflightOutcome.REFUSED
    assert verdict.refusal is not None
    return verdict.refusal.name
