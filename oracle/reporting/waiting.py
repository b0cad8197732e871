"""Says why the next report waits: unbelievable, disputed, unsigned, or by too few."""

from oracle.reporting.sanity_gate import holding
from oracle.store.database import UnitOfWork
from oracle.txmgr.context import TxContext


def why_waiting(desk: TxContext) -> str | None:
    """Return why the newest report is held, not signed, or by too few for long; None: is not."""
    with desk.store.reading() as unit:
        held = holding(unit)
        if held:
            return f"period {held[-1].period} is held: {held[-1].reason}"
        quiet = _why_quiet(desk, unit) if desk.publisher.has_signer else None
        return quiet or desk.lack.why


def _why_quiet(desk: TxContext, unit: UnitOfWork) -> str | None:
    domain, signer = desk.publisher.domain, desk.publisher.signer.address
    until = unit.outbox.signatures.quiet_until(domain.chain_id, domain.contract, signer)
    cursor = unit.cursor.get()
    if until is None or (cursor is not None and cursor.time >= until):
        return None
    return (
        f"the signer keeps quiet until chain time {until}: what its lost database signed may "
        "still land"
    )
