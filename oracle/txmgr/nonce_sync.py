"""Compares the outbox with the nonces on the chain before anything is sent.

If the chain has more nonces than the database, another program uses the key, or the database is an
old copy. In this case a starting daemon exits with an error, because an operator is present,
whereas a running daemon pauses the sender until an operator releases it. See
docs/explanation/transactions.md#states, docs/explanation/transactions.md#crash-points and decision
0110.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import islice

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.rpc.fanout import PoolView
from oracle.store.database import Store
from oracle.store.outbox.records import Account, Pause, PauseKind
from oracle.telemetry.logger import get_logger
from oracle.telemetry.txmgr_metrics import FOREIGN
from oracle.txmgr.client.chain_nonces import NonceCounts, fetch_nonce_counts
from oracle.txmgr.client.nonce_uses import NonceQuery, NonceUse, find_nonce_use
from oracle.txmgr.client.receipts import fetch_newest_block
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.finalizer import RECOVERY_OPTIONS, describe_transaction

_REBUILD_ADVICE = "stop the daemon and run `qos-oracle outbox rebuild --from-chain`"
# An error message names at most this many missing nonces and only counts the rest.
_MAX_NAMED = 5
# Parts of the stored reason of a pause. The first part marks a nonce conflict. The second part
# precedes the reason of the pause that the conflict replaced.
_CONFLICT_MARKER = "this database assigned only those below"
_EARLIER_MARKER = "; the sender was already paused for "


class NonceAheadError(InputError):
    """Raised if the chain has nonces of a known account that this database never assigned.

    `highest_count` is the highest transaction count of an endpoint, and `next_nonce` the next
    nonce that this database would assign.
    """

    def __init__(self, address: Address, highest_count: int, next_nonce: int) -> None:
        super().__init__(
            f"{address} has used nonces up to {highest_count - 1}, but this database assigned "
            f"only those below {next_nonce}: it is an old copy, or the key is used elsewhere; "
            f"restore the newest copy, or {_REBUILD_ADVICE}"
        )
        self.highest, self.next_nonce = highest_count, next_nonce


def reconcile_nonces(context: AccountContext) -> StepResult | None:
    """Store the transmitter at its first start, or check later that no nonce is missing.

    No other reconciliation is needed, because the stages continue by themselves: they sign nonces
    without signed bytes, send stored bytes, and watch sent transactions. A state from which they
    could not continue raises an error, and is never repaired silently. A transaction count is
    accepted if two witnesses report it, or if there is only one witness.

    Raises:
        NonceAheadError: the chain has nonces that this database never assigned.
        InputError: the database has lost nonces that it assigned, the account has sent
            transactions but is not in the database, or an endpoint serves another chain.
        TransientError: no endpoint answers, too few witnesses agree, or a rebuilt nonce is no
            longer in any pool.
    """
    context.sender_account.pool_view.check_chain(context.sender_account.domain.chain_id)
    if not context.sender_account.has_payer:
        return None
    account, pool_view = context.account, context.sender_account.pool_view
    with context.store.read_transaction() as uow:
        next_nonce = uow.outbox.accounts.find_next_nonce(account)
        unfinished_count = len(uow.outbox.slots.list_unfinished(account))
        missing_nonces = uow.outbox.slots.list_missing_nonces(account, next_nonce or 0)
    if missing_nonces:
        raise InputError(_build_missing_nonces_reason(context.account.address, missing_nonces))
    counts = fetch_nonce_counts(pool_view, account.address)
    _check_chain_not_ahead(context, counts, next_nonce)
    if next_nonce is None:
        return _enroll_account(context, counts)
    _check_nonce_gaps(context, counts)
    if unfinished_count:
        return StepResult("reconciled", None, f"{unfinished_count} unfinished")
    return None


def find_start_refusal_reason(store: Store, pool_view: PoolView, account: Account) -> str | None:
    """Return why the daemon would not start with a known sender, or None if it would.

    The result is also None if too few witnesses report more nonces than the database contains.
    Nothing is written.
    """
    with store.read_transaction() as uow:
        next_nonce = uow.outbox.accounts.find_next_nonce(account) or 0
        missing_nonces = uow.outbox.slots.list_missing_nonces(account, next_nonce)
    if missing_nonces:
        return _build_missing_nonces_reason(account.address, missing_nonces)
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
    """Check that the chain has no nonces of the account that were not assigned here.

    Raises:
        NonceAheadError: the chain is ahead, and the account is known.
        InputError: the account has sent transactions but is not in the database.
        TransientError: too few witnesses report that the chain is ahead.
    """
    # Pending transactions count only if the database does not contain the account yet.
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
    highest_count = max(ahead_by_endpoint.values())
    address = context.account.address
    quorum = context.sender_account.pool_view.quorum
    if not quorum.is_reached_by(ahead_by_endpoint):
        raise TransientError(
            f"only {_format_names(ahead_by_endpoint)} reports a transaction count of "
            f"{highest_count} for {address}, but this database assigned only {next_nonce or 0} "
            f"nonces; no sender starts until another {quorum.witness_kind} confirms it, or it "
            "drops; running senders continue"
        )
    if next_nonce is None:
        raise InputError(
            f"{address} has sent {highest_count} transactions, but this database has none of "
            "them: it is new or was lost, or the key is used elsewhere; stop every other process "
            f"that uses the key, then {_REBUILD_ADVICE}, or use a new key"
        )
    raise NonceAheadError(address, highest_count, next_nonce)


def _check_nonce_gaps(context: AccountContext, counts: Sequence[NonceCounts]) -> None:
    """Check that every nonce that was rebuilt while pending is still in a pool.

    Raises:
        TransientError: such a nonce has left every pool, so that no later nonce can be mined.
    """
    with context.store.read_transaction() as uow:
        gaps = uow.outbox.gaps.list_gaps(context.account, max(count.pending for count in counts))
    if gaps:
        raise TransientError(
            f"transactions of {context.account.address} that were pending at the last rebuild are "
            f"no longer in any mempool, so no later nonce can be mined: nonces "
            f"{_format_names(gaps)}; {_REBUILD_ADVICE} again"
        )


def _enroll_account(context: AccountContext, counts: Sequence[NonceCounts]) -> StepResult:
    quorum = context.sender_account.pool_view.quorum
    endpoints = [count.endpoint for count in counts]
    if not quorum.is_reached_by(endpoints):
        raise TransientError(
            f"only {_format_names(endpoints)} reports that {context.account.address} has never "
            f"sent a transaction; nothing is sent until another {quorum.witness_kind} reports the "
            "same"
        )
    with context.write_transaction() as uow:
        uow.outbox.accounts.enroll_account(context.account, 0, context.stamp)
    return StepResult("enrolled", None, f"{context.account.address} at nonce 0")


def _build_missing_nonces_reason(address: Address, missing_nonces: Sequence[int]) -> str:
    return (
        f"the outbox has lost nonces of {address} that it assigned: "
        f"{_format_names(missing_nonces)}; the database was damaged or edited; restore the newest "
        "copy"
    )


def _format_names(nonces_or_endpoints: Collection[int | str]) -> str:
    shown_names = ", ".join(map(str, islice(nonces_or_endpoints, _MAX_NAMED)))
    hidden_count = len(nonces_or_endpoints) - _MAX_NAMED
    return f"{shown_names} and {hidden_count} more" if hidden_count > 0 else shown_names


def sync_nonces_at_start(
    context: AccountContext, on_known_conflict: Callable[[], None] | None = None
) -> StepResult | None:
    """Reconcile nonces at the start of a daemon.

    If the chain has more nonces than the database, but the sender is already paused for a foreign
    transaction, the daemon may start. `on_known_conflict` is called in this case, because an old
    copy of the database may contain this pause as well.

    Raises:
        NonceAheadError: the chain is ahead of the sender, and no pause is stored for it.
        InputError, TransientError: see `reconcile_nonces`.
    """
    try:
        return reconcile_nonces(context)
    except NonceAheadError:
        pause = _load_account_pause(context)
        if pause is None or pause.kind is not PauseKind.FOREIGN:
            raise
        if on_known_conflict is not None:
            on_known_conflict()
        # The conflict is already stored. More unknown nonces on the chain change nothing.
        return None


def sync_nonces_while_running(context: AccountContext) -> StepResult | None:
    """Reconcile nonces in a running daemon.

    The sender is paused if the chain is ahead.

    Raises:
        InputError, TransientError: see `reconcile_nonces`. A TransientError is also raised if the
            endpoints do not agree on the transaction that used the first unknown nonce.
    """
    try:
        return reconcile_nonces(context)
    except NonceAheadError as error:
        pause = _load_account_pause(context)
        if pause is not None and pause.reason.startswith(_format_nonce_conflict(context, error)):
            return None
        nonce_use = _find_first_foreign_use(context, error)
        if nonce_use is None:
            raise TransientError(
                f"{_format_nonce_conflict(context, error)}, and the endpoints do not agree on the "
                f"transaction that used nonce {error.next_nonce}; the sender is paused once they "
                "do"
            ) from error
        return _pause_sender(context, error, nonce_use)


def _find_first_foreign_use(context: AccountContext, error: NonceAheadError) -> NonceUse | None:
    """Return the transaction that used the first unknown nonce.

    Return None if endpoints disagree. A transaction count is no proof, so an endpoint that reports
    it must return the transaction.
    """
    pool_view, account = context.sender_account.pool_view, context.account
    query = NonceQuery(account.chain_id, account.address, error.next_nonce)
    nonce_evidence = find_nonce_use(pool_view, query, fetch_newest_block(pool_view))
    return nonce_evidence.use if nonce_evidence.is_agreed else None


def _format_nonce_conflict(context: AccountContext, error: NonceAheadError) -> str:
    address = context.account.address
    return (
        f"{address} has used nonces up to {error.highest - 1}, {_CONFLICT_MARKER} "
        f"{error.next_nonce}"
    )


def _pause_sender(
    context: AccountContext, error: NonceAheadError, nonce_use: NonceUse
) -> StepResult:
    """Pause the sender, and log which foreign transaction used one of its nonces."""
    address = context.account.address
    conflict_text = _format_nonce_conflict(context, error)
    pause_reason = (
        f"{conflict_text}: nonce {error.next_nonce} was used by "
        f"{describe_transaction(nonce_use)}; {RECOVERY_OPTIONS}; then `qos-oracle outbox release "
        f"{address}`"
    )
    earlier_pause = _load_account_pause(context)
    was_reported = earlier_pause is not None and _CONFLICT_MARKER in earlier_pause.reason
    with context.write_transaction() as uow:
        # Any earlier pause is replaced, because some kinds of pauses end automatically.
        uow.outbox.accounts.pause(
            context.account,
            PauseKind.FOREIGN,
            pause_reason + _format_earlier_pause(earlier_pause),
            context.stamp,
        )
    if not was_reported:
        FOREIGN.inc(error.highest - error.next_nonce)
    get_logger().error(
        "account_nonce_ahead",
        sender=address,
        counted=error.highest,
        assigned=error.next_nonce,
        transaction=nonce_use.hash,
        act="find out who uses the key; `outbox rebuild --from-chain`, "
        f"`outbox release {address}`",
    )
    return StepResult("paused", None, pause_reason)


def _format_earlier_pause(earlier_pause: Pause | None) -> str:
    """Format the reason of the pause that a new pause replaces.

    It is appended to the reason of the new pause. The operator must see it, because a release of
    the new pause ends the replaced one as well.
    """
    if earlier_pause is None:
        return ""
    if _CONFLICT_MARKER in earlier_pause.reason:
        _, marker, earlier_text = earlier_pause.reason.partition(_EARLIER_MARKER)
        return marker + earlier_text
    return f"{_EARLIER_MARKER}{earlier_pause.kind.value}: {earlier_pause.reason}"


def _load_account_pause(context: AccountContext) -> Pause | None:
    with context.store.read_transaction() as uow:
        return uow.outbox.accounts.find_pause(context.account)
