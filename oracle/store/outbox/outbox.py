"""Stores sending accounts with their next nonces, and combines the outbox repositories.

It also counts the outcomes of calls for the metrics.
"""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    exists,
    func,
    insert,
    select,
    update,
)

from oracle.domain.ids import Address
from oracle.errors import FatalError
from oracle.store.outbox.intents import IntentRepository
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.nonce_queries import build_account_condition
from oracle.store.outbox.nonce_slots import NonceSlotRepository
from oracle.store.outbox.records import (
    Account,
    NonceState,
    Pause,
    PauseKind,
    Stamp,
)
from oracle.store.tables.outbox_tables import pub_account, pub_attempt, pub_intent, pub_nonce
from oracle.telemetry.outbox_counts import OutboxStatistics

# This statement is built once, because every tick runs it many times.
_PAUSED_ACCOUNT = select(pub_account).where(
    pub_account.c.chain_id == bindparam("chain"),
    pub_account.c.address == bindparam("account"),
    pub_account.c.paused,
)
_FINISHED_STATES = (NonceState.FINAL.value, NonceState.FOREIGN.value)


class AccountRepository:
    """Access to the table pub_account, within one transaction."""

    def __init__(self, connection: Connection, journal: Journal) -> None:
        self._connection = connection
        self._journal = journal

    def find_next_nonce(self, account: Account) -> int | None:
        """Return the nonce for the next intent, or None if the account is not enrolled."""
        query = select(pub_account.c.next_nonce).where(_build_account_condition(account))
        return self._connection.execute(query).scalar_one_or_none()

    def enroll_account(self, account: Account, next_nonce: int, stamp: Stamp) -> None:
        """Enroll a sending account.

        Its next nonce is its transaction count on chain.
        """
        self._connection.execute(
            insert(pub_account).values(
                chain_id=account.chain_id,
                address=account.address,
                next_nonce=next_nonce,
                paused=False,
            )
        )
        self._journal.write("enrolled", stamp, account.address, nonce=next_nonce)

    def allocate_nonce(self, account: Account) -> int:
        """Allocate and return the next nonce.

        The caller must write the slot of the nonce in the same transaction.

        Raises:
            FatalError: the account is not enrolled.
        """
        increment_statement = (
            update(pub_account)
            .where(_build_account_condition(account))
            .values(next_nonce=pub_account.c.next_nonce + 1)
            .returning(pub_account.c.next_nonce)
        )
        next_nonce = self._connection.execute(increment_statement).scalar_one_or_none()
        if next_nonce is None:
            raise FatalError(f"account {account.address} is not enrolled in the outbox")
        return int(next_nonce) - 1

    def raise_next_nonce(self, account: Account, next_nonce: int, stamp: Stamp) -> None:
        """Raise the account's next nonce to its transaction count on chain.

        An account that is not enrolled is enrolled. The next nonce is never lowered, because a
        nonce must be assigned only once.
        """
        stored_nonce = self.find_next_nonce(account)
        if stored_nonce is None:
            self.enroll_account(account, next_nonce, stamp)
        elif next_nonce > stored_nonce:
            self._connection.execute(
                update(pub_account)
                .where(_build_account_condition(account))
                .values(next_nonce=next_nonce)
            )
        journal_detail = f"{account.address} from {stored_nonce} to {next_nonce}"
        self._journal.write("rebuilt", stamp, journal_detail, nonce=next_nonce)

    def find_pause(self, account: Account) -> Pause | None:
        parameters = {"chain": account.chain_id, "account": account.address}
        row = self._connection.execute(_PAUSED_ACCOUNT, parameters).one_or_none()
        return None if row is None else _decode_pause(row)

    def get_pause_by_account(self) -> dict[Account, Pause]:
        query = select(pub_account).where(pub_account.c.paused).order_by(pub_account.c.address)
        return {
            Account(row.chain_id, Address(row.address)): _decode_pause(row)
            for row in self._connection.execute(query)
        }

    def pause(self, account: Account, kind: PauseKind, reason: str, stamp: Stamp) -> None:
        """Pause an account, so that it gets no new nonces.

        Open nonces are still tracked. A pause of kind `funds` ends when the balance suffices. If
        the signer refused to sign, a pause of kind `signer` ends when the signer signs again. Any
        other pause ends when an operator resumes the account.
        """
        self._connection.execute(
            update(pub_account)
            .where(_build_account_condition(account))
            .values(paused=True, pause_class=kind.value, pause_reason=reason)
        )
        self._journal.write("paused", stamp, f"{kind.value}: {reason}")

    def resume(self, account: Account, stamp: Stamp) -> None:
        """Resume a paused account."""
        self._connection.execute(
            update(pub_account)
            .where(_build_account_condition(account))
            .values(paused=False, pause_class=None, pause_reason=None)
        )
        self._journal.write("resumed", stamp, account.address)


def _build_account_condition(account: Account) -> ColumnElement[bool]:
    return and_(
        pub_account.c.chain_id == account.chain_id, pub_account.c.address == account.address
    )


def _decode_pause(row: Row[Any]) -> Pause:
    return Pause(PauseKind(row.pause_class or PauseKind.OPERATOR), row.pause_reason or "")


class NonceGapRepository:
    """Access to rebuilt nonces whose transactions are in no known block."""

    def __init__(self, connection: Connection, journal: Journal) -> None:
        self._connection = connection
        self._journal = journal

    def list_gaps(self, account: Account, from_nonce: int) -> list[int]:
        """Return the rebuilt nonces from `from_nonce` that are in no known block.

        `from_nonce` must be the account's transaction count including the mempool, because nonces
        from this count on are neither in a block nor in the mempool.
        """
        query = (
            select(pub_nonce.c.nonce)
            .where(_build_gap_condition(account), pub_nonce.c.nonce >= from_nonce)
            .order_by(pub_nonce.c.nonce)
        )
        return [nonce for (nonce,) in self._connection.execute(query)]

    def reopen_nonce(self, account: Account, nonce: int, stamp: Stamp) -> None:
        """Reopen a rebuilt nonce, so that the account's next call uses it.

        Raises:
            FatalError: the nonce was not rebuilt, is in a block, or has signed bytes.
        """
        reopen_statement = (
            update(pub_nonce)
            .where(_build_gap_condition(account), pub_nonce.c.nonce == nonce)
            .values(state=NonceState.OPEN.value, opened_at=stamp.at, finalised_at=None)
            .returning(pub_nonce.c.intent_id)
        )
        intent_id = self._connection.execute(reopen_statement).scalar_one_or_none()
        if intent_id is None:
            raise FatalError(
                f"outbox nonce {nonce} cannot be reopened; expected a rebuilt nonce without a "
                "block and without signed bytes"
            )
        self._journal.write("reopened", stamp, intent_id=int(intent_id), nonce=nonce)


def _build_gap_condition(account: Account) -> ColumnElement[bool]:
    has_attempt = exists().where(
        pub_attempt.c.chain_id == pub_nonce.c.chain_id,
        pub_attempt.c.sender == pub_nonce.c.sender,
        pub_attempt.c.nonce == pub_nonce.c.nonce,
    )
    is_final = pub_nonce.c.state == NonceState.FINAL.value
    return (
        build_account_condition(account)
        & is_final
        & pub_nonce.c.block_number.is_(None)
        & ~has_attempt
    )


class Outbox:
    """The repositories of the outbox, within one transaction.

    Each repository writes its own journal entries.
    """

    def __init__(self, connection: Connection) -> None:
        self.journal = Journal(connection)
        self.accounts = AccountRepository(connection, self.journal)
        self.intents = IntentRepository(connection, self.journal)
        self.slots = NonceSlotRepository(connection, self.journal, self.intents)
        self.gaps = NonceGapRepository(connection, self.journal)
        self.counts = OutboxStats(connection)


class OutboxStats:
    """Counts rows of pub_intent, pub_nonce and pub_attempt, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_nonce_progress_by_account(self) -> dict[Account, tuple[int, int]]:
        """Return the next and the lowest unfinished nonce of every enrolled account."""
        lowest_waiting_nonce = (
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
                func.coalesce(lowest_waiting_nonce, pub_account.c.next_nonce),
            )
        )
        return {Account(row[0], Address(row[1])): (row[2], row[3]) for row in rows}

    def add_finished_nonces(
        self, stats: OutboxStatistics, account: Account, first: int, below: int
    ) -> None:
        """Count an account's finished nonces in `stats`, from `first` to `below` - 1."""
        attempt_count = (
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
                attempt_count,
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
            receipt_outcome = "success" if row.receipt_status else "reverted"
            stats.add_finished_nonce(
                row.kind,
                "foreign" if is_foreign else receipt_outcome,
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
        """Count all transactions ever signed, by the kind of call and the reason for signing."""
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
        """Return the time of the last change of the longest unchanged intent, by (kind, state).

        Times are in unix seconds. Only intents that have not ended are included.
        """
        waiting_states = ("planned", "ready", "assigned", "live", "mined", "held")
        rows = self._connection.execute(
            select(pub_intent.c.kind, pub_intent.c.state, func.min(pub_intent.c.updated_at))
            .where(pub_intent.c.state.in_(waiting_states))
            .group_by(pub_intent.c.kind, pub_intent.c.state)
        )
        return {(row[0], row[1]): row[2] for row in rows}
