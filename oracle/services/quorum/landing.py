"""What became of reports that somebody, not always we, brought to the contract."""

from oracle.chain.heads import Heads
from oracle.domain.report import encode
from oracle.services.desk import Desk, Step
from oracle.store.reports import ReportState, StoredCut
from oracle.store.store import Unit


def settle_next(desk: Desk, heads: Heads, cuts: list[StoredCut]) -> Step | None:
    """Mark reports as landed that the contract accepted, once that is final; None: none is.

    It counts what the chain accepted, whoever sent it; also where the database says `missed`,
    because our own push of it was too late.
    """
    open_ = [one for one in cuts if one.cut.speaks and _may_have_landed(one)]
    if not open_:
        return None
    with desk.store.reading() as unit:
        landed = [one.cut.period for one in open_ if _has_landed(desk, unit, one, heads)]
    if not landed:
        return None
    with desk.writing() as unit:
        for period in landed:
            unit.reports.mark(period, ReportState.LANDED)
    return Step("report landed", None, f"period {', '.join(map(str, landed))}")


def _may_have_landed(one: StoredCut) -> bool:
    is_missed = one.state is ReportState.MISSED and one.digest is not None
    return is_missed or one.state is ReportState.DUE


def _has_landed(desk: Desk, unit: Unit, one: StoredCut, heads: Heads) -> bool:
    accepted = unit.rounds.accepted_round(one.cut.head_round + 1)
    if accepted is None or accepted.as_of != one.cut.as_of:
        return False
    if not desk.is_final(accepted.at.block, heads):
        return False
    if one.digest is not None:
        return one.digest == accepted.digest
    stored = unit.reports.at(one.cut.period)
    return (
        stored is not None
        and stored.report.as_of.hash == accepted.as_of_hash
        and stored.report.records == encode(list(accepted.words))
    )
