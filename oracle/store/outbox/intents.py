"""Stores intents, which are calls from planned to final, and journals their changes.

See docs/explanation/transactions.md#states.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, exists, func, insert, select, update

from oracle.errors import FatalError
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.records import (
    FAILED_STATES,
    PENDING_STATES,
    UNFINISHED_STATES,
    YIELDED_CLASS,
    Account,
    CallRequest,
    Intent,
    IntentState,
    PauseKind,
    Stamp,
)
from oracle.store.outbox.row_mapping import decode_intent_row, encode_request_row
from oracle.store.tables.outbox_tables import pub_attempt, pub_intent

# Values of columns that are written together with an intent's state.
Values = Mapping[str, str | int | None]

_NO_VALUES: Values = {}
_CLEARED_REASON: Values = {"error_class": None, "error_text": None, "not_before": None}
_STATES_WITHOUT_NONCE = (IntentState.PLANNED, IntentState.READY)


class IntentRepository:
    """Access to the table pub_intent, within one transaction."""

    def __init__(self, connection: Connection, journal: Journal) -> None:
        self._connection = connection
        self._journal = journal

    def add(self, request: CallRequest, stamp: Stamp) -> int | None:
        """Insert a planned intent and return its id, or None if its dedup key exists."""
        if self.find_by_dedup_key(request) is not None:
            return None
        row = encode_request_row(request) | {
            "state": IntentState.PLANNED.value,
            "created_at": stamp.at,
            "updated_at": stamp.at,
        }
        result = self._connection.execute(
            insert(pub_intent).values(row).returning(pub_intent.c.id)
        )
        intent_id = int(result.scalar_one())
        self._journal.write("planned", stamp, request.dedup_key, intent_id=intent_id)
        return intent_id

    def add_next_try(self, request: CallRequest, stamp: Stamp) -> int | None:
        """Insert an intent with the number of this try in its dedup key.

        Tries are the calls of the same kind for the same subject and round, in any state.
        """
        try_count = self.count_tries(request)
        return self.add(
            replace(request, dedup_key=f"{request.dedup_key}:try={try_count + 1}"), stamp
        )

    def find_by_dedup_key(self, request: CallRequest) -> Intent | None:
        """Return the intent with the dedup key of a request, whatever its state is.

        The result is None if there is no such intent.
        """
        is_same_request = and_(
            pub_intent.c.chain_id == request.account.chain_id,
            pub_intent.c.contract == request.contract,
            pub_intent.c.dedup_key == request.dedup_key,
        )
        return next(iter(self._load_intents(_ALL_INTENTS.where(is_same_request))), None)

    def change_state(
        self, intent: Intent, new_state: IntentState, stamp: Stamp, values: Values = _NO_VALUES
    ) -> None:
        """Change the state of an intent, and set `values` of other columns.

        Raises:
            FatalError: another writer has changed the row since it was read.
        """
        journalled_values = {name: value for name, value in values.items() if name != "nonce"}
        journal_detail = " ".join(
            f"{name}={value}" for name, value in journalled_values.items() if value is not None
        )
        self._update_intent_row(intent, new_state, stamp, values)
        self._journal.write(
            new_state.value, stamp, journal_detail, intent_id=intent.id, nonce=intent.nonce
        )

    def mark_mined(self, intent: Intent, outcome: str, stamp: Stamp) -> None:
        """Mark an intent as mined, and journal the outcome in its receipt.

        If the intent had lost its nonce to another call, this is cleared, because a reorg may have
        reversed it.

        Raises:
            FatalError: see `change_state`.
        """
        cleared_values: Values = {"superseded_by": None, "error_class": None, "error_text": None}
        self._update_intent_row(intent, IntentState.MINED, stamp, cleared_values)
        self._journal.write(
            IntentState.MINED.value, stamp, outcome, intent_id=intent.id, nonce=intent.nonce
        )

    def set_error(self, intent: Intent, error: tuple[str, str], stamp: Stamp) -> bool:
        """Store why an intent waits, and return whether this reason is new.

        Raises:
            FatalError: see `change_state`.
        """
        if (intent.error_class, intent.error_text) == error:
            return False
        values: Values = dict(zip(("error_class", "error_text"), error, strict=True))
        self._update_intent_row(intent, intent.state, stamp, values)
        self._journal.write(error[0], stamp, error[1], intent_id=intent.id, nonce=intent.nonce)
        return True

    def mark_ready(self, intent: Intent, gas_limit: int, max_cost: int, stamp: Stamp) -> None:
        """Mark an intent as ready after a successful simulation.

        `max_cost` is the maximum cost in wei.
        """
        limits: Values = {"gas_limit": gas_limit, "max_cost_wei": max_cost}
        self.change_state(intent, IntentState.READY, stamp, {**limits, **_CLEARED_REASON})

    def raise_reserved_cost(self, intent: Intent, cost: int) -> None:
        """Raise the reserved cost of an intent to `cost` wei, without ever lowering it.

        The caller stores the signed bytes in the same transaction. The cost cannot be derived from
        these bytes, because they do not contain the data fee of a rollup.
        """
        max_cost_wei = max(cost, intent.max_cost_wei or 0)
        self._connection.execute(
            update(pub_intent)
            .where(pub_intent.c.id == intent.id)
            .values(max_cost_wei=max_cost_wei)
        )

    def postpone_intent(
        self, intent: Intent, until: int, error: tuple[str, str], stamp: Stamp
    ) -> bool:
        """Postpone an intent until a block time, and return whether the reason is new.

        The intent becomes planned again. A nonce that was assigned becomes free for the next
        intent, because nothing was signed for it. `error` is (class, text). If the class is
        already set, the change is not journalled again. If the intent yields to another
        transmitter, the time is stored in `yielded_at`.
        """
        error_class, text = error
        values: dict[str, str | int | None] = {"error_class": error_class, "error_text": text}
        values["not_before"] = until
        if error_class == YIELDED_CLASS:
            values["yielded_at"] = stamp.at
        if intent.state is IntentState.PLANNED and intent.error_class == error_class:
            self._connection.execute(
                update(pub_intent).where(pub_intent.c.id == intent.id).values(values)
            )
            return False
        self.change_state(intent, IntentState.PLANNED, stamp, {**values, "nonce": None})
        return True

    def end_unsent_intent(
        self,
        intent: Intent,
        state: IntentState,
        reason: str,
        stamp: Stamp,
        error_class: str = "",
    ) -> None:
        """End an intent that was never sent, so that the next intent can use its nonce.

        If `error_class` is empty, the class is the part of `reason` before the first parenthesis.
        """
        values: Values = {
            "error_class": error_class or reason.split("(", maxsplit=1)[0],
            "error_text": reason,
            "nonce": None,
        }
        self.change_state(intent, state, stamp, values)

    def hold(self, intent: Intent, kind: PauseKind, text: str, stamp: Stamp) -> None:
        """Hold an intent without signed bytes until `release` is called, and free its nonce.

        Raises:
            FatalError: the intent may have signed bytes, or changed since it was read.
        """
        self._require_unsigned(intent)
        values: Values = {"error_class": kind.value, "error_text": text, "nonce": None}
        self.change_state(intent, IntentState.HELD, stamp, values)

    def release(self, intent: Intent, stamp: Stamp) -> None:
        """Move a held intent back to planned.

        Raises:
            FatalError: the intent has a nonce, or is no longer held.
        """
        if intent.state is not IntentState.HELD:
            raise FatalError(
                f"cannot release outbox intent {intent.id}: it is {intent.state}, not held"
            )
        self._require_unsigned(intent)
        self.change_state(intent, IntentState.PLANNED, stamp, _CLEARED_REASON)

    def cancel(self, intent: Intent, text: str, stamp: Stamp) -> None:
        """Cancel an intent that can no longer be mined, and free its nonce if it is unsigned.

        The intent has no signed bytes, or is held after its nonce was used.

        Raises:
            FatalError: the intent may have signed bytes and still be mined, or it changed since it
                was read.
        """
        values: Values = {"error_class": PauseKind.OPERATOR.value, "error_text": text}
        # A held intent with a nonce can no longer be mined. Either a foreign transaction used the
        # nonce, or the call was already mined without effect.
        if intent.state is not IntentState.HELD:
            self._require_unsigned(intent)
            values = {**values, "nonce": None}
        self.change_state(intent, IntentState.CANCELLED, stamp, values)

    def is_unsigned(self, intent: Intent) -> bool:
        """Return whether an intent has no nonce, or a nonce for which nothing was signed.

        An intent that is held or ended has used its nonce, even if no attempt is stored for it.
        """
        if intent.nonce is None:
            return True
        account = intent.request.account
        signed_bytes = exists().where(
            pub_attempt.c.chain_id == account.chain_id,
            pub_attempt.c.sender == account.address,
            pub_attempt.c.nonce == intent.nonce,
        )
        is_nonce_signed = self._connection.execute(select(signed_bytes)).scalar_one()
        return intent.state is IntentState.ASSIGNED and not is_nonce_signed

    def take_over_unsigned(self, account: Account, kinds: Collection[str], stamp: Stamp) -> int:
        """Move the unsigned calls of these kinds from other accounts to `account`.

        The result is the number of these calls. Their nonces become vacant. A call that was signed
        stays with its account.
        """
        is_signed = exists().where(pub_attempt.c.intent_id == pub_intent.c.id)
        unsent_intents = self._load_intents(
            _ALL_INTENTS.where(
                pub_intent.c.chain_id == account.chain_id,
                pub_intent.c.sender != account.address,
                pub_intent.c.kind.in_(kinds),
                pub_intent.c.state.in_(
                    [state.value for state in (*_STATES_WITHOUT_NONCE, IntentState.ASSIGNED)]
                ),
                ~is_signed,
            )
        )
        values: Values = {"sender": account.address, "nonce": None}
        for intent in unsent_intents:
            self.change_state(intent, IntentState.PLANNED, stamp, values)
        return len(unsent_intents)

    def list_for_nonce(self, account: Account, nonce: int) -> list[Intent]:
        """Return every intent that ever had this nonce, oldest first."""
        return self._load_intents(
            _select_intents_of_account(account).where(pub_intent.c.nonce == nonce)
        )

    def get(self, intent_id: int) -> Intent | None:
        row = self._connection.execute(_INTENT_BY_ID, {"intent_id": intent_id}).one_or_none()
        return None if row is None else decode_intent_row(row)

    def list_in_states(self, account: Account, states: Sequence[IntentState]) -> list[Intent]:
        """Return the account's intents in these states, by priority, then by age."""
        account_parameters = {"chain": account.chain_id, "account": account.address}
        parameters = {**account_parameters, "states": [state.value for state in states]}
        return [
            decode_intent_row(row)
            for row in self._connection.execute(_INTENTS_IN_STATES, parameters)
        ]

    def list_unfinished(self, account: Account) -> list[Intent]:
        """Return the account's intents that are planned, ready, assigned, live or mined."""
        return self.list_in_states(account, UNFINISHED_STATES)

    def find_most_urgent_pending_call(self, account: Account, kind: str) -> Intent | None:
        """Return the most urgent unmined call of a kind, or None if there is none."""
        pending_intents = self.list_in_states(account, PENDING_STATES)
        return next((intent for intent in pending_intents if intent.request.kind == kind), None)

    def count_tries(self, request: CallRequest) -> int:
        """Count the tries of a request.

        A try is an intent of the same kind, subject and round, in any state.
        """
        count_query = select(func.count()).where(
            pub_intent.c.chain_id == request.account.chain_id,
            pub_intent.c.kind == request.kind,
            pub_intent.c.subject == request.subject,
            pub_intent.c.round == request.round,
        )
        return int(self._connection.execute(count_query).scalar_one())

    def list_intents_from_period(self, account: Account, kind: str, first: int) -> list[Intent]:
        """Return the intents of a kind for period `first` and later, in any state."""
        is_in_periods = (pub_intent.c.kind == kind) & (pub_intent.c.period >= first)
        return self._load_intents(_select_intents_of_account(account).where(is_in_periods))

    def list_newest(
        self, limit: int, state: IntentState | None = None, kind: str | None = None
    ) -> list[Intent]:
        """Return the last `limit` intents, newest first.

        `state` and `kind` select intents of one state or kind.
        """
        query = (
            _ALL_INTENTS
            if state is None
            else _ALL_INTENTS.where(pub_intent.c.state == state.value)
        )
        query = query if kind is None else query.where(pub_intent.c.kind == kind)
        return self._load_intents(query.order_by(pub_intent.c.id.desc()).limit(limit))

    def count_by_kind_and_state(self) -> dict[tuple[str, str], int]:
        rows = self._connection.execute(
            select(pub_intent.c.kind, pub_intent.c.state, func.count()).group_by(
                pub_intent.c.kind, pub_intent.c.state
            )
        )
        return {(row[0], row[1]): row[2] for row in rows}

    def count_failures_by_reason(self, kinds: Collection[str]) -> dict[str, int]:
        """Count the failed intents of these kinds by reason."""
        rows = self._connection.execute(
            select(pub_intent.c.error_class, func.count())
            .where(
                pub_intent.c.kind.in_(sorted(kinds)),
                pub_intent.c.state.in_([state.value for state in FAILED_STATES]),
            )
            .group_by(pub_intent.c.error_class)
        )
        counts: dict[str, int] = {}
        for error_class, count in rows:
            # The reason is the name of the contract's error, without its arguments.
            reason = (error_class or "unknown").split("(", maxsplit=1)[0]
            counts[reason] = counts.get(reason, 0) + count
        return counts

    def expire_intents_above(self, block: int, stamp: Stamp) -> int:
        """Expire the intents planned after `block` that have no nonce; return their number.

        Intents with a nonce are kept. The contract rejects their calls, and the receipts show it.
        """
        stale_intents = self._load_intents(
            _ALL_INTENTS.where(
                pub_intent.c.as_of_block > block,
                pub_intent.c.state.in_([state.value for state in _STATES_WITHOUT_NONCE]),
            )
        )
        for intent in stale_intents:
            self.change_state(intent, IntentState.EXPIRED, stamp, {"error_class": "as_of_reorged"})
        return len(stale_intents)

    def _require_unsigned(self, intent: Intent) -> None:
        if not self.is_unsigned(intent):
            raise FatalError(
                f"cannot hold, release or cancel outbox intent {intent.id}: it has nonce "
                f"{intent.nonce} and may still land"
            )

    def _update_intent_row(
        self, intent: Intent, new_state: IntentState, stamp: Stamp, values: Values
    ) -> None:
        is_unchanged = (pub_intent.c.id == intent.id) & (pub_intent.c.state == intent.state.value)
        result = self._connection.execute(
            update(pub_intent)
            .where(is_unchanged)
            .values({**values, "state": new_state.value, "updated_at": stamp.at})
        )
        if result.rowcount != 1:
            raise FatalError(
                f"outbox intent {intent.id} is no longer {intent.state}; another process changed "
                "it"
            )

    def _load_intents(self, query: Select[Any]) -> list[Intent]:
        return [decode_intent_row(row) for row in self._connection.execute(query)]


_ALL_INTENTS = select(pub_intent)
# These statements are built once, because every tick runs them many times, and building a
# statement takes longer than running it.
_INTENT_BY_ID = _ALL_INTENTS.where(pub_intent.c.id == bindparam("intent_id"))
_INTENTS_IN_STATES = _ALL_INTENTS.where(
    pub_intent.c.chain_id == bindparam("chain"),
    pub_intent.c.sender == bindparam("account"),
    pub_intent.c.state.in_(bindparam("states", expanding=True)),
).order_by(pub_intent.c.priority, pub_intent.c.id)


def _select_intents_of_account(account: Account) -> Select[Any]:
    intents_on_chain = _ALL_INTENTS.where(pub_intent.c.chain_id == account.chain_id)
    return intents_on_chain.where(pub_intent.c.sender == account.address).order_by(pub_intent.c.id)
