"""Computes statistics of all sent transactions for `/metrics`, from rows only."""

from sqlalchemy import Connection, func, select

from oracle.domain.ids import Address
from oracle.store.outbox.records import Account, NonceState
from oracle.store.tables.outbox_tables import pub_account, pub_attempt, pub_intent, pub_nonce
from oracle.telemetry.outbox_counts import OutboxStatistics

_FINISHED_STATES = (NonceState.FINAL.value, NonceState.FOREIGN.value)


class OutboxStats:
    """Counts over the tables pub_intent, pub_nonce and pub_attempt, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_nonce_progress_by_account(self) -> dict[Account, tuple[int, int]]:
        """Return the next nonce and the lowest unfinished nonce of every enrolled account."""
        lowest_waiting = (
            select(func.min(pub_nonce.c.nonce))
            .where(
                pub_nonce.c.chain_id == pub_account.c.chain_id,
                pub_nonce.c.sender == pub_account.c.address,
                pub_nonce.c.state.not_in(_FINISHED_STATES),
            )
            .scalar_subquery()
        )
        rows = self._connection.execute(
            select(
                pub_account.c.chain_id,
                pub_account.c.address,
                pub_account.c.next_nonce,
                func.coalesce(lowest_waiting, pub_account.c.next_nonce),
            )
        )
        return {Account(row[0], Address(row[1])): (row[2], row[3]) for row in rows}

    def add_finished_nonces(
        self, stats: OutboxStatistics, account: Account, first: int, below: int
    ) -> None:
        """Add the finished nonces of an account from `first` to `below` - 1 to `stats`."""
        attempts = (
            select(func.count())
            .where(
                pub_attempt.c.chain_id == pub_nonce.c.chain_id,
                pub_attempt.c.sender == pub_nonce.c.sender,
                pub_attempt.c.nonce == pub_nonce.c.nonce,
            )
            .scalar_subquery()
            .label("signed")
        )
        rows = self._connection.execute(
            select(
                pub_intent.c.kind,
                pub_nonce.c.state,
                pub_nonce.c.receipt_status,
                pub_nonce.c.gas_used,
                pub_nonce.c.gas_price_wei,
                pub_nonce.c.l1_fee_wei,
                pub_nonce.c.opened_at,
                pub_nonce.c.mined_at,
                pub_nonce.c.finalised_at,
                pub_nonce.c.opened_block,
                pub_nonce.c.block_number,
                attempts,
            )
            .join(pub_intent, pub_intent.c.id == pub_nonce.c.intent_id)
            .where(
                pub_nonce.c.chain_id == account.chain_id,
                pub_nonce.c.sender == account.address,
                pub_nonce.c.nonce >= first,
                pub_nonce.c.nonce < below,
                pub_nonce.c.state.in_(_FINISHED_STATES),
            )
            .order_by(pub_nonce.c.nonce)
        )
        for row in rows:
            gas_used = row.gas_used or 0
            is_foreign = row.state == NonceState.FOREIGN.value
            outcome = "success" if row.receipt_status else "reverted"
            stats.add_finished_nonce(
                row.kind,
                "foreign" if is_foreign else outcome,
                gas_used=gas_used,
                cost_wei=gas_used * (row.gas_price_wei or 0) + (row.l1_fee_wei or 0),
            )
            if is_foreign or row.mined_at is None:
                continue
            is_final = row.finalised_at is not None
            has_block = row.block_number is not None
            stats.add_mined_nonce(
                row.kind,
                seconds=row.mined_at - row.opened_at,
                final_seconds=row.finalised_at - row.opened_at if is_final else None,
                blocks=row.block_number - row.opened_block
                if has_block and row.opened_block
                else None,
                bumps=max(0, row.signed - 1),
            )

    def count_unfinished_nonces_by_account(self) -> dict[Address, int]:
        """Count the unfinished nonces, by account."""
        rows = self._connection.execute(
            select(pub_nonce.c.sender, func.count())
            .where(pub_nonce.c.state.not_in(_FINISHED_STATES))
            .group_by(pub_nonce.c.sender)
        )
        return {Address(row[0]): row[1] for row in rows}

    def count_attempts_by_kind_and_reason(self) -> dict[tuple[str, str], int]:
        """Count all transactions that were ever signed, by kind of call and reason."""
        rows = self._connection.execute(
            select(pub_intent.c.kind, pub_attempt.c.reason, func.count())
            .join(pub_intent, pub_intent.c.id == pub_attempt.c.intent_id)
            .group_by(pub_intent.c.kind, pub_attempt.c.reason)
        )
        return {(row[0], row[1]): row[2] for row in rows}

    def count_superseded_calls_by_kind(self) -> dict[str, int]:
        """Count the calls that lost their nonce to another intent, by kind."""
        rows = self._connection.execute(
            select(pub_intent.c.kind, func.count())
            .where(pub_intent.c.superseded_by.is_not(None), pub_intent.c.nonce.is_not(None))
            .group_by(pub_intent.c.kind)
        )
        return {row[0]: row[1] for row in rows}

    def get_oldest_update_times(self) -> dict[tuple[str, str], int]:
        """Return when the longest unchanged intent of each (kind, state) was last changed.

        Times are in unix seconds. Only intents that have not ended are included.
        """
        waiting = ("planned", "ready", "assigned", "live", "mined", "held")
        rows = self._connection.execute(
            select(pub_intent.c.kind, pub_intent.c.state, func.min(pub_intent.c.updated_at))
            .where(pub_intent.c.state.in_(waiting))
            .group_by(pub_intent.c.kind, pub_intent.c.state)
        )
        return {(row[0], row[1]): row[2] for row in rows}
