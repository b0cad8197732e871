"""Confirms subscriptions of node owners, and delivers their notices.

Each subscription has its own progress, retries and errors, like a target of `[[notify]]`. A
subscription whose deliveries fail for days is ended, with a reason that its owner can list.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from typing_extensions import override

from oracle.errors import InputError
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.notice_kinds import OWNER_KINDS, OWNER_NETWORK_KINDS
from oracle.notify.subscriptions import (
    MAIL,
    SubscriptionTerms,
    activate,
    build_subscription_link,
    compute_link_token,
    find_target_rejection_reason,
)
from oracle.notify.target import Message, NoticeFilter
from oracle.notify.target_delivery import (
    TargetDelivery,
    compute_backoff_seconds,
    describe_delivery_failure,
)
from oracle.notify.webhook import Webhook, WebhookEndpoint
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import DeliveryProgress, Notice
from oracle.store.subscription_repository import Subscription, SubscriptionState
from oracle.telemetry import service_metrics
from oracle.telemetry.logger import get_logger

# Maximum number of concurrent deliveries to subscribers. Slow subscribers delay each other, but
# they do not delay the daemon.
_MAX_RUNNING = 16
_TIMEOUT_SECONDS = 5.0
_MAX_CONFIRMATION_TRIES = 5
# Seconds after which an unconfirmed subscription ends.
_CONFIRMATION_SECONDS = 86_400


class SubscriberTarget:
    """A subscriber's webhook or mailbox; every message has a link to unsubscribe."""

    def __init__(
        self, terms: SubscriptionTerms, entry: Subscription, clock: Callable[[], float]
    ) -> None:
        """Create the target; raise InputError if the settings do not permit it now."""
        self.name = entry.progress_name
        self.notice_filter = NoticeFilter(
            kinds=entry.kinds or OWNER_KINDS,
            nodes=frozenset({entry.node}),
            network_kinds=OWNER_NETWORK_KINDS,
        )
        self._entry = entry
        self._link = build_subscription_link(terms, entry)
        self._target = _open_target(self.name, self.notice_filter, terms, entry, clock)

    def send(self, message: Message) -> None:
        """Send a message once; raise NotDeliveredError if it is not accepted."""
        self._target.send(self._add_subscription_link(message, "End this subscription"))

    def send_confirmation_request(self) -> None:
        """Send a challenge to a webhook, or a confirmation link to a mailbox.

        Raises:
            NotDeliveredError: the message was not accepted, or the challenge was not returned.
        """
        entry = self._entry
        request_text = (
            f"Confirm that notices about the node {entry.node} are sent here. If you did not "
            "request this, ignore it."
        )
        body: dict[str, object] = {"kind": "confirm", "node": entry.node, "text": request_text}
        message = Message(f"confirm-{entry.id}", "confirm", request_text, body)
        message = self._add_subscription_link(message, "Confirm it")
        if isinstance(self._target, AppriseTarget):
            self._target.send(message)
            return
        link_token = compute_link_token(entry)
        body = {**message.body, "challenge": link_token}
        self._target.send_challenge(replace(message, body=body), link_token)

    def _add_subscription_link(self, message: Message, purpose: str) -> Message:
        text = message.text
        if self._entry.channel == MAIL:
            text = f"{text}\n\n{purpose}: {self._link}\n"
        return replace(message, text=text, body={**message.body, "unsubscribe": self._link})


def _open_target(
    name: str,
    notice_filter: NoticeFilter,
    terms: SubscriptionTerms,
    entry: Subscription,
    clock: Callable[[], float],
) -> Webhook | AppriseTarget:
    reason = find_target_rejection_reason(terms, entry.channel, entry.target)
    if reason is not None:
        raise InputError(reason)
    if entry.channel == MAIL and terms.mail_url is not None:
        return AppriseTarget(name, notice_filter, terms.mail_url, entry.target)
    endpoint = WebhookEndpoint(
        entry.target,
        entry.secret.hex().encode(),
        _TIMEOUT_SECONDS,
        terms.allow_private,
        shown_as="the webhook",
    )
    return Webhook(name, notice_filter, endpoint, clock)


@dataclass(slots=True)
class SubscriberDelivery(TargetDelivery):
    """Delivers notices to a subscriber, and ends the subscription after too many failures."""

    max_tries: int = field(kw_only=True)
    entry: Subscription = field(kw_only=True)

    @override
    def save_progress(self, uow: UnitOfWork, progress: DeliveryProgress) -> None:
        # The owner may have unsubscribed while the message was being sent.
        entry = uow.subscriptions.get(self.entry.id)
        if entry is None or entry.state != SubscriptionState.ACTIVE:
            return
        if progress.tries >= self.max_tries:
            reason = f"{progress.tries} deliveries in a row failed: {progress.last_error}"
            end_subscription(uow, entry, reason, int(self.clock()))
        else:
            uow.notices.save_progress(progress)

    @override
    def report_success(self) -> None:
        service_metrics.SUBSCRIBER_MESSAGES.labels("delivered").inc()

    @override
    def report_failure(self, notice: Notice, tries: int, reason: str) -> None:
        service_metrics.SUBSCRIBER_MESSAGES.labels("failed").inc()


@dataclass(slots=True)
class SubscriptionConfirmation:
    """Requests the confirmation of a new subscription."""

    target: SubscriberTarget
    store: Store
    clock: Callable[[], float]
    entry: Subscription
    call: BackgroundCall[None] = field(default_factory=BackgroundCall)

    def deliver_due_notice(self, wait_seconds: float | None) -> bool:
        """Send the confirmation request, or record its result.

        Return whether the request succeeded.
        """
        self.call.wait_seconds = wait_seconds
        if not self.call.is_pending:
            self.call.start(self.target.send_confirmation_request, f"confirm {self.entry.id}")
        finished_call = self.call.take_finished_call()
        if finished_call is None:
            return False
        now = int(self.clock())
        error = finished_call.exception()
        delivery_result = "delivered" if error is None else "failed"
        service_metrics.SUBSCRIBER_MESSAGES.labels(delivery_result).inc()
        with self.store.transaction() as uow:
            entry = uow.subscriptions.get(self.entry.id)
            if entry is None or entry.state != SubscriptionState.NEW:
                return False
            if isinstance(error, Exception):
                self._record_failure(uow, describe_delivery_failure(error), now)
            elif self.entry.channel == MAIL:
                uow.subscriptions.set_state(entry.id, SubscriptionState.UNCONFIRMED, now)
            else:
                activate(uow, entry.id, now)
        return error is None

    def _record_failure(self, uow: UnitOfWork, reason: str, now: int) -> None:
        name = self.entry.progress_name
        progress = uow.notices.find_progress(name) or DeliveryProgress(name, 0)
        try_count = progress.tries + 1
        if try_count >= _MAX_CONFIRMATION_TRIES:
            end_subscription(uow, self.entry, f"not confirmed: {reason}", now)
            return
        next_at = now + compute_backoff_seconds(try_count)
        uow.notices.save_progress(
            replace(progress, tries=try_count, next_at=next_at, last_error=reason)
        )


def end_subscription(uow: UnitOfWork, entry: Subscription, reason: str, now: int) -> None:
    """End a subscription, and log the reason.

    The owner can list the reason.
    """
    uow.subscriptions.end(entry.id, reason, now)
    get_logger().warning(
        "subscription_ended", subscription=entry.id, node=entry.node, reason=reason
    )


@dataclass(slots=True)
class SubscriberDeliveries:
    """All deliveries to subscribers; `clock` returns unix seconds."""

    terms: SubscriptionTerms
    store: Store
    clock: Callable[[], float]
    _running: dict[str, SubscriberDelivery | SubscriptionConfirmation] = field(
        default_factory=dict
    )

    def run_once(self, wait_seconds: float | None) -> bool:
        """Start due deliveries and record finished ones.

        Return whether more may be due now. `wait_seconds` limits the wait for each response, and a
        later run records a response that arrives later. None waits until all responses have
        arrived.
        """
        self._start_due_deliveries(int(self.clock()))
        has_sent = False
        for subscription_id, delivery in list(self._running.items()):
            has_sent |= delivery.deliver_due_notice(None if wait_seconds is None else 0.0)
            if not delivery.call.is_pending:
                del self._running[subscription_id]
        return has_sent

    def _start_due_deliveries(self, now: int) -> None:
        with self.store.read_transaction() as uow:
            due_subscriptions = uow.subscriptions.list_due(
                now, OWNER_NETWORK_KINDS, list(self._running), _MAX_RUNNING - len(self._running)
            )
            expired_subscriptions = uow.subscriptions.list_unconfirmed_before(
                now - _CONFIRMATION_SECONDS
            )
            count_by_state = uow.subscriptions.count_by_state()
        for state in SubscriptionState:
            if state != SubscriptionState.ENDED:
                service_metrics.SUBSCRIPTIONS.labels(state).set(count_by_state.get(state, 0))
        for entry in due_subscriptions:
            self._start_delivery(entry, now)
        if expired_subscriptions:
            with self.store.transaction() as uow:
                for entry in expired_subscriptions:
                    end_subscription(uow, entry, "not confirmed within a day", now)

    def _start_delivery(self, entry: Subscription, now: int) -> None:
        try:
            target = SubscriberTarget(self.terms, entry, self.clock)
        except InputError:
            reason = "the operator's settings no longer permit this target"
            with self.store.transaction() as uow:
                end_subscription(uow, entry, reason, now)
            return
        self._running[entry.id] = (
            SubscriptionConfirmation(target, self.store, self.clock, entry)
            if entry.state == SubscriptionState.NEW
            else SubscriberDelivery(
                target,
                self.store,
                self.clock,
                max_tries=self.terms.max_tries,
                entry=entry,
            )
        )
