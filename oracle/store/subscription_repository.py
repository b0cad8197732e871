"""Stores the subscriptions of node owners to notices (docs/how-to/get-notified.md)."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    exists,
    func,
    literal,
    not_,
    select,
    update,
)

from oracle.domain.ids import Address
from oracle.store.bulk import insert_rows, upsert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.notice_repository import MAX_RETRY_SECONDS
from oracle.store.tables.notice_tables import (
    notice,
    notify_place,
    subscription,
    subscription_nonce,
)

_PROGRESS_PREFIX = "subscription:"


class SubscriptionState(StrEnum):
    # No confirmation has been requested yet.
    NEW = "new"
    # A mail with a confirmation link has been sent.
    UNCONFIRMED = "unconfirmed"
    ACTIVE = "active"
    ENDED = "ended"


_LIVE_STATES = tuple(state for state in SubscriptionState if state != SubscriptionState.ENDED)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A node owner's subscription to notices.

    Times are in unix seconds. An empty `kinds` selects all kinds.
    """

    id: str
    node: Address
    channel: str
    target: str = field(repr=False)
    kinds: frozenset[str]
    secret: bytes = field(repr=False)
    created_at: int
    state: SubscriptionState = SubscriptionState.NEW
    reason: str | None = None

    @property
    def progress_name(self) -> str:
        """The name under which the subscription's delivery progress is stored."""
        return _PROGRESS_PREFIX + self.id


class SubscriptionRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def use_nonce(self, node: Address, nonce: int) -> bool:
        """Store the nonce of a node's request, or return False if the nonce is not higher."""
        query = select(subscription_nonce.c.nonce).where(
            subscription_nonce.c.node == decode_hex(node)
        )
        last_nonce = self._connection.execute(query).scalar_one_or_none()
        if last_nonce is not None and nonce <= last_nonce:
            return False
        upsert_rows(self._connection, subscription_nonce, [(decode_hex(node), nonce)])
        return True

    def add(self, entry: Subscription) -> None:
        """Insert a new subscription."""
        row = (
            *(entry.id, decode_hex(entry.node), entry.channel, entry.target),
            *(",".join(sorted(entry.kinds)), entry.secret, entry.state.value, entry.reason),
            *(entry.created_at, entry.created_at, _hash_target(entry.target)),
        )
        insert_rows(self._connection, subscription, [row])

    def get(self, subscription_id: str) -> Subscription | None:
        return next(iter(self._select(subscription.c.id == subscription_id)), None)

    def list_for_node(self, node: Address) -> list[Subscription]:
        """Return the subscriptions of a node, oldest first."""
        return self._select(subscription.c.node == decode_hex(node))

    def list_all(self) -> list[Subscription]:
        """Return all subscriptions, oldest first, even those that ended recently."""
        return self._select()

    def list_live(self) -> list[Subscription]:
        """Return all subscriptions that have not ended, oldest first."""
        return self._select(subscription.c.state.in_(_LIVE_STATES))

    def count_by_state(self) -> dict[str, int]:
        query = select(subscription.c.state, func.count()).group_by(subscription.c.state)
        return {state: int(count) for state, count in self._connection.execute(query)}

    def count_created_since(self, time: int, target: str) -> int:
        """Count the subscriptions that were created for a target since `time`.

        Subscriptions of all nodes count, and also those that have ended.
        """
        query = select(func.count()).where(
            subscription.c.target_hash == _hash_target(target), subscription.c.created_at >= time
        )
        return int(self._connection.execute(query).scalar_one())

    def list_due(
        self, time: int, network_kinds: Collection[str], excluded_ids: Collection[str], limit: int
    ) -> list[Subscription]:
        """Return the subscriptions with a message to send, starting with the longest wait.

        The message is a request for confirmation, a notice about the node, or a notice about the
        network if its kind is in `network_kinds`.
        """
        newest_network_seq = (
            select(notice.c.seq)
            .where(notice.c.node.is_(None), notice.c.kind.in_(network_kinds))
            .order_by(notice.c.seq.desc())
            .limit(1)
        )
        newest_seq = self._connection.execute(newest_network_seq).scalar_one_or_none() or 0
        progress_columns = notify_place.c
        has_notice = (progress_columns.seq < newest_seq) | exists().where(
            notice.c.node == subscription.c.node, notice.c.seq > progress_columns.seq
        )
        is_active = subscription.c.state == SubscriptionState.ACTIVE
        is_new = subscription.c.state == SubscriptionState.NEW
        query = (
            select(subscription)
            .join(
                notify_place,
                progress_columns.target == literal(_PROGRESS_PREFIX) + subscription.c.id,
            )
            .where(
                # This is the same condition as in `DeliveryProgress.is_due`.
                not_(progress_columns.next_at.between(time + 1, time + MAX_RETRY_SECONDS)),
                is_new | (is_active & has_notice),
                subscription.c.id.not_in(excluded_ids),
            )
            .order_by(progress_columns.next_at, progress_columns.seq, subscription.c.id)
            .limit(limit)
        )
        return [_decode_row(row) for row in self._connection.execute(query)]

    def list_unconfirmed_before(self, time: int) -> list[Subscription]:
        """Return the unconfirmed subscriptions created before `time`."""
        states = (SubscriptionState.NEW, SubscriptionState.UNCONFIRMED)
        return self._select(subscription.c.state.in_(states), subscription.c.created_at < time)

    def set_state(self, subscription_id: str, state: SubscriptionState, time: int) -> None:
        self._update(subscription_id, state=state.value, changed_at=time)

    def end(self, subscription_id: str, reason: str, time: int) -> None:
        """End a subscription, and erase its target and its delivery progress."""
        values = {"state": SubscriptionState.ENDED.value, "reason": reason, "target": ""}
        self._update(subscription_id, **values, changed_at=time)
        name = _PROGRESS_PREFIX + subscription_id
        self._connection.execute(delete(notify_place).where(notify_place.c.target == name))

    def prune_ended(self, time: int) -> None:
        """Delete the subscriptions that ended before `time`."""
        self._connection.execute(
            delete(subscription).where(
                subscription.c.state == SubscriptionState.ENDED, subscription.c.changed_at < time
            )
        )

    def _update(self, subscription_id: str, **values: Any) -> None:  # noqa: ANN401  columns
        is_subscription = subscription.c.id == subscription_id
        self._connection.execute(update(subscription).where(is_subscription).values(**values))

    def _select(self, *conditions: ColumnElement[bool]) -> list[Subscription]:
        order_columns = subscription.c.created_at, subscription.c.id
        query = select(subscription).where(*conditions).order_by(*order_columns)
        return [_decode_row(row) for row in self._connection.execute(query)]


def _hash_target(target: str) -> bytes:
    return hashlib.sha256(target.encode()).digest()


def _decode_row(row: Any) -> Subscription:  # noqa: ANN401  a row of any driver
    return Subscription(
        id=row.id,
        node=Address(encode_hex(row.node)),
        channel=row.channel,
        target=row.target,
        kinds=frozenset(filter(None, row.kinds.split(","))),
        secret=row.secret,
        created_at=row.created_at,
        state=SubscriptionState(row.state),
        reason=row.reason,
    )
