"""Says which blocks of history rest on the words of endpoints, where [verify] asks for more.

On a chain whose headers were found to prove nothing the level that the settings ask for is not
reached: that is a failure of what was asked, until a second endpoint says the same of every block,
or an operator asks for less. A chain that is too short to be judged is not one of those.
"""

from oracle.chain.source import ChainSource
from oracle.domain.coverage import IngestScope
from oracle.indexer.audit.quarantine_liars import count_usable_witnesses
from oracle.store.database import UnitOfWork


def why_unproven(
    source: ChainSource, uow: UnitOfWork, scope: IngestScope, *, spare: int = 0
) -> str | None:
    """Return what rests on endpoints' words, and what to do; None: nothing does.

    So many blocks as `spare` may wait for the audit, where there is somebody to be asked.
    """
    short, cursor = source.shortfall(), uow.cursor.get()
    if short is None or cursor is None or cursor.final_number is None:
        return None
    final = min(cursor.final_number, cursor.number)
    left = uow.coverage.unaudited_blocks(scope.id, short.unproven_below, final)
    has_second = count_usable_witnesses(source) > 1
    if left <= (spare if has_second else 0):
        return None
    way = "no second one has agreed about them yet" if has_second else "there is no second one"
    advice = "let the audit get an answer" if has_second else "name a second in [chain] endpoints"
    return (
        f"{left} blocks are unproven and rest on the word of one endpoint, for {way}: the chain's "
        f"headers ({', '.join(short.refuted)}) do not prove what verify.history = "
        f'"{short.wanted.name.lower()}" asks for; {advice}, or accept it with verify.history = '
        f'"{short.reached.name.lower()}"'
    )
