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
from oracle.txmgr.client.nonce_uses import NonceQuery, Use, use_of
from oracle.txmgr.client.receipts import newest_block
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.finalizer import TWO_WAYS_OUT, describe_transaction
from oracle.txmgr.nonce_sync import NonceAheadError, reconcile

# The text that marks a pause for a nonce conflict, and the one before the reason of the pause that
# it replaced.
_OURS = "this database gave out only those below"
_BEFORE = "; it rested before, "


def compare_at_start(
    context: TxContext, if_known: Callable[[], None] | None = None
) -> StepResult | None:
    """Reconcile nonces at the start of a daemon; a sender paused for this conflict may start.

    `on_known_conflict` is called in that case, because an old copy of the database may contain the
    pause as well.

    Raises:
        NonceAheadError: the chain is ahead of the sender, and no pause is stored for it.
        InputError, TransientError: see `reconcile_nonces`.
    """
    try:
        return reconcile(context)
    except NonceAheadError:
        pause = _pause_of(context)
        if pause is None or pause.kind is not PauseKind.FOREIGN:
            raise
        if if_known is not None:
            if_known()
        # The conflict is recorded already; further nonces on the chain need no other proof.
        return None


def compare_again(context: TxContext) -> StepResult | None:
    """Reconcile nonces in a running daemon, and pause the sender if the chain is ahead.

    Raises:
        InputError, TransientError: see `reconcile_nonces`; or the endpoints do not agree on the
            transaction that used the nonces.
    """
    try:
        return reconcile(context)
    except NonceAheadError as ahead:
        if _is_told(_pause_of(context), _counted(context, ahead)):
            return None
        use = _first_beyond(context, ahead)
        if use is None:
            raise TransientError(
                f"{_counted(context, ahead)}, and the endpoints do not agree on the transaction "
                f"that used nonce {ahead.known}; the sender rests once they show it"
            ) from ahead
        return _pause_sender(context, ahead, use)


def _first_beyond(context: TxContext, ahead: NonceAheadError) -> Use | None:
    """Return the transaction that used the first nonce beyond ours, or None without agreement.

    A transaction count is no proof: an endpoint that reports one must show the transaction.
    """
    lines, account = context.publisher.lines, context.account
    wanted = NonceQuery(account.chain_id, account.address, ahead.known)
    found = use_of(lines, wanted, newest_block(lines))
    return found.use if found.is_agreed else None


def _counted(context: TxContext, ahead: NonceAheadError) -> str:
    address = context.account.address
    return f"{address} has used nonces up to {ahead.highest - 1}, {_OURS} {ahead.known}"


def _is_told(pause: Pause | None, counted: str) -> bool:
    return pause is not None and pause.reason.startswith(counted)


def _pause_sender(context: TxContext, ahead: NonceAheadError, use: Use) -> StepResult:
    """Pause the sender, and log the transaction that used its nonce."""
    address, counted = context.account.address, _counted(context, ahead)
    reason = (
        f"{counted}: nonce {ahead.known} was used by {describe_transaction(use)}; {TWO_WAYS_OUT}; "
        f"then `qos-oracle outbox release {address}`"
    )
    earlier = _pause_of(context)
    is_told = earlier is not None and _OURS in earlier.reason
    with context.writing() as uow:
        # It replaces every other pause, because some of them end automatically.
        uow.outbox.accounts.pause(
            context.account, PauseKind.FOREIGN, reason + _before(earlier), context.stamp
        )
    if not is_told:
        FOREIGN.inc(ahead.highest - ahead.known)
    structlog.get_logger().error(
        "account_nonce_ahead",
        sender=address,
        counted=ahead.highest,
        given_out=ahead.known,
        transaction=use.hash,
        act="find out who uses the key; `outbox rebuild --from-chain`, "
        f"`outbox release {address}`",
    )
    return StepResult("paused", None, reason)


def _before(earlier: Pause | None) -> str:
    """Return the reason of the replaced pause: releasing the new pause ends the old one as well."""
    if earlier is None:
        return ""
    if _OURS in earlier.reason:
        _, mark, rest = earlier.reason.partition(_BEFORE)
        return mark + rest
    return f"{_BEFORE}{earlier.kind.value}: {earlier.reason}"


def _pause_of(context: TxContext) -> Pause | None:
    with context.store.reading() as uow:
        return uow.outbox.accounts.paused_because(context.account)
