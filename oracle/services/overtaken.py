"""What becomes of a sender that the chain has overtaken (publishing.md 3.3, 3.4; decision 0110).

Somebody else uses its key, or our database is old. A start is refused: a person is there. A daemon
that runs goes on without that sender; it rests until a person says that it may go on.
"""

import structlog

from oracle.services.adopting.adopting import rest_signer, signing_of
from oracle.services.desk import Desk, Step
from oracle.services.reconciling import CountedAheadError, reconcile
from oracle.store.outbox_rows import Pause, PauseKind
from oracle.telemetry.send_metrics import FOREIGN

# What a reason of ours has in it, and what stands before the one that it took the place of.
_OURS = "this database gave out only those below"
_BEFORE = "; it rested before, "


def compare_at_start(desk: Desk) -> Step | None:
    """As `reconcile`, at the start of a daemon: one whose sender rests already for it may start.

    Its signer rests as after `outbox adopt`: an old copy may hold that pause as well.

    Raises:
        CountedAheadError: the chain has overtaken the sender, and nobody was told yet.
        InputError, TransientError: as `reconcile`.
    """
    try:
        return reconcile(desk)
    except CountedAheadError as ahead:
        pause = _pause_of(desk)
        if pause is None or pause.kind is not PauseKind.FOREIGN:
            raise
        signing = signing_of(desk)
        if signing is not None:
            rest_signer(desk, signing, desk.actor)
        return _rest(desk, ahead)


def compare_again(desk: Desk) -> Step | None:
    """As `reconcile`, in a daemon that runs: the sender rests where the chain has overtaken it.

    Raises:
        InputError, TransientError: as `reconcile`: no endpoint answers, one alone counts more, or
            the database itself has lost nonces.
    """
    try:
        return reconcile(desk)
    except CountedAheadError as ahead:
        return _rest(desk, ahead)


def _rest(desk: Desk, ahead: CountedAheadError) -> Step | None:
    """Pause the sender; None: it rests for that already."""
    address = desk.account.address
    reason = (
        f"{address} has used nonces up to {ahead.most - 1}, {_OURS} {ahead.known}: somebody else "
        "uses its key; find out who, stop the daemon, `qos-oracle outbox adopt --from-chain "
        f"--yes`, then `qos-oracle outbox release {address}`"
    )
    earlier = _pause_of(desk)
    is_told = earlier is not None and _OURS in earlier.reason
    if earlier is not None and is_told and earlier.reason.startswith(reason):
        return None
    with desk.writing() as unit:
        # It takes the place of every other pause: some end by themselves.
        unit.outbox.senders.pause(
            desk.account, PauseKind.FOREIGN, reason + _before(earlier), desk.stamp
        )
    if not is_told:
        FOREIGN.inc(ahead.most - ahead.known)
    structlog.get_logger().error(
        "sender_overtaken",
        sender=address,
        counted=ahead.most,
        given_out=ahead.known,
        act=f"find out who uses the key; `outbox adopt --from-chain`, `outbox release {address}`",
    )
    return Step("paused", None, reason)


def _before(earlier: Pause | None) -> str:
    """Keep why it rested before: whoever releases it ends that pause as well."""
    if earlier is None:
        return ""
    if _OURS in earlier.reason:
        _, mark, rest = earlier.reason.partition(_BEFORE)
        return mark + rest
    return f"{_BEFORE}{earlier.kind.value}: {earlier.reason}"


def _pause_of(desk: Desk) -> Pause | None:
    with desk.store.reading() as unit:
        return unit.outbox.senders.paused_because(desk.account)
