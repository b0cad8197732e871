"""Handles a sender whose nonce on the chain is ahead of the database.

Another program uses its key, or the database is an old copy. A start is refused, because an
operator is present. A running daemon pauses the sender until an operator releases it. See
docs/explanation/transactions.md#states and docs/explanation/transactions.md#crash-points; decision
0110.
"""

from collections.abc import Callable

import structlog

from oracle.errors import TransientError
from oracle.store.outbox.records import Pause, PauseKind
from oracle.telemetry.txmgr_metrics import FOREIGN
from oracle.txmgr.client.nonce_uses import NonceQuery, NonceUse, find_nonce_use
from oracle.txmgr.client.receipts import fetch_newest_block
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.finalizer import RECOVERY_OPTIONS, describe_transaction
from oracle.txmgr.nonce_sync import NonceAheadError, reconcile

# The text that marks a pause for a nonce conflict, and the one before the reason of the pause that
# it replaced.
_CONFLICT_MARKER = "this database gave out only those below"
_EARLIER_MARKER = "; it rested before, "


def sync_at_start(
    context: AccountContext, on_known_conflict: Callable[[], None] | None = None
) -> StepResult | None:
    """Reconcile nonces at the start of a daemon; a sender paused for this conflict may start.

    `on_known_conflict` is called in that case, because an old copy of the database may contain the
    pause as well.

    Raises:
        NonceAheadError: the chain is ahead of the sender, and no pause is stored for it.
        InputError, TransientError: see `nonce_sync.reconcile`.
    """
    try:
        return reconcile(context)
    except NonceAheadError:
        pause = _get_pause(context)
        if pause is None or pause.kind is not PauseKind.FOREIGN:
            raise
        if on_known_conflict is not None:
            on_known_conflict()
        # The conflict is recorded already; further nonces on the chain need no other proof.
        return None


def sync_while_running(context: AccountContext) -> StepResult | None:
    """Reconcile nonces in a running daemon, and pause the sender if the chain is ahead.

    Raises:
        InputError, TransientError: see `nonce_sync.reconcile`; or the endpoints do not agree on
            the transaction that used the nonces.
    """
    try:
        return reconcile(context)
    except NonceAheadError as error:
        if _is_already_paused(_get_pause(context), _format_conflict(context, error)):
            return None
        use = _find_first_foreign_use(context, error)
        if use is None:
            raise TransientError(
                f"{_format_conflict(context, error)}, and the endpoints do not agree on the "
                f"transaction that used nonce {error.next_nonce}; the sender is paused once they "
                "do"
            ) from error
        return _pause_sender(context, error, use)


def _find_first_foreign_use(context: AccountContext, error: NonceAheadError) -> NonceUse | None:
    """Return the transaction that used the first unknown nonce, or None if endpoints disagree.

    A transaction count is no proof: an endpoint that reports it must show the transaction.
    """
    pool_view, account = context.sender_account.pool_view, context.account
    query = NonceQuery(account.chain_id, account.address, error.next_nonce)
    evidence = find_nonce_use(pool_view, query, fetch_newest_block(pool_view))
    return evidence.use if evidence.is_agreed else None


def _format_conflict(context: AccountContext, error: NonceAheadError) -> str:
    address = context.account.address
    return (
        f"{address} has used nonces up to {error.highest - 1}, {_CONFLICT_MARKER} "
        f"{error.next_nonce}"
    )


def _is_already_paused(pause: Pause | None, conflict_text: str) -> bool:
    return pause is not None and pause.reason.startswith(conflict_text)


def _pause_sender(context: AccountContext, error: NonceAheadError, use: NonceUse) -> StepResult:
    """Pause the sender, and log the transaction that used its nonce."""
    address, conflict_text = context.account.address, _format_conflict(context, error)
    reason = (
        f"{conflict_text}: nonce {error.next_nonce} was used by {describe_transaction(use)}; "
        f"{RECOVERY_OPTIONS}; then `qos-oracle outbox release {address}`"
    )
    earlier_pause = _get_pause(context)
    was_reported = earlier_pause is not None and _CONFLICT_MARKER in earlier_pause.reason
    with context.write_transaction() as uow:
        # It replaces every other pause, because some of them end automatically.
        uow.outbox.accounts.pause(
            context.account,
            PauseKind.FOREIGN,
            reason + _format_earlier_pause(earlier_pause),
            context.stamp,
        )
    if not was_reported:
        FOREIGN.inc(error.highest - error.next_nonce)
    structlog.get_logger().error(
        "account_nonce_ahead",
        sender=address,
        counted=error.highest,
        given_out=error.next_nonce,
        transaction=use.hash,
        act="find out who uses the key; `outbox rebuild --from-chain`, "
        f"`outbox release {address}`",
    )
    return StepResult("paused", None, reason)


def _format_earlier_pause(earlier_pause: Pause | None) -> str:
    """Return the reason of the replaced pause as text; releasing the new pause ends both."""
    if earlier_pause is None:
        return ""
    if _CONFLICT_MARKER in earlier_pause.reason:
        _, marker, earlier_text = earlier_pause.reason.partition(_EARLIER_MARKER)
        return marker + earlier_text
    return f"{_EARLIER_MARKER}{earlier_pause.kind.value}: {earlier_pause.reason}"


def _get_pause(context: AccountContext) -> Pause | None:
    with context.store.read_transaction() as uow:
        return uow.outbox.accounts.get_pause(context.account)
