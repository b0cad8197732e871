"""Intents: calls requested on chain, from planned to final; each change is journalled.

See docs/explanation/transactions.md#states.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, func, insert, select, update

from oracle.errors import FatalError
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.records import (
    FAILED,
    ON_ITS_WAY,
    UNFINISHED,
    YIELDED,
    Account,
    CallRequest,
    Intent,
    IntentState,
    JournalSubject,
    PauseKind,
    Stamp,
)
from oracle.store.outbox.row_mapping import intent_of, request_row
from oracle.store.tables.outbox_tables import pub_intent

# Columns that a change of state may set as well.
Values = Mapping[str, str | int | None]

_NO_VALUES: Values = {}
_NO_REASON: Values = {"error_class": None, "error_text": None, "not_before": None}
_NO_NONCE_YET = (IntentState.PLANNED, IntentState.READY)


class Intents:
    """The table pub_intent, inside one transaction."""

    def __init__(self, connection: Connection, journal: Journal) -> None:
        self._connection = connection
        self._journal = journal

    def add(self, request: CallRequest, stamp: Stamp) -> int | None:
        """Insert a request as planned, or return None if its dedup key exists already."""
        same = and_(
            pub_intent.c.chain_id == request.account.chain_id,
            pub_intent.c.contract == request.contract,
            pub_intent.c.dedup_key == request.dedup_key,
        )
        if self._connection.execute(select(pub_intent.c.id).where(same)).first() is not None:
            return None
        row = request_row(request) | {
            "state": IntentState.PLANNED.value,
            "created_at": stamp.at,
            "updated_at": stamp.at,
        }
        written = self._connection.execute(
            insert(pub_intent).values(row).returning(pub_intent.c.id)
        )
        intent_id = int(written.scalar_one())
        self._journal.write("planned", stamp, JournalSubject(intent_id), request.dedup_key)
        return intent_id

    def move(
        self, intent: Intent, to: IntentState, stamp: Stamp, values: Values = _NO_VALUES
    ) -> None:
        """Change the state and the accompanying values.

        Raises:
            FatalError: the row changed since it was read: another writer was active.
        """
        told = {name: value for name, value in values.items() if name != "nonce"}
        detail = " ".join(f"{name}={value}" for name, value in told.items() if value is not None)
        self._change(intent, to, stamp, values)
        self._journal.write(to.value, stamp, JournalSubject(intent.id, intent.nonce), detail)

    def note_mined(self, intent: Intent, outcome: str, stamp: Stamp) -> None:
        """Move to mined with the outcome in the journal: a receipt is no error.

        An earlier loss of the nonce is cleared, because a reorg may have reversed it.

        Raises:
            FatalError: see `change_state`.
        """
        no_more: Values = {"superseded_by": None, "error_class": None, "error_text": None}
        self._change(intent, IntentState.MINED, stamp, no_more)
        about = JournalSubject(intent.id, intent.nonce)
        self._journal.write(IntentState.MINED.value, stamp, about, outcome)

    def set_error(self, intent: Intent, why: tuple[str, str], stamp: Stamp) -> bool:
        """Store why the intent waits, as (class, text); return whether that is new.

        Raises:
            FatalError: see `change_state`.
        """
        if (intent.error_class, intent.error_text) == why:
            return False
        values: Values = dict(zip(("error_class", "error_text"), why, strict=True))
        self._change(intent, intent.state, stamp, values)
        self._journal.write(why[0], stamp, JournalSubject(intent.id, intent.nonce), why[1])
        return True

    def make_ready(self, intent: Intent, gas_limit: int, max_cost: int, stamp: Stamp) -> None:
        """Mark as ready after a successful simulation, with gas limit and max cost in wei."""
        found: Values = {"gas_limit": gas_limit, "max_cost_wei": max_cost}
        self.move(intent, IntentState.READY, stamp, {**found, **_NO_REASON})

    def reserve(self, intent: Intent, cost: int) -> None:
        """Raise the reserved cost to `cost` wei, if that is higher.

        Part of the commit that stores the signed bytes: a rollup's fee beside gas is not in them.
        """
        most = max(cost, intent.max_cost_wei or 0)
        self._connection.execute(
            update(pub_intent).where(pub_intent.c.id == intent.id).values(max_cost_wei=most)
        )

    def postpone(self, intent: Intent, until: int, why: tuple[str, str], stamp: Stamp) -> bool:
        """Move back to planned until a chain time; return whether the reason is new.

        An assigned nonce becomes free for the next intent, because nothing was signed for it.
        `error` is (class, text); a class that is set already is not journalled again. The time of
        yielding to another transmitter is kept.
        """
        error_class, text = why
        reason: dict[str, str | int | None] = {"error_class": error_class, "error_text": text}
        reason["not_before"] = until
        if error_class == YIELDED:
            reason["yielded_at"] = stamp.at
        if intent.state is IntentState.PLANNED and intent.error_class == error_class:
            self._connection.execute(
                update(pub_intent).where(pub_intent.c.id == intent.id).values(reason)
            )
            return False
        self.move(intent, IntentState.PLANNED, stamp, {**reason, "nonce": None})
        return True

    def end(self, intent: Intent, state: IntentState, reason: str, stamp: Stamp) -> None:
        """End an intent that was never sent; an assigned nonce becomes free for the next one."""
        word = reason.split("(", maxsplit=1)[0]
        values: Values = {"error_class": word, "error_text": reason, "nonce": None}
        self.move(intent, state, stamp, values)

    def hold(self, intent: Intent, kind: PauseKind, text: str, stamp: Stamp) -> None:
        """Hold an intent without a nonce until `release`.

        Raises:
            FatalError: the intent has a nonce, or changed since it was read.
        """
        values: Values = {"error_class": kind.value, "error_text": text}
        self.move(_without_nonce(intent), IntentState.HELD, stamp, values)

    def release(self, intent: Intent, stamp: Stamp) -> None:
        """Move a held intent back to planned.

        Raises:
            FatalError: the intent has a nonce, or is no longer held.
        """
        if intent.state is not IntentState.HELD:
            raise FatalError(f"outbox intent {intent.id} is {intent.state}, not held")
        self.move(_without_nonce(intent), IntentState.PLANNED, stamp, _NO_REASON)

    def cancel(self, intent: Intent, text: str, stamp: Stamp) -> None:
        """Cancel for good an intent that has no nonce, or that is held after its nonce ended.

        Raises:
            FatalError: the intent has a nonce and may land, or changed since it was read.
        """
        values: Values = {"error_class": PauseKind.OPERATOR.value, "error_text": text}
        # An intent held with a nonce is over: the nonce is foreign, or had no effect.
        is_over = intent.state is IntentState.HELD
        given_up = intent if is_over else _without_nonce(intent)
        self.move(given_up, IntentState.CANCELLED, stamp, values)

    def bound_to(self, account: Account, nonce: int) -> list[Intent]:
        """Return every intent that was ever assigned to a nonce, first one first."""
        return self._where(_all_of(account).where(pub_intent.c.nonce == nonce))

    def named(self, intent_id: int) -> Intent | None:
        row = self._connection.execute(_NAMED, {"named": intent_id}).one_or_none()
        return None if row is None else intent_of(row)

    def in_states(self, account: Account, states: Sequence[IntentState]) -> list[Intent]:
        """Return the account's intents in these states, by priority, then oldest first."""
        whose = {"chain": account.chain_id, "account": account.address}
        chosen = {**whose, "states": [state.value for state in states]}
        return [intent_of(row) for row in self._connection.execute(_IN_STATES, chosen)]

    def unfinished(self, account: Account) -> list[Intent]:
        """Return the unfinished intents: planned, ready, assigned, live, mined."""
        return self.in_states(account, UNFINISHED)

    def on_its_way(self, account: Account, kind: str) -> Intent | None:
        """Return the most urgent pending call of a kind, or None; mined ones do not count."""
        open_ = self.in_states(account, ON_ITS_WAY)
        return next((one for one in open_ if one.request.kind == kind), None)

    def tries(self, account: Account, kind: str, subject: str, around: int | None) -> int:
        """Count the intents of a kind about a subject in a round (or None); ended ones too."""
        counted = select(func.count()).where(
            pub_intent.c.chain_id == account.chain_id,
            pub_intent.c.kind == kind,
            pub_intent.c.subject == subject,
            pub_intent.c.round == around,
        )
        return int(self._connection.execute(counted).scalar_one())

    def of_periods(self, account: Account, kind: str, first: int) -> list[Intent]:
        """Return the intents of a kind for period `first` and later ones, ended ones too."""
        chosen = (pub_intent.c.kind == kind) & (pub_intent.c.period >= first)
        return self._where(_all_of(account).where(chosen))

    def newest(
        self, limit: int, state: IntentState | None = None, kind: str | None = None
    ) -> list[Intent]:
        """Return the last `limit` intents, optionally of one state or kind, newest first."""
        chosen = _ALL if state is None else _ALL.where(pub_intent.c.state == state.value)
        chosen = chosen if kind is None else chosen.where(pub_intent.c.kind == kind)
        return self._where(chosen.order_by(pub_intent.c.id.desc()).limit(limit))

    def counts(self) -> dict[tuple[str, str], int]:
        """Count intents by (kind, state)."""
        rows = self._connection.execute(
            select(pub_intent.c.kind, pub_intent.c.state, func.count()).group_by(
                pub_intent.c.kind, pub_intent.c.state
            )
        )
        return {(row[0], row[1]): row[2] for row in rows}

    def failures(self, kinds: Collection[str]) -> dict[str, int]:
        """Count the failed intents of these kinds, by reason."""
        rows = self._connection.execute(
            select(pub_intent.c.error_class, func.count())
            .where(
                pub_intent.c.kind.in_(sorted(kinds)),
                pub_intent.c.state.in_([state.value for state in FAILED]),
            )
            .group_by(pub_intent.c.error_class)
        )
        counts: dict[str, int] = {}
        for error_class, count in rows:
            # The contract's error name, without its arguments.
            reason = (error_class or "unknown").split("(", maxsplit=1)[0]
            counts[reason] = counts.get(reason, 0) + count
        return counts

    def forget_above(self, block: int, stamp: Stamp) -> int:
        """Expire intents planned on blocks above `block` without a nonce; return how many.

        Intents with a nonce are kept: the contract rejects the call, and the receipt shows it.
        """
        stale = self._where(
            _ALL.where(
                pub_intent.c.as_of_block > block,
                pub_intent.c.state.in_([state.value for state in _NO_NONCE_YET]),
            )
        )
        for intent in stale:
            self.move(intent, IntentState.EXPIRED, stamp, {"error_class": "as_of_reorged"})
        return len(stale)

    def _change(self, intent: Intent, to: IntentState, stamp: Stamp, values: Values) -> None:
        mine = (pub_intent.c.id == intent.id) & (pub_intent.c.state == intent.state.value)
        changed = self._connection.execute(
            update(pub_intent)
            .where(mine)
            .values({**values, "state": to.value, "updated_at": stamp.at})
        )
        if changed.rowcount != 1:
            raise FatalError(f"outbox intent {intent.id} is no longer {intent.state}")

    def _where(self, chosen: Select[Any]) -> list[Intent]:
        return [intent_of(row) for row in self._connection.execute(chosen)]


_ALL = select(pub_intent)
# Built once: every tick runs them many times, and building one costs more than running it.
_NAMED = _ALL.where(pub_intent.c.id == bindparam("named"))
_IN_STATES = _ALL.where(
    pub_intent.c.chain_id == bindparam("chain"),
    pub_intent.c.sender == bindparam("account"),
    pub_intent.c.state.in_(bindparam("states", expanding=True)),
).order_by(pub_intent.c.priority, pub_intent.c.id)


def _all_of(account: Account) -> Select[Any]:
    mine = _ALL.where(pub_intent.c.chain_id == account.chain_id)
    return mine.where(pub_intent.c.sender == account.address).order_by(pub_intent.c.id)


def _without_nonce(intent: Intent) -> Intent:
    if intent.nonce is not None:
        raise FatalError(f"outbox intent {intent.id} has nonce {intent.nonce}: it may land")
    return intent
