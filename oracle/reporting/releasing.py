"""Lets a held report go: a human has looked at it, and later ones are compared with it."""

from oracle.errors import InputError
from oracle.reporting.sanity_gate import holding, show
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.reports.hold_repository import ReportHold


def release(uow: UnitOfWork, period: int, stamp: Stamp) -> ReportHold:
    """Let the report of a period be signed, as far as the contract still takes it.

    Whatever becomes of it, later reports are held only for what they change on top of its words.

    Raises:
        InputError: nothing is held of this period.
    """
    gate = held_at(uow, period)
    uow.gates.release(period, stamp)
    show(holding(uow))
    return gate


def held_at(uow: UnitOfWork, period: int) -> ReportHold:
    """Return what is held of a period. Raises InputError: nothing is."""
    gate = uow.gates.at(period)
    if gate is None or gate.released_at is not None:
        held = ", ".join(str(one.period) for one in holding(uow)) or "none"
        state = "was released already" if gate is not None else "is not held"
        raise InputError(f"the report of period {period} {state}; held are: {held}")
    return gate
