"""Reconciles the outbox with the nonces on the chain before anything is sent.

See docs/explanation/transactions.md#crash-points.
"""

from collections.abc import Collection, Sequence
from itertools import islice

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.rpc.fanout import PoolView
from oracle.store.database import Store
from oracle.store.outbox.records import Account
from oracle.txmgr.client.chain_nonces import Count, counts_of
from oracle.txmgr.context import StepResult, TxContext

_REBUILD = "stop the daemon and run `qos-oracle outbox rebuild --from-chain`"
# How many missing nonces an error names; the others are counted.
_MAX_NAMED = 5


class NonceAheadError(InputError):
    """The chain has nonces of a known account that this database never assigned.

    `highest` is the highest count of an endpoint, `next_nonce` the next nonce of this database.
    """

    def __init__(self, address: Address, highest: int, known: int) -> None:
        super().__init__(
            f"{address} has used nonces up to {highest - 1}, this database gave out only those "
            f"below {known}: it is an old copy, or the key is used elsewhere; put the newest copy "
            f"back, or {_REBUILD}"
        )
        self.highest, self.known = highest, known


def reconcile(context: TxContext) -> StepResult | None:
    """Enroll the transmitter at its first start; later check that no nonce is missing.

    Everything else recovers by itself: a nonce without bytes is signed, stored bytes are sent, and
    sent transactions are watched. A state that cannot recover raises an error, and nothing is
    repaired silently. A count is accepted if two witnesses report it, or the only one.

    Raises:
        NonceAheadError: the chain has nonces that this database never assigned.
        InputError: the database has lost nonces that it assigned, or does not contain an account
            that has sent; or an endpoint serves another chain.
        TransientError: no endpoint answers, or too few witnesses agree; or a rebuilt nonce is in
            no
            pool any more.
    """
    context.publisher.lines.check_chain(context.publisher.domain.chain_id)
    if not context.publisher.has_payer:
        return None
    account, lines = context.account, context.publisher.lines
    with context.store.reading() as uow:
        known = uow.outbox.accounts.next_nonce(account)
        unfinished = len(uow.outbox.slots.watched(account))
        missing = uow.outbox.slots.missing(account, known or 0)
    if missing:
        raise InputError(_missing_nonces_reason(context.account.address, missing))
    counts = counts_of(lines, account.address)
    _check_ahead(context, counts, known)
    if known is None:
        return _enroll(context, counts)
    _check_gaps(context, counts)
    if unfinished:
        return StepResult("reconciled", None, f"{unfinished} under way")
    return None


def why_refused(store: Store, lines: PoolView, account: Account) -> str | None:
    """Return why a start would refuse a known sender, or None; writes nothing.

    The result is also None if too few witnesses count more nonces than the database.
    """
    with store.reading() as uow:
        known = uow.outbox.accounts.next_nonce(account) or 0
        missing = uow.outbox.slots.missing(account, known)
    if missing:
        return _missing_nonces_reason(account.address, missing)
    try:
        counts = counts_of(lines, account.address)
    except TransientError:
        return None
    ahead = {count.endpoint: count.mined for count in counts if count.mined > known}
    if not lines.quorum.is_reached_by(ahead):
        return None
    return str(NonceAheadError(account.address, max(ahead.values()), known))


def _check_ahead(context: TxContext, counts: Sequence[Count], known: int | None) -> None:
    """Raise an error if the chain has more nonces of the account than this database assigned."""
    # Pending transactions matter only to a database that does not contain the account.
    used = {count.endpoint: count.pending if known is None else count.mined for count in counts}
    ahead = {endpoint: number for endpoint, number in used.items() if number > (known or 0)}
    if not ahead:
        return
    highest, address = max(ahead.values()), context.account.address
    quorum = context.publisher.lines.quorum
    if not quorum.is_reached_by(ahead):
        raise TransientError(
            f"only {_named(ahead)} counted {highest} transactions of {address}, this database "
            f"gave out {known or 0}; no sender starts until another {quorum.witness_kind} "
            "reports the same, or this count is gone; what sends already goes on"
        )
    if known is None:
        raise InputError(
            f"{address} has sent {highest} transactions, and this database knows of none: it is "
            f"new or was lost; {_REBUILD}, or use a new key"
        )
    raise NonceAheadError(address, highest, known)


def _check_gaps(context: TxContext, counts: Sequence[Count]) -> None:
    """Raise TransientError if a nonce that was rebuilt while pending is in no pool any more.

    No later nonce can land.
    """
    with context.store.reading() as uow:
        gaps = uow.outbox.gaps.of(context.account, max(count.pending for count in counts))
    if gaps:
        raise TransientError(
            f"nonces of {context.account.address} that were rebuilt while they waited are in no "
            f"pool any more: {_named(gaps)}; nothing behind them can land: {_REBUILD} once more"
        )


def _enroll(context: TxContext, counts: Sequence[Count]) -> StepResult:
    quorum = context.publisher.lines.quorum
    endpoints = [count.endpoint for count in counts]
    if not quorum.is_reached_by(endpoints):
        raise TransientError(
            f"only {_named(endpoints)} reports that {context.account.address} has never sent "
            f"anything; nothing is sent until another {quorum.witness_kind} reports the same"
        )
    with context.writing() as uow:
        uow.outbox.accounts.enroll(context.account, 0, context.stamp)
    return StepResult("enrolled", None, f"{context.account.address} at nonce 0")


def _missing_nonces_reason(address: Address, missing: Sequence[int]) -> str:
    return (
        f"the outbox has lost nonces of {address} that it gave out: "
        f"{_named(missing)}; the database was damaged or edited: put the newest copy back"
    )


def _named(nonces_or_endpoints: Collection[int | str]) -> str:
    named = ", ".join(map(str, islice(nonces_or_endpoints, _MAX_NAMED)))
    left_out = len(nonces_or_endpoints) - _MAX_NAMED
    return f"{named} and {left_out} more" if left_out > 0 else named
