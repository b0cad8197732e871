"""Asks the database and the contract what a report would change, and whether that is worth gas.

Evaluated when a report is planned, after its simulation, and in the commit that gives a nonce.
"""

from oracle.domain.report import Report, decode
from oracle.domain.rounds import Word
from oracle.domain.worth import Bounds, News, Worth, change_between, worth_of
from oracle.publisher.contract import Standing
from oracle.services.desk import Desk
from oracle.services.timing.gating import hold, why_held
from oracle.store.store import Unit


def is_worth(desk: Desk, report: Report, standing: Standing) -> Worth:
    """Tell whether to send a report now, and the most wei per gas to pay (publishing.md 3.5).

    Not now: wait, and ask again at the next block. The most is within the cap whatever it says.
    What the sanity gate holds is not sent, whoever signed it; that is written down here.
    """
    with desk.store.reading() as unit:
        reason = why_held(desk, unit, report)
        worth = worth_in(desk, unit, report, standing)
    if reason is None:
        return worth
    hold(desk, report, reason)
    return Worth(now=False, why=f"held: {reason}", most_per_gas=0)


def worth_in(desk: Desk, unit: Unit, report: Report, standing: Standing) -> Worth:
    """Tell the same inside a transaction, such as the one that gives a nonce."""
    records = decode(report.records)
    words = unit.rounds.words(number for number, _ in records)
    on_chain = {number: word.value for number, word in words.items()}
    change, is_urgent = change_between(on_chain, records, desk.settings.bands)
    news = News(
        words=sum(on_chain.get(number) != word for number, word in records),
        change=change,
        is_urgent=is_urgent,
        age=standing.block.time - _oldest(standing, words),
    )
    bounds = Bounds(desk.settings.heartbeat_seconds, desk.publisher.caps.fee_per_gas)
    return worth_of(news, desk.patience, bounds)


def _oldest(standing: Standing, words: dict[int, Word]) -> int:
    """Return when the oldest of what the report renews was written, in chain time."""
    return min([standing.head.pushed_at, *(word.time for word in words.values())])
