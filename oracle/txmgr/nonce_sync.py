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
from oracle.txmgr.client.chain_nonces import NonceCounts, fetch_nonce_counts
from oracle.txmgr.context import AccountContext, StepResult

_REBUILD_ADVICE = "stop the daemon and run `qos-oracle outbox rebuild --from-chain`"
# How many missing nonces an error names; the others are counted.
_MAX_NAMED = 5


class NonceAheadError(InputError):
    """The chain has nonces of a known account that this database never assigned.

    `highest` is the highest count of an endpoint, `next_nonce` the next nonce of this database.
    """

    def __init__(self, address: Address, highest: int, next_nonce: int) -> None:
        super().__init__(
            f"{address} has used nonces up to {highest - 1}, but this database assigned only "
            f"those below {next_nonce}: it is an old copy, or the key is used elsewhere; restore "
            f"the newest copy, or {_REBUILD_ADVICE}"
        )
        self.highest, self.next_nonce = highest, next_nonce


def reconcile(context: AccountContext) -> StepResult | None:
    """Enroll the transmitter at its first start; later check that no nonce is missing.

    Everything else recovers by itself: a nonce without bytes is signed, stored bytes are sent, and
    sent transactions are watched. A state that cannot recover raises an error, and nothing is
    repaired silently. A count is accepted if two witnesses report it, or the only witness does.

    Raises:
        NonceAheadError: the chain has nonces that this database never assigned.
        InputError: the database has lost nonces that it assigned, or does not contain an account
            that has sent; or an endpoint serves another chain.
        TransientError: no endpoint answers, or too few witnesses agree; or a rebuilt nonce is in
            no pool any more.
    """
    context.sender_account.pool_view.check_chain(context.sender_account.domain.chain_id)
    if not context.sender_account.has_payer:
        return None
    account, pool_view = context.account, context.sender_account.pool_view
    with context.store.read_transaction() as uow:
        next_nonce = uow.outbox.accounts.get_next_nonce(account)
        unfinished_count = len(uow.outbox.slots.list_unfinished(account))
        missing_nonces = uow.outbox.slots.list_missing_nonces(account, next_nonce or 0)
    if missing_nonces:
        raise InputError(_missing_nonces_reason(context.account.address, missing_nonces))
    counts = fetch_nonce_counts(pool_view, account.address)
    _check_chain_not_ahead(context, counts, next_nonce)
    if next_nonce is None:
        return _enroll_account(context, counts)
    _check_gaps(context, counts)
    if unfinished_count:
        return StepResult("reconciled", None, f"{unfinished_count} unfinished")
    return None


def start_refusal_reason(store: Store, pool_view: PoolView, account: Account) -> str | None:
    """Return why a start with a known sender would be refused, or None; writes nothing.

    The result is also None if too few witnesses count more nonces than the database.
    """
    with store.read_transaction() as uow:
        next_nonce = uow.outbox.accounts.get_next_nonce(account) or 0
        missing_nonces = uow.outbox.slots.list_missing_nonces(account, next_nonce)
    if missing_nonces:
        return _missing_nonces_reason(account.address, missing_nonces)
    try:
        counts = fetch_nonce_counts(pool_view, account.address)
    except TransientError:
        return None
    count_by_endpoint = {
        count.endpoint: count.mined for count in counts if count.mined > next_nonce
    }
    if not pool_view.quorum.is_reached_by(count_by_endpoint):
        return None
    return str(NonceAheadError(account.address, max(count_by_endpoint.values()), next_nonce))


def _check_chain_not_ahead(
    context: AccountContext, counts: Sequence[NonceCounts], next_nonce: int | None
) -> None:
    """Raise an error if the chain has more nonces of the account than this database assigned."""
    # Pending transactions matter only to a database that does not contain the account.
    count_by_endpoint = {
        count.endpoint: count.pending if next_nonce is None else count.mined for count in counts
    }
    ahead_by_endpoint = {
        endpoint: tx_count
        for endpoint, tx_count in count_by_endpoint.items()
        if tx_count > (next_nonce or 0)
    }
    if not ahead_by_endpoint:
        return
    highest, address = max(ahead_by_endpoint.values()), context.account.address
    quorum = context.sender_account.pool_view.quorum
    if not quorum.is_reached_by(ahead_by_endpoint):
        raise TransientError(
            f"only {_format_names(ahead_by_endpoint)} reports {highest} transactions of "
            f"{address}, but this database assigned {next_nonce or 0} nonces; no sender starts "
            f"until another {quorum.witness_kind} reports the same, or the count is corrected; "
            "running senders continue"
        )
    if next_nonce is None:
        raise InputError(
            f"{address} has sent {highest} transactions, but this database has none of them: it "
            f"is new or was lost; {_REBUILD_ADVICE}, or use a new key"
        )
    raise NonceAheadError(address, highest, next_nonce)


def _check_gaps(context: AccountContext, counts: Sequence[NonceCounts]) -> None:
    """Raise TransientError if a nonce that was rebuilt while pending is in no pool any more.

    No later nonce can land.
    """
    with context.store.read_transaction() as uow:
        gaps = uow.outbox.gaps.list_gaps(context.account, max(count.pending for count in counts))
    if gaps:
        raise TransientError(
            f"nonces of {context.account.address} that were rebuilt while pending are no longer "
            f"in any pool: {_format_names(gaps)}; no later nonce can land; {_REBUILD_ADVICE} again"
        )


def _enroll_account(context: AccountContext, counts: Sequence[NonceCounts]) -> StepResult:
    quorum = context.sender_account.pool_view.quorum
    endpoints = [count.endpoint for count in counts]
    if not quorum.is_reached_by(endpoints):
        raise TransientError(
            f"only {_format_names(endpoints)} reports that {context.account.address} has never "
            f"sent anything; nothing is sent until another {quorum.witness_kind} reports the same"
        )
    with context.write_transaction() as uow:
        uow.outbox.accounts.enroll(context.account, 0, context.stamp)
    return StepResult("enrolled", None, f"{context.account.address} at nonce 0")


def _missing_nonces_reason(address: Address, missing: Sequence[int]) -> str:
    return (
        f"the outbox has lost nonces of {address} that it assigned: {_format_names(missing)}; the "
        "database was damaged or edited; restore the newest copy"
    )


def _format_names(nonces_or_endpoints: Collection[int | str]) -> str:
    shown = ", ".join(map(str, islice(nonces_or_endpoints, _MAX_NAMED)))
    left_out = len(nonces_or_endpoints) - _MAX_NAMED
    return f"{shown} and {left_out} more" if left_out > 0 else shown
