"""Queries for nonces, signed bytes and their cost (docs/explanation/transactions.md#states)."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, exists, func, or_, select

from oracle.domain.ids import Hash
from oracle.store.encoding import hexed, range_of_prefix
from oracle.store.outbox.records import (
    REBUILT,
    Account,
    Attempt,
    IntentState,
    NonceSlot,
    NonceState,
)
from oracle.store.outbox.row_mapping import attempt_of, slot_of
from oracle.store.tables.outbox_tables import pub_attempt, pub_intent, pub_nonce

_WATCHED = (NonceState.OPEN, NonceState.LIVE, NonceState.MINED)
# Later than any clock shows.
_FOR_EVER = 2**62
_HASH_BYTES = 32
_MAY_COST = (NonceState.OPEN.value, NonceState.LIVE.value)


class NonceQueries:
    """Read access to the tables pub_nonce and pub_attempt, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def watched(self, account: Account) -> list[NonceSlot]:
        """Return every slot that is not final, by nonce."""
        chosen = (
            select(pub_nonce)
            .where(
                of_account(account),
                pub_nonce.c.state.in_([state.value for state in _WATCHED]),
            )
            .order_by(pub_nonce.c.nonce)
        )
        return [slot_of(row) for row in self._connection.execute(chosen)]

    def lost(self, account: Account) -> list[int]:
        """Return the nonces that a foreign transaction used and that were not rebuilt."""
        chosen = select(pub_nonce.c.nonce).where(
            of_account(account), pub_nonce.c.state == NonceState.FOREIGN.value
        )
        return list(self._connection.execute(chosen.order_by(pub_nonce.c.nonce)).scalars())

    def blocks_to_land(self, account: Account, limit: int) -> list[int]:
        """Return the blocks from sending to inclusion of the last `limit` landed nonces."""
        first = func.min(pub_attempt.c.first_sent_block)
        chosen = (
            select(pub_nonce.c.block_number - first)
            .join(
                pub_attempt,
                and_(
                    pub_attempt.c.chain_id == pub_nonce.c.chain_id,
                    pub_attempt.c.sender == pub_nonce.c.sender,
                    pub_attempt.c.nonce == pub_nonce.c.nonce,
                ),
            )
            .where(
                of_account(account),
                pub_nonce.c.block_number.is_not(None),
                pub_attempt.c.first_sent_block.is_not(None),
            )
            .group_by(pub_nonce.c.nonce, pub_nonce.c.block_number)
            .order_by(pub_nonce.c.nonce.desc())
            .limit(limit)
        )
        return list(self._connection.execute(chosen).scalars())

    def at(self, account: Account, nonce: int) -> NonceSlot | None:
        """Return the slot of one nonce, even if it is final, or None."""
        chosen = select(pub_nonce).where(of_account(account), pub_nonce.c.nonce == nonce)
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else slot_of(row)

    def attempts(self, slot: NonceSlot) -> list[Attempt]:
        """Return the attempts of a nonce, in the order of signing."""
        chosen = (
            select(pub_attempt)
            .where(
                pub_attempt.c.chain_id == slot.account.chain_id,
                pub_attempt.c.sender == slot.account.address,
                pub_attempt.c.nonce == slot.nonce,
            )
            .order_by(pub_attempt.c.seq)
        )
        return [attempt_of(row) for row in self._connection.execute(chosen)]

    def transactions_beginning(self, digits: str, limit: int) -> dict[Hash, int]:
        """Return up to `limit` transactions whose hex begins with `digits`, by hash.

        Each maps to the intent that it was signed for, or that was rebuilt from it.
        """
        low, high = map(hexed, range_of_prefix(digits, _HASH_BYTES))
        signed = select(pub_attempt.c.tx_hash, pub_attempt.c.intent_id).where(
            pub_attempt.c.tx_hash.between(low, high)
        )
        # Hashes from a lost database exist only in the text that `record_rebuilt` writes.
        rebuilt = select(pub_intent.c.error_text, pub_intent.c.id).where(
            pub_intent.c.kind == REBUILT, pub_intent.c.error_text.startswith(f"0x{digits}")
        )
        found = {
            Hash(text.partition(" ")[0]): int(intent)
            for chosen, first in ((rebuilt, pub_intent.c.id), (signed, pub_attempt.c.tx_hash))
            for text, intent in self._connection.execute(chosen.order_by(first).limit(limit))
        }
        return dict(sorted(found.items())[:limit])

    def vacant(self, account: Account) -> NonceSlot | None:
        """Return the lowest open nonce without signed bytes and without an intent, or None."""
        signed = exists().where(
            pub_attempt.c.chain_id == pub_nonce.c.chain_id,
            pub_attempt.c.sender == pub_nonce.c.sender,
            pub_attempt.c.nonce == pub_nonce.c.nonce,
        )
        chosen = (
            select(pub_nonce)
            .join(pub_intent, pub_intent.c.id == pub_nonce.c.intent_id)
            .where(
                of_account(account),
                pub_nonce.c.state == NonceState.OPEN.value,
                (pub_intent.c.state != IntentState.ASSIGNED.value)
                | (pub_intent.c.nonce != pub_nonce.c.nonce),
                ~signed,
            )
            .order_by(pub_nonce.c.nonce)
            .limit(1)
        )
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else slot_of(row)

    def reserved(self, account: Account) -> int:
        """Return the max cost of the open slots, in wei."""
        return sum(self._costs(of_account(account) & pub_nonce.c.state.in_(_MAY_COST)))

    def committed_since(self, account: Account, time: int, until: int = _FOR_EVER) -> int:
        """Return the cost or max cost of slots opened, bumped or mined since `since`, in wei.

        `since` and `until` are unix seconds: a clock that was ahead leaves times in the future. A
        slot counts fully. Bumps and no-ops count too, and open slots count whatever their age,
        because they may be paid now.
        """
        times = (pub_nonce.c.opened_at, pub_nonce.c.last_bump_at, pub_nonce.c.mined_at)
        recent = or_(
            pub_nonce.c.state.in_(_MAY_COST),
            *(one.between(time, until) for one in times),
        )
        return sum(self._costs(of_account(account) & recent))

    def cost_of(self, slot: NonceSlot) -> int:
        """Return the cost of a nonce, or its max cost while it is open, in wei.

        The max cost is the largest reservation of its intents or the largest limit of its signed
        bytes. A vacant nonce costs nothing.
        """
        return sum(self._costs(of_account(slot.account) & (pub_nonce.c.nonce == slot.nonce)))

    def reserved_at_most(self, slot: NonceSlot) -> int:
        """Return the max cost that a nonce was allowed before it was mined, in wei."""
        bound = select(pub_intent.c.max_cost_wei).where(
            pub_intent.c.chain_id == slot.account.chain_id,
            pub_intent.c.sender == slot.account.address,
            pub_intent.c.nonce == slot.nonce,
        )
        costs = [cost or 0 for (cost,) in self._connection.execute(bound)]
        signed = [one.signed.gas_limit * one.signed.max_fee_wei for one in self.attempts(slot)]
        return max([*costs, *signed], default=0)

    def missing(self, account: Account, below: int) -> list[int]:
        """Return the assigned nonces under `below` that have no slot in this database.

        Every nonce from the lowest slot on was assigned here, so there should be none.
        """
        chosen = select(pub_nonce.c.nonce).where(of_account(account)).order_by(pub_nonce.c.nonce)
        known = [nonce for (nonce,) in self._connection.execute(chosen)]
        if not known:
            return []
        return sorted(set(range(known[0], below)) - set(known))

    def _costs(self, where: ColumnElement[bool]) -> Iterable[int]:
        """Return the cost of each slot, by one query: a dispatcher has thousands per day."""
        costs: dict[int, int] = {}
        for row in self._connection.execute(_COSTS.where(where)):
            if row.gas_used is not None:
                cost = row.gas_used * (row.gas_price_wei or 0) + (row.l1_fee_wei or 0)
            else:
                cost = max(row.max_cost_wei or 0, (row.gas_limit or 0) * (row.max_fee_wei or 0))
            costs[row.nonce] = max(costs.get(row.nonce, 0), cost)
        return costs.values()


# A slot without a receipt has one row per intent and attempt; amounts are added in Python, because
# the database stores them as bytes.
_IS_OPEN = pub_nonce.c.gas_used.is_(None)
_COSTS = select(
    pub_nonce.c.nonce,
    pub_nonce.c.gas_used,
    pub_nonce.c.gas_price_wei,
    pub_nonce.c.l1_fee_wei,
    pub_intent.c.max_cost_wei,
    pub_attempt.c.gas_limit,
    pub_attempt.c.max_fee_wei,
).select_from(
    pub_nonce.outerjoin(
        pub_intent,
        and_(
            _IS_OPEN,
            pub_intent.c.chain_id == pub_nonce.c.chain_id,
            pub_intent.c.sender == pub_nonce.c.sender,
            pub_intent.c.nonce == pub_nonce.c.nonce,
        ),
    ).outerjoin(
        pub_attempt,
        and_(
            _IS_OPEN,
            pub_attempt.c.chain_id == pub_nonce.c.chain_id,
            pub_attempt.c.sender == pub_nonce.c.sender,
            pub_attempt.c.nonce == pub_nonce.c.nonce,
        ),
    )
)


def of_account(account: Account) -> ColumnElement[bool]:
    """Build the condition for an account's rows."""
    return and_(pub_nonce.c.chain_id == account.chain_id, pub_nonce.c.sender == account.address)


# Built once, because every tick runs it.
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
    """Queries of nonces with their attempts, used by every tick."""

    def watched_with_attempts(self, account: Account) -> list[tuple[NonceSlot, list[Attempt]]]:
        """Return every slot that is not final, by nonce, with attempts in order of signing."""
        return self.with_attempts(self.watched(account))

    def with_attempts(self, slots: Sequence[NonceSlot]) -> list[tuple[NonceSlot, list[Attempt]]]:
        """Return slots of one account with the attempts of each, in order of signing."""
        if not slots:
            return []
        account, nonces = slots[0].account, [one.nonce for one in slots]
        whose = {"chain": account.chain_id, "account": account.address}
        between = {"lowest": min(nonces), "highest": max(nonces)}
        # Open nonces are contiguous; final ones between them are skipped.
        found: dict[int, list[Attempt]] = {nonce: [] for nonce in nonces}
        for row in self._connection.execute(_BETWEEN, {**whose, **between}):
            if row.nonce in found:
                found[row.nonce].append(attempt_of(row))
        return [(one, found[one.nonce]) for one in slots]
