"""Open nonces together with their bytes: two queries, however many there are."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from oracle.store.outbox.nonce_queries import NonceQueries
from oracle.store.outbox.records import Account, Attempt, NonceSlot
from oracle.store.outbox.row_mapping import attempt_of
from oracle.store.tables.outbox_tables import pub_attempt

# Made once: every tick asks it.
_BETWEEN = (
    select(pub_attempt)
    .where(
        pub_attempt.c.chain_id == bindparam("chain"),
        pub_attempt.c.sender == bindparam("account"),
        pub_attempt.c.nonce.between(bindparam("lowest"), bindparam("highest")),
    )
    .order_by(pub_attempt.c.nonce, pub_attempt.c.seq)
)


class WatchedNonceQueries(NonceQueries):
    """What every tick asks of the tables pub_slot and pub_attempt."""

    def watched_with_attempts(self, account: Account) -> list[tuple[NonceSlot, list[Attempt]]]:
        """Return every slot that is not final, by nonce, with its bytes in order of signing."""
        return self.with_attempts(self.watched(account))

    def with_attempts(self, slots: Sequence[NonceSlot]) -> list[tuple[NonceSlot, list[Attempt]]]:
        """Return slots of one account with the bytes signed for each, in order of signing."""
        if not slots:
            return []
        account, nonces = slots[0].account, [one.nonce for one in slots]
        whose = {"chain": account.chain_id, "account": account.address}
        between = {"lowest": min(nonces), "highest": max(nonces)}
        # Open nonces lie together; what is final between them is passed over.
        found: dict[int, list[Attempt]] = {nonce: [] for nonce in nonces}
        for row in self._connection.execute(_BETWEEN, {**whose, **between}):
            if row.nonce in found:
                found[row.nonce].append(attempt_of(row))
        return [(one, found[one.nonce]) for one in slots]
