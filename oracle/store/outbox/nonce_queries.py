"""Reads nonces, signed bytes and their cost (docs/explanation/transactions.md#states)."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, exists, func, or_, select

from oracle.domain.ids import Hash
from oracle.store.encoding import compute_prefix_range, encode_hex
from oracle.store.outbox.records import (
    REBUILT,
    Account,
    Attempt,
    IntentState,
    NonceSlot,
    NonceState,
)
from oracle.store.outbox.row_mapping import decode_attempt_row, decode_slot_row
from oracle.store.tables.outbox_tables import pub_attempt, pub_intent, pub_nonce

_UNFINISHED_STATES = (NonceState.OPEN, NonceState.LIVE, NonceState.MINED)
# A Unix time in seconds that no clock reaches.
_MAX_TIME = 2**62
_HASH_BYTES = 32
_OPEN_STATES = (NonceState.OPEN.value, NonceState.LIVE.value)


class NonceQueries:
    """Read access to the tables pub_nonce and pub_attempt, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_unfinished(self, account: Account) -> list[NonceSlot]:
        """Return the account's nonce slots that are not final, by nonce."""
        query = (
            select(pub_nonce)
            .where(
                build_account_condition(account),
                pub_nonce.c.state.in_([state.value for state in _UNFINISHED_STATES]),
            )
            .order_by(pub_nonce.c.nonce)
        )
        return [decode_slot_row(row) for row in self._connection.execute(query)]

    def list_foreign_nonces(self, account: Account) -> list[int]:
        """Return the nonces that a transaction from outside this database used.

        Nonces that were rebuilt since are left out.
        """
        query = select(pub_nonce.c.nonce).where(
            build_account_condition(account), pub_nonce.c.state == NonceState.FOREIGN.value
        )
        return list(self._connection.execute(query.order_by(pub_nonce.c.nonce)).scalars())

    def list_inclusion_delays(self, account: Account, limit: int) -> list[int]:
        """Return after how many blocks each of the last `limit` mined nonces was included.

        The blocks are counted from the first sending on.
        """
        first_sent_block = func.min(pub_attempt.c.first_sent_block)
        query = (
            select(pub_nonce.c.block_number - first_sent_block)
            .join(
                pub_attempt,
                and_(
                    pub_attempt.c.chain_id == pub_nonce.c.chain_id,
                    pub_attempt.c.sender == pub_nonce.c.sender,
                    pub_attempt.c.nonce == pub_nonce.c.nonce,
                ),
            )
            .where(
                build_account_condition(account),
                pub_nonce.c.block_number.is_not(None),
                pub_attempt.c.first_sent_block.is_not(None),
            )
            .group_by(pub_nonce.c.nonce, pub_nonce.c.block_number)
            .order_by(pub_nonce.c.nonce.desc())
            .limit(limit)
        )
        return list(self._connection.execute(query).scalars())

    def find_slot(self, account: Account, nonce: int) -> NonceSlot | None:
        """Return the slot of a nonce, or None if it has none.

        Final slots are included.
        """
        query = select(pub_nonce).where(
            build_account_condition(account), pub_nonce.c.nonce == nonce
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else decode_slot_row(row)

    def list_attempts(self, slot: NonceSlot) -> list[Attempt]:
        """Return the attempts of a nonce, in the order of signing."""
        query = (
            select(pub_attempt)
            .where(
                pub_attempt.c.chain_id == slot.account.chain_id,
                pub_attempt.c.sender == slot.account.address,
                pub_attempt.c.nonce == slot.nonce,
            )
            .order_by(pub_attempt.c.seq)
        )
        return [decode_attempt_row(row) for row in self._connection.execute(query)]

    def list_intent_ids_by_hash_prefix(self, digits: str, limit: int) -> dict[Hash, int]:
        """Return up to `limit` transactions by hash prefix, with the ids of their intents.

        The prefix is `digits`, in hex without `0x`. The result maps each hash to an intent's id:
        the transaction was signed for this intent, or the intent was rebuilt from the transaction.
        """
        lowest_hash, highest_hash = map(encode_hex, compute_prefix_range(digits, _HASH_BYTES))
        attempt_query = select(pub_attempt.c.tx_hash, pub_attempt.c.intent_id).where(
            pub_attempt.c.tx_hash.between(lowest_hash, highest_hash)
        )
        # The transactions of a lost database have no attempts. Their hashes are only in the text
        # that `record_rebuilt_nonce` writes.
        rebuilt_query = select(pub_intent.c.error_text, pub_intent.c.id).where(
            pub_intent.c.kind == REBUILT, pub_intent.c.error_text.startswith(f"0x{digits}")
        )
        intent_id_by_hash = {
            Hash(text.partition(" ")[0]): int(intent_id)
            for query, order in (
                (rebuilt_query, pub_intent.c.id),
                (attempt_query, pub_attempt.c.tx_hash),
            )
            for text, intent_id in self._connection.execute(query.order_by(order).limit(limit))
        }
        return dict(sorted(intent_id_by_hash.items())[:limit])

    def find_vacant_slot(self, account: Account) -> NonceSlot | None:
        """Return the lowest open nonce without a signed transaction or an intent, or None."""
        has_attempt = exists().where(
            pub_attempt.c.chain_id == pub_nonce.c.chain_id,
            pub_attempt.c.sender == pub_nonce.c.sender,
            pub_attempt.c.nonce == pub_nonce.c.nonce,
        )
        query = (
            select(pub_nonce)
            .join(pub_intent, pub_intent.c.id == pub_nonce.c.intent_id)
            .where(
                build_account_condition(account),
                pub_nonce.c.state == NonceState.OPEN.value,
                (pub_intent.c.state != IntentState.ASSIGNED.value)
                | (pub_intent.c.nonce != pub_nonce.c.nonce)
                # The intent was moved to the account of a new key.
                | (pub_intent.c.sender != pub_nonce.c.sender),
                ~has_attempt,
            )
            .order_by(pub_nonce.c.nonce)
            .limit(1)
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else decode_slot_row(row)

    def sum_reserved_wei(self, account: Account) -> int:
        """Return the total maximum cost of the open slots, in wei."""
        return sum(
            self._load_slot_costs(
                build_account_condition(account) & pub_nonce.c.state.in_(_OPEN_STATES)
            )
        )

    def sum_committed_wei(self, account: Account, since: int, until: int = _MAX_TIME) -> int:
        """Return the total cost of the slots opened, bumped or mined in a time span.

        The cost is in wei, and `since` and `until` are unix seconds; `until` excludes times in the
        future, which a wrong clock may have stored. Bumps and no-ops are included. Open slots of
        any age are included with their maximum cost, because they may still have to be paid.
        """
        time_columns = (pub_nonce.c.opened_at, pub_nonce.c.last_bump_at, pub_nonce.c.mined_at)
        is_recent = or_(
            pub_nonce.c.state.in_(_OPEN_STATES),
            *(column.between(since, until) for column in time_columns),
        )
        return sum(self._load_slot_costs(build_account_condition(account) & is_recent))

    def compute_cost_wei(self, slot: NonceSlot) -> int:
        """Return the cost of a nonce in wei, or its maximum cost while it is open.

        The maximum cost is the highest of the amounts that are reserved for its intents and the
        limits of its signed bytes. A nonce without an intent costs nothing.
        """
        return sum(
            self._load_slot_costs(
                build_account_condition(slot.account) & (pub_nonce.c.nonce == slot.nonce)
            )
        )

    def compute_max_reserved_wei(self, slot: NonceSlot) -> int:
        """Return the maximum cost that was reserved for a nonce before it was mined, in wei."""
        query = select(pub_intent.c.max_cost_wei).where(
            pub_intent.c.chain_id == slot.account.chain_id,
            pub_intent.c.sender == slot.account.address,
            pub_intent.c.nonce == slot.nonce,
        )
        costs_wei = [cost or 0 for (cost,) in self._connection.execute(query)]
        signed_costs = [
            attempt.signed.gas_limit * attempt.signed.max_fee_wei
            for attempt in self.list_attempts(slot)
        ]
        return max([*costs_wei, *signed_costs], default=0)

    def list_missing_nonces(self, account: Account, below: int) -> list[int]:
        """Return the assigned nonces lower than `below` that have no slot in this database.

        The list should be empty, because this database assigned every nonce from its lowest slot
        on.
        """
        query = (
            select(pub_nonce.c.nonce)
            .where(build_account_condition(account))
            .order_by(pub_nonce.c.nonce)
        )
        nonces = [nonce for (nonce,) in self._connection.execute(query)]
        if not nonces:
            return []
        return sorted(set(range(nonces[0], below)) - set(nonces))

    def _load_slot_costs(self, condition: ColumnElement[bool]) -> Iterable[int]:
        """Return the costs in wei of the nonce slots that satisfy a condition.

        One query reads all slots, because a dispatcher has thousands of slots per day.
        """
        cost_by_nonce: dict[int, int] = {}
        for row in self._connection.execute(_COSTS.where(condition)):
            if row.gas_used is not None:
                cost_wei = row.gas_used * (row.gas_price_wei or 0) + (row.l1_fee_wei or 0)
            else:
                cost_wei = max(
                    row.max_cost_wei or 0, (row.gas_limit or 0) * (row.max_fee_wei or 0)
                )
            cost_by_nonce[row.nonce] = max(cost_by_nonce.get(row.nonce, 0), cost_wei)
        return cost_by_nonce.values()


# One row per intent and attempt of each slot without a receipt. The amounts are added up in
# Python, because the database stores them as bytes.
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


def build_account_condition(account: Account) -> ColumnElement[bool]:
    """Build the SQL condition that a row of pub_nonce belongs to the account."""
    return and_(pub_nonce.c.chain_id == account.chain_id, pub_nonce.c.sender == account.address)


# This statement is built once, because every tick runs it.
_ATTEMPTS_BETWEEN = (
    select(pub_attempt)
    .where(
        pub_attempt.c.chain_id == bindparam("chain"),
        pub_attempt.c.sender == bindparam("account"),
        pub_attempt.c.nonce.between(bindparam("lowest"), bindparam("highest")),
    )
    .order_by(pub_attempt.c.nonce, pub_attempt.c.seq)
)


class AttemptQueries(NonceQueries):
    """Queries for nonces and their attempts, which run in every tick."""

    def list_unfinished_slots_with_attempts(
        self, account: Account
    ) -> list[tuple[NonceSlot, list[Attempt]]]:
        """Return every unfinished slot with its attempts.

        Slots are ordered by nonce, and attempts by the time of signing.
        """
        return self.load_attempts(self.list_unfinished(account))

    def load_attempts(self, slots: Sequence[NonceSlot]) -> list[tuple[NonceSlot, list[Attempt]]]:
        """Return slots of one account, each with its attempts in signing order."""
        if not slots:
            return []
        account = slots[0].account
        nonces = [slot.nonce for slot in slots]
        account_parameters = {"chain": account.chain_id, "account": account.address}
        nonce_bounds = {"lowest": min(nonces), "highest": max(nonces)}
        # The nonces are nearly contiguous. Read a range, and skip the other nonces in it.
        attempts_by_nonce: dict[int, list[Attempt]] = {nonce: [] for nonce in nonces}
        for row in self._connection.execute(
            _ATTEMPTS_BETWEEN, {**account_parameters, **nonce_bounds}
        ):
            if row.nonce in attempts_by_nonce:
                attempts_by_nonce[row.nonce].append(decode_attempt_row(row))
        return [(slot, attempts_by_nonce[slot.nonce]) for slot in slots]
