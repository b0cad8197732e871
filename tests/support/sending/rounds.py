"""The steps of a round: sign and plan, land, and read the signed statements."""

from oracle.domain.ids import Hash
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import SignedStatement
from oracle.txmgr.client.preflight import PreflightOutcome
from tests.support.harness import Harness


def list_signed_statements(harness: Harness, number: int) -> list[SignedStatement]:
    """Return the statements signed for a round, newest first."""
    with harness.store.read_transaction() as uow:
        return uow.statements.list_for_round(harness.testbed.address, number)


def flip_lowest_bit(root: Hash) -> Hash:
    """Return a root that differs in one bit, as a faulty reporter would sign it."""
    return Hash(f"0x{int(root, 16) ^ 1:064x}")


def plan_round(harness: Harness) -> None:
    """End a period, sign its report, and plan its push."""
    harness.period()
    harness.index()
    assert [step.action for step in harness.repeat(plan_push)] == ["report signed", "push planned"]


def land_round(harness: Harness) -> None:
    """Send and mine the planned calls."""
    harness.tick()
    harness.mine()
    harness.tick()


def get_contract_error(harness: Harness, calldata: str) -> str:
    """Return the name of the error with which the contract rejects a call now."""
    verdict = harness.context.preflight(calldata)
    assert verdict.outcome is PreflightOutcome.REFUSED
    assert verdict.refusal is not None
    return verdict.refusal.name
