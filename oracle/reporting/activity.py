"""Counts what the chain said in each period: the raw logs and calls that events are read from."""

from itertools import pairwise

from oracle.domain.reports.report import Report
from oracle.domain.reports.sanity_limits import EventCounts
from oracle.store.database import UnitOfWork


def counted(uow: UnitOfWork, report: Report, periods: int) -> EventCounts | None:
    """Count the network's logs and calls of a report's period, and of up to `periods` before.

    A period ends where its report was cut. Where some between two reports were never cut (no
    block, or nobody was at the head), what came in them is shared out evenly. The oracle
    contract's own logs do not count: they are ours. None: there is no report before this one.
    """
    ends = [
        (one.report.period, one.report.as_of.number)
        for one in uow.reports.latest(periods + 2)
        if one.report.period < report.period
    ]
    ends.append((report.period, report.as_of.number))
    spans = [
        (first, last, later - earlier)
        for (earlier, first), (later, last) in pairwise(ends)
        if last > first
    ]
    if not spans:
        return None
    identity = uow.identity.get()
    ours = None if identity is None else identity.oracle
    logs = uow.logs.counts_without(ours, spans[0][0] + 1, report.as_of.number)
    calls = uow.calls.counts(spans[0][0] + 1, report.as_of.number)
    rates = [
        sum(logs.get(block, 0) + calls.get(block, 0) for block in range(first + 1, last + 1))
        // length
        for first, last, length in spans
    ]
    return EventCounts(rates[-1], rates[:-1][-periods:])
