"""Compares the outbox with the chain before anything is sent (publishing.md 3.4)."""

from oracle.errors import InputError
from oracle.publisher.receipts import nonce_at
from oracle.services.desk import Desk, Step


def reconcile(desk: Desk) -> Step | None:
    """Enroll the transmitter at its first start; later check that no nonce is missing.

    Everything else heals by itself: what has a nonce and no bytes is signed, what has bytes is
    sent, what was sent is looked for.

    Raises:
        InputError: the chain has seen nonces that this database never gave out.
        TransientError: no endpoint answers.
    """
    account, lines = desk.account, desk.publisher.lines
    mined = nonce_at(lines, account.address, "latest")
    with desk.store.reading() as unit:
        known = unit.outbox.senders.next_nonce(account)
        unfinished = len(unit.outbox.slots.watched(account))
    if known is None:
        # What waits in the pool may be ours, from a database that is lost.
        first = max(mined, nonce_at(lines, account.address, "pending"))
        with desk.writing() as unit:
            unit.outbox.senders.enroll(account, first, desk.stamp)
        return Step("enrolled", None, f"{account.address} at nonce {first}")
    if mined > known:
        raise InputError(
            f"{account.address} has used nonces up to {mined - 1}, this database gave out only "
            f"those below {known}: it is an old copy, or the key is used elsewhere; "
            "put the newest copy back, or use a new transmitter key"
        )
    if unfinished:
        return Step("reconciled", None, f"{unfinished} transactions are under way")
    return None
