"""Says why the next report waits: unbelievable, disputed, unsigned, or by too few."""

from oracle.reporting.sanity_gate import holding
from oracle.store.database import UnitOfWork
from oracle.txmgr.context import TxContext


def why_waiting(context: TxContext) -> str | None:
    """Return why the newest report is held, not signed, or by too few for long; None: is not."""
    with context.store.reading() as uow:
        held = holding(uow)
        if held:
            return f"period {held[-1].period} is held: {held[-1].reason}"
        quiet = _why_quiet(context, uow) if context.publisher.has_signer else None
        return quiet or context.lack.why


def _why_quiet(context: TxContext, uow: UnitOfWork) -> str | None:
    domain, signer = context.publisher.domain, context.publisher.signer.address
    until = uow.outbox.signatures.quiet_until(domain.chain_id, domain.contract, signer)
    cursor = uow.cursor.get()
    if until is None or (cursor is not None and cursor.time >= until):
        return None
    return (
        f"the signer keeps quiet until chain time {until}: what its lost database signed may "
        "still land"
    )
