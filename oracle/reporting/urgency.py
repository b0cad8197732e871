"""Whether a report waits behind an open push that moves a node into another band."""

from oracle.domain.reports.lanes import lanes_of
from oracle.domain.reports.report import decode
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentKind
from oracle.txmgr.context import TxContext


def is_urgent_behind(uow: UnitOfWork, context: TxContext, intent: Intent) -> bool:
    """Tell whether a crossing of bands waits behind this push (publishing.md 3.5).

    Compared is what the newest report that is due says with what the push will have written.
    """
    if intent.wish.kind is not IntentKind.PUSH or intent.wish.period is None:
        return False
    open_one = uow.reports.at(intent.wish.period)
    waiting = [one for one in uow.reports.due() if one.report.period > intent.wish.period]
    if not waiting:
        return False
    wanted = dict(decode(waiting[-1].report.records))
    in_flight = {} if open_one is None else dict(decode(open_one.report.records))
    on_chain = uow.rounds.words(wanted)
    written = {number: word.value for number, word in on_chain.items()} | in_flight
    band_of = context.settings.bands.band_of
    return any(
        band_of(before) != band_of(after)
        for number, word in wanted.items()
        for before, after in zip(lanes_of(written.get(number, 0)), lanes_of(word), strict=True)
    )
