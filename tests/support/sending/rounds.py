"""A round in its steps: signed and planned, landed, and what was signed for it."""

from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import SignedStatement
from oracle.txmgr.client.preflight import PreflightOutcome
from tests.support.office import Office


def signed(office: Office, number: int) -> list[SignedStatement]:
    """What was signed for a round, the newest first."""
    with office.store.read_transaction() as uow:
        return uow.statements.list_for_round(office.premises.address, "report", number)


def planned(office: Office) -> None:
    """A period ends; its report is signed, and its push planned."""
    office.period()
    office.index()
    assert [step.action for step in office.repeat(plan_push)] == ["report signed", "push planned"]


def landed(office: Office) -> None:
    """What is planned is sent and mined."""
    office.tick()
    office.mine()
    office.tick()


def refusal(office: Office, calldata: str) -> str:
    """What the contract says to a call now."""
    verdict = office.context.preflight(calldata)
    assert verdict.outcome is PreflightOutcome.REFUSED
    assert verdict.refusal is not None
    return verdict.refusal.name
